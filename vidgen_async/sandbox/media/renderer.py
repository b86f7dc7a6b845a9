"""Draws a film and encodes it as an H.264 MP4 for any player. Runs in a thread, without the service."""

import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
from PIL import Image, ImageDraw, ImageOps

from vidgen_async.sandbox.media.backgrounds import Scene, hills, open_picture, scene_for
from vidgen_async.sandbox.media.text_rendering import ACCENT, badge, caption, even, margin_of, note_size, time_code
from vidgen_async.sandbox.media.video_content import Film, Picture
from vidgen_async.sandbox.media.yuv_planes import Overlay, Planes

FPS = 24
#: Frames in which one picture becomes the next, at most.
FADE = 14
#: The colour space of Planes in the terms of the encoder: ITU-R BT.601, limited range.
_BT601, _LIMITED = 6, 1


class RenderingStopped(Exception):  # noqa: N818 - not an error: the sandbox was closed
    """The rendering was stopped before its end."""


def render(film: Film, is_stopped: Callable[[], bool]) -> bytes:
    """Return the film as an MP4 with its index before its data.

    Raises:
        RenderingStopped: ``is_stopped()``, which is called before each frame, was true.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        path = Path(folder) / "film.mp4"  # the encoder can move the index to the front of a file only
        with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
            stream = container.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "crf": "21"})
            stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
            stream.codec_context.thread_count = 1
            stream.codec_context.colorspace, stream.codec_context.color_range = _BT601, _LIMITED
            for number, frame in enumerate(_frames(film)):
                if is_stopped():
                    raise RenderingStopped
                frame.pts, frame.time_base = number, Fraction(1, FPS)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path.read_bytes()


def _frames(film: Film) -> Iterator[av.VideoFrame]:
    count, overlays = film.seconds * FPS, _Overlays(film)
    for number, (index, planes) in enumerate(_background(film, count)):
        overlays.put(planes, index, number, count)
        frame = av.VideoFrame(film.width, film.height, "yuv420p")
        for target, plane in zip(frame.planes, planes.each(), strict=True):
            target.update(_rows(plane, target.line_size))
        yield frame


def _background(film: Film, count: int) -> Iterator[tuple[int, Planes]]:
    """Return for each frame the index of its picture and its planes. Each scene fades into the next one."""
    number = max(1, len(film.pictures))
    starts = [count * index // number for index in range(number + 1)]
    fade = min(FADE, count // number // 3)
    scene, start = _scene(film, 0, starts), 0
    for index in range(number):
        following, end = None, starts[index + 1]
        for at in range(starts[index], end):
            planes = scene.at(at - start)
            if index + 1 < number and at >= end - fade:
                following = following or _scene(film, index + 1, starts)
                planes = planes.blend(following.at(at - end + fade), (at - end + fade + 1) / (fade + 1))
            yield index, planes
        if following is not None:
            scene, start = following, end - fade


def _scene(film: Film, index: int, starts: list[int]) -> Scene:
    frames = starts[index + 1] - starts[index] + FADE
    if not film.pictures:
        return hills(film, frames)
    return scene_for(film.pictures[index], film, frames, backwards=index % 2 == 1)


class _Overlays:
    """What is drawn on the scenes: caption, badge, thumbnails, time and a progress bar."""

    def __init__(self, film: Film) -> None:
        self._film = film
        self._margin = margin_of(film)
        self._caption = Overlay.of(caption(film))
        self._badge = Overlay.of(badge(film, "SANDBOX"))
        self._strips = _strips(film)
        self._second, self._time = -1, self._badge

    def put(self, planes: Planes, index: int, number: int, count: int) -> None:
        film, margin, small = self._film, self._margin, note_size(self._film)
        self._caption.put(planes, 0, film.height - self._caption.size[1])
        self._badge.put(planes, margin, margin)
        if self._strips:
            strip = self._strips[index]
            strip.put(planes, film.width - margin - strip.size[0], margin)
        if number // FPS != self._second:
            self._second = number // FPS
            self._time = Overlay.of(time_code(film, self._second))
        left = film.width - margin - self._time.size[0]
        self._time.put(planes, left, film.height - margin - round(2.6 * small))
        self._bar(planes, (number + 1) / count)

    def _bar(self, planes: Planes, share: float) -> None:
        film, margin = self._film, self._margin
        top, thick = film.height - margin - even(note_size(film) // 4), even(max(2, film.height // 240))
        right = margin + even(round((film.width - 2 * margin) * share))
        for image, (left, end) in ((_BAR_TRACK, (margin, film.width - margin)), (_BAR_FILL, (margin, right))):
            for scale, plane, value in zip((1, 2, 2), planes.each(), image, strict=True):
                plane.paste(value, (left // scale, top // scale, end // scale, (top + thick) // scale))


def _strips(film: Film) -> tuple[Overlay, ...]:
    """Return a strip of thumbnails of all pictures for each scene, with its picture marked; none for one picture."""
    number = len(film.pictures)
    if number < 2:
        return ()
    side = max(2, even(min(film.height // 9, (film.width // 2) // number * 5 // 6)))
    gap = even(max(2, side // 8))
    thumbs = [_thumb(picture, side) for picture in film.pictures]
    corners = Image.new("L", (side, side))
    ImageDraw.Draw(corners).rounded_rectangle((0, 0, side - 1, side - 1), side // 6, fill=255)
    return tuple(_strip(thumbs, corners, gap, marked) for marked in range(len(thumbs)))


def _thumb(picture: Picture, side: int) -> Image.Image:
    image = open_picture(picture, (side, side))
    return Image.new("RGB", (side, side), "gray") if image is None else ImageOps.fit(image, (side, side))


def _strip(thumbs: list[Image.Image], corners: Image.Image, gap: int, marked: int) -> Overlay:
    side, line = corners.width, max(2, corners.width // 18)
    strip = Image.new("RGBA", (even(len(thumbs) * (side + gap) - gap), side))
    for index, thumb in enumerate(thumbs):
        left = index * (side + gap)
        strip.paste(thumb, (left, 0), corners if index == marked else corners.point(lambda value: value * 0.62))
        if index == marked:
            box = (left, 0, left + side - 1, side - 1)
            ImageDraw.Draw(strip).rounded_rectangle(box, side // 6, outline=(255, 255, 255, 235), width=line)
    return Overlay.of(strip)


def _colour(red: int, green: int, blue: int) -> tuple[int, ...]:
    """Return a colour as the values of the three planes."""
    planes = Planes.of(Image.new("RGB", (2, 2), (red, green, blue)))
    return tuple(plane.tobytes()[0] for plane in planes.each())


_BAR_TRACK, _BAR_FILL = _colour(92, 98, 118), _colour(*ACCENT)


def _rows(plane: Image.Image, line_size: int) -> bytes:
    """Return the plane's bytes with rows of the length that the encoder requires."""
    if plane.width != line_size:
        plane = plane.crop((0, 0, line_size, plane.height))
    return plane.tobytes()

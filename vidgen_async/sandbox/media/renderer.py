"""Draws a film and encodes it as an H.264 MP4 for any player. Runs in a thread, without the service."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
from PIL import Image

from vidgen_async.sandbox.media.backgrounds import draw_background
from vidgen_async.sandbox.media.text_rendering import caption, draw_progress
from vidgen_async.sandbox.media.video_content import Film, Picture

#: Few frames, because drawing them takes most of the time of rendering.
FPS = 15
#: The colour space of the frames in the terms of the encoder: ITU-R BT.601, limited range.
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
            for number, image in enumerate(_images(film)):
                if is_stopped():
                    raise RenderingStopped
                frame = av.VideoFrame.from_image(image)  # type: ignore[no-untyped-call]  # av has no types for it
                frame.pts, frame.time_base = number, Fraction(1, FPS)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path.read_bytes()


def _images(film: Film) -> Iterator[Image.Image]:
    """Return the frames. Each picture is shown for an equal time, and moves slowly behind the text."""
    count = film.seconds * FPS
    pictures: Sequence[Picture | None] = film.pictures or (None,)
    for index, picture in enumerate(pictures):
        background = draw_background(film, picture)
        label = (picture.label,) if picture and picture.content is None else ()
        text = caption(film, ("SANDBOX", *film.notes, *label))
        first, end = count * index // len(pictures), count * (index + 1) // len(pictures)
        for number in range(first, end):
            moved = (number - first) / (end - first)
            left = round(moved * (background.width - film.width))
            top = round(moved * (background.height - film.height))
            image = background.crop((left, top, left + film.width, top + film.height))
            image.paste(text, (0, film.height - text.height), text)
            draw_progress(image, film, number // FPS, (number + 1) / count)
            yield image

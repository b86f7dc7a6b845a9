"""The videos: what they show, how they are rendered, each once, and the small ones for where PyAV is not installed."""

import asyncio
import hashlib
import io
import logging
import math
import os
import re
import textwrap
import threading
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    import av

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Width to height (2.4).
RATIOS = {"9:16": (9, 16), "1:1": (1, 1), "3:4": (3, 4), "4:3": (4, 3), "16:9": (16, 9)}
DEFAULT_RATIO = "16:9"
FPS = 24
CACHE_SIZE = 256 << 20
#: The comment in the metadata of each small video, which is replaced by one of the same length.
COMMENT = b"0" * 64
#: Characters beyond ASCII that the font of Pillow has.
QUOTES = "\u2018\u2019\u201c\u201d"
#: ITU-R BT.601 in the terms of the encoder, and the values of black and white in its limited range.
_BT601, _LIMITED, _BLACK, _WHITE = 6, 1, 16, 235
#: Several threads may need the renderer first; a missing one is logged once.
_IMPORT_LOCK = threading.Lock()


@frozen(cache_hash=True)
class Film:
    """What determines a video: equal films give the same bytes. ``notes`` and ``pictures`` are small text."""

    prompt: str
    seconds: int
    width: int
    height: int
    pictures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def digest(self) -> str:
        return hashlib.sha256(repr(self).encode("utf-8", "backslashreplace")).hexdigest()


def size_of(resolution: str, ratio: str) -> tuple[int, int]:
    """Return width and height in pixels, both even. The number in a resolution is the shorter side; auto is 720p."""
    number = re.match(r"\d+", resolution)
    short = int(number[0]) if number else 720
    across, down = RATIOS[ratio]
    unit = short / min(across, down)
    return 2 * round(across * unit / 2), 2 * round(down * unit / 2)


def drawable(text: str) -> str:
    """Return the first words in the characters that the font has; nothing if it lacks most letters."""
    letters = [each for each in unicodedata.normalize("NFKD", text[:1000]) if not unicodedata.combining(each)]
    drawn = [each if each in QUOTES or (each.isascii() and each.isprintable()) else " " for each in letters]
    is_readable = 2 * sum(map(str.isalnum, drawn)) >= sum(not each.isascii() or each.isalnum() for each in letters)
    return " ".join("".join(drawn).split()) if is_readable else ""


class RenderingStopped(Exception):  # noqa: N818 - not an error: the sandbox was closed
    """``is_stopped()``, which is called before each frame, was true."""


def render(film: Film, is_stopped: Callable[[], bool]) -> bytes:
    """Return the film as an H.264 MP4 for any player, with its index before its data."""
    import av  # noqa: PLC0415 - an extra

    file = io.BytesIO()
    room = 4096 + 16 * FPS * film.seconds  # for the index, which is written last
    with av.open(file, "w", format="mp4", options={"moov_size": str(room)}) as container:
        encode(film, container, is_stopped, preset="ultrafast", crf="21")
    return file.getvalue()


def encode(
    film: Film, container: "av.container.OutputContainer", is_stopped: Callable[[], bool], **options: str
) -> None:
    stream = container.add_stream("libx264", rate=FPS, options=options)
    stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
    stream.codec_context.thread_count = 1
    stream.codec_context.colorspace, stream.codec_context.color_range = _BT601, _LIMITED
    for number, frame in enumerate(_frames(film)):
        if is_stopped():
            raise RenderingStopped
        frame.pts, frame.time_base = number, Fraction(1, FPS)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _frames(film: Film) -> "Iterator[av.VideoFrame]":
    """Luma has the text and a bar that grows with time; in the chroma planes a gradient of hues moves."""
    import av  # noqa: PLC0415 - an extra

    width, height, count = film.width, film.height, film.seconds * FPS
    luma = Image.linear_gradient("L").point([70 + level // 4 for level in range(256)]).resize((width, height))
    draw = ImageDraw.Draw(luma)
    _write(draw, film, next(filter(None, map(drawable, (film.prompt, *film.notes))), ""), 0.45, 11)
    _write(draw, film, " - ".join(filter(None, map(drawable, (*film.notes, *film.pictures)))), 0.85, 28)
    bar = (0, height - max(2, height // 60))
    hue = int(film.digest()[:4], 16)
    angles = [hue + math.sin(math.pi * column / width) for column in range(4 * width + 64)]
    rows = [bytes(round(128 + 48 * part(angle)) for angle in angles) for part in (math.cos, math.sin)]
    for number in range(count):
        draw.rectangle((bar, (width * (number + 1) // count, height)), fill=_WHITE)
        frame = av.VideoFrame(width, height, "yuv420p")
        first, *others = frame.planes
        first.update(luma.crop((0, 0, first.line_size, height)).tobytes())
        for plane, row in zip(others, rows, strict=True):
            at = number % (2 * width)
            plane.update(row[at : at + plane.line_size] * plane.height)
        yield frame


def _write(draw: ImageDraw.ImageDraw, film: Film, text: str, middle: float, share: int) -> None:
    """Draw up to four lines around a part of the height, with letters of a ``share`` of the shorter side, or less."""
    short, room = min(film.width, film.height), 0.9 * film.width
    size = max(6, short // share)
    font = ImageFont.load_default(size)
    lines = textwrap.wrap(text, max(8, int(room / font.getlength("n"))), max_lines=4, placeholder=" ...") or [""]
    font = ImageFont.load_default(max(1.0, size * min(1.0, room / max(1.0, *map(font.getlength, lines)))))
    centre, line = (film.width / 2, film.height * middle), max(1, short // 240)
    draw.multiline_text(
        centre, "\n".join(lines), _WHITE, font, "mm", align="center", stroke_width=line, stroke_fill=_BLACK
    )


def placeholder(film: Film) -> bytes:
    """Return the small video with the closest ratio. Its comment is the digest: different films differ."""
    shape = film.width / film.height
    ratio = min(RATIOS, key=lambda name: abs(math.log(shape * RATIOS[name][1] / RATIOS[name][0])))
    return _read(ratio).replace(COMMENT, film.digest().encode())


def file_name(ratio: str) -> str:
    return f"{ratio.replace(':', 'x')}.mp4"


@cache
def _read(ratio: str) -> bytes:
    return files("vidgen_async.sandbox").joinpath("placeholders", file_name(ratio)).read_bytes()


class RenderCache:
    """Owns the threads. A film is rendered once and cached; a cancelled caller does not stop the rendering."""

    def __init__(self) -> None:
        self.rendered = 0
        self._videos: dict[Film, bytes] = {}
        self._renderings: dict[Film, asyncio.Task[bytes]] = {}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2), "sandbox")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def video(self, film: Film) -> bytes:
        if film in self._videos:
            self._videos[film] = self._videos.pop(film)  # the last one is the latest
            return self._videos[film]
        if film not in self._renderings:
            self._renderings[film] = asyncio.create_task(self._render(film), name="sandbox rendering")
        return await asyncio.shield(self._renderings[film])

    async def aclose(self) -> None:
        self._stop.set()
        for rendering in self._renderings.values():
            rendering.cancel()
        await asyncio.gather(*self._renderings.values(), return_exceptions=True)
        self._pool.shutdown(cancel_futures=True)

    async def _render(self, film: Film) -> bytes:
        try:
            video = await self.run(_make, film, self._stop.is_set)
        finally:
            del self._renderings[film]
        self.rendered += 1
        self._videos[film] = video
        while len(self._videos) > 1 and sum(map(len, self._videos.values())) > CACHE_SIZE:
            del self._videos[next(iter(self._videos))]
        return video


def _make(film: Film, is_stopped: Callable[[], bool]) -> bytes:
    with _IMPORT_LOCK:
        make = find_renderer()
    return make(film, is_stopped)


@cache
def find_renderer() -> Callable[[Film, Callable[[], bool]], bytes]:
    """Return what makes the videos; without PyAV they are placeholders, which is logged."""
    try:
        import av  # noqa: F401, PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "av":
            raise
        logger.warning(
            "PyAV is not installed: the videos of the sandbox are short placeholders of the requested aspect ratio, "
            "not of the requested duration and size. To render them: pip install 'vidgen-async[video]'"
        )
        return lambda film, _: placeholder(film)
    return render

"""Renders films in threads, each film once, and caches the videos. Without PyAV they are placeholders."""

import asyncio
import hashlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Self, TypeVar

from attrs import field, frozen

from vidgen_async.sandbox.media.placeholder_video import placeholder
from vidgen_async.sandbox.media.video_content import Film

logger = logging.getLogger(__name__)
#: Several threads may need the renderer first; a missing one is logged once.
_IMPORT_LOCK = threading.Lock()

T = TypeVar("T")
#: Returns a film as an MP4; raises an exception soon after the given function returns True.
Renderer = Callable[[Film, Callable[[], bool]], bytes]

#: Bytes of the videos in the cache.
CACHE_SIZE = 256 << 20


@frozen
class RenderedVideo:
    """An MP4 and its entity tag."""

    content: bytes = field(repr=False)
    etag: str

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(content, f'"{hashlib.sha256(content).hexdigest()[:24]}"')


class RenderCache:
    """Owns the threads. A film that several callers request is rendered once and cached; one that was removed from the
    cache is rendered again to the same bytes. A caller that is cancelled does not stop the rendering."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self.rendered = 0
        self._size = size
        self._videos: OrderedDict[Film, RenderedVideo] = OrderedDict()
        self._renderings: dict[Film, asyncio.Task[RenderedVideo]] = {}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2), "sandbox")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def video(self, film: Film) -> RenderedVideo:
        """Return the film as an MP4."""
        if film in self._videos:
            self._videos.move_to_end(film)
            return self._videos[film]
        if film not in self._renderings:
            self._renderings[film] = asyncio.create_task(self._render(film), name="sandbox rendering")
        return await asyncio.shield(self._renderings[film])

    async def aclose(self) -> None:
        """Stop rendering at the next frame, and wait for the threads."""
        self._stop.set()
        renderings = list(self._renderings.values())
        for rendering in renderings:
            rendering.cancel()
        await asyncio.gather(*renderings, return_exceptions=True)
        self._pool.shutdown(cancel_futures=True)

    async def _render(self, film: Film) -> RenderedVideo:
        try:
            video = RenderedVideo.of(await self.run(_make, film, self._stop.is_set))
        finally:
            del self._renderings[film]
        self.rendered += 1
        self._videos[film] = video
        while len(self._videos) > 1 and sum(len(each.content) for each in self._videos.values()) > self._size:
            self._videos.popitem(last=False)
        return video


def _make(film: Film, is_stopped: Callable[[], bool]) -> bytes:
    with _IMPORT_LOCK:
        make = find_renderer()
    return make(film, is_stopped)


@cache
def find_renderer() -> Renderer:
    """Return what makes the videos. It is imported for the first of them: many tests need none. Without PyAV it is the
    placeholders, which is logged."""
    try:
        from vidgen_async.sandbox.media.renderer import render  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "av":
            raise
        logger.warning(
            "PyAV is not installed: the videos of the sandbox are short placeholders of the requested aspect ratio, "
            "not of the requested duration and size. To render them: pip install 'vidgen-async[video]'"
        )
        return lambda film, _: placeholder(film)
    return render

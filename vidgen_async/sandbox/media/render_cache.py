"""Renders films off the event loop, each of them once."""

import asyncio
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

from attrs import field, frozen

from vidgen_async.sandbox.media.renderer import render
from vidgen_async.sandbox.media.video_content import Film

T = TypeVar("T")

KEPT_BYTES = 256 << 20


@frozen
class RenderedVideo:
    """An MP4 and its entity tag."""

    content: bytes = field(repr=False)
    etag: str

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(content, f'"{hashlib.sha256(content).hexdigest()[:24]}"')


class Projector:
    """Owns the threads. A film that several ask for at once is rendered once, and is kept while memory allows; a film
    that was let go is rendered again to the same bytes. A caller who is cancelled does not stop the rendering."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.rendered = 0
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[Film, RenderedVideo] = OrderedDict()
        self._renderings: dict[Film, asyncio.Task[RenderedVideo]] = {}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2), "sandbox")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """``work(*arguments)`` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def video(self, film: Film) -> RenderedVideo:
        """The film as an MP4."""
        if film in self._kept:
            self._kept.move_to_end(film)
            return self._kept[film]
        if film not in self._renderings:
            self._renderings[film] = asyncio.create_task(self._render(film), name="sandbox rendering")
        return await asyncio.shield(self._renderings[film])

    async def aclose(self) -> None:
        """Stop at the next frame and let the threads end."""
        self._stop.set()
        renderings = list(self._renderings.values())
        for rendering in renderings:
            rendering.cancel()
        await asyncio.gather(*renderings, return_exceptions=True)
        self._pool.shutdown(cancel_futures=True)

    async def _render(self, film: Film) -> RenderedVideo:
        try:
            video = RenderedVideo.of(await self.run(render, film, self._stop.is_set))
        finally:
            del self._renderings[film]
        self.rendered += 1
        self._kept[film] = video
        while len(self._kept) > 1 and sum(len(kept.content) for kept in self._kept.values()) > self._kept_bytes:
            self._kept.popitem(last=False)
        return video

"""Videos to files and through proxies (4.6): checked, resumed, and never half a file under the target's name."""

import os
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from vidgen_async.clock import Clock, hold_of, within
from vidgen_async.errors import DownloadError, InvalidRequestError
from vidgen_async.media import mp4
from vidgen_async.media.content import Content, Opened
from vidgen_async.media.partial_file import PartFile
from vidgen_async.media.transfer import OnProgress, Transfer
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports.base import Response
from vidgen_async.types.http import CHUNK, Headers, make_headers
from vidgen_async.types.resources import TaskLike

#: The headers of a video that are fit to be handed on to a browser.
_FIT = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")
#: A range unit, then its ranges: which units and forms there are is the channel's affair.
_RANGE = re.compile(r"[\w!#$%&'*+.^`|~-]+=[\x21-\x7e]+(?: [\x21-\x7e]+)*")


class Downloads:
    """Fetches videos. ``patience``: seconds without a new byte after which a broken transfer is given up."""

    def __init__(
        self,
        reads: Reads,
        endpoints: Endpoints,
        clock: Clock,
        *,
        patience: float = 120.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._clock = clock
        self._patience = patience
        self._chance = chance
        # While a thread writes, a virtual clock must not take the quiet for idleness.
        self._hold = hold_of(clock)

    async def download(
        self,
        task: TaskLike,
        to: str | os.PathLike[str],
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Path:
        """Save the video at ``to``, and return that path.

        The bytes go into a temporary file beside it (``.name.….part``), are checked (media type, MP4 boxes, length),
        and are moved into place at one go: on any error, and when cancelled before that move, what stood there still
        stands and the temporary file is gone. A transfer that breaks is resumed under the same strong ETag, else begun
        anew, for as long as new bytes keep coming; silence is bounded by ``Timeouts.read``, the whole only by
        ``timeout`` seconds.

        ``on_progress(received, total)`` is called on the event loop, about ten times a second at most; ``received``
        goes back when the transfer begins anew; what it raises ends the download. A target that cannot be written is
        a DownloadError before any request. NotReadyError, NotFoundError, AuthenticationError as the service answers;
        LinkExpiredError, NotVideoError, TruncatedError say what came instead of the video.
        """
        content = Content(self._reads, self._endpoints, task)
        part = PartFile(to, hold=self._hold)

        async def work() -> None:
            async with part:
                await Transfer(
                    content, part, self._clock, on_progress=on_progress, patience=self._patience, chance=self._chance
                ).run()
                await part.commit()

        try:
            await within(self._clock, timeout, work)
        except DownloadError as error:
            error.task_id = content.task_id
            raise
        except TimeoutError as error:
            if timeout is None:
                raise
            message = f"the video of task {content.task_id!r} was not saved within {timeout:g} s"
            raise DownloadError(message, task_id=content.task_id, received=part.length) from error
        return Path(to)

    @asynccontextmanager
    async def stream(
        self,
        task: TaskLike,
        *,
        range: str | None = None,  # noqa: A002 - the header's name
    ) -> AsyncIterator["VideoStream"]:
        """The video without a file in between: ``async with downloads.stream(task, range="bytes=0-") as video``.

        ``range`` goes out as it is; whether 206 comes back is the channel's affair. Redirects are followed bare, and a
        refused link is renewed once; nothing else goes again. Any status but 200 and 206 raises its ServiceError, a
        page instead of a video NotVideoError. Leaving the block, or being cancelled in it, releases the connection.
        """
        if range is not None and not (isinstance(range, str) and _RANGE.fullmatch(range)):
            problem = f"range: must be the value of a Range header, such as 'bytes=0-1023': {range!r:.80}"
            raise InvalidRequestError(problem, problems=[problem])
        content = Content(self._reads, self._endpoints, task)
        opened = await content.open(byte_range=range)
        async with opened.response as response:
            if response.status == 416:
                raise await content.not_video(opened, "is none of the range asked for")
            pieces = response.chunks(CHUNK)
            yield VideoStream(response, await _first_streamed(content, opened, pieces), pieces)


async def _first_streamed(content: Content, opened: Opened, pieces: AsyncIterator[bytes]) -> bytes:
    """What had to be taken of the body to see that it is a video; nothing from the middle of one."""
    headers = opened.response.headers
    if opened.response.status == 206:
        if mp4.media_type(headers) == "multipart/byteranges":
            return b""
        span = mp4.content_range(headers)
        if span is None or span.start != 0 or span.end is None or span.end + 1 < mp4.MAGIC:
            await content.check_media(opened)
            return b""
    return await content.first_piece(opened, pieces)


class VideoStream:
    """A video on its way: ``status`` (200, or 206 for a range), ``headers`` fit for a browser, ``chunks()``."""

    def __init__(self, response: Response, first: bytes, pieces: AsyncIterator[bytes]) -> None:
        self.status: int = response.status
        given = response.headers
        self.headers: Headers = make_headers([(name, given[name]) for name in _FIT if name in given])
        """Only Content-Type, -Length and -Range, Accept-Ranges, ETag and Last-Modified: no cookie, no address."""
        self._rest = first
        self._pieces = pieces

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        """The body, once, in pieces of at most ``size`` bytes. BodyError when it breaks off."""
        if size < 1:
            message = f"size must be at least 1: {size}"
            raise ValueError(message)
        return _Chunks(self._take, size)

    async def _take(self, size: int) -> bytes:
        if not self._rest:
            self._rest = await anext(self._pieces, b"")
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


class _Chunks:
    """Not a generator: leaving an ``async for`` half-way leaves nothing behind for the event loop to finish."""

    def __init__(self, take: Callable[[int], Awaitable[bytes]], size: int) -> None:
        self._take = take
        self._size = size

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._take(self._size)
        if not piece:
            raise StopAsyncIteration
        return piece


async def check_target(to: str | os.PathLike[str]) -> None:
    """DownloadError, naming the path, when no video could be saved there: its folder is missing or not writable, or a
    folder or device stands there. A file is made beside it, and removed."""
    async with PartFile(to):
        pass

"""Downloads of videos to files, and streams of videos (4.6). A file at the target is always complete."""

import logging
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypeAlias

from attrs import define, field

from vidgen_async.clock import Clock, hold_of, within
from vidgen_async.errors import DownloadError, InvalidRequestError, ServiceError
from vidgen_async.events import Event
from vidgen_async.media.content import Content
from vidgen_async.media.mp4 import MalformedMP4Error, read_structure
from vidgen_async.media.partial_file import PartialFile
from vidgen_async.media.transfer import CHUNK_SIZE, OnProgress, Progress, Transfer
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports.base import Chunks, Response
from vidgen_async.types.http import CHUNK, Headers, make_headers
from vidgen_async.types.resources import TaskLike

logger = logging.getLogger(__name__)

#: There is no such file, or nothing shows that the video in it is complete.
FileProblem: TypeAlias = Literal["missing", "incomplete"]

#: The response headers of a video that may be forwarded to a browser.
_FORWARDED_HEADERS = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")
#: A range unit and its ranges. Which of them are supported depends on the channel.
_RANGE = re.compile(r"[\w!#$%&'*+.^`|~-]+=[\x21-\x7e]+(?: [\x21-\x7e]+)*")


@define(eq=False, repr=False)
class Downloads:
    """Downloads and streams videos. A failing download is resumed until ``retry_for`` seconds without a new byte."""

    _reads: Reads
    _endpoints: Endpoints
    _clock: Clock
    _retry_for: float = field(default=120.0, kw_only=True)
    _rng: Callable[[], float] = field(default=random.random, kw_only=True)

    async def download(
        self,
        task: TaskLike,
        to: str | os.PathLike[str],
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        overwrite: bool = True,
        accept_unverified: bool = False,
    ) -> Path:
        """Save the video as the file ``to``. The file that a killed process left is removed by the next download."""
        content = Content(self._reads, self._endpoints, task, chunk_size=CHUNK_SIZE)
        # Virtual time must not advance while a thread writes.
        file = PartialFile(to, overwrite=overwrite, hold=hold_of(self._clock))
        transfer = Transfer(
            content,
            file,
            self._clock,
            progress=Progress(self._clock, on_progress),
            retry_for=self._retry_for,
            rng=self._rng,
            accept_unverified=accept_unverified,
        )

        async def work() -> None:
            async with file:
                await transfer.run()
                await file.commit()

        try:
            with self._reporting(content, transfer):
                await within(self._clock, timeout, work)
        except DownloadError as error:
            error.task_id = content.task_id
            raise
        except TimeoutError as error:
            if timeout is None:
                raise
            reason = transfer.problem or "the transfer was still in progress"
            raise DownloadError(
                f"the video of task {content.task_id!r} was not saved within {timeout:g} s; "
                f"{transfer.received} bytes were received: {reason} (the limit is the timeout of this call)",
                task_id=content.task_id,
                received=transfer.received,
            ) from (transfer.last_error or error)
        return Path(os.fsdecode(to))

    @contextmanager
    def _reporting(self, content: Content, transfer: Transfer) -> Iterator[None]:
        began = self._clock.now()
        error: str | None = None
        try:
            yield
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            size, seconds = transfer.received, self._clock.now() - began
            Event.DOWNLOAD_ENDED.log(logger, task_id=content.task_id, size=size, seconds=seconds, error=error)

    @asynccontextmanager
    async def stream(self, task: TaskLike, range: str | None) -> AsyncIterator["VideoStream"]:  # noqa: A002 - as below
        async with await self.open_stream(task, range=range) as video:
            yield video

    async def open_stream(
        self,
        task: TaskLike,
        *,
        range: str | None = None,  # noqa: A002 - the header's name
    ) -> "VideoStream":
        """Return the stream of a video, which the caller closes. The ServiceError of a 416 has ``content_range``."""
        if range is not None and not (isinstance(range, str) and _RANGE.fullmatch(range)):
            raise InvalidRequestError(
                f"range: must be the value of a Range header, such as 'bytes=0-1023': {range!r:.80}"
            )
        content = Content(self._reads, self._endpoints, task)
        result = await content.open(byte_range=range)
        async with AsyncExitStack() as stack:
            response = await stack.enter_async_context(result.response)
            if response.status == 416:
                try:
                    raise await content.make_not_video_error(result, "does not contain the requested range")
                except ServiceError as error:
                    size = re.fullmatch(r"bytes \*/\d{1,18}", response.headers.get("Content-Range", ""))
                    error.content_range = size and size[0]
                    raise
            stack.pop_all()
        return VideoStream(response, result.head, result.chunks)


class VideoStream:
    """A video that is being received. The end of its ``async with`` block closes it, like :meth:`aclose`.

    So does the end of ``async for chunk in video``, an early one too: the video itself is the body of a streaming
    response of a web framework, ``StreamingResponse(video, video.status, video.headers)``, which closes it also when
    the browser disconnects. A body that ends early raises BodyError.
    """

    def __init__(self, response: Response, first: bytes, chunks: AsyncIterator[bytes]) -> None:
        self._response = response
        self.status: int = response.status
        """200, or 206 for a range."""
        headers = response.headers
        self.headers: Headers = make_headers([(name, headers[name]) for name in _FORWARDED_HEADERS if name in headers])
        """The headers to forward to a browser: Content-Type, Content-Length, Content-Range, Accept-Ranges, ETag and
        Last-Modified; no cookies and no URLs."""
        self._rest = first
        self._chunks = chunks

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        """Return an iterator over the body in chunks of at most ``size`` bytes. It can be read once.

        Raises:
            BodyError: The body ended early (raised by the iterator).
        """
        if size < 1:
            raise ValueError(f"size must be at least 1: {size}")
        return Chunks(partial(self._read, size))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # A generator: where it is dropped before its end, the event loop closes it, and so the video.
        async with self:
            async for chunk in self.chunks():
                yield chunk

    async def aclose(self) -> None:
        """Release the connection, however much was read. May be called twice."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _read(self, size: int) -> bytes | None:
        if not self._rest:
            self._rest = await anext(self._chunks, b"")
        chunk, self._rest = self._rest[:size], self._rest[size:]
        return chunk or None


def check_file(path: str | os.PathLike[str]) -> FileProblem | None:
    """Return why a complete video is not stored there. A fragmented file whose last fragments may be missing is one."""
    try:
        with Path(path).open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            structure = read_structure(file, length)
    except FileNotFoundError:
        return "missing"
    except (OSError, MalformedMP4Error):
        return "incomplete"
    is_whole = structure.has_samples and not structure.contradiction and not structure.find_problem(length)
    return None if is_whole else "incomplete"

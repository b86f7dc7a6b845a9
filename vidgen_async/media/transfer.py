"""One download: it receives the video, checks that it is complete, and resumes or restarts failing transfers; and the
progress that downloads and uploads report."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, BinaryIO, NoReturn, TypeAlias

from attrs import Factory, define, field

from vidgen_async.clock import Clock, backoff
from vidgen_async.errors import (
    BodyError,
    DownloadError,
    NotVideoError,
    ServiceError,
    TransportError,
    TruncatedError,
    UnverifiedVideoError,
    VidgenError,
)
from vidgen_async.events import Event
from vidgen_async.media import mp4
from vidgen_async.media.content import Content, ContentResponse
from vidgen_async.media.partial_file import PartialFile
from vidgen_async.service.retries import retry_delay
from vidgen_async.types.http import Headers
from vidgen_async.user_code import UserCode, describe

logger = logging.getLogger(__name__)

#: A thread writes the buffer when it has this size in bytes, or this age in seconds.
_BUFFER_SIZE = 1 << 21
_MAX_BUFFER_TIME = 0.25
#: Maximum size in bytes of the chunks in which a video is read: what asyncio receives at once. Larger chunks would be
#: joined from several, which copies them.
CHUNK_SIZE = 1 << 18
#: Number of received bytes that are requested again, and compared, when a transfer is resumed; fewer, but not less than
#: the minimum, if responses end within them.
_OVERLAP = 4096
_MIN_OVERLAP = 16

#: Called with the number of received bytes, and of all; None if that is unknown.
OnProgress: TypeAlias = Callable[[int, int | None], None]
#: Called with the number of sent bytes, and of all.
OnSent: TypeAlias = Callable[[int, int], None]

#: Minimum seconds between two reports, except for the last one.
_REPORT_INTERVAL = 0.1


class Progress:
    """Calls ``on_progress`` at most about ten times a second."""

    def __init__(self, clock: Clock, on_progress: Callable[[int, Any], None] | None) -> None:
        self._clock = clock
        self._on_progress = on_progress
        self._reported_at: float | None = None

    def report(self, done: int, total: int | None, *, is_last: bool = False) -> None:
        if self._on_progress is None:
            return
        now = self._clock.now()
        if is_last or self._reported_at is None or now - self._reported_at >= _REPORT_INTERVAL:
            self._reported_at = now
            with UserCode(is_awaited=False, passes=(Exception,)) as call:
                self._on_progress(done, total)
            if call.error is not None:
                raise VidgenError(f"on_progress raised {describe(call.error)}") from call.error


@define(eq=False, repr=False)
class Transfer:
    """Downloads the complete video to ``file``, or raises ``retry_for`` seconds after the last byte that was new."""

    _content: Content
    _file: PartialFile
    _clock: Clock
    _progress: Progress
    _retry_for: float
    _rng: Callable[[], float]
    _accept_unverified: bool
    _total: int | None = field(default=None, init=False)
    _etag: str | None = field(default=None, init=False)
    _buffer: list[bytes] = field(factory=list, init=False)
    _buffered: int = field(default=0, init=False)
    _write: asyncio.Task[None] | None = field(default=None, init=False)
    """The write in progress, of the buffer before."""
    furthest: int = field(default=0, init=False)
    """Number of bytes up to the furthest position that was reached."""
    _last_progress_at: float = field(default=Factory(lambda self: self._clock.now(), takes_self=True), init=False)
    problem: str = field(default="", init=False)
    """Why the latest attempt failed; empty if none has."""
    last_error: TransportError | ServiceError | None = field(default=None, init=False)
    _is_delimited: bool = field(default=False, init=False)
    _overlap: int = field(default=_OVERLAP, init=False)

    @property
    def received(self) -> int:
        """Number of bytes of the video that were received, also if they are not in the file yet."""
        return max(self.furthest, self._file.length + self._buffered)

    async def run(self) -> None:
        """Return when the video is complete. Before it fails, the link of the completed task is used once."""
        try:
            await self._run()
        except (ServiceError, TransportError, DownloadError) as failure:
            if not await self._content.prefer_link():
                raise
            await self._restart(str(failure))
            self._last_progress_at = self._clock.now()
            try:
                await self._run()
            except (ServiceError, TransportError, DownloadError) as error:
                raise failure from error

    async def _run(self) -> None:
        failures = 0
        while True:
            furthest, error = self.furthest, None
            try:
                if await self._receive():
                    self._progress.report(self._file.length, self._total, is_last=True)
                    return
            except (TransportError, ServiceError) as failure:
                error = self.last_error = failure
            if self.furthest > furthest:
                failures = 0
                if error is None:
                    continue
            elif error is not None:
                self._overlap = max(self._overlap // 4, _MIN_OVERLAP)
            failures += 1
            delay: float | None
            if error is None:
                delay = backoff(failures, self._rng())
            else:
                self.problem = str(error)
                delay = retry_delay(error, failures, self._rng())
            if delay is None or self._clock.now() + delay > self._last_progress_at + self._retry_for:
                self._give_up(error, "" if delay is None else f", for {self._retry_for:g} s without a new byte")
            Event.DOWNLOAD_RETRIED.log(logger, task_id=self._content.task_id, seconds=delay, error=self.problem)
            await self._clock.sleep(delay)

    async def _receive(self) -> bool:
        """Request and write the missing bytes. Return whether the video is complete."""
        file = self._file
        if file.length and file.length == self._total:
            return await self._is_complete()
        if self._etag is None:
            await file.truncate()
        # Some of the received bytes are requested again, to see that both responses are of the same file.
        tail = await file.inspect(partial(_read_end, size=self._overlap)) if file.length else b""
        start = file.length - len(tail)
        resume = f"bytes={start}-" if file.length else None
        result = await self._content.open(byte_range=resume, validator=self._etag if resume else None)
        span = None
        async with result.response as response:
            if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return await self._restart("the service states that the requested range does not exist (416)")
            # The length of such a body is that of a part, also where a range was not requested.
            is_part = response.status == HTTPStatus.PARTIAL_CONTENT or "Content-Range" in response.headers
            if response.status == HTTPStatus.PARTIAL_CONTENT and (resume or mp4.content_range(response.headers)):
                span = self._read_continuation(response.headers, start)
                if span is None:
                    return await self._restart("the service sent a range that was not requested")
            else:
                tail = b""
                await file.truncate()
                self._total = None if is_part else mp4.content_length(response.headers)
                self._etag = mp4.strong_etag(response.headers)
            self._is_delimited = self._total is not None or (mp4.is_delimited(response.headers) and not is_part)
            if not await self._write_body(result, tail):
                return await self._restart("the service sent different bytes for the same ETag")
        if span is not None and span.end is not None and file.length != span.end + 1:
            return await self._restart("the number of received bytes differs from the Content-Range")
        return await self._is_complete()

    def _read_continuation(self, headers: Headers, start: int) -> mp4.ContentRange | None:
        """Return the range of a 206 if it begins at ``start``, with the same ETag and total; else None."""
        span, etag = mp4.content_range(headers), mp4.strong_etag(headers)
        if span is None or span.start != start:
            return None
        total = self._total if span.total is None else span.total
        if not self._file.length:
            self._etag = etag
        elif ("ETag" in headers and etag != self._etag) or self._total not in (None, total):
            return None
        self._total = total
        return span

    async def _write_body(self, result: ContentResponse, tail: bytes) -> bool:
        """Write the body, also if it ends early. Return False if it does not begin with ``tail``, the file's end."""
        self._buffer, self._buffered = [], 0
        head = result.head
        while len(head) < len(tail) and (chunk := await anext(result.chunks, b"")):
            head += chunk
        if not tail.startswith(head[: len(tail)]):
            return False
        self._add(head[len(tail) :])
        since = self._clock.now()
        try:
            async for chunk in result.chunks:
                self._add(chunk)
                if self._buffered >= _BUFFER_SIZE or self._clock.now() - since >= _MAX_BUFFER_TIME:
                    await self._flush(is_last=False)
                    since = self._clock.now()
            await self._flush()
        except TransportError:
            await self._flush()
            raise
        finally:
            if self._write is not None:  # the file must not be closed while a thread writes to it
                await asyncio.gather(self._write, return_exceptions=True)
                self._write = None
        return True

    def _add(self, chunk: bytes) -> None:
        self._buffer.append(chunk)
        self._buffered += len(chunk)

    async def _flush(self, *, is_last: bool = True) -> None:
        """Write the buffer. If it is not the last one, it is written while the next bytes are received."""
        full, self._buffer, self._buffered = self._buffer, [], 0
        if self._write is not None:
            await self._write
        self._write = asyncio.create_task(self._store(full), name="write of a download") if any(full) else None
        if is_last and self._write is not None:
            await self._write

    async def _store(self, chunks: list[bytes]) -> None:
        await self._file.write(chunks)
        if self._file.length > self.furthest:
            self.furthest = self._file.length
            self._last_progress_at = self._clock.now()
        self._progress.report(self._file.length, self._total)

    async def _restart(self, problem: str) -> bool:
        self.problem = problem
        self._total = self._etag = None
        await self._file.truncate()
        return False

    async def _is_complete(self) -> bool:
        """Return whether the file is complete; NotVideoError for no MP4, TruncatedError for one that is cut."""
        length, total = self._file.length, self._total
        if total is not None and length < total:
            self.problem = "it ended early"
            return False
        if total is not None and length > total:
            return await self._restart("more bytes were received than announced")
        task_id = self._content.task_id
        try:
            structure = await self._file.inspect(mp4.read_structure)
            if structure.end <= length and structure.has_moov and not structure.has_samples:
                raise mp4.MalformedMP4Error("its index has no sample")
        except mp4.MalformedMP4Error as error:
            message = f"the data received for task {task_id!r} is not a video: {error}"
            raise NotVideoError(message, task_id=task_id, received=length) from error
        self.problem = structure.find_problem(length)
        if self.problem:
            if total is not None:
                self._give_up(None)
            return False
        if not (self._is_verified(structure) or self._accept_unverified):
            unknown = f"the service did not send its length, and the {length} received bytes do not show where it ends"
            raise UnverifiedVideoError(
                f"it cannot be verified that the video of task {task_id!r} is complete: "
                f"{structure.contradiction or unknown}. Nothing was saved.",
                task_id=task_id,
                received=length,
                advice="Download it again; to save it anyway, pass accept_unverified=True.",
            )
        return True

    def _is_verified(self, structure: mp4.BoxStructure) -> bool:
        """Whether the end is known: announced, delimited (and no page of a proxy follows), or shown by the boxes."""
        if structure.contradiction:
            return False
        is_delimited = self._is_delimited and not (structure.is_fragmented and structure.has_trailer)
        return self._total is not None or is_delimited or structure.proves_its_end

    def _give_up(self, error: TransportError | ServiceError | None, how_long: str = "") -> NoReturn:
        """Raise ``error`` if it explains the failure, else a TruncatedError."""
        if error is not None and (
            retry_delay(error, 1, 1.0) is None or not (self.furthest or isinstance(error, BodyError))
        ):
            raise error
        total = "an unknown number of" if self._total is None else self._total
        message = (
            f"the video of task {self._content.task_id!r} is incomplete: {self.furthest} of {total} bytes were "
            f"received, and {self.problem}{how_long}. Nothing was saved. Download it again"
        )
        raise TruncatedError(message, task_id=self._content.task_id, received=self.furthest) from error


def _read_end(file: BinaryIO, length: int, size: int) -> bytes:
    file.seek(max(length - size, 0))
    return file.read(size)

"""One download under way: what has come, whether it fits together, and how to go on after a break."""

import logging
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from vidgen_async.clock import Clock, backoff
from vidgen_async.errors import (
    BodyError,
    NotVideoError,
    ServiceError,
    TransportClosedError,
    TransportError,
    TruncatedError,
)
from vidgen_async.events import Event, report
from vidgen_async.media import mp4
from vidgen_async.media.content import Content, Opened
from vidgen_async.media.partial_file import PartFile
from vidgen_async.service.status_rules import rule_for
from vidgen_async.transports.base import Response
from vidgen_async.types.http import CHUNK, Headers, Phase

logger = logging.getLogger(__name__)

OnProgress: TypeAlias = Callable[[int, int | None], None]

#: Bytes are gathered up to this many, or for so many seconds, before a thread writes them.
BATCH = 1 << 20
_LINGER = 0.25
#: At most one report of progress in so many seconds, the last aside.
_REPORT_EVERY = 0.1


class Transfer:
    """Brings the video into ``part``, whole; or raises. It goes on for as long as new bytes keep coming.

    New bytes are those beyond the furthest that ever came: a service that always breaks off at the same place is
    given up ``patience`` seconds after it first did.
    """

    def __init__(
        self,
        content: Content,
        part: PartFile,
        clock: Clock,
        *,
        on_progress: OnProgress | None,
        patience: float,
        chance: Callable[[], float],
    ) -> None:
        self._content = content
        self._part = part
        self._clock = clock
        self._on_progress = on_progress
        self._patience = patience
        self._chance = chance
        self._total: int | None = None
        self._etag: str | None = None
        self._waiting = bytearray()
        self._furthest = 0
        self._last_news = clock.now()
        self._reported: float | None = None
        self._why = ""
        self._is_delimited = False

    async def run(self) -> None:
        """Return when the whole video is there."""
        tries = 0
        while True:
            furthest, error = self._furthest, None
            try:
                if await self._try():
                    self._report(is_last=True)
                    return
            except (TransportError, ServiceError) as failure:
                error = failure
            if self._furthest > furthest:
                tries = 0
                if error is None:
                    continue
            tries += 1
            pause = self._pause(error, tries)
            if pause is None or self._clock.now() + pause > self._last_news + self._patience:
                self._give_up(error)
            report(
                logger,
                logging.INFO,
                Event.DOWNLOAD_AGAIN,
                "the download of task %(task_id)s goes on in %(seconds).1f s (%(error)s)",
                task_id=self._content.task_id,
                seconds=pause,
                error=self._why,
            )
            await self._clock.sleep(pause)

    async def _try(self) -> bool:
        """One answer, as far as it comes; whether the video is whole now."""
        part = self._part
        if part.length and part.length == self._total:
            return await self._is_whole()
        if self._etag is None:
            await part.truncate()
        resume = f"bytes={part.length}-" if part.length else None
        opened = await self._content.open(byte_range=resume, validator=self._etag if resume else None)
        async with opened.response as response:
            if response.status == 416:
                return await self._at_the_end(response)
            span = None
            if response.status == 206:
                span = self._continuing(response.headers)
                if span is None:
                    return await self._start_over("the service sent another range than was asked for")
            else:
                await part.truncate()
                self._total, self._etag = mp4.content_length(response.headers), mp4.strong_etag(response.headers)
            self._is_delimited = self._total is not None or "Transfer-Encoding" in response.headers
            await self._take(opened)
        if span is not None and span.end is not None and part.length != span.end + 1:
            return await self._start_over("the service sent another number of bytes than its Content-Range says")
        return await self._is_whole()

    def _continuing(self, headers: Headers) -> mp4.Span | None:
        """The range of a 206 if it goes on exactly where we are, in the same file."""
        span, etag = mp4.content_range(headers), mp4.strong_etag(headers)
        if span is None or span.start != self._part.length:
            return None
        if self._part.length:
            is_other_file = ("ETag" in headers and etag != self._etag) or (
                self._total is not None and span.total not in (None, self._total)
            )
            if is_other_file:
                return None
        else:
            self._etag = etag
        self._total = span.total if span.total is not None else self._total
        return span

    async def _at_the_end(self, response: Response) -> bool:
        """416: there are no bytes after those that we have, if the service's total is the same as ours."""
        span = mp4.content_range(response.headers)
        total = self._total if span is None or span.total is None else span.total
        if total == self._part.length and self._total in (None, total):
            self._total = total
            return await self._is_whole()
        return await self._start_over("the service has nothing from there on (416)")

    async def _take(self, opened: Opened) -> None:
        """Write the body; what came before a break is written too."""
        pieces = opened.response.chunks(CHUNK)
        self._waiting = bytearray()
        if self._part.length:
            await self._content.check_media(opened)
        else:
            self._waiting += await self._content.first_piece(opened, pieces)
        since = self._clock.now()
        try:
            async for piece in pieces:
                self._waiting += piece
                if len(self._waiting) >= BATCH or self._clock.now() - since >= _LINGER:
                    await self._write()
                    since = self._clock.now()
        except TransportError:
            await self._write()
            raise
        await self._write()

    async def _write(self) -> None:
        full, self._waiting = self._waiting, bytearray()
        if not full:
            return
        await self._part.write(full)
        if self._part.length > self._furthest:
            self._furthest = self._part.length
            self._last_news = self._clock.now()
        self._report()

    def _report(self, *, is_last: bool = False) -> None:
        now = self._clock.now()
        if self._on_progress is None:
            return
        if is_last or self._reported is None or now - self._reported >= _REPORT_EVERY:
            self._reported = now
            self._on_progress(self._part.length, self._total)

    async def _start_over(self, why: str) -> bool:
        self._why = why
        self._total = self._etag = None
        await self._part.truncate()
        return False

    async def _is_whole(self) -> bool:
        """After a body that ended well. False: go on. What cannot get better by going on is raised."""
        length, total = self._part.length, self._total
        if total is not None and length < total:
            self._why = "it ended early"
            return False
        if total is not None and length > total:
            return await self._start_over("more bytes came than were announced")
        try:
            structure = await self._part.examine(mp4.read_structure)
        except mp4.MalformedError as error:
            message = f"what came for task {self._content.task_id!r} is no video: {error}"
            raise NotVideoError(message, task_id=self._content.task_id, received=length) from error
        self._why = self._what_lacks(structure)
        if not self._why:
            return True
        if total is not None:
            self._give_up(None)
        return False

    def _what_lacks(self, structure: mp4.Structure) -> str:
        if structure.end > self._part.length:
            return f"its MP4 boxes need at least {structure.end} bytes"
        if not structure.has_moov:
            return "its index, the MP4 box moov, is missing"
        if not structure.has_mdat:
            return "its pictures, the MP4 box mdat, are missing"
        if structure.is_open and not self._is_delimited:
            return "nothing tells its length: the service announced none, and its last MP4 box is open"
        return ""

    # -- giving up ---------------------------------------------------------------------------------------------------

    def _pause(self, error: TransportError | ServiceError | None, tries: int) -> float | None:
        """Seconds before the next try; None when the failure is final."""
        own = backoff(tries, self._chance())
        if error is None:
            return own
        self._why = str(error)
        if isinstance(error, TransportError):
            # A request that cannot be built will not be better the next time.
            return None if isinstance(error, TransportClosedError) or error.phase is Phase.BUILD else own
        if not rule_for(error.status).is_read_retried:
            return None
        return own if error.retry_after is None else max(own, error.retry_after)

    def _give_up(self, error: TransportError | ServiceError | None) -> NoReturn:
        """Raise ``error`` if it says it all; else that the video is not whole."""
        if error is not None and (
            self._pause(error, 1) is None or not (self._furthest or isinstance(error, BodyError))
        ):
            raise error
        total = "an unknown number of" if self._total is None else self._total
        message = (
            f"the video of task {self._content.task_id!r} is not whole: {self._furthest} of {total} bytes came, "
            f"and {self._why}. Nothing was saved; download it again"
        )
        raise TruncatedError(message, task_id=self._content.task_id, received=self._furthest) from error

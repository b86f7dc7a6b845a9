"""A transport that replays a cassette, without a network."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from yarl import URL

from vidgen_async import errors
from vidgen_async.cassette.body_decoding import body_bytes, read_blob, stream_body
from vidgen_async.cassette.body_encoding import BodyCapture, read_through
from vidgen_async.cassette.document import Failure, Interaction
from vidgen_async.cassette.request_matching import Claim, RequestMatcher
from vidgen_async.cassette.settings import Cassette, as_cassette
from vidgen_async.clock import Clock, VirtualClock, hold_of, run_in_thread
from vidgen_async.errors import (
    BodyError,
    CassetteError,
    CassetteInvalidError,
    CassetteUnusedError,
    ConnectionLostError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.transports.base import BufferedResponse, Connection, Response, Transport, nothing_sent
from vidgen_async.types.http import BytesBody, Delivery, Phase, Request, make_headers

#: Real seconds to wait for the cancellation of a request whose caller was cancelled when it was recorded.
_CANCEL_TIMEOUT = 60.0
#: Seconds; a response that took less is returned at once.
_SHORTEST_WAIT = 0.5
_SHOWN = 10


class ReplayTransport(Transport):
    """Returns the recorded response to each request; nothing is ever sent.

    Equal requests get their interactions in the order in which they were recorded, whatever other requests there are.
    A request that is not on the cassette raises CassetteMissError, one that was recorded less often
    CassetteExhaustedError: the SDK neither retries nor handles these, and :meth:`check` raises the first of them again.

    Time is virtual: ``clock`` begins at the time of the recording, and a client uses it. An hour of polls takes
    milliseconds, in exact order. The cassette is read when the transport is made.

    Raises:
        CassetteNotFoundError: There is no such file.
        CassetteInvalidError: It is damaged or not a cassette.
        CassetteVersionError: It has a newer format.
    """

    is_replay = True

    def __init__(self, cassette: Cassette | str | os.PathLike[str]) -> None:
        self.cassette: Cassette = as_cassette(cassette)
        self._document = document = self.cassette.load()
        self.clock: VirtualClock = VirtualClock(document.meta.recorded_at)
        #: Each outcome takes its time on it if it is virtual.
        self._clock: Clock = self.clock
        self.base_url: URL | None = None if document.meta.base_url is None else URL(document.meta.base_url)
        """The base URL of the recorded service, for the client of this replay."""
        self.misses: list[CassetteError] = []
        """The errors of requests that are not on the cassette, in order."""
        self.played: list[int] = []
        """The ordinals of the replayed interactions, in order."""
        self._matcher = RequestMatcher(document, self.cassette)
        self._closed = asyncio.Event()
        self._reading = asyncio.Lock()

    async def send(self, request: Request) -> Response:
        """Return the recorded response, or raise the recorded error with the same evidence. The interaction is claimed
        before anything is awaited."""
        return await self._play(await self._claim(request), request)

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Claim the interaction, and raise a recorded failure to connect. ``connection.send()`` returns or raises any
        other outcome; without it, the next equal request gets the interaction."""
        claim = await self._claim(request)
        if claim.interaction.is_not_sent:
            with nothing_sent(request):
                await self._play(claim, request)
        send = partial(self._play, claim, request)
        try:
            yield Connection(send, is_ready=lambda: not self._closed.is_set(), is_replay=True)
        finally:
            self._matcher.release(claim)

    async def _claim(self, request: Request) -> Claim:
        """Claim the next interaction. Requests whose body must be read claim in the order in which they began."""
        if self._closed.is_set():
            raise _closed(request, Delivery.NOT_SENT)
        body = request.body
        try:
            if body is None or isinstance(body, BytesBody):
                sent = BodyCapture()
                sent.add(b"" if body is None else body.data)
                return self._matcher.claim(request, sent)
            with hold_of(self._clock)():
                async with self._reading:
                    sent = await read_through(body)
                    return self._matcher.claim(request, sent)
        except CassetteError as error:
            self._record(error)
            raise

    @property
    def unused(self) -> tuple[Interaction, ...]:
        """The interactions that were not replayed, without requests that were cancelled when they were recorded."""
        claimed = self._matcher.played
        return tuple(one for one in self._document.interactions if one.n not in claimed and not one.is_cancelled)

    def check(self, *, allow_unused: bool = False) -> None:
        """Raise the first miss, even if it was caught before; else CassetteUnusedError for unused interactions."""
        if self.misses:
            raise self.misses[0]
        if self.unused and not allow_unused:
            lines = [str(interaction) for interaction in self.unused]
            what = "interaction was" if len(lines) == 1 else "interactions were"
            shown = "".join(f"\n  {line}" for line in lines[:_SHOWN])
            more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
            message = f"of {self.cassette.path} {len(lines)} {what} never replayed:{shown}{more}"
            advice = "Record it again, or allow it: allow_unused=True, of check() or of the pytest marker."
            raise CassetteUnusedError(f"{message}\n", unused=lines, advice=advice)

    async def aclose(self) -> None:
        """Refuse further sends; pending ones raise TransportClosedError. May be called twice."""
        self._closed.set()

    async def _play(self, claim: Claim, request: Request) -> Response:
        """Repeat for this request what happened to the recorded one."""
        claim.is_played = True
        interaction, failure = claim.interaction, claim.interaction.failure
        self.played.append(interaction.n)
        await self._wait_as_recorded(interaction, request)
        if failure is not None and interaction.status is None:
            if interaction.is_cancelled:
                await self._await_cancellation(request)
                raise _closed(request, failure.delivery)
            raise _error(failure, request)
        return BufferedResponse(
            interaction.status or 0,
            self._chunks(interaction, request),
            headers=make_headers(interaction.headers),
            url=request.url,
        )

    async def _chunks(self, interaction: Interaction, request: Request) -> AsyncIterator[bytes]:
        """The recorded body, and how it ended."""
        body, failure = interaction.body or {}, interaction.failure
        data, blob = body_bytes(interaction.body), b""
        try:
            if data is None and "blob" in body:
                with hold_of(self._clock)():
                    blob = await run_in_thread(read_blob, body, self.cassette.blobs)
        except (OSError, ValueError) as error:
            path = str(self.cassette.path)
            problem = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else error
            message = f"the cassette {path} cannot be replayed: its blob {body.get('blob')} {problem}"
            pointer = f"/interactions/{self._document.interactions.index(interaction)}/response/body/blob"
            raise self._record(CassetteInvalidError(message, path=path, pointer=pointer)) from error
        for number, chunk in enumerate(stream_body(body, blob) if data is None else (data,)):
            if number:
                # Other tasks run; virtual time must not jump ahead while a body is received.
                if isinstance(self._clock, VirtualClock):
                    self._clock.touch()
                await asyncio.sleep(0)
            if self._closed.is_set():
                raise _closed_within_body(request)
            yield chunk
        if failure is not None:
            raise _error(failure, request)
        if body.get("end") == "cancelled":
            await self._await_cancellation(request)
            raise _closed_within_body(request)
        elif "end" in body:
            message = (
                f"{request.op}: only the beginning of this response was read when {self.cassette.path} was recorded "
                f"(n={interaction.n}); record it again"
            )
            raise self._record(CassetteError(message))

    def _record(self, error: CassetteError) -> CassetteError:
        self.misses.append(error)
        return error

    async def _wait_as_recorded(self, interaction: Interaction, request: Request) -> None:
        """Let virtual time pass as recorded, since a time limit may have depended on it. Short times are skipped."""
        at = interaction.ended if interaction.answered is None else interaction.answered
        waited = 0.0 if at is None else at - interaction.started
        if waited < _SHORTEST_WAIT or interaction.is_cancelled or not isinstance(self._clock, VirtualClock):
            return
        await self._clock.sleep(waited)
        if self._closed.is_set():
            raise _closed(request, Delivery.NOT_SENT if interaction.is_not_sent else Delivery.MAYBE_SENT)

    async def _await_cancellation(self, request: Request) -> None:
        """Wait until the caller is cancelled or the transport closed; not on the clock, so that time limits expire."""
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self._closed.wait()
        except TimeoutError:
            message = (
                f"{request.op}: the caller of this request was cancelled when it was recorded, and is not cancelled now"
            )
            raise self._record(CassetteError(message)) from None


def _error(failure: Failure, request: Request) -> TransportError:
    """The recorded error, with its evidence."""
    kind = getattr(errors, failure.type, None)
    if not (isinstance(kind, type) and issubclass(kind, TransportError)):
        kind = TransportError
    more: dict[str, Any] = {"received": failure.received} if issubclass(kind, BodyError) else {}
    if issubclass(kind, ConnectionLostError):
        more["is_reused"] = failure.is_reused
    return kind(failure.message, delivery=failure.delivery, phase=failure.phase, op=request.op, **more)


def _closed_within_body(request: Request) -> BodyError:
    return BodyError(f"{request.op}: the transport was closed before the whole body was received", op=request.op)


def _closed(request: Request, delivery: Delivery) -> TransportClosedError:
    message = f"{request.op}: the transport is closed"
    phase = Phase.BUILD if delivery is Delivery.NOT_SENT else Phase.WAIT
    return TransportClosedError(message, delivery=delivery, phase=phase, op=request.op)

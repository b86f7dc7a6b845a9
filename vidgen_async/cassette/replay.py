"""A transport that only plays back: there is no network in it."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from yarl import URL

from vidgen_async import errors
from vidgen_async.cassette.body_decoding import body_bytes, streamed
from vidgen_async.cassette.document import Document, Failure, Interaction
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.request_matching import Claim, Lanes
from vidgen_async.cassette.settings import Cassette, as_cassette
from vidgen_async.clock import Clock, VirtualClock
from vidgen_async.errors import (
    BodyError,
    CassetteError,
    CassetteInvalidError,
    CassetteUnusedError,
    ConnectionLostError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.transports.base import BufferedResponse, Response
from vidgen_async.types.http import Delivery, Phase, Probe, Request, make_headers

#: Real seconds for which an answer is awaited whose recorded caller gave it up.
_PATIENCE = 60.0
#: Seconds; what took less is played at once.
_NOTICEABLE = 0.5
_SHOWN = 10
_HOW_TO_ALLOW = "Record it again, or allow it: allow_unused=True, of check() or of the pytest marker."


class ReplayTransport:
    """Answers each request with its interaction from a cassette; nothing is ever sent.

    Equal requests get their interactions in the order in which they were recorded, whatever else is asked meanwhile.
    What is not on the cassette is a CassetteMissError, what was recorded less often a CassetteExhaustedError: nothing
    in the SDK retries or survives these, and :meth:`check` raises the first of them once more.

    Time is virtual: ``clock`` begins at the recording's own time of day, and a client takes it for its own. An hour of
    polls takes milliseconds, in exact order. The cassette is read when the transport is made: CassetteNotFoundError,
    CassetteInvalidError, CassetteVersionError.
    """

    is_replay = True
    honours_gate = True

    def __init__(self, cassette: Cassette | str | os.PathLike[str]) -> None:
        self.cassette: Cassette = as_cassette(cassette)
        document = self.cassette.load()
        self._player = Player(document, self.cassette)
        self.clock: VirtualClock = VirtualClock(document.meta.recorded_at)
        self.base_url: URL | None = None if document.meta.base_url is None else URL(document.meta.base_url)
        """The recorded service's, for the client of this replay."""
        self._closed = asyncio.Event()

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Play the answer, or raise what was raised when it was recorded, with the same evidence. The interaction is
        claimed before anything is awaited."""
        if probe is not None:  # there is no network here; a played outcome says otherwise by passing the gate
            probe.record_not_sent(Phase.BUILD)
        if self._closed.is_set():
            raise _closed(request, Delivery.NOT_SENT)
        try:
            claim = self._player.claim(request)
            if claim is None:
                with self.clock.hold():
                    claim = await self._player.claim_streamed(request)
        except CassetteError as error:
            self._player.missed(error)
            raise
        return await play(claim, request, probe, self._player, clock=self.clock, closed=self._closed)

    @property
    def misses(self) -> list[CassetteError]:
        """What was asked for and is not on the cassette."""
        return self._player.misses

    @property
    def played(self) -> list[int]:
        """The ordinals of what was played, in order."""
        return self._player.played

    @property
    def unused(self) -> tuple[Interaction, ...]:
        """What was never played; requests that were cancelled when they were recorded aside."""
        return self._player.unused

    def check(self, *, allow_unused: bool = False) -> None:
        """Raise the first miss, also when something swallowed it; else CassetteUnusedError for what was not played."""
        if self.misses:
            raise self.misses[0]
        if self.unused and not allow_unused:
            lines = [str(interaction) for interaction in self.unused]
            what = "interaction was" if len(lines) == 1 else "interactions were"
            shown = "".join(f"\n  {line}" for line in lines[:_SHOWN])
            more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
            message = f"of {self.cassette.path} {len(lines)} {what} never played:{shown}{more}"
            raise CassetteUnusedError(f"{message}\n", unused=lines, advice=_HOW_TO_ALLOW)

    async def aclose(self) -> None:
        """Refuse further sends; what still waits ends with a TransportClosedError. Twice is fine."""
        self._closed.set()


class Player:
    """A cassette, and what was played of it."""

    def __init__(self, document: Document, cassette: Cassette) -> None:
        self.cassette = cassette
        redactor = Redactor(
            prompts=cassette.prompts, secrets=cassette.secrets, is_numbered=False, origin=document.meta.origin
        )
        self.lanes = Lanes(document, cassette, redactor)
        self.played: list[int] = []
        self.misses: list[CassetteError] = []
        self._reading = asyncio.Lock()
        self._bytes: dict[int, bytes | None] = {}

    def claim(self, request: Request, *, may_repeat: bool = True) -> Claim | None:
        """At once; None when the request's body must be read for it."""
        key = self.lanes.key_of(request)
        return None if key is None else self.lanes.claim(key, request.op, may_repeat=may_repeat)

    async def claim_streamed(self, request: Request, *, may_repeat: bool = True) -> Claim:
        """Like :meth:`claim`, after the body was read. Who began first claims first, however long a body takes."""
        async with self._reading:
            key = await self.lanes.key_of_streamed(request)
            return self.lanes.claim(key, request.op, may_repeat=may_repeat)

    def missed(self, error: CassetteError) -> CassetteError:
        """Keep the error for :meth:`ReplayTransport.check`, whoever swallows it."""
        self.misses.append(error)
        return error

    def body_of(self, interaction: Interaction) -> bytes | None:
        """The bytes of the answer; None for one that must be streamed."""
        if interaction.n not in self._bytes:
            self._bytes[interaction.n] = body_bytes(interaction.body)
        return self._bytes[interaction.n]

    @property
    def unused(self) -> tuple[Interaction, ...]:
        return tuple(
            place.interaction
            for place in self.lanes.places
            if not place.is_played and not (place.interaction.failure and place.interaction.failure.is_cancelled)
        )


async def play(
    claim: Claim, request: Request, probe: Probe | None, player: Player, *, clock: Clock, closed: asyncio.Event
) -> Response:
    """What happened to the recorded request happens to this one."""
    interaction, failure = claim.interaction, claim.interaction.failure
    is_unsent = failure is not None and failure.delivery is Delivery.NOT_SENT
    if probe is not None:
        probe.is_replay = True
        probe.record_not_sent(Phase.BUILD)
    if probe is not None and not is_unsent:
        try:
            await probe.pass_gate()
        except BaseException:
            claim.give_back()
            raise
    player.played.append(interaction.n)
    await _take_as_long(interaction, request, probe, clock=clock, closed=closed)
    if failure is not None and interaction.status is None:
        if probe is not None:
            probe.learn(failure.delivery, failure.phase)
        if failure.is_cancelled:
            await _given_up(request, player, closed)
            raise _closed(request, failure.delivery)
        raise _error(failure, request)
    if probe is not None:
        probe.learn(Delivery.ANSWERED, Phase.BODY)
    return BufferedResponse(
        interaction.status or 0,
        _pieces(interaction, request, player, clock=clock, closed=closed),
        headers=make_headers(interaction.headers),
        url=request.url,
    )


async def _pieces(
    interaction: Interaction, request: Request, player: Player, *, clock: Clock, closed: asyncio.Event
) -> AsyncIterator[bytes]:
    """The body as it was recorded, and its end as it was."""
    body, failure = interaction.body or {}, interaction.failure
    data = player.body_of(interaction)
    try:
        for number, piece in enumerate(streamed(body, player.cassette.blobs) if data is None else (data,)):
            if number:
                await _pass(clock)
            if closed.is_set():
                raise _cut(request)
            if piece:
                yield piece
    except (OSError, EOFError) as error:
        message = (
            f"the cassette {player.cassette.path} cannot be played: its blob {body.get('blob')} is missing or damaged"
        )
        at = next(at for at, place in enumerate(player.lanes.places) if place.interaction is interaction)
        pointer = f"/interactions/{at}/response/body/blob"
        raise player.missed(CassetteInvalidError(message, path=str(player.cassette.path), pointer=pointer)) from error
    if failure is not None:
        raise _error(failure, request)
    if body.get("end") == "cancelled":
        await _given_up(request, player, closed)
        raise _cut(request)
    elif "end" in body:
        message = (
            f"{request.op}: only the beginning of this answer was read when {player.cassette.path} was recorded "
            f"(n={interaction.n}); record it again"
        )
        raise player.missed(CassetteError(message))


async def _take_as_long(
    interaction: Interaction, request: Request, probe: Probe | None, *, clock: Clock, closed: asyncio.Event
) -> None:
    """Let virtual time pass as it did: a caller's limit or patience may have hung on it. Short times are not played."""
    at = interaction.ended if interaction.answered is None else interaction.answered
    waited = 0.0 if at is None else at - interaction.started
    is_given_up = interaction.failure is not None and interaction.failure.is_cancelled
    if waited < _NOTICEABLE or is_given_up or not isinstance(clock, VirtualClock):
        return
    await clock.sleep(waited)
    if closed.is_set():
        raise _closed(request, Delivery.MAYBE_SENT if probe is None else probe.delivery)


async def _pass(clock: Clock) -> None:
    """Let others run; a body that comes is no time to jump ahead."""
    if isinstance(clock, VirtualClock):
        clock.touch()
    await asyncio.sleep(0)


async def _given_up(request: Request, player: Player, closed: asyncio.Event) -> None:
    """Wait as the recorded caller did: until it is cancelled; return when the transport is closed. Nobody sleeps here
    on the clock: a limit of the caller's, virtual or real, comes when it comes."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await closed.wait()
    except TimeoutError:
        message = f"{request.op}: this request was given up by its caller when it was recorded, and is awaited here"
        raise player.missed(CassetteError(message)) from None


def _error(failure: Failure, request: Request) -> TransportError:
    """The error that was recorded, with its evidence."""
    kind = getattr(errors, failure.type, None)
    if not (isinstance(kind, type) and issubclass(kind, TransportError)):
        kind = TransportError
    more: dict[str, Any] = {"received": failure.received} if issubclass(kind, BodyError) else {}
    if issubclass(kind, ConnectionLostError):
        more["is_reused"] = failure.is_reused
    return kind(failure.message, delivery=failure.delivery, phase=failure.phase, op=request.op, **more)


def _cut(request: Request) -> BodyError:
    return BodyError(f"{request.op}: the transport was closed while the body was coming", op=request.op)


def _closed(request: Request, delivery: Delivery) -> TransportClosedError:
    message = f"{request.op}: the transport is closed"
    phase = Phase.BUILD if delivery is Delivery.NOT_SENT else Phase.WAIT
    return TransportClosedError(message, delivery=delivery, phase=phase, op=request.op)

"""What goes over a transport: requests, their bodies, time limits, and the evidence of what became of them."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from attrs import asdict, field, frozen
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from vidgen_async.redaction.messages import hide_secrets

Headers: TypeAlias = CIMultiDictProxy[str]

#: Bodies leave in pieces of this size, so that a cancelled send stops soon (aiohttp flushes what it was handed).
CHUNK = 65536


#: Longer JSON answers are not read on, in bytes: an answer without end must not fill the memory.
LONGEST_ANSWER = 8 << 20
#: Bytes of an answer from which on each pass over it has a turn of the event loop of its own.
LONG_ANSWER = 1 << 16


def make_headers(items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> Headers:
    """Headers whose names are compared without case; duplicates and order are kept."""
    return CIMultiDictProxy(CIMultiDict(items))


class Delivery(StrEnum):
    """What is known of a request: did it reach the service?"""

    NOT_SENT = "not_sent"
    """Proven: no byte of the request left."""
    MAYBE_SENT = "maybe_sent"
    """It cannot be excluded that the service has it."""
    ANSWERED = "answered"
    """A status line came back."""


class Phase(StrEnum):
    """How far a send got: the last of these that was begun."""

    BUILD = "build"
    POOL = "pool"
    DNS = "dns"
    CONNECT = "connect"
    SEND = "send"
    WAIT = "wait"
    BODY = "body"


_RANK = {Delivery.NOT_SENT: 0, Delivery.MAYBE_SENT: 1, Delivery.ANSWERED: 2}


class Probe:
    """One send's evidence and its gate, shared by the caller and the transport; never used for a second send.

    ``gate`` is awaited by the transport exactly once: when the connection is ready and before the first byte leaves.
    While it waits nothing leaves; when it raises, or is cancelled, nothing ever leaves. From its return on the
    request counts as maybe sent. A transport that fails before it reaches the gate records that with
    :meth:`record_not_sent`; without that record, nothing is proven. The evidence stays readable after the send was
    cancelled.
    """

    __slots__ = ("_delivery", "_gate", "_has_failed_early", "_passed", "is_replay", "phase")

    def __init__(self, *, gate: Callable[[], Awaitable[None]] | None = None) -> None:
        self._gate = gate
        self._passed = False
        self._has_failed_early = False
        self._delivery = Delivery.NOT_SENT
        self.phase: Phase = Phase.BUILD
        #: Set by a transport that plays the answer: whoever wraps it, nothing goes out.
        self.is_replay: bool = False

    def __repr__(self) -> str:
        return f"Probe(delivery={self._delivery!s}, phase={self.phase!s})"

    @property
    def delivery(self) -> Delivery:
        """What is known of whether the request reached the service; see also :attr:`is_proven_not_sent`."""
        return self._delivery

    @property
    def is_proven_not_sent(self) -> bool:
        """Whether there is positive evidence that no byte left: the gate was reached and did not open, or the send
        failed before it and that was recorded. *Not sent* alone is only the absence of evidence."""
        return self._delivery is Delivery.NOT_SENT and (self._passed or self._has_failed_early)

    def record_not_sent(self, phase: Phase) -> None:
        """Record that the send failed, or was cancelled, in a phase before the gate: no byte left, and none will.
        Without effect once the gate has opened."""
        if self._delivery is Delivery.NOT_SENT:
            self._has_failed_early = True
            self.phase = phase

    def learn(self, delivery: Delivery, phase: Phase | None = None) -> None:
        """Record evidence. It only grows: *answered* is never taken back to *not sent*."""
        if _RANK[delivery] > _RANK[self._delivery]:
            self._delivery = delivery
        if phase is not None:
            self.phase = phase

    async def pass_gate(self) -> None:
        """Await the gate; afterwards the request is *maybe sent*.

        Raises RuntimeError when it is passed twice: one send is one request on the wire, and the second attempt of a
        library that silently repeats requests must end here, before its first byte.
        """
        if self._passed:
            message = "a second request was about to leave for one send; it was held back"
            raise RuntimeError(message)
        self._passed = True
        if self._gate is not None:
            await self._gate()
        self.learn(Delivery.MAYBE_SENT, Phase.SEND)


class Body(Protocol):
    """A request body that can be opened again and again: one ``open()`` per send."""

    @property
    def length(self) -> int:
        """In bytes: what goes out as Content-Length."""
        ...

    @property
    def content_type(self) -> str:
        """What goes out as Content-Type."""
        ...

    def open(self) -> AsyncIterator[bytes]:
        """All of the body from its beginning, in pieces."""
        ...


@frozen
class BytesBody:
    """A body held in memory. Its repr shows the length only."""

    data: bytes = field(repr=False)
    content_type: str = "application/json"

    @property
    def length(self) -> int:
        return len(self.data)

    async def open(self) -> AsyncIterator[bytes]:
        """The data in pieces of 64 KiB."""
        view = memoryview(self.data)
        for start in range(0, len(view), CHUNK):
            yield bytes(view[start : start + CHUNK])


@frozen(kw_only=True)
class Timeouts:
    """Limits in seconds for single requests; None means no limit. How long a *task* may take is not their business."""

    connect: float | None = 10.0
    """For a slot in the pool, the name look-up, the connection and the TLS handshake together."""
    read: float | None = 60.0
    """For silence: the longest pause between two reads of an answer."""
    create: float | None = 120.0
    """For a whole create, from connecting to the last byte of the answer."""
    answer: float | None = 300.0
    """For every other request and its whole answer, also where each pause is short; not for videos. A poll takes at
    most a quarter of the interval."""

    def __attrs_post_init__(self) -> None:
        for name, seconds in asdict(self).items():
            if seconds is not None and not seconds > 0:
                message = f"Timeouts.{name} must be a number of seconds above 0, or None: {seconds!r}"
                raise ValueError(message)


@frozen(kw_only=True)
class Request:
    """One request. Its repr shows no header values, no body and no secret query values."""

    op: str
    """A stable name: ``videos.create``, ``videos.get``, …"""
    method: str
    url: URL = field(repr=lambda url: repr(hide_secrets(str(url))))
    headers: Headers = field(factory=make_headers, repr=lambda headers: repr(sorted(set(headers))))
    body: Body | None = None
    timeouts: Timeouts = field(factory=Timeouts)
    pool: Literal["polls", "reads", "streams"] = "reads"
    """Whose connections it may use, so that none of these waits for another: polls, videos, and everything else."""
    needs_new_connection: bool = False
    """No kept-alive connection is to be used: the service has just closed one."""


#: The longest Retry-After that is believed, in seconds: one wrong clock must not stop a client for good.
LONGEST_RETRY_AFTER = 3600.0


def retry_after(value: str | None, wall: datetime) -> float | None:
    """The seconds that a Retry-After header asks for: a number of seconds, or an HTTP date compared with ``wall``.

    None without a header that can be read; never negative, at most an hour.
    """
    if value is None:
        return None
    try:
        seconds = float(value.strip())
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - wall).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)

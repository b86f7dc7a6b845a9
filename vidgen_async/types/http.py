"""What transports send: requests, their bodies and time limits; and what is known about their delivery."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from attrs import asdict, field, frozen
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from vidgen_async.redaction.messages import hide_secrets

#: Headers with case-insensitive names, several of which may be equal.
Headers: TypeAlias = CIMultiDictProxy[str]

#: Returns the present API key; it may be async. It must not block the event loop.
KeyFunction: TypeAlias = Callable[[], str | Awaitable[str]]

#: Size in bytes of the chunks in which bodies are sent. It bounds what a cancelled send still writes, since aiohttp
#: flushes the chunk that it has.
CHUNK = 65536

#: Maximum size in bytes of a JSON response: an endless response must not exhaust the memory.
LONGEST_ANSWER = 8 << 20
#: Size in bytes from which a response is processed in several steps, between which other tasks of the event loop run.
LONG_ANSWER = 1 << 16


def make_headers(items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> Headers:
    """Return headers with case-insensitive names; duplicates and the order are preserved."""
    return CIMultiDictProxy(CIMultiDict(items))


class Delivery(StrEnum):
    """What is known about whether a request reached the service; each is more than the one before."""

    NOT_SENT = "not_sent"
    """Proven: no byte of the request was sent."""
    MAYBE_SENT = "maybe_sent"
    """The service may have received the request."""
    ANSWERED = "answered"
    """A status line was received."""


class Phase(StrEnum):
    """The last phase of a send that was started."""

    BUILD = "build"
    POOL = "pool"
    DNS = "dns"
    CONNECT = "connect"
    SEND = "send"
    WAIT = "wait"
    BODY = "body"


class Body(Protocol):
    """A request body that can be read any number of times: each send calls ``open()``."""

    @property
    def length(self) -> int:
        """The size in bytes, sent as Content-Length."""
        ...

    @property
    def content_type(self) -> str:
        """The media type, sent as Content-Type."""
        ...

    def open(self) -> AsyncIterator[bytes]:
        """Return an iterator over the chunks of the whole body."""
        ...


@frozen
class BytesBody:
    """A request body in memory. Its ``repr`` does not show the data."""

    data: bytes = field(repr=False)
    content_type: str = "application/json"

    @property
    def length(self) -> int:
        return len(self.data)

    async def open(self) -> AsyncIterator[bytes]:
        """Yield the data in chunks of at most 64 KiB."""
        view = memoryview(self.data)
        for start in range(0, len(view), CHUNK):
            yield bytes(view[start : start + CHUNK])


@frozen(kw_only=True)
class Timeouts:
    """Time limits of single requests, in seconds; None is no limit. They do not limit how long a *task* may take."""

    connect: float | None = 10.0
    """Limit for a slot in the pool, DNS, the connection and the TLS handshake together."""
    read: float | None = 60.0
    """Limit between two reads of a response during which no byte arrives."""
    create: float | None = 120.0
    """Limit for a whole create, from connecting to the last byte of the response."""
    answer: float | None = 300.0
    """Limit for any other request with its whole response, except videos. Polls are limited to a quarter of the polling
    interval as well."""

    def __attrs_post_init__(self) -> None:
        for name, seconds in asdict(self).items():
            if seconds is not None and not seconds > 0:
                raise ValueError(f"Timeouts.{name} must be a number of seconds above 0, or None: {seconds!r}")

    def within(self, name: str) -> str:
        """A limit with the setting that changes it, for messages: ``"within 60 s (Timeouts.read)"``."""
        seconds: float | None = getattr(self, name)
        return "in time" if seconds is None else f"within {seconds:g} s ({self.setting_of(name)})"

    def setting_of(self, name: str) -> str:
        """The setting that changes the limit."""
        return f"Timeouts.{name}"


@frozen(kw_only=True)
class Request:
    """One HTTP request. Its ``repr`` shows no header values, no body and no secret query parameters."""

    op: str
    """The stable name of the operation: ``videos.create``, ``videos.get``, …"""
    method: str
    url: URL = field(repr=lambda url: repr(hide_secrets(str(url))))
    headers: Headers = field(factory=make_headers, repr=lambda headers: repr(sorted(set(headers))))
    body: Body | None = None
    timeouts: Timeouts = field(factory=Timeouts)
    pool: Literal["polls", "reads", "streams"] = "reads"
    """The connection pool to use. Polls, videos and all other requests have separate pools, so that none of these waits
    for another."""
    needs_new_connection: bool = False
    """Whether a connection that was kept alive must not be used: the service has just closed one."""

    def __reduce__(self) -> tuple[Any, ...]:
        # CIMultiDictProxy cannot be pickled or copied.
        return _restore_request, (asdict(self, recurse=False) | {"headers": tuple(self.headers.items())},)


def _restore_request(values: dict[str, Any]) -> Request:
    return Request(**values | {"headers": make_headers(values["headers"])})


#: Maximum Retry-After in seconds that is respected: a wrong clock on the other side must not stop a client for good.
LONGEST_RETRY_AFTER = 3600.0


def retry_after(headers: Headers, wall: datetime) -> float | None:
    """Return the seconds of a Retry-After header, from 0 to 3600; None if there is none, or it cannot be parsed.

    A date is compared with the ``Date`` of the response, which is of the same clock, or else with ``wall``.
    """
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        date = parse_http_date(value)
        if date is None:
            return None
        seconds = (date - (parse_http_date(headers.get("Date", "")) or wall)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None


def parse_http_date(value: str) -> datetime | None:
    """Parse an HTTP date, as in ``Date`` and Retry-After; None if it is none."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few responses need it

    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return date.replace(tzinfo=date.tzinfo or UTC)

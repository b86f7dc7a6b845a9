"""The connections: aiohttp's own, with a guard against data that was not requested, and reads without its session.

For a small read, a ``ClientSession`` takes more CPU time than all else: cookies, redirects, signals, a writer and two
timers. :class:`PlainReads` uses the same pool, connections and parser of aiohttp without it.

This is the only module that depends on names of aiohttp that are not documented. Those that only plain reads need are
checked when it is imported: where one is missing, sessions send the reads, too.
"""

import asyncio
import inspect
import logging
import math
import os
import select
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from operator import is_
from types import FunctionType
from typing import Any, Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError
from yarl import URL

from vidgen_async.events import Event
from vidgen_async.types.http import LONGEST_ANSWER, Headers, Request

_logger = logging.getLogger(__name__)


class _Send(Protocol):
    connection: "GuardedProtocol | None"
    is_response_kept: bool


#: The send for which connections are opened.
CURRENT_SEND: ContextVar[_Send | None] = ContextVar("current_send", default=None)


def _parameters_of(function: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # there is no such function, or it is compiled
        return frozenset()


#: The largest number of headers of a response.
_MOST_HEADERS = 10_000
#: Limits for the headers of a response, in bytes and in number: a receipt must not be lost because of a header. Not
#: every supported version of aiohttp has each of them.
HEADER_LIMITS: Mapping[str, Any] = {
    name: value
    for name, value in (("max_line_size", 65_536), ("max_field_size", 1 << 20), ("max_headers", 2 * _MOST_HEADERS))
    if name in _parameters_of(aiohttp.ClientSession)
}

#: Methods of aiohttp that plain reads call, and the parameters that they pass.
_NEEDED = (
    (aiohttp.TCPConnector, "connect", {"req", "traces", "timeout"}),
    (aiohttp.TCPConnector, "_get", {"key", "traces"}),
    (aiohttp.ClientRequest, "__init__", {"method", "url", "headers", "skip_auto_headers", "loop"}),
    (ResponseHandler, "set_response_params", {"read_until_eof", "read_timeout", "auto_decompress", *HEADER_LIMITS}),
    (ResponseHandler, "read", {"self"}),
    (ResponseHandler, "feed_data", {"data"}),
    (ResponseHandler, "_reschedule_timeout", {"self"}),
    (ResponseHandler, "_drop_timeout", {"self"}),
    (ResponseHandler, "_on_read_timeout", {"self"}),
)


def find_missing() -> tuple[str, ...]:
    """What plain reads need and this version of aiohttp does not have."""
    return tuple(
        f"{owner.__name__}.{name}"
        for owner, name, parameters in _NEEDED
        if not parameters <= _parameters_of(getattr(owner, name, None))
    )


MISSING = find_missing()

_SESSION = aiohttp.ClientSession
#: What sends the requests of a session and plain reads do not call. Fakes of services, recorders and agents for
#: monitoring replace it.
_OWNERS, _NAMES = zip(
    *((_SESSION, name) for name in ("__init__", "request", "_request")),
    *((aiohttp.ClientRequest, name) for name in ("__init__", "update_headers", "send", "write_bytes")),
    *((aiohttp.ClientResponse, name) for name in ("__init__", "start")),
    strict=True,
)
_find_methods = partial(map, getattr, _OWNERS, _NAMES, (None,) * len(_NAMES))
#: As they were at the import.
_METHODS = tuple(_find_methods())
#: A proxy has the type of what it wraps only by its ``__class__``.
_IS_AIOHTTP = all(
    method is None or (type(method) is FunctionType and method.__globals__["__name__"].startswith("aiohttp."))
    for method in _METHODS
)


@cache
def _is_supported() -> bool:
    if MISSING:
        Event.PLAIN_READS_MISSING.log(_logger, names=", ".join(MISSING))
    return not MISSING


def may_bypass(session: aiohttp.ClientSession) -> bool:
    """Whether plain reads can take the place of this session: nobody has replaced its class or the methods that send
    requests (fakes of services and recorders do), or listens to its signals (telemetry does)."""
    return (
        _is_supported()
        and _IS_AIOHTTP
        and aiohttp.ClientSession is _SESSION
        # By identity: the proxies of agents for monitoring equal what they wrap.
        and all(map(is_, _find_methods(), _METHODS))
        and type(session) is _SESSION
        and not session.trace_configs
    )


@lru_cache(maxsize=16)
def _is_own(method: Callable[..., object]) -> bool:
    """Whether it is a function of aiohttp, or a wrapper around one that names it by ``__wrapped__``."""
    origin = getattr(inspect.unwrap(method), "__globals__", None)
    return origin is vars(aiohttp.client) or origin is vars(aiohttp.connector)


def may_hold() -> bool:
    """Whether aiohttp's own code sends the requests of sessions, so that its signals are sent: it was not replaced, as
    fakes of services do; agents for monitoring wrap it."""
    return (
        aiohttp.ClientSession is _SESSION
        and _is_own(_SESSION.request)
        and _is_own(_SESSION._request)  # noqa: SLF001 - fakes of services replace it
        and _is_own(GuardedConnector.connect)
        and _is_own(GuardedConnector._create_connection)  # noqa: SLF001 - as above
    )


# -- connections -------------------------------------------------------------------------------------------------------

#: For how many seconds the rest of a response to a create that cannot be parsed is received.
_REST = 1.0


def _problem_of(headers: Headers) -> str:
    """Why the headers of a response are refused, if they are. Some versions of aiohttp refuse these, others do not: an
    answer is the same with each of them."""
    if len(headers) > _MOST_HEADERS:
        return f"it has more than {_MOST_HEADERS} headers"
    if "\0" in "".join(headers.values()):
        return "a header contains a NUL"
    lengths = headers.getall("Content-Length", ())
    if len(lengths) > 1 or (lengths and "Transfer-Encoding" in headers):
        return "the length of its body is ambiguous"
    return ""


class _KeepingParser:
    """aiohttp's parser for the response to a create, which continues to receive a response that it refuses: what was
    received is shown to an operator."""

    def __init__(self, parser: Any, protocol: "GuardedProtocol") -> None:
        self._parser, self._protocol = parser, protocol

    def feed_data(self, data: bytes) -> Any:
        if self._protocol.refusal is None:
            try:
                return self._parser.feed_data(data)
            except Exception as error:  # noqa: BLE001 - as aiohttp does
                self._protocol.refuse(error)
        return (), False, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


class GuardedProtocol(ResponseHandler):
    """A connection that is closed when data is received without a request. It has one timer, which is set again only
    when it has expired, or for an earlier time; aiohttp sets a new one whenever data is received."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.has_request = False
        """A request uses the connection."""
        self.has_received = False
        """Data was received since that request uses the connection."""
        self.is_reused = False
        """A request has used the connection before."""
        self.refusal: Exception | None = None
        """Why the response was refused."""
        self.received = bytearray()
        """What was received since a create uses the connection."""
        self._is_response_kept = False
        self._rest_handle: asyncio.TimerHandle | None = None
        self._has_unread: Callable[[], bool] | None = None
        self._silent_at = math.inf
        """When the time limit between two reads is over."""
        self._total_at = math.inf
        """When the time limit for the whole response is over."""
        self._timer_at = math.inf
        self._timer_handle: asyncio.TimerHandle | None = None
        if (pending := CURRENT_SEND.get()) is not None:
            pending.connection = self
            self._is_response_kept = pending.is_response_kept

    def set_response_params(self, **params: Any) -> None:
        """A request starts to use the connection."""
        self.has_request, self.has_received = True, False
        super().set_response_params(**params)
        if self._is_response_kept:
            self.received.clear()
            parser: Any = _KeepingParser(self._parser, self)
            self._parser = parser

    def resume_reading(self, *args: Any, **options: Any) -> None:
        """The reader of the body has room. aiohttp calls it for each response, and parses again what it has parsed."""
        if self._reading_paused:
            super().resume_reading(*args, **options)

    def end_request(self) -> None:
        """The response was received, or the connection is about to be closed."""
        self.has_request, self.is_reused = False, True
        self._total_at = math.inf

    def data_received(self, data: bytes) -> None:
        """Data was received; it is empty where aiohttp continues with data that was received before."""
        if data and not self.has_request:
            self.close()
            return
        self.has_received |= bool(data)
        if self._is_response_kept:
            self.received += data[: LONGEST_ANSWER - len(self.received)]
        super().data_received(data)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """The head of a response was received."""
        message = data[0]
        if message.code in (204, 304):  # some services send a body all the same, at any time
            self.force_close()
        if self.refusal is None and (problem := _problem_of(message.headers)):
            self.refuse(BadHttpMessage(problem))
        if self.refusal is None:
            super().feed_data(data, size)

    def refuse(self, error: Exception) -> None:
        """The response cannot be used. That to a create is received to its end, but not for long."""
        error.__traceback__ = None  # it references this connection
        known = error if isinstance(error, HttpProcessingError) else HttpProcessingError()
        self.refusal = HttpProcessingError(code=known.code, message=known.message, headers=known.headers)
        self.refusal.__cause__ = error
        if self._is_response_kept:
            self._rest_handle = self._loop.call_later(_REST, self._end_refused)
        else:
            self._end_refused()

    def _end_refused(self) -> None:
        if self.transport is not None and self.refusal is not None:
            self.set_exception(self.refusal)
            self.transport.close()

    def set_exception(self, exc: Any, *cause: Any) -> None:
        """Waiting for the response raises ``exc``, or why it was refused, also within the body."""
        if self.refusal is not None:
            exc, cause = self.refusal, ()
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._drop_timeout()
        if self._rest_handle is not None:
            self._rest_handle.cancel()

    @property
    def is_unusable(self) -> bool:
        """More than the last response was received, or the service has closed the connection."""
        transport = self.transport
        if transport is None or self.should_close:
            return True
        if self._has_unread is None:
            self._has_unread = _readiness_of(transport.get_extra_info("socket"))
        return self._has_unread()

    # -- time limits ---------------------------------------------------------------------------------------------------

    def start_timeouts(self, total_at: float) -> None:
        """The request was sent. From this time of the event loop on, waiting for the response raises TimeoutError."""
        self._total_at = total_at
        self._reschedule_timeout()

    def _reschedule_timeout(self) -> None:
        limit = self._read_timeout
        self._silent_at = self._loop.time() + limit if limit else math.inf
        self._set_timer()

    def _drop_timeout(self) -> None:
        self._silent_at = math.inf
        if self.transport is None and self._timer_handle is not None:
            self._timer_handle.cancel()
            self._timer_handle, self._timer_at = None, math.inf

    def _set_timer(self) -> None:
        expires_at = min(self._silent_at, self._total_at)
        if expires_at < self._timer_at:
            if self._timer_handle is not None:
                self._timer_handle.cancel()
            self._timer_at = expires_at
            self._timer_handle = self._loop.call_at(expires_at, self._expire)

    def _expire(self) -> None:
        self._timer_handle, self._timer_at = None, math.inf
        now = self._loop.time()
        if self._silent_at <= now:
            self._on_read_timeout()
        elif self._total_at <= now:
            error = TimeoutError()
            self.set_exception(error)
            if self._payload is not None:
                self._payload.set_exception(error)
        else:
            self._set_timer()


class GuardedConnector(aiohttp.TCPConnector):
    """A pool that returns only connections on which nothing was received after their last response: aiohttp returns
    such data as the response to the next request, a late second response for example, or the 408 of a load balancer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory: Any = partial(GuardedProtocol, loop=self._loop)

    async def _get(self, *args: Any) -> Any:
        while (connection := await super()._get(*args)) is not None:
            protocol = connection.protocol
            if not isinstance(protocol, GuardedProtocol) or not protocol.is_unusable:
                return connection
            connection.close()
        return None

    def _release(self, key: Any, protocol: Any, **options: Any) -> None:
        if isinstance(protocol, GuardedProtocol):
            protocol.end_request()
        super()._release(key, protocol, **options)


def _readiness_of(connected: Any) -> Callable[[], bool]:
    """Returns whether reading the socket would not wait: data or its end was received."""
    # Not a selector of the standard library: it takes four times as long, and this is asked before each read.
    if sys.platform == "win32":
        return lambda: bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return lambda: bool(poll.poll(0))


#: aiohttp would report its sessions, which the user of a client has never seen.
_UNCLOSED = (
    'a Client was used and not closed: write "async with Client(…) as client:", or "await client.aclose()" at the end'
)


def close_dropped(
    pools: Mapping[tuple[str, bool], aiohttp.ClientSession], process: int, loop: asyncio.AbstractEventLoop
) -> None:
    """Report that the transport of these pools was not closed, and close them as far as that needs no waiting."""
    dropped = [pool for pool in pools.values() if isinstance(pool, _SESSION) and not pool.closed]
    if os.getpid() != process or not dropped:
        return
    for pool in dropped:
        closing = pool.close()
        with suppress(StopIteration):
            closing.send(None)
        closing.close()
    loop.call_exception_handler({"message": _UNCLOSED})
    warnings.warn(_UNCLOSED, ResourceWarning, stacklevel=2)


# -- reads without a session -------------------------------------------------------------------------------------------


class PlainResponse:
    """A response without a session: what is used here of aiohttp's ``ClientResponse``."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(self, connection: Any, message: Any, content: aiohttp.StreamReader) -> None:
        self._connection = connection
        self.status: int = message.code
        self.headers = message.headers
        self.content = content
        content.on_eof(self._on_eof)

    @property
    def closed(self) -> bool:
        """Whether the whole body was received, or it was closed."""
        return self._connection is None

    def _on_eof(self) -> None:
        connection = self._connection
        if connection is not None and not connection.protocol.upgraded:
            self._connection = None
            connection.release()

    def close(self) -> None:
        """Close the connection, unless the whole body was received. The body can no longer be read."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    release = close

    async def wait_for_close(self) -> None:
        """Return at once: nothing is being sent."""


class PlainReads:
    """The GET requests with the headers, time limits and origin of ``request``, on the connections of ``session``;
    ``options`` are the arguments for ``session.request`` with which aiohttp sends the same bytes."""

    def __init__(self, session: aiohttp.ClientSession, request: Request, options: Mapping[str, Any]) -> None:
        self.session = session
        self._connector: Any = session.connector
        self._headers, self._timeouts = request.headers, request.timeouts
        self._origin = (request.url.scheme, request.url.raw_authority)
        self._loop = asyncio.get_running_loop()
        self._example = aiohttp.ClientRequest(
            "GET",
            request.url.origin(),
            headers=options["headers"],
            skip_auto_headers=options.get("skip_auto_headers"),
            loop=self._loop,
        )
        self._key = self._example.connection_key
        lines = "".join(f"{name}: {value}\r\n" for name, value in self._example.headers.items())
        self._rest_of_head = f" HTTP/1.1\r\n{lines}\r\n".encode()
        timeout: aiohttp.ClientTimeout = options["timeout"]
        self._read_timeout = timeout.sock_read
        self._total = math.inf if timeout.total is None else timeout.total
        self._is_total_first = self._total < (math.inf if timeout.connect is None else timeout.connect)
        if self._is_total_first:
            timeout = aiohttp.ClientTimeout(connect=timeout.total, sock_connect=timeout.total)
        self._connect_timeout = timeout

    def include(self, request: Request) -> bool:
        """Whether a GET without a body, and on no new connection, is one of them: only its path has to be checked."""
        is_like = request.headers is self._headers and request.timeouts is self._timeouts
        return is_like and (request.url.scheme, request.url.raw_authority) == self._origin

    def deadline(self) -> float:
        """The end of the time limit for a whole response that is requested now."""
        return self._loop.time() + self._total

    async def connect(self) -> Any:
        """A connection from the pool, or a new one. Raises what ``ClientSession.request`` raises."""
        # ``connect`` computes the key of the pool each time.
        if (connection := await self._connector._get(self._key, [])) is not None:  # noqa: SLF001 - as it does
            return connection
        try:
            return await self._connector.connect(self._example, [], self._connect_timeout)
        except TimeoutError as error:
            if self._is_total_first:
                raise
            raise aiohttp.ConnectionTimeoutError from error

    async def get(self, connection: Any, url: URL, deadline: float) -> PlainResponse:
        """Send one request. Raises what ``ClientSession.request`` raises; then the connection is closed."""
        protocol = connection.protocol
        try:
            protocol.set_response_params(
                read_until_eof=True, read_timeout=self._read_timeout, auto_decompress=False, **HEADER_LIMITS
            )
            transport = protocol.transport
            if transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
            transport.write(b"GET " + url.raw_path_qs.encode() + self._rest_of_head)
            protocol.start_timeouts(deadline)
            while True:
                message, content = await protocol.read()
                if not 100 <= message.code <= 199 or message.code == 101:
                    return PlainResponse(connection, message, content)
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientResponseError(
                self._example.request_info, (), status=error.code, message=error.message, headers=error.headers
            ) from error
        except BaseException:
            connection.close()
            raise

"""One send: the arguments for aiohttp, its progress, and the abort.

aiohttp's exception classes do not show whether bytes were sent; its trace signals do. ``on_request_headers_sent`` is
awaited when the connection is ready, before the headers are serialized: a create waits there until it is released; if
it is cancelled there, its connection is closed with nothing sent. *Not sent* is concluded only from a signal of the
connect phase of the same call; a patched session that sends no signals proves nothing.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from vidgen_async.errors import TransportError
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.transports.direct import failures
from vidgen_async.transports.direct.bodies import CONTENT_CODINGS, StreamedBody
from vidgen_async.types.http import CHUNK, Body, BytesBody, Delivery, Phase, Request

if TYPE_CHECKING:
    from vidgen_async.transports.direct.connections import GuardedProtocol

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")

#: Headers that aiohttp makes itself. A session of the user's adds nothing else to a request.
_AUTOMATIC = frozenset(
    {"host", "accept", "accept-encoding", "user-agent", "content-length", "transfer-encoding", "connection"}
)

#: The signals of the connect phase.
_CONNECT_SIGNALS = {
    "on_connection_queued_start": Phase.POOL,
    "on_connection_create_start": Phase.CONNECT,
    "on_dns_resolvehost_start": Phase.DNS,
    "on_dns_resolvehost_end": Phase.CONNECT,
    "on_connection_create_end": Phase.CONNECT,
}


class NoRetryError(Exception):
    """Carries its argument, a lost connection, through aiohttp, which would silently resend GET, PUT, DELETE …"""


# -- the arguments for aiohttp -----------------------------------------------------------------------------------------


def is_path_valid(url: URL) -> bool:
    return not _NOT_IN_URL.search(url.raw_path_qs) and not url.raw_fragment


def check_target(request: Request) -> None:
    """TransportError for a URL or method that cannot be sent. aiohttp checks some of it only when bytes may
    have been sent."""
    url = request.url
    if url.scheme not in ("http", "https") or not url.raw_host:
        problem = f"{hide_secrets(str(url))!r} is not a URL that starts with http:// or https:// and names a host"
    elif _NOT_IN_URL.search(str(url)):
        problem = "the URL contains a space or a control character"
    elif "@" in url.raw_authority:
        problem = "the URL contains a user name or password, which is never sent"
    elif not _TOKEN.fullmatch(request.method):
        problem = f"{request.method!r} is not an HTTP method"
    else:
        return
    raise failures.unsendable(request, problem)


class RequestOptions:
    """The arguments for aiohttp that all requests with these headers and time limits share, as polls do."""

    __slots__ = ("are_plain", "headers", "options", "timeouts")

    def __init__(self, request: Request) -> None:
        for name, value in request.headers.items():
            if not _TOKEN.fullmatch(name) or _NOT_IN_HEADER.search(value):
                problem = f"the header {name!r} contains a character that is not allowed in headers"
                raise failures.unsendable(request, problem)
        self.headers = request.headers
        self.timeouts = limits = request.timeouts
        self.options: dict[str, Any] = {
            "headers": list(request.headers.items()),
            "auto_decompress": False,  # DirectResponse does that, in the same way with each version of aiohttp
            "timeout": aiohttp.ClientTimeout(
                total=limits.answer, connect=limits.connect, sock_connect=limits.connect, sock_read=limits.read
            ),
            "allow_redirects": False,
            "raise_for_status": False,
        }
        self.are_plain = not {"accept-encoding", "expect"} & {name.lower() for name in request.headers}
        if "Accept-Encoding" not in request.headers:
            if "json" in request.headers.get("Accept", ""):
                self.options["headers"].append(("Accept-Encoding", ", ".join(CONTENT_CODINGS)))
            else:
                self.options["skip_auto_headers"] = ("Accept-Encoding",)


async def send_exact_headers(
    headers: Sequence[tuple[str, str]], request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Client middleware for a session of the user's: sends these headers of the request, and none of the session's."""
    automatic = _AUTOMATIC - {"user-agent"} if any(name.lower() == "user-agent" for name, _ in headers) else _AUTOMATIC
    for name in {name.lower() for name in request.headers} - automatic:
        request.headers.popall(name)
    for name, value in headers:
        if name.lower() not in automatic:
            request.headers.add(name, value)
    return await handler(request)


async def send_only_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Client middleware: one request on the wire. aiohttp has no option that disables its own retry."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise NoRetryError(error) from error


# -- the send ----------------------------------------------------------------------------------------------------------


class PendingSend:
    """A send in progress: its body, its connection, and how it is aborted."""

    progress: failures.Progress | None = None
    """How far it has got; None for a read, of which nothing is claimed."""
    is_response_kept = False
    """Whether its connection keeps what is received."""

    def __init__(self, request: Request, options: RequestOptions, proxy: URL | None) -> None:
        self.request = request
        self.proxy = proxy
        self._options = options
        self.stop = asyncio.timeout(None)
        self.is_aborted = False
        self.is_pooled = False
        """A connection of a pool of this transport is used, unless a new one is opened."""
        self.connection: GuardedProtocol | None = None
        """The one that was opened for this send, or None."""
        self.upload: StreamedBody | None = None
        self._task = asyncio.current_task()
        self._cancels = self._task.cancelling() if self._task else 0

    async def options(self) -> dict[str, Any]:
        """The arguments for aiohttp; opens the body."""
        request = self.request
        if request.body is None:
            return self._options.options
        headers = list(self._options.options["headers"])
        if "Content-Type" not in request.headers:
            headers.append(("Content-Type", request.body.content_type))
        data = await self._open_body(request.body)
        if self.upload is not None and "Content-Length" not in request.headers:
            headers.append(("Content-Length", str(request.body.length)))
        return {**self._options.options, "headers": headers, "data": data}

    async def _open_body(self, body: Body) -> bytes | StreamedBody:
        """A small body as bytes; a larger one to be streamed."""
        try:
            if isinstance(body, BytesBody) and len(body.data) <= CHUNK:
                return body.data
            if body.length <= CHUNK:
                return b"".join([piece async for piece in body.open()])
            self.upload = StreamedBody(body, self.stop, self.request.timeouts.read)
        except Exception as error:  # noqa: BLE001 - the body's own; its text may show the data of the body
            failure = failures.unsendable(self.request, "its body could not be read", error)
        else:
            return self.upload
        raise failure

    def is_cancelled_by_aiohttp(self) -> bool:
        """Whether a CancelledError was raised although the caller was not cancelled."""
        return self._task is not None and self._task.cancelling() <= self._cancels

    def explain(self, error: Exception) -> TransportError:
        if self.is_aborted:
            return failures.closed(self.request, self.progress, error)
        if self.stop.expired():
            return failures.upload_stalled(self.request, self.progress, error)
        if self.upload is not None and self.upload.error is not None:
            return failures.body_failed(self.upload.error, self.request, self.progress)
        is_reused = self.is_pooled and self.connection is None
        return failures.explain(error, self.request, self.progress, self.proxy, is_connection_reused=is_reused)

    def abort(self) -> None:
        self.is_aborted = True
        if self.upload is not None:
            self.upload.limit = None
        # RuntimeError: the send has ended already.
        with suppress(RuntimeError):
            self.stop.reschedule(asyncio.get_running_loop().time())


# -- the send of a create ----------------------------------------------------------------------------------------------


class PendingCreate(PendingSend):
    """The send of a create, which waits before its first byte until it is released."""

    progress: failures.Progress
    is_response_kept = True

    def __init__(self, request: Request, options: RequestOptions, proxy: URL | None) -> None:
        super().__init__(request, options, proxy)
        self.progress = failures.Progress()
        self.is_held = asyncio.Event()
        """The connection is ready, or the send has ended."""
        self.is_released = asyncio.Event()
        """The request may be sent."""
        self._has_begun = False
        """The request may have been sent."""
        self._is_signalled = False
        """The session that is about to send it sends signals."""

    def is_ready(self) -> bool:
        """False if the request is held back and its connection was closed, data was received on it, or the transport
        was closed. True in all other cases: also if aiohttp sent no signal, so that it was not held back."""
        is_open = self.connection is None or (self.connection.is_connected() and not self.connection.has_received)
        return self.progress.delivery is not Delivery.NOT_SENT or (is_open and not self.is_aborted)

    def unparsed(self) -> bytes:
        """What was received of a response that was refused, or whose head is incomplete."""
        if self.connection is None or (self.connection.refusal is None and self.progress.delivery is Delivery.ANSWERED):
            return b""
        return bytes(self.connection.received)

    def on_end(self, sending: asyncio.Task[Any]) -> None:
        self.is_held.set()
        if not sending.cancelled():
            sending.exception()  # marked as retrieved: asyncio would log it if the block of the create is never left

    async def on_start(self) -> None:
        self._is_signalled = True

    async def on_connect(self, phase: Phase) -> None:
        """The connect phase has come to ``phase``: unless the request is being sent already, nothing of it was sent."""
        if not self._has_begun:
            self.progress.delivery, self.progress.phase = Delivery.NOT_SENT, phase

    async def hold(self) -> None:
        """The connection is ready and nothing was sent: return when the request may be sent, which is recorded.
        NoRetryError if it must not: it was sent before, or the connection was closed meanwhile."""
        if not self._has_begun:
            self.progress.delivery = Delivery.NOT_SENT
            self.is_held.set()
            await self.is_released.wait()
        if self._has_begun:  # a wrapper around aiohttp repeats the request
            raise NoRetryError(aiohttp.ClientConnectionError("the same request was about to be sent again"))
        is_ready, self._has_begun = self.is_ready(), True
        self.progress.delivery = Delivery.MAYBE_SENT
        self.progress.phase = Phase.WAIT if self.upload is None else Phase.SEND
        if not is_ready:  # what was received is not the response, and nothing can be sent on a closed connection
            message = "it was closed, or data was received on it, before the request"
            raise NoRetryError(aiohttp.ServerDisconnectedError(message))

    async def guard(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Client middleware: holds the request back before it connects, where a wrapper around aiohttp passes it to
        another session, which sends no signals."""
        is_signalled, self._is_signalled = self._is_signalled, False
        if not is_signalled:
            await self.hold()
        return await send_only_once(request, handler)

    async def on_chunk(self) -> None:
        # A response can be received while the body is still being sent; then the send is in a later phase.
        if self.upload is not None and self.upload.is_read and self.progress.delivery is Delivery.MAYBE_SENT:
            self.progress.phase = Phase.WAIT


def make_trace() -> aiohttp.TraceConfig:
    """aiohttp's signals, passed on to the PendingCreate of their request."""
    calls: dict[str, Callable[[PendingCreate], Awaitable[None]]] = {
        "on_request_start": PendingCreate.on_start,
        "on_request_headers_sent": PendingCreate.hold,
        "on_request_chunk_sent": PendingCreate.on_chunk,
        **{signal: partial(PendingCreate.on_connect, phase=phase) for signal, phase in _CONNECT_SIGNALS.items()},
    }
    trace = aiohttp.TraceConfig()
    for signal, call in calls.items():
        getattr(trace, signal).append(partial(_pass_on, call))
    return trace


async def _pass_on(call: Callable[[Any], Awaitable[None]], _session: Any, context: SimpleNamespace, _: Any) -> None:
    await call(context.trace_request_ctx)

"""The interface of transports: how one request is sent to the service and its response is returned.

A transport never retries, follows redirects, decodes JSON, stores cookies or sleeps; one ``send`` is one request on the
wire. A transport of your own usually changes the requests of another one::

    class Labels(WrappingTransport):
        async def prepare(self, request: Request) -> Request:
            return evolve(request, headers=make_headers([*request.headers.items(), ("X-Label", "batch-7")]))

A request is immutable; ``attrs.evolve`` makes a changed copy. A transport that wraps no other one derives from
:class:`Transport`.

``vidgen_async.transports.contract`` has the tests that every transport must pass.
"""

import asyncio
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial, wraps
from typing import Any, Protocol, Self, TypeAlias
from weakref import WeakKeyDictionary

from yarl import URL

from vidgen_async.clock import Clock
from vidgen_async.errors import BodyError, ConfigurationError, TransportError
from vidgen_async.types.http import CHUNK, Delivery, Headers, Phase, Request, make_headers
from vidgen_async.user_code import UserCode, describe

#: What a transport written for 0.1.0 has to change.
CHANGED = (
    "since 0.2 a transport derives from vidgen_async.transports.Transport, with send(request) and aclose(), "
    "and without a probe: see docs/how-to/own-transport.md"
)


class Response(Protocol):
    """One response: status and headers at once; the body is streamed once, or read and then held in memory.

    Leaving its ``async with`` block releases it, however much of the body was read.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Headers:
        """As received; names are compared without case."""

    @property
    def url(self) -> URL:
        """The URL of the request."""

    async def read(self) -> bytes:
        """Return the whole body; a second call returns the same bytes. BodyError when it is incomplete."""

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        """The body in chunks of at most ``size`` bytes, also after ``read()``. BodyError states how many bytes of an
        incomplete body were received."""

    async def aclose(self) -> None:
        """Release the response. May be called twice."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...


class Connection:
    """A request that is ready to be sent: no byte of it was sent.

    Args:
        send: Sends the request; what holds for :meth:`Transport.send` holds for it. It is called once at most.
        is_ready: Returns whether the request can still be sent; None: it always can.
        unparsed: Returns what was received of a response that ``send`` could not return; None: that is not known.
        is_replay: The response is played back, and nothing is sent, whichever transports wrap this one.
    """

    def __init__(
        self,
        send: Callable[[], Awaitable[Response]],
        *,
        is_ready: Callable[[], bool] | None = None,
        unparsed: Callable[[], bytes] | None = None,
        is_replay: bool = False,
    ) -> None:
        self._send = send
        self._is_ready = is_ready
        self._unparsed = unparsed
        self._is_used = False
        self.is_replay = is_replay

    @property
    def is_ready(self) -> bool:
        """False if the service has closed the connection, or data was received on it: the request is then not sent, and
        another connection is made."""
        return self._is_ready is None or self._is_ready()

    @property
    def unparsed(self) -> bytes:
        """What was received of a response that is not HTTP, or whose head is incomplete, at most 8 MiB of it. It is
        evidence for an operator, also after the block; no id is read from it."""
        with suppress(Exception):  # what is known of a create must be stored
            return bytes(self._unparsed()) if self._unparsed is not None else b""
        return b""

    async def send(self) -> Response:
        """Send the request; return when the status line and the headers have been received. From this call on it may
        have been sent, whatever is raised. The response can be read until the block of the connection is left.

        Raises:
            RuntimeError: It was called before; nothing was sent this time.
        """
        if self._is_used:
            raise RuntimeError("a connection sends one request; it was not sent again")
        self._is_used = True
        return await self._send()

    def with_send(self, send: Callable[[], Awaitable[Response]]) -> "Connection":
        """Return this connection with another ``send``, which calls this one's."""
        is_replay = self.is_replay
        return Connection(send, is_ready=lambda: self.is_ready, unparsed=lambda: self.unparsed, is_replay=is_replay)


class Transport(ABC):
    """Sends requests: reads, uploads and videos by ``send``, creates in two steps by ``connect``.

    A transport of your own needs ``send`` and ``aclose``. The ``connect`` that it inherits then makes a create as safe
    as any other; only a refused connection is not proven to be *not sent*, so that such a create is uncertain.

    ``send`` raises a TransportError (or CancelledError, and a replay's CassetteError); once it has returned, the caller
    owns the response. A transport declares what is special about it by the attributes below, in its class or object.
    """

    is_replay: bool = False
    """It only plays back: its orders are never stored in a durable journal. Its connections are marked, too."""
    goes_out: bool = False
    """It plays back some requests and sends others: a journal named by VIDGEN_JOURNAL is refused, not ignored."""
    is_recording: bool = False
    """It records: the client sends only the requests that its caller asked for."""
    clock: Clock | None = None
    """The clock on which its time passes, which a client then uses, too; None for real time."""
    user_agent: str = ""
    """The name and version of its HTTP library, ``"aiohttp/3.13.2"``, which a client sends in its User-Agent."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        first = next(base for base in cls.__mro__ if not {"send", "connect"}.isdisjoint(vars(base)))
        if "connect" not in vars(first):  # that of a base class does not call the send that this one replaces
            cls.connect = Transport.connect  # type: ignore[method-assign]
        elif "connect" in vars(cls):
            cls.connect = _unless_patched(cls.connect)  # type: ignore[method-assign, assignment]
        _DEFINED[cls] = cls.send

    @abstractmethod
    async def send(self, request: Request) -> Response:
        """Send one request; return when the status line and the headers have been received."""

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Make everything ready to send the request. No byte of it is sent unless ``connection.send()`` is called in
        the block; leaving the block releases the connection. The response has a block of its own, within this one.

        This implementation does not connect: ``connection.send()`` calls :meth:`send`. A ``connect`` of your own must
        not send anything: the client cannot check that, only the contract's tests can. What it raises proves *not sent*
        if it is a TransportError with ``delivery=Delivery.NOT_SENT``, or a CancelledError with such a ``__cause__``
        (:func:`nothing_sent` adds it); whatever else it raises makes a create uncertain.
        """
        yield Connection(partial(self.send, request))

    @abstractmethod
    async def aclose(self) -> None:
        """Refuse further sends and release all resources. May be called twice."""


@contextmanager
def nothing_sent(request: Request) -> Iterator[None]:
    """A block of a ``connect`` in which nothing is sent: a cancellation in it carries the proof of that."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        message = f"{request.op}: it was cancelled while it connected; no byte of the request was sent"
        cancelled.__cause__ = TransportError(message, delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)
        raise


_DEFINED: WeakKeyDictionary[Any, Callable[..., Awaitable[Response]]] = WeakKeyDictionary()
"""The ``send`` of each class of transports, as it was when the class was defined."""
_Connect: TypeAlias = Callable[[Transport, Request], AbstractAsyncContextManager[Connection]]


def _unless_patched(connect: _Connect) -> _Connect:
    """A ``connect`` for a transport whose ``send`` a test may replace later: its fake then gets the creates, too."""

    @wraps(connect)
    def choose(self: Transport, request: Request) -> AbstractAsyncContextManager[Connection]:
        kinds: list[Any] = [kind for kind in type(self).__mro__ if kind in _DEFINED]
        is_patched = "send" in vars(self) or any(kind.send is not _DEFINED[kind] for kind in kinds)
        return (Transport.connect if is_patched else connect)(self, request)

    return choose


_CAPABILITIES = ("is_replay", "goes_out", "is_recording", "clock", "user_agent")


def checked_transport(transport: Transport) -> Transport:
    """Return the transport. ConfigurationError if it has another interface, as those written for 0.1.0 have."""
    kind = type(transport)
    if not isinstance(transport, Transport) or "probe" in inspect.signature(kind.send).parameters:
        raise ConfigurationError(f"{kind.__name__} cannot be used as a transport: {CHANGED}")
    return transport


class WrappingTransport(Transport):
    """Passes everything on to another transport: the base class of transports that change or observe requests.

    Override :meth:`prepare` to change requests. A subclass that overrides ``send`` sends its creates with that, too: a
    refused connection is then no proof of *not sent*, unless it overrides ``connect`` as well. It declares what
    ``inner`` declares, except for what the subclass declares in its class body.
    """

    def __init__(self, inner: Transport) -> None:
        self.inner = checked_transport(inner)
        declared = {name for kind in type(self).__mro__ if kind is not Transport for name in vars(kind)}
        for name in _CAPABILITIES:
            if name not in declared:
                setattr(self, name, getattr(inner, name))

    async def prepare(self, request: Request) -> Request:
        """Return the request to send in place of this one. What it raises proves that nothing was sent."""
        return request

    async def send(self, request: Request) -> Response:
        """Send the request with the inner transport; its errors propagate unchanged."""
        return await self.inner.send(await self._prepare(request))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Connect with the inner transport; its errors propagate unchanged."""
        async with self.inner.connect(await self._prepare(request)) as connection:
            yield connection

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()

    async def _prepare(self, request: Request) -> Request:
        with UserCode() as call, nothing_sent(request):
            return await self.prepare(request)
        error = call.error
        if isinstance(error, TransportError) and error.delivery is Delivery.NOT_SENT:
            raise error
        # Not chained: its text may quote the request, with the API key.
        message = f"{request.op}: {type(self).__name__}.prepare raised {describe(error)}; nothing was sent"
        raise TransportError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)


class Chunks:
    """Iterates over what ``read`` returns, until it returns None.

    Not a generator: leaving an ``async for`` early leaves nothing for the event loop to finish.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Awaitable[bytes | None]]) -> None:
        self._read = read

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._read()
        if chunk is None:
            raise StopAsyncIteration
        return chunk


class BaseResponse:
    """What all responses have in common: a body that is read once, and a block that closes them when it is left."""

    def __init__(self, status: int, headers: Headers, url: URL, body: bytes | None = None) -> None:
        self.status: int = status
        self.headers: Headers = headers
        self.url: URL = url
        self._body = body

    async def read(self) -> bytes:
        if self._body is None:
            self._body = b"".join([chunk async for chunk in self._open(CHUNK)])
        return self._body

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        if self._body is None:
            return self._open(size)
        stream = io.BytesIO(self._body)

        async def read() -> bytes | None:
            return stream.read(size) or None

        return Chunks(read)

    def _open(self, size: int) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    def __aexit__(self, *error: object) -> Coroutine[Any, Any, None]:
        return self.aclose()


class BufferedResponse(BaseResponse):
    """A response from memory or from an iterator of chunks: for fakes, replays and transports of your own."""

    def __init__(
        self,
        status: int,
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        headers: Headers | None = None,
        url: URL | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._chunks = None if isinstance(body, bytes) else body
        super().__init__(status, headers or make_headers(), url or URL(), body if isinstance(body, bytes) else None)
        self._on_close = on_close
        self._closed = False

    async def _open(self, size: int) -> AsyncIterator[bytes]:
        if self._chunks is None or self._closed:
            raise BodyError("the body was already read as chunks, or the response is closed")
        chunks, self._chunks = self._chunks, None
        async for chunk in chunks:
            for start in range(0, len(chunk), size):
                yield chunk[start : start + size]

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            if self._on_close is not None:
                await self._on_close()


class BodyObserver(Protocol):
    """Is notified of what happens to the body of an :class:`ObservedResponse`."""

    def on_chunk(self, chunk: bytes) -> None:
        """A part of the body is about to be returned to the reader."""

    async def on_end(self, error: BaseException | None) -> None:
        """The body is complete, or reading it raised ``error``."""

    async def on_close(self) -> None:
        """The response was closed, whether or not its body was read."""


class ObservedResponse(BaseResponse):
    """Passes another response on and notifies an observer of what its reader receives."""

    def __init__(self, inner: Response, observer: BodyObserver) -> None:
        super().__init__(inner.status, inner.headers, inner.url)
        self._inner = inner
        self._observer = observer

    def _open(self, size: int) -> AsyncIterator[bytes]:
        return Chunks(partial(self._next, self._inner.chunks(size)))

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        try:
            chunk = await anext(chunks, None)
        except BaseException as error:
            await self._observer.on_end(error)
            raise
        if chunk is None:
            await self._observer.on_end(None)
        else:
            self._observer.on_chunk(chunk)
        return chunk

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            await self._observer.on_close()

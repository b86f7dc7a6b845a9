"""The interface of transports: how one request is sent to the service and its response is returned.

A transport never retries, follows redirects, decodes JSON, stores cookies or sleeps; for a create, one ``send`` is one
request on the wire. A transport of your own is usually one method around another transport::

    class LoggingTransport(WrappingTransport):
        async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
            response = await super().send(request, probe=probe)
            print(request.op, response.status)
            return response

A request is immutable; ``attrs.evolve(request, headers=make_headers(…))`` makes a changed copy. A transport that wraps
no other one has the methods ``send`` and ``aclose``, and declares its :class:`Capabilities`.

``vidgen_async.transports.contract`` has the tests that every transport must pass.
"""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from attrs import fields, frozen
from yarl import URL

from vidgen_async.clock import Clock
from vidgen_async.errors import BodyError
from vidgen_async.types.http import CHUNK, Headers, Probe, Request, make_headers


class Response(Protocol):
    """One response: status and headers at once; the body is streamed once, or read and then held in memory.

    Leaving its ``async with`` block releases it, however much of the body was read.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """As received; names are compared without case."""
        ...

    @property
    def url(self) -> URL:
        """The URL of the request."""
        ...

    async def read(self) -> bytes:
        """Return the whole body; a second call returns the same bytes. BodyError when it is incomplete."""
        ...

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        """The body in chunks of at most ``size`` bytes, also after ``read()``. BodyError tells how many bytes of an
        incomplete body were received."""
        ...

    async def aclose(self) -> None:
        """Release the response. May be called twice."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Transport(Protocol):
    """Sends requests. ``send`` raises a TransportError with its evidence (or CancelledError, and a replay's
    CassetteError); once it has returned, the caller owns the response.

    A transport declares its :class:`Capabilities` as attributes of its class or of the object. One that fails, or is
    cancelled, before it reaches the gate records that with ``probe.record_not_sent(phase)``; without this record the
    outcome of a create is uncertain, whatever was raised.
    """

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Send one request; return when the status line and the headers have been received."""
        ...

    async def aclose(self) -> None:
        """Refuse further sends and release all resources. May be called twice."""
        ...


@frozen(kw_only=True)
class Capabilities:
    """What a transport declares, each as an attribute of this name. An attribute that it does not have counts as the
    default here."""

    honours_gate: bool = False
    """It awaits ``probe.pass_gate()`` itself, when the connection is ready and before the first byte. For a transport
    that does not, the gate is passed before ``send``."""
    is_replay: bool = False
    """It only plays back: its orders are never written into a durable journal. It also sets ``probe.is_replay``."""
    goes_out: bool = False
    """It plays back some requests and sends others: a journal named by VIDGEN_JOURNAL is refused, not ignored."""
    is_recording: bool = False
    """It records: the client sends only the requests that its caller asked for."""
    clock: Clock | None = None
    """The clock on which its time passes, which a client then uses, too; None for real time."""
    user_agent: str = ""
    """The name and version of its HTTP library, ``"aiohttp/3.13.2"``, which a client sends in its User-Agent."""


#: The names of all capabilities.
_CAPABILITIES = tuple(field.name for field in fields(Capabilities))


def capabilities_of(transport: Transport) -> Capabilities:
    """What the transport declares. Nothing else in the package reads these attributes."""
    return Capabilities(**{name: getattr(transport, name) for name in _CAPABILITIES if hasattr(transport, name)})


class WrappingTransport:
    """Passes everything on to another transport: the base class of transports that add something to one.

    It has the capabilities of ``inner``, except for those that the subclass declares in its class body.
    """

    honours_gate: bool
    is_replay: bool
    goes_out: bool
    is_recording: bool
    clock: Clock | None
    user_agent: str

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        capabilities = capabilities_of(inner)
        for name in _CAPABILITIES:
            if not hasattr(type(self), name):
                setattr(self, name, getattr(capabilities, name))

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Send the request with the inner transport; its errors propagate unchanged."""
        return await self.inner.send(request, probe=probe)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


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


def chunks_of(body: bytes, size: int) -> Chunks:
    """Iterate over a body in memory."""
    stream = io.BytesIO(body)

    async def read() -> bytes | None:
        return stream.read(size) or None

    return Chunks(read)


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
        return self._open(size) if self._body is None else chunks_of(self._body, size)

    def _open(self, size: int) -> AsyncIterator[bytes]:
        """Iterate over a body that was not read."""
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


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
            message = "the body was already read as chunks, or the response is closed"
            raise BodyError(message)
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
        ...

    async def on_end(self, error: BaseException | None) -> None:
        """The body is complete, or reading it raised ``error``."""
        ...

    async def on_close(self) -> None:
        """The response was closed, whether or not its body was read."""
        ...


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

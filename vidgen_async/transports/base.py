"""The seam: how one request is carried to the service and its answer back.

A transport never retries, follows redirects, decodes JSON, keeps cookies or sleeps; for a create, one ``send`` is one
request on the wire. A transport of your own is one method and a close::

    class Logged:
        def __init__(self, inner: Transport) -> None:
            self.inner = inner
            self.honours_gate = getattr(inner, "honours_gate", False)  # it hands the probe on
            self.is_replay = getattr(inner, "is_replay", False)
            self.is_recording = getattr(inner, "is_recording", False)
            self.clock = getattr(inner, "clock", None)  # time is virtual in a replay

        async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
            response = await self.inner.send(request, probe=probe)
            print(request.op, response.status)
            return response

        async def aclose(self) -> None:
            await self.inner.aclose()

A request is frozen; ``attrs.evolve(request, headers=make_headers(…))`` makes another one of it.

Whether it keeps the contract, its own tests tell, with a suite that brings the service to be asked along::

    from vidgen_async.transports.contract import TransportContract

    class TestLogged(TransportContract):
        def make_transport(self) -> Transport:
            return Logged(DirectTransport())
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from yarl import URL

from vidgen_async.errors import BodyError
from vidgen_async.types.http import CHUNK, Headers, Probe, Request, make_headers


class Response(Protocol):
    """One answer: status and headers at once, the body streamed once or read (and then kept).

    Leaving its ``async with`` block releases it, however much of the body was taken.
    """

    @property
    def status(self) -> int:
        """The HTTP status, whatever it is."""
        ...

    @property
    def headers(self) -> Headers:
        """As they came; names in any case."""
        ...

    @property
    def url(self) -> URL:
        """Where the request went."""
        ...

    async def read(self) -> bytes:
        """The whole body; a second call returns the same bytes. BodyError when it breaks off."""
        ...

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        """The body in pieces of at most ``size`` bytes; after ``read()`` the kept bytes. BodyError says how many
        bytes had come when it broke off."""
        ...

    async def aclose(self) -> None:
        """Release the answer. Twice is fine."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Transport(Protocol):
    """Carries requests. What ``send`` raises is a TransportError with its evidence (or CancelledError, and a replay's
    CassetteError); when it returns, the caller owns the response.

    A transport that awaits ``probe.pass_gate()`` itself, when the connection is ready and before the first byte,
    declares ``honours_gate = True``. One that fails, or is cancelled, before it reaches the gate
    records that with ``probe.record_not_sent(phase)``; without it the outcome of a create is uncertain, whatever was
    raised. For a transport that does not declare the gate, it is passed before ``send``.

    A transport with a time of its own offers it as ``clock``. One that only plays back declares
    ``is_replay = True``: its orders are never written into a journal that lasts (it also tells the probe:
    ``probe.is_replay = True``). One that plays some and sends others adds ``goes_out = True``: then a journal that
    the environment names is refused, not ignored. One that records declares ``is_recording = True``: the client then
    sends nothing that its caller did not ask for.
    """

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Send one request; returns when the status line and headers have come."""
        ...

    async def aclose(self) -> None:
        """Refuse further sends and release everything. Twice is fine."""
        ...


class ClosedOnLeaving:
    """For responses: leaving the ``async with`` block closes them."""

    __slots__ = ()

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class BufferedResponse(ClosedOnLeaving):
    """A response from memory or from any iterator of pieces: for fakes, replays and transports of your own."""

    def __init__(
        self,
        status: int,
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        headers: Headers | None = None,
        url: URL | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.status: int = status
        self.headers: Headers = make_headers() if headers is None else headers
        self.url: URL = URL() if url is None else url
        self._body: bytes | None = body if isinstance(body, bytes) else None
        self._pieces = None if isinstance(body, bytes) else body
        self._on_close = on_close
        self._closed = False

    async def read(self) -> bytes:
        if self._body is None:
            self._body = b"".join([piece async for piece in self._stream()])
        return self._body

    async def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        if self._body is not None:
            for start in range(0, len(self._body), size):
                yield self._body[start : start + size]
            return
        async for piece in self._stream():
            for start in range(0, len(piece), size):
                yield piece[start : start + size]

    async def _stream(self) -> AsyncIterator[bytes]:
        if self._pieces is None or self._closed:
            message = "the body has been taken already, or the response is closed"
            raise BodyError(message)
        pieces, self._pieces = self._pieces, None
        async for piece in pieces:
            yield piece

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            if self._on_close is not None:
                await self._on_close()

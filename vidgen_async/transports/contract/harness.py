"""The stage on which the sentences of the contract are played: a transport, and a service behind it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager

import pytest
from yarl import URL

from vidgen_async.errors import CassetteError, TransportError
from vidgen_async.transports.base import Response, Transport, capabilities_of
from vidgen_async.transports.contract.service import Asked, Pairs, Scene, Service, settle
from vidgen_async.types.http import BytesBody, Delivery, Phase, Probe, Request, Timeouts, make_headers

#: Seconds after which what must happen at once counts as never happening.
PATIENCE = 10.0


class Stage:
    """A transport with a service behind it, which plays what ``ANSWERS`` and ``Scene`` say of each path.

    ``asked`` is what the service received, in order. A stage without a network has no connections to tell of, and
    leaves the methods that speak of them as they are.
    """

    def __init__(self, transport: Transport, base: URL, asked: Sequence[Asked] = ()) -> None:
        self.transport = transport
        self.base = base
        self._asked = asked

    @property
    def asked(self) -> Sequence[Asked]:
        """What the service received; a request counts from its first line on."""
        return self._asked

    def url(self, path: str) -> URL:
        """Where this path is asked for."""
        return self.base.with_path(path)

    async def settle(self) -> None:
        """Return when everything that has left is with the service."""
        await asyncio.sleep(0)

    def let_go(self) -> None:
        """Let the service go on where it waits."""

    async def until_released(self) -> None:
        """Return when every connection on which the service still owes something has been closed."""

    async def until_empty(self) -> None:
        """Return when every connection to the service has been closed."""

    # -- what the sentences do with it ---------------------------------------------------------------------------------

    @property
    def honours_gate(self) -> bool:
        """Whether the transport passes the gate itself; else it is passed before ``send``, as the client does it."""
        return capabilities_of(self.transport).honours_gate

    @property
    def unsent(self) -> Delivery:
        """What a probe can say of a request that never left."""
        return Delivery.NOT_SENT if self.honours_gate else Delivery.MAYBE_SENT

    def request(
        self,
        path: str = "/short",
        *,
        method: str = "POST",
        body: bytes = b"{}",
        headers: Pairs = (("Accept", "application/json"),),
        read: float = 60.0,
    ) -> Request:
        """A request for the service; a GET has no body."""
        return Request(
            op="videos.create",
            method=method,
            url=self.url(path),
            headers=make_headers(headers),
            body=None if method == "GET" else BytesBody(body),
            timeouts=Timeouts(read=read),
        )

    async def send(self, request: Request, probe: Probe | None = None) -> Response:
        """Send as the client does; a transport that hangs, or raises what it may not raise, fails the test."""
        if probe is not None and not self.honours_gate:
            await probe.pass_gate()
        with only_what_may_escape(is_gate_passed=probe is not None and not self.honours_gate):
            async with soon(f"send() for {request.url.path} must return or raise"):
                return await self.transport.send(request, probe=probe)


@asynccontextmanager
async def soon(claim: str) -> AsyncIterator[None]:
    """Fail with the claim when the block hangs."""
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        pytest.fail(f"{claim}; it has not within {PATIENCE:g} s")


@contextmanager
def only_what_may_escape(*, is_gate_passed: bool = False) -> Iterator[None]:
    """Fail when anything else comes out of a transport than TransportError, CassetteError, CancelledError, and what
    the gate raised."""
    try:
        yield
    except (TransportError, CassetteError, GateError):
        raise
    except Exception as error:
        message = f"{_name(error)} came out; a transport makes a TransportError of it: {error}"
        if is_gate_passed and isinstance(error, RuntimeError):
            message += " (a transport that hands its probe on says so with an attribute: honours_gate = True)"
        raise AssertionError(message) from error


def _name(error: Exception) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


class GateError(OSError):
    """What a gate raises here: of a kind that a transport converts when it comes from the network."""


class WatchedProbe(Probe):
    """Keeps what was learnt, one after the other."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.seen = [self.delivery]

    def learn(self, delivery: Delivery, phase: Phase | None = None) -> None:
        super().learn(delivery, phase)
        self.seen.append(self.delivery)


class _Loopback(Stage):
    """The service is on loopback, and nobody listens on the port for what is refused."""

    def __init__(self, transport: Transport, service: Service, port: int, dead_port: int) -> None:
        super().__init__(transport, URL(f"http://127.0.0.1:{port}"), service.asked)
        self._service = service
        self._port = port
        self._dead_port = dead_port

    def url(self, path: str) -> URL:
        url = super().url(path)
        return url.with_port(self._dead_port) if path == Scene.REFUSED else url

    async def settle(self) -> None:
        await settle(self._port)

    def let_go(self) -> None:
        self._service.going.set()

    async def until_released(self) -> None:
        await self._service.until_none_is_owed()

    async def until_empty(self) -> None:
        await self._service.until_none_is_left()


@asynccontextmanager
async def _on_loopback(make_transport: Callable[[], Transport]) -> AsyncIterator[Stage]:
    service = Service()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        # Bound and not listening: connections are refused, and nobody else gets the port.
        with socket.socket() as dead:
            dead.bind(("127.0.0.1", 0))
            async with aclosing(make_transport()) as transport:
                yield _Loopback(transport, service, port, dead.getsockname()[1])
    finally:
        server.close()
        await service.aclose()
        await server.wait_closed()


class OnStage:
    """What the sentences stand on. The promises are those of ``TransportContract``."""

    def make_transport(self) -> Transport:
        """A new transport that reaches services over HTTP."""
        message = f"{type(self).__name__} has neither a make_transport() nor a stage()"
        raise NotImplementedError(message)

    def stage(self) -> AbstractAsyncContextManager[Stage]:
        """A new transport with the service behind it; leaving it closes both."""
        return _on_loopback(self.make_transport)

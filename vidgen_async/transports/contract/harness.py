"""What the tests of the contract run on: a transport, and the service that it reaches."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager

import pytest
from yarl import URL

from vidgen_async.errors import CassetteError, TransportError
from vidgen_async.transports.base import Response, Transport, capabilities_of
from vidgen_async.transports.contract.service import Pairs, ReceivedRequest, Scenario, Service
from vidgen_async.types.http import BytesBody, Delivery, Phase, Probe, Request, Timeouts, make_headers

#: Seconds after which something that must happen immediately counts as missing.
TIME_LIMIT = 10.0


class Harness:
    """A transport and a service, which plays what ``RESPONSES`` and ``Scenario`` define for each path.

    A harness without a network has no connections and does not override the methods that wait for them.
    """

    def __init__(self, transport: Transport, base: URL, received: Sequence[ReceivedRequest] = ()) -> None:
        self.transport = transport
        self.base = base
        self._received = received

    @property
    def received(self) -> Sequence[ReceivedRequest]:
        """What the service received, in order; a request counts from its first line on."""
        return self._received

    def url(self, path: str) -> URL:
        """The URL of this path."""
        return self.base.with_path(path)

    async def settle(self) -> None:
        """Return when the service has received everything that was sent."""
        await asyncio.sleep(0)

    def resume(self) -> None:
        """Let the service continue where it waits."""

    async def wait_for_open_requests(self) -> None:
        """Return when every connection with an incomplete response has been closed."""

    async def wait_for_connections(self) -> None:
        """Return when every connection to the service has been closed."""

    # -- for the tests -------------------------------------------------------------------------------------------------

    @property
    def honours_gate(self) -> bool:
        """Whether the transport passes the gate itself; otherwise it is passed before ``send``, as by the client."""
        return capabilities_of(self.transport).honours_gate

    @property
    def unsent(self) -> Delivery:
        """What a probe shows of a request that was never sent."""
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
        """Send as the client does; fail the test when the transport hangs or raises an exception of another class."""
        if probe is not None and not self.honours_gate:
            await probe.pass_gate()
        with check_errors(is_gate_passed=probe is not None and not self.honours_gate):
            async with time_limit(f"send() for {request.url.path} must return or raise"):
                return await self.transport.send(request, probe=probe)


@asynccontextmanager
async def time_limit(claim: str) -> AsyncIterator[None]:
    """Fail with this claim when the block takes too long."""
    limit = asyncio.timeout(TIME_LIMIT)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        pytest.fail(f"{claim}; it has not within {TIME_LIMIT:g} s")


@contextmanager
def check_errors(*, is_gate_passed: bool = False) -> Iterator[None]:
    """Fail when the transport raises anything other than TransportError, CassetteError, CancelledError, and what the
    gate raised."""
    try:
        yield
    except (TransportError, CassetteError, RefusingGateError):
        raise
    except Exception as error:
        message = f"the transport raised {type(error).__name__} instead of a TransportError: {error}"
        if is_gate_passed and isinstance(error, RuntimeError):
            message += " (a transport that passes its probe on must declare honours_gate = True)"
        raise AssertionError(message) from error


class RefusingGateError(OSError):
    """What a gate raises here: of a class that a transport converts when the network raises it."""


class RecordingProbe(Probe):
    """Records each evidence of delivery, in order."""

    __slots__ = ("deliveries",)

    def __init__(self) -> None:
        super().__init__()
        self.deliveries = [self.delivery]

    def learn(self, delivery: Delivery, phase: Phase | None = None) -> None:
        super().learn(delivery, phase)
        self.deliveries.append(self.delivery)


class _Loopback(Service, Harness):
    """The service is on loopback; connections to ``dead_port`` are refused."""

    def __init__(self, transport: Transport, port: int, dead_port: int) -> None:
        Service.__init__(self, port)
        Harness.__init__(self, transport, URL(f"http://127.0.0.1:{port}"), self.requests)
        self._dead_port = dead_port

    def url(self, path: str) -> URL:
        url = super().url(path)
        return url.with_port(self._dead_port) if path == Scenario.REFUSED else url


@asynccontextmanager
async def _on_loopback(make_transport: Callable[[], Transport]) -> AsyncIterator[Harness]:
    # The dead socket is bound and not listening: connections are refused, and no other process gets the port.
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        harness = _Loopback(make_transport(), listening.getsockname()[1], dead.getsockname()[1])
        server = await asyncio.start_server(harness.serve, sock=listening)
        try:
            async with aclosing(harness.transport):
                yield harness
        finally:
            server.close()
            await harness.aclose()
            await server.wait_closed()


class ContractTests:
    """The base class of the tests; ``TransportContract`` documents its methods."""

    def make_transport(self) -> Transport:
        """Make a transport that reaches services over HTTP. The test closes it."""
        message = f"{type(self).__name__} has neither a make_transport() nor a harness()"
        raise NotImplementedError(message)

    def harness(self) -> AbstractAsyncContextManager[Harness]:
        """Make a transport and its service; leaving the block closes both.

        Override it for a transport that uses no network.
        """
        return _on_loopback(self.make_transport)

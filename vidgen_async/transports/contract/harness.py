"""What the tests of the contract run on: a transport, and the service that it reaches."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import TypeVar

import pytest
from yarl import URL

from vidgen_async.errors import CassetteError, TransportError
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.transports.contract.service import Pairs, ReceivedRequest, Scenario, Service
from vidgen_async.types.http import BytesBody, Delivery, Request, Timeouts, make_headers

T = TypeVar("T")

#: The operation whose requests are sent in two steps, as the client does; those of all others by ``send``.
CREATE = "videos.create"
#: Runs a rule for both.
by_both_ways = pytest.mark.parametrize("op", ["files.upload", CREATE], ids=["send", "connect"])

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

    def request(
        self,
        path: str = "/short",
        *,
        op: str = CREATE,
        method: str = "POST",
        body: bytes = b"{}",
        headers: Pairs = (("Accept", "application/json"),),
        read: float = 60.0,
    ) -> Request:
        """A request for the service; a GET has no body."""
        return Request(
            op=op,
            method=method,
            url=self.url(path),
            headers=make_headers(headers),
            body=None if method == "GET" else BytesBody(body),
            timeouts=Timeouts(read=read),
        )

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Connect; fail the test when the transport hangs, or raises what it must not raise."""
        block = self.transport.connect(request)
        what = f"connect() for {request.url.path} must"

        async def leave(*raised: object) -> bool | None:
            async with time_limit(f"{what} end when its block is left"):
                return await block.__aexit__(*raised)  # type: ignore[arg-type]

        async with AsyncExitStack() as stack:
            try:
                connection = await bounded(block.__aenter__(), f"{what} yield or raise")
            except TransportError as error:
                if error.delivery != Delivery.NOT_SENT:
                    pytest.fail(f"{what} send nothing, and its errors state that")
                raise
            stack.push_async_exit(leave)
            assert isinstance(connection, Connection), f"{what} yield a Connection"
            yield connection

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send as the client does, a create in two steps; fail the test as above. The block is that of the response."""
        async with AsyncExitStack() as stack:
            if request.op == CREATE:
                sent = (await stack.enter_async_context(self.connect(request))).send()
            else:
                sent = self.transport.send(request)
            response = await bounded(sent, f"send() for {request.url.path} must return or raise")
            yield await stack.enter_async_context(response)


async def bounded(work: Awaitable[T], claim: str) -> T:
    """Await what a transport does; fail with this claim when it takes too long."""
    with check_errors():
        async with time_limit(claim):
            return await work


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
def check_errors() -> Iterator[None]:
    """Fail when the transport raises anything other than TransportError, CassetteError and CancelledError."""
    try:
        yield
    except (TransportError, CassetteError):
        raise
    except Exception as error:
        message = f"the transport raised {type(error).__name__} instead of a TransportError: {error}"
        raise AssertionError(message) from error


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

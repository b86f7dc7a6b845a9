"""What the tests of the contract run on: a transport, and the service that it reaches."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

import pytest
from yarl import URL

from vidgen_async.errors import CassetteError, TransportError
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.types.http import BytesBody, Delivery, Request, Timeouts, make_headers

T = TypeVar("T")
Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: The operation whose requests are sent in two steps, as the client does; those of all others by ``send``.
CREATE = "videos.create"
#: Runs a rule for both.
by_both_ways = pytest.mark.parametrize("op", ["files.upload", CREATE], ids=["send", "connect"])

#: Seconds after which something that must happen immediately counts as missing.
TIME_LIMIT = 10.0

#: More than is sent or received at once.
LONG_BODY = bytes(range(256)) * 300
#: The two parts of a body that is sent in parts.
FIRST, REST = b"first part, ", b"and the rest"


class ReceivedRequest(NamedTuple):
    """One request as the service received it."""

    method: str
    path: str
    body: bytes = b""


class CannedResponse(NamedTuple):
    """The response to a path."""

    status: int = 200
    headers: Pairs = ()
    body: bytes = b""


#: Paths with a constant response to every method. The headers are of kinds that a cassette keeps.
RESPONSES: Mapping[str, CannedResponse] = {
    "/short": CannedResponse(200, (("ETag", '"v1"'),), b"short"),
    "/json": CannedResponse(200, (("Content-Type", "application/json"),), b'{"status": "queued"}'),
    "/long": CannedResponse(200, (("Content-Type", "video/mp4"),), LONG_BODY),
    "/twice": CannedResponse(200, (("RateLimit-Policy", "10;w=1"), ("RateLimit-Policy", "50;w=60")), b"twice"),
    "/cookie": CannedResponse(200, (("Set-Cookie", "visitor=7; Path=/"),), b"sweet"),
    "/empty": CannedResponse(204, (), b""),
    "/found": CannedResponse(302, (("Location", "/short"),), b"found"),
    "/moved": CannedResponse(307, (("Location", "/short"),), b"moved"),
    "/limit": CannedResponse(429, (("Retry-After", "7"),), b"slow down"),
    "/broken": CannedResponse(500, (), b"oh"),
    "/busy": CannedResponse(503, (("Retry-After", "0"),), b"later"),
}


class Scenario(StrEnum):
    """Paths at which more happens than a constant response."""

    HEADERS = "/headers"
    """200; the body has the headers of the request: ``name: value``, one per line."""
    DIGEST = "/digest"
    """200; the body is the SHA-256 of the request's body in hexadecimal digits."""
    SLOW = "/slow"
    """200 and FIRST at once; REST, which completes the body, after ``resume()``."""
    CUT = "/cut"
    """200, ``Content-Length: 1000`` and FIRST; after ``resume()`` the connection is closed."""
    ENDLESS = "/endless"
    """200 and FIRST of a long body; the rest is never sent."""
    SILENT = "/silent"
    """A response is never sent."""
    GARBAGE = "/garbage"
    """The response is not HTTP, and the connection stays open."""
    DROPPED = "/dropped"
    """The connection is closed without a response."""
    RESET = "/reset"
    """The connection is reset without a response."""
    HALF = "/half"
    """The connection is closed within the headers of the response."""
    REFUSED = "/refused"
    """The connection is refused."""


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
    """Fail also when the transport raises anything other than TransportError, CassetteError and CancelledError."""
    try:
        async with time_limit(claim):
            return await work
    except (TransportError, CassetteError):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(f"the transport raised {kind} instead of a TransportError: {error}") from error


@asynccontextmanager
async def time_limit(claim: str) -> AsyncIterator[None]:
    limit = asyncio.timeout(TIME_LIMIT)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        pytest.fail(f"{claim}; it has not within {TIME_LIMIT:g} s")


# -- the service on loopback -------------------------------------------------------------------------------------------

#: Requested by the harness itself, and not recorded.
_SETTLED = "/settled"


def _encode(response: CannedResponse, *, length: int | None = None) -> bytes:
    """The response on the wire; its body is the first part of one with ``length`` bytes."""
    lines = [f"HTTP/1.1 {response.status} CannedResponse", *(f"{name}: {value}" for name, value in response.headers)]
    if response.status != 204:
        lines.append(f"Content-Length: {len(response.body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + response.body


_FIRST = CannedResponse(200, (), FIRST)
#: What is sent at once.
_BEGINNINGS: Mapping[str, bytes] = {
    **{path: _encode(response) for path, response in RESPONSES.items()},
    _SETTLED: _encode(CannedResponse(204)),
    Scenario.SLOW: _encode(_FIRST, length=len(FIRST + REST)),
    Scenario.CUT: _encode(_FIRST, length=1000),
    Scenario.ENDLESS: _encode(_FIRST, length=1 << 30),
    Scenario.GARBAGE: b"this is no HTTP\r\n\r\n",
    Scenario.HALF: b"HTTP/1.1 200 OK\r\nETag: ",
}
#: After all other paths the connection is closed.
_REUSABLE = frozenset({*RESPONSES, _SETTLED, Scenario.HEADERS, Scenario.DIGEST, Scenario.SLOW})


class _Loopback(Harness):
    """The service on a port of loopback; connections to ``dead_port`` are refused."""

    def __init__(self, transport: Transport, port: int, dead_port: int) -> None:
        self._requests: list[ReceivedRequest] = []
        super().__init__(transport, URL(f"http://127.0.0.1:{port}"), self._requests)
        self._port, self._dead_port = port, dead_port
        self._resumed = asyncio.Event()
        self._has_open_request: dict[asyncio.Task[None], bool] = {}
        """By the worker of each connection."""
        self._changed = asyncio.Event()

    def url(self, path: str) -> URL:
        url = super().url(path)
        return url.with_port(self._dead_port) if path == Scenario.REFUSED else url

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = asyncio.current_task()
        assert worker is not None, "a connection is served by a task"
        self._has_open_request[worker] = False
        is_reusable = True
        # ValueError: the request is not HTTP. CancelledError: the test ends, and a cancelled handler would be logged.
        with suppress(OSError, EOFError, ValueError, asyncio.CancelledError):
            while is_reusable:
                line = await reader.readuntil(b"\r\n")
                self._has_open_request[worker] = True
                request, headers = await self._receive(line, reader)
                is_reusable = await self._play(request, headers, reader, writer)
                self._has_open_request[worker] = not is_reusable
                self._changed.set()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        del self._has_open_request[worker]
        self._changed.set()

    async def _receive(self, line: bytes, reader: asyncio.StreamReader) -> tuple[ReceivedRequest, Pairs]:
        """The request that begins with this line, and its headers. It is recorded from its first line on."""
        method, target, _ = line.decode("latin-1").split(" ")
        request, number = ReceivedRequest(method, URL(target).path), len(self._requests)
        if request.path != _SETTLED:
            self._requests.append(request)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers = tuple((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
        if length := int(dict(headers).get("content-length", "0")):
            self._requests[number] = request = request._replace(body=await reader.readexactly(length))
        return request, headers

    async def _play(
        self, request: ReceivedRequest, headers: Pairs, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Respond; return whether the connection may be used again."""
        match request.path:
            case Scenario.HEADERS:
                lines = "\n".join(f"{name}: {value}" for name, value in headers)
                data = _encode(CannedResponse(200, (("Content-Type", "text/plain"),), lines.encode()))
            case Scenario.DIGEST:
                data = _encode(CannedResponse(200, (), hashlib.sha256(request.body).hexdigest().encode()))
            case path:
                data = _BEGINNINGS.get(path, b"")
        writer.write(data)
        await writer.drain()
        match request.path:
            case Scenario.SLOW | Scenario.CUT:
                await self._resumed.wait()
            case Scenario.SILENT | Scenario.ENDLESS | Scenario.GARBAGE:
                while await reader.read(65536):
                    pass
            case Scenario.RESET:
                connected = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                writer.transport.abort()
        if request.path == Scenario.SLOW:
            writer.write(REST)
        return request.path in _REUSABLE

    async def settle(self) -> None:
        # The service reads what was sent before this connection was opened no later than what is sent on it.
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(f"GET {_SETTLED} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    def resume(self) -> None:
        self._resumed.set()

    async def wait_for_open_requests(self) -> None:
        while any(self._has_open_request.values()):
            await self._change()

    async def wait_for_connections(self) -> None:
        while self._has_open_request:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def aclose(self) -> None:
        workers = list(self._has_open_request)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


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
        raise NotImplementedError(f"{type(self).__name__} has neither a make_transport() nor a harness()")

    def harness(self) -> AbstractAsyncContextManager[Harness]:
        """Make a transport and its service; leaving the block closes both.

        Override it for a transport that uses no network.
        """
        return _on_loopback(self.make_transport)

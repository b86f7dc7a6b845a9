"""The service of the contract: what it does depends only on the path; it records the requests that it receives."""

import asyncio
import hashlib
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from yarl import URL

Pairs: TypeAlias = tuple[tuple[str, str], ...]

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


#: Requested by the harness itself, and not recorded.
_SETTLED = "/settled"


class _Connection:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.has_open_request = False

    async def receive(self, received: list[ReceivedRequest]) -> tuple[ReceivedRequest, list[tuple[str, str]]] | None:
        """One request and its headers; None when the client has closed. It is recorded from its first line on."""
        words = (await self.reader.readline()).decode("latin-1").split(" ")
        if len(words) != 3:
            return None
        self.has_open_request = True
        request, number = ReceivedRequest(words[0], URL(words[1]).path), len(received)
        if request.path != _SETTLED:
            received.append(request)
        headers = []
        while line := (await self.reader.readline()).decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers.append((name.lower(), value.strip()))
        body = await self.reader.readexactly(int(dict(headers).get("content-length", "0")))
        if body:
            received[number] = request = request._replace(body=body)
        return request, headers

    async def answer(self, answer: CannedResponse, *, length: int | None = None) -> None:
        lines = [f"HTTP/1.1 {answer.status} CannedResponse", *(f"{name}: {value}" for name, value in answer.headers)]
        if answer.status != 204:
            lines.append(f"Content-Length: {len(answer.body) if length is None else length}")
        await self.send("\r\n".join([*lines, "", ""]).encode() + answer.body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        while await self.reader.read(65536):
            pass

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


class Service:
    """Serves connections of ``asyncio.start_server(service.serve, …)``."""

    def __init__(self) -> None:
        self.received: list[ReceivedRequest] = []
        self.resumed = asyncio.Event()
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = asyncio.current_task()
        assert worker is not None, "a connection is served by a task"
        connection = self._connections[worker] = _Connection(reader, writer)
        # It is cancelled at the end of the test; a cancelled handler would be logged as a failure.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            while (received := await connection.receive(self.received)) and await self._play(connection, *received):
                connection.has_open_request = False
                self._changed.set()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        del self._connections[worker]
        self._changed.set()

    async def _play(self, connection: _Connection, request: ReceivedRequest, headers: list[tuple[str, str]]) -> bool:
        """Whether the connection may be used again."""
        match request.path:
            case path if path in RESPONSES:
                await connection.answer(RESPONSES[path])
            case Scenario.HEADERS:
                lines = "\n".join(f"{name}: {value}" for name, value in headers)
                await connection.answer(CannedResponse(200, (("Content-Type", "text/plain"),), lines.encode()))
            case Scenario.DIGEST:
                await connection.answer(CannedResponse(200, (), hashlib.sha256(request.body).hexdigest().encode()))
            case Scenario.SLOW:
                await connection.answer(CannedResponse(200, (), FIRST), length=len(FIRST + REST))
                await self.resumed.wait()
                await connection.send(REST)
            case path if path == _SETTLED:
                await connection.answer(CannedResponse(204))
            case path:
                await self._play_fault(connection, path)
                return False
        return True

    async def _play_fault(self, connection: _Connection, path: str) -> None:
        match path:
            case Scenario.CUT:
                await connection.answer(CannedResponse(200, (), FIRST), length=1000)
                await self.resumed.wait()
            case Scenario.ENDLESS:
                await connection.answer(CannedResponse(200, (), FIRST), length=1 << 30)
                await connection.until_closed()
            case Scenario.SILENT:
                await connection.until_closed()
            case Scenario.GARBAGE:
                await connection.send(b"this is no HTTP\r\n\r\n")
                await connection.until_closed()
            case Scenario.HALF:
                await connection.send(b"HTTP/1.1 200 OK\r\nETag: ")
            case Scenario.RESET:
                connection.reset()

    async def wait_for_open_requests(self) -> None:
        """Return when every connection with an incomplete response has been closed by the client."""
        await self._until(lambda: not any(connection.has_open_request for connection in self._connections.values()))

    async def wait_for_connections(self) -> None:
        """Return when every connection has been closed."""
        await self._until(lambda: not self._connections)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def aclose(self) -> None:
        workers = list(self._connections)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def settle(port: int) -> None:
    """Return when the service on this port has read everything that was sent to it before."""
    # The service reads what was sent before this connection was opened no later than what is sent on it.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {_SETTLED} HTTP/1.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()

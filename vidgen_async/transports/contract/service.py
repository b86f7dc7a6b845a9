"""The service of the contract: what it does depends on the path alone, and it keeps what it was asked."""

import asyncio
import hashlib
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from yarl import URL

Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: More than goes out or comes in at once.
LONG_BODY = bytes(range(256)) * 300
#: The two parts of the body of a scene that comes in parts.
FIRST, REST = b"first part, ", b"and the rest"


class Asked(NamedTuple):
    """One request as the service received it."""

    method: str
    path: str
    body: bytes = b""


class Answer(NamedTuple):
    """What a path is answered with."""

    status: int = 200
    headers: Pairs = ()
    body: bytes = b""


#: Paths that are simply answered, whatever the method. The headers are of those kinds that a cassette keeps.
ANSWERS: Mapping[str, Answer] = {
    "/short": Answer(200, (("ETag", '"v1"'),), b"short"),
    "/json": Answer(200, (("Content-Type", "application/json"),), b'{"status": "queued"}'),
    "/long": Answer(200, (("Content-Type", "video/mp4"),), LONG_BODY),
    "/twice": Answer(200, (("RateLimit-Policy", "10;w=1"), ("RateLimit-Policy", "50;w=60")), b"twice"),
    "/cookie": Answer(200, (("Set-Cookie", "visitor=7; Path=/"),), b"sweet"),
    "/empty": Answer(204, (), b""),
    "/found": Answer(302, (("Location", "/short"),), b"found"),
    "/moved": Answer(307, (("Location", "/short"),), b"moved"),
    "/limit": Answer(429, (("Retry-After", "7"),), b"slow down"),
    "/broken": Answer(500, (), b"oh"),
    "/busy": Answer(503, (("Retry-After", "0"),), b"later"),
}


class Scene(StrEnum):
    """Paths at which more happens."""

    HEADERS = "/headers"
    """200, and the headers that came: ``name: value``, one a line."""
    DIGEST = "/digest"
    """200, and the SHA-256 of the body that came, in hexadecimal digits."""
    SLOW = "/slow"
    """200 and FIRST at once; REST, which ends the body, after ``let_go()``."""
    CUT = "/cut"
    """200, 1000 bytes are announced, FIRST comes; after ``let_go()`` the connection breaks."""
    ENDLESS = "/endless"
    """200 and FIRST of a long body of which nothing else ever comes."""
    SILENT = "/silent"
    """No answer ever comes."""
    GARBAGE = "/garbage"
    """What comes is not HTTP, and the connection stays open."""
    DROPPED = "/dropped"
    """The connection is closed without an answer."""
    RESET = "/reset"
    """The same, with a reset."""
    HALF = "/half"
    """The same, in the middle of the answer's headers."""
    REFUSED = "/refused"
    """Nobody listens there."""


#: Asked by a stage itself, and not kept.
_SETTLED = "/settled"


class _Connection:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.is_owed = False

    async def receive(self, asked: list[Asked]) -> tuple[Asked, list[tuple[str, str]]] | None:
        """One request and its headers; None when the other side has closed. It is kept from its first line on."""
        words = (await self.reader.readline()).decode("latin-1").split(" ")
        if len(words) != 3:
            return None
        self.is_owed = True
        request, number = Asked(words[0], URL(words[1]).path), len(asked)
        if request.path != _SETTLED:
            asked.append(request)
        headers = []
        while line := (await self.reader.readline()).decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers.append((name.lower(), value.strip()))
        body = await self.reader.readexactly(int(dict(headers).get("content-length", "0")))
        if body:
            asked[number] = request = request._replace(body=body)
        return request, headers

    async def answer(self, answer: Answer, *, length: int | None = None) -> None:
        lines = [f"HTTP/1.1 {answer.status} Answer", *(f"{name}: {value}" for name, value in answer.headers)]
        if answer.status != 204:
            lines.append(f"Content-Length: {len(answer.body) if length is None else length}")
        await self.say("\r\n".join([*lines, "", ""]).encode() + answer.body)

    async def say(self, data: bytes) -> None:
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
    """Plays on connections of ``asyncio.start_server(service.serve, …)``."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.going = asyncio.Event()
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = asyncio.current_task()
        assert worker is not None, "a connection is served by a task"
        connection = self._connections[worker] = _Connection(reader, writer)
        # Cancelled at the end of the test; a cancelled handler would be logged as a failure.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            while (received := await connection.receive(self.asked)) and await self._play(connection, *received):
                connection.is_owed = False
                self._changed.set()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        del self._connections[worker]
        self._changed.set()

    async def _play(self, connection: _Connection, asked: Asked, headers: list[tuple[str, str]]) -> bool:
        """Whether the connection may be used again."""
        match asked.path:
            case path if path in ANSWERS:
                await connection.answer(ANSWERS[path])
            case Scene.HEADERS:
                told = "\n".join(f"{name}: {value}" for name, value in headers)
                await connection.answer(Answer(200, (("Content-Type", "text/plain"),), told.encode()))
            case Scene.DIGEST:
                await connection.answer(Answer(200, (), hashlib.sha256(asked.body).hexdigest().encode()))
            case Scene.SLOW:
                await connection.answer(Answer(200, (), FIRST), length=len(FIRST + REST))
                await self.going.wait()
                await connection.say(REST)
            case path if path == _SETTLED:
                await connection.answer(Answer(204))
            case path:
                await self._misbehave(connection, path)
                return False
        return True

    async def _misbehave(self, connection: _Connection, path: str) -> None:
        match path:
            case Scene.CUT:
                await connection.answer(Answer(200, (), FIRST), length=1000)
                await self.going.wait()
            case Scene.ENDLESS:
                await connection.answer(Answer(200, (), FIRST), length=1 << 30)
                await connection.until_closed()
            case Scene.SILENT:
                await connection.until_closed()
            case Scene.GARBAGE:
                await connection.say(b"this is no HTTP\r\n\r\n")
                await connection.until_closed()
            case Scene.HALF:
                await connection.say(b"HTTP/1.1 200 OK\r\nETag: ")
            case Scene.RESET:
                connection.reset()

    async def until_none_is_owed(self) -> None:
        """Return when every connection on which an answer is owed has been closed by the other side."""
        await self._until(lambda: not any(connection.is_owed for connection in self._connections.values()))

    async def until_none_is_left(self) -> None:
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
    """Return when everything that was sent to the service on this port before has been read by it."""
    # What was written before this connection was made is read no later than what comes over it.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {_SETTLED} HTTP/1.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()

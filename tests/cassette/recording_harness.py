"""Helpers for tests of recording and replay: fake services, requests, and functions that record and replay."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any, NoReturn

from attrs import field, frozen
from yarl import URL

from vidgen_async import Client
from vidgen_async.cassette import Cassette
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConnectionLostError
from vidgen_async.transports import (
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
    Transport,
    WrappingTransport,
)
from vidgen_async.types.http import CHUNK, BytesBody, Delivery, Phase, Request, make_headers

BASE = "https://service.test/openapi/v1"
#: The name of a blob that is not there.
NO_BLOB = f"sha256-{0:064}.bin"
KEY = "a-key-that-nobody-may-see"
FIELDS: dict[str, Any] = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}

Handler = Callable[[Request], Awaitable[BufferedResponse]]


OPS = {"/account": "account.get", "/models": "models.list", "/files": "files.create", "/videos": "videos.create"}


def ask(path: str = "/videos/task-1", *, method: str = "GET", body: Any = None, op: str = "") -> Request:
    """A request to the service; ``body`` is JSON, bytes, or a body object."""
    op = op or OPS.get(path.partition("?")[0], "videos.get")
    if body is not None and not hasattr(body, "open"):
        body = BytesBody(body if isinstance(body, bytes) else json.dumps(body).encode())
    headers = make_headers({"Authorization": f"Bearer {KEY}"})
    url = URL(path if "://" in path else f"{BASE}{path}", encoded=True)
    return Request(op=op, method=method, url=url, headers=headers, body=body)


def post(body: Any, path: str = "/videos") -> Request:
    return ask(path, method="POST", body=body, op="videos.create")


def says(value: Any, status: int = 200, **headers: str) -> BufferedResponse:
    """A response with JSON or bytes."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return BufferedResponse(status, body, headers=make_headers({"Content-Type": "application/json"} | named))


def task(status: str, task_id: str = "task-1", **more: Any) -> BufferedResponse:
    return says({"id": task_id, "model": "gen-2.0", "status": status, **more})


async def body_of(request: Request) -> bytes:
    return b"" if request.body is None else b"".join([piece async for piece in request.body.open()])


def in_turn(*answers: Any) -> FakeTransport:
    """Return the outcomes in order: a response, a function or coroutine function that makes one, or an exception."""
    left = list(answers)

    async def handle(_: Request) -> BufferedResponse:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        made = answer() if callable(answer) else answer
        return await made if isawaitable(made) else made

    return FakeTransport(handle)


async def hang(_: object = None) -> NoReturn:
    """Never return."""
    await asyncio.Event().wait()
    raise AssertionError


def lost(op: str = "videos.get") -> ConnectionLostError:
    return ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op=op)


def counting() -> FakeTransport:
    """Responds with the number of requests so far."""
    asked = []

    async def handle(request: Request) -> BufferedResponse:
        asked.append(request)
        return says({"answer": len(asked)})

    return FakeTransport(handle)


class Timed(WrappingTransport):
    """A transport with a virtual clock, which its client uses."""

    def __init__(self, inner: Transport, clock: VirtualClock | None = None) -> None:
        super().__init__(inner)
        self.clock = clock or VirtualClock()


class Watched(WrappingTransport):
    """A transport that notes the requests and their times."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.sends: list[tuple[float, str]] = []

    async def prepare(self, request: Request) -> Request:
        self.sends.append((self.clock.now(), f"{request.op} {request.url.path.rpartition('/')[2]}"))
        return request

    def times(self, what: str = "") -> list[float]:
        return [at for at, asked in self.sends if what in asked]


async def create(transport: Transport, request: Request) -> bytes:
    """The response to a request that is sent in two steps."""
    async with transport.connect(request) as connection, await connection.send() as response:
        return await response.read()


async def read(transport: Transport, request: Request) -> bytes:
    async with await transport.send(request) as response:
        return await response.read()


async def value(transport: Transport, request: Request) -> Any:
    return json.loads(await read(transport, request))


async def record(path: Path | Cassette, inner: Transport, requests: Iterable[Request]) -> None:
    """Send the requests in order, read the responses, and publish."""
    transport = RecordingTransport(inner, path)
    for request in requests:
        await read(transport, request)
    await transport.aclose()


async def record_a_cancelled_send(path: Path | Cassette, request: Request) -> None:
    """Its caller is cancelled before there is a response."""
    recording = RecordingTransport(in_turn(hang), path)
    with suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await recording.send(request)
    await recording.aclose()


@asynccontextmanager
async def client_on(transport: Transport, **options: Any) -> AsyncIterator[Client]:
    """A client of the recorded service, or of the fake one."""
    base = getattr(transport, "base_url", None) or options.pop("base", BASE)
    async with Client(KEY, base_url=base, transport=transport, **options) as client:
        yield client


Program = Callable[[Client], Awaitable[Any]]


async def twice(path: Path | Cassette, inner: Transport, program: Program, **options: Any) -> tuple[Any, Any]:
    """The results of a program in a recording and in a replay, which must use all of the cassette."""
    async with client_on(RecordingTransport(inner, path), **options) as client:
        live = await program(client)
    options.pop("base", None)
    replay = ReplayTransport(path)
    async with client_on(replay, **options) as client:
        played = await program(client)
    replay.check()
    return live, played


def cassette_of(path: Path) -> dict[str, Any]:
    """The JSON of the file."""
    return json.loads(path.read_text("utf-8"))


def interactions_of(path: Path) -> list[dict[str, Any]]:
    return cassette_of(path)["interactions"]


@frozen
class Pieces:
    """A body in chunks of 4 kB that counts how often it was opened."""

    data: bytes = field(repr=False)
    content_type: str = "application/json"
    opened: list[int] = field(factory=list)

    @property
    def length(self) -> int:
        return len(self.data)

    async def open(self) -> AsyncIterator[bytes]:
        self.opened.append(1)
        for start in range(0, len(self.data), 4096):
            yield self.data[start : start + 4096]


def noise(length: int, seed: int = 1) -> bytes:
    """Random bytes."""
    return random.Random(seed).randbytes(length)  # noqa: S311 - nothing secret


async def stream_body(data: bytes, size: int = CHUNK) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def video(data: bytes, status: int = 200, *, size: int = CHUNK, **headers: str) -> BufferedResponse:
    """A streamed response of bytes."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    given = make_headers({"Content-Type": "video/mp4", "Content-Length": str(len(data))} | named)
    return BufferedResponse(status, stream_body(data, size), headers=given)

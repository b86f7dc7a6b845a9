"""Harnesses for the transports that use no network: the service of the contract from memory, and from a cassette."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from yarl import URL

from vidgen_async.cassette import load
from vidgen_async.cassette.replay import ReplayTransport
from vidgen_async.errors import (
    BodyError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    ResponseTimeoutError,
    TransportError,
)
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.contract import (
    FIRST,
    RESPONSES,
    REST,
    CannedResponse,
    Harness,
    ReceivedRequest,
    Scenario,
    TransportContract,
)
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Body, Delivery, Phase, Request, make_headers

Contract = TypeVar("Contract", bound=type[TransportContract])


def only(*words: str) -> Callable[[Contract], Contract]:
    """Run only those tests of the contract that have one of these words in their name."""

    def select(kind: Contract) -> Contract:
        for name in dir(kind):
            if name.startswith("test_") and not any(word in name for word in words):
                setattr(kind, name, None)
        return kind

    return select


class FakeHarness(Harness):
    """The handler of a FakeTransport plays the service."""

    def __init__(self) -> None:
        self._received: list[ReceivedRequest] = []
        transport = FakeTransport(self._play, on_connect=self._connect)
        super().__init__(transport, URL("http://service.test"), self._received)
        self._going = asyncio.Event()

    def resume(self) -> None:
        self._going.set()

    async def _connect(self, request: Request) -> None:
        if request.url.path == Scenario.REFUSED:
            raise broken(ConnectError, request, Delivery.NOT_SENT)

    async def _play(self, request: Request) -> BufferedResponse:
        body = b"" if request.body is None else await joined(request.body)
        self._received.append(ReceivedRequest(request.method, request.url.path, body))
        match request.url.path:
            case Scenario.SILENT:
                await silence(request)
                raise broken(ResponseTimeoutError, request)
            case Scenario.GARBAGE:
                raise broken(ProtocolError, request)
            case Scenario.DROPPED | Scenario.RESET | Scenario.HALF:
                raise broken(ConnectionLostError, request)
        answer, pieces = self._answer(request, body)
        return BufferedResponse(answer.status, pieces, headers=make_headers(answer.headers), url=request.url)

    def _answer(self, request: Request, body: bytes) -> tuple[CannedResponse, AsyncIterator[bytes]]:
        path = request.url.path
        match path:
            case Scenario.HEADERS:
                return CannedResponse(), once("\n".join(lines_of(request)).encode())
            case Scenario.DIGEST:
                return CannedResponse(), once(hashlib.sha256(body).hexdigest().encode())
            case Scenario.SLOW:
                return CannedResponse(), self._slow()
            case Scenario.CUT:
                return CannedResponse(), self._cut(request)
            case Scenario.ENDLESS:
                return CannedResponse(), endless(request)
        return RESPONSES[path], once(RESPONSES[path].body)

    async def _slow(self) -> AsyncIterator[bytes]:
        yield FIRST
        await self._going.wait()
        yield REST

    async def _cut(self, request: Request) -> AsyncIterator[bytes]:
        yield FIRST
        await self._going.wait()
        body_broke(request)


async def once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


async def endless(request: Request) -> AsyncIterator[bytes]:
    yield FIRST
    await silence(request)
    body_broke(request)


async def joined(body: Body) -> bytes:
    return b"".join([piece async for piece in body.open()])


async def silence(request: Request) -> None:
    try:
        async with asyncio.timeout(request.timeouts.read):
            await asyncio.Event().wait()
    except TimeoutError:
        return


def lines_of(request: Request) -> Iterator[str]:
    yield from (f"{name.lower()}: {value}" for name, value in request.headers.items())
    if request.body is not None:
        yield f"content-type: {request.body.content_type}"
        yield f"content-length: {request.body.length}"


def broken(kind: type[TransportError], request: Request, delivery: Delivery = Delivery.MAYBE_SENT) -> TransportError:
    message = f"{request.op}: as the harness plays it"
    return kind(message, delivery=delivery, phase=Phase.WAIT, op=request.op)


def body_broke(request: Request) -> NoReturn:
    message = f"{request.op}: as the harness plays it"
    raise BodyError(message, op=request.op, received=len(FIRST))


class ReplayHarness(Harness):
    """A cassette plays the service. What was played is what it received."""

    def __init__(self, cassette: Path, url: Callable[[str], URL]) -> None:
        self._replay = ReplayTransport(cassette)
        self._interactions = {found.n: found for found in load(cassette).interactions}
        self._url = url
        super().__init__(self._replay, url("/"))

    def url(self, path: str) -> URL:
        return self._url(path)

    @property
    def received(self) -> Sequence[ReceivedRequest]:
        played = [self._interactions[n].request for n in self._replay.played]
        asked = [ReceivedRequest(request.method, URL(request.url).path, body_of(request.body)) for request in played]
        return [one for one in asked if one.path != Scenario.REFUSED]


def body_of(recorded: dict[str, object] | None) -> bytes:
    """The small bodies of the contract are all empty objects."""
    return b"{}" if recorded is not None and recorded.get("json") == {} else b""

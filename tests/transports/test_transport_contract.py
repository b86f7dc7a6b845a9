"""The contract of every transport: the direct one, the fake, and one that a user wrote in fifteen lines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from attrs import define, field
from yarl import URL

from vidgen_async.errors import BodyError, TransportClosedError, TransportError
from vidgen_async.messages import BytesBody, Delivery, Phase, Probe, Request, make_headers
from vidgen_async.transports.base import BufferedResponse, Response, Transport
from vidgen_async.transports.direct import DirectTransport
from vidgen_async.transports.fake import FakeTransport

LONG_BODY = bytes(range(256)) * 1000


class Logged:
    """A user's own transport."""

    honours_gate = True

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.log: list[str] = []

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        response = await self.inner.send(request, probe=probe)
        self.log.append(f"{request.op} {response.status}")
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


@define
class Stage:
    """A transport and a service behind it, which counts what it was asked."""

    transport: Transport
    base: URL
    asked: list[tuple[str, str, bytes]] = field(factory=list)

    def request(self, path: str = "/short", *, method: str = "POST", body: bytes | None = b"{}") -> Request:
        return Request(
            op="videos.create",
            method=method,
            url=self.base.with_path(path),
            headers=make_headers({"Accept": "application/json"}),
            body=None if body is None else BytesBody(body),
        )


def answer_to(path: str) -> tuple[int, dict[str, str], bytes]:
    return {
        "/short": (200, {"X-Name": "value"}, b"short"),
        "/long": (200, {}, LONG_BODY),
        "/empty": (204, {}, b""),
        "/moved": (307, {"Location": "/short"}, b"moved"),
        "/limit": (429, {"Retry-After": "7"}, b"slow down"),
        "/broken": (500, {}, b"oh"),
    }[path]


@asynccontextmanager
async def direct():
    async def handle(request: web.Request) -> web.Response:
        stage.asked.append((request.method, request.path, await request.read()))
        status, headers, body = answer_to(request.path)
        return web.Response(status=status, headers=headers, body=body)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stage = Stage(DirectTransport(), URL(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"))
    try:
        yield stage
    finally:
        await stage.transport.aclose()
        await runner.cleanup()


@asynccontextmanager
async def fake():
    async def handle(request: Request) -> BufferedResponse:
        body = b"" if request.body is None else b"".join([piece async for piece in request.body.open()])
        stage.asked.append((request.method, request.url.path, body))
        status, headers, body = answer_to(request.url.path)
        return BufferedResponse(status, once(body), headers=make_headers(headers), url=request.url)

    async def once(body: bytes) -> AsyncIterator[bytes]:
        if body:
            yield body

    stage = Stage(FakeTransport(handle), URL("http://service.test"))
    yield stage


@asynccontextmanager
async def wrapped():
    async with direct() as stage:
        stage.transport = Logged(stage.transport)
        yield stage


@pytest.fixture(params=[direct, fake, wrapped], ids=lambda made: made.__name__)
async def stage(request: pytest.FixtureRequest):
    async with request.param() as stage:
        yield stage


with_and_without_probe = pytest.mark.parametrize("is_probed", [False, True], ids=["no probe", "probe"])


def probe_if(is_probed: bool) -> Probe | None:
    return Probe() if is_probed else None


def test_they_are_transports() -> None:
    transport = DirectTransport()
    assert isinstance(transport, Transport)
    assert isinstance(Logged(transport), Transport)
    assert all(made.honours_gate for made in (DirectTransport, FakeTransport, Logged))


@with_and_without_probe
async def test_an_answer_has_status_headers_url_and_body(stage: Stage, is_probed: bool) -> None:
    request = stage.request(body=b'{"a":1}')
    async with await stage.transport.send(request, probe=probe_if(is_probed)) as response:
        assert (response.status, response.headers["x-name"], response.url) == (200, "value", request.url)
        assert await response.read() == b"short"
    assert stage.asked == [("POST", "/short", b'{"a":1}')]


@with_and_without_probe
@pytest.mark.parametrize("path", ["/empty", "/moved", "/limit", "/broken"])
async def test_no_status_is_raised_or_followed(stage: Stage, path: str, is_probed: bool) -> None:
    async with await stage.transport.send(stage.request(path), probe=probe_if(is_probed)) as response:
        assert (response.status, await response.read()) == (answer_to(path)[0], answer_to(path)[2])
    assert len(stage.asked) == 1


@with_and_without_probe
async def test_a_body_is_read_twice_as_the_same_bytes(stage: Stage, is_probed: bool) -> None:
    async with await stage.transport.send(stage.request("/long"), probe=probe_if(is_probed)) as response:
        assert await response.read() == LONG_BODY
        assert await response.read() is await response.read()
    assert await response.read() == LONG_BODY


@with_and_without_probe
@pytest.mark.parametrize("size", [1000, 65536, 10_000_000])
async def test_chunks_are_at_most_as_long_as_asked(stage: Stage, size: int, is_probed: bool) -> None:
    async with await stage.transport.send(stage.request("/long"), probe=probe_if(is_probed)) as response:
        pieces = [piece async for piece in response.chunks(size)]
    assert b"".join(pieces) == LONG_BODY
    assert all(0 < len(piece) <= size for piece in pieces)


async def test_chunks_after_read_give_the_kept_bytes_again_and_again(stage: Stage) -> None:
    async with await stage.transport.send(stage.request("/long")) as response:
        await response.read()
        for _ in range(2):
            assert b"".join([piece async for piece in response.chunks(1000)]) == LONG_BODY


async def test_an_empty_body_has_no_chunks(stage: Stage) -> None:
    async with await stage.transport.send(stage.request("/empty")) as response:
        assert [piece async for piece in response.chunks()] == []


async def test_a_body_that_was_streamed_is_not_there_to_read(stage: Stage) -> None:
    async with await stage.transport.send(stage.request("/long")) as response:
        async for _ in response.chunks():
            pass
        with pytest.raises(BodyError):
            await response.read()
        with pytest.raises(BodyError):
            await anext(response.chunks())


async def test_leaving_the_block_releases_the_answer(stage: Stage) -> None:
    async with await stage.transport.send(stage.request("/long")) as response:
        pass
    with pytest.raises(BodyError):
        await response.read()
    await response.aclose()
    await response.aclose()


@with_and_without_probe
async def test_after_closing_a_send_is_refused(stage: Stage, is_probed: bool) -> None:
    probe = probe_if(is_probed)
    await stage.transport.aclose()
    await stage.transport.aclose()
    with pytest.raises(TransportClosedError) as caught:
        await stage.transport.send(stage.request(), probe=probe)
    assert (caught.value.delivery, caught.value.op, stage.asked) == (Delivery.NOT_SENT, "videos.create", [])
    assert isinstance(caught.value, TransportError)
    assert probe is None or probe.delivery is Delivery.NOT_SENT


async def test_the_gate_is_passed_once_and_before_the_service_hears_anything(stage: Stage) -> None:
    heard: list[int] = []

    async def gate() -> None:
        await asyncio.sleep(0.01)
        heard.append(len(stage.asked))

    probe = Probe(gate=gate)
    async with await stage.transport.send(stage.request(), probe=probe) as response:
        await response.read()
    assert (heard, len(stage.asked), probe.delivery) == ([0], 1, Delivery.ANSWERED)


async def test_what_the_gate_raises_comes_out_and_nothing_is_sent(stage: Stage) -> None:
    async def gate() -> None:
        raise error

    error = OSError("the journal is gone")
    probe = Probe(gate=gate)
    with pytest.raises(OSError, match="the journal is gone") as caught:
        await stage.transport.send(stage.request(), probe=probe)
    assert caught.value is error
    assert (probe.delivery, stage.asked) == (Delivery.NOT_SENT, [])


async def test_cancelled_at_the_gate_nothing_is_sent(stage: Stage) -> None:
    async def gate() -> None:
        reached.set()
        await asyncio.Event().wait()

    reached = asyncio.Event()
    probe = Probe(gate=gate)
    sending = asyncio.create_task(stage.transport.send(stage.request(), probe=probe))
    await reached.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (probe.delivery, stage.asked) == (Delivery.NOT_SENT, [])


async def test_evidence_only_grows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Probe):
        __slots__ = ("seen",)

        def __init__(self) -> None:
            super().__init__()
            self.seen = [self.delivery]

        def learn(self, delivery: Delivery, phase: Phase | None = None) -> None:
            super().learn(delivery, phase)
            self.seen.append(self.delivery)

    probe = Watched()
    async with await stage.transport.send(stage.request(), probe=probe) as response:
        await response.read()
    order = list(Delivery)
    assert probe.seen == sorted(probe.seen, key=order.index)
    assert (probe.seen[0], probe.seen[-1], probe.phase) == (Delivery.NOT_SENT, Delivery.ANSWERED, Phase.BODY)


async def test_fifty_sends_at_once_get_their_own_answers(stage: Stage) -> None:
    async def ask(number: int) -> tuple[int, bytes]:
        path = ("/short", "/limit")[number % 2]
        async with await stage.transport.send(stage.request(path), probe=probe_if(number % 4 < 2)) as response:
            return response.status, await response.read()

    ends = await asyncio.gather(*(ask(number) for number in range(50)))
    assert ends == [(200, b"short"), (429, b"slow down")] * 25

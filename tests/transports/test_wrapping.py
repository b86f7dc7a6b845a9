"""What a transport declares, and transports that wrap another one."""

import asyncio
import contextlib
import re
from typing import Any

import pytest
from attrs import evolve
from yarl import URL

from tests.transports.sending import create, swallowed
from vidgen_async import transports
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConfigurationError, TransportError
from vidgen_async.otel import TracedTransport
from vidgen_async.transports import (
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    Transport,
    WrappingTransport,
    base,
)
from vidgen_async.transports.base import _CAPABILITIES, ObservedResponse, checked_transport
from vidgen_async.types.http import Delivery, Phase, Request, make_headers

REQUEST = Request(op="videos.get", method="GET", url=URL("https://service.test/videos/task-1"))
CREATE = create(URL("https://service.test/videos"))


async def answer(_: Request) -> BufferedResponse:
    return BufferedResponse(200, b"0123456789")


async def refuse(request: Request) -> None:
    message = "refused"
    raise TransportError(message, delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)


def declared_by(transport: Transport) -> dict[str, object]:
    return {name: getattr(transport, name) for name in _CAPABILITIES}


# -- what a transport declares -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("is_replay", True), ("goes_out", True), ("is_recording", True), ("clock", VirtualClock()), ("user_agent", "a/1")],
)
def test_every_wrapper_declares_what_the_inner_transport_declares(name: str, value: object, tmp_path) -> None:
    inner = FakeTransport(answer)
    assert declared_by(WrappingTransport(inner)) == declared_by(inner)
    setattr(inner, name, value)
    expected = declared_by(inner)
    assert expected[name] is value

    for wrapper in (WrappingTransport(inner), TracedTransport(inner), WrappingTransport(TracedTransport(inner))):
        assert declared_by(wrapper) == expected
    assert declared_by(RecordingTransport(inner, tmp_path / "one.json")) == {**expected, "is_recording": True}

    class Declaring(WrappingTransport):
        user_agent = "b/2"

    class Set(WrappingTransport):
        def __init__(self, inner: Transport) -> None:
            super().__init__(inner)
            self.user_agent = "b/2"

    for kind in (Declaring, Set):
        assert declared_by(kind(inner)) == {**expected, "user_agent": "b/2"}


def test_a_transport_written_for_0_1_0_is_told_what_to_change() -> None:
    class WithoutBase:
        async def send(self, request: Request, *, probe: object = None) -> None: ...
        async def aclose(self) -> None: ...

    class Wrapper(WrappingTransport):
        async def send(self, request: Request, *, probe: object = None) -> Any: ...

    for transport in (WithoutBase(), Wrapper(FakeTransport(answer))):
        for use in (checked_transport, WrappingTransport):
            with pytest.raises(ConfigurationError, match=r"cannot be used as a transport: since 0\.2 .*own-transport"):
                use(transport)
    with pytest.raises(ConfigurationError, match=r"transports\.Probe was removed: since 0\.2"):
        _ = transports.Probe
    assert checked_transport(transport.inner) is transport.inner


# -- transports that wrap another one ----------------------------------------------------------------------------------


class Labels(WrappingTransport):
    """Changes the request."""

    async def prepare(self, request: Request) -> Request:
        return evolve(request, headers=make_headers([*request.headers.items(), ("X-Label", "one")]))


class Sends:
    """A mixin with a ``send`` of its own."""

    async def send(self, request: Request) -> Any:
        return await self.inner.send(evolve(request, headers=make_headers({"X-Label": "one"})))


class Mixed(Sends, WrappingTransport):
    pass


class Sending(WrappingTransport):
    send = Sends.send


class Derived(Sending):
    async def prepare(self, request: Request) -> Request:
        return request


class Both(Sending):
    @contextlib.asynccontextmanager
    async def connect(self, request: Request):
        async with self.inner.connect(evolve(request, headers=make_headers({"X-Label": "one"}))) as connection:
            yield connection


@pytest.mark.parametrize("request_", [REQUEST, CREATE], ids=["send", "connect"])
@pytest.mark.parametrize(
    ("kind", "is_proven"), [(Labels, True), (Both, True), (Sending, False), (Mixed, False), (Derived, False)]
)
async def test_a_wrapper_changes_requests_of_both_ways(
    kind: type[WrappingTransport], is_proven: bool, request_
) -> None:
    inner = FakeTransport(answer)
    wrapper = WrappingTransport(kind(inner))
    assert await swallowed(wrapper, request_) == b"0123456789"
    assert [request.headers.getall("X-Label") for request in inner.requests] == [["one"]]
    await wrapper.aclose()
    with pytest.raises(TransportError, match="the transport is closed"):
        await inner.send(request_)

    refusal = contextlib.suppress(TransportError) if is_proven else contextlib.nullcontext()
    with refusal:
        async with kind(FakeTransport(answer, on_connect=refuse)).connect(CREATE) as connection:
            assert not is_proven
            with pytest.raises(TransportError, match="refused"):
                await connection.send()


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a bug"),
        TransportError("of another request", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="token"),
        TransportError("of this request", delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op="videos.create"),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
async def test_whatever_prepare_raises_proves_that_nothing_was_sent(error: BaseException) -> None:
    class Failing(WrappingTransport):
        async def prepare(self, request: Request) -> Request:
            raise error

    inner = FakeTransport(answer)
    for request in (REQUEST, CREATE):
        with pytest.raises(TransportError) as caught:
            await swallowed(Failing(inner), request)
        assert (caught.value.delivery, inner.requests) == (Delivery.NOT_SENT, [])


class Counting(FakeTransport):
    pass


class Connecting(WrappingTransport):
    @contextlib.asynccontextmanager
    async def connect(self, request: Request):
        async with self.inner.connect(request) as connection:
            yield connection


@pytest.mark.parametrize(
    ("make", "owner"),
    [
        (FakeTransport, FakeTransport),
        (FakeTransport, None),
        (Counting, Counting),
        (Counting, FakeTransport),
        (WrappingTransport, WrappingTransport),
        (WrappingTransport, None),
        (Connecting, Connecting),
        (Connecting, WrappingTransport),
        (Connecting, None),
        (TracedTransport, TracedTransport),
        (Mixed, Sends),
    ],
)
async def test_a_fake_that_replaces_send_later_gets_the_creates(make: Any, owner: Any, monkeypatch) -> None:
    async def fake(*args: object) -> BufferedResponse:
        return BufferedResponse(202, b"fake")

    service = FakeTransport(answer)
    transport = make(answer) if issubclass(make, FakeTransport) else make(service)
    with monkeypatch.context() as patch:
        patch.setattr(owner or transport, "send", fake)
        assert await swallowed(transport, CREATE) == b"fake"
        if owner is not None:  # a class that is derived from it meanwhile
            derived = type("Derived", (make,), {})
            assert await swallowed(derived(answer if issubclass(make, FakeTransport) else service), CREATE) == b"fake"
    assert (service.requests, getattr(transport, "requests", [])) == ([], [])
    assert await swallowed(transport, CREATE) == b"0123456789"


async def test_the_documented_example_runs() -> None:
    example = re.search(r"    class Labels.*?\n\n(?=A request)", base.__doc__ or "", re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {**vars(base), "evolve": evolve}
    exec("if True:\n" + example[0], names)  # noqa: S102 - the documentation of this repository

    inner = FakeTransport(answer)
    await swallowed(names["Labels"](inner), CREATE)

    assert inner.requests[0].headers["X-Label"] == "batch-7"


class Log:
    """An observer that records what it is notified of."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_chunk(self, chunk: bytes) -> None:
        self.lines.append(chunk.decode())

    async def on_end(self, error: BaseException | None) -> None:
        self.lines.append("end" if error is None else type(error).__name__)

    async def on_close(self) -> None:
        self.lines.append("close")


async def test_an_observer_is_notified_of_each_chunk_the_end_and_the_close() -> None:
    log = Log()
    async with ObservedResponse(await answer(REQUEST), log) as response:
        assert [chunk async for chunk in response.chunks(4)] == [b"0123", b"4567", b"89"]
    assert log.lines == ["0123", "4567", "89", "end", "close"]


async def test_a_body_that_is_read_twice_is_observed_once() -> None:
    log = Log()
    async with ObservedResponse(await answer(REQUEST), log) as response:
        assert [await response.read(), await response.read()] == [b"0123456789"] * 2
        assert [chunk async for chunk in response.chunks(5)] == [b"01234", b"56789"]
    assert log.lines == ["0123456789", "end", "close"]


async def test_an_observer_is_notified_of_the_error_that_ends_a_body() -> None:
    async def chunks():
        yield b"01"
        message = "reset"
        raise OSError(message)

    log = Log()
    async with ObservedResponse(BufferedResponse(200, chunks()), log) as response:
        with pytest.raises(OSError, match="reset"):
            await response.read()
    assert log.lines == ["01", "OSError", "close"]

"""What a transport declares, and transports that wrap another one."""

import re
from typing import Any

import pytest
from attrs import evolve, fields
from yarl import URL

from vidgen_async.clock import VirtualClock
from vidgen_async.otel import TracedTransport
from vidgen_async.transports import (
    BufferedResponse,
    Capabilities,
    FakeTransport,
    RecordingTransport,
    WrappingTransport,
    base,
)
from vidgen_async.transports.base import ObservedResponse, capabilities_of
from vidgen_async.types.http import Request

EVERYTHING = Capabilities(honours_gate=True, is_replay=True, goes_out=True, is_recording=True, clock=VirtualClock())
REQUEST = Request(op="videos.get", method="GET", url=URL("https://service.test/videos/task-1"))


async def answer(_: Request) -> BufferedResponse:
    return BufferedResponse(200, b"0123456789")


class Declaring(FakeTransport):
    """A transport that declares what it is given."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(answer)
        for name, value in declared.items():
            setattr(self, name, value)


class Undeclared:
    """A transport that declares nothing."""

    async def send(self, request: Request, *, probe: Any = None) -> BufferedResponse:
        return await answer(request)

    async def aclose(self) -> None: ...


def test_a_transport_that_declares_nothing_has_the_defaults() -> None:
    assert capabilities_of(Undeclared()) == Capabilities()
    assert capabilities_of(WrappingTransport(Undeclared())) == Capabilities()


@pytest.mark.parametrize("name", [field.name for field in fields(Capabilities)])
def test_every_wrapper_has_each_capability_of_the_inner_transport(name: str, tmp_path) -> None:
    declared = {"honours_gate": False, name: getattr(EVERYTHING, name)}
    expected = evolve(Capabilities(), **declared)
    inner = Declaring(**declared)

    for wrapper in (WrappingTransport(inner), TracedTransport(inner), WrappingTransport(TracedTransport(inner))):
        assert capabilities_of(wrapper) == expected
    recording = RecordingTransport(inner, tmp_path / "one.json")
    assert capabilities_of(recording) == evolve(expected, honours_gate=True, is_recording=True)


def test_what_a_subclass_declares_replaces_what_the_inner_transport_declares() -> None:
    class Ungated(WrappingTransport):
        honours_gate = False

    class Set(WrappingTransport):
        def __init__(self, inner: FakeTransport) -> None:
            super().__init__(inner)
            self.honours_gate = False

    assert not capabilities_of(Ungated(Declaring())).honours_gate
    assert not capabilities_of(Set(Declaring())).honours_gate


async def test_a_wrapper_sends_with_the_inner_transport_and_closes_it() -> None:
    inner = FakeTransport(answer)
    wrapper = WrappingTransport(inner)

    async with await wrapper.send(REQUEST) as response:
        assert await response.read() == b"0123456789"
    await wrapper.aclose()

    assert inner.requests == [REQUEST]
    with pytest.raises(Exception, match="the transport is closed"):
        await inner.send(REQUEST)


async def test_the_documented_example_runs(capsys) -> None:
    example = re.search(r"    class LoggingTransport.*?\n\n(?=A request)", base.__doc__ or "", re.DOTALL)
    assert example is not None
    names: dict[str, Any] = dict(vars(base))
    exec("if True:\n" + example[0], names)  # noqa: S102 - the documentation of this repository

    await names["LoggingTransport"](FakeTransport(answer)).send(REQUEST)

    assert capsys.readouterr().out == "videos.get 200\n"


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

"""Recorded times pass in a replay as virtual time."""

import asyncio

import pytest

from tests.cassette.recording_harness import BASE, KEY, ask, says
from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ResponseTimeoutError
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport, ReplayTransport
from vidgen_async.types.http import Delivery, Phase, Request

TASK = {"id": "task-1", "status": "running"}


class Slow(FakeTransport):
    """Responds or fails after a time on its virtual clock."""

    def __init__(self, *seconds: float, fails: bool = False) -> None:
        self.clock = VirtualClock()
        left = list(seconds)

        async def handle(request: Request) -> BufferedResponse:
            waited = left.pop(0)
            await self.clock.sleep(waited)
            if fails:
                message = "it was silent"
                raise ResponseTimeoutError(message, delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op=request.op)
            return says({**TASK, "seconds": waited})

        super().__init__(handle)


async def test_a_read_that_exceeded_retry_for_has_as_many_attempts_in_a_replay(tmp_path):
    async def program(transport) -> float:
        async with Client(KEY, base_url=BASE, transport=transport, retry_reads_for=60.0) as client:
            with pytest.raises(ResponseTimeoutError, match="it was silent"):
                await client.videos.get("task-1")
        return transport.clock.now()

    live = await program(RecordingTransport(Slow(60.0, 60.0, fails=True), tmp_path / "one.json"))
    replay = ReplayTransport(tmp_path / "one.json")
    assert await program(replay) == pytest.approx(live)
    replay.check()


async def test_responses_are_received_in_recorded_order(tmp_path):
    async def program(transport) -> list[str]:
        came: list[str] = []

        async def get(name: str) -> None:
            async with await transport.send(ask(f"/videos/{name}")) as response:
                await response.read()
            came.append(name)

        await asyncio.gather(*(get(name) for name in "abc"))
        await transport.aclose()
        return came

    live = await program(RecordingTransport(Slow(3.0, 1.0, 2.0), tmp_path / "one.json"))
    assert live == ["b", "c", "a"]
    assert await program(ReplayTransport(tmp_path / "one.json")) == live

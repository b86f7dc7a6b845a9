"""Virtual time in a replay: it passes only when all tasks wait, and in exact order."""

import asyncio
import io
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cassette.recording_harness import (
    Timed,
    Watched,
    ask,
    client_on,
    in_turn,
    read,
    record,
    says,
    video,
)
from tests.media.sites import video as made_video
from vidgen_async.cassette import Cassette, Document, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.writer import write
from vidgen_async.transports import (
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
)
from vidgen_async.types.http import Request, make_headers

WHEN = datetime(2026, 11, 27, 21, 35, 24, tzinfo=UTC)
HERE = "http://127.0.0.1:8080/openapi/v1"


def watched(path: Path) -> Watched:
    return Watched(ReplayTransport(path))


def by_hand(path: Path, answers: dict[str, list[str]], *, base: str = HERE) -> None:
    """A cassette of polls with the successive states of each task."""
    longest = max(map(len, answers.values()))
    interactions = []
    for n in range(longest):
        for name, states in answers.items():
            if n < len(states):
                one = Interaction(
                    n=len(interactions) + 1,
                    op="videos.get",
                    request=RecordedRequest("GET", f"{base}/videos/{name}"),
                    status=200,
                    headers=(("content-type", "application/json"),),
                    body={"json": {"id": name, "status": states[n]}},
                )
                interactions.append(one)
    path.write_text(write(Document(Meta(WHEN, "by hand", base), tuple(interactions))), "utf-8")


# -- polls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [5, 60])
async def test_an_hour_of_polls_is_replayed_at_once_with_every_interval(path, interval):
    by_hand(path, {"task-1": [*["running"] * 60, "completed"]})
    transport = watched(path)

    began = time.monotonic()
    async with client_on(transport, base=HERE, poll_interval=interval) as client:
        done = await client.videos.wait("task-1")
    took = time.monotonic() - began

    assert done.status == "completed"
    times = transport.times()
    assert times == [float(interval * n) for n in range(61)]
    assert transport.clock.now() == times[-1]
    assert transport.clock.wall() == WHEN + timedelta(seconds=times[-1])
    assert took < 60
    transport.inner.check()


# -- Retry-After -------------------------------------------------------------------------------------------------------


# -- pacing ------------------------------------------------------------------------------------------------------------


# -- the calendar ------------------------------------------------------------------------------------------------------


# -- what is no waiting ------------------------------------------------------------------------------------------------


async def test_virtual_time_stops_while_a_thread_writes_a_download(path, tmp_path, monkeypatch):
    data = made_video(3 << 20)

    async def handle(_: Request) -> BufferedResponse:
        return video(data)

    async with client_on(RecordingTransport(Timed(FakeTransport(handle)), path)) as client:
        await client.videos.download("task-1", tmp_path / "live.mp4")
    real = os.fsync

    def slowly(descriptor: int) -> None:
        time.sleep(0.02)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slowly)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        alarm = asyncio.ensure_future(replay.clock.sleep(0.001))
        await client.videos.download("task-1", tmp_path / "played.mp4")
        saved_at = replay.clock.now()
        await alarm

    assert (tmp_path / "played.mp4").stat().st_size == len(data)
    assert saved_at == 0


async def test_virtual_time_stops_while_an_image_is_read(path):
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            time.sleep(0.05)
            return super().read(size)

    picture = b"\x89PNG\r\n\x1a\n" + bytes(2000)
    answer = {"id": "asset-1", "image_id": "image-1", "url": "/x"}
    async with client_on(RecordingTransport(Timed(in_turn(says(answer))), path)) as client:
        await client.files.upload(picture)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        alarm = asyncio.ensure_future(replay.clock.sleep(0.001))
        await client.files.upload(Slow(picture))
        uploaded_at = replay.clock.now()
        await alarm

    assert uploaded_at == 0


@pytest.mark.slow
async def test_virtual_time_stops_while_a_long_body_is_received(path):
    data = bytes(4 << 20)
    cassette = Cassette(path, largest_blob=len(data))
    answer = BufferedResponse(200, data, headers=make_headers({"Content-Type": "video/mp4"}))
    await record(cassette, in_turn(answer), [ask()])
    replay = ReplayTransport(cassette)
    alarm = asyncio.ensure_future(replay.clock.sleep(0.001))

    assert await read(replay, ask()) == data

    assert replay.clock.now() == 0
    await alarm


async def test_a_replay_without_waiting_takes_no_time(path):
    by_hand(path, {"task-1": ["running"] * 5})
    replay = ReplayTransport(path)

    async with client_on(replay) as client:
        for _ in range(5):
            await client.videos.get("task-1")

    assert replay.clock.now() == 0

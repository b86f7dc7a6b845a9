"""Virtual time in a replay: it passes only when all tasks wait, and in exact order."""

import asyncio
import io
import json
import os
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cassette.recording_harness import FIELDS, Timed, ask, client_on, in_turn, read, record, says, task, video
from tests.media.sites import video as made_video
from tests.watcher.conftest import busiest_second
from vidgen_async.cassette import Cassette, Document, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.writer import write
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import RejectedRateLimitError, WaitTimeoutError
from vidgen_async.transports import (
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
    Transport,
    WrappingTransport,
)
from vidgen_async.types.http import Request, make_headers
from vidgen_async.types.limits import Pacing

WHEN = datetime(2026, 11, 27, 21, 35, 24, tzinfo=UTC)
HERE = "http://127.0.0.1:8080/openapi/v1"


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


async def test_the_polls_of_a_replay_are_made_at_the_recorded_times(path):
    answers = iter([*["running"] * 20, "completed"])

    async def handle(_: Request) -> BufferedResponse:
        return task(next(answers))

    clock = VirtualClock(WHEN)
    live = Watched(Timed(FakeTransport(handle), clock))
    async with client_on(RecordingTransport(live, path)) as client:
        await client.videos.wait("task-1")
    replay = watched(path)
    async with client_on(replay, base="https://service.test/openapi/v1") as client:
        await client.videos.wait("task-1")

    assert len(live.sends) == 21
    assert replay.sends == live.sends


@pytest.mark.slow
async def test_the_polls_of_more_than_a_hundred_tasks_are_replayed_in_exact_order(path):
    ends = {f"task-{n}": ["running"] * (3 if n % 10 else 2) + ["completed"] for n in range(110)}
    by_hand(path, ends)
    transport = watched(path)

    async with client_on(transport, base=HERE, poll_interval=60) as client:
        outcomes = [outcome async for outcome in client.videos.as_completed(ends)]

    assert Counter(asked.rpartition(" ")[2] for _, asked in transport.sends) == {
        name: len(states) for name, states in ends.items()
    }
    times = transport.times()
    assert times == sorted(times)
    assert {outcome.task.status for outcome in outcomes} == {"completed"}
    assert {outcome.task_id for outcome in outcomes[:11]} == {f"task-{n}" for n in range(0, 110, 10)}
    assert 2 * 60 < transport.clock.now() < 5 * 60
    assert busiest_second(times) <= 100
    transport.inner.check()


async def test_tasks_end_in_the_order_of_their_polls(path):
    states = {f"task-{n}": ["running"] * n + ["completed"] for n in (5, 1, 4, 2, 3)}
    by_hand(path, states)

    async with client_on(ReplayTransport(path)) as client:
        ended = [outcome.task_id async for outcome in client.videos.as_completed(states)]

    assert ended == [f"task-{n}" for n in (1, 2, 3, 4, 5)]


async def test_a_wait_reaches_its_time_limit_in_virtual_time(path):
    by_hand(path, {"task-1": ["running"] * 30})
    transport = watched(path)

    async with client_on(transport, base=HERE) as client:
        with pytest.raises(WaitTimeoutError):
            await client.videos.wait("task-1", timeout=1000)

    assert transport.clock.now() == 1000


# -- Retry-After -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["seconds", "date"])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_is_waited_for_in_virtual_time(path, form, status):
    clock = VirtualClock(WHEN)
    asked = {"seconds": "30", "date": format_datetime(WHEN + timedelta(seconds=30), usegmt=True)}[form]
    inner = Timed(in_turn(says({}, status, Retry_After=asked), task("completed")), clock)

    async with client_on(RecordingTransport(inner, path)) as client:
        await client.videos.get("task-1")
    transport = watched(path)
    async with client_on(transport) as client:
        await client.videos.get("task-1")

    assert clock.now() == 30
    assert transport.times() == [0, 30]


async def test_a_retry_after_pauses_the_polls_of_all_tasks_in_virtual_time(path):
    asked = []

    async def handle(request: Request) -> BufferedResponse:
        asked.append(request)
        if len(asked) == 3:
            return says({}, 429, Retry_After="300")
        return task("completed" if len(asked) > 6 else "running", request.url.path.rpartition("/")[2])

    clock = VirtualClock(WHEN)
    live = Watched(Timed(FakeTransport(handle), clock))
    async with client_on(RecordingTransport(live, path)) as client:
        await asyncio.gather(client.videos.wait("task-1"), client.videos.wait("task-2"))
    transport = watched(path)
    async with client_on(transport) as client:
        await asyncio.gather(client.videos.wait("task-1"), client.videos.wait("task-2"))

    assert transport.sends == live.sends
    refused_at = transport.times()[2]
    assert min(at for at in transport.times()[3:] if at > refused_at) >= refused_at + 300


async def test_a_create_is_retried_after_its_retry_after_in_virtual_time(path):
    clock = VirtualClock(WHEN)
    inner = Timed(in_turn(says({}, 429, Retry_After="45"), says({"id": "task-1", "status": "queued"}, 202)), clock)
    options = {"pacing": Pacing(max_wait=100.0)}

    async with client_on(RecordingTransport(inner, path), **options) as client:
        await client.videos.create(**FIELDS, order_id="order-1", validate=False)
    transport = watched(path)
    async with client_on(transport, **options) as client:
        receipt = await client.videos.create(**FIELDS, order_id="order-1", validate=False)

    assert receipt.task_id == "task-1"
    assert clock.now() >= 45
    assert transport.times() == [0, clock.now()]


async def test_a_refusal_without_max_wait_takes_no_time(path):
    await record(path, in_turn(says({}, 429, Retry_After="45")), [])
    clock = VirtualClock(WHEN)
    recording = RecordingTransport(Timed(in_turn(says({}, 429, Retry_After="45")), clock), path)
    async with client_on(recording) as client:
        with pytest.raises(RejectedRateLimitError):
            await client.videos.create(**FIELDS, validate=False)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        with pytest.raises(RejectedRateLimitError) as caught:
            await client.videos.create(**FIELDS, validate=False)

    assert caught.value.retry_after == 45
    assert replay.clock.now() == 0


# -- pacing ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_pacing_of_25_creates_passes_in_virtual_time(path):
    async def handle(request: Request) -> BufferedResponse:
        prompt = json.loads(request.body.data)["prompt"]
        return says({"id": f"task-{prompt.split()[-1]}", "status": "queued"}, 202)

    async def program(client) -> list[str]:
        receipts = await asyncio.gather(
            *(
                client.videos.create(**{**FIELDS, "prompt": f"boat {n}"}, order_id=f"order-{n}", validate=False)
                for n in range(25)
            )
        )
        return [receipt.task_id for receipt in receipts]

    clock, pacing = VirtualClock(WHEN), Pacing(limit=10)
    live = Watched(Timed(FakeTransport(handle), clock))
    async with client_on(RecordingTransport(live, path), pacing=pacing) as client:
        recorded = await program(client)
    transport = watched(path)
    async with client_on(transport, pacing=pacing) as client:
        played = await program(client)

    assert played == recorded == [f"task-{n}" for n in range(25)]
    times = transport.times("videos.create")
    assert times == live.times("videos.create")
    assert Counter(times) == {times[0]: 10, times[10]: 10, times[20]: 5}
    assert (times[0], times[10], times[20]) == (0, pytest.approx(60, abs=0.2), pytest.approx(120, abs=0.3))
    assert min(times[10] - times[0], times[20] - times[10]) >= 60
    assert transport.inner.played == sorted(transport.inner.played)
    transport.inner.check()


# -- the calendar ------------------------------------------------------------------------------------------------------


async def test_a_replay_begins_at_the_time_of_the_recording(path):
    by_hand(path, {"task-1": ["completed"]})

    assert ReplayTransport(path).clock.wall() == WHEN


async def test_the_expiry_of_a_link_stays_in_the_future(path):
    soon = round(WHEN.timestamp()) + 60
    link = f"https://cdn.test/v.mp4?exp={soon}&sig=c2lnbmF0dXJl"
    clock = VirtualClock(WHEN)
    await record(path, Timed(in_turn(task("completed", video_url=link, expires_at=soon)), clock), [ask()])
    replay = ReplayTransport(path)

    async with client_on(replay) as client:
        found = await client.videos.get("task-1")
        await replay.clock.sleep(30 * 86400)

    [exp] = parse_qs(urlsplit(found.video_url).query)["exp"]
    assert int(exp) > replay.clock.wall().timestamp()
    assert int(exp) > time.time()


async def test_a_receipt_of_a_replay_has_the_time_of_the_recording(path):
    clock = VirtualClock(WHEN)
    inner = Timed(in_turn(says({"id": "task-1", "status": "queued"}, 202)), clock)
    async with client_on(RecordingTransport(inner, path)) as client:
        await client.videos.create(**FIELDS, order_id="order-1", validate=False)

    async with client_on(ReplayTransport(path)) as client:
        receipt = await client.videos.create(**FIELDS, order_id="order-1", validate=False)

    assert receipt.accepted_at == WHEN


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

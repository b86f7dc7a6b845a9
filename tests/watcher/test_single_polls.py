"""One poll of a task: its time limit, what it decodes, and that it does not block the event loop."""

import asyncio
import json
from functools import partial

import pytest
from yarl import URL

from vidgen_async import Client, Timeouts
from vidgen_async.clock import LoopClock
from vidgen_async.errors import UnexpectedResponseError
from vidgen_async.service.codec import Answer, read_poll
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import make_headers
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher, listeners

BASE_URL = "http://localhost/openapi/v1"


def answer(body):
    return Answer("videos.get", 200, make_headers(), body, url=URL(BASE_URL))


def test_only_a_changed_response_is_decoded_again():
    task, mark = read_poll(answer(b'{"id": "t", "status": "queued"}'), "t", None)
    assert task == VideoTask(id="t", status="queued")

    assert read_poll(answer(b'{"id": "t", "status": "queued"}'), "t", mark) == (None, mark)
    later, another = read_poll(answer(b'{"id": "t", "status": "running"}'), "t", mark)
    assert (later, another == mark) == (VideoTask(id="t", status="running"), False)


async def test_an_unchanged_response_is_decoded_again_for_the_first_listener_that_needs_the_task(
    make_watcher, service, clock, monkeypatch
):
    monkeypatch.setattr(listeners, "MOST_KEPT", 10)
    watcher = make_watcher(first_polls=100)
    crowd = asyncio.ensure_future(anext(watcher.as_completed(f"t{number}" for number in range(11))))
    await clock.sleep(130.0)  # each was polled twice, and none is stored

    changes = watcher.watch("t7", timeout=120.0)

    assert await anext(changes) == VideoTask(id="t7", status="running")
    crowd.cancel()
    await asyncio.gather(crowd, return_exceptions=True)
    await changes.aclose()


RUNNING = b'{"id": "t", "status": "running", "points": 3}'


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (RUNNING, "running"),
        (b'{"id": "t", "task_id": "t", "status": "queued"}', "queued"),
        (b'{"id": "t", "status": "completed"}', VideoTask(id="t", status="completed")),
        (b'{"id": "t", "status": "expired"}', VideoTask(id="t", status="failed", extra={"status": "expired"})),
        (b'{"id": "t", "status": "dreaming"}', VideoTask(id="t", status="dreaming")),
        (b'{"id": "t", "status": ["running"]}', VideoTask(id="t", extra={"status": ["running"]})),
        (b'{"id": "u", "task_id": "t", "status": "running"}', VideoTask(id="t", status="running", extra={"id": "u"})),
    ],
)
def test_of_a_task_that_is_not_needed_only_the_state_is_read_while_it_is_queued_or_running(body, found):
    read = partial(read_poll, answer(body), "t", terminal_states={"expired": "failed"})

    result, mark = read(seen=None, is_task_needed=False)

    assert result == found
    assert read(seen=mark, is_task_needed=False) == (None, mark)
    assert isinstance(read(seen=None, is_task_needed=True)[0], VideoTask)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"status": "running"}', b'{"id": "u", "status": "running"}'])
def test_a_response_that_is_not_about_the_task_is_an_error_also_if_the_task_is_not_needed(body):
    with pytest.raises(UnexpectedResponseError):
        read_poll(answer(body), "t", None, is_task_needed=False)


async def test_only_tasks_that_a_listener_needs_are_requested(make_watcher, service, clock, monkeypatch):
    monkeypatch.setattr(listeners, "MOST_KEPT", 2)
    ids = ["a", "b", "c"]
    service.script("a", *["queued"] * 4, "running")
    requested = {}

    async def poll(task_id, mark, *, is_task_needed):
        if is_task_needed:
            requested.setdefault(clock.now(), []).append(task_id)
        return await service.poll_if_changed(task_id, mark, is_task_needed=is_task_needed)

    watcher = Watcher(poll, clock=clock, is_origin_known=bool)
    crowd = asyncio.ensure_future(anext(watcher.as_completed(ids, timeout=None)))
    await clock.sleep(70.0)
    changes = watcher.watch("a", timeout=100.0)
    assert await anext(changes) == VideoTask(id="a", status="queued")
    await changes.aclose()
    await clock.sleep(130.0)
    again = watcher.watch("a", timeout=100.0)

    # What was known when it was watched last is out of date.
    assert await anext(again) == VideoTask(id="a", status="running")
    assert requested == {120.0: ["a"], 300.0: ["a"]}
    await again.aclose()
    crowd.cancel()
    await asyncio.gather(crowd, return_exceptions=True)
    await watcher.aclose()


@pytest.mark.parametrize(
    ("interval", "read", "time_limit"), [(60.0, 60.0, 15.0), (1.0, 60.0, 10.0), (60.0, 5.0, 5.0), (600.0, None, 150.0)]
)
async def test_the_time_limit_of_a_poll_is_a_quarter_of_the_interval(interval, read, time_limit):
    asked = []

    async def completed(request):
        asked.append(request)
        return BufferedResponse(200, json.dumps({"id": "t", "status": "completed"}).encode())

    timeouts = Timeouts(read=read)
    async with Client(
        "key", base_url=BASE_URL, transport=FakeTransport(completed), poll_interval=interval, timeouts=timeouts
    ) as client:
        await client.videos.wait("t")
        await client.videos.get("t")

    assert [request.timeouts.read for request in asked] == [time_limit, read]


async def test_polls_that_never_wait_do_not_block_the_event_loop():
    polls = 0

    async def at_once(task_id, mark, *, is_task_needed):
        nonlocal polls
        polls += 1
        return VideoTask(id=task_id, status="running" if polls < 20_000 else "completed"), None

    watcher = Watcher(at_once, clock=LoopClock(), is_origin_known=bool, interval=1e-6)
    waiting = asyncio.ensure_future(watcher.wait("t"))
    for _ in range(20):
        await asyncio.sleep(0)

    assert 0 < polls < 20_000
    waiting.cancel()
    await watcher.aclose()


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "٣", "1e3", ""])
async def test_an_invalid_content_length_does_not_prevent_reading_a_response(length):
    async def completed(request):
        return BufferedResponse(
            200, b'{"id": "t", "status": "completed"}', headers=make_headers({"Content-Length": length})
        )

    async with Client("key", base_url=BASE_URL, transport=FakeTransport(completed)) as client:
        assert (await client.videos.get("t")).is_terminal

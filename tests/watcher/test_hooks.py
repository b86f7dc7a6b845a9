"""``on_update``."""

import asyncio
import gc
from contextlib import suppress

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

from .conftest import FakeService, hang, settle, workers


async def test_the_hook_is_called_with_every_change_of_any_task(make_watcher, service):
    seen = []
    watcher = make_watcher(on_update=lambda task: seen.append((task.id, task.status)))
    service.script("a", "queued", "queued", "running", "completed")
    service.script("b", "failed")

    async for _ in watcher.as_completed(["a", "b"]):
        pass

    assert seen == [("a", "queued"), ("b", "failed"), ("a", "running"), ("a", "completed")]


async def test_a_slow_hook_delays_no_poll_and_then_gets_the_latest_change_of_its_task(make_watcher, service, clock):
    seen = []

    async def slow(task):
        await clock.sleep(200.0 if task.status == "queued" else 1.0)
        seen.append((clock.now(), task.id, task.status))

    watcher = make_watcher(on_update=slow)
    service.script("a", "queued", "running", "completed")
    service.script("b", "running", "completed")

    async for _ in watcher.as_completed(["a", "b"]):
        pass
    assert service.times("a") == [0.0, 60.0, 120.0]
    await clock.sleep(200.0)

    assert seen == [
        (1.0, "b", "running"),
        (61.0, "b", "completed"),
        (200.0, "a", "queued"),
        (201.0, "a", "completed"),
    ]
    assert workers() == []


async def test_the_number_of_simultaneous_calls_is_limited(make_watcher, service, clock):
    running = most = ended = 0

    async def slow(task):
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await clock.sleep(1.0)
        running -= 1
        ended += 1

    watcher = make_watcher(concurrency=2, on_update=slow)
    service.default = "completed"
    async for _ in watcher.as_completed(f"t{n}" for n in range(10)):
        pass
    await clock.sleep(60.0)

    assert most == 2
    assert ended == 10


async def test_closing_waits_for_running_calls_within_the_grace(make_watcher, service, clock):
    written = []

    async def write(task):
        await clock.sleep(1.0)
        written.append(task.status)

    watcher = make_watcher(on_update=write)
    service.script("t", "completed")
    await watcher.wait("t")
    await watcher.aclose()

    assert written == ["completed"]


async def test_closing_cancels_calls_that_exceed_the_grace(make_watcher, service, clock, caplog):
    async def stuck(task):
        await hang()

    watcher = make_watcher(concurrency=1, on_update=stuck)
    service.default = "completed"
    await asyncio.gather(watcher.wait("t"), watcher.wait("u"), watcher.wait("v"))
    began = clock.now()
    await watcher.aclose(grace=3.0)

    assert clock.now() == began + 3.0
    assert "3 calls were not over" in caplog.text
    assert workers() == []


async def test_the_hook_may_close_the_watcher(make_watcher, service, clock):
    watcher: Watcher

    async def closing(task):
        await watcher.aclose()

    watcher = make_watcher(concurrency=1, on_update=closing)
    service.default = "completed"
    await watcher.wait("t")
    await clock.sleep(1.0)

    assert clock.now() <= 2.0
    assert workers() == []


def failing(task):
    raise ValueError(task.status)


async def failing_later(task):
    raise ValueError(task.status)


def cancelled_result(task):
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    future.result()


async def cancelled_wait(task):
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def outcome_of_a_framework(task):
    pytest.fail("a BaseException that is no Exception")


async def raising_later(task):
    outcome_of_a_framework(task)


class Broken:
    def __await__(self):
        raise ValueError


def not_awaitable_in_fact(task):
    return Broken()


HOOKS = [failing, failing_later, cancelled_result, cancelled_wait, outcome_of_a_framework, raising_later,
         not_awaitable_in_fact]  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS)
async def test_any_exception_of_the_hook_is_logged_and_no_task_is_lost(hook, make_watcher, service, caplog):
    watcher = make_watcher(on_update=hook)
    service.script("t", "queued", "running", "completed")

    assert (await watcher.wait("t", timeout=600.0)).status == "completed"
    await settle()

    assert [record.event_name.split(".")[0] for record in caplog.records if hasattr(record, "hook")] == ["hook"] * 3
    assert {record.task_id for record in caplog.records if hasattr(record, "hook")} == {"t"}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_end_of_the_program_propagates(kind, *, is_async):
    def ending(task):
        raise kind

    async def ending_later(task):
        raise kind

    async def program():
        clock = VirtualClock()
        service = FakeService(clock)
        on_update = ending_later if is_async else ending
        await Watcher(service.poll_if_changed, clock=clock, is_origin_known=bool, on_update=on_update).wait("t")

    with pytest.raises(kind):
        asyncio.run(program())


async def test_while_calls_never_end_only_the_latest_change_of_each_task_is_stored(make_watcher, service, caplog):
    updates = []
    release = asyncio.Event()

    async def stuck(task):
        updates.append((task.id, task.status))
        await release.wait()

    watcher = make_watcher(on_update=stuck, concurrency=2)
    states = [f"state-{number}" for number in range(50)]
    for task_id in "abcd":
        service.script(task_id, *states, "completed")
    async for _ in watcher.as_completed("abcd"):
        pass
    alive = [thing for thing in gc.get_objects() if isinstance(thing, VideoTask) and thing.status in states]
    assert updates == [("a", "state-0"), ("b", "state-0")]
    assert len(alive) <= 2
    assert [record.event_name for record in caplog.records if hasattr(record, "hook")] == ["hook.behind"]

    release.set()
    await settle()
    assert sorted(updates[2:]) == [(task_id, "completed") for task_id in "abcd"]


async def test_closing_abandons_a_call_that_ignores_its_cancellation(make_watcher, service, clock, caplog):
    release = asyncio.Event()

    async def stubborn(task):
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    watcher = make_watcher(on_update=stubborn)
    service.script("t", "completed")
    await watcher.wait("t")
    began = clock.now()
    await watcher.aclose(grace=3.0)

    assert clock.now() == began + 6.0
    assert "1 cancelled calls were not over after 3 s; abandoned" in caplog.text
    release.set()
    await settle()


async def test_a_call_that_is_cancelled_before_it_began_causes_no_warning(make_watcher, service, clock):
    async def late(task):
        await clock.sleep(1.0)

    watcher = make_watcher(on_update=late)
    watcher._hooks.notify(VideoTask(id="t", status="running"))
    (call,) = [task for task in asyncio.all_tasks() if task.get_name() == "vidgen on_update"]
    call.cancel()
    await settle()

    assert workers() == []

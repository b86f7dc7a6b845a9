"""``on_update`` and ``first_poll_after`` of a single wait, watch or as_completed."""

import asyncio
from contextlib import aclosing
from contextvars import ContextVar

import pytest

from vidgen_async.errors import ClientStateError, WaitTimeoutError
from vidgen_async.watcher import listeners

from .conftest import hang, settle


async def wait(watcher, **options):
    await watcher.wait("t", **options)


async def watch(watcher, **options):
    async for _ in watcher.watch("t", **options):
        pass


async def as_completed(watcher, **options):
    async for _ in watcher.as_completed(["t"], **options):
        pass


EACH_CALL = pytest.mark.parametrize("call", [wait, watch, as_completed])


@EACH_CALL
async def test_on_update_is_called_with_every_change_of_its_own_tasks(call, watcher, service):
    seen = []
    service.script("t", "queued", "queued", "running", "completed")
    service.script("u", "queued", "completed")

    await asyncio.gather(call(watcher, on_update=lambda task: seen.append((task.id, task.status))), watcher.wait("u"))

    assert seen == [("t", "queued"), ("t", "running"), ("t", "completed")]


@EACH_CALL
async def test_the_call_returns_after_the_last_async_on_update(call, watcher, service, clock):
    written = []

    async def write(task):
        await clock.sleep(30.0)
        written.append(task.status)

    service.script("t", "queued", "completed")
    await call(watcher, on_update=write)

    assert written == ["queued", "completed"]
    assert clock.now() == 90.0


@EACH_CALL
async def test_calls_of_on_update_may_run_until_the_timeout_and_then_are_cancelled(
    call, watcher, service, clock, caplog
):
    async def stuck(task):
        await hang()

    service.script("t", "completed")
    await call(watcher, on_update=stuck, timeout=300.0)

    assert clock.now() == 300.0
    assert "1 calls were not over" in caplog.text


async def test_after_a_timeout_calls_of_on_update_have_five_more_seconds(watcher, service, clock):
    async def stuck(task):
        await hang()

    with pytest.raises(WaitTimeoutError):
        await watcher.wait("t", on_update=stuck, timeout=100.0)

    assert clock.now() == 105.0


async def test_after_the_watcher_was_closed_calls_of_on_update_have_five_more_seconds(watcher, service, clock):
    async def stuck(task):
        await hang()

    waiting = asyncio.ensure_future(watcher.wait("t", on_update=stuck))
    await clock.sleep(1.0)
    await watcher.aclose()

    with pytest.raises(ClientStateError):
        await waiting
    assert clock.now() == 6.0


@EACH_CALL
async def test_cancelling_the_call_cancels_its_on_update(call, watcher, service, clock, caplog):
    cancelled = []

    async def stuck(task):
        try:
            await hang()
        except asyncio.CancelledError:
            cancelled.append(task.status)
            raise

    caller = asyncio.ensure_future(call(watcher, on_update=stuck))
    await settle()
    caller.cancel()
    await asyncio.wait({caller})

    assert caller.cancelled()
    assert cancelled == ["running"]
    assert clock.now() == 0.0
    assert "were not over" not in caplog.text


async def test_leaving_the_loop_cancels_its_on_update(watcher, service):
    cancelled = []

    async def stuck(task):
        try:
            await hang()
        finally:
            cancelled.append(task.status)

    changes = watcher.watch("t", on_update=stuck)
    async with aclosing(changes):
        await anext(changes)
        await settle()

    assert cancelled == ["running"]


async def test_on_update_sees_the_context_variables_of_its_caller(watcher, service):
    request_id = ContextVar("request_id", default="none")
    seen = []

    async def note(task):
        seen.append(request_id.get())
        request_id.set("changed by another call")

    async def handle(name):
        request_id.set(name)
        await watcher.wait("t", on_update=note)

    service.script("t", "queued", "completed")
    await asyncio.gather(handle("a"), handle("b"))

    assert sorted(seen) == ["a", "a", "b", "b"]


async def test_on_update_gets_the_fields_of_very_many_tasks(watcher, service, monkeypatch):
    monkeypatch.setattr(listeners, "MOST_KEPT", 1)
    seen = []
    service.script("t", "queued", "completed")
    service.script("u", "running", "completed")

    async for _ in watcher.as_completed("tu", on_update=lambda task: seen.append((task.id, task.status))):
        pass

    assert seen == [("t", "queued"), ("u", "running"), ("t", "completed"), ("u", "completed")]


# -- first_poll_after ------------------------------------------------------------------------------------------------


@EACH_CALL
async def test_the_first_poll_is_made_after_the_delay(call, watcher, service):
    service.script("t", "running", "completed")

    await call(watcher, first_poll_after=200.0)

    assert service.times() == [200.0, 260.0]


async def test_another_wait_without_a_delay_is_polled_at_once(watcher, service, clock):
    service.script("t", "running", "running", "completed")
    first = asyncio.ensure_future(watcher.wait("t", first_poll_after=200.0))
    await clock.sleep(50.0)

    await watcher.wait("t")

    assert service.times() == [50.0, 110.0, 170.0]
    await first


async def test_a_delay_does_not_stop_the_polls_of_another_wait(watcher, service, clock):
    service.complete_at(170.0, "t")
    first = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(10.0)

    await watcher.wait("t", first_poll_after=1000.0)

    assert service.times() == [0.0, 60.0, 120.0, 180.0]
    await first


async def test_a_delay_never_causes_a_poll_within_the_interval(watcher, service, clock):
    first = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(10.0)
    first.cancel()
    await settle()
    service.default = "completed"

    await watcher.wait("t", first_poll_after=5.0)

    assert service.times() == [0.0, 60.0]


async def test_a_task_whose_delay_was_cancelled_is_polled_at_once_by_the_next_wait(watcher, service, clock):
    first = asyncio.ensure_future(watcher.wait("t", first_poll_after=500.0))
    await clock.sleep(10.0)
    first.cancel()
    await settle()
    service.default = "completed"

    await watcher.wait("t")

    assert service.times() == [10.0]


async def test_delayed_first_polls_of_many_tasks_are_no_burst(make_watcher, service):
    watcher = make_watcher(first_polls=10, concurrency=1000)
    service.default = "completed"

    async for _ in watcher.as_completed([f"t{n}" for n in range(600)], first_poll_after=100.0):
        pass

    moments = [moment for moment, _ in service.polls]
    assert min(moments) == 100.0
    assert max(moments) <= 161.0
    assert sum(moment < 101.0 for moment in moments) <= 40


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
@EACH_CALL
async def test_a_delay_is_a_number_of_seconds(call, seconds, watcher):
    with pytest.raises(ValueError, match="first_poll_after"):
        await call(watcher, first_poll_after=seconds)

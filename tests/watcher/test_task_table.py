"""The rows of watched tasks are used again, and are no objects for the garbage collector."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import aclosing, suppress

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, Watcher, listeners
from vidgen_async.watcher.listeners import Listener
from vidgen_async.watcher.poll_rules import GRACE, PollFailure
from vidgen_async.watcher.task_table import TaskTable

from .conftest import FakeService, settle


class TestRows:
    def test_a_row_is_used_again_without_the_data_of_its_last_task(self) -> None:
        tasks = TaskTable()
        other = tasks.add("other")
        first = tasks.add("first")
        tasks.add_listener(first, Listener(("first",), None))
        tasks.set_accepted(first, 1.0)
        tasks.states[first], tasks.marks[first], tasks.tasks[first] = "running", 7, VideoTask(id="first")
        tasks.leave(first)
        tasks.drop(first)

        second = tasks.add("second")

        assert second == first != other
        assert tasks.last_state(second) == ("second", None, None, None)
        assert (tasks.marks[second], tasks.details, tasks.has_listener(second)) == (0, {}, False)
        assert [tasks.task_ids[row] for row in tasks] == ["other", "second"]

    async def test_the_poller_of_a_dropped_row_can_be_read_also_when_all_rows_are_dropped(self) -> None:
        tasks = TaskTable()
        row = tasks.add("only")
        tasks.pollers[row] = asyncio.current_task()
        tasks.leave(row)
        tasks.drop(row)

        assert tasks.pollers.get(row) is None
        assert len(tasks) == len(tasks.task_ids) == len(tasks.marks) == 0
        assert tasks.add("next") == 0

    def test_details_are_removed_when_they_are_no_longer_needed(self) -> None:
        tasks = TaskTable()
        row = tasks.add("t")
        tasks.set_accepted(row, 100.0)
        tasks.count_fault(row, PollFailure.BUSY, "RateLimitError", 0.0)

        tasks.clear_fault(row, 110.0)
        assert (tasks.is_new(row, 110.0), tasks.last_state(row).trouble) == (True, None)
        assert tasks.count_fault(row, PollFailure.BUSY, "RateLimitError", 7.0) == (1, 0.0)

        tasks.clear_fault(row, 100.0 + GRACE)
        assert tasks.details == {}
        assert not tasks.is_new(row, 100.0 + GRACE)

    def test_a_task_that_left_keeps_its_row_until_it_is_dropped(self) -> None:
        tasks = TaskTable()
        left = tasks.add("left")
        tasks.states[left] = "running"
        tasks.leave(left)

        other = tasks.add("other")
        assert tasks.get("left") is None
        assert other != left

        tasks.come_back(left)
        assert [tasks.last_state(row).state for row in tasks] == [None, "running"]


class TestReuse:
    async def test_a_response_that_arrives_after_its_row_has_another_task_is_ignored(
        self, make_watcher: Callable[..., Watcher], service: FakeService, clock: VirtualClock
    ) -> None:
        late: asyncio.Future[VideoTask] = asyncio.get_running_loop().create_future()

        async def stubborn() -> VideoTask:
            while True:
                with suppress(asyncio.CancelledError):
                    return await asyncio.shield(late)

        service.script("gone", stubborn)
        watcher = make_watcher(concurrency=2)
        kept = asyncio.ensure_future(watcher.wait("kept", timeout=None))
        gone = asyncio.ensure_future(watcher.wait("gone", timeout=None))
        with clock.hold():
            await settle()
            row = _row(watcher, "gone")
            await _leave(gone)
        await clock.sleep(61.0)
        with clock.hold():
            # Tasks that left long ago are dropped.
            await _leave(asyncio.ensure_future(watcher.wait("another", timeout=None)))
            new = asyncio.ensure_future(watcher.wait("new", timeout=None))
            await settle()
            new_row = _row(watcher, "new")

            late.set_result(VideoTask(id="gone", status="completed"))
            await settle()

        assert new_row == row
        assert not new.done()
        assert not kept.done()
        service.default = "completed"
        assert (await new).id == "new"
        assert (await kept).id == "kept"

    async def test_tasks_that_are_watched_one_after_the_other_share_rows(
        self, make_watcher: Callable[..., Watcher], service: FakeService
    ) -> None:
        service.default = "completed"
        watcher = make_watcher()

        for number in range(300):
            assert (await watcher.wait(f"t{number}")).id == f"t{number}"

        assert len(watcher._tasks.task_ids) == 0
        assert [polled for _, polled in service.polls] == [f"t{number}" for number in range(300)]


@pytest.mark.slow
async def test_watched_tasks_are_no_objects_for_the_garbage_collector(
    make_watcher: Callable[..., Watcher], service: FakeService, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1_000
    monkeypatch.setattr(listeners, "MOST_KEPT", count // 2)  # more tasks than a gatherer stores
    watcher = make_watcher(concurrency=4)  # pollers are objects
    ids = [f"t{number}" for number in range(count)]
    gc.collect()
    before = len(gc.get_objects())

    async with aclosing(watcher.as_completed(ids, timeout=None)) as outcomes:
        waiter: asyncio.Future[Outcome] = asyncio.ensure_future(anext(outcomes))
        await clock.sleep(61.0)
        service.polls.clear()
        gc.collect()
        grown = len(gc.get_objects()) - before
        polls = watcher.stats.polls
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)

    assert polls >= count
    assert grown < count / 4


async def _leave(waiter: "asyncio.Future[VideoTask]") -> None:
    await settle()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)


def _row(watcher: Watcher, task_id: str) -> int:
    row = watcher._tasks.get(task_id)
    assert row is not None
    return row

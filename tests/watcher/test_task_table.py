"""What is kept for watched tasks: rows that are used again, and nothing for the garbage collector to go through."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import aclosing, suppress

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, Watcher, listeners
from vidgen_async.watcher.listeners import Listener
from vidgen_async.watcher.poll_rules import GRACE, Fault
from vidgen_async.watcher.task_table import TaskTable

from .conftest import FakeService, settle


class TestRows:
    def test_a_row_is_used_again_and_knows_nothing_of_its_last_task(self) -> None:
        entries = TaskTable()
        kept = entries.add("kept")
        first = entries.add("first")
        first.add(Listener(("first",), None))
        first.accepted(1.0)
        first.state, first.mark, first.task = "running", 7, VideoTask(id="first")
        entries.leave(first)
        entries.drop(first)

        second = entries.add("second")

        assert second.row == first.row != kept.row
        assert second.last_state() == ("second", None, None, None)
        assert (second.mark, second.details, second.is_deserted) == (None, None, True)
        assert [entry.task_id for entry in entries] == ["kept", "second"]

    async def test_of_a_dropped_entry_the_poller_can_be_asked_also_when_all_are_gone(self) -> None:
        entries = TaskTable()
        entry = entries.add("only")
        entry.poller = asyncio.current_task()
        entries.leave(entry)
        entries.drop(entry)

        assert entry.poller is None
        assert len(entries) == len(entries.task_ids) == len(entries.marks) == 0
        assert entries.add("next").row == 0

    def test_what_only_trouble_needs_is_let_go_when_it_is_over(self) -> None:
        entries = TaskTable()
        entry = entries.add("t")
        entry.accepted(100.0)
        entry.count_fault(Fault.BUSY, "RateLimitError", 0.0)

        entry.clear_fault(110.0)
        assert (entry.is_new(110.0), entry.last_state().trouble) == (True, None)
        assert entry.count_fault(Fault.BUSY, "RateLimitError", 7.0) == (1, 0.0)

        entry.clear_fault(100.0 + GRACE)
        assert entry.details is None
        assert not entry.is_new(100.0 + GRACE)

    def test_what_left_keeps_its_row_until_it_is_dropped(self) -> None:
        entries = TaskTable()
        left = entries.add("left")
        left.state = "running"
        entries.leave(left)

        other = entries.add("other")
        assert entries.get("left") is None
        assert other.row != left.row

        entries.come_back(left)
        assert [entry.last_state().state for entry in entries] == [None, "running"]


class TestReuse:
    async def test_an_answer_that_comes_after_its_row_got_another_task_is_nobodys(
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
            # What left long ago is dropped.
            await _leave(asyncio.ensure_future(watcher.wait("another", timeout=None)))
            heir = asyncio.ensure_future(watcher.wait("heir", timeout=None))
            await settle()
            heirs_row = _row(watcher, "heir")

            late.set_result(VideoTask(id="gone", status="completed"))
            await settle()

        assert heirs_row == row
        assert not heir.done()
        assert not kept.done()
        service.default = "completed"
        assert (await heir).id == "heir"
        assert (await kept).id == "kept"

    async def test_ends_and_new_tasks_in_turn_share_a_few_rows(
        self, make_watcher: Callable[..., Watcher], service: FakeService
    ) -> None:
        service.default = "completed"
        watcher = make_watcher()

        for number in range(300):
            assert (await watcher.wait(f"t{number}")).id == f"t{number}"

        assert len(watcher._entries.task_ids) == 0
        assert [looked_at for _, looked_at in service.looks] == [f"t{number}" for number in range(300)]


@pytest.mark.slow
async def test_very_many_watched_tasks_are_nothing_that_a_garbage_collector_goes_through(
    make_watcher: Callable[..., Watcher], service: FakeService, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1_000
    monkeypatch.setattr(listeners, "MOST_KEPT", count // 2)  # more than a gatherer keeps the tasks of
    watcher = make_watcher()
    ids = [f"t{number}" for number in range(count)]
    gc.collect()
    before = len(gc.get_objects())

    async with aclosing(watcher.as_completed(ids, timeout=None)) as outcomes:
        waiter: asyncio.Future[Outcome] = asyncio.ensure_future(anext(outcomes))
        await clock.sleep(61.0)
        service.looks.clear()
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
    entry = watcher._entries.get(task_id)
    assert entry is not None
    return entry.row

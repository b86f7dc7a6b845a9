"""The rows of watched tasks are used again, and are no objects for the garbage collector."""

import asyncio
import gc
from contextlib import aclosing, suppress
from itertools import pairwise

import pytest

from vidgen_async.errors import NotFoundError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, listeners
from vidgen_async.watcher.listeners import Polling

from .conftest import settle


class TestReuse:
    async def test_a_response_that_arrives_after_its_row_has_another_task_is_ignored(
        self, make_watcher, service, clock
    ):
        late: asyncio.Future[VideoTask] = asyncio.get_running_loop().create_future()

        async def stubborn():
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

    async def test_a_row_that_is_used_again_has_nothing_of_its_last_task(self, make_watcher, service, clock):
        watcher = make_watcher()
        kept = asyncio.ensure_future(watcher.wait("kept", timeout=None))
        old = ["old-1", "old-2"]
        for name in old:
            service.script(name, "running", *[NotFoundError("gone", status=404)] * 20)
        waits = [watcher.wait(name, accepted_at=0.0, polling=Polling(interval=10.0)) for name in old]
        assert [type(end) for end in await asyncio.gather(*waits, return_exceptions=True)] == [NotFoundError] * 2

        with pytest.raises(WaitTimeoutError, match=r"\(no poll has succeeded yet\)") as caught:
            await watcher.wait("silent", timeout=1.0, first_poll_after=5.0)
        service.script("new", "running", "running", "completed")
        changes = [task.id async for task in watcher.watch("new")]

        assert caught.value.task is None
        assert changes == ["new", "new"]
        assert [b - a for a, b in pairwise(service.times("new"))] == [60.0, 60.0]
        assert len(watcher._task_ids) == 3
        kept.cancel()

    async def test_tasks_that_are_watched_one_after_the_other_share_rows(self, make_watcher, service):
        service.default = "completed"
        watcher = make_watcher()

        for number in range(300):
            assert (await watcher.wait(f"t{number}")).id == f"t{number}"

        assert len(watcher._task_ids) == 0
        assert [polled for _, polled in service.polls] == [f"t{number}" for number in range(300)]


@pytest.mark.slow
async def test_watched_tasks_are_no_objects_for_the_garbage_collector(make_watcher, service, clock, monkeypatch):
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


async def _leave(waiter):
    await settle()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)


def _row(watcher, task_id):
    row = watcher._rows.get(task_id)
    assert row is not None
    return row

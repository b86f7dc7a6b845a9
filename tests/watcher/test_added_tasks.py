"""``as_completed`` of an async iterable: tasks are added while it runs, and forgotten when they have ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from tests.watcher.conftest import settle
from vidgen_async import Client, InvalidRequestError, TaskFailedError, WaitTimeoutError
from vidgen_async.sandbox import Sandbox


async def added(*task_ids: str) -> AsyncIterator[tuple[str, None]]:
    for task_id in task_ids:
        yield task_id, None


async def test_tasks_are_polled_as_they_are_added_and_each_has_an_outcome(watcher, service, clock):
    async def tasks() -> AsyncIterator[tuple[str, None]]:
        yield "slow", None
        yield "slow", None
        await clock.sleep(100.0)
        yield "late", None

    service.complete_at(250.0, "slow")
    service.complete_at(0.0, "late", "failed")

    outcomes = [(clock.now(), each) async for each in watcher.as_added(tasks())]

    assert [(moment, each.task_id) for moment, each in outcomes] == [(100.0, "late"), (300.0, "slow")]
    assert isinstance(outcomes[0][1].error, TaskFailedError)
    assert service.times("slow") == [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]
    assert watcher.stats.tasks == watcher.stats.waiting == 0


async def test_a_task_that_is_added_again_after_its_end_has_another_outcome(watcher, service):
    service.default = "completed"
    ended = asyncio.Event()

    async def tasks() -> AsyncIterator[tuple[str, None]]:
        yield "t", None
        await ended.wait()
        yield "t", None

    async with aclosing(watcher.as_added(tasks())) as outcomes:
        assert (await anext(outcomes)).task_id == "t"
        ended.set()
        assert [each.task_id async for each in outcomes] == ["t"]


async def test_the_time_limit_ends_tasks_that_were_added_before_and_after_it(watcher, clock):
    async def tasks() -> AsyncIterator[tuple[str, None]]:
        yield "before", None
        await clock.sleep(20.0)
        yield "after", None

    outcomes = [(clock.now(), each) async for each in watcher.as_added(tasks(), timeout=10.0)]

    assert [(moment, each.task_id, type(each.error)) for moment, each in outcomes] == [
        (10.0, "before", WaitTimeoutError),
        (20.0, "after", WaitTimeoutError),
    ]


async def test_what_the_iterable_raises_is_raised_after_the_outcomes_of_the_tasks_before(watcher, service, clock):
    async def broken() -> AsyncIterator[tuple[str, None]]:
        yield "t", None
        raise OSError("the database is gone")

    service.complete_at(100.0, "t")
    async with aclosing(watcher.as_added(broken())) as outcomes:
        assert (await anext(outcomes)).task_id == "t"
        with pytest.raises(OSError, match="the database is gone"):
            await anext(outcomes)
    assert clock.now() == 120.0


async def test_leaving_the_loop_ends_the_iterable_and_the_watch_of_all(watcher, service):
    is_closed = False

    async def tasks() -> AsyncIterator[tuple[str, None]]:
        nonlocal is_closed
        try:
            async for task in added("done", *(f"t{n}" for n in range(600))):
                yield task
            await asyncio.get_running_loop().create_future()
        finally:
            is_closed = True

    service.complete_at(0.0, "done")
    async with aclosing(watcher.as_added(tasks())) as outcomes:
        await anext(outcomes)
        await settle()
        assert watcher.stats.tasks == 600
    assert watcher.stats.tasks == watcher.stats.waiting == 0
    assert is_closed


async def test_outcomes_of_receipts_have_their_order_ids_and_other_tasks_none():
    async with (
        Sandbox(queued_for=0, running_for=0) as service,
        Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as client,
    ):
        receipt = await client.videos.create(model="gen-2.0", prompt="a boat", order_id="order-1")
        other = await client.videos.create(model="gen-2.0", prompt="a boat")

        async def tasks() -> AsyncIterator[object]:
            yield receipt
            yield other.task_id
            yield ".."

        outcomes = {each.task_id: each async for each in client.videos.as_completed(tasks())}
    assert {task_id: each.order_id for task_id, each in outcomes.items()} == {
        receipt.task_id: "order-1",
        other.task_id: None,
        "..": None,
    }
    assert isinstance(outcomes[".."].error, InvalidRequestError)

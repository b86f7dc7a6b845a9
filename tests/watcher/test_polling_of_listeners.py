"""Listeners with another API key, or another interval, on one watcher."""

import asyncio
from collections import defaultdict

import pytest
from attrs import field, frozen

from vidgen_async.errors import NotFoundError, RateLimitError
from vidgen_async.watcher.listeners import Polling

from .conftest import FakeService, busiest_second, settle


@frozen
class KeyedPoll:
    """The poll with a key, against a service where each key sees its own tasks only."""

    key: str
    service: FakeService = field(eq=False)
    sent: dict = field(eq=False, factory=lambda: defaultdict(list))
    owned: tuple = field(eq=False, default=("t",))

    async def __call__(self, task_id, mark, *, is_task_needed):
        self.sent[task_id].append(self.service.clock.now())
        if task_id not in self.owned:
            raise NotFoundError("no such task", status=404, body=b"{}")
        return await self.service.poll_if_changed(task_id, mark, is_task_needed=is_task_needed)


async def test_a_task_is_polled_with_the_key_of_the_listener(watcher, service):
    poll = KeyedPoll("k", service)
    service.script("t", "queued", "completed")

    task = await watcher.wait("t", polling=Polling(poll))

    assert task.status == "completed"
    assert poll.sent["t"] == [0.0, 60.0]


async def test_two_keys_on_one_task_id_learn_nothing_of_each_other(watcher, service):
    owner, stranger = KeyedPoll("owner", service), KeyedPoll("stranger", service, owned=())
    service.script("t", "queued", "completed")
    seen = []

    first = asyncio.ensure_future(watcher.wait("t", polling=Polling(owner)))
    await settle()
    with pytest.raises(NotFoundError):
        await watcher.wait("t", polling=Polling(stranger), on_update=seen.append)

    assert (await first).status == "completed"
    assert seen == []
    assert owner.sent["t"] == [0.0, 60.0]
    assert stranger.sent["t"] == [0.0, 5.0]


async def test_a_task_that_another_key_watched_is_not_remembered_for_this_one(watcher, service):
    first = asyncio.ensure_future(watcher.wait("t", polling=Polling(KeyedPoll("first", service))))
    await settle()
    first.cancel()
    await settle()
    second = KeyedPoll("second", service)
    service.default = "completed"

    await watcher.wait("t", polling=Polling(second))

    assert second.sent["t"] == [0.0]


async def test_listeners_with_equal_polls_share_them(watcher, service):
    service.script("t", "queued", "completed")

    await asyncio.gather(*(watcher.wait("t", polling=Polling(KeyedPoll("k", service))) for _ in range(3)))

    assert service.times() == [0.0, 60.0]


async def test_a_429_of_another_key_postpones_its_task_alone(watcher, service):
    poll = KeyedPoll("k", service, owned=("busy", "other"))
    service.script("busy", RateLimitError("slow down", status=429, retry_after=300.0), "completed")
    service.script("other", "running", "completed")
    service.script("own", "running", "completed")

    waits = [watcher.wait(name, polling=Polling(poll)) for name in ("busy", "other")]
    await asyncio.gather(*waits, watcher.wait("own"))

    assert service.times("busy") == [0.0, 300.0]
    assert service.times("other") == service.times("own") == [0.0, 60.0]
    assert watcher.stats.paused_until is None


# -- intervals -------------------------------------------------------------------------------------------------------


async def test_a_listener_may_have_an_interval_of_its_own(watcher, service):
    service.script("fast", *["running"] * 3, "completed")
    service.script("slow", "running", "completed")
    service.script("t", "running", "completed")

    await asyncio.gather(
        watcher.wait("fast", polling=Polling(interval=10.0)),
        watcher.wait("slow", polling=Polling(interval=300.0)),
        watcher.wait("t"),
    )

    assert service.times("fast") == [0.0, 10.0, 20.0, 30.0]
    assert service.times("slow") == [0.0, 300.0]
    assert service.times("t") == [0.0, 60.0]


async def test_of_several_intervals_the_shortest_counts_while_its_listener_waits(watcher, service, clock):
    service.complete_at(200.0, "t")
    usual = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(25.0)
    fast = asyncio.ensure_future(watcher.wait("t", polling=Polling(interval=10.0)))
    await clock.sleep(22.0)
    fast.cancel()

    await usual

    assert service.times() == [0.0, 25.0, 35.0, 45.0, 55.0, 115.0, 175.0, 235.0]


async def test_a_shorter_interval_never_causes_two_polls_within_it(watcher, service, clock):
    service.complete_at(25.0, "t")
    usual = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(5.0)

    await watcher.wait("t", polling=Polling(interval=20.0))

    assert service.times() == [0.0, 20.0, 40.0]
    await usual


async def test_a_task_that_is_watched_again_has_the_interval_of_the_new_listener(watcher, service, clock):
    fast = asyncio.ensure_future(watcher.wait("t", polling=Polling(interval=10.0)))
    await clock.sleep(5.0)
    fast.cancel()
    await settle()
    service.default = "completed"

    await watcher.wait("t")

    assert service.times() == [0.0, 60.0]


@pytest.mark.slow
async def test_many_tasks_with_a_short_interval_are_not_late(watcher, service):
    """They raise the usual rate, to which late polls are limited."""
    ids = [f"t{n}" for n in range(60)]

    async for _ in watcher.as_completed(ids, timeout=65.0, polling=Polling(interval=1.0)):
        pass

    assert watcher.stats.lateness_max < 1.0
    assert busiest_second(moment for moment, _ in service.polls) >= 55

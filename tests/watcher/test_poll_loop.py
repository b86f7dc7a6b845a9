"""How often tasks are polled, how evenly, and how many at once."""

import asyncio
import logging
from collections import defaultdict
from itertools import pairwise

import pytest

from vidgen_async.errors import WaitTimeoutError
from vidgen_async.watcher.schedule import LEAST_RATE

from .conftest import busiest_second, hang, settle, workers


async def watch_all(watcher, count, timeout):
    async for outcome in watcher.as_completed((f"t{n}" for n in range(count)), timeout=timeout):
        assert isinstance(outcome.error, WaitTimeoutError)


@pytest.mark.rule("8 limit polling", side="sdk")
async def test_a_task_is_polled_once_per_interval_and_never_sooner(make_watcher, service):
    service.latency = 0.7
    await watch_all(make_watcher(), 30, 900.0)

    for n in range(30):
        times = service.times(f"t{n}")
        assert 15 <= len(times) <= 16
        assert all(later - sooner >= 60.0 for sooner, later in pairwise(times))
        assert all(later - sooner < 60.05 for sooner, later in pairwise(times))
    assert service.most_per_task == 1


async def test_no_task_is_polled_twice_at_once(make_watcher, service):
    service.latency = 75.0
    await watch_all(make_watcher(), 3, 1000.0)

    assert service.times("t0") == [75.0 * n for n in range(14)]
    assert service.most_per_task == 1


@pytest.mark.slow
async def test_after_the_event_loop_was_blocked_there_is_no_burst(make_watcher, service, clock):
    watcher = make_watcher(first_polls=0)
    watching = asyncio.ensure_future(watch_all(watcher, 240, 280.0))
    await clock.sleep(100.0)

    clock._now += 45.0  # a laptop sleeps

    await watching
    later = [moment for moment, _ in service.polls if moment > 100.0]
    assert busiest_second(later) <= 2 * LEAST_RATE
    assert watcher.stats.lateness_max == pytest.approx(45.0, abs=0.3)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for moment, task_id in service.polls:
        times[task_id].append(moment)
    assert all(b - a >= 60.0 for moments in times.values() for a, b in pairwise(moments))


@pytest.mark.slow
async def test_simultaneous_polls_are_limited_and_a_longer_interval_is_logged_once_and_recovers(
    make_watcher, service, clock, caplog
):
    caplog.set_level(logging.INFO, "vidgen_async.watcher")
    watcher = make_watcher(concurrency=4, first_polls=0)
    service.latency = 8.0  # one poll in two seconds, of one per second
    watching = asyncio.ensure_future(watch_all(watcher, 60, 1000.0))

    await clock.sleep(600.0)
    assert service.most_in_flight == 4
    assert watcher.stats.in_flight == 4
    assert watcher.stats.interval_now == pytest.approx(120.0, abs=3.0)
    gaps = [b - a for n in range(60) for a, b in pairwise(service.times(f"t{n}")[2:])]
    assert min(gaps) == pytest.approx(120.0, abs=3.0)
    assert max(gaps) == pytest.approx(120.0, abs=3.0)
    (late,) = [record for record in caplog.records if record.event_name == "watcher.late"]
    assert (late.levelname, late.count, late.interval, late.concurrency) == ("WARNING", 60, 60.0, 4)
    assert late.seconds == pytest.approx(60.0 + late.late)

    recovered_at = clock.now()
    service.latency = 0.0
    await watching

    assert busiest_second(moment for moment, _ in service.polls if moment > recovered_at) <= 2 * LEAST_RATE
    assert watcher.stats.interval_now == pytest.approx(60.0, abs=0.2)
    assert [record for record in caplog.records if record.event_name == "watcher.late"] == [late]
    (on_time,) = [record for record in caplog.records if record.event_name == "watcher.on_time"]
    assert (on_time.levelname, on_time.interval) == ("INFO", 60.0)


async def test_polls_that_hang_do_not_delay_others_below_the_limit(make_watcher, service):
    watcher = make_watcher(concurrency=3)
    for name in ("h0", "h1"):
        service.script(name, hang)
    hanging = [asyncio.ensure_future(watcher.wait(name)) for name in ("h0", "h1")]
    await settle()

    await watch_all(watcher, 5, 299.0)

    assert [service.times(f"t{n}") for n in range(5)] == [[0.0, 60.0, 120.0, 180.0, 240.0]] * 5
    assert not any(wait.done() for wait in hanging)
    for wait in hanging:
        wait.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_no_worker_is_started_for_a_watched_task(make_watcher, service, clock):
    watcher = make_watcher(first_polls=0)
    watching = asyncio.ensure_future(watch_all(watcher, 1_000, 3.0))
    await clock.sleep(1.0)
    await settle()

    assert watcher.stats.tasks == 1_000
    assert watcher.stats.waiting == 1
    # This test, the gatherer, the clock, the scheduler and its alarm; and nothing else but a poll that is due.
    assert len(asyncio.all_tasks()) <= 7
    await watching


async def test_pollers_are_used_again_and_there_are_no_more_than_polls_at_once(make_watcher, service, clock):
    watcher = make_watcher(concurrency=4)
    service.latency = 0.1
    pollers = set()
    watching = asyncio.ensure_future(watch_all(watcher, 20, 600.0))
    while not watching.done():
        await clock.sleep(0.5)
        pollers |= {worker for worker in asyncio.all_tasks() if worker.get_name() == "vidgen poller"}

    assert len(service.polls) == 200
    assert len(pollers) == 4
    assert workers() == []


@pytest.mark.parametrize("moment", [30.0, 65.0], ids=["while it is parked", "while it polls"])
async def test_a_poller_that_is_cancelled_from_outside_is_replaced(watcher, service, clock, moment):
    service.complete_at(120.0, "t")
    service.latency = 10.0
    waiting = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(moment)
    (poller,) = (worker for worker in asyncio.all_tasks() if worker.get_name() == "vidgen poller")
    poller.cancel()

    assert (await waiting).status == "completed"
    assert service.times() == [0.0, 60.0, 120.0]


async def test_the_scheduler_sleeps_while_all_pollers_are_busy(make_watcher, service, clock, monkeypatch):
    sleeps = []
    sleep = clock.sleep

    async def counted(seconds):
        sleeps.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(clock, "sleep", counted)
    service.latency = 100.0
    await watch_all(make_watcher(concurrency=1), 5, 510.0)

    assert len(service.polls) == 6
    assert len([seconds for seconds in sleeps if 0.0 < seconds < 100.0]) <= 12


async def test_time_without_tasks_does_not_count_as_lateness(watcher, service, clock):
    service.default = "completed"
    await watcher.wait("a")
    await clock.sleep(5_000.0)
    await watcher.wait("b")
    assert service.polls == [(0.0, "a"), (5_000.0, "b")]
    assert watcher.stats.lateness_max == 0.0

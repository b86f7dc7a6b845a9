"""The rhythm, end to end: how often, how evenly, how many at once."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.errors import WaitTimeoutError
from vidgen_async.watcher import Watcher

from .conftest import FakeService, busiest_second, hang, settle

MakeWatcher = Callable[..., Watcher]


async def watch_all(watcher: Watcher, count: int, timeout: float) -> None:
    async for outcome in watcher.as_completed((f"t{n}" for n in range(count)), timeout=timeout):
        assert isinstance(outcome.error, WaitTimeoutError)


@pytest.mark.rule("8 limit polling", side="sdk")
async def test_a_task_is_polled_once_per_interval_and_never_sooner(
    make_watcher: MakeWatcher, service: FakeService
) -> None:
    service.latency = 0.7
    await watch_all(make_watcher(), 30, 900.0)

    for n in range(30):
        times = service.times(f"t{n}")
        assert 15 <= len(times) <= 16
        assert all(later - sooner >= 60.0 for sooner, later in pairwise(times))
        assert all(later - sooner < 60.05 for sooner, later in pairwise(times))
    assert service.most_per_task == 1


async def test_a_slow_poll_is_never_overlapped_by_another_of_its_task(
    make_watcher: MakeWatcher, service: FakeService
) -> None:
    service.latency = 75.0
    await watch_all(make_watcher(), 3, 1000.0)

    assert service.times("t0") == [75.0 * n for n in range(14)]
    assert service.most_per_task == 1


async def test_a_first_look_is_at_once(watcher: Watcher, service: FakeService, clock: VirtualClock) -> None:
    service.default = "completed"
    for moment in (0.0, 100.25, 100.5):
        await clock.sleep(moment - clock.now())
        await watcher.wait("t")
    assert service.times() == [0.0, 100.25, 100.5]


@pytest.mark.slow
async def test_many_at_once_make_no_burst(make_watcher: MakeWatcher, service: FakeService) -> None:
    watcher = make_watcher(first_polls=32)
    await watch_all(watcher, 480, 119.0)

    mean = 480 / 60
    assert busiest_second(moment for moment, _ in service.looks) <= 32 + 1.25 * mean
    assert len({task_id for moment, task_id in service.looks if moment < 60.0}) == 480
    assert watcher.stats.polls == len(service.looks)
    assert watcher.stats.lateness_max < 0.05


@pytest.mark.slow
async def test_after_a_blocked_loop_there_is_no_burst(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    watcher = make_watcher(first_polls=0)
    watching = asyncio.ensure_future(watch_all(watcher, 240, 280.0))
    await clock.sleep(100.0)

    clock._now += 45.0  # a laptop sleeps

    await watching
    later = [moment for moment, _ in service.looks if moment > 100.0]
    assert busiest_second(later) <= 1.25 * 4 + 2
    assert watcher.stats.lateness_max == pytest.approx(45.0, abs=0.3)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for moment, task_id in service.looks:
        times[task_id].append(moment)
    assert all(b - a >= 60.0 for moments in times.values() for a, b in pairwise(moments))


@pytest.mark.slow
async def test_polls_under_way_are_bounded_and_the_interval_stretches_with_one_warning_and_recovers(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vidgen_async.watcher")
    watcher = make_watcher(concurrency=4, first_polls=0)
    service.latency = 8.0  # one look in two seconds, where one per second is asked for
    watching = asyncio.ensure_future(watch_all(watcher, 60, 1000.0))

    await clock.sleep(600.0)
    assert service.most_in_flight == 4
    assert watcher.stats.in_flight == 4
    assert watcher.stats.interval_now == pytest.approx(120.0, abs=3.0)
    gaps = [b - a for n in range(60) for a, b in pairwise(service.times(f"t{n}")[2:])]
    assert min(gaps) == pytest.approx(120.0, abs=3.0)
    assert max(gaps) == pytest.approx(120.0, abs=3.0)
    messages = [record.getMessage() for record in caplog.records]
    assert len([message for message in messages if "late" in message]) == 1

    recovered_at = clock.now()
    service.latency = 0.0
    await watching

    assert busiest_second(moment for moment, _ in service.looks if moment > recovered_at) <= 1.25 + 2
    assert watcher.stats.interval_now == pytest.approx(60.0, abs=0.2)
    messages = [record.getMessage() for record in caplog.records]
    assert len([message for message in messages if "late" in message]) == 1
    assert len([message for message in messages if "on time again" in message]) == 1


async def test_hanging_polls_hold_up_no_others_while_there_is_room(
    make_watcher: MakeWatcher, service: FakeService
) -> None:
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


async def test_nothing_is_started_per_watched_task(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    watcher = make_watcher(first_polls=0)
    watching = asyncio.ensure_future(watch_all(watcher, 1_000, 3.0))
    await clock.sleep(1.0)
    await settle()

    assert watcher.stats.tasks == 1_000
    assert watcher.stats.waiting == 1
    # This test, the gatherer, the clock, the scheduler and its alarm; and nothing else but a look that is just due.
    assert len(asyncio.all_tasks()) <= 7
    await watching


async def test_time_spent_without_tasks_does_not_count(
    watcher: Watcher, service: FakeService, clock: VirtualClock
) -> None:
    service.default = "completed"
    await watcher.wait("a")
    await clock.sleep(5_000.0)
    await watcher.wait("b")
    assert service.looks == [(0.0, "a"), (5_000.0, "b")]
    assert watcher.stats.lateness_max == 0.0

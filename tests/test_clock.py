"""Virtual time passes in exact order, and only while all code waits for it."""

import asyncio
import random

import pytest

from vidgen_async.clock import LoopClock, VirtualClock, within


async def test_sleepers_wake_in_the_order_of_their_due_times():
    clock, woken = VirtualClock(), []

    async def sleeper(seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 - a repeatable schedule, not a secret
        for _ in range(10):
            due = clock.now() + (pause := rng.choice([0.5, 1, 2, 5, 60]))
            await clock.sleep(pause)
            woken.append((clock.now(), due))

    await asyncio.gather(*(sleeper(seed) for seed in range(20)))

    assert woken == sorted(woken)
    assert all(now == due for now, due in woken)


async def test_an_hour_passes_at_once_and_wall_time_follows():
    clock = VirtualClock()
    before = clock.wall()
    await clock.sleep(3600)
    assert (clock.wall() - before).total_seconds() == 3600


async def test_no_time_passes_while_the_clock_is_held():
    clock = VirtualClock()
    sleeper = asyncio.ensure_future(clock.sleep(5))
    with clock.hold():
        for _ in range(200):
            await asyncio.sleep(0)
        assert clock.now() == 0
    await sleeper
    assert clock.now() == 5


async def test_a_cancelled_sleeper_delays_no_other():
    clock = VirtualClock()
    gone = asyncio.ensure_future(clock.sleep(5))
    await asyncio.sleep(0)
    gone.cancel()
    await clock.sleep(7)
    assert clock.now() == 7
    assert gone.cancelled()


async def test_within_returns_the_result_or_times_out_and_leaves_no_task():
    clock = VirtualClock()

    async def work(seconds: float) -> str:
        await clock.sleep(seconds)
        return "done"

    assert await within(clock, 10, lambda: work(3)) == "done"
    with pytest.raises(TimeoutError):
        await within(clock, 10, lambda: work(11))
    assert await within(clock, None, lambda: work(1000)) == "done"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_within_cancels_the_work():
    clock, ended = VirtualClock(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    caller = asyncio.ensure_future(within(clock, 10_000, work))
    for _ in range(5):
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == [True]


async def test_the_loop_clock_is_real_time_with_a_time_zone():
    clock = LoopClock()
    before = clock.now()
    await clock.sleep(0)
    assert clock.now() >= before
    assert clock.wall().tzinfo is not None


def test_one_clock_can_be_used_on_several_event_loops_in_turn():
    clock = VirtualClock()

    async def use() -> None:
        async def held() -> None:
            with clock.hold():
                for _ in range(100):
                    await asyncio.sleep(0)

        async with asyncio.timeout(5):
            await asyncio.gather(clock.sleep(5), held())

    for _ in range(2):
        asyncio.run(use())
    assert clock.now() == 10

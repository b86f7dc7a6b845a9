"""The scheduler alone: a poll that returns at once, in virtual time, from a thousand to a million tasks.

The interval grows with the number of tasks, so that each size has the same number of polls per second: what changes is
only the number of tasks. Each size has a process of its own: ``python -m benchmarks.scheduler TASKS POLLS``.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial

from benchmarks.children import Found, child, interleaved
from benchmarks.get_peers import task_ids
from benchmarks.measure import median, resident_bytes
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_ratio
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

BENCHMARK = "CPU of a poll, scheduler alone"
#: With the most tasks a poll may cost at most so many times as much as with the fewest.
MOST_GROWTH = 1.25

#: The polls per second of 100,000 tasks at 60 s.
_RATE = 100_000 / 60.0
#: The sizes, as fractions of the most tasks.
_PARTS = (1000, 10, 1)
#: The most tasks take seconds to add.
_MOST_ROUNDS = 2
_NOW = datetime(2026, 11, 28, tzinfo=UTC)
#: After so many passes of the event loop in which only the clock ran, time passes.
_IDLE_PASSES = 4


def run(scale: Scale) -> list[Figure]:
    sizes = {f"{scale.most_scheduled // part:,} tasks": scale.most_scheduled // part for part in _PARTS}

    def take(name: str) -> Found:
        found: Found = child("benchmarks.scheduler", sizes[name], scale.scheduled_polls)
        return found

    return list(figures(interleaved(sizes, min(scale.rounds, _MOST_ROUNDS), take)))


def figures(measured: Mapping[str, Sequence[Found]]) -> Iterator[Figure]:
    """A row for each size, from the fewest to the most tasks, as a multiple of the first; the last one is judged."""
    smallest, *_, largest = measured
    costs = {name: [found["cpu"] for found in rounds] for name, rounds in measured.items()}
    for name, rounds in measured.items():
        memory, adding = (median(found[key] for found in rounds) for key in ("memory", "adding"))
        facts = {"bytes per task": memory, "microseconds to add a task": adding * 1e6}
        figure = Figure(BENCHMARK, name, median(costs[name]) * 1e6, "us", facts=facts)
        if name != smallest:
            judge = partial(at_most, MOST_GROWTH) if name == largest else None
            figure = with_ratio(figure, smallest, ratios_of(costs[name], costs[smallest]), judge)
        yield figure


# -- in the child ------------------------------------------------------------------------------------------------------


class JumpingClock:
    """Time that jumps to the end of a sleep when the event loop has been idle for a few passes.

    The SDK's VirtualClock keeps sleepers in order and waits for thirty passes: with the one sleeper here, that would
    cost more than what is measured.
    """

    def __init__(self) -> None:
        self.is_stopped = True
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return _NOW

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        until = self._now + seconds
        passes = 0
        while passes < _IDLE_PASSES:
            await asyncio.sleep(0)
            passes = 0 if self.is_stopped else passes + 1
        self._now = max(self._now, until)


class Polls:
    """The poll: every task runs for ever. It measures the CPU time between two of its calls."""

    def __init__(self, measured: int) -> None:
        self.is_over = asyncio.Event()
        self.took = 0.0
        self._begin, self._end = measured // 10 + 1, measured // 10 + 1 + measured
        self._made = 0

    async def __call__(self, task_id: str, mark: int | None, *, is_task_needed: bool) -> tuple[VideoTask | str, None]:
        self._made += 1
        if self._made == self._begin:
            self.took = -time.process_time()
        elif self._made == self._end:
            self.took += time.process_time()
            self.is_over.set()
        return VideoTask(id=task_id, status="running") if is_task_needed else "running", None


async def measure(tasks: int, polls: int) -> Found:
    clock, poll = JumpingClock(), Polls(polls)
    watcher = Watcher(poll, clock=clock, is_origin_known=bool, interval=tasks / _RATE)
    before = resident_bytes()
    ids = task_ids(tasks)
    start = time.process_time()
    async with aclosing(watcher.as_completed(ids, timeout=None)) as outcomes:
        waiter = asyncio.ensure_future(anext(outcomes))
        while watcher.stats.tasks < tasks:  # noqa: ASYNC110 - a watcher has no event for it
            await asyncio.sleep(0)
        adding = time.process_time() - start
        clock.is_stopped = False
        await poll.is_over.wait()
        clock.is_stopped = True
        memory = resident_bytes() - before
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
    await watcher.aclose()
    return {"cpu": poll.took / polls, "adding": adding / tasks, "memory": memory / tasks}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(*map(int, sys.argv[1:])))))

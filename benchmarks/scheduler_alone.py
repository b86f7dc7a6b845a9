"""The scheduler without network and in virtual time, at one size: a process of its own that prints one JSON line.

``python -m benchmarks.scheduler_alone watcher|schedule TASKS INTERVAL POLLS``
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from benchmarks.measure import resident_bytes
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher
from vidgen_async.watcher.schedule import Schedule

_NOW = datetime(2026, 11, 28, tzinfo=UTC)
#: So many passes of the event loop without anything else are taken for quiet.
_QUIET_PASSES = 4


class JumpingClock:
    """Time that jumps to the end of a sleep when the loop has been quiet for a few passes.

    The SDK's VirtualClock keeps an order of sleepers and waits for thirty quiet passes; with one sleeper, as here, that
    would cost more than what is measured.
    """

    def __init__(self) -> None:
        self.is_held = True
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
        quiet = 0
        while quiet < _QUIET_PASSES:
            await asyncio.sleep(0)
            quiet = 0 if self.is_held else quiet + 1
        self._now = max(self._now, until)


class Polls:
    """The fake poll: every task runs for ever. It notes the CPU time of two of its calls."""

    def __init__(self, warm_up: int, measured: int) -> None:
        self.is_over = asyncio.Event()
        self.took = 0.0
        self._begin, self._end = warm_up, warm_up + measured
        self._made = 0
        self._task = VideoTask(id="task-0", status="running", created_at=_NOW, updated_at=_NOW)

    async def __call__(self, task_id: str, mark: int | None, *, is_task_needed: bool) -> tuple[VideoTask, None]:
        self._made += 1
        if self._made == self._begin:
            self.took = -time.process_time()
        elif self._made == self._end:
            self.took += time.process_time()
            self.is_over.set()
        return self._task, None


async def watcher(tasks: int, interval: float, polls: int) -> dict[str, float]:
    clock, poll = JumpingClock(), Polls(warm_up=max(polls // 10, 1), measured=polls)
    watched = Watcher(poll, clock=clock, interval=interval)
    before = resident_bytes()
    ids = [f"task-{number:08d}" for number in range(tasks)]
    begun_at = time.process_time()
    async with aclosing(watched.as_completed(ids, timeout=None)) as outcomes:
        waiter = asyncio.ensure_future(anext(outcomes))
        while watched.stats.tasks < tasks:  # noqa: ASYNC110 - a watcher has no event for it
            await asyncio.sleep(0)
        added = time.process_time() - begun_at
        clock.is_held = False
        await poll.is_over.wait()
        clock.is_held = True
        grown, stats = resident_bytes() - before, watched.stats
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
    await watched.aclose()
    return _found(tasks, polls, added, poll.took, grown, stats.lateness_max)


async def schedule(tasks: int, interval: float, polls: int) -> dict[str, float]:
    planned = Schedule(interval, first_polls=32)
    before = resident_bytes()
    begun_at = time.process_time()
    for item in range(tasks):
        planned.add(item, 0.0)
    added = time.process_time() - begun_at
    _looks(planned, tasks, max(polls // 10, 1))
    begun_at = time.process_time()
    _looks(planned, tasks, polls)
    took = time.process_time() - begun_at
    return _found(tasks, polls, added, took, resident_bytes() - before, planned.lateness.most)


def _looks(planned: Schedule, tasks: int, count: int) -> None:
    now = 0.0
    for _ in range(count):
        now = max(now, planned.wake_at() or 0.0)
        item = planned.take(now, tasks)
        if item is not None:
            planned.reschedule(item, now)


def _found(tasks: int, polls: int, added: float, took: float, grown: int, latest: float) -> dict[str, float]:
    return {
        "cpu_per_poll": took / polls,
        "cpu_per_add": added / tasks,
        "bytes_per_task": grown / tasks,
        "lateness_max": latest,
    }


_WAYS: dict[str, Callable[[int, float, int], Awaitable[dict[str, float]]]] = {
    "watcher": watcher,
    "schedule": schedule,
}

if __name__ == "__main__":
    _, way, tasks_asked, interval_asked, polls_asked = sys.argv
    print(json.dumps(asyncio.run(_WAYS[way](int(tasks_asked), float(interval_asked), int(polls_asked)))))  # type: ignore[arg-type]

import asyncio
import pickle
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ServiceError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

Answer: TypeAlias = str | VideoTask | BaseException | Callable[[], Awaitable[VideoTask]] | None


class FakeService:
    """Answers polls from a script for each task, then with ``default``, and records them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.default: Answer = "running"
        self.latency = 0.0
        self.has_answered = False
        self.polls: list[tuple[float, str]] = []
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self.most_in_flight = 0
        self.most_per_task = 0
        self._scripts: dict[str, list[Answer]] = {}
        self._ends: dict[str, tuple[float, Answer]] = {}

    def script(self, task_id: str, *answers: Answer) -> None:
        self._scripts[task_id] = list(answers)

    def complete_at(self, moment: float, task_id: str, answer: Answer = "completed") -> None:
        self._ends[task_id] = (moment, answer)

    def times(self, task_id: str = "t") -> list[float]:
        return [moment for moment, polled in self.polls if polled == task_id]

    async def poll(self, task_id: str) -> VideoTask:
        self.polls.append((self.clock.now(), task_id))
        self.in_flight[task_id] += 1
        self.most_per_task = max(self.most_per_task, self.in_flight[task_id])
        self.most_in_flight = max(self.most_in_flight, sum(self.in_flight.values()))
        try:
            if self.latency:
                await self.clock.sleep(self.latency)
            return await self._answer(task_id, self._next(task_id))
        finally:
            self.in_flight[task_id] -= 1
            if not self.in_flight[task_id]:
                del self.in_flight[task_id]

    async def poll_if_changed(
        self, task_id: str, mark: int | None, *, is_task_needed: bool
    ) -> tuple[VideoTask | str | None, int]:
        """The poll of a watcher: None if the response is the same as the last one, the state if that suffices."""
        task = await self.poll(task_id)
        self.has_answered = True
        found = hash(pickle.dumps(task))
        if found == mark:
            return None, found
        return (task if is_task_needed or task.status not in ("queued", "running") else task.status), found

    def _next(self, task_id: str) -> Answer:
        script = self._scripts.get(task_id)
        if script:
            return script.pop(0)
        end = self._ends.get(task_id)
        return end[1] if end is not None and self.clock.now() >= end[0] else self.default

    async def _answer(self, task_id: str, answer: Answer) -> VideoTask:
        if isinstance(answer, VideoTask):
            return answer
        if isinstance(answer, ServiceError) and not answer.body:
            answer.body = b"{}"  # in the service's own form
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return await answer()
        return VideoTask(id=task_id, status=answer)


async def hang() -> VideoTask:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def busiest_second(moments: Iterable[float]) -> int:
    """The maximum number of moments in any half-open window of one second."""
    ordered = sorted(moments)
    most = start = 0
    for end, moment in enumerate(ordered):
        while ordered[start] <= moment - 1.0:
            start += 1
        most = max(most, end - start + 1)
    return most


async def settle(passes: int = 10) -> None:
    """Let everything that is ready run; no time passes."""
    for _ in range(passes):
        await asyncio.sleep(0)


def workers() -> list[str]:
    """The names of the running workers that a watcher started."""
    return [worker.get_name() for worker in asyncio.all_tasks() if worker.get_name().startswith("vidgen ")]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(quiet_passes=12)  # more than settle lets run


@pytest.fixture
def service(clock: VirtualClock) -> FakeService:
    return FakeService(clock)


@pytest.fixture
async def make_watcher(clock: VirtualClock, service: FakeService) -> AsyncIterator[Callable[..., Watcher]]:
    made: list[Watcher] = []

    def make(**options: Any) -> Watcher:
        made.append(
            Watcher(service.poll_if_changed, clock=clock, is_origin_known=lambda: service.has_answered, **options)
        )
        return made[-1]

    yield make
    for watcher in made:
        await watcher.aclose()
    await settle()
    assert workers() == []


@pytest.fixture
async def watcher(make_watcher: Callable[..., Watcher]) -> Watcher:
    return make_watcher()

"""Records how the tasks of orders ended, so that they are not awaited again; and what cost more than was estimated."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from vidgen_async.clock import Clock, all_in_turns
from vidgen_async.events import Event
from vidgen_async.orders.settlement import BATCH, Settlement
from vidgen_async.types.orders import TaskResult
from vidgen_async.types.resources import VideoTask

logger = logging.getLogger(__name__)


class Results:
    """Decides which results are recorded. One that was not written costs one more poll."""

    def __init__(self, clock: Clock, settlement: Settlement) -> None:
        self._clock = clock
        self._settlement = settlement
        self.reserved: dict[str, int] = {}
        """The points that were reserved for the tasks of this client."""
        self.excess = ""
        """What a task cost above its estimate, so that no further order is sent."""
        self._held: Counter[str] = Counter()
        # Of held tasks:
        self._ends: dict[str, VideoTask] = {}
        self._done: set[str] = set()
        """Tasks whose end was handled."""
        self._blocks: Counter[str] = Counter()
        """The number of running blocks of :meth:`handling`."""
        self._failed: set[str] = set()
        """Tasks whose last block raised."""

    @contextmanager
    def hold(self, task_ids: Iterable[str]) -> Iterator[Callable[[str, VideoTask], None]]:
        """A block in which the end of these tasks is recorded only by the function that it yields."""
        ids = list(task_ids)
        self._held.update(ids)
        try:
            yield self._handled
        finally:
            for _ in self._release(ids):
                pass

    @asynccontextmanager
    async def hold_in_turns(self, task_ids: Iterable[str]) -> AsyncIterator[Callable[[str, VideoTask], None]]:
        """The same for very many tasks: they are released in turns of the event loop."""
        ids = list(task_ids)
        self._held.update(ids)
        try:
            yield self._handled
        finally:
            await all_in_turns(self._clock, self._release(ids))

    def _release(self, ids: Sequence[str]) -> Iterator[None]:
        for number, task_id in enumerate(ids, 1):
            self._held[task_id] -= 1
            if not self._held[task_id]:
                del self._held[task_id]
                self._ends.pop(task_id, None)
                self._done.discard(task_id)
                self._failed.discard(task_id)
            if number % BATCH == 0:
                yield

    @contextmanager
    def handling(self, task_ids: Iterable[str]) -> Iterator[None]:
        """A block after which the end of these tasks is recorded, unless it, or one at the same time, has raised."""
        ids = set(task_ids)
        with self.hold(ids):
            for task_id in ids:
                if task_id not in self._blocks:
                    self._failed.discard(task_id)  # a new attempt
                self._blocks[task_id] += 1
            has_succeeded = False
            try:
                yield
                has_succeeded = True
            finally:
                for task_id in ids:
                    self._leave_block(task_id, has_succeeded=has_succeeded)

    def record_end(self, task_id: str, task: VideoTask) -> None:
        """Write how the task ended, if it is terminal and not held; compare its points with those reserved for it."""
        reserved = self.reserved.pop(task_id, None)
        if task.points is not None and reserved is not None and task.points > reserved and not self.excess:
            self.excess = f"task {task_id!r} cost {task.points} points, and {reserved} were estimated"
            Event.BUDGET_UNDERESTIMATED.log(logger, excess=self.excess)
        if task_id in self._held:
            self._ends[task_id] = task
        else:
            self._put(task_id, task)

    def _handled(self, task_id: str, task: VideoTask) -> None:
        self._ends[task_id] = task
        self._done.add(task_id)
        self._settle(task_id)

    def _leave_block(self, task_id: str, *, has_succeeded: bool) -> None:
        self._blocks[task_id] -= 1
        if not self._blocks[task_id]:
            del self._blocks[task_id]
        if not has_succeeded:
            self._failed.add(task_id)
            self._done.discard(task_id)
        elif task_id in self._ends:
            self._done.add(task_id)
        self._settle(task_id)

    def _settle(self, task_id: str) -> None:
        if task_id in self._done and task_id not in self._failed and task_id not in self._blocks:
            self._done.discard(task_id)
            if (end := self._ends.pop(task_id, None)) is not None:
                self._put(task_id, end)

    def _put(self, task_id: str, task: VideoTask) -> None:
        if (result := TaskResult.of(task_id, task, self._clock.wall())) is not None:
            self._settlement.add_result(result)

"""``on_update``: called for every change; what it does never slows or stops the polls."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from vidgen_async.clock import Clock, within
from vidgen_async.events import Event, report, report_failure
from vidgen_async.types.resources import VideoTask

UpdateHook: TypeAlias = Callable[[VideoTask], Awaitable[None] | None]


class Hooks:
    """Calls the hook at once; what it returns to be awaited is run by at most ``limit`` workers, the changes of one
    task one after the other. Errors are logged."""

    def __init__(self, hook: UpdateHook, *, limit: int, logger: logging.Logger) -> None:
        self._hook = hook
        self._limit = limit
        self._logger = logger
        self._queues: dict[str, deque[Awaitable[Any]]] = {}
        self._ready: deque[str] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def tell(self, task: VideoTask) -> None:
        try:
            pending = self._hook(task)
        except Exception as error:  # noqa: BLE001 - a hook must not stop the polls
            self._failed(task.id, error)
            return
        if not inspect.isawaitable(pending):
            return
        queue = self._queues.get(task.id)
        if queue is not None:
            queue.append(pending)
            return
        self._queues[task.id] = deque([pending])
        self._ready.append(task.id)
        self._staff()

    async def aclose(self, clock: Clock, grace: float) -> None:
        """Wait up to ``grace`` seconds for what is under way or queued; cancel the rest. Leaves no worker behind."""
        caller = asyncio.current_task()  # the hook itself may be what closes the watcher
        try:
            await within(clock, grace, lambda: self._drain(caller))
        except TimeoutError:
            message = "%(hook)s: %(count)d calls were not over after %(seconds)g s; cancelled"
            count = len(self._queues)
            report(
                self._logger,
                logging.WARNING,
                Event.HOOK_CANCELLED,
                message,
                hook="on_update",
                count=count,
                seconds=grace,
            )
        finally:
            self._is_closed = True
            workers = self._workers - {caller}
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for queue in self._queues.values():
                while queue:
                    _discard(queue.popleft())
            self._queues.clear()
            self._ready.clear()

    async def _drain(self, caller: asyncio.Task[Any] | None) -> None:
        while workers := self._workers - {caller}:
            await asyncio.wait(workers)

    def _staff(self) -> None:
        if len(self._workers) < self._limit and self._ready and not self._is_closed:
            worker = asyncio.get_running_loop().create_task(self._work(), name="vidgen on_update")
            self._workers.add(worker)
            worker.add_done_callback(self._left)

    def _left(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._staff()

    async def _work(self) -> None:
        while self._ready:
            task_id = self._ready.popleft()
            queue = self._queues[task_id]
            try:
                await queue.popleft()
            except Exception as error:  # noqa: BLE001 - a hook must not stop the others
                self._failed(task_id, error)
            finally:
                if queue:
                    self._ready.append(task_id)
                else:
                    self._queues.pop(task_id, None)

    def _failed(self, task_id: str, error: Exception) -> None:
        message = "%(hook)s failed for task %(task_id)s: %(error)s"
        name = type(error).__name__
        report_failure(self._logger, Event.HOOK_FAILED, message, error, hook="on_update", task_id=task_id, error=name)


def _discard(pending: Awaitable[Any]) -> None:
    if inspect.iscoroutine(pending):
        pending.close()

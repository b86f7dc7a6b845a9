"""``on_update``: called for every change; it never delays or stops the polls."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Any, TypeAlias

from vidgen_async.clock import Clock, within
from vidgen_async.events import Event, contain_hook
from vidgen_async.types.resources import VideoTask

logger = logging.getLogger("vidgen_async.watcher")

#: Called, and awaited if it is async, with each change of a task.
OnUpdate: TypeAlias = Callable[[VideoTask], Awaitable[None] | None]

#: The minimum time in seconds for cancelled calls to end.
_LAST_GRACE = 1.0


class UpdateHooks:
    """Calls ``on_update`` immediately, each call in a copy of ``context``. While an async call for a task runs, the
    latest change of that task waits; while ``limit`` calls run, the latest change of every other task waits too. Errors
    are logged."""

    def __init__(self, hook: OnUpdate, *, limit: int, context: Context) -> None:
        self._hook = hook
        self._context = context
        self._limit = limit
        self._running: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, VideoTask] = {}
        """The latest change of each task that waits for a call."""
        self._was_full = False
        self._is_closed = False

    def notify(self, task: VideoTask) -> None:
        if self._is_closed:
            return
        is_full = len(self._running) >= self._limit
        if task.id not in self._running and not is_full:
            self._call(task)
            return
        self._waiting[task.id] = task
        if is_full and task.id not in self._running and not self._was_full:
            self._was_full = True
            Event.HOOK_BEHIND.log(logger, hook="on_update", count=self._limit)

    async def aclose(self, clock: Clock, grace: float | None) -> None:
        """Wait up to ``grace`` seconds for running and waiting calls (None: for ever); cancel the rest."""
        if not self._running:
            self._is_closed = True
            return
        caller = asyncio.current_task()  # the hook itself may close the watcher
        try:
            await within(clock, grace, lambda: self._drain(caller))
        except TimeoutError:
            details = ": %(count)d calls were not over after %(seconds)g s (grace)"
            count = len(self._running) + len(self._waiting)
            Event.HOOK_CANCELLED.log(logger, details=details, hook="on_update", count=count, seconds=grace)
        finally:
            await self.cancel(clock, max(grace or 0.0, _LAST_GRACE))

    async def cancel(self, clock: Clock, seconds: float = _LAST_GRACE) -> None:
        """Cancel all calls. One that ignores its cancellation for ``seconds`` is abandoned."""
        caller = asyncio.current_task()
        self._is_closed = True
        self._waiting.clear()
        for call in self._running.values():
            if call is not caller:
                call.cancel()
        try:
            await within(clock, seconds, lambda: self._drain(caller))
        except TimeoutError:
            details = ": %(count)d cancelled calls were not over after %(seconds)g s; abandoned"
            count = len(self._running)
            Event.HOOK_CANCELLED.log(logger, details=details, hook="on_update", count=count, seconds=seconds)

    async def _drain(self, caller: asyncio.Task[Any] | None) -> None:
        while calls := [call for call in self._running.values() if call is not caller]:
            await asyncio.wait(calls)

    def _call(self, task: VideoTask) -> None:
        with contain_hook(logger, "on_update", task_id=task.id):
            context = self._context.copy()
            pending = context.run(self._hook, task)
            if inspect.isawaitable(pending):
                run = self._run(task.id, pending)
                call = asyncio.get_running_loop().create_task(run, name="vidgen on_update", context=context)
                self._running[task.id] = call
                call.add_done_callback(partial(self._ended, task.id, pending))

    async def _run(self, task_id: str, pending: Awaitable[Any]) -> None:
        with contain_hook(logger, "on_update", task_id=task_id):
            await pending

    def _ended(self, task_id: str, pending: Awaitable[Any], call: asyncio.Task[None]) -> None:
        if inspect.iscoroutine(pending):
            pending.close()  # it may have been cancelled before it began
        if not call.cancelled():
            call.exception()  # a KeyboardInterrupt or a SystemExit, which the event loop has raised
        del self._running[task_id]
        while len(self._running) < self._limit:
            first = next((waiting for waiting in self._waiting if waiting not in self._running), None)
            if first is None:
                break
            self._call(self._waiting.pop(first))

"""The poll loop: one scheduler that sleeps until a poll is due, and the pollers that it notifies."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, cast

from attrs import define, field

from vidgen_async.clock import Clock, in_turns
from vidgen_async.errors import ClientStateError
from vidgen_async.events import Event
from vidgen_async.user_code import describe
from vidgen_async.watcher.listeners import EXPIRE_AT_ONCE, Deadlines, Listener
from vidgen_async.watcher.schedule import Schedule

#: The scheduler waits at least this long (seconds) between two turns without a wake-up, but not for more than a
#: hundredth of the interval: thousands of polls per second are started in small groups.
_TICK = 0.016
#: A sleep that ended too early because of a rounding error is continued for this long.
_BLINK = 1e-6
_NEVER = float("inf")


@define(eq=False, kw_only=True)
class PollLoop:
    """Calls ``poll(row, poller)`` for the tasks that are due, in at most ``concurrency`` pollers, and carries out the
    steps of ``expiring(listener)`` for deadlines, while the schedule has items.

    ``poll`` puts its row back on the schedule before it returns; if it is cancelled, this is done for it.
    """

    _clock: Clock
    _schedule: Schedule
    _concurrency: int
    _poll: Callable[[int, asyncio.Task[None]], Awaitable[None]]
    _expiring: Callable[[Listener], Iterator[None]]
    _on_failure: Callable[[Exception], None]
    _logger: logging.Logger
    deadlines: Deadlines = field(init=False, factory=Deadlines)
    pollers: dict[int, asyncio.Task[None]] = field(init=False, factory=dict)
    """Those that poll now, by their rows, without those whose task is no longer watched."""
    _polled: dict[asyncio.Task[None], int] = field(init=False, factory=dict)
    """The rows that they poll."""
    _parked: "dict[asyncio.Task[None], asyncio.Future[int | None]]" = field(init=False, factory=dict)
    """Where those without work get their next row; None ends them."""
    _workers: set[asyncio.Task[None]] = field(init=False, factory=set)
    _scheduler: asyncio.Task[None] | None = field(init=False, default=None)
    _sleep: "asyncio.Future[None] | None" = field(init=False, default=None)
    """Of the scheduler; it is cancelled to wake it."""
    _sleeps_until: float = field(init=False, default=_NEVER)
    _rested_at: float = field(init=False, default=-_NEVER)
    _is_closed: bool = field(init=False, default=False)

    @property
    def in_flight(self) -> int:
        return len(self._polled)

    def wake(self) -> None:
        """Wake the scheduler if there is something to do before it wakes by itself, or nothing any more."""
        # If it sleeps as short as possible, as while there are many polls, there is no need to find out.
        is_late = self._sleeps_until > self._rested_at and self._next_turn() < self._sleeps_until
        if self._sleep is not None and (is_late or not self._schedule.items):
            self._sleep.cancel()
        if self._schedule.items and (self._scheduler is None or self._scheduler.done()):
            self._scheduler = self._spawn(self._run(), "vidgen watcher")

    async def aclose(self) -> None:
        """Cancel every worker, except the calling one, and wait until they have ended."""
        self._is_closed = True
        workers = self._workers - {asyncio.current_task()}
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        # A context of its own: otherwise every poll would belong to the first waiter's trace (and log context).
        worker = asyncio.get_running_loop().create_task(work, name=name, context=Context())
        self._workers.add(worker)
        worker.add_done_callback(self._ended)
        return worker

    async def _run(self) -> None:
        try:
            while True:
                await in_turns(self._clock, self._expiring_due())
                if not self._schedule.items:
                    break
                self._start_due()
                self._sleeps_until = due = self._next_turn()
                if due < _NEVER:
                    seconds = max(due - self._clock.now(), _BLINK)
                    self._sleep = self._spawn(self._clock.sleep(seconds), "vidgen watcher alarm")
                else:
                    self._sleep = asyncio.get_running_loop().create_future()
                await asyncio.wait({self._sleep})
        finally:
            if self._sleep is not None:
                self._sleep.cancel()
            while self._unpark(None) is not None:
                pass

    def _expiring_due(self) -> Iterator[None]:
        number = 0
        while (deadline := self.deadlines.first_due()) is not None and deadline <= self._clock.now():
            steps = self._expiring(self.deadlines.pop())
            next(steps, None)
            for _ in steps:
                yield
            number += 1
            if number % EXPIRE_AT_ONCE == 0:
                yield

    def _start_due(self) -> None:
        """Start the polls that are due."""
        now = self._clock.now()
        while not self._is_full and (row := self._take(now)) is not None:
            self._assign(self._unpark(row) or self._spawn(self._run_poller(row), "vidgen poller"), row)
        self._rested_at = now + min(_TICK, self._schedule.interval / 100.0)

    def _next_turn(self) -> float:
        """Return when the scheduler has something to do. While all pollers are busy, they continue by themselves."""
        dues = self.deadlines.first_due(), None if self._is_full else self._schedule.wake_at()
        return max(min((due for due in dues if due is not None), default=_NEVER), self._rested_at)

    @property
    def _is_full(self) -> bool:
        return len(self._polled) >= self._concurrency

    def _assign(self, poller: asyncio.Task[None], row: int) -> None:
        self.pollers[row], self._polled[poller] = poller, row

    async def _run_poller(self, row: int | None) -> None:
        """Poll this task, then those that the poller is assigned to."""
        poller = cast("asyncio.Task[None]", asyncio.current_task())
        while row is not None:
            await self._poll(row, poller)
            row = self._take(self._clock.now()) if self._is_full else None
            if row is None:
                row = await self._park(poller)
            else:
                self._assign(poller, row)
                await self._clock.sleep(0)  # polls that never wait must not block the event loop

    async def _park(self, poller: asyncio.Task[None]) -> int | None:
        """Wait for the next row; None if there is none."""
        del self._polled[poller]
        if self._is_closed or not self._schedule.items:
            return None
        self.wake()
        next_row: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._parked[poller] = next_row
        return await next_row

    def _unpark(self, row: int | None) -> asyncio.Task[None] | None:
        """Give a parked poller its next row, or None to end it; return the poller, if there was one."""
        while self._parked:
            poller, next_row = self._parked.popitem()
            if not next_row.done():  # it was not cancelled from outside
                next_row.set_result(row)
                return poller
        return None

    def _take(self, now: float) -> int | None:
        schedule = self._schedule
        was_behind = schedule.is_behind
        row = schedule.take(now)
        if schedule.is_behind and not was_behind:
            fields: dict[str, Any] = {"interval": schedule.interval, "concurrency": self._concurrency}
            fields |= {"late": schedule.lateness_last, "count": schedule.items, "seconds": schedule.interval_now}
            Event.WATCHER_LATE.log(self._logger, **fields)
        elif was_behind and not schedule.is_behind:
            Event.WATCHER_ON_TIME.log(self._logger, interval=schedule.interval)
        return row

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        row = self._polled.pop(worker, None)
        if self._is_closed:
            return  # the watcher ends the tasks
        if row is not None:
            if self.pollers.get(row) is worker:  # cancelled from outside during a poll: the task stays watched
                del self.pollers[row]
                self._schedule.reschedule(row, self._clock.now())
            self.wake()
        if not worker.cancelled():
            error = worker.exception()
        elif worker in (self._sleep, self._scheduler) and not worker.cancelling():
            error = asyncio.CancelledError()  # the clock's own
        else:
            error = None
        if error is not None:
            Event.WATCHER_FAILED.log(self._logger, exc_info=error)
            self._on_failure(error if isinstance(error, Exception) else _stopped(f"raised {describe(error)}"))
        elif worker is self._scheduler and self._schedule.items:
            self._on_failure(_stopped())


def _stopped(why: str = "was cancelled") -> ClientStateError:
    return ClientStateError(f"the watcher {why}, but tasks continue; wait for them again by their ids")

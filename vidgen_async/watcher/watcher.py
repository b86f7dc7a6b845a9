"""The watcher: one scheduler, a limited number of pollers, and the listeners that they notify."""

import asyncio
import logging
import math
import sys
from array import array
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from datetime import datetime
from itertools import chain, count
from typing import Any, cast

from attrs import Factory, define

from vidgen_async.clock import Clock, all_in_turns, in_turns, time_of
from vidgen_async.errors import ClientStateError, ConfigurationError, ServiceError, TransportError
from vidgen_async.events import Event, current_waits
from vidgen_async.redaction.messages import is_plain_word
from vidgen_async.service.status_rules import PollFailure
from vidgen_async.types.limits import ONE_DAY
from vidgen_async.types.resources import KNOWN_STATES, TaskStatus, VideoTask
from vidgen_async.user_code import UserCode, describe
from vidgen_async.watcher.hooks import OnUpdate, UpdateHooks
from vidgen_async.watcher.listeners import (
    AT_ONCE,
    EXPIRE_AT_ONCE,
    OWN,
    Deadlines,
    Follower,
    Gatherer,
    LastState,
    Listener,
    OpenGatherer,
    Outcome,
    Poll,
    Polling,
    TaskKey,
    Waiter,
    copy_error,
    failed_error,
    key_of,
)
from vidgen_async.watcher.poll_rules import CONFIRMED, GRACE, LONGEST_OUTAGE, ends_watch, fault_of, final_error
from vidgen_async.watcher.schedule import LONGEST_PAUSE, Schedule
from vidgen_async.watcher.stats import WatcherStats

logger = logging.getLogger("vidgen_async.watcher")

#: The scheduler waits at least this long (seconds) between two turns without a wake-up, but not for more than a
#: hundredth of the interval: thousands of polls per second are started in small groups.
_TICK = 0.016
#: A sleep that ended too early because of a rounding error is continued for this long.
_BLINK = 1e-6
#: The number of ids that are collected in one turn of the event loop.
_IDS_AT_ONCE = 4096
#: The number of tasks without listeners whose last poll is remembered for one interval.
_MOST_LEFT = 1024
#: Seconds for which calls of a wait's ``on_update`` are awaited at least when the wait has ended.
_HOOK_GRACE = 5.0


@define(eq=False)
class TaskDetails:
    """What only some watched tasks need: new ones, failing ones, and those with several listeners."""

    accepted_at: float | None = None
    fault: PollFailure | None = None
    in_a_row: int = 0
    """The number of polls in a row that had this fault."""
    since: float = 0.0
    """The time of the first of them."""
    listeners: dict[Listener, None] = Factory(dict)
    """All but the first one."""
    trouble: str | None = None
    """The error of the last poll."""
    warned: tuple[str, ...] = ()
    """The unknown states for which a warning was logged."""

    def is_new(self, now: float) -> bool:
        """Return whether the service may not know the task yet, so that a 404 proves nothing."""
        return self.accepted_at is not None and now < self.accepted_at + GRACE


class Watcher:
    """Polls each watched task once per ``interval``, counted from the start of its last poll: never sooner (except a
    401, 404 or 410, which a poll five seconds later must confirm), never twice at once (section 8 recommends 60 s).

    The first ``first_polls`` new tasks per second are polled immediately, the others spread evenly over one interval.
    Whatever delays polls (a blocked event loop, a suspended laptop, too little concurrency), there is no burst: late
    polls are made in the order in which they were due, at most 1.1 times as many per second as usual, or 32. First
    polls of new tasks are not delayed. When polls are later than a tenth of the interval, one warning is logged.

    A 429 with Retry-After pauses the whole watcher for that time, at most an hour, which shifts all polls by the same
    amount; one without, or one for another API key than the watcher's own, affects only its task.
    The table of ``vidgen_async.watcher.poll_rules`` states which faults end a watch.

    ``on_update`` is called with every change of any watched task, including the terminal one; it may be async. Its
    errors are logged, and only :meth:`aclose` waits for it. ``on_terminal`` is called with the id and the terminal
    task, before any listener; it must not block or raise. ``is_origin_known`` returns whether the service has answered
    this client before, with JSON. ``find_accepted`` returns when the service accepted the task, if that is known.

    A task whose last listener has gone is no longer watched, and its poll is cancelled. If it is watched again within
    the interval, its next poll is when it would have been.
    """

    def __init__(
        self,
        poll: Poll,
        *,
        clock: Clock,
        is_origin_known: Callable[[], bool],
        interval: float = 60.0,
        concurrency: int = 64,
        first_polls: int = 32,
        on_update: OnUpdate | None = None,
        on_terminal: Callable[[str, VideoTask], None] | None = None,
        find_accepted: Callable[[str], Awaitable[datetime | None]] | None = None,
    ) -> None:
        if not 0.0 < interval < float("inf") or concurrency < 1 or first_polls < 0:
            message = "a watcher needs an interval above 0 s, a concurrency of at least 1, and no negative first_polls"
            raise ConfigurationError(message)
        self._poll = poll
        self._clock = clock
        self._concurrency = concurrency
        self._hooks = self._make_hooks(on_update, Context())
        self._on_terminal = on_terminal
        self._schedule = Schedule(interval, first_polls=first_polls)
        # A full pass of the garbage collector goes through every container there is, and delays all polls meanwhile:
        # with an object for each task that is a third of a second at 100,000. So each task has a row in a few columns
        # instead. The row of a dropped task is used again.
        self._rows: dict[TaskKey, int] = {}
        """What one API key may see of a task is separate from what another one may see."""
        self._left: dict[int, None] = {}
        """Of these, the rows of tasks without listeners: their last poll is remembered for one interval."""
        self._free: list[int] = []
        self._task_ids: list[str] = []
        self._firsts: list[Listener | None] = []
        """The first listener; nearly every task has exactly one."""
        self._states: list[str | None] = []
        """The last state seen; None if no poll has succeeded."""
        self._marks = array("q")
        """The mark of the last response; 0 if there is none."""
        # Few rows have these.
        self._tasks: dict[int, VideoTask] = {}
        """The task as it was seen last, if a listener needs it."""
        self._details: dict[int, TaskDetails] = {}
        self._other_polls: dict[int, Poll] = {}
        """With which a task is polled, unless that is the watcher's own."""
        self._deadlines = Deadlines()
        self._pollers: dict[int, asyncio.Task[None]] = {}
        """Those that poll now, by their rows, without those whose task is no longer watched."""
        self._polled: dict[asyncio.Task[None], int] = {}
        """The rows that they poll."""
        self._parked: dict[asyncio.Task[None], asyncio.Future[int | None]] = {}
        """Where those without work get their next row; None ends them."""
        self._workers: set[asyncio.Task[None]] = set()
        self._scheduler: asyncio.Task[None] | None = None
        self._sleep: asyncio.Future[None] | None = None
        """Of the scheduler; it is cancelled to wake it."""
        self._sleeps_until = math.inf
        self._rested_at = -math.inf
        self._waiting = 0
        self._is_origin_known = is_origin_known
        self._find_accepted = find_accepted
        self._errors: Counter[str] = Counter()
        self._is_closed = False

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def wait(
        self,
        task_id: str,
        *,
        timeout: float | None = ONE_DAY,
        accepted_at: float | None = None,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
        polling: Polling = OWN,
    ) -> VideoTask:
        """Return the completed task, or raise its error. Any number of waits for one task share its polls; cancelling
        ends only this one.

        Args:
            timeout: Seconds for everything, including a poll in progress; with zero or less no poll is made.
            accepted_at: The clock's time of the receipt, if it is known; for two minutes from then a 404 proves
                nothing.
            on_update: Called with every change that this wait sees, the terminal one included, as the watcher's own.
                When the wait ends, it waits for calls until its ``timeout``, at least five seconds (if the watcher was
                closed, five seconds); when it is cancelled, they are cancelled.
            first_poll_after: Seconds in which the task is not polled, unless another listener needs it.
            polling: With which API key the task is polled, and how often; of several intervals the shortest counts.
        """
        waiter = Waiter((task_id,), timeout, self._make_hooks(on_update), self._without_own(polling))
        async with self._listening(waiter, first_poll_after):
            self._attach(task_id, waiter, accepted_at, first_poll_after)
            end = await waiter.end
            if isinstance(end, Exception):
                raise copy_error(end)
            if end.status == "failed":
                raise failed_error(end)
            return end

    async def watch(
        self,
        task_id: str,
        *,
        timeout: float | None = ONE_DAY,
        accepted_at: float | None = None,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
        polling: Polling = OWN,
    ) -> AsyncGenerator[VideoTask, None]:
        """Yield every change of the task (of any field); the terminal one, also of a failed task, is the last.

        What is known already is yielded first, without a poll. A slow reader gets the latest change instead of each,
        and always the terminal one. Arguments and errors are those of :meth:`wait`; an error is raised after the last
        change. The watch and its ``timeout`` begin with the first ``anext``; they end with the iterator's ``aclose``.
        """
        follower = Follower((task_id,), timeout, self._make_hooks(on_update), self._without_own(polling))
        async with self._listening(follower, first_poll_after):
            self._attach(task_id, follower, accepted_at, first_poll_after)
            while (task := await follower.next()) is not None:
                yield task

    async def as_completed(
        self,
        task_ids: Iterable[str],
        *,
        timeout: float | None = ONE_DAY,
        accepted_at: Mapping[str, float | None] | None = None,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
        polling: Polling = OWN,
    ) -> AsyncGenerator[Outcome, None]:
        """Yield one outcome for each distinct task, in the order in which they end; for up to hundreds of thousands.

        Nothing is raised for a single task: after ``timeout`` seconds, and when the watcher is closed, the remaining
        tasks have their errors as outcomes; with more than 10,000 tasks, and no ``on_update``, these errors have no
        ``.task``. It begins with the first ``anext`` and ends like :meth:`watch`. The arguments are those of
        :meth:`wait`; ``accepted_at`` by task id.
        """
        distinct: dict[str, None] = {}
        for number, task_id in enumerate(tuple(task_ids), 1):
            distinct[task_id] = None
            if number % _IDS_AT_ONCE == 0:
                await self._clock.sleep(0)
        ids = tuple(distinct)  # the collector does not traverse a tuple of strings
        gatherer = Gatherer(ids, timeout, self._make_hooks(on_update), self._without_own(polling))
        receipts = accepted_at or {}
        del task_ids, distinct, accepted_at  # they may be large, and need not live as long as the watch
        async with self._listening(gatherer, first_poll_after):
            for start in range(0, len(gatherer.ids), AT_ONCE):
                for task_id in gatherer.ids[start : start + AT_ONCE]:
                    self._attach(task_id, gatherer, receipts.get(task_id), first_poll_after)
                await self._clock.sleep(0)
            del receipts
            for number in count(1):
                if (outcome := await gatherer.next()) is None:
                    break
                yield outcome
                if number % AT_ONCE == 0:  # the reader may never wait
                    await self._clock.sleep(0)

    async def as_added(
        self,
        tasks: AsyncIterable[tuple[str, float | None]],
        *,
        timeout: float | None = ONE_DAY,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
        polling: Polling = OWN,
    ) -> AsyncGenerator[Outcome, None]:
        """Yield outcomes as :meth:`as_completed` does, of tasks that are added while it runs: each with the clock's
        time of its receipt, if that is known. A task that is added again before its end has one outcome. The number of
        tasks that have ended does not matter. What ``tasks`` raises is raised after the outcomes of those before."""
        gatherer = OpenGatherer((), timeout, self._make_hooks(on_update), self._without_own(polling))

        async def add() -> None:
            number = 0
            try:
                async for task_id, accepted_at in tasks:
                    if gatherer.add(task_id):
                        self._attach(task_id, gatherer, accepted_at, first_poll_after)
                    if (number := number + 1) % AT_ONCE == 0:  # the iterable may never wait
                        await self._clock.sleep(0)
            finally:
                gatherer.add_no_more()

        async with self._listening(gatherer, first_poll_after):
            adder = asyncio.ensure_future(add())
            try:
                while (outcome := await gatherer.next()) is not None:
                    yield outcome
                    await self._clock.sleep(0)  # the reader may never wait
                await adder
            finally:
                adder.cancel()
                await asyncio.gather(adder, return_exceptions=True)

    @property
    def stats(self) -> WatcherStats:
        """The present state of the watcher."""
        schedule, now = self._schedule, self._clock.now()
        p50, p99 = schedule.lateness.quantiles(now, 0.5, 0.99)
        return WatcherStats(
            tasks=self._schedule.items,
            waiting=self._waiting,
            in_flight=len(self._polled),
            polls=schedule.polls,
            polls_per_second=schedule.rate.per_second(now),
            errors=dict(self._errors),
            lateness_last=schedule.lateness_last,
            lateness_p50=p50,
            lateness_p99=p99,
            lateness_max=schedule.lateness.most,
            interval_now=schedule.interval_now,
            paused_until=schedule.paused_until if schedule.paused_until > now else None,
        )

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`aclose` was called: nothing is watched any more."""
        return self._is_closed

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Stop polling, and end all workers. Waiters raise a ClientStateError. Running async hooks have ``grace``
        seconds to end. It can be called several times."""
        self._is_closed = True
        workers = self._workers - {asyncio.current_task()}
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await all_in_turns(self._clock, self._ending_all(None))
        if self._hooks is not None:
            await self._hooks.aclose(self._clock, grace)

    # -- listeners ---------------------------------------------------------------------------------------------------

    def _make_hooks(self, on_update: OnUpdate | None, context: Context | None = None) -> UpdateHooks | None:
        """Return the calls of ``on_update`` in this context, by default the caller's."""
        if on_update is None:
            return None
        context = copy_context() if context is None else context
        return UpdateHooks(on_update, limit=self._concurrency, context=context)

    def _without_own(self, polling: Polling) -> Polling:
        """Return the polling with None for what is the watcher's own."""
        poll = None if polling.poll == self._poll else polling.poll
        interval = None if polling.interval == self._schedule.interval else polling.interval
        return OWN if poll is None and interval is None else Polling(poll, interval)

    async def _end_hooks(self, listener: Listener, hooks: UpdateHooks, until: float | None) -> None:
        """Wait for the calls of a listener that has ended; cancel those of one that was cancelled or left."""
        if not listener.has_ended or isinstance(sys.exception(), asyncio.CancelledError):
            await hooks.cancel(self._clock)
            return
        rest = None if until is None else max(until - self._clock.now(), _HOOK_GRACE)
        await hooks.aclose(self._clock, _HOOK_GRACE if self._is_closed else rest)

    @asynccontextmanager
    async def _listening(self, listener: Listener, first_poll_after: float) -> AsyncIterator[None]:
        """The call that made the listener: it is reported, its time limit runs, and then it leaves its tasks."""
        wait, ids = listener.wait_number, listener.ids
        task_id = ids[0] if len(ids) == 1 else None
        Event.WAIT_STARTED.log(logger, wait=wait, count=len(ids), task_id=task_id)
        error: str | None = None
        try:
            if not 0.0 <= first_poll_after < math.inf:
                raise ValueError(f"first_poll_after is a number of seconds, 0 or more: {first_poll_after!r}")
            if self._is_closed:
                raise _closed_error(ids)
            until = self._deadlines.put(listener, self._clock.now())
            if until is not None:
                self._wake()
            self._waiting += 1
            try:
                yield
            finally:
                self._deadlines.remove(listener)
                self._waiting -= 1
                leaving = chain(self._detaching(listener), listener.dropping())
                if len(ids) == 1:
                    next(leaving, None)  # without a turn of the event loop
                await all_in_turns(self._clock, leaving)
                if listener.hooks is not None:
                    await self._end_hooks(listener, listener.hooks, until)
        except BaseException as failure:
            error = None if isinstance(failure, GeneratorExit) else type(failure).__name__
            raise
        finally:
            Event.WAIT_ENDED.log(logger, wait=wait, error=error)

    def _attach(self, task_id: str, listener: Listener, accepted_at: float | None, after: float) -> None:
        if self._is_closed:
            listener.ended(LastState(task_id), _closed_error((task_id,)))
            return
        if listener.is_over:
            listener.expired([LastState(task_id)])
            return
        now, polling, schedule = self._clock.now(), listener.polling, self._schedule
        interval = polling.interval or schedule.interval
        row = self._rows.get(key_of(task_id, polling.poll))
        if row in self._left and not schedule.is_waiting(row, now):
            self._drop(row)
            row = None
        if row is None:
            row = self._add(task_id, polling.poll)
            schedule.add(row, now, interval=interval, after=after)
        elif row in self._left:
            del self._left[row]
            schedule.resume(row, now, interval=interval, after=after)
        else:
            schedule.bring_forward(row, now, interval=interval, after=after)
        self._wake()
        if self._firsts[row] in (None, listener):
            self._firsts[row] = listener
        else:
            self._make_details(row).listeners[listener] = None
        if accepted_at is not None and now < accepted_at + GRACE:
            self._set_accepted(row, accepted_at)
        if (task := self._tasks.get(row)) is not None:
            listener.changed(task)

    def _detaching(self, listener: Listener) -> Iterator[list[LastState]]:
        """Remove the listener from its tasks, a few in each step, which returns what is known of them."""
        ids = listener.open_ids()
        remembered_from = len(ids) - _MOST_LEFT
        for start in range(0, len(ids), AT_ONCE):
            seen = []
            for number, task_id in enumerate(ids[start : start + AT_ONCE], start):
                row = self._rows.get(key_of(task_id, listener.polling.poll))
                if row is None or not self._discard_listener(row, listener):
                    continue
                seen.append(self._last_state(row))
                if next(self._listeners(row), None) is None:
                    self._stop(row)
                    if number < remembered_from:
                        self._drop(row)
                    else:
                        self._remember(row)
                elif listener.polling.interval is not None:
                    self._schedule.set_interval(row, self._shortest_interval(row))
            yield seen

    def _discard_listener(self, row: int, listener: Listener) -> bool:
        """Remove a listener of the task; return whether it was there."""
        if self._firsts[row] is listener:
            self._firsts[row] = None
            return True
        details = self._details.get(row)
        return details is not None and details.listeners.pop(listener, self) is None

    def _listeners(self, row: int) -> Iterator[Listener]:
        first, details = self._firsts[row], self._details.get(row)
        if first is not None:
            yield first
        if details is not None:
            yield from details.listeners

    def _shortest_interval(self, row: int) -> float:
        """Return the shortest interval that a listener wants. None of them wants a shorter one than the present."""
        present, shortest = self._schedule.interval_of(row), math.inf
        for one in self._listeners(row):
            shortest = min(shortest, one.polling.interval or self._schedule.interval)
            if shortest <= present:
                break
        return shortest

    def _stop(self, row: int) -> None:
        """Stop watching a task at once, and cancel its poll."""
        self._schedule.remove(row)
        poller = self._pollers.pop(row, None)
        if poller is not None and poller is not asyncio.current_task():
            poller.cancel()
        if not self._schedule.items:
            self._wake()

    def _remember(self, row: int) -> None:
        """Remember the last poll for one interval: a new listener must not cause an earlier poll."""
        if (details := self._details.get(row)) is not None:
            details.fault = None  # the next one is the first in a row
        self._left[row] = None
        while self._left:
            oldest = next(iter(self._left))
            if len(self._left) <= _MOST_LEFT and self._schedule.is_waiting(oldest, self._clock.now()):
                break
            self._drop(oldest)

    def _end(self, row: int, end: VideoTask | Exception) -> Iterator[None]:
        """End the watch of a task at once; the steps notify its listeners."""
        listeners, seen = list(self._listeners(row)), self._last_state(row)
        self._stop(row)
        self._drop(row)
        return _notifying(listeners, seen, end)

    def _ending_all(self, error: Exception | None) -> Iterator[None]:
        for number, key in enumerate(list(self._rows), 1):
            row = self._rows.get(key)
            if row is not None and row not in self._left:
                yield from self._end(row, error or _closed_error((self._task_ids[row],)))
            if number % AT_ONCE == 0:
                yield

    def _fail(self, error: Exception) -> None:
        # At once: the event loop may be about to end.
        for _ in self._ending_all(error):
            pass

    # -- rows --------------------------------------------------------------------------------------------------------

    def _add(self, task_id: str, poll: Poll | None) -> int:
        """Add a task, and return its row."""
        if self._free:
            row = self._free.pop()
            self._task_ids[row] = task_id
        else:
            row = len(self._task_ids)
            self._task_ids.append(task_id)
            self._firsts.append(None)
            self._states.append(None)
            self._marks.append(0)
        self._rows[key_of(task_id, poll)] = row
        if poll is not None:
            self._other_polls[row] = poll
        return row

    def _drop(self, row: int) -> None:
        """Forget what is known of a task."""
        del self._rows[key_of(self._task_ids[row], self._other_polls.pop(row, None))]
        self._left.pop(row, None)
        self._tasks.pop(row, None)
        self._details.pop(row, None)
        self._schedule.set_interval(row, None)
        self._free.append(row)
        if not self._rows:
            for column in (self._free, self._task_ids, self._firsts, self._states):
                column.clear()
            self._marks = array("q")
        else:
            self._task_ids[row] = ""
            self._firsts[row] = self._states[row] = None
            self._marks[row] = 0

    def _last_state(self, row: int) -> LastState:
        details = self._details.get(row)
        state = cast("TaskStatus | None", self._states[row])  # or another one, which LastState documents
        return LastState(self._task_ids[row], self._tasks.get(row), state, None if details is None else details.trouble)

    def _make_details(self, row: int) -> TaskDetails:
        """Return the details of the task, made when they are first needed."""
        return self._details.get(row) or self._details.setdefault(row, TaskDetails())

    def _set_accepted(self, row: int, at: float) -> None:
        """Note the clock's time of a receipt for the task; the latest one counts."""
        details = self._make_details(row)
        details.accepted_at = at if details.accepted_at is None else max(at, details.accepted_at)

    def _is_new(self, row: int) -> bool:
        details = self._details.get(row)
        return details is not None and details.is_new(self._clock.now())

    def _keeps(self, row: int) -> bool:
        """Return whether the task that was seen last is needed."""
        first, details = self._firsts[row], self._details.get(row)
        if self._hooks is not None or (first is not None and first.keeps_tasks):
            return True
        return details is not None and any(one.keeps_tasks for one in details.listeners)

    # -- the loop that polls -------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake the scheduler if there is something to do before it wakes by itself, or nothing any more."""
        # If it sleeps as short as possible, as while there are many polls, there is no need to find out.
        is_late = self._sleeps_until > self._rested_at and self._next_turn() < self._sleeps_until
        if self._sleep is not None and (is_late or not self._schedule.items):
            self._sleep.cancel()
        if self._schedule.items and (self._scheduler is None or self._scheduler.done()):
            self._scheduler = self._spawn(self._run(), "vidgen watcher")

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
                now = self._clock.now()
                while not self._is_full and (row := self._take(now)) is not None:
                    self._assign(self._unpark(row) or self._spawn(self._run_poller(row), "vidgen poller"), row)
                self._rested_at = now + min(_TICK, self._schedule.interval / 100.0)
                self._sleeps_until = due = self._next_turn()
                if due < math.inf:
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
        """Expire the listeners whose deadline has come. Tasks that end meanwhile are reported as ended."""
        for number in count(1):
            if (due := self._deadlines.first_due()) is None or due > self._clock.now():
                break
            listener = self._deadlines.pop()
            listener.is_over = True
            for step, seen in enumerate(self._detaching(listener)):
                listener.expired(seen)
                if step:
                    yield
            if number % EXPIRE_AT_ONCE == 0:
                yield

    def _next_turn(self) -> float:
        """Return when the scheduler has something to do. While all pollers are busy, they continue by themselves."""
        dues = self._deadlines.first_due(), None if self._is_full else self._schedule.wake_at()
        return max(min((due for due in dues if due is not None), default=math.inf), self._rested_at)

    @property
    def _is_full(self) -> bool:
        return len(self._polled) >= self._concurrency

    def _assign(self, poller: asyncio.Task[None], row: int) -> None:
        self._pollers[row], self._polled[poller] = poller, row

    async def _run_poller(self, row: int | None) -> None:
        """Poll this task, then those that the poller is assigned to."""
        poller = cast("asyncio.Task[None]", asyncio.current_task())
        while row is not None:
            await self._poll_row(row, poller)
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
        self._wake()
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
            Event.WATCHER_LATE.log(logger, **fields)
        elif was_behind and not schedule.is_behind:
            Event.WATCHER_ON_TIME.log(logger, interval=schedule.interval)
        return row

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        row = self._polled.pop(worker, None)
        if self._is_closed:
            return  # the watcher ends the tasks
        if row is not None:
            if self._pollers.get(row) is worker:  # cancelled from outside during a poll: the task stays watched
                del self._pollers[row]
                self._schedule.reschedule(row, self._clock.now())
            self._wake()
        error = None if worker.cancelled() else worker.exception()
        if worker.cancelled() and worker in (self._sleep, self._scheduler) and not worker.cancelling():
            error = asyncio.CancelledError()  # the clock's own
        if error is not None:
            Event.WATCHER_FAILED.log(logger, exc_info=error)
            self._fail(error if isinstance(error, Exception) else _stopped(f"raised {describe(error)}"))
        elif worker is self._scheduler and self._schedule.items:
            self._fail(_stopped())

    # -- polling -----------------------------------------------------------------------------------------------------

    async def _poll_row(self, row: int, poller: asyncio.Task[None]) -> None:
        schedule = self._schedule
        if schedule.paused_at is not None and (now := self._clock.now()) >= schedule.paused_until:
            seconds, schedule.paused_at = now - schedule.paused_at, None
            Event.WATCHER_RESUMED.log(logger, seconds=seconds)
        task_id, is_task_needed = self._task_ids[row], self._keeps(row)
        last = None if is_task_needed and row not in self._tasks else self._marks[row] or None
        current_waits.set(lambda: (listener.wait_number for listener in self._listeners(row)))
        found: VideoTask | str | Exception | None
        with UserCode() as call:
            poll = self._other_polls.get(row, self._poll)
            found, mark = await poll(task_id, last, is_task_needed=is_task_needed)
        if call.error is not None:  # the table of faults decides about each
            error = call.error
            found = error if isinstance(error, Exception) else TransportError(f"the poll raised {describe(error)}")
            if fault_of(found) is PollFailure.GONE and not self._is_new(row) and self._find_accepted is not None:
                with (
                    UserCode()
                ):  # for two minutes from its receipt a 404 proves nothing; a failed journal knows nothing
                    moment = await self._find_accepted(task_id)
                    if moment is not None and self._pollers.get(row) is poller:
                        self._set_accepted(row, time_of(self._clock, moment))
        if self._pollers.get(row) is not poller:
            return  # the last listener has gone, and the row may have another task
        del self._pollers[row]
        end = self._note_error(row, found) if isinstance(found, Exception) else self._note_answer(row, found, mark)
        if end is not None:
            steps = self._end(row, end)
            self._notify(end)
            await all_in_turns(self._clock, steps)

    def _note_answer(self, row: int, found: VideoTask | str | None, mark: int | None) -> VideoTask | None:
        """Handle a poll that succeeded. Return the task if it has ended; otherwise it is polled again."""
        self._marks[row] = mark or 0
        if (details := self._details.get(row)) is not None:
            details.fault = details.trouble = None
            if not details.listeners and not details.warned and not self._is_new(row):
                del self._details[row]
        task_id, task = self._task_ids[row], found if isinstance(found, VideoTask) else None
        if found is not None:
            self._note_state(row, found if isinstance(found, str) else found.status)
        if task is not None and task.is_terminal:
            Event.TASK_ENDED.log(logger, task_id=task_id, state=task.status, **_facts_of(task))
            self._tasks[row] = task
            if self._on_terminal is not None:
                self._on_terminal(task_id, task)
            return task
        self._schedule.reschedule(row, self._clock.now())  # first: a KeyboardInterrupt comes out of the hook
        if found is not None and (task is None or not self._keeps(row)):
            self._tasks.pop(row, None)  # it is older
        elif task is not None and task != self._tasks.get(row):
            Event.TASK_CHANGED.log(logger, task_id=task_id, state=self._states[row])
            self._tasks[row] = task
            for listener in self._listeners(row):
                listener.changed(task)
            self._notify(task)
        return None

    def _note_error(self, row: int, error: Exception) -> Exception | None:
        """Handle a poll that failed. Return the error that ends the watch, if it does."""
        task_id, now, details = self._task_ids[row], self._clock.now(), self._make_details(row)
        fault, trouble, is_new = fault_of(error), type(error).__name__, details.is_new(now)
        self._errors[trouble] += 1
        if fault is not details.fault:
            details.in_a_row, details.since = 0, now
        details.in_a_row += 1
        details.fault, details.trouble = fault, trouble
        is_outage = now - details.since < LONGEST_OUTAGE and self._is_origin_known()
        if ends_watch(fault, details.in_a_row, is_new=is_new, is_outage=is_outage):
            Event.WATCH_FAILED.log(logger, task_id=task_id, error=trouble)
            return final_error(error, fault, task_id)
        service_error = error if isinstance(error, ServiceError) else None
        request_id = None if service_error is None else service_error.request_id
        Event.POLL_FAILED.log(logger, task_id=task_id, error=trouble, fault=str(fault), request_id=request_id)
        retry_after = None if service_error is None or fault is not PollFailure.BUSY else service_error.retry_after
        after = 0.0
        if retry_after is not None and row in self._other_polls:
            after = min(retry_after, LONGEST_PAUSE)  # the limits of one API key are not those of another
        elif retry_after is not None:
            was_paused = now < self._schedule.paused_until
            if self._schedule.pause(now, retry_after) and not was_paused:
                Event.WATCHER_PAUSED.log(logger, task_id=task_id, seconds=self._schedule.paused_until - now)
        self._schedule.reschedule(row, now, soon=fault in CONFIRMED and not is_new, after=after)
        return None

    def _note_state(self, row: int, status: str | None) -> None:
        state = "missing" if status is None else sys.intern(_show_state(str(status)))
        self._states[row] = state
        if status not in KNOWN_STATES and state not in (details := self._make_details(row)).warned:
            details.warned += (state,)
            Event.TASK_UNKNOWN_STATE.log(logger, task_id=self._task_ids[row], state=state)

    def _notify(self, found: VideoTask | Exception) -> None:
        if self._hooks is not None and isinstance(found, VideoTask):
            self._hooks.notify(found)


def _notifying(listeners: Sequence[Listener], seen: LastState, end: VideoTask | Exception) -> Iterator[None]:
    for number, listener in enumerate(listeners, 1):
        listener.ended(seen, end)
        if number % AT_ONCE == 0:
            yield


def _facts_of(task: VideoTask) -> dict[str, Any]:
    """What is reported of a task that has ended, as far as it is known."""
    facts: dict[str, Any] = {} if task.points is None else {"points": task.points}
    if task.model is not None and is_plain_word(task.model):
        facts["model"] = task.model
    if task.created_at is not None and task.updated_at is not None:
        facts["seconds"] = (task.updated_at - task.created_at).total_seconds()
    return facts


def _show_state(status: str) -> str:
    """Return the state as messages show it: text that is not one plain word may contain secrets."""
    return status if status in KNOWN_STATES or is_plain_word(status) else f"<{len(status)} characters>"


def _closed_error(task_ids: Sequence[str]) -> ClientStateError:
    named = f"task {task_ids[0]!r}" if len(task_ids) == 1 else "the tasks"
    return ClientStateError(f"the client was closed, but tasks continue; wait for {named} with another client")


def _stopped(why: str = "was cancelled") -> ClientStateError:
    return ClientStateError(f"the watcher {why}, but tasks continue; wait for them again by their ids")

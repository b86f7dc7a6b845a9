"""The clock that all waiting in the SDK uses."""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The source of time. ``now()`` never goes back; ``wall()`` is the system time and can be set."""

    def now(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def wall(self) -> datetime:
        """Return the current date and time, with a time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``; after one iteration of the event loop if they are zero or negative."""
        ...


class LoopClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that passes only while all code waits for it: an hour of polls takes milliseconds.

    Sleepers wake in the exact order of their due times. Time advances to the due time of the next sleeper once the
    event loop has been idle for some iterations and no code holds the clock. The event loop is idle during real I/O
    too, so code that waits for a socket or a thread holds the clock (:meth:`hold`).

    Args:
        start: The date and time at the beginning.
        quiet_passes: Number of idle iterations of the event loop before time advances.
    """

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC), *, quiet_passes: int = 30) -> None:
        self._start = start
        self._now = 0.0
        self._quiet_passes = quiet_passes
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._activity = 0
        self._holds = 0
        self._released = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return self._start + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            self._activity += 1
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        self._activity += 1
        if self._pump is None or self._pump.done() or self._pump.get_loop() is not woken.get_loop():
            self._released = asyncio.Event()  # an event belongs to the event loop that first waited for it
            if not self._holds:
                self._released.set()
            self._pump = asyncio.get_running_loop().create_task(self._run(), name="virtual clock")
        await woken

    def touch(self) -> None:
        """Report activity that is not waiting, so that the event loop does not count as idle."""
        self._activity += 1

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop time inside the ``with`` block, while code waits for something real (a socket, a thread)."""
        self._holds += 1
        self._released.clear()
        try:
            yield
        finally:
            self._holds -= 1
            self._activity += 1
            if self._holds == 0:
                self._released.set()

    async def _run(self) -> None:
        while self._wake_due():
            await self._wait_until_idle()
            self._drop_cancelled()
            if self._sleepers:
                self._now = max(self._now, self._sleepers[0][0])

    def _wake_due(self) -> bool:
        """Wake the first sleeper if it is due, one at a time; return whether there are more sleepers."""
        self._drop_cancelled()
        if self._sleepers and self._sleepers[0][0] <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)
            self._activity += 1
        return bool(self._sleepers)

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    async def _wait_until_idle(self) -> None:
        idle_passes = 0
        while idle_passes < self._quiet_passes:
            if self._holds:
                await self._released.wait()
            activity = self._activity
            await asyncio.sleep(0)
            idle_passes = idle_passes + 1 if activity == self._activity and not self._holds else 0


def time_of(clock: Clock, moment: datetime) -> float:
    """The value that ``clock.now()`` had at a moment in the past; the present one for a moment in the future."""
    return clock.now() - max((clock.wall() - moment).total_seconds(), 0.0)


def hold_of(clock: Clock) -> Callable[[], AbstractContextManager[None]]:
    """Return the context manager that stops virtual time while a thread works; it has no effect on real time."""
    hold: Callable[[], AbstractContextManager[None]] = getattr(clock, "hold", nullcontext)
    return hold


async def run_in_thread(call: Callable[..., T], *arguments: Any, executor: Executor | None = None) -> T:
    """Run it in a thread; a cancellation is raised only when the thread has ended, which may be writing to a file."""
    work = asyncio.get_running_loop().run_in_executor(executor, partial(_run, call, *arguments))
    try:
        await wait_for_end({work})
    except asyncio.CancelledError:
        work.exception()  # retrieved, so that asyncio does not log it as never retrieved
        raise
    return work.result()


def _run(call: Callable[..., T], *arguments: Any) -> T:
    try:
        return call(*arguments)
    except StopIteration as error:  # no future can hold it: the caller would wait for ever
        raise RuntimeError("the call in a thread raised StopIteration") from error


async def wait_for_end(work: "Collection[asyncio.Future[Any]]") -> None:
    """Wait until all of it has ended, and only then raise the cancellation of the caller; nothing is cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not all(each.done() for each in work):
        try:
            await asyncio.wait(work)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def in_turns(clock: Clock, steps: Iterable[object]) -> None:
    """Iterate over ``steps``, with a turn of the event loop after each. A cancellation ends that."""
    for _ in steps:
        await clock.sleep(0)


async def all_in_turns(clock: Clock, steps: Iterator[object]) -> None:
    """Like :func:`in_turns`, but if the caller is cancelled, the remaining steps are carried out at once."""
    try:
        await in_turns(clock, steps)
    finally:
        for _ in steps:
            pass


async def within(clock: Clock, seconds: float | None, work: Callable[[], Awaitable[T]]) -> T:
    """Await ``work()``; when ``seconds`` are over, or the caller is cancelled, cancel it, and await its end."""
    if seconds is None:
        return await work()
    if type(clock) is LoopClock:  # without a task for the work and one for the limit
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await work()
        except TimeoutError:
            if limit.expired():
                raise TimeoutError from None
            raise
    worker = asyncio.ensure_future(work())
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({worker, timer}, return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            return await worker
        await timer  # it may have failed
        raise TimeoutError
    finally:
        for task in (worker, timer):
            task.cancel()
        await asyncio.gather(worker, timer, return_exceptions=True)


def backoff(failures: int, jitter: float, *, longest: float = 20.0) -> float:
    """Return the seconds before the next attempt: they double with each failure, from 0.5 to ``longest``. ``jitter``, a
    random number from 0 to 1, spreads them over their upper half: many clients must not retry at once."""
    delay = min(0.5 * 2.0 ** min(failures - 1, 30), longest)
    return delay * (0.5 + 0.5 * jitter)

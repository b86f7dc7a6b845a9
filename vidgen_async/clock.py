"""The one clock that all waiting in the SDK asks."""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Time, as the SDK sees it. ``now()`` only grows; ``wall()`` is the calendar and may be set."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...

    def wall(self) -> datetime:
        """The time of day, with a time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` later; at once (after one pass of the loop) for zero and less."""
        ...


class LoopClock:
    """Real time: the running event loop's own clock."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that passes only when everybody waits for it: an hour of polls takes milliseconds.

    Sleepers wake in exact order of their due times. Time jumps to the next sleeper once the event loop has been quiet
    for some passes and nothing holds the clock; real I/O is held with :meth:`hold` while it is under way, since the
    loop is quiet then too. The seconds before a jump are never waited for.
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
            self._released = asyncio.Event()  # an event belongs to the loop that first waited for it
            if not self._holds:
                self._released.set()
            self._pump = asyncio.get_running_loop().create_task(self._run(), name="virtual clock")
        await woken

    def touch(self) -> None:
        """Something is going on that is no waiting: the loop is not quiet yet."""
        self._activity += 1

    @contextmanager
    def hold(self) -> Iterator[None]:
        """No time passes inside: something real (a socket, a thread) is being waited for."""
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
            await self._quiet()
            self._drop_cancelled()
            if self._sleepers:
                self._now = max(self._now, self._sleepers[0][0])

    def _wake_due(self) -> bool:
        """Wake the first sleeper that is due, one at a time; whether anybody still sleeps."""
        self._drop_cancelled()
        if self._sleepers and self._sleepers[0][0] <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)
            self._activity += 1
        return bool(self._sleepers)

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    async def _quiet(self) -> None:
        quiet = 0
        while quiet < self._quiet_passes:
            if self._holds:
                await self._released.wait()
            seen = self._activity
            await asyncio.sleep(0)
            quiet = quiet + 1 if seen == self._activity and not self._holds else 0


def hold_of(clock: Clock) -> Callable[[], AbstractContextManager[None]]:
    """What keeps the clock from running ahead while a thread works; nothing for a clock of real time."""
    hold: Callable[[], AbstractContextManager[None]] = getattr(clock, "hold", nullcontext)
    return hold


async def in_turns(clock: Clock, steps: Iterable[object]) -> None:
    """Go through ``steps``, each short work; between two of them everybody else on the event loop has a turn.

    When the caller is cancelled, the steps that are left are not done.
    """
    for _ in steps:
        await clock.sleep(0)


async def all_in_turns(clock: Clock, steps: Iterator[object]) -> None:
    """Like :func:`in_turns`, but when the caller is cancelled, the steps that are left are done at once."""
    try:
        await in_turns(clock, steps)
    finally:
        for _ in steps:
            pass


async def within(clock: Clock, seconds: float | None, work: Callable[[], Awaitable[T]]) -> T:
    """``await work()``, cancelled when it takes longer than ``seconds`` of ``clock``; then TimeoutError.

    A caller who is cancelled cancels the work and waits for its end.
    """
    if seconds is None:
        return await work()
    worker = asyncio.ensure_future(work())
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({worker, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            return await worker
        raise TimeoutError
    finally:
        for task in (worker, alarm):
            task.cancel()
        await asyncio.gather(worker, alarm, return_exceptions=True)


def backoff(tries: int, chance: float, *, first: float = 0.5, longest: float = 20.0) -> float:
    """Seconds before the next try after ``tries`` failed ones: doubling, and spread by ``chance`` (0 to 1) over the
    upper half, so that many clients do not come back together."""
    full = min(first * 2.0 ** min(tries - 1, 30), longest)
    return full * (0.5 + 0.5 * chance)

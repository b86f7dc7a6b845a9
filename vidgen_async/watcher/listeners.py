"""What is kept for a watched task, and who listens to it: a waiter, a follower, a gatherer."""

import asyncio
import copy
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from vidgen_async.errors import TaskFailedError, VidgenError, WaitTimeoutError
from vidgen_async.redaction import excerpt
from vidgen_async.resources import VideoTask
from vidgen_async.watcher.faults import Fault

#: A failure reason is shown up to this length.
LONGEST_REASON = 1000

#: A gatherer of more tasks keeps only the states of those that are not terminal: a task as the service shows it is
#: far larger than everything else that is held for it.
MOST_KEPT = 10_000

E = TypeVar("E", bound=Exception)


class Listener:
    """Somebody who wants to know. It may listen to many entries; the watcher calls it, and never waits for it."""

    __slots__ = ("ids", "is_over", "ticket", "timeout")

    keeps_tasks = True
    """Whether the tasks last seen are to be kept for it."""

    def __init__(self, ids: Sequence[str], timeout: float | None) -> None:
        self.ids = ids
        self.timeout = timeout
        self.is_over = False
        """Whether its time is up."""
        self.ticket = 0

    def changed(self, task: VideoTask) -> None:
        """A task was seen to differ from what was seen before; it is not terminal."""

    def ended(self, entry: "Entry", end: VideoTask | Exception) -> None:
        """The watch is over, with a terminal task or an error."""
        raise NotImplementedError

    def expired(self, entries: Sequence["Entry"]) -> None:
        """The listener's time is up; it no longer listens to these."""
        for entry in entries:
            self.ended(entry, late_error(entry, self.timeout))


class Rest:
    """What only some watched tasks need: those that are new, in trouble, or waited for by several."""

    __slots__ = ("accepted_at", "fault", "in_a_row", "listeners", "trouble", "warned")

    def __init__(self) -> None:
        self.accepted_at: float | None = None
        self.fault: Fault | None = None
        self.in_a_row = 0
        self.listeners: dict[Listener, None] = {}
        """All but the entry's first one."""
        self.trouble: str | None = None
        """What the last look failed with."""
        self.warned: tuple[str, ...] = ()
        """The unknown states that were warned about."""


class Entry:
    """One watched task. There may be hundreds of thousands: slots, and nothing that is not needed."""

    __slots__ = ("due", "first", "lost", "mark", "poller", "rest", "state", "task", "task_id", "ticket")

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.ticket = 0
        self.due = 0.0
        self.lost = 0.0
        self.task: VideoTask | None = None
        self.state: str | None = None
        """The last state seen; None: nothing seen yet."""
        self.mark: int | None = None
        """Of the last answer."""
        self.poller: asyncio.Task[None] | None = None
        # Nearly every entry has exactly one listener.
        self.first: Listener | None = None
        self.rest: Rest | None = None

    def more(self) -> Rest:
        """Its rest, made when it is first needed."""
        if self.rest is None:
            self.rest = Rest()
        return self.rest

    @property
    def trouble(self) -> str | None:
        return None if self.rest is None else self.rest.trouble

    @property
    def is_deserted(self) -> bool:
        return self.first is None and (self.rest is None or not self.rest.listeners)

    @property
    def keeps_task(self) -> bool:
        """Whether some listener wants the task that was seen last."""
        if self.first is not None and self.first.keeps_tasks:
            return True
        return self.rest is not None and any(listener.keeps_tasks for listener in self.rest.listeners)

    def listeners(self) -> Iterator[Listener]:
        if self.first is not None:
            yield self.first
        if self.rest is not None:
            yield from self.rest.listeners

    def add(self, listener: Listener) -> None:
        if self.first is None or self.first is listener:
            self.first = listener
        else:
            self.more().listeners[listener] = None

    def discard(self, listener: Listener) -> bool:
        """Whether it was there."""
        if self.first is listener:
            self.first = None
            return True
        return self.rest is not None and self.rest.listeners.pop(listener, self) is None

    def accepted(self, at: float) -> None:
        """The clock's time of a receipt for it: the latest counts."""
        rest = self.more()
        rest.accepted_at = at if rest.accepted_at is None else max(at, rest.accepted_at)

    def strike(self, fault: Fault, trouble: str) -> int:
        """How many looks in a row, this one included, met this fault."""
        rest = self.more()
        rest.in_a_row = rest.in_a_row + 1 if fault is rest.fault else 1
        rest.fault, rest.trouble = fault, trouble
        return rest.in_a_row

    def forgive(self) -> None:
        """No fault so far counts for the next one."""
        if self.rest is not None:
            self.rest.in_a_row, self.rest.fault = 0, None

    def well(self) -> None:
        """The last look met no fault."""
        if self.rest is not None:
            self.forgive()
            self.rest.trouble = None


class Waiter(Listener):
    """``wait``: wants the end only."""

    __slots__ = ("end",)

    def __init__(self, task_id: str, timeout: float | None) -> None:
        super().__init__((task_id,), timeout)
        self.end: asyncio.Future[VideoTask | Exception] = asyncio.get_running_loop().create_future()

    def ended(self, entry: Entry, end: VideoTask | Exception) -> None:
        # An error is a result too: an exception that a cancelled waiter never fetches would be complained about.
        if not self.end.done():
            self.end.set_result(end)


class Follower(Listener):
    """``watch``: holds the latest change that was not taken yet, however slow its reader is."""

    __slots__ = ("_error", "_is_ended", "_news", "_pending", "_shown")

    def __init__(self, task_id: str, timeout: float | None) -> None:
        super().__init__((task_id,), timeout)
        self._news = asyncio.Event()
        self._pending: VideoTask | None = None
        self._shown: VideoTask | None = None
        self._is_ended = False
        self._error: Exception | None = None

    def changed(self, task: VideoTask) -> None:
        self._pending = task
        self._news.set()

    def ended(self, entry: Entry, end: VideoTask | Exception) -> None:
        self._is_ended = True
        if isinstance(end, Exception):
            self._error = end
        else:
            self._pending = end
        self._news.set()

    async def next(self) -> VideoTask | None:
        """The next change; None at the end. Raises what ended the watch, after the last change."""
        while True:
            task, self._pending = self._pending, None
            if task is not None and task != self._shown:
                self._shown = task
                return task
            if self._is_ended:
                if self._error is not None:
                    raise own_copy(self._error)
                return None
            self._news.clear()
            await self._news.wait()


@frozen
class Outcome:
    """How one of many waits ended: what :meth:`Watcher.wait` would have returned or raised."""

    task_id: str
    task: VideoTask | None = None
    """The terminal task; with an error the task as it was seen last, if it was seen and kept."""
    error: VidgenError | None = None
    order_id: str | None = None
    """Of the order whose task it is, where the wait knew it."""

    @classmethod
    def of(cls, task: VideoTask) -> "Outcome":
        """The outcome of a terminal task."""
        return cls(task.id, task, failed_error(task) if task.status == "failed" else None)

    def unwrap(self) -> VideoTask:
        """The completed task, or raise the error."""
        if self.error is not None:
            raise self.error
        if self.task is None:
            message = f"there is neither a task nor an error for {self.task_id!r}"
            raise VidgenError(message)
        return self.task


class Gatherer(Listener):
    """``as_completed``: one listener for any number of tasks."""

    __slots__ = ("_late", "_news", "_ready", "_remaining", "keeps_tasks")

    def __init__(self, ids: Sequence[str], timeout: float | None) -> None:
        super().__init__(ids, timeout)
        self.keeps_tasks = len(ids) <= MOST_KEPT
        self._remaining = len(ids)
        self._ready: deque[Outcome] = deque()
        self._late: deque[Entry] = deque()
        self._news = asyncio.Event()

    def ended(self, entry: Entry, end: VideoTask | Exception) -> None:
        self._ready.append(_outcome(entry, end))
        self._news.set()

    def expired(self, entries: Sequence[Entry]) -> None:
        # A hundred thousand errors are not made at one go: each when its outcome is taken.
        self._late.extend(entries)
        self._news.set()

    async def next(self) -> Outcome | None:
        """The next outcome; None after the last."""
        if not self._remaining:
            return None
        while not self._ready and not self._late:
            self._news.clear()
            await self._news.wait()
        self._remaining -= 1
        if self._ready:
            return self._ready.popleft()
        entry = self._late.popleft()
        return _outcome(entry, late_error(entry, self.timeout))


def late_error(entry: Entry, timeout: float | None) -> WaitTimeoutError:
    """The error of a wait that took too long."""
    seen = "it was not seen yet" if entry.state is None else f"the last state seen was {entry.state!r}"
    trouble = f", the last look failed with {entry.trouble}" if entry.trouble else ""
    message = f"task {entry.task_id!r} was not terminal after {timeout or 0.0:g} s ({seen}{trouble}). " + (
        "Whether there is such a task is not known." if entry.state is None else "It still runs and is charged."
    )
    advice = f'Go on waiting with client.videos.wait("{entry.task_id}").'
    return WaitTimeoutError(message, task_id=entry.task_id, task=entry.task, advice=advice)


def failed_error(task: VideoTask) -> TaskFailedError:
    """The error of a task that ended as failed (section 7, rules 1 and 2)."""
    reason = excerpt(task.failure_reason or "", limit=LONGEST_REASON) or "no failure reason was given"
    return TaskFailedError(f"{reason}; check the refund in the credit ledger (task {task.id!r})", task=task)


def own_copy(error: E) -> E:
    """An error for one of many: one that all of them raised would collect all their tracebacks."""
    if not isinstance(error, VidgenError):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    return mine.with_traceback(error.__traceback__)


def _outcome(entry: Entry, end: VideoTask | Exception) -> Outcome:
    if not isinstance(end, Exception):
        return evolve(Outcome.of(end), task_id=entry.task_id)
    if isinstance(end, VidgenError):
        return Outcome(entry.task_id, entry.task, own_copy(end))
    error = VidgenError(f"task {entry.task_id!r} could not be looked at: {type(end).__name__}: {end}")
    error.__cause__ = end
    return Outcome(entry.task_id, entry.task, error)

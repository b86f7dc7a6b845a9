"""The listeners of watched tasks: a waiter, a follower, a gatherer."""

import asyncio
import copy
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar, cast

from attrs import evolve, field, frozen

from vidgen_async.errors import TaskFailedError, VidgenError, WaitTimeoutError
from vidgen_async.redaction.messages import excerpt
from vidgen_async.types.resources import KNOWN_STATES, VideoTask
from vidgen_async.watcher.schedule import Agenda

#: A failure reason is shown up to this length.
LONGEST_REASON = 1000

#: A gatherer of more tasks keeps only the states of those that are not terminal: a task as the service shows it is
#: far larger than everything else that is held for it.
MOST_KEPT = 10_000

#: The number of tasks, or listeners, that are processed in one turn of the event loop: a few milliseconds.
AT_ONCE = 250

E = TypeVar("E", bound=Exception)


class LastState(NamedTuple):
    """What is known of a watched task when its watch, or a listener's, ends."""

    task_id: str
    task: VideoTask | None = None
    """As it was seen last, where that was kept."""
    state: str | None = None
    """The last state seen; None: nothing seen yet."""
    trouble: str | None = None
    """The error of the last poll."""


class Listener:
    """Is notified by the watcher, which never waits for it. It may listen to many tasks."""

    __slots__ = ("ids", "is_over", "number", "timeout")

    keeps_tasks = True
    """Whether it needs the tasks as they were seen last."""

    def __init__(self, ids: Sequence[str], timeout: float | None) -> None:
        self.ids = ids
        self.timeout = timeout
        self.is_over = False
        """Whether its time is up."""
        self.number: int | None = None
        """Among those with a deadline."""

    def changed(self, task: VideoTask) -> None:
        """A task was seen to differ from what was seen before; it is not terminal."""

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        """The watch is over, with a terminal task or an error."""
        raise NotImplementedError

    def expired(self, seen: Sequence[LastState]) -> None:
        """The listener's time is up; it no longer listens to these."""
        for one in seen:
            self.ended(one, timeout_error(one, self.timeout))


class Deadlines:
    """The listeners whose time is limited, in the order in which it ends."""

    __slots__ = ("_agenda", "_free", "_listeners")

    def __init__(self) -> None:
        self._agenda = Agenda()
        self._listeners: list[Listener | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._agenda)

    def put(self, due: float, listener: Listener) -> None:
        if not self._free:
            self._free.append(len(self._listeners))
            self._listeners.append(None)
        listener.number = self._free.pop()
        self._listeners[listener.number] = listener
        self._agenda.put(due, listener.number)

    def remove(self, listener: Listener) -> None:
        """Nothing happens when it has no deadline, or was popped."""
        number, listener.number = listener.number, None
        if number is not None:
            self._agenda.remove(number)
            self._listeners[number] = None
            self._free.append(number)

    def first_due(self) -> float | None:
        return self._agenda.first_due()

    def pop(self) -> Listener:
        """Take the first one off; IndexError when there is none."""
        listener = cast("Listener", self._listeners[self._agenda.pop()])
        self.remove(listener)
        return listener


class Waiter(Listener):
    """``wait``: wants the end only."""

    __slots__ = ("end",)

    def __init__(self, task_id: str, timeout: float | None) -> None:
        super().__init__((task_id,), timeout)
        self.end: asyncio.Future[VideoTask | Exception] = asyncio.get_running_loop().create_future()

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
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

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
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
                    raise copy_error(self._error)
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
    state: str | None = field(default=None, eq=False)
    """The last state seen, also one that section 3 does not name; None: nothing was seen."""

    @classmethod
    def of(cls, task: VideoTask) -> "Outcome":
        """The outcome of a terminal task."""
        return cls(task.id, task, failed_error(task) if task.status == "failed" else None, state=task.status)

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

    __slots__ = ("_news", "_ready", "_remaining", "keeps_tasks")

    def __init__(self, ids: Sequence[str], timeout: float | None) -> None:
        super().__init__(ids, timeout)
        self.keeps_tasks = len(ids) <= MOST_KEPT
        self._remaining = len(ids)
        #: Tasks as they were seen, and how they ended; None: not in time.
        self._ready: deque[tuple[LastState, VideoTask | Exception | None]] = deque()
        self._news = asyncio.Event()

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        self._ready.append((seen, end))
        self._news.set()

    def expired(self, seen: Sequence[LastState]) -> None:
        self._ready.extend((one, None) for one in seen)
        self._news.set()

    async def next(self) -> Outcome | None:
        """The next outcome; None after the last. Errors are made one at a time: there may be a hundred thousand."""
        if not self._remaining:
            return None
        while not self._ready:
            self._news.clear()
            await self._news.wait()
        self._remaining -= 1
        seen, end = self._ready.popleft()
        return _outcome(seen, timeout_error(seen, self.timeout) if end is None else end)

    def dropping(self) -> Iterator[None]:
        """Nobody takes the details: in steps, since to free it takes as long as to make it."""
        while self._ready:
            for _ in range(min(AT_ONCE, len(self._ready))):
                self._ready.popleft()
            yield


def timeout_error(of: LastState, timeout: float | None) -> WaitTimeoutError:
    """The error of a wait that took too long."""
    seen = "no poll has succeeded yet" if of.state is None else f"the last state seen was {of.state!r}"
    trouble = f", the last poll failed with {of.trouble}" if of.trouble else ""
    message = f"task {of.task_id!r} was not terminal after {timeout or 0.0:g} s ({seen}{trouble}). {_now_of(of)}"
    advice = f'Go on waiting with client.videos.wait("{of.task_id}").'
    if of.state is not None and of.state not in KNOWN_STATES:
        advice += f' If that state is terminal, set Client(terminal_states={{"{of.state}": "failed"}}) or "completed".'
    return WaitTimeoutError(message, task_id=of.task_id, task=of.task, state=of.state, advice=advice)


def _now_of(of: LastState) -> str:
    """What is known of a task whose wait took too long."""
    if of.state is None:
        return "Whether there is such a task is not known."
    if of.state not in KNOWN_STATES:
        return "Section 3 of the service's description names no such state: whether the task has ended is not known."
    if of.trouble:
        return "How it is now is not known."
    return "It still runs and is charged."


def failed_error(task: VideoTask) -> TaskFailedError:
    """The error of a task that ended as failed (section 7, rules 1 and 2)."""
    reason = excerpt(task.failure_reason or "", limit=LONGEST_REASON) or "no failure reason was given"
    if "status" in task.extra:
        reason += f" (the service's state was {excerpt(str(task.extra['status']))!r})"
    return TaskFailedError(f"{reason}; check the refund in the credit ledger (task {task.id!r})", task=task)


def copy_error(error: E) -> E:
    """An error for one of many: one that all of them raised would collect all their tracebacks."""
    if not isinstance(error, VidgenError):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    return mine.with_traceback(error.__traceback__)


def _outcome(seen: LastState, end: VideoTask | Exception) -> Outcome:
    if not isinstance(end, Exception):
        return evolve(Outcome.of(end), task_id=seen.task_id)
    if isinstance(end, VidgenError):
        return Outcome(seen.task_id, seen.task, copy_error(end), state=seen.state)
    error = VidgenError(f"task {seen.task_id!r} could not be polled: {type(end).__name__}: {end}")
    error.__cause__ = end
    return Outcome(seen.task_id, seen.task, error, state=seen.state)

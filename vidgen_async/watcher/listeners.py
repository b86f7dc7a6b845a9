"""The listeners of watched tasks: one class each for ``wait``, ``watch`` and ``as_completed``; and how their tasks are
polled."""

import asyncio
import copy
import math
from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from attrs import Factory, define, evolve, field, frozen

from vidgen_async.errors import TaskFailedError, VidgenError, WaitTimeoutError
from vidgen_async.redaction.messages import excerpt, showable
from vidgen_async.types.resources import KNOWN_STATES, NO_REASON, TaskStatus, VideoTask, failure_text
from vidgen_async.types.serialization import Serializable
from vidgen_async.watcher.hooks import UpdateHooks
from vidgen_async.watcher.schedule import Agenda

#: The maximum length of a failure reason in a message.
LONGEST_REASON = 1000

#: A gatherer of more tasks stores only the states of those that are not terminal: a task is far larger than everything
#: else that is stored for it.
MOST_KEPT = 10_000

#: The number of tasks, or listeners, that are processed in one turn of the event loop: a few milliseconds.
AT_ONCE = 250

#: The number of listeners that time out in one turn: each of them is a task that then runs, and raises.
EXPIRE_AT_ONCE = 50

_LONGEST_TIMEOUT = 1e12

E = TypeVar("E", bound=Exception)

_wait_numbers = count(1)


class Poll(Protocol):
    """One GET for a task id: returns the task and a mark of the response. If the response has the mark that is passed,
    it returns None for the task. If the task is not needed and is not terminal, it may return its state instead.

    Polls that are sent with the same API key and headers are equal, so that waits share them.
    """

    def __call__(
        self, task_id: str, mark: int | None, *, is_task_needed: bool
    ) -> Awaitable[tuple[VideoTask | str | None, int | None]]: ...


@frozen
class Polling:
    """How a listener wants its tasks to be polled; None is the watcher's own way."""

    poll: Poll | None = None
    interval: float | None = None


#: The watcher's own way to poll.
OWN = Polling()

#: A task id, and the poll of it, unless that is the watcher's own.
TaskKey: TypeAlias = str | tuple[Poll, str]


def key_of(task_id: str, poll: Poll | None) -> TaskKey:
    """Return the key of a task. What one API key may see of it is separate from what another one may see."""
    return task_id if poll is None else (poll, task_id)


class LastState(NamedTuple):
    """What is known of a task when its watch ends, or the call of a listener."""

    task_id: str
    task: VideoTask | None = None
    """As it was seen last, if that was stored."""
    state: TaskStatus | None = None
    """The last state seen; None if no poll has succeeded."""
    trouble: str | None = None
    """The error of the last poll."""


@define(eq=False, repr=False, weakref_slot=False)
class Listener:
    """Is notified by the watcher, which never waits for it. It may have many tasks."""

    keeps_tasks = True
    """Whether it needs the tasks as they were seen last."""

    ids: Sequence[str]
    timeout: float | None
    hooks: UpdateHooks | None = None
    """Its own ``on_update``."""
    polling: Polling = OWN
    is_over: bool = field(init=False, default=False)
    """Whether its time limit was exceeded."""
    number: int | None = field(init=False, default=None)
    """Its number in :class:`Deadlines`."""
    wait_number: int = field(init=False, factory=partial(next, _wait_numbers))
    """Its number in events."""

    @property
    def has_ended(self) -> bool:
        """Whether all its tasks have ended, or its time limit was exceeded."""
        raise NotImplementedError

    def open_ids(self) -> Sequence[str]:
        """Return the ids of its tasks; those of tasks that have ended may be missing."""
        return self.ids

    def changed(self, task: VideoTask) -> None:
        """Handle a change of a task that is not terminal."""
        if self.hooks is not None:
            self.hooks.notify(task)

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        """Handle the end of the watch: a terminal task or an error."""
        if self.hooks is not None and not isinstance(end, Exception):
            self.hooks.notify(end)

    def expired(self, seen: Sequence[LastState]) -> None:
        """Handle the end of the time limit; the listener is not notified of these tasks any more."""
        for one in seen:
            self.ended(one, timeout_error(one, self.timeout))

    def dropping(self) -> Iterator[None]:
        """Drop what nobody reads, in steps, since that takes as long as to create it."""
        return iter(())


@define(eq=False)
class Deadlines:
    """The listeners that have a deadline, in the order of their deadlines."""

    _agenda: Agenda = field(init=False, factory=Agenda)
    _listeners: dict[int, Listener] = field(init=False, factory=dict)
    _free: list[int] = field(init=False, factory=list)
    """Numbers that are used again."""

    def put(self, listener: Listener, now: float) -> float | None:
        """Start the time limit of a listener, and return when it ends; None for never. NaN raises a ValueError."""
        if listener.timeout is None or listener.timeout > _LONGEST_TIMEOUT:
            return None
        if math.isnan(listener.timeout):
            raise ValueError("a timeout is a number of seconds or None, not NaN")
        due = now + max(listener.timeout, 0.0)
        listener.number = self._free.pop() if self._free else len(self._listeners)
        self._listeners[listener.number] = listener
        self._agenda.put(due, listener.number)
        return due

    def remove(self, listener: Listener) -> None:
        """Remove a listener; it has no effect if it has no deadline, or was popped."""
        number, listener.number = listener.number, None
        if number is not None:
            self._agenda.remove(number)
            del self._listeners[number]
            self._free.append(number)

    def first_due(self) -> float | None:
        return self._agenda.first_due()

    def pop(self) -> Listener:
        """Remove and return the first listener; IndexError if there is none."""
        listener = self._listeners[self._agenda.pop()]
        self.remove(listener)
        return listener


@define(eq=False, repr=False, weakref_slot=False)
class Waiter(Listener):
    """``wait``: needs only the end."""

    end: "asyncio.Future[VideoTask | Exception]" = field(
        init=False, default=Factory(lambda: asyncio.get_running_loop().create_future())
    )

    @property
    def has_ended(self) -> bool:
        return self.end.done() and not self.end.cancelled()

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        super().ended(seen, end)
        # An error is stored as a result: asyncio logs an exception that a cancelled waiter never retrieves.
        if not self.end.done():
            self.end.set_result(end)


@define(eq=False, repr=False, weakref_slot=False)
class Follower(Listener):
    """``watch``: stores only the latest change that was not read yet, however slow the reader is."""

    _news: asyncio.Event = field(init=False, factory=asyncio.Event)
    _pending: VideoTask | None = field(init=False, default=None)
    _shown: VideoTask | None = field(init=False, default=None)
    _end: VideoTask | Exception | None = field(init=False, default=None)

    @property
    def has_ended(self) -> bool:
        return self._end is not None and self._pending is None

    def changed(self, task: VideoTask) -> None:
        super().changed(task)
        self._pending = task
        self._news.set()

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        super().ended(seen, end)
        self._end = end
        if not isinstance(end, Exception):
            self._pending = end
        self._news.set()

    async def next(self) -> VideoTask | None:
        """Return the next change; None at the end. The error that ended the watch is raised after the last change."""
        while True:
            task, self._pending = self._pending, None
            if task is not None and task != self._shown:
                self._shown = task
                return task
            if isinstance(self._end, Exception):
                raise copy_error(self._end)
            if self._end is not None:
                return None
            self._news.clear()
            await self._news.wait()


@frozen
class Outcome(Serializable):
    """The result of one of many waits: what :meth:`Watcher.wait` would have returned or raised."""

    task_id: str
    task: VideoTask | None = None
    """The terminal task; with an error the task as it was seen last, if that was stored."""
    error: VidgenError | None = None
    order_id: str | None = None
    """The id of the task's order, if the wait knew it."""
    state: TaskStatus | None = field(default=None, eq=False)
    """The last state seen, also one that section 3 does not name; None if no poll succeeded."""
    path: Path | None = None
    """Where ``download_many`` has saved the video."""

    @classmethod
    def of(cls, task: VideoTask) -> "Outcome":
        """Return the outcome of a terminal task."""
        return cls(task.id, task, failed_error(task) if task.status == "failed" else None, state=task.status)

    def unwrap(self) -> VideoTask:
        """Return the completed task, or raise the error."""
        if self.error is not None:
            raise self.error
        if self.task is None:
            raise VidgenError(f"there is neither a task nor an error for {self.task_id!r}")
        return self.task


@define(eq=False, repr=False, weakref_slot=False)
class Gatherer(Listener):
    """``as_completed``: one listener for any number of tasks."""

    keeps_tasks: bool = field(init=False)
    _remaining: int = field(init=False)
    _ready: deque[tuple[LastState, VideoTask | Exception | None]] = field(init=False, factory=deque)
    """Tasks as they were seen, and their ends; None if the time limit was exceeded."""
    _news: asyncio.Event = field(init=False, factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.keeps_tasks = len(self.ids) <= MOST_KEPT or self.hooks is not None
        self._remaining = len(self.ids)

    @property
    def has_ended(self) -> bool:
        return not self._remaining

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        super().ended(seen, end)
        self._ready.append((seen, end))
        self._news.set()

    def expired(self, seen: Sequence[LastState]) -> None:
        self._ready.extend((one, None) for one in seen)
        self._news.set()

    async def next(self) -> Outcome | None:
        """Return the next outcome; None after the last. Errors are created one at a time: there may be very many."""
        while not self._ready:
            if not self._remaining:
                return None
            self._news.clear()
            await self._news.wait()
        self._remaining -= 1
        seen, end = self._ready.popleft()
        return _outcome(seen, timeout_error(seen, self.timeout) if end is None else end)

    def dropping(self) -> Iterator[None]:
        while self._ready:
            for _ in range(min(AT_ONCE, len(self._ready))):
                self._ready.popleft()
            yield


@define(eq=False, repr=False, weakref_slot=False)
class OpenGatherer(Gatherer):
    """``as_completed`` of tasks that are added while it runs. It knows only those that have not ended."""

    _open: dict[str, None] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.keeps_tasks = self.hooks is not None
        self._remaining = 1  # until there are no more to add

    def open_ids(self) -> Sequence[str]:
        return tuple(self._open)

    def add(self, task_id: str) -> bool:
        """Add a task. Return False if it is one that has not ended."""
        if task_id in self._open:
            return False
        self._open[task_id] = None
        self._remaining += 1
        return True

    def add_no_more(self) -> None:
        self._remaining -= 1
        self._news.set()

    def ended(self, seen: LastState, end: VideoTask | Exception) -> None:
        self._open.pop(seen.task_id, None)
        super().ended(seen, end)

    def expired(self, seen: Sequence[LastState]) -> None:
        for one in seen:
            self._open.pop(one.task_id, None)
        super().expired(seen)


def timeout_error(of: LastState, timeout: float | None) -> WaitTimeoutError:
    """Return the error of a wait that exceeded its time limit."""
    seen = "no poll has succeeded yet" if of.state is None else f"the last state seen was {of.state!r}"
    trouble = f", the last poll failed with {of.trouble}" if of.trouble else ""
    message = f"task {of.task_id!r} did not finish within {timeout or 0.0:g} s ({seen}{trouble}). {_now_of(of)}"
    advice = f'Go on waiting with client.videos.wait("{of.task_id}"); its timeout is the limit.'
    if of.state is not None and of.state not in KNOWN_STATES:
        advice += f' If that state is terminal, set Client(terminal_states={{"{of.state}": "failed"}}) or "completed".'
    return WaitTimeoutError(message, task_id=of.task_id, task=of.task, state=of.state, advice=advice)


def _now_of(of: LastState) -> str:
    """Return a sentence about the present state of a task whose wait exceeded its time limit."""
    if of.state is None:
        return "It is not known whether this task exists."
    if of.state not in KNOWN_STATES:
        return "Section 3 of the service's description has no such state: it is not known whether the task has ended."
    if of.trouble:
        return "Its present state is not known."
    return "It is still running and is charged."


def failed_error(task: VideoTask) -> TaskFailedError:
    """Return the error of a failed task."""
    reason = excerpt(task.failure_reason or "", limit=LONGEST_REASON) or NO_REASON
    if "status" in task.extra:
        reason += f" (the service's state was {excerpt(str(task.extra['status']))!r})"
    return TaskFailedError(f"{failure_text(reason)} (task {task.id!r})", task=task)


def copy_error(error: E) -> E:
    """Copy an error that several listeners raise: a shared one would collect all their tracebacks."""
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
    error = VidgenError(f"task {seen.task_id!r} could not be polled: {type(end).__name__}: {excerpt(str(end))}")
    error.__cause__ = showable(end)
    return Outcome(seen.task_id, seen.task, error, state=seen.state)

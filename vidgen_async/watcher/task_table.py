"""The watched tasks, stored in columns: no object for each."""

import asyncio
import math
from array import array
from collections.abc import Iterator
from typing import cast

from attrs import define, field

from vidgen_async.service.status_rules import PollFailure
from vidgen_async.types.resources import TaskStatus, VideoTask
from vidgen_async.watcher.listeners import LastState, Listener
from vidgen_async.watcher.poll_rules import GRACE
from vidgen_async.watcher.polling import Poll, TaskKey, key_of


@define(eq=False)
class TaskDetails:
    """What only some watched tasks need: new ones, failing ones, and those with several listeners."""

    accepted_at: float | None = None
    fault: PollFailure | None = None
    in_a_row: int = 0
    """The number of polls in a row that had this fault."""
    since: float = 0.0
    """The time of the first of them."""
    listeners: dict[Listener, None] = field(factory=dict)
    """All but the first one."""
    trouble: str | None = None
    """The error of the last poll."""
    warned: tuple[str, ...] = ()
    """The unknown states for which a warning was logged."""


class TaskTable:
    """The watched tasks by their ids, of which there may be hundreds of thousands. What one API key may see of a task
    is separate from what another one may see.

    A full pass of the garbage collector goes through every container there is, and delays all polls meanwhile: with an
    object for each task that is a third of a second at 100,000. So each task has a row in a few columns instead. The
    row of a dropped task is used again, so a poll compares the row's poller with its own when it has ended.
    """

    __slots__ = (
        "_extra", "_free", "_interval", "_rows",
        "delayed", "details", "firsts", "intervals", "marks", "pollers", "polls", "states", "task_ids", "tasks",
    )  # fmt: skip

    def __init__(self, interval: float = 60.0) -> None:
        self._interval = interval
        self._rows: dict[TaskKey, int] = {}
        self._free: list[int] = []
        self.task_ids: list[str] = []
        self.firsts: list[Listener | None] = []
        """The first listener; nearly every task has exactly one."""
        self.states: list[str | None] = []
        """The last state seen; None if no poll has succeeded."""
        self.marks = array("q")
        """The mark of the last response; 0 if there is none."""
        # Few rows have these.
        self.tasks = dict[int, VideoTask]()
        """The task as it was seen last, if a listener needs it."""
        self.pollers = dict[int, asyncio.Task[None]]()
        """The worker that polls the task now."""
        self.details = dict[int, TaskDetails]()
        self.polls = dict[int, Poll]()
        """With which it is polled, unless that is the watcher's own."""
        self.delayed = set[int]()
        """Those whose next poll waits for a ``first_poll_after``."""
        self.intervals = dict[int, float]()
        """The interval, unless it is the watcher's own."""
        self._extra = 0.0
        """How many more polls that makes in one interval of the watcher."""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the present rows, without those that have left when it is their turn."""
        rows = self._rows
        return (row for key in list(rows) if (row := rows.get(key)) is not None)

    def get(self, key: TaskKey) -> int | None:
        return self._rows.get(key)

    def key(self, row: int) -> TaskKey:
        return key_of(self.task_ids[row], self.polls.get(row))

    def add(self, task_id: str, poll: Poll | None = None) -> int:
        """Add a task, and return its row."""
        if self._free:
            row = self._free.pop()
            self.task_ids[row] = task_id
        else:
            row = len(self.task_ids)
            self.task_ids.append(task_id)
            self.firsts.append(None)
            self.states.append(None)
            self.marks.append(0)
        self._rows[key_of(task_id, poll)] = row
        if poll is not None:
            self.polls[row] = poll
        return row

    def leave(self, row: int) -> None:
        """Stop watching the task. What is known of it is kept until it comes back or is dropped."""
        del self._rows[self.key(row)]

    def come_back(self, row: int) -> None:
        """Watch the task again."""
        self._rows[self.key(row)] = row

    def drop(self, row: int) -> None:
        """Forget what is known of a task that has left."""
        self._free.append(row)
        if len(self._free) == len(self.task_ids):
            for column in (self._free, self.task_ids, self.firsts, self.states):
                column.clear()
            self.marks = array("q")
        else:
            self.task_ids[row] = ""
            self.firsts[row] = self.states[row] = None
            self.marks[row] = 0
        for few in (self.tasks, self.pollers, self.details, self.polls):
            few.pop(row, None)
        self.delayed.discard(row)
        self.set_interval(row, None)

    def last_state(self, row: int) -> LastState:
        details = self.details.get(row)
        trouble = None if details is None else details.trouble
        state = cast("TaskStatus | None", self.states[row])  # or another one, which LastState documents
        return LastState(self.task_ids[row], self.tasks.get(row), state, trouble)

    def make_details(self, row: int) -> TaskDetails:
        """Return the details of the task, made when they are first needed."""
        details = self.details.get(row)
        if details is None:
            details = self.details[row] = TaskDetails()
        return details

    # -- listeners ---------------------------------------------------------------------------------------------------

    def listeners(self, row: int) -> Iterator[Listener]:
        first, details = self.firsts[row], self.details.get(row)
        if first is not None:
            yield first
        if details is not None:
            yield from details.listeners

    def add_listener(self, row: int, listener: Listener) -> None:
        if self.firsts[row] in (None, listener):
            self.firsts[row] = listener
        else:
            self.make_details(row).listeners[listener] = None

    def discard_listener(self, row: int, listener: Listener) -> bool:
        """Remove a listener; return whether it was there."""
        if self.firsts[row] is listener:
            self.firsts[row] = None
            return True
        details = self.details.get(row)
        return details is not None and details.listeners.pop(listener, self) is None

    def has_listener(self, row: int) -> bool:
        return next(self.listeners(row), None) is not None

    def keeps_task(self, row: int) -> bool:
        """Return whether a listener needs the task that was seen last."""
        first, details = self.firsts[row], self.details.get(row)
        if first is not None and first.keeps_tasks:
            return True
        return details is not None and any(one.keeps_tasks for one in details.listeners)

    # -- polls -------------------------------------------------------------------------------------------------------

    @property
    def polls_per_interval(self) -> float:
        return len(self._rows) + self._extra

    def interval(self, row: int) -> float:
        return self.intervals.get(row, self._interval)

    def set_interval(self, row: int, interval: float | None) -> None:
        """Set the interval of a task; None is the watcher's own."""
        if (old := self.intervals.pop(row, None)) is not None:
            self._extra = self._extra - (self._interval / old - 1.0) if self.intervals else 0.0
        if interval is not None and interval != self._interval:
            self.intervals[row] = interval
            self._extra += self._interval / interval - 1.0

    def shortest_interval(self, row: int) -> float:
        """Return the shortest interval that a listener wants. None of them wants a shorter one than the present."""
        shortest = math.inf
        for one in self.listeners(row):
            shortest = min(shortest, one.polling.interval or self._interval)
            if shortest <= self.interval(row):
                break
        return self._interval if shortest == math.inf else shortest

    def set_accepted(self, row: int, at: float) -> None:
        """Note the clock's time of a receipt for the task; the latest one counts."""
        details = self.make_details(row)
        details.accepted_at = at if details.accepted_at is None else max(at, details.accepted_at)

    def count_fault(self, row: int, fault: PollFailure, trouble: str, now: float) -> tuple[int, float]:
        """Return how many polls in a row, including this one, had this fault, and for how many seconds."""
        details = self.make_details(row)
        if fault is not details.fault:
            details.in_a_row, details.since = 0, now
        details.in_a_row += 1
        details.fault, details.trouble = fault, trouble
        return details.in_a_row, now - details.since

    def reset_fault(self, row: int) -> None:
        """Count the next fault as the first in a row."""
        if (details := self.details.get(row)) is not None:
            details.fault = None

    def clear_fault(self, row: int, now: float) -> None:
        """Note that the last poll succeeded."""
        details = self.details.get(row)
        if details is None:
            return
        details.fault, details.trouble = None, None
        if not details.listeners and not details.warned and not self.is_new(row, now):
            del self.details[row]

    def is_new(self, row: int, now: float) -> bool:
        """Return whether the service may not know the task yet, so that a 404 proves nothing."""
        details = self.details.get(row)
        return details is not None and details.accepted_at is not None and now < details.accepted_at + GRACE

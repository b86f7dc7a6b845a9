"""The watched tasks, stored in columns: no object for each."""

import asyncio
from array import array
from collections.abc import Iterator

from vidgen_async.service.status_rules import Fault
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher.listeners import LastState, Listener
from vidgen_async.watcher.poll_rules import GRACE


class EntryDetails:
    """What only some watched tasks need: new ones, failing ones, and those with several listeners."""

    __slots__ = ("accepted_at", "fault", "in_a_row", "listeners", "since", "trouble", "warned")

    def __init__(self) -> None:
        self.accepted_at: float | None = None
        self.fault: Fault | None = None
        self.in_a_row = 0
        self.since = 0.0
        """When the first of them was met."""
        self.listeners: dict[Listener, None] = {}
        """All but the entry's first one."""
        self.trouble: str | None = None
        """The error of the last poll."""
        self.warned: tuple[str, ...] = ()
        """The unknown states for which a warning was logged."""


class TaskTable:
    """The watched tasks by their ids, of which there may be hundreds of thousands.

    A full pass of the garbage collector goes through every container there is, and holds up all polls meanwhile: with
    an object for each task that is a third of a second at 100,000. So each has a row in a few columns instead.
    """

    __slots__ = ("_free", "_rows", "details", "firsts", "marks", "pollers", "states", "task_ids", "tasks")

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self.task_ids: list[str] = []
        self.firsts: list[Listener | None] = []
        self.states: list[str | None] = []
        self.marks = array("q")
        # What few of them have.
        self.tasks: dict[int, VideoTask] = {}
        self.pollers: dict[int, asyncio.Task[None]] = {}
        self.details: dict[int, EntryDetails] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator["TaskEntry"]:
        """Over the entries of now, without those that have left when it comes to them."""
        rows = self._rows
        return (TaskEntry(self, row) for task_id in list(rows) if (row := rows.get(task_id)) is not None)

    def at(self, row: int) -> "TaskEntry":
        """The entry of a row that is in use."""
        return TaskEntry(self, row)

    def get(self, task_id: str) -> "TaskEntry | None":
        row = self._rows.get(task_id)
        return None if row is None else TaskEntry(self, row)

    def add(self, task_id: str) -> "TaskEntry":
        """A new entry."""
        if self._free:
            row = self._free.pop()
            self.task_ids[row] = task_id
        else:
            row = len(self.task_ids)
            self.task_ids.append(task_id)
            self.firsts.append(None)
            self.states.append(None)
            self.marks.append(0)
        self._rows[task_id] = row
        return TaskEntry(self, row)

    def leave(self, entry: "TaskEntry") -> None:
        """Its task is not watched any more; what is known of it is kept until it comes back or is dropped."""
        del self._rows[entry.task_id]

    def come_back(self, entry: "TaskEntry") -> None:
        """Its task is watched again."""
        self._rows[entry.task_id] = entry.row

    def drop(self, entry: "TaskEntry") -> None:
        """Forget what is known of a task that has left."""
        row = entry.row
        self._free.append(row)
        if len(self._free) == len(self.task_ids):
            for column in (self._free, self.task_ids, self.firsts, self.states):
                column.clear()
            self.marks = array("q")
        else:
            self.task_ids[row] = ""
            self.firsts[row] = self.states[row] = None
            self.marks[row] = 0
        for few in (self.tasks, self.pollers, self.details):
            few.pop(row, None)


class TaskEntry:
    """One watched task: its row. One that was dropped may be asked for its ``poller`` only: None, or a stranger's."""

    __slots__ = ("_all", "row")

    def __init__(self, entries: TaskTable, row: int) -> None:
        self._all = entries
        self.row = row

    @property
    def task_id(self) -> str:
        return self._all.task_ids[self.row]

    @property
    def state(self) -> str | None:
        """The last state seen; None: nothing seen yet."""
        return self._all.states[self.row]

    @state.setter
    def state(self, state: str) -> None:
        self._all.states[self.row] = state

    @property
    def mark(self) -> int | None:
        """Of the last answer."""
        return self._all.marks[self.row] or None

    @mark.setter
    def mark(self, mark: int | None) -> None:
        self._all.marks[self.row] = mark or 0

    @property
    def task(self) -> VideoTask | None:
        """As it was seen last, if a listener needs it."""
        return self._all.tasks.get(self.row)

    @task.setter
    def task(self, task: VideoTask | None) -> None:
        if task is None:
            self._all.tasks.pop(self.row, None)
        else:
            self._all.tasks[self.row] = task

    @property
    def poller(self) -> asyncio.Task[None] | None:
        """The worker that polls it now."""
        return self._all.pollers.get(self.row)

    @poller.setter
    def poller(self, poller: asyncio.Task[None] | None) -> None:
        if poller is None:
            self._all.pollers.pop(self.row, None)
        else:
            self._all.pollers[self.row] = poller

    @property
    def details(self) -> EntryDetails | None:
        return self._all.details.get(self.row)

    def make_details(self) -> EntryDetails:
        """Its details, made when they are first needed."""
        details = self.details
        if details is None:
            details = self._all.details[self.row] = EntryDetails()
        return details

    def last_state(self) -> LastState:
        details = self.details
        return LastState(self.task_id, self.task, self.state, None if details is None else details.trouble)

    # -- listeners: nearly every entry has exactly one ----------------------------------------------------------------

    @property
    def _first(self) -> Listener | None:
        return self._all.firsts[self.row]

    @property
    def is_deserted(self) -> bool:
        details = self.details
        return self._first is None and (details is None or not details.listeners)

    @property
    def keeps_task(self) -> bool:
        """Whether some listener wants the task that was seen last."""
        first = self._first
        if first is not None and first.keeps_tasks:
            return True
        details = self.details
        return details is not None and any(listener.keeps_tasks for listener in details.listeners)

    def listeners(self) -> Iterator[Listener]:
        first, details = self._first, self.details
        if first is not None:
            yield first
        if details is not None:
            yield from details.listeners

    def add(self, listener: Listener) -> None:
        first = self._first
        if first is None or first is listener:
            self._all.firsts[self.row] = listener
        else:
            self.make_details().listeners[listener] = None

    def has(self, listener: Listener) -> bool:
        details = self.details
        return self._first is listener or (details is not None and listener in details.listeners)

    def discard(self, listener: Listener) -> bool:
        """Whether it was there."""
        if self._first is listener:
            self._all.firsts[self.row] = None
            return True
        details = self.details
        return details is not None and details.listeners.pop(listener, self) is None

    # -- looks -------------------------------------------------------------------------------------------------------

    def accepted(self, at: float) -> None:
        """The clock's time of a receipt for it: the latest counts."""
        details = self.make_details()
        details.accepted_at = at if details.accepted_at is None else max(at, details.accepted_at)

    def count_fault(self, fault: Fault, trouble: str, now: float) -> tuple[int, float]:
        """How many polls in a row, this one included, met this fault, and for how many seconds."""
        details = self.make_details()
        if fault is not details.fault:
            details.in_a_row, details.since = 0, now
        details.in_a_row += 1
        details.fault, details.trouble = fault, trouble
        return details.in_a_row, now - details.since

    def reset_fault(self) -> None:
        """No fault so far counts for the next one."""
        details = self.details
        if details is not None:
            details.in_a_row, details.fault = 0, None

    def clear_fault(self, now: float) -> None:
        """The last poll succeeded."""
        details = self.details
        if details is None:
            return
        details.in_a_row, details.fault, details.trouble = 0, None, None
        if not details.listeners and not details.warned and not self.is_new(now):
            del self._all.details[self.row]

    def is_new(self, now: float) -> bool:
        """Whether a 404 is not to be believed yet."""
        details = self.details
        return details is not None and details.accepted_at is not None and now < details.accepted_at + GRACE

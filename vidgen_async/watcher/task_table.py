"""What is kept for the watched tasks: columns, and no object for each."""

import asyncio
from array import array
from collections.abc import Iterator

from vidgen_async.service.status_rules import Fault
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher.listeners import Listener, Seen
from vidgen_async.watcher.poll_rules import GRACE


class Rest:
    """What only some watched tasks need: those that are new, in trouble, or waited for by several."""

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
        """What the last look failed with."""
        self.warned: tuple[str, ...] = ()
        """The unknown states that were warned about."""


class Entries:
    """The watched tasks by their ids, of which there may be hundreds of thousands.

    A full pass of the garbage collector goes through every container there is, and holds up all polls meanwhile: with
    an object for each task that is a third of a second at 100,000. So each has a row in a few columns instead.
    """

    __slots__ = ("_free", "_rows", "firsts", "marks", "pollers", "rests", "states", "task_ids", "tasks")

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
        self.rests: dict[int, Rest] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator["Entry"]:
        """Over the entries of now, without those that have left when it comes to them."""
        rows = self._rows
        return (Entry(self, row) for task_id in list(rows) if (row := rows.get(task_id)) is not None)

    def at(self, row: int) -> "Entry":
        """The entry of a row that is in use."""
        return Entry(self, row)

    def get(self, task_id: str) -> "Entry | None":
        row = self._rows.get(task_id)
        return None if row is None else Entry(self, row)

    def add(self, task_id: str) -> "Entry":
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
        return Entry(self, row)

    def leave(self, entry: "Entry") -> None:
        """Its task is not watched any more; what is known of it is kept until it comes back or is dropped."""
        del self._rows[entry.task_id]

    def come_back(self, entry: "Entry") -> None:
        """Its task is watched again."""
        self._rows[entry.task_id] = entry.row

    def drop(self, entry: "Entry") -> None:
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
        for few in (self.tasks, self.pollers, self.rests):
            few.pop(row, None)


class Entry:
    """One watched task: its row. One that was dropped may be asked for its ``poller`` only: None, or a stranger's."""

    __slots__ = ("_all", "row")

    def __init__(self, entries: Entries, row: int) -> None:
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
        """As it was seen last, where somebody wants it."""
        return self._all.tasks.get(self.row)

    @task.setter
    def task(self, task: VideoTask | None) -> None:
        if task is None:
            self._all.tasks.pop(self.row, None)
        else:
            self._all.tasks[self.row] = task

    @property
    def poller(self) -> asyncio.Task[None] | None:
        """Who looks at it now."""
        return self._all.pollers.get(self.row)

    @poller.setter
    def poller(self, poller: asyncio.Task[None] | None) -> None:
        if poller is None:
            self._all.pollers.pop(self.row, None)
        else:
            self._all.pollers[self.row] = poller

    @property
    def rest(self) -> Rest | None:
        return self._all.rests.get(self.row)

    def more(self) -> Rest:
        """Its rest, made when it is first needed."""
        rest = self.rest
        if rest is None:
            rest = self._all.rests[self.row] = Rest()
        return rest

    def seen(self) -> Seen:
        rest = self.rest
        return Seen(self.task_id, self.task, self.state, None if rest is None else rest.trouble)

    # -- listeners: nearly every entry has exactly one ----------------------------------------------------------------

    @property
    def _first(self) -> Listener | None:
        return self._all.firsts[self.row]

    @property
    def is_deserted(self) -> bool:
        rest = self.rest
        return self._first is None and (rest is None or not rest.listeners)

    @property
    def keeps_task(self) -> bool:
        """Whether some listener wants the task that was seen last."""
        first = self._first
        if first is not None and first.keeps_tasks:
            return True
        rest = self.rest
        return rest is not None and any(listener.keeps_tasks for listener in rest.listeners)

    def listeners(self) -> Iterator[Listener]:
        first, rest = self._first, self.rest
        if first is not None:
            yield first
        if rest is not None:
            yield from rest.listeners

    def add(self, listener: Listener) -> None:
        first = self._first
        if first is None or first is listener:
            self._all.firsts[self.row] = listener
        else:
            self.more().listeners[listener] = None

    def has(self, listener: Listener) -> bool:
        rest = self.rest
        return self._first is listener or (rest is not None and listener in rest.listeners)

    def discard(self, listener: Listener) -> bool:
        """Whether it was there."""
        if self._first is listener:
            self._all.firsts[self.row] = None
            return True
        rest = self.rest
        return rest is not None and rest.listeners.pop(listener, self) is None

    # -- looks -------------------------------------------------------------------------------------------------------

    def accepted(self, at: float) -> None:
        """The clock's time of a receipt for it: the latest counts."""
        rest = self.more()
        rest.accepted_at = at if rest.accepted_at is None else max(at, rest.accepted_at)

    def strike(self, fault: Fault, trouble: str, now: float) -> tuple[int, float]:
        """How many polls in a row, this one included, met this fault, and for how many seconds."""
        rest = self.more()
        if fault is not rest.fault:
            rest.in_a_row, rest.since = 0, now
        rest.in_a_row += 1
        rest.fault, rest.trouble = fault, trouble
        return rest.in_a_row, now - rest.since

    def forgive(self) -> None:
        """No fault so far counts for the next one."""
        rest = self.rest
        if rest is not None:
            rest.in_a_row, rest.fault = 0, None

    def well(self, now: float) -> None:
        """The last look met no fault."""
        rest = self.rest
        if rest is None:
            return
        rest.in_a_row, rest.fault, rest.trouble = 0, None, None
        if not rest.listeners and not rest.warned and not self.is_new(now):
            del self._all.rests[self.row]

    def is_new(self, now: float) -> bool:
        """Whether a 404 is not to be believed yet."""
        rest = self.rest
        return rest is not None and rest.accepted_at is not None and now < rest.accepted_at + GRACE

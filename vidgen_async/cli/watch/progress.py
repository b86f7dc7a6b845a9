"""What ``vidgen watch`` knows about its tasks. Counts are updated with each change: nothing scans all tasks."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from attrs import define, field

from vidgen_async import Outcome
from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.terminal.exit_codes import Exit, exit_code
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.errors import TaskFailedError
from vidgen_async.types import VideoTask, failure_text, kind_of

NOT_POLLED = "not polled yet"
#: The service may return any string as a state.
MAX_STATE_LENGTH = 20
_OTHERS = "other states"
_SEQUENCE = ("completed", "failed", "running", "queued", _OTHERS, NOT_POLLED)
#: The sequence in which counts are shown.
_RANKS = {state: rank for rank, state in enumerate(_SEQUENCE)}


@define(eq=False)
class TaskRow:
    """The last known state of one task."""

    task_id: str
    order_id: str | None = None
    state: str = NOT_POLLED
    is_finished: bool = False
    has_failed: bool = False
    """The task failed, or its watch ended with an error."""
    detail: str = ""
    """The failure reason, the error's message, or the cost."""
    changed_at: datetime | None = None


@define(eq=False)
class WatchProgress:
    """All watched tasks by id. ``failed`` is in order of failure; ``changed`` are the others that were polled, the last
    change last."""

    rows: dict[str, TaskRow]
    failed: dict[str, TaskRow] = field(factory=dict)
    changed: dict[str, TaskRow] = field(factory=dict)
    states: Counter[str] = field(factory=Counter)
    finished: int = 0
    exit_codes: set[Exit] = field(factory=set)
    """Those of the tasks that failed."""

    @classmethod
    def of(cls, orders: Mapping[str, str | None]) -> "WatchProgress":
        """The progress of these task ids, each with its order id where that is known."""
        rows = {task_id: TaskRow(task_id, order_id) for task_id, order_id in orders.items()}
        return cls(rows, states=Counter({NOT_POLLED: len(rows)} if rows else {}))

    def record(self, update: VideoTask | Outcome, now: datetime) -> TaskRow | None:
        """Record a change of a task, or how its watch ended; return its row, or None where nothing changed."""
        task, error = task_of(update), update.error if isinstance(update, Outcome) else None
        if error is not None:
            self.exit_codes.add(exit_code(error, Stage.WAIT))
        row = self.rows.get(update.task_id if isinstance(update, Outcome) else update.id)
        if row is None or row.is_finished:
            return None
        self.states[row.state] -= 1
        if task is not None:
            row.state = clean(task.status or "no state")[:MAX_STATE_LENGTH]
            row.is_finished, row.has_failed = task.is_terminal, task.status == "failed"
            row.detail, row.changed_at = _detail(task), task.updated_at or now
        elif error is not None:
            row.state, row.detail = kind_of(error).replace("_", " "), clean(error.summary)
            row.is_finished, row.has_failed, row.changed_at = True, True, now
        self.states[row.state] += 1
        self.finished += row.is_finished
        self.changed.pop(row.task_id, None)
        (self.failed if row.has_failed else self.changed)[row.task_id] = row
        return row

    def counts(self) -> list[tuple[str, int]]:
        """How many tasks are in each state: terminal states first, tasks that were not polled last."""
        counts = [(state, number) for state, number in self.states.items() if number]
        return sorted(counts, key=lambda count: (_RANKS.get(count[0], _RANKS[_OTHERS]), -count[1]))

    def __str__(self) -> str:
        total = len(self.rows)
        states = ", ".join(f"{number:,} {state}" for state, number in self.counts())
        return f"{total:,} {'task' if total == 1 else 'tasks'}: {states}"


def task_of(update: VideoTask | Outcome) -> VideoTask | None:
    """The task as it is now; None where its watch ended with an error."""
    if isinstance(update, Outcome):
        return update.task if update.error is None or isinstance(update.error, TaskFailedError) else None
    return update


def _detail(task: VideoTask) -> str:
    if task.status == "failed":
        return clean(failure_text(task.failure_reason))
    if task.failure_reason:
        return clean(task.failure_reason)
    return f"{task.points} points" if task.is_terminal and task.points is not None else ""

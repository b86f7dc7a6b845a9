"""The board of ``vidgen watch``: what was seen of each task. What is asked of it often is kept as changes come, so that
nothing is sorted or counted over all tasks."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from attrs import define, field

from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.terminal.exit_reports import Exit, exit_code
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.cli.terminal.json_documents import kind_of
from vidgen_async.errors import TaskFailedError, VidgenError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome

NOT_SEEN = "not seen yet"
#: What a state's name is cut to: the service may make up any.
LONGEST_STATE = 20


@define(eq=False)
class Row:
    """One task as it was seen last."""

    task_id: str
    order_id: str | None = None
    state: str = NOT_SEEN
    is_over: bool = False
    has_failed: bool = False
    """It failed, or was lost: it could not be watched to its end."""
    detail: str = ""
    changed_at: datetime | None = None
    """When the service changed it last, as it says, else when that was seen; None: it was not seen yet."""

    def saw(self, task: VideoTask, now: datetime) -> None:
        self.state = clean(task.status or "no state told")[:LONGEST_STATE]
        self.is_over, self.has_failed = task.is_terminal, task.status == "failed"
        self.detail, self.changed_at = _detail(task), task.updated_at or now

    def lost(self, error: VidgenError, now: datetime) -> None:
        self.state, self.detail = kind_of(error).replace("_", " "), clean(error.summary)
        self.is_over = self.has_failed = True
        self.changed_at = now


@define(eq=False)
class Board:
    """The tasks that are watched. ``failed`` is in the order in which they failed; ``others`` as they were given;
    ``changed`` those others that were seen, what changed last as the last."""

    rows: dict[str, Row] = field(factory=dict)
    failed: dict[str, Row] = field(factory=dict)
    others: dict[str, Row] = field(factory=dict)
    changed: dict[str, Row] = field(factory=dict)
    states: Counter[str] = field(factory=Counter)
    bad_states: set[str] = field(factory=set)
    """The states of those that failed."""
    over: int = 0
    codes: set[Exit] = field(factory=set)
    """The exit codes of those that failed."""

    @classmethod
    def of(cls, orders: Mapping[str, str | None]) -> "Board":
        """Of these task ids, each with its order where that is known."""
        rows = {task_id: Row(task_id, order_id) for task_id, order_id in orders.items()}
        return cls(rows, others=dict(rows), states=Counter({NOT_SEEN: len(rows)} if rows else {}))

    def saw(self, task_id: str, task: VideoTask, now: datetime) -> Row | None:
        """A change of a task; its row, or None where that is not watched or over already."""
        row = self.rows.get(task_id)
        if row is None or row.is_over:
            return None
        before = row.state
        row.saw(task, now)
        self._moved(row, before)
        return row

    def ended(self, outcome: Outcome, now: datetime) -> Row | None:
        """How a task ended; its row, unless that end was seen before."""
        row, error = self.rows[outcome.task_id], outcome.error
        if error is not None:
            self.codes.add(exit_code(error, Stage.WAIT))
        if outcome.task is not None and (error is None or isinstance(error, TaskFailedError)):
            return self.saw(row.task_id, outcome.task, now)
        if error is None or row.is_over:
            return None
        before = row.state
        row.lost(error, now)
        self._moved(row, before)
        return row

    @property
    def unended(self) -> list[Row]:
        """Those that were not seen to end."""
        return [row for row in self.others.values() if not row.is_over]

    def count(self) -> str:
        """How many are in which state."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.counts())
        return f"{len(self.rows):,} {'task' if len(self.rows) == 1 else 'tasks'}{states and f': {states}'}"

    def counts(self) -> list[tuple[str, int]]:
        """Each state with how many are in it: ends first, those not seen last."""
        return sorted(((state, number) for state, number in self.states.items() if number), key=_rank)

    def _moved(self, row: Row, before: str) -> None:
        self.states[before] -= 1
        self.states[row.state] += 1
        self.over += row.is_over
        self.changed.pop(row.task_id, None)
        if row.has_failed:
            del self.others[row.task_id]
            self.failed[row.task_id] = row
            self.bad_states.add(row.state)
        else:
            self.changed[row.task_id] = row


_RANKS = {state: rank for rank, state in enumerate(("completed", "failed", "running", "queued"))}


def _rank(counted: tuple[str, int]) -> tuple[int, int]:
    state, number = counted
    return (len(_RANKS) + 1 if state == NOT_SEEN else _RANKS.get(state, len(_RANKS)), -number)


def _detail(task: VideoTask) -> str:
    if task.failure_reason:
        return clean(task.failure_reason)
    return f"{task.points} points" if task.is_terminal and task.points is not None else ""

"""What ``vidgen watch`` knows about its tasks, and how a terminal shows it: the live view, and the summary that stays.
Counts are updated with each change: nothing scans all tasks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from attrs import define, field
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vidgen_async import Outcome
from vidgen_async.cli.run_state import Exit, Stage, exit_code
from vidgen_async.cli.terminal import formatting
from vidgen_async.cli.terminal.formatting import View, clean, seconds
from vidgen_async.cli.terminal.result_output import style_of
from vidgen_async.errors import TaskFailedError
from vidgen_async.types import CHECK_REFUND, VideoTask, WatcherStats, failure_text, kind_of

#: The summary lists at most this many of the tasks that failed.
MAX_LISTED = 20
#: Order ids are shown if this many columns of the terminal are left for the rest of their rows.
_OTHER_COLUMNS = 60
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
    """All watched tasks by id: ``failed`` in order, ``changed`` the others, the last change last."""

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


def one_line(text: str | Text, style: str = "") -> Text:
    """Text on one line, which is cut if it is too long."""
    line = Text(text, style) if isinstance(text, str) else text
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def live_view(
    progress: WatchProgress, stats: WatcherStats, interval: float, pause: float, size: tuple[int, int], now: datetime
) -> Group:
    """What a terminal shows; ``interval`` is the requested one, ``pause`` the seconds left after a 429."""
    width, height = size
    done = progress_line("finished", progress.finished, len(progress.rows))
    head: list[RenderableType] = [done, _counts_line(progress)]
    head += [one_line(text, style) for text, style in _polling_lines(stats, interval, pause, now)]
    rows = _select(progress, max(height - len(head) - 2, 0))
    hidden = len(progress.rows) - len(rows)
    note = [one_line(f"… and {hidden:,} more tasks", "dim")] if hidden else []
    return Group(*head, _table(rows, width, now), *note)


def progress_line(what: str, done: int, total: int) -> Table:
    """How many are done, as a number and a bar."""
    grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True)
    percent = 100 * done // max(total, 1)
    grid.add_row(Text(f"{done:,} of {total:,} {what}", "bold"), ProgressBar(total, done), f"{percent}%")
    return grid


def _counts_line(progress: WatchProgress) -> Text:
    counts = [Text(f"{number:,} {state}", style=_style(state)) for state, number in progress.counts()]
    if progress.states["failed"]:  # the reasons in the table may be cut
        counts.append(Text(CHECK_REFUND, style=_style("failed")))
    return one_line(Text(" · ").join(counts))


def _polling_lines(stats: WatcherStats, interval: float, pause: float, now: datetime) -> Iterator[tuple[str, str]]:
    """How the polling goes and what holds it up, each line with its style."""
    rate = f"{stats.polls_per_second:,.1f} polls/s · each task every {stats.interval_now:.3g} s"
    yield f"{rate} · lateness (p99): {seconds(stats.lateness_p99)}", "dim"
    if pause:
        until = (now + timedelta(seconds=pause)).astimezone()
        yield f"polling paused until {until:%H:%M:%S} ({seconds(pause)} left): the service answered 429", "yellow"
    if stats.interval_now > interval * 1.1:
        yield f"polls are behind schedule: tasks are polled less often than every {interval:.3g} s", "yellow"
    if stats.errors:
        errors = sorted(stats.errors.items(), key=lambda error: -error[1])
        yield f"failed polls: {', '.join(f'{clean(name)} {count:,}' for name, count in errors)}", "dim"


def _select(progress: WatchProgress, room: int) -> Sequence[TaskRow]:
    """At most ``room`` rows: all if they fit, else the latest failures, in half of it or more, and changes."""
    if len(progress.rows) <= room:
        return list(progress.rows.values())
    others = list(islice(reversed(progress.changed.values()), room))
    failed = list(islice(reversed(progress.failed.values()), max(room - len(others), room // 2)))
    return [*failed, *others][:room]


def _table(rows: Sequence[TaskRow], width: int, now: datetime) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    longest = max((cell_len(clean(row.order_id or "")) for row in rows), default=0)
    has_orders = 0 < longest <= max(width - _OTHER_COLUMNS, 8)
    table.add_column("task", no_wrap=True)
    if has_orders:
        table.add_column("order", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=len("completed"))
    table.add_column("changed", no_wrap=True)
    table.add_column("", no_wrap=True, ratio=1)
    for row in rows:
        state = Text(row.state, style="red" if row.has_failed else _style(row.state))
        order = (Text(clean(row.order_id or "")),) if has_orders else ()
        table.add_row(Text(clean(row.task_id)), *order, state, _local(row.changed_at, now), one_line(row.detail))
    return table


def summary(progress: WatchProgress, duration: float) -> View:
    """What is printed when the watch ends: how many tasks are in each state, and why tasks failed."""
    count = f"{progress}; watched for {seconds(duration)}"
    failed = list(islice(progress.failed.values(), MAX_LISTED))
    if not failed:
        return count
    has_orders = any(row.order_id for row in failed)
    rows = tuple((row.task_id, *((row.order_id or "",) if has_orders else ()), row.state, row.detail) for row in failed)
    more = len(progress.failed) - len(rows)
    notes = (f"… and {more:,} more that failed; the same command with --json lists them all",) if more else ()
    names = ("task", *(("order",) if has_orders else ()), "state", "reason")
    return formatting.Table(names=names, rows=rows, notes=(*notes, count))


def _style(state: str) -> str:
    return "dim" if state == NOT_POLLED else style_of(state)


def _local(when: datetime | None, now: datetime) -> str:
    """The local time of day, or the date where that is another day."""
    if when is None:
        return ""
    when, now = when.astimezone(), now.astimezone()
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d}"

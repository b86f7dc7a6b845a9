"""How ``vidgen watch`` shows its tasks on a terminal: the live view, and the summary that stays."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vidgen_async.cli.terminal import views
from vidgen_async.cli.terminal.formatting import clean, seconds
from vidgen_async.cli.terminal.result_output import style_of
from vidgen_async.cli.watch.progress import NOT_POLLED, TaskRow, WatchProgress
from vidgen_async.types import CHECK_REFUND, WatcherStats

#: The summary lists at most this many of the tasks that failed.
MAX_LISTED = 20
#: Order ids are shown if this many columns of the terminal are left for the rest of their rows.
_OTHER_COLUMNS = 60


def _line(text: str | Text, style: str = "") -> Text:
    """Text on one line, which is cut if it is too long."""
    line = Text(text, style) if isinstance(text, str) else text
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def live_view(
    progress: WatchProgress, stats: WatcherStats, interval: float, pause: float, size: tuple[int, int], now: datetime
) -> Group:
    """How many tasks are finished, how the polling goes, and as many tasks as fit. ``interval`` is the requested
    polling interval; ``pause`` the seconds left of a pause after a 429, 0 without one."""
    width, height = size
    head: list[RenderableType] = [_progress_line(progress), _counts_line(progress)]
    head += [_line(text, style) for text, style in _polling_lines(stats, interval, pause, now)]
    rows = _select(progress, max(height - len(head) - 2, 0))
    hidden = len(progress.rows) - len(rows)
    note = [_line(f"… and {hidden:,} more tasks", "dim")] if hidden else []
    return Group(*head, _table(rows, width, now), *note)


def _progress_line(progress: WatchProgress) -> Table:
    total, finished = len(progress.rows), progress.finished
    line = Table.grid(expand=True, padding=(0, 1, 0, 0))
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(no_wrap=True)
    percent = 100 * finished // max(total, 1)
    line.add_row(Text(f"{finished:,} of {total:,} finished", "bold"), ProgressBar(total, finished), f"{percent}%")
    return line


def _counts_line(progress: WatchProgress) -> Text:
    counts = [Text(f"{number:,} {state}", style=_style(state)) for state, number in progress.counts()]
    if progress.states["failed"]:  # the reasons in the table may be cut
        counts.append(Text(CHECK_REFUND, style=_style("failed")))
    return _line(Text(" · ").join(counts))


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
    """At most ``room`` rows: all in the order given if they fit; else the latest failures, in at least half of the
    room, and the latest changes."""
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
        table.add_row(Text(clean(row.task_id)), *order, state, _local(row.changed_at, now), _line(row.detail))
    return table


def summary(progress: WatchProgress, duration: float) -> views.View:
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
    return views.Table(names=names, rows=rows, notes=(*notes, count))


def _style(state: str) -> str:
    return "dim" if state == NOT_POLLED else style_of(state)


def _local(when: datetime | None, now: datetime) -> str:
    """The local time of day, or the date where that is another day."""
    if when is None:
        return ""
    when, now = when.astimezone(), now.astimezone()
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d}"

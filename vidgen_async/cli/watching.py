"""``vidgen watch``: many tasks at once, as a live table or as lines."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, aclosing
from datetime import UTC, datetime
from typing import TypeAlias

from attrs import define, field
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from vidgen_async.cli.documents import change_document, kind_of
from vidgen_async.cli.formats import age, clean
from vidgen_async.cli.journey import Stage
from vidgen_async.cli.printing import Document, Table, columns, table_for
from vidgen_async.cli.words import Exit, TasksFailedError, exit_code
from vidgen_async.cli.work import Errand
from vidgen_async.errors import VidgenError
from vidgen_async.resources import VideoTask

#: Lines of a live table that are not tasks: its head, its count, and room for the cursor.
OTHER_LINES = 3
NOT_SEEN = "not seen yet"


@define
class Row:
    """One task as it was seen last."""

    task_id: str
    order_id: str | None = None
    state: str = NOT_SEEN
    is_over: bool = False
    detail: str = ""
    seen_at: datetime = field(factory=lambda: datetime.now(UTC))
    changed_at: datetime | None = None
    """When the service changed it last; None: it does not say."""

    def saw(self, task: VideoTask) -> None:
        self.state, self.is_over, self.detail = task.status or "no state told", task.is_terminal, _detail(task)
        self.seen_at, self.changed_at = datetime.now(UTC), task.updated_at

    def failed(self, error: VidgenError) -> None:
        self.state, self.is_over, self.detail = kind_of(error).replace("_", " "), True, error.summary
        self.seen_at, self.changed_at = datetime.now(UTC), None

    @property
    def since(self) -> datetime:
        return self.changed_at or self.seen_at


@define
class Board:
    """The tasks that are watched."""

    rows: dict[str, Row]
    with_orders: bool = False

    def table(self, height: int, now: datetime) -> Table:
        """As many tasks as fit: those that go on first, then those that ended last."""
        going = [row for row in self.rows.values() if not row.is_over]
        over = sorted((row for row in self.rows.values() if row.is_over), key=lambda row: row.since, reverse=True)
        shown = [*going, *over][: max(height - OTHER_LINES, 1)]
        names = ("task", *(("order",) if self.with_orders else ()), "state", "for", "last change", "")
        rows = tuple(
            (
                row.task_id,
                *((row.order_id or "",) if self.with_orders else ()),
                row.state,
                "" if row.is_over else age(row.since, now),
                "" if row.state == NOT_SEEN else _local(row.since, now),
                row.detail,
            )
            for row in shown
        )
        return Table(columns=columns(*names, numbers=("for",), long=("",), optional=("order",)), rows=rows)

    def count(self) -> str:
        """How many are in which state."""
        states = Counter(row.state for row in self.rows.values())
        return f"{len(self.rows)} {'task' if len(self.rows) == 1 else 'tasks'}: " + ", ".join(
            f"{number} {state}" for state, number in states.most_common()
        )


Tell: TypeAlias = Callable[[Row, Document], None]
"""Is told of every change."""


async def watch(errand: Errand, orders: Mapping[str, str | None], *, is_live: bool) -> None:
    """Show every change until all tasks are over: ``is_live`` as a table that is drawn anew, else as lines. ``orders``
    tells the order of each task id, where it is known.

    TasksFailedError when some failed, or could not be watched to their end.
    """
    errand.journey.stage = Stage.WATCH
    board = Board(
        {task_id: Row(task_id, order_id) for task_id, order_id in orders.items()},
        with_orders=any(orders.values()),
    )
    errors: list[VidgenError | None] = []
    with _display(errand, board, is_live=is_live) as tell:
        try:
            async with asyncio.TaskGroup() as group:
                for row in board.rows.values():
                    group.create_task(_follow(errand, row, tell, errors))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the first stopped all others
    _sum_up(errand, board, errors)


async def _follow(errand: Errand, row: Row, tell: Tell, errors: list[VidgenError | None]) -> None:
    try:
        async with aclosing(errand.client.videos.watch(row.task_id, timeout=errand.timeout)) as changes:
            async for task in changes:
                row.saw(task)
                tell(row, change_document(task, row.seen_at, row.order_id))
    except VidgenError as error:
        row.failed(error)
        document = {"kind": kind_of(error), "message": error.summary, "task_id": row.task_id}
        tell(row, {"task_id": row.task_id, "order_id": row.order_id, "status": None, "error": document})
        errors.append(error)
        return
    if task.status == "failed":
        errors.append(None)


def _display(errand: Errand, board: Board, *, is_live: bool) -> AbstractContextManager[Tell]:
    if not is_live:
        return _Lines(errand)
    return _LiveTable(board, Console(highlight=False, markup=False, emoji=False))


def _sum_up(errand: Errand, board: Board, errors: list[VidgenError | None]) -> None:
    if not errors:
        return
    codes = {Exit.FAILED if error is None else exit_code(error, Stage.WAIT) for error in errors}
    message = f"{len(errors)} of {len(board.rows)} tasks did not end as completed"
    raise TasksFailedError(message, code=codes.pop() if len(codes) == 1 else Exit.FAILED)


def _detail(task: VideoTask) -> str:
    if task.failure_reason:
        return clean(task.failure_reason)
    return f"{task.points} points" if task.is_terminal and task.points is not None else ""


def _local(when: datetime, now: datetime) -> str:
    """The time of day here, or the day where that is another."""
    when, now = when.astimezone(), now.astimezone()
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d}"


class _Lines:
    """A line for each change."""

    def __init__(self, errand: Errand) -> None:
        self._errand = errand

    def __enter__(self) -> Tell:
        return self._tell

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def _tell(self, row: Row, document: Document) -> None:
        at = f"{row.seen_at:%Y-%m-%dT%H:%M:%SZ}"
        facts = (at, row.task_id, row.state, row.detail, row.order_id and f"(order {row.order_id})")
        self._errand.screen.show(" ".join(fact for fact in facts if fact), document)


class _LiveTable:
    """The board, drawn four times a second while tasks go on; what is seen last stays."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console
        self._live = Live(get_renderable=self._drawn, console=console, refresh_per_second=4, vertical_overflow="crop")

    def __enter__(self) -> Tell:
        self._live.start()
        return lambda row, document: None

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _drawn(self) -> RenderableType:
        return Group(
            table_for(self._board.table(self._console.height, datetime.now(UTC)), self._console.width),
            Text(self._board.count(), style="dim"),
        )

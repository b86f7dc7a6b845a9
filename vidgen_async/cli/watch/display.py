"""``vidgen watch``: many tasks at once, as a picture that moves or as lines."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Protocol

from vidgen_async.cli.operations import Errand
from vidgen_async.cli.run_state import Stage, Watched
from vidgen_async.cli.terminal.alternate_screen import Canvas
from vidgen_async.cli.terminal.exit_reports import Exit, TasksFailedError
from vidgen_async.cli.terminal.json_documents import change_document, kind_of
from vidgen_async.cli.terminal.result_output import Document
from vidgen_async.cli.watch.board import Board, Row
from vidgen_async.cli.watch.board_view import board_lines, told
from vidgen_async.cli.watch.statistics import Pulse
from vidgen_async.clock import Clock, LoopClock
from vidgen_async.errors import TaskFailedError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome

#: Seconds between two pictures: after a change, and without one (the ages and rates go on).
FRAME = 0.25
STILL = 1.0


class _Display(Protocol):
    """What is told of every change, and shows it in its own time: it never holds up who tells it."""

    def changed(self, task: VideoTask) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...

    def finish(self) -> None:
        """Show what was not shown yet, and has to be."""

    async def show(self) -> None:
        """Show everything, until cancelled."""


class Updates:
    """Hands what the client's ``on_update`` tells to whoever watches: a client is made before anybody does."""

    def __init__(self) -> None:
        self.listener: _Display | None = None

    def heard(self, task: VideoTask) -> None:
        if self.listener is not None:
            self.listener.changed(task)


async def watch(
    errand: Errand,
    orders: Mapping[str, str | None],
    updates: Updates,
    *,
    is_live: bool,
    clock: Clock | None = None,
) -> None:
    """Show every change until all tasks are over: ``is_live`` as a picture of the whole terminal, where there is one
    that can move, else as lines. ``orders`` tells the order of each task id, where it is known; ``updates`` are those
    of the errand's client, and ``clock`` is the client's.

    TasksFailedError when some failed, or could not be watched to their end.
    """
    errand.journey.stage = Stage.WATCH
    board, clock = Board.of(orders), clock or LoopClock()
    canvas = errand.screen.canvas() if is_live else None
    errand.journey.shows_trouble = canvas is not None
    display = _Lines(errand, board, clock) if canvas is None else _Picture(errand, board, clock, canvas)
    updates.listener = display
    try:
        await _follow(errand, orders, display)
    finally:
        unended = [row.task_id for row in board.unended if row.order_id is None]
        errand.journey.watched = Watched(board.over, len(board.rows), unended)
        if canvas is not None:
            errand.screen.show(told(board, time.monotonic() - errand.begun_at))
    if board.failed:
        message = f"{len(board.failed):,} of {len(board.rows):,} tasks did not end as completed"
        raise TasksFailedError(message, code=next(iter(board.codes)) if len(board.codes) == 1 else Exit.FAILED)


async def _follow(errand: Errand, orders: Mapping[str, str | None], display: _Display) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(display.show())
            async with aclosing(errand.client.videos.as_completed(orders, timeout=errand.timeout)) as outcomes:
                async for outcome in outcomes:
                    display.ended(outcome)
            display.finish()
            showing.cancel()
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None  # the first stopped all others


class _Lines:
    """A line for each change."""

    def __init__(self, errand: Errand, board: Board, clock: Clock) -> None:
        self._screen = errand.screen
        self._board = board
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[str, Document]] = asyncio.Queue()

    def changed(self, task: VideoTask) -> None:
        now = self._clock.wall()
        row = self._board.saw(task.id, task, now)
        if row is not None:
            self._tell(row, change_document(task, now, row.order_id))

    def ended(self, outcome: Outcome) -> None:
        now = self._clock.wall()
        row, error = self._board.ended(outcome, now), outcome.error
        if row is None:
            return
        if outcome.task is not None and (error is None or isinstance(error, TaskFailedError)):
            self._tell(row, change_document(outcome.task, now, row.order_id))
        elif error is not None:
            about = {"kind": kind_of(error), "message": error.summary, "task_id": row.task_id}
            self._tell(row, {"task_id": row.task_id, "order_id": row.order_id, "status": None, "error": about})

    def finish(self) -> None:
        while not self._waiting.empty():
            self._screen.show(*self._waiting.get_nowait())

    async def show(self) -> None:
        while True:
            self._screen.show(*await self._waiting.get())

    def _tell(self, row: Row, document: Document) -> None:
        at = f"{self._clock.wall():%Y-%m-%dT%H:%M:%SZ}"
        facts = (at, row.task_id, row.state, row.detail, row.order_id and f"(order {row.order_id})")
        self._waiting.put_nowait((" ".join(fact for fact in facts if fact), document))


class _Picture:
    """The board, drawn anew some times a second where something changes."""

    def __init__(self, errand: Errand, board: Board, clock: Clock, canvas: Canvas) -> None:
        self._watcher = errand.client.watcher
        self._board = board
        self._clock = clock
        self._canvas = canvas
        self._pulse = Pulse(self._watcher.stats.interval_now)
        self._is_news = True

    def changed(self, task: VideoTask) -> None:
        self._is_news = self._board.saw(task.id, task, self._clock.wall()) is not None or self._is_news

    def ended(self, outcome: Outcome) -> None:
        self._is_news = self._board.ended(outcome, self._clock.wall()) is not None or self._is_news

    def finish(self) -> None:
        """What stays is told when the terminal is given back."""

    async def show(self) -> None:
        drawn_at, size = self._clock.now(), self._canvas.size
        with self._canvas:
            while True:
                now = self._clock.now()
                if self._is_news or size != self._canvas.size or now - drawn_at >= STILL:
                    drawn_at, size, self._is_news = now, self._canvas.size, False
                    self._draw(now, *size)
                await self._clock.sleep(FRAME)

    def _draw(self, now: float, width: int, height: int) -> None:
        board = self._board
        vitals = self._pulse.take(now, self._watcher.stats, board.over, len(board.rows) - board.over)
        self._canvas.draw(board_lines(board, vitals, width, height, self._clock.wall()))

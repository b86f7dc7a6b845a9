"""``vidgen watch``: many tasks at once, in a live view or as a line for each change."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TypeAlias

from rich.console import RenderableType
from rich.live import Live

from vidgen_async import Outcome
from vidgen_async.cli.process import is_terminal
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Stage, refuse_failed
from vidgen_async.cli.settings import Access
from vidgen_async.cli.terminal.exit_reports import Report, watch_report
from vidgen_async.cli.terminal.formatting import Document
from vidgen_async.cli.terminal.order_views import task_document
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.cli.watch_progress import TaskRow, WatchProgress, live_view, summary, task_of
from vidgen_async.clock import Clock, LoopClock
from vidgen_async.types import OrderState, Shard, VideoTask, kind_of

#: Seconds between two refreshes of the live view.
REFRESH_INTERVAL = 0.5

#: Changes of tasks, then how each watch ended; None after the last. The client's ``on_update`` puts changes here.
Updates: TypeAlias = "asyncio.Queue[VideoTask | Outcome | None]"


async def watch_tasks(run: Run, names: Sequence[str], shard: Shard | None, *, is_in_journal: bool) -> None:
    """Watch these tasks and, with --journal, the unfinished ones in it. Nothing is stored in the journal."""
    updates: Updates = asyncio.Queue()
    is_live = is_terminal(sys.stdout)
    access = Access.EXISTING if is_in_journal else Access.TASKS
    client = await run.connect(access, only_prints=True, on_update=updates.put_nowait)
    tasks = await run.find_tasks(names)
    if is_in_journal:
        run.stage = Stage.JOURNAL
        tasks |= {task.task_id: task.order_id async for task in client.orders.running(shard=shard)}
        if unclear := await client.orders.list([OrderState.UNCERTAIN, OrderState.SENDING]):
            run.screen.print_fact("orders", f"{len(unclear)} uncertain or being sent; vidgen orders ls lists them")
    if tasks:
        with client.orders.results.hold(tasks):
            await watch(run, tasks, updates, is_live=is_live)
    elif is_in_journal:
        run.screen.print_fact("orders", "the journal has no unfinished tasks")
    else:
        run.screen.print_fact("tasks", "stdin has no task ids")


async def watch(
    run: Run, orders: Mapping[str, str | None], updates: Updates, *, is_live: bool, clock: Clock | None = None
) -> None:
    """Show every change until all tasks are finished, live or as lines; TasksFailedError if some failed."""
    run.stage = Stage.WATCH
    progress, clock = WatchProgress.of(orders), clock or LoopClock()
    interval = run.client.watcher.stats.interval_now

    def render(width: int, height: int) -> RenderableType:
        stats = run.client.watcher.stats
        pause = 0.0 if stats.paused_until is None else max(stats.paused_until - clock.now(), 0.0)
        return live_view(progress, stats, interval, pause, (width, height), clock.wall())

    def explain(_: str) -> Report:
        rows = [row for row in progress.rows.values() if not row.is_finished]
        # The resuming command repeats --journal.
        ids = [row.task_id for row in rows if row.order_id is None or not run.is_durable]
        return watch_report(run, "watch", len(rows), len(progress.rows), ids)

    run.explain = explain
    await run.check_reachable(next(iter(orders)))
    live = run.screen.live(render) if is_live else None
    run.shows_failed_polls = live is not None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_collect(run, orders, updates))
            if live is None:
                await _print(run.screen, progress, updates, clock)
            else:
                await _refresh(live, progress, updates, clock)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the first error stopped all others
    finally:
        while not updates.empty():
            if (update := updates.get_nowait()) is not None:
                progress.record(update, clock.wall())
        if live is not None:
            run.screen.show(summary(progress, time.monotonic() - run.started_at))
    refuse_failed(len(progress.failed), len(progress.rows), progress.exit_codes)


async def _collect(run: Run, orders: Mapping[str, str | None], updates: Updates) -> None:
    """Add how each watch ended to the updates, and None after the last."""
    async with aclosing(run.client.videos.as_completed(orders, timeout=run.settings.timeout)) as outcomes:
        async for outcome in outcomes:
            updates.put_nowait(outcome)
    updates.put_nowait(None)


async def _print(screen: Screen, progress: WatchProgress, updates: Updates, clock: Clock) -> None:
    """Print a line for each change."""
    while (update := await updates.get()) is not None:
        row = progress.record(update, clock.wall())
        if row is not None:
            at = f"{clock.wall():%Y-%m-%dT%H:%M:%SZ}"
            facts = (at, row.task_id, row.state, row.detail, row.order_id and f"(order {row.order_id})")
            screen.show(" ".join(fact for fact in facts if fact), _document(update, row, clock))


def _document(update: VideoTask | Outcome, row: TaskRow, clock: Clock) -> Document:
    task, error = task_of(update), update.error if isinstance(update, Outcome) else None
    if task is not None:
        return {**task_document(task), "order_id": row.order_id, "seen_at": clock.wall().isoformat()}
    document = {"kind": error and kind_of(error), "message": error and error.summary, "task_id": row.task_id}
    return {"task_id": row.task_id, "order_id": row.order_id, "status": None, "error": document}


async def _refresh(live: Live, progress: WatchProgress, updates: Updates, clock: Clock) -> None:
    """Keep the live view up to date: it is drawn at most twice per second, however many changes there are."""
    with suspendable(live), live:
        while True:
            while not updates.empty():
                if (update := updates.get_nowait()) is None:
                    return
                progress.record(update, clock.wall())
            live.refresh()
            await clock.sleep(REFRESH_INTERVAL)


@contextmanager
def suspendable(live: Live) -> Iterator[None]:
    """Restore the terminal while the process is suspended (Ctrl-Z)."""

    def suspend() -> None:
        is_started = live.is_started
        live.stop()
        os.kill(os.getpid(), signal.SIGSTOP)
        if is_started:  # the process continues here
            live.start(refresh=True)

    if not hasattr(signal, "SIGTSTP") or signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTSTP)

"""Run a command on its own event loop: its client, signals, errors and exit codes."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, TypeAlias

import click
from attrs import define

from vidgen_async.cli.process import lost_output
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Exit, RunState, Stage, TasksFailedError, exit_code
from vidgen_async.cli.terminal.exit_reports import error_report, interrupt_report
from vidgen_async.cli.terminal.formatting import traceback_of
from vidgen_async.cli.terminal.status_display import Screen

#: The signals that end a run cleanly, and the word for each in reports.
SIGNALS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
if sys.platform != "win32":
    SIGNALS |= {signal.SIGHUP: "Hangup", signal.SIGQUIT: "Quit"}


#: What a command does; the exit code if it is another than that of success.
Command: TypeAlias = Callable[[Run], Coroutine[Any, Any, int | None]]


def run_command(command: Command, run: Run) -> int:
    """Run the command until it ends or a signal cancels it, show how it ended, and return the exit code."""
    with _handle_logs(run):
        make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
        with suppress(ImportError):  # the extra speed
            make_loop = import_module("uvloop").new_event_loop
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(_supervise(command, run))


async def _supervise(command: Command, run: Run) -> int:
    run_state, screen = run.state, run.screen

    async def work() -> int | None:
        async with run.exits:
            return await command(run)

    worker = asyncio.get_running_loop().create_task(work(), name="command")
    with _handle_signals(worker, run_state, screen) as interruption:
        await asyncio.wait({worker})
        if run_state.creating is not None:  # closing the client settled it; without an outcome it stays uncertain
            await asyncio.wait({run_state.creating}, timeout=1.0)
            run_state.creating.cancel()
            run_state.settle_create()
    screen.close()
    if worker.cancelled() and run_state.stage is Stage.SERVE:
        screen.print_fact("sandbox", "stopped")
        return Exit.OK
    has_stopped = worker.cancelled() or (
        run_state.stop is not None and isinstance(worker.exception(), TasksFailedError | None)
    )
    if has_stopped and interruption.received is not None:
        code = 128 + interruption.received
        screen.show_error(interrupt_report(run_state, SIGNALS[interruption.received]), code)
        return code
    error = asyncio.CancelledError() if worker.cancelled() else worker.exception()
    if error is None:
        if lost := lost_output():
            screen.warn(f"done, but some output could not be written to stdout: {lost}")
        return worker.result() or Exit.OK
    if isinstance(error, click.ClickException):
        raise error
    if run.settings.is_debug:
        sys.stderr.write(traceback_of(error))
    ended_with = exit_code(error, run_state.stage)
    screen.show_error(error_report(error, run_state), ended_with)
    return ended_with


@define(eq=False)
class _Interruption:
    """The first signal cancels the worker, or stops its batch; the second exits the process. Hangups do not count."""

    _worker: "asyncio.Task[int | None]"
    _run_state: RunState
    _screen: Screen
    received: signal.Signals | None = None
    _has_signal: bool = False

    def handle(self, which: signal.Signals) -> None:
        is_hangup = SIGNALS[which] == "Hangup"
        if self._has_signal and not is_hangup:
            self._exit(which)
        self._has_signal = self._has_signal or not is_hangup
        if self.received is not None:
            return
        self.received = which
        (self._run_state.stop or self._worker.cancel)()
        stage, what = self._run_state.stage, "waiting a few seconds for the response"
        if stage is Stage.BATCH:
            what = "nothing more is ordered; waiting for the orders that are being sent"
        if stage is Stage.BATCH or (stage is Stage.CREATE and self._run_state.task_id is None):
            hint = "" if is_hangup else " (a second signal exits at once)"
            self._screen.warn(f"{SIGNALS[which].lower()} while {stage}: {what}{hint}")

    def _exit(self, which: signal.Signals) -> None:
        try:
            self._screen.close()
            self._run_state.settle_create()  # it may have completed just now
            self._screen.show_error(interrupt_report(self._run_state, SIGNALS[which]), 128 + which)
            sys.stderr.flush()
        finally:
            os._exit(128 + which)


@contextmanager
def _handle_signals(worker: "asyncio.Task[int | None]", run_state: RunState, screen: Screen) -> Iterator[_Interruption]:
    loop = asyncio.get_running_loop()
    interruption = _Interruption(worker, run_state, screen)
    handlers = {which: signal.getsignal(which) for which in SIGNALS}
    # Ignored signals stay ignored: shells do that to keep Ctrl-C from background jobs.
    before = {which: handler for which, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for which in before:
        try:
            loop.add_signal_handler(which, interruption.handle, which)
        except NotImplementedError:  # Windows
            signal.signal(which, lambda *_, which=which: loop.call_soon_threadsafe(interruption.handle, which))
    try:
        yield interruption
    finally:
        for which, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(which)
            signal.signal(which, handler)


class _LogHandler(logging.Handler):
    """Shows log records on the screen, and warns once when a task's poll fails twice in a row."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._failed: dict[str, int] = {}
        self._has_warned = False

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event_name", "")
        self._note_poll(event, record)
        if not self._is_shown(event, record):
            return
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a library's record must not end the run
            self.handleError(record)
            return
        if record.levelno >= logging.WARNING:
            self._run.screen.warn(message)
        else:
            self._run.screen.print_fact(record.name, message)

    def _is_shown(self, event: str, record: logging.LogRecord) -> bool:
        # While the command reads the catalog, it warns or fails with the error itself.
        if event == "catalog.fetch_failed" and self._run.state.stage is Stage.CATALOG:
            return False
        if self._run.settings.is_debug:  # the DEBUG records of other libraries, such as asyncio, are left out
            return record.levelno >= logging.INFO or record.name.startswith("vidgen_async")
        return record.levelno >= logging.WARNING and event != "order.uncertain"  # which the command shows itself

    def _note_poll(self, event: str, record: logging.LogRecord) -> None:
        state, task_id = self._run.state, str(getattr(record, "task_id", ""))
        if event in ("task.changed", "task.ended"):
            self._failed.pop(task_id, None)
            state.last_poll_error = None
            self._has_warned = self._has_warned and bool(self._failed)
        elif event == "poll.failed":
            state.last_poll_error = str(getattr(record, "error", ""))
            count = self._failed[task_id] = self._failed.get(task_id, 0) + 1
            if count == 2 and not self._has_warned and not state.shows_failed_polls:
                self._has_warned = True
                self._run.screen.warn(
                    f"polls of task {task_id} fail ({state.last_poll_error}); it will be polled again"
                )


@contextmanager
def _handle_logs(run: Run) -> Iterator[None]:
    """Handle the records of the run, and those of polls at every level."""
    root, handler = logging.getLogger(), _LogHandler(run)
    levels = {
        root: logging.DEBUG if run.settings.is_debug else logging.WARNING,
        logging.getLogger("vidgen_async.watcher"): logging.DEBUG,
    }
    before = {logger: logger.level for logger in levels}
    root.addHandler(handler)
    for logger, level in levels.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in before.items():
            logger.setLevel(level)

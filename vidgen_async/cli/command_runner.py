"""Run a command on its own event loop: its client, signals, errors and exit codes."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any, Self, TypeAlias

import click
from attrs import define, field

from vidgen_async.cli.process import lost_output
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Exit, Stage, TasksFailedError, exit_code
from vidgen_async.cli.terminal.exit_reports import error_report, interrupt_report
from vidgen_async.cli.terminal.formatting import traceback_of

#: The signals that end a run cleanly, and the word for each in reports.
SIGNALS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
if sys.platform != "win32":
    SIGNALS |= {signal.SIGHUP: "Hangup", signal.SIGQUIT: "Quit"}


#: What a command does; the exit code if it is another than that of success.
Command: TypeAlias = Callable[[Run], Coroutine[Any, Any, int | None]]


def run_command(command: Command, run: Run) -> int:
    """Run the command until it ends or a signal cancels it, show how it ended, and return the exit code."""
    make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # the extra speed
        make_loop = import_module("uvloop").new_event_loop
    with _handle_logs(run), asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_supervise(command, run))


async def _supervise(command: Command, run: Run) -> int:
    async def work() -> int | None:
        async with run.exits:
            return await command(run)

    worker = asyncio.get_running_loop().create_task(work(), name="command")
    with _Interruption(worker, run) as interruption:
        await asyncio.wait({worker})
        if run.creating is not None:  # closing the client settled it; without an outcome it stays uncertain
            await asyncio.wait({run.creating}, timeout=1.0)
            run.creating.cancel()
            run.settle_create()
    run.screen.close()
    error = asyncio.CancelledError() if worker.cancelled() else worker.exception()
    if worker.cancelled() and run.stage is Stage.SERVE:
        run.screen.print_fact("sandbox", "stopped")
        return Exit.OK
    has_stopped = run.stop is not None and isinstance(error, TasksFailedError | None)
    if interruption.received is not None and (worker.cancelled() or has_stopped):
        return interruption.report()
    if error is None:
        if lost := lost_output():
            run.screen.warn(f"done, but some output could not be written to stdout: {lost}")
        return worker.result() or Exit.OK
    if isinstance(error, click.ClickException):
        raise error
    if run.settings.is_debug:
        sys.stderr.write(traceback_of(error))
    code = exit_code(error, run.stage)
    run.screen.show_error(error_report(error, run), code)
    return code


@define(eq=False)
class _Interruption:
    """A block in which the first signal cancels the worker, or stops its batch; the second exits the process. Hangups
    do not count."""

    _worker: "asyncio.Task[int | None]"
    _run: Run
    received: signal.Signals | None = None
    _has_signal: bool = False
    _before: dict[signal.Signals, Any] = field(factory=dict)

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for which in SIGNALS:
            # Ignored signals stay ignored: shells do that to keep Ctrl-C from background jobs.
            if (handler := signal.getsignal(which)) not in (signal.SIG_IGN, None):
                self._before[which] = handler
                signal.signal(which, lambda number, _: loop.call_soon_threadsafe(self.handle, signal.Signals(number)))
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def handle(self, which: signal.Signals) -> None:
        is_hangup = SIGNALS[which] == "Hangup"
        if self._has_signal and not is_hangup:
            self._exit(which)
        self._has_signal = self._has_signal or not is_hangup
        if self.received is not None:
            return
        self.received = which
        (self._run.stop or self._worker.cancel)()
        stage, what = self._run.stage, "waiting a few seconds for the response"
        if stage is Stage.BATCH:
            what = "nothing more is ordered; waiting for the orders that are being sent"
        if stage is Stage.BATCH or (stage is Stage.CREATE and self._run.task_id is None):
            hint = "" if is_hangup else " (a second signal exits at once)"
            self._run.screen.warn(f"{SIGNALS[which].lower()} while {stage}: {what}{hint}")

    def report(self) -> int:
        """Show what was interrupted, and return the exit code."""
        which = self.received or signal.SIGINT
        self._run.screen.show_error(interrupt_report(self._run, SIGNALS[which]), 128 + which)
        return 128 + which

    def _exit(self, which: signal.Signals) -> None:
        try:
            self._run.screen.close()
            self._run.settle_create()  # it may have completed just now
            self.received = which
            self.report()
            sys.stderr.flush()
        finally:
            os._exit(128 + which)


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
        if event == "catalog.fetch_failed" and self._run.stage is Stage.CATALOG:
            return False
        if self._run.settings.is_debug:  # the DEBUG records of other libraries, such as asyncio, are left out
            return record.levelno >= logging.INFO or record.name.startswith("vidgen_async")
        return record.levelno >= logging.WARNING and event != "order.uncertain"  # which the command shows itself

    def _note_poll(self, event: str, record: logging.LogRecord) -> None:
        run, task_id = self._run, str(getattr(record, "task_id", ""))
        if event in ("task.changed", "task.ended"):
            self._failed.pop(task_id, None)
            self._has_warned = self._has_warned and bool(self._failed)
        elif event == "poll.failed":
            count = self._failed[task_id] = self._failed.get(task_id, 0) + 1
            if count == 2 and not self._has_warned and not run.shows_failed_polls:
                self._has_warned = True
                run.screen.warn(
                    f"polls of task {task_id} fail ({getattr(record, 'error', '')}); it will be polled again"
                )


@contextmanager
def _handle_logs(run: Run) -> Iterator[None]:
    """Handle the records of the run, and those of polls at every level."""
    root, watcher, handler = logging.getLogger(), logging.getLogger("vidgen_async.watcher"), _LogHandler(run)
    level = logging.DEBUG if run.settings.is_debug else logging.WARNING
    with ExitStack() as stack:
        for logger in (root, watcher):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(level if logger is root else logging.DEBUG)
        root.addHandler(handler)
        stack.callback(root.removeHandler, handler)
        yield

"""Runs a command on an event loop of its own: signals, errors and exit codes."""

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.terminal.exit_reports import Exit, error_report, exit_code, interrupt_report
from vidgen_async.cli.terminal.standard_streams import lost_output
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.events import Event

#: So many tasks without an answer are told by name.
MOST_TOLD = 5

#: The signals that end a run in good order, and what is said of each.
SIGNALS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
if sys.platform != "win32":
    SIGNALS |= {signal.SIGHUP: "Hangup", signal.SIGQUIT: "Quit"}


def run(work: Callable[[], Coroutine[Any, Any, None]], journey: Journey, screen: Screen, *, is_debug: bool) -> int:
    """Do the work, tell on the screen how it ended, and return the exit code.

    SIGINT, SIGTERM, SIGHUP and SIGQUIT cancel the work, which closes what it has opened: an order under way is waited
    for as long as the client's grace lasts. A second signal leaves at once, but for SIGHUP: nobody asks with it, and a
    terminal that is closed sends it more than once, its session a SIGTERM too.
    """
    with _log_on(screen, is_debug=is_debug), _faults_on(screen, journey):
        return asyncio.run(_supervised(work, journey, screen, is_debug=is_debug))


async def _supervised(
    work: Callable[[], Coroutine[Any, Any, None]], journey: Journey, screen: Screen, *, is_debug: bool
) -> int:
    worker = asyncio.get_running_loop().create_task(work(), name="command")
    with _interruption(worker, journey, screen) as interruption:
        await asyncio.wait({worker})
        await journey.create_ended()
    screen.close()
    if worker.cancelled() and journey.stage is Stage.SERVE:
        screen.say("sandbox", "ended")
        return Exit.OK
    if worker.cancelled() and interruption.signal is not None:
        code = 128 + interruption.signal
        screen.trouble(interrupt_report(journey, SIGNALS[interruption.signal]), code)
        return code
    error = asyncio.CancelledError() if worker.cancelled() else worker.exception()
    if error is None:
        if lost := lost_output():
            screen.warn(f"done, but not all of it could be shown on stdout: {lost}")
        return Exit.OK
    if is_debug:
        sys.stderr.write("".join(traceback.format_exception(error)))
    ended_with = exit_code(error, journey.stage)
    screen.trouble(error_report(error, journey), ended_with)
    return ended_with


class _Interruption:
    """The first signal cancels the worker, the second ends the process. Hangups do not count."""

    def __init__(self, worker: "asyncio.Task[None]", journey: Journey, screen: Screen) -> None:
        self._worker = worker
        self._journey = journey
        self._screen = screen
        self._is_asked = False
        self.signal: signal.Signals | None = None

    def came(self, which: signal.Signals) -> None:
        is_hangup = SIGNALS[which] == "Hangup"
        if self._is_asked and not is_hangup:
            self._leave(which)
        self._is_asked = self._is_asked or not is_hangup
        if self.signal is not None:
            return
        self.signal = which
        self._worker.cancel()
        if self._journey.stage is Stage.CREATE and self._journey.task_id is None:
            once_more = "" if is_hangup else " (once more leaves at once)"
            doing = f"{SIGNALS[which].lower()} while {Stage.CREATE}"
            self._screen.warn(f"{doing}: waiting a few seconds for its answer{once_more}")

    def _leave(self, which: signal.Signals) -> None:
        try:
            self._screen.close()
            self._journey.learn()  # it may have ended just now
            self._screen.trouble(interrupt_report(self._journey, SIGNALS[which]), 128 + which)
            sys.stderr.flush()
        finally:
            os._exit(128 + which)


@contextmanager
def _interruption(worker: "asyncio.Task[None]", journey: Journey, screen: Screen) -> Iterator[_Interruption]:
    loop = asyncio.get_running_loop()
    interruption = _Interruption(worker, journey, screen)
    handlers = {which: signal.getsignal(which) for which in SIGNALS}
    # What is ignored stays ignored: so do shells keep a terminal's Ctrl-C from jobs in the background.
    before = {which: handler for which, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for which in before:
        try:
            loop.add_signal_handler(which, interruption.came, which)
        except NotImplementedError:  # Windows
            signal.signal(which, lambda *_, which=which: loop.call_soon_threadsafe(interruption.came, which))
    try:
        yield interruption
    finally:
        for which, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(which)
            signal.signal(which, handler)


class _OnScreen(logging.Handler):
    """What is logged is a warning on the screen: a line of its own would tear the progress apart."""

    def __init__(self, screen: Screen, level: int) -> None:
        super().__init__(level)
        self._screen = screen

    def filter(self, record: logging.LogRecord) -> bool:
        # That something took a tenth of a second is said by asyncio, of itself, in Python's development mode.
        is_about_us = record.name != "asyncio" or record.levelno > logging.WARNING or self.level < logging.WARNING
        return is_about_us and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - of a library: it must not strike what it is about
            self.handleError(record)
            return
        if record.levelno >= logging.WARNING:
            self._screen.warn(message)
        else:
            self._screen.say(record.name, message)


class _Faults(logging.Handler):
    """Looks at tasks that failed: the first of a task may be chance, the second is told, and none after it until the
    task is seen to change. Of many tasks the first few are told by name."""

    def __init__(self, screen: Screen, journey: Journey) -> None:
        super().__init__(logging.DEBUG)
        self._screen = screen
        self._journey = journey
        self._failed: dict[str, int] = {}
        self._told = 0

    def emit(self, record: logging.LogRecord) -> None:
        event, task_id = getattr(record, "event", None), str(getattr(record, "task_id", ""))
        if event in (Event.TASK_CHANGED, Event.TASK_ENDED):
            self._failed.pop(task_id, None)
            self._journey.trouble = None
            self._told = self._told if self._failed else 0
        elif event == Event.TASK_FAULT:
            self._journey.trouble = str(getattr(record, "error", ""))
            count = self._failed[task_id] = self._failed.get(task_id, 0) + 1
            if count == 2 and self._told <= MOST_TOLD and not self._journey.shows_trouble:
                self._told += 1
                which = "the task" if task_id == self._journey.task_id else f"task {task_id}"
                which = which if self._told <= MOST_TOLD else "more tasks, which are not named"
                self._screen.warn(f"no answer about {which} ({self._journey.trouble}), still trying")


@contextmanager
def _faults_on(screen: Screen, journey: Journey) -> Iterator[None]:
    logger, handler = logging.getLogger("vidgen_async.watcher"), _Faults(screen, journey)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def _log_on(screen: Screen, *, is_debug: bool) -> Iterator[None]:
    level = logging.INFO if is_debug else logging.WARNING
    root = logging.getLogger()
    before, handler = root.level, _OnScreen(screen, level)
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)

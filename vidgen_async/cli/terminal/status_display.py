"""The progress and the results of a run: a screen for terminals, one for logs and one for programs."""

import json
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from vidgen_async.cli.terminal.detection import stderr_is_terminal
from vidgen_async.cli.terminal.exit_reports import Report
from vidgen_async.cli.terminal.formatting import clean, seconds, size
from vidgen_async.cli.terminal.result_output import Document, JsonOutput, Output, PlainOutput, View, make_output

#: At most this many lines, the latest, are held back while a live view covers the terminal.
MAX_HELD = 20

#: Renders what is shown in a terminal of this width and height.
Render: TypeAlias = Callable[[int, int], RenderableType]


class Screen(Protocol):
    """Results go to stdout, everything else to stderr."""

    def print_fact(self, label: str, text: str) -> None:
        """Show a fact, which stays on the screen."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def start_step(self, text: str) -> None:
        """Show what the run does from now on."""

    def show_state(self, state: str) -> None:
        """Show the state of the awaited task."""

    def show_received(self, received: int, total: int | None) -> None:
        """Show the received bytes of the video; ``total`` is None if unknown."""

    def show(self, view: View, *documents: Document) -> None:
        """Print a result to stdout: the view for people, the documents for programs."""

    def show_error(self, report: Report, code: int) -> None:
        """Show why the run failed."""

    def live(self, render: Render) -> Live | None:
        """A live view that covers the terminal while it is started; None where the output cannot show one. Other lines
        are held back until :meth:`close`."""

    def close(self) -> None:
        """Stop showing progress; idempotent."""


def make_screen(*, is_debug: bool = False, is_json: bool = False) -> Screen:
    """Return the screen that suits stderr: animated on a terminal that can move the cursor, but not in a debug log."""
    if is_json:
        return JsonScreen()
    output = make_output(is_json=False)
    return RichScreen(output=output) if stderr_is_terminal() and not is_debug else PlainScreen(output)


class PlainScreen:
    """Prints a line for each event, for logs and pipes."""

    def __init__(self, output: Output | None = None) -> None:
        self._output = output or PlainOutput()
        self._since: float | None = None
        self._is_receiving = False

    def print_fact(self, label: str, text: str) -> None:
        _echo(f"{label}: {text}")

    def warn(self, text: str) -> None:
        _echo(f"warning: {text}")

    def start_step(self, text: str) -> None:
        self._since, self._is_receiving = None, False
        _echo(text)

    def show_state(self, state: str) -> None:
        if self._since is None:
            self._since = time.monotonic()
        _echo(f"{state} ({seconds(time.monotonic() - self._since)})")

    def show_received(self, received: int, total: int | None) -> None:
        if not self._is_receiving and total is not None:
            _echo(f"size: {size(total)}")
        self._is_receiving = True

    def show(self, view: View, *documents: Document) -> None:
        self._output.show(view, *documents)

    def show_error(self, report: Report, code: int) -> None:
        text, below = report.lines()
        _echo(f"vidgen: {text}")
        for line, _ in below:
            _echo(f"  {line}")

    def live(self, render: Render) -> None:
        """A log cannot show a live view."""

    def close(self) -> None:
        """Nothing to stop."""


def _echo(text: str) -> None:
    indent = len(text) - len(text.lstrip(" "))
    click.echo(" " * indent + clean(text), err=True)


class JsonScreen:
    """Prints each line as a JSON object: results on stdout; on stderr facts when they are known (``{"order": …}``,
    ``{"task": …}``), ``{"warning": …}``, and ``{"error": {…}}`` if the run fails."""

    def __init__(self) -> None:
        self._output = JsonOutput()

    def print_fact(self, label: str, text: str) -> None:
        self._print({label: text})

    def warn(self, text: str) -> None:
        self._print({"warning": text})

    def start_step(self, text: str) -> None:
        """Not for programs."""

    def show_state(self, state: str) -> None:
        self._print({"state": state})

    def show_received(self, received: int, total: int | None) -> None:
        """Not for programs."""

    def show(self, view: View, *documents: Document) -> None:
        self._output.show(view, *documents)

    def show_error(self, report: Report, code: int) -> None:
        error = {"kind": report.kind, "message": report.text, "exit_code": int(code)}
        about = {"order_id": report.order_id, "task_id": report.task_id, "commands": list(report.commands)}
        self._print({"error": {**error, **{name: value for name, value in about.items() if value}}})

    def live(self, render: Render) -> None:
        """Not for programs."""

    def close(self) -> None:
        """Nothing to stop."""

    def _print(self, document: Document) -> None:
        click.echo(json.dumps(document), err=True)


class RichScreen:
    """Shows lines that stay, and an animated progress line below them. rich honours NO_COLOR."""

    def __init__(self, console: Console | None = None, output: Output | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._output = output or PlainOutput()
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._held: deque[tuple[Text, bool]] = deque(maxlen=MAX_HELD)
        self._row = TaskID(0)
        self._is_state = self._is_receiving = False

    def print_fact(self, label: str, text: str) -> None:
        self._print(Text.assemble((f"{label:<8} ", "dim"), clean(text)), is_whole=True)

    def warn(self, text: str) -> None:
        self._print(Text.assemble(("warning  ", "yellow"), clean(text)))

    def start_step(self, text: str) -> None:
        self.close()
        self._start(clean(text), TimeElapsedColumn())

    def show_state(self, state: str) -> None:
        if not self._is_state or self._progress is None:
            self.start_step(state)
            self._is_state = True
        else:
            self._progress.update(self._row, description=clean(state))

    def show_received(self, received: int, total: int | None) -> None:
        if not self._is_receiving or self._progress is None:
            self.close()
            self._start("downloading", BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._is_receiving = True
        if self._progress is not None:
            self._progress.update(self._row, completed=received, total=total)

    def show(self, view: View, *documents: Document) -> None:
        self.close()
        self._output.show(view, *documents)

    def show_error(self, report: Report, code: int) -> None:
        self.close()
        text, below = report.lines()
        self._console.print(Text.assemble(("vidgen: ", "bold red"), clean(text)))
        for line, is_command in below:
            # Not wrapped, so that it can be copied.
            self._console.print(Text(f"  {clean(line)}", style="bold" if is_command else ""), soft_wrap=True)

    def live(self, render: Render) -> Live | None:
        self.close()
        if self._console.legacy_windows or not self._console.encoding.startswith("utf"):
            return None
        self._live = Live(
            get_renderable=lambda: render(*self._console.size),
            console=self._console,
            screen=True,
            auto_refresh=False,  # rich would render in a thread
            redirect_stdout=False,
            redirect_stderr=False,
        )
        return self._live

    def close(self) -> None:
        progress, self._progress = self._progress, None
        live, self._live = self._live, None
        self._is_state = self._is_receiving = False
        if progress is not None:
            progress.stop()
        if live is not None:
            live.stop()
        while self._held:
            text, is_whole = self._held.popleft()
            self._print(text, is_whole=is_whole)

    def _print(self, text: Text, *, is_whole: bool = False) -> None:
        """Print a line; ``is_whole``: without wrapping it."""
        if self._live is None:
            self._console.print(text, soft_wrap=is_whole)
        else:
            self._held.append((text, is_whole))

    def _start(self, text: str, *columns: ProgressColumn) -> None:
        what = TextColumn("{task.description}", markup=False)
        progress = Progress(SpinnerColumn(), what, *columns, console=self._console, transient=True)
        self._row = progress.add_task(text, total=None)
        progress.start()
        self._progress = progress

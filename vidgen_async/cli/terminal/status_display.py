"""The progress and the results of a run: a screen for terminals, one for logs and one for programs."""

import json
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

import click
from rich import progress
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Column
from rich.text import Text

from vidgen_async.cli.process import is_terminal
from vidgen_async.cli.terminal.exit_reports import Report
from vidgen_async.cli.terminal.formatting import Document, View, clean, seconds, wrap
from vidgen_async.cli.terminal.result_output import show_on_terminal, show_plain

_LABEL_STYLES = {"error": "bold red", "hint": "cyan", "warning": "yellow"}

#: Renders what is shown in a terminal of this width and height.
Render: TypeAlias = Callable[[int, int], RenderableType]


def make_screen(*, is_debug: bool = False, is_json: bool = False) -> "Screen":
    """Return the screen that suits stderr: animated on a terminal that can move the cursor, but not in a debug log."""
    if is_json:
        return JsonScreen()
    show_view = show_on_terminal if is_terminal(sys.stdout) else show_plain
    return Screen(show_view) if is_debug or not is_terminal(sys.stderr) else RichScreen(show_view)


class Screen:
    """Results go to stdout, everything else to stderr. This one prints a line for each event, for logs and pipes."""

    def __init__(self, show_view: Callable[[View], None] = show_plain) -> None:
        self._show_view = show_view
        self._since: float | None = None
        self._is_receiving = False

    def print_fact(self, label: str, text: str, value: object = None) -> None:
        """Show a fact, which stays on the screen; ``value`` is the same for programs, by default the text."""
        _echo(f"{label}: {text}")

    def warn(self, text: str) -> None:
        """Show a warning."""
        _echo(f"warning: {text}")

    def start_step(self, text: str) -> None:
        """Show what the run does from now on."""
        self._since, self._is_receiving = None, False
        _echo(text)

    def show_state(self, state: str) -> None:
        """Show the state of the awaited task."""
        if self._since is None:
            self._since = time.monotonic()
        _echo(f"{state} ({seconds(time.monotonic() - self._since)})")

    def show_received(self, received: int, total: int | None) -> None:
        """Show the received bytes of the video; ``total`` is None if unknown."""
        if not self._is_receiving and total is not None:
            _echo(f"size: {decimal(total)}")
        self._is_receiving = True

    def show(self, view: View, *documents: Document) -> None:
        """Print a result to stdout: the view for people, the documents for programs."""
        self.close()
        self._show_view(view)

    def show_error(self, report: Report, code: int) -> None:
        """Show why the run failed."""
        for label, line in report.lines():
            _echo(f"{label}: {line}" if label else f"  {line}")

    def live(self, render: Render) -> Live | None:
        """Return a live view, which other lines are printed above; None where the output cannot show one."""
        return None

    def close(self) -> None:
        """Stop showing progress; idempotent."""


def _echo(text: str) -> None:
    indent = len(text) - len(text.lstrip(" "))
    click.echo(" " * indent + clean(text), err=True)


class JsonScreen(Screen):
    """Prints JSON objects: results on stdout; facts, warnings and the error on stderr."""

    def print_fact(self, label: str, text: str, value: object = None) -> None:
        _echo_json({label: text if value is None else value}, err=True)

    def warn(self, text: str) -> None:
        _echo_json({"warning": text}, err=True)

    def start_step(self, text: str) -> None:
        """Not for programs."""

    def show_state(self, state: str) -> None:
        _echo_json({"state": state}, err=True)

    def show_received(self, received: int, total: int | None) -> None:
        """Not for programs."""

    def show(self, view: View, *documents: Document) -> None:
        for document in documents:
            _echo_json(document)

    def show_error(self, report: Report, code: int) -> None:
        _echo_json({"error": report.to_dict(code)}, err=True)


def _echo_json(document: Document, *, err: bool = False) -> None:
    click.echo(json.dumps(document), err=err)


class _ChangingView(Live):
    """It is drawn when something that it shows has changed, and when it is started again."""

    _shown: object = None

    def refresh(self) -> None:
        lines = self.console.render_lines(self.get_renderable()) if self.is_started else None
        if lines is None or lines != self._shown:
            self._shown = lines
            super().refresh()


class RichScreen(Screen):
    """Shows lines that stay, and an animated progress line below them. rich honours NO_COLOR."""

    def __init__(self, show_view: Callable[[View], None] = show_plain, console: Console | None = None) -> None:
        super().__init__(show_view)
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._progress: progress.Progress | None = None
        self._live: Live | None = None
        self._is_state = False

    def print_fact(self, label: str, text: str, value: object = None) -> None:
        self._print_paragraph(f"{clean(label):<8} ", text, "dim")

    def warn(self, text: str) -> None:
        self._print_paragraph("warning: ", text, _LABEL_STYLES["warning"], indent=0)

    def start_step(self, text: str) -> None:
        self._start(text, progress.TimeElapsedColumn())

    def show_state(self, state: str) -> None:
        if not self._is_state or self._progress is None:
            self.start_step(state)
            self._is_state = True
        else:
            self._progress.update(self._progress.task_ids[0], description=clean(state))

    def show_received(self, received: int, total: int | None) -> None:
        if not self._is_receiving or self._progress is None:
            self._start("downloading", progress.BarColumn(), progress.DownloadColumn(), progress.TransferSpeedColumn())
            self._is_receiving = True
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=received, total=total)

    def show_error(self, report: Report, code: int) -> None:
        self.close()
        for label, line in report.lines():
            if label:
                self._print_paragraph(f"{label}: ", line, _LABEL_STYLES[label], indent=0)
            else:
                style = "bold" if line in report.commands else ""
                # Not wrapped, so that it can be copied.
                self._console.print(Text(f"  {clean(line)}", style), soft_wrap=True)

    def live(self, render: Render) -> Live | None:
        self.close()
        if self._console.legacy_windows or not self._console.encoding.startswith("utf"):
            return None
        self._live = _ChangingView(
            get_renderable=lambda: render(*self._console.size),
            console=self._console,
            transient=True,
            auto_refresh=False,  # rich would render in a thread
            redirect_stdout=False,
            redirect_stderr=False,
        )
        return self._live

    def close(self) -> None:
        shown, self._progress, self._live = (self._progress, self._live), None, None
        self._is_state = self._is_receiving = False
        for view in shown:
            if view is not None:
                view.stop()

    def _print_paragraph(self, label: str, text: str, style: str, indent: int | None = None) -> None:
        """Print sentences, wrapped between words; a long word, such as a path, stays whole."""
        indent = len(label) if indent is None else indent
        paragraph = Text(wrap(f"{label}{clean(text)}", self._console.width, indent))
        paragraph.stylize(style, 0, len(label.rstrip()))
        self._console.print(paragraph, soft_wrap=True)  # it is wrapped

    def _start(self, text: str, *columns: progress.ProgressColumn) -> None:
        self.close()
        cut = Column(no_wrap=True, overflow="ellipsis")
        what = progress.TextColumn("{task.description}", markup=False, table_column=cut)
        self._progress = progress.Progress(
            progress.SpinnerColumn(), what, *columns, console=self._console, transient=True
        )
        self._progress.add_task(clean(text), total=None)
        self._progress.start()

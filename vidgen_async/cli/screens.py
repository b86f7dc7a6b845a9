"""What a person sees: one screen for terminals, one for everything else. Both are handed in, none is asked for."""

import os
import sys
import time
from typing import Protocol

import click
from rich.console import Console
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

from vidgen_async.cli.words import Report


class Screen(Protocol):
    """Everything goes to stderr, except the result."""

    def say(self, label: str, text: str) -> None:
        """A fact that stays on the screen."""

    def warn(self, text: str) -> None:
        """Something to know about."""

    def busy(self, text: str) -> None:
        """What is being done from now on."""

    def state(self, state: str) -> None:
        """The state of the task that is being waited for."""

    def received(self, received: int, total: int | None) -> None:
        """Bytes of the video that have come; ``total`` is None when it is not known."""

    def result(self, text: str) -> None:
        """How it ended well: a line on stdout."""

    def trouble(self, report: Report) -> None:
        """How it did not."""

    def close(self) -> None:
        """Nothing is being done any more; twice is fine."""


def make_screen(*, is_debug: bool = False) -> Screen:
    """The screen for where stderr leads: moving only on a terminal that can, and not between lines of a log."""
    can_move = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return RichScreen() if can_move and not is_debug else PlainScreen()


def clean(text: str) -> str:
    """One line in which nothing controls the terminal, wherever it came from."""
    return "".join(char if char.isprintable() else "�" for char in " ".join(text.split()))


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def seconds(count: float) -> str:
    """A length of time for people."""
    if count < 60:
        return f"{count:.1f} s"
    minutes, rest = divmod(round(count), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


class PlainScreen:
    """A line for each thing that happens, for logs and pipes."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._is_receiving = False

    def say(self, label: str, text: str) -> None:
        _echo(f"{label}: {text}")

    def warn(self, text: str) -> None:
        _echo(f"warning: {text}")

    def busy(self, text: str) -> None:
        self._since, self._is_receiving = None, False
        _echo(text)

    def state(self, state: str) -> None:
        if self._since is None:
            self._since = time.monotonic()
        _echo(f"{state} ({seconds(time.monotonic() - self._since)})")

    def received(self, received: int, total: int | None) -> None:
        if not self._is_receiving and total is not None:
            _echo(f"the video has {size(total)}")
        self._is_receiving = True

    def result(self, text: str) -> None:
        click.echo(clean(text))

    def trouble(self, report: Report) -> None:
        _echo(f"vidgen: {report.text}")
        for command in report.commands:
            _echo(f"  {command}")

    def close(self) -> None:
        """There is nothing to stop."""


def _echo(text: str) -> None:
    indent = len(text) - len(text.lstrip(" "))
    click.echo(" " * indent + clean(text), err=True)


class RichScreen:
    """Lines that stay, and below them what is being done, in motion. NO_COLOR is honoured (by rich)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._progress: Progress | None = None
        self._row = TaskID(0)
        self._is_state = self._is_receiving = False

    def say(self, label: str, text: str) -> None:
        self._console.print(Text.assemble((f"{label:<8} ", "dim"), clean(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(Text.assemble(("warning ", "yellow"), clean(text)))

    def busy(self, text: str) -> None:
        self.close()
        self._start(clean(text), TimeElapsedColumn())

    def state(self, state: str) -> None:
        if not self._is_state or self._progress is None:
            self.busy(state)
            self._is_state = True
        else:
            self._progress.update(self._row, description=clean(state))

    def received(self, received: int, total: int | None) -> None:
        if not self._is_receiving or self._progress is None:
            self.close()
            self._start("downloading", BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._is_receiving = True
        if self._progress is not None:
            self._progress.update(self._row, completed=received, total=total)

    def result(self, text: str) -> None:
        self.close()
        click.echo(clean(text))

    def trouble(self, report: Report) -> None:
        self.close()
        self._console.print(Text.assemble(("vidgen: ", "bold red"), clean(report.text)))
        for command in report.commands:
            # Never wrapped: it is there to be copied.
            self._console.print(Text(f"  {clean(command)}", style="bold"), soft_wrap=True)

    def close(self) -> None:
        progress, self._progress = self._progress, None
        self._is_state = self._is_receiving = False
        if progress is not None:
            progress.stop()

    def _start(self, text: str, *columns: ProgressColumn) -> None:
        what = TextColumn("{task.description}", markup=False)
        progress = Progress(SpinnerColumn(), what, *columns, console=self._console, transient=True)
        self._row = progress.add_task(text, total=None)
        progress.start()
        self._progress = progress

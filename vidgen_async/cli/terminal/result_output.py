"""What a command puts on stdout: a table for a terminal, aligned plain lines for a pipe, JSON for machines."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import click
from attrs import evolve, frozen
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from vidgen_async.cli.terminal.detection import stdout_is_terminal
from vidgen_async.cli.terminal.formatting import clean

Document: TypeAlias = Mapping[str, Any]
"""A JSON object."""

#: Characters of a cell that may be wrapped which stay on a line at least.
LEAST_WRAPPED = 20

_STYLES = {
    "completed": "green",
    "accepted": "green",
    "yes": "green",
    "failed": "red",
    "rejected": "red",
    "uncertain": "bold yellow",
    "sending": "yellow",
}


@frozen(kw_only=True)
class Column:
    """A column of a table."""

    name: str
    is_number: bool = False
    is_long: bool = False
    """May be wrapped."""
    is_optional: bool = False
    """Left out where the terminal is too narrow for all columns."""


@frozen(kw_only=True)
class Table:
    """Rows of texts under columns. ``empty`` is what is said when there are no rows, ``notes`` what is said below."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "none"
    notes: tuple[str, ...] = ()


@frozen
class Facts:
    """Names with their values, one on a line."""

    pairs: tuple[tuple[str, str], ...]


Shown: TypeAlias = str | Facts | Table


class Output(Protocol):
    """Where results go."""

    def show(self, shown: Shown, *documents: Document) -> None:
        """The result for people, or its documents for machines."""


def make_output(*, is_json: bool) -> Output:
    """The output that suits where stdout leads."""
    if is_json:
        return JsonOutput()
    return TerminalOutput() if stdout_is_terminal() else PlainOutput()


class JsonOutput:
    """One document on a line."""

    def show(self, shown: Shown, *documents: Document) -> None:
        for document in documents:
            click.echo(json.dumps(document, ensure_ascii=True))


class PlainOutput:
    """Lines without colours, wrapping or tabs; columns are set apart by two spaces or more."""

    def show(self, shown: Shown, *documents: Document) -> None:
        for line in plain_lines(shown):
            click.echo(line)


class TerminalOutput:
    """As wide as the terminal. NO_COLOR is honoured (by rich)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)

    def show(self, shown: Shown, *documents: Document) -> None:
        if isinstance(shown, str):
            self._console.print(Text(clean(shown)), soft_wrap=True)
        elif isinstance(shown, Facts):
            self._show_facts(shown)
        elif shown.rows:
            self._console.print(table_for(shown, self._console.width))
            for note in shown.notes:
                self._console.print(Text(clean(note), style="dim"))
        else:
            self._console.print(Text(clean(shown.empty)))

    def _show_facts(self, facts: Facts) -> None:
        width = _label_width(facts)
        for name, value in facts.pairs:
            # Never wrapped: addresses are there to be copied.
            line = Text.assemble((f"{clean(name):<{width}}", "dim"), styled(value))
            self._console.print(line, soft_wrap=True)


def plain_lines(shown: Shown) -> list[str]:
    """What is shown, as lines for a pipe or a log."""
    if isinstance(shown, str):
        return [clean(shown)]
    if isinstance(shown, Facts):
        width = _label_width(shown)
        return [f"{clean(name) + ':':<{width}}{clean(value)}".rstrip() for name, value in shown.pairs]
    if not shown.rows:
        return [clean(shown.empty)]
    rows = [tuple(column.name for column in shown.columns), *(tuple(map(clean, row)) for row in shown.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, shown.columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def table_for(table: Table, width: int) -> RenderableType:
    """The table as it fits a terminal: whole, else without its optional columns, else set closer and with broken
    heads, else one row below the other."""
    kept = [at for at, column in enumerate(table.columns) if not column.is_optional]
    short = evolve(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
    )
    close = evolve(short, columns=tuple(evolve(column, name=_broken(column.name)) for column in short.columns))
    for candidate, space in ((table, 2), (short, 2), (close, 1)):
        if _width(candidate, space) <= width:
            return _rich_table(candidate, space)
    return _stacked(table)


def _broken(head: str) -> str:
    """A head broken between its words: ``memberPoints`` is two of them."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)| ", "\n", head)


def _width(table: Table, space: int) -> int:
    """How wide the table is at least."""
    total = -space
    for column, *cells in zip(table.columns, *table.rows, strict=True):
        longest = max((len(clean(cell)) for cell in cells), default=0)
        head = max(map(len, column.name.split("\n")))
        total += max(head, min(longest, LEAST_WRAPPED) if column.is_long else longest) + space
    return total


def _rich_table(table: Table, space: int) -> RichTable:
    made = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, space, 0, 0))
    for column in table.columns:
        made.add_column(
            Text(column.name),
            justify="right" if column.is_number else "left",
            vertical="top",
            no_wrap=not column.is_long,
            overflow="fold",
        )
    for row in table.rows:
        made.add_row(*map(styled, row))
    return made


def _stacked(table: Table) -> RenderableType:
    """Each row as a paragraph under its first cell."""
    paragraphs: list[RenderableType] = []
    for row in table.rows:
        first, *others = zip(table.columns, row, strict=True)
        paragraphs.append(Text(clean(first[1]), style="bold"))
        facts = [
            Text.assemble((column.name and f"{column.name}\u00a0", "dim"), styled(cell))
            for column, cell in others
            if cell
        ]
        paragraphs.append(Padding(Text("  ").join(facts), (0, 0, 0, 2)))
    return Group(*paragraphs)


def styled(value: str) -> Text:
    """The value, in the colour of its state if it is one."""
    text = clean(value)
    return Text(text, style=style_of(text))


def style_of(state: str) -> str:
    """The colour of a state; none for anything else."""
    return _STYLES.get(state, "")


def facts_of(pairs: Iterable[tuple[str, object]]) -> Facts:
    """Facts of those values that are known."""
    return Facts(tuple((name, str(value)) for name, value in pairs if value is not None and value != ""))


def columns(
    *names: str, numbers: Sequence[str] = (), long: Sequence[str] = (), optional: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Columns by their names."""
    return tuple(
        Column(name=name, is_number=name in numbers, is_long=name in long, is_optional=name in optional)
        for name in names
    )


def _label_width(facts: Facts) -> int:
    return max((len(clean(name)) for name, _ in facts.pairs), default=0) + 2

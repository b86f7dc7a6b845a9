"""Results on stdout: tables for a terminal, aligned plain lines for a pipe."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import click
from attrs import evolve, frozen
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from vidgen_async.cli.terminal.formatting import clean

Document: TypeAlias = Mapping[str, Any]
"""A JSON object."""

#: The minimum width of a column that may be wrapped.
MIN_WRAPPED_WIDTH = 20

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
    """It may be wrapped."""
    is_optional: bool = False
    """It is omitted if the terminal is too narrow for all columns."""


@frozen(kw_only=True)
class Table:
    """Rows of text. ``empty`` is printed if there are no rows; ``notes`` are printed below, on a terminal."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "none"
    notes: tuple[str, ...] = ()


@frozen
class Facts:
    """Names with their values, one per line."""

    pairs: tuple[tuple[str, str], ...]


View: TypeAlias = str | Facts | Table


def show_plain(view: View) -> None:
    """Print lines without colours, wrapping or tabs; columns are separated by two spaces or more."""
    for line in plain_lines(view):
        click.echo(line)


def show_on_terminal(view: View, console: Console | None = None) -> None:
    """Print for the width of the terminal. rich honours NO_COLOR."""
    console = console or Console(highlight=False, markup=False, emoji=False)
    if isinstance(view, str):
        console.print(Text(clean(view)), soft_wrap=True)
    elif isinstance(view, Facts):
        width = _label_width(view)
        for name, value in view.pairs:
            # Not wrapped, so that URLs can be copied.
            line = Text.assemble((f"{clean(name):<{width}}", "dim"), styled(value))
            console.print(line, soft_wrap=True)
    elif view.rows:
        console.print(table_for(view, console.width))
        for note in view.notes:
            console.print(Text(clean(note), style="dim"))
    else:
        console.print(Text(clean(view.empty)))


def plain_lines(view: View) -> list[str]:
    """The view as lines for a pipe or a log."""
    if isinstance(view, str):
        return [clean(view)]
    if isinstance(view, Facts):
        width = _label_width(view)
        return [f"{clean(name) + ':':<{width}}{clean(value)}".rstrip() for name, value in view.pairs]
    if not view.rows:
        return [clean(view.empty)]
    rows = [tuple(column.name for column in view.columns), *(tuple(map(clean, row)) for row in view.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, view.columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def table_for(table: Table, width: int) -> RenderableType:
    """The table for a terminal of this width: complete, else without optional columns, else also with less space and
    wrapped column names, else as a paragraph per row."""
    required = [at for at, column in enumerate(table.columns) if not column.is_optional]
    short = evolve(
        table,
        columns=tuple(table.columns[at] for at in required),
        rows=tuple(tuple(row[at] for at in required) for row in table.rows),
    )
    close = evolve(short, columns=tuple(evolve(column, name=_break_words(column.name)) for column in short.columns))
    for candidate, space in ((table, 2), (short, 2), (close, 1)):
        if _width(candidate, space) <= width:
            return _rich_table(candidate, space)
    return _stacked(table)


def _break_words(head: str) -> str:
    """Break a column name into its words: ``memberPoints`` is two of them."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)| ", "\n", head)


def _width(table: Table, space: int) -> int:
    """The minimum width of the table."""
    total = -space
    for column, *cells in zip(table.columns, *table.rows, strict=True):
        longest = max((len(clean(cell)) for cell in cells), default=0)
        head = max(map(len, column.name.split("\n")))
        total += max(head, min(longest, MIN_WRAPPED_WIDTH) if column.is_long else longest) + space
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
    """Each row as a paragraph below its first cell."""
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
    """The value, in the colour of a state if it is one."""
    text = clean(value)
    return Text(text, style=style_of(text))


def style_of(state: str) -> str:
    """The colour of a state; none for anything else."""
    return _STYLES.get(state, "")


def facts_of(pairs: Iterable[tuple[str, object]]) -> Facts:
    """Facts without the values that are unknown."""
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

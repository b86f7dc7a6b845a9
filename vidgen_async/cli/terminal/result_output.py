"""Results on stdout: tables for a terminal, aligned plain lines for a pipe."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import click
from attrs import evolve, field, frozen
from rich.console import Console, Group, JustifyMethod, RenderableType
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


def _clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(clean, texts))


def _clean_rows(rows: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(_clean_all, rows))


@frozen(kw_only=True)
class Table:
    """Rows of text below the names of their columns. ``empty`` is printed if there are no rows; ``notes`` are printed
    below, on a terminal. All of it is cleaned here: also names come from the service."""

    names: tuple[str, ...] = field(converter=_clean_all)
    rows: tuple[tuple[str, ...], ...] = field(converter=_clean_rows)
    numbers: Sequence[str] = field(default=(), converter=_clean_all)
    """The columns of numbers."""
    long: Sequence[str] = field(default=(), converter=_clean_all)
    """The columns that may be wrapped."""
    optional: Sequence[str] = field(default=(), converter=_clean_all)
    """The columns that are omitted if the terminal is too narrow for all."""
    empty: str = field(default="none", converter=clean)
    notes: tuple[str, ...] = field(default=(), converter=_clean_all)


@frozen
class Facts:
    """Names with their values, one per line, cleaned."""

    pairs: Sequence[tuple[str, ...]] = field(converter=_clean_rows)


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
            line = Text.assemble((f"{name:<{width}}", "dim"), styled(value))
            console.print(line, soft_wrap=True)
    elif view.rows:
        console.print(table_for(view, console.width))
        for note in view.notes:
            console.print(Text(note, style="dim"))
    else:
        console.print(Text(view.empty))


def plain_lines(view: View) -> list[str]:
    """The view as lines for a pipe or a log."""
    if isinstance(view, str):
        return [clean(view)]
    if isinstance(view, Facts):
        width = _label_width(view)
        return [f"{name + ':':<{width}}{value}".rstrip() for name, value in view.pairs]
    if not view.rows:
        return [view.empty]
    rows = [view.names, *view.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if name in view.numbers else cell.ljust(width)
            for cell, width, name in zip(row, widths, view.names, strict=True)
        ).rstrip()
        for row in rows
    ]


def table_for(table: Table, width: int) -> RenderableType:
    """The table for a terminal of this width: complete, else without optional columns, else also with less space and
    wrapped column names, else as a paragraph per row."""
    required = [at for at, name in enumerate(table.names) if name not in table.optional]
    short = evolve(
        table,
        names=tuple(table.names[at] for at in required),
        rows=tuple(tuple(row[at] for at in required) for row in table.rows),
    )
    # A name such as memberPoints is two words.
    heads = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)| ", "\n", name) for name in short.names]
    for candidate, names, space in ((table, table.names, 2), (short, short.names, 2), (short, heads, 1)):
        if _width(candidate, names, space) <= width:
            return _rich_table(candidate, names, space)
    return _stacked(table)


def _width(table: Table, heads: Sequence[str], space: int) -> int:
    """The minimum width of the table."""
    total = -space
    for name, head, *cells in zip(table.names, heads, *table.rows, strict=True):
        longest = max(map(len, cells), default=0)
        width = min(longest, MIN_WRAPPED_WIDTH) if name in table.long else longest
        total += max(width, *map(len, head.split("\n"))) + space
    return total


def _rich_table(table: Table, heads: Sequence[str], space: int) -> RichTable:
    made = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, space, 0, 0))
    for name, head in zip(table.names, heads, strict=True):
        justify: JustifyMethod = "right" if name in table.numbers else "left"
        made.add_column(Text(head), justify=justify, vertical="top", no_wrap=name not in table.long, overflow="fold")
    for row in table.rows:
        made.add_row(*map(styled, row))
    return made


def _stacked(table: Table) -> RenderableType:
    """Each row as a paragraph below its first cell."""
    paragraphs: list[RenderableType] = []
    for row in table.rows:
        paragraphs.append(Text(row[0], style="bold"))
        facts = [
            Text.assemble((name and f"{name}\u00a0", "dim"), styled(cell))
            for name, cell in zip(table.names[1:], row[1:], strict=True)
            if cell
        ]
        paragraphs.append(Padding(Text("  ").join(facts), (0, 0, 0, 2)))
    return Group(*paragraphs)


def styled(value: str) -> Text:
    """The value, in the colour of a state if it is one."""
    return Text(value, style=style_of(value))


def style_of(state: str) -> str:
    """The colour of a state; none for anything else."""
    return _STYLES.get(state, "")


def facts_of(pairs: Iterable[tuple[str, object]]) -> Facts:
    """Facts without the values that are unknown."""
    return Facts(tuple((name, str(value)) for name, value in pairs if value is not None and value != ""))


def _label_width(facts: Facts) -> int:
    return max((len(name) for name, _ in facts.pairs), default=0) + 2

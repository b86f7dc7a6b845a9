"""Results on stdout: tables for a terminal, aligned plain lines for a pipe."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import click
from attrs import evolve, field, frozen
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from vidgen_async.cli.terminal.formatting import clean, wrap

Document: TypeAlias = Mapping[str, Any]
"""A JSON object."""

#: The minimum width of a column that may be wrapped.
MIN_WRAPPED_WIDTH = 16

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
    """The columns that a terminal omits if they have no values, or if it is too narrow for all, in this sequence."""
    shows_omitted: bool = False
    """Below each row of a terminal that is too narrow for all columns, show the values of the omitted ones."""
    empty: str = field(default="none", converter=clean)
    notes: tuple[str, ...] = field(default=(), converter=_clean_all)
    command: str = field(default="", converter=clean)
    """The command to run next, printed below the notes."""

    def is_empty(self, name: str) -> bool:
        """Whether no row has a value in this column."""
        at = self.names.index(name)
        return all(row[at] in ("", "—") for row in self.rows)

    def without(self, names: Collection[str]) -> "Table":
        """The table without these columns."""
        shown = [at for at, name in enumerate(self.names) if name not in names]
        rows = tuple(tuple(row[at] for at in shown) for row in self.rows)
        return evolve(self, names=tuple(self.names[at] for at in shown), rows=rows)


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
        console.print(Text(wrap(clean(view), console.width)), soft_wrap=True)
    elif isinstance(view, Facts):
        width = _label_width(view)
        for name, value in view.pairs:
            line = Text(wrap(f"{name:<{width}}{value}", console.width, width))
            line.stylize("dim", 0, width)
            line.stylize(style_of(value), width)
            console.print(line, soft_wrap=True)
    elif view.rows:
        layout = _layout_for(view, console.width)
        if layout is None:
            for line in _paragraphs(view, console.width):
                console.print(line, soft_wrap=True)
        else:
            for table in _rich_tables(view, layout, console.width):
                console.print(table, soft_wrap=isinstance(table, Text))
        hidden = [] if layout is None or view.shows_omitted else layout.hidden
        narrow = (f"The terminal is too narrow for: {', '.join(hidden)}.",) if hidden else ()
        for note in (*narrow, *view.notes):
            console.print(Text(wrap(note, console.width), style="dim"), soft_wrap=True)
        if view.command:
            console.print(
                Text(f"  {view.command}", style="dim"), soft_wrap=True
            )  # not wrapped, so that it can be copied
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


@frozen
class _Layout:
    """The columns of a table that are shown, their heads, the space between them, and their widths."""

    table: Table
    heads: Sequence[str]
    space: int
    widths: Sequence[int]
    hidden: Sequence[str]
    """The columns that are omitted although they have values."""


def _layout_for(table: Table, width: int) -> _Layout | None:
    """The layout with the most columns that fits the width without cutting a word, with less space and with wrapped
    column names if need be; None if not even the required columns fit."""
    table = table.without([name for name in table.optional if table.is_empty(name)])
    optional = [name for name in table.optional if name in table.names]
    for omitted in (optional[:count] for count in range(len(optional) + 1)):
        shown = table.without(omitted)
        # A name such as memberPoints is two words.
        heads = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)| ", "\n", name) for name in shown.names]
        for names, space in ((shown.names, 2), (heads, 1)):
            if (widths := _fit(shown, names, space, width)) is not None:
                return _Layout(shown, names, space, widths, omitted)
    return None


def _fit(table: Table, heads: Sequence[str], space: int, width: int) -> Sequence[int] | None:
    """The widths of the columns; a long one gets what the others leave, but no less than its longest word."""
    natural, least = [], []
    for name, head, *cells in zip(table.names, heads, *table.rows, strict=True):
        longest_head = max(map(cell_len, head.split("\n")))
        longest = max([longest_head, *map(cell_len, cells)])
        words = [word for cell in cells for word in cell.split()]
        wrapped = max([longest_head, MIN_WRAPPED_WIDTH, *map(cell_len, words)])
        natural.append(longest)
        least.append(min(longest, wrapped) if name in table.long else longest)
    spare = width - sum(least) - space * (len(least) - 1)
    if spare < 0:
        return None
    widths = []
    for most, minimum in zip(natural, least, strict=True):
        widths.append(min(most, minimum + spare))
        spare -= widths[-1] - minimum
    return widths


def _rich_tables(view: Table, layout: _Layout, width: int) -> Iterator[RichTable | Text]:
    """The whole table; or each row as one of the same widths, and below it the values of the omitted columns."""
    if not (view.shows_omitted and layout.hidden):
        yield _rich_table(layout, layout.table.rows)
        return
    below = view.without(layout.table.names)
    for at, (row, more) in enumerate(zip(layout.table.rows, below.rows, strict=True)):
        yield _rich_table(layout, [row], has_head=at == 0)
        yield from _facts(below.names, ["" if cell == "—" else cell for cell in more], width)


def _rich_table(layout: _Layout, rows: Iterable[Sequence[str]], *, has_head: bool = True) -> RichTable:
    # The space is columns of its own: rich before 15 adds padding to the last column, too, and cuts others for it.
    made = RichTable(box=None, header_style="bold", padding=0, show_header=has_head)
    for name, head, width in zip(layout.table.names, layout.heads, layout.widths, strict=True):
        justify: JustifyMethod = "right" if name in layout.table.numbers else "left"
        if made.columns:
            made.add_column(width=layout.space)
        made.add_column(Text(head), justify=justify, vertical="top", width=width)
    for first, *others in rows:
        made.add_row(styled(first), *(part for cell in others for part in ("", styled(cell))))
    return made


def _paragraphs(table: Table, width: int) -> Iterator[Text]:
    """Each row as a paragraph below its first cell."""
    for row in table.rows:
        yield Text(row[0], style="bold")
        yield from _facts(table.names[1:], row[1:], width)


def _facts(names: Iterable[str], cells: Iterable[str], width: int) -> Iterator[Text]:
    """Indented lines of names with their values; a fact is on one line if possible."""
    line = Text()
    for name, cell in zip(names, cells, strict=True):
        if not cell:
            continue
        fact = Text.assemble((name and f"{name} ", "dim"), styled(cell))
        if line and line.cell_len + fact.cell_len + 4 > width:
            yield _indented(line, width)
            line = Text()
        line = Text("  ").join((line, fact)) if line else fact
    if line:
        yield _indented(line, width)


def _indented(line: Text, width: int) -> Text:
    """The line, indented, and wrapped if it is longer than the width."""
    return Text("  ") + line if line.cell_len + 2 <= width else Text(wrap(f"  {line.plain}", width, 2))


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

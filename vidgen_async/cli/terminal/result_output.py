"""Results on stdout: aligned lines, which a terminal shows in colours and fitted to its width."""

from collections.abc import Iterable, Iterator, Sequence

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from vidgen_async.cli.terminal.formatting import Facts, Table, View, clean, wrap

#: The minimum width of a last column that is wrapped.
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


def show_plain(view: View) -> None:
    """Print lines without colours, wrapping or tabs; columns are separated by two spaces or more."""
    for line in plain_lines(view):
        click.echo(line)


def plain_lines(view: View) -> list[str]:
    """The view as lines for a pipe or a log."""
    if isinstance(view, str):
        return [clean(view)]
    if isinstance(view, Facts):
        width = _label_width(view)
        return [f"{name + ':':<{width}}{value}".rstrip() for name, value in view.pairs]
    if not view.rows:
        return [view.empty]
    return ["  ".join(cells).rstrip() for cells in _aligned(view, range(len(view.names)))]


def show_on_terminal(view: View, console: Console | None = None) -> None:
    """Print for the width of the terminal. rich honours NO_COLOR."""
    console = console or Console(highlight=False, markup=False, emoji=False)
    for line in _terminal_lines(view, console.width):
        console.print(line, soft_wrap=True)


def _terminal_lines(view: View, width: int) -> Iterator[Text]:
    if isinstance(view, str):
        yield Text(wrap(clean(view), width))
    elif isinstance(view, Facts):
        label = _label_width(view)
        for name, value in view.pairs:
            line = Text(wrap(f"{name:<{label}}{value}", width, label))
            line.stylize("dim", 0, label)
            line.stylize(style_of(value), label)
            yield line
    elif view.rows:
        yield from _table_lines(view, width)
        for note in view.notes:
            yield Text(wrap(note, width), "dim")
        if view.command:
            yield Text(f"  {view.command}", "dim")  # not wrapped, so that it can be copied
    else:
        yield Text(view.empty)


def _table_lines(table: Table, width: int) -> Iterator[Text]:
    columns, below = _layout(table, width)
    for at, cells in enumerate(_aligned(table, columns)):
        text, styles = "", []
        for cell in cells:
            styles.append(("bold" if at == 0 else style_of(cell.strip()), len(text), len(text) + len(cell)))
            text += f"{cell}  "
        line = Text(wrap(text.rstrip(), width, styles[-1][1]))
        for style in styles:
            line.stylize(*style)
        yield line
        facts = [(table.names[column], table.rows[at - 1][column]) for column in below if at]
        if shown := " · ".join(" ".join(filter(None, fact)) for fact in facts if fact[1] not in ("", "—")):
            yield Text(wrap(f"  {shown}", width, 2), "dim")


def _layout(table: Table, width: int) -> tuple[Sequence[int], Sequence[int]]:
    """The columns beside each other, and those whose values are below each row, as numbers."""
    optional = [table.names.index(name) for name in table.optional]
    empty = {column for column in optional if all(row[column] in ("", "—") for row in table.rows)}
    shown = [column for column in range(len(table.names)) if column not in empty]
    optional = [column for column in optional if column not in empty]
    for moved in [optional[:count] for count in range(len(optional) + 1)] + [shown[1:]]:
        columns = [column for column in shown if column not in moved]
        if _width_of(table, columns) <= width:
            break
    return columns, [column for column in shown if column in moved]


def _width_of(table: Table, columns: Sequence[int]) -> int:
    """The least width of the table with these columns, the last of which is wrapped between words."""
    *widths, last = _widths(table, columns)
    words = [cell_len(word) for row in (table.names, *table.rows) for word in row[columns[-1]].split()]
    return sum(widths) + 2 * len(widths) + min(last, max(MIN_WRAPPED_WIDTH, *words))


def _widths(table: Table, columns: Iterable[int]) -> list[int]:
    return [max(cell_len(row[column]) for row in (table.names, *table.rows)) for column in columns]


def _aligned(table: Table, columns: Sequence[int]) -> Iterator[list[str]]:
    """The cells of the head and of each row, padded to the width of their column."""
    widths = _widths(table, columns)
    for row in (table.names, *table.rows):
        cells = []
        for column, width in zip(columns, widths, strict=True):
            space = " " * (width - cell_len(row[column]))
            is_number = table.names[column] in table.numbers
            cells.append(f"{space}{row[column]}" if is_number else f"{row[column]}{space}")
        yield cells


def style_of(state: str) -> str:
    """The colour of a state; none for anything else."""
    return _STYLES.get(state, "")


def _label_width(facts: Facts) -> int:
    return max((len(name) for name, _ in facts.pairs), default=0) + 2

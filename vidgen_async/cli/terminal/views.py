"""What a command shows: a text, facts or a table, without the way to draw it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from vidgen_async.cli.terminal.formatting import clean

Document: TypeAlias = Mapping[str, Any]
"""A JSON object."""


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
    optional: Sequence[str] = field(default=(), converter=_clean_all)
    """The columns that a terminal omits if they have no values. If it is too narrow for all columns, their values are
    below each row, in this sequence until the others fit."""
    empty: str = field(default="none", converter=clean)
    notes: tuple[str, ...] = field(default=(), converter=_clean_all)
    command: str = field(default="", converter=clean)
    """The command to run next, printed below the notes."""


@frozen
class Facts:
    """Names with their values, one per line, cleaned."""

    pairs: Sequence[tuple[str, ...]] = field(converter=_clean_rows)


View: TypeAlias = str | Facts | Table


def facts_of(pairs: Iterable[tuple[str, object]]) -> Facts:
    """Facts without the values that are unknown."""
    return Facts(tuple((name, str(value)) for name, value in pairs if value is not None and value != ""))

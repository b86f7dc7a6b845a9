"""Values formatted for people; and what a command shows: a text, facts or a table, without the way to draw it."""

import json
import textwrap
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from attrs import field, frozen

from vidgen_async.types import printable


def clean(text: str) -> str:
    """The text as one line without control characters."""
    return printable(" ".join(text.split()))


def wrap(text: str, width: int, indent: int = 0) -> str:
    """The text as lines of this width, all but the first indented; a word that is too long has its own line."""
    if " " not in text[indent:]:  # such as a URL
        return text
    lines = textwrap.wrap(
        text, max(width, 1), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def traceback_of(error: BaseException) -> str:
    """The traceback as indented lines without control characters: messages quote the service."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "".join(f"{' ' * (len(line) - len(line.lstrip(' ')))}{clean(line)}\n" for line in lines)


def seconds(count: float) -> str:
    """A duration."""
    if count < 60:
        return f"{count:.1f} s"
    minutes, rest = divmod(round(count), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def age(since: datetime, now: datetime) -> str:
    """The time since then, in its largest unit."""
    count = max(0, round((now - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if count >= length:
            return f"{count // length} {unit}"
    return f"{count} s"


def moment(when: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def span(numbers: Iterable[int]) -> str:
    """Whole numbers as a range or a list: ``5-15`` or ``5,10,15``."""
    ordered = sorted(set(numbers))
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


def show_value(value: object) -> str:
    """A value of an undocumented field: text as it is, anything else as JSON, a dash for null."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def limit(number: int | None) -> str:
    """A limit of the catalog: a dash for an unknown one, ``none`` for 0."""
    return "—" if number is None else str(number or "none")


Document: TypeAlias = Mapping[str, Any]
"""A JSON object."""


def _clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(clean, texts))


def _clean_rows(rows: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(_clean_all, rows))


@frozen(kw_only=True)
class Table:
    """Rows below the names of their columns, cleaned; ``empty`` stands for no rows, ``notes`` are for a terminal."""

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


def _clean_known(pairs: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    return tuple((clean(name), clean(str(value))) for name, value in pairs if value is not None and value != "")


@frozen
class Facts:
    """Names with their values, one per line, cleaned, without those that are unknown."""

    pairs: Sequence[tuple[str, str]] = field(converter=_clean_known)


View: TypeAlias = str | Facts | Table

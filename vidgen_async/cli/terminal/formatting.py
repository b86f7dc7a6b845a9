"""Values formatted for people."""

import json
import textwrap
import traceback
from collections.abc import Iterable
from datetime import datetime

from rich.filesize import decimal


def clean(text: str) -> str:
    """The text as one line without control characters."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """The text with a replacement for each character that is not printable."""
    return "".join(char if char.isprintable() else "�" for char in text)


def wrap(text: str, width: int, indent: int = 0) -> str:
    """The text as lines for a terminal of this width; all but the first are indented. No word is cut: one that is too
    long has a line of its own."""
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


def size(count: int) -> str:
    """A number of bytes."""
    return decimal(count)


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

"""The headers of a response as evidence: without secrets, and shortened."""

from collections.abc import Iterable, Mapping

from vidgen_async.redaction.known_values import HIDDEN, as_known_values
from vidgen_async.redaction.messages import excerpt
from vidgen_async.redaction.secret_names import HeaderKind, kind_of_header

#: Further headers are omitted, longer values shortened.
MOST_HEADERS = 60
LONGEST_VALUE = 300


def visible_headers(headers: Mapping[str, str], known: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """The names and values; a value that may be a secret is hidden. ``known`` are further values to hide."""
    hidden = as_known_values(known)
    return tuple(
        (name, HIDDEN if kind_of_header(name) is HeaderKind.SECRET else excerpt(value, hidden, limit=LONGEST_VALUE))
        for name, value in list(headers.items())[:MOST_HEADERS]
    )

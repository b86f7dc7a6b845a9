"""The headers of an answer as evidence: those that are no secrets, shortened."""

from collections.abc import Iterable, Mapping

from vidgen_async.redaction.known_values import HIDDEN, as_known_values
from vidgen_async.redaction.messages import excerpt
from vidgen_async.redaction.secret_names import HeaderKind, kind_of_header

#: More headers, and longer values, are not kept.
MOST_HEADERS = 60
LONGEST_VALUE = 300


def visible_headers(headers: Mapping[str, str], known: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """Names and values; the value of a header that may hold a secret is hidden. ``known`` are values to hide."""
    hidden = as_known_values(known)
    return tuple(
        (name, HIDDEN if kind_of_header(name) is HeaderKind.LEARNT else excerpt(value, hidden, limit=LONGEST_VALUE))
        for name, value in list(headers.items())[:MOST_HEADERS]
    )

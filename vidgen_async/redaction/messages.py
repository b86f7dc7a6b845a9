"""What may be shown: URLs, bodies and messages of the service pass here before they are printed or logged.

Two kinds of secrets are hidden: *known values* (the API key, a prompt, an Idempotency-Key), wherever they occur and
however they are escaped, and the *values of secret names* (``sig``, ``exp``, ``token`` …), ``Bearer …``, prompts in
JSON or in quotes, and inline image data, whatever their value is.
"""

import re
from collections.abc import Iterable, Mapping

from vidgen_async.redaction.known_values import HIDDEN, as_known_values

#: An excerpt reads this much of the text, and omits the end of it: a secret that is cut would not be recognised.
LONGEST_READ = 4096
_EDGE = 256
#: Of a response, so many headers are evidence; longer values are shortened.
MOST_HEADERS = 60
LONGEST_VALUE = 300

_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret place and every one of the ``known`` values replaced by an ellipsis.

    Known values are found however they are escaped, in any case, with any white space, and in Base64 (standard and
    URL-safe); so is every part of one that has ``RUN`` letters or more. Takes time in proportion to the text.
    """
    from vidgen_async.redaction.secret_places import hide_secret_places  # noqa: PLC0415 - needed for messages only

    return hide_secret_places(as_known_values(known).hide(text))


def excerpt(text: str | bytes, known: Iterable[str] = (), *, limit: int = 200) -> str:
    """One printable line of at most ``limit`` characters of an answer, without secrets."""
    if isinstance(text, bytes):
        text = text[: 4 * (LONGEST_READ + 1)].decode("utf-8", "replace")
    # Hidden before it is cut to the limit: half a secret at the edge would no longer be recognised.
    shown = hide_secrets(text[:LONGEST_READ], known)
    if len(text) > LONGEST_READ:
        shown = shown[:-_EDGE] + HIDDEN
    line = " ".join(shown.split())
    line = "".join(char if char.isprintable() else "�" for char in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_plain_word(text: str, known: Iterable[str] = ()) -> bool:
    """Whether it is one short word without secrets, as codes and states are, and can be shown as it is."""
    return _WORD.fullmatch(text) is not None and hide_secrets(text, known) == text


def visible_headers(headers: Mapping[str, str], known: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """The headers of a response as evidence: shortened, and without secrets and ``known`` values."""
    from vidgen_async.redaction.secret_names import HeaderKind, kind_of_header  # noqa: PLC0415 - as above

    hidden = as_known_values(known)
    return tuple(
        (name, HIDDEN if kind_of_header(name) is HeaderKind.SECRET else excerpt(value, hidden, limit=LONGEST_VALUE))
        for name, value in list(headers.items())[:MOST_HEADERS]
    )

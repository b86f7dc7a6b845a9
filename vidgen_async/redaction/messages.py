"""What may be shown: URLs, bodies and messages of the service pass here before they are printed or logged.

Hidden are *known values* (the API key, a prompt, an Idempotency-Key) in every escaping, the *values of secret names*
(``sig``, ``exp``, ``token`` …), ``Bearer …``, prompts in JSON or in quotes, and inline image data.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from vidgen_async.redaction.known_values import HIDDEN, as_known_values

#: An excerpt reads this much of the text, and omits the end of it: a secret that is cut would not be recognised.
LONGEST_READ = 4096
_EDGE = 256
#: Of a response, so many headers are evidence; longer values are shortened.
MOST_HEADERS = 60
LONGEST_VALUE = 300
#: So many levels of percent-encoding are searched for secrets in a path.
_LEVELS = 5

_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)
#: What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """Return the text with a replacement for each character that is not printable, such as a control character."""
    return "".join(char if char.isprintable() else "�" for char in text)


def csv_cell(text: str) -> str:
    """Return the text as a cell of a CSV file, quoted where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with an ellipsis for each secret place and ``known`` value, in time in proportion to it."""
    from vidgen_async.redaction.named_values import hide_secret_places  # noqa: PLC0415 - needed for messages only

    return hide_secret_places(as_known_values(known).hide(text))


def hide_in_path(path: str, known: Iterable[str] = ()) -> str:
    """The path as it is; with a secret that percent-encoding conceals, decoded, in one line and without the secret."""
    known = as_known_values(known)
    shown = decoded = hide_secrets(path, known)
    for _ in range(_LEVELS):
        if "%" not in decoded:
            break
        # On each level: a secret may contain an encoded separator, and end there once it is decoded.
        decoded = unquote(decoded)
        if (hidden := hide_secrets(decoded, known)) != decoded:
            shown = decoded = hidden
    return excerpt(shown, limit=LONGEST_READ)


def excerpt(text: str | bytes, known: Iterable[str] = (), *, limit: int = 200) -> str:
    """One printable line of at most ``limit`` characters of an answer, without secrets."""
    if isinstance(text, bytes):
        text = text[: 4 * (LONGEST_READ + 1)].decode("utf-8", "replace")
    # Hidden before it is cut to the limit: half a secret at the edge would no longer be recognised.
    shown = hide_secrets(text[:LONGEST_READ], known)
    if len(text) > LONGEST_READ:
        shown = shown[:-_EDGE] + HIDDEN
    line = printable(" ".join(shown.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def hide_in_json(value: Any) -> Any:
    """The JSON value without the values of secret names, and without the secrets in its names and texts."""
    if isinstance(value, dict):
        from vidgen_async.redaction.secret_names import names_a_secret  # noqa: PLC0415 - as above

        hidden: dict[str, Any] = {}
        for name, item in value.items():
            shown = hide_secrets(name)
            # Two names may look the same now: both stay.
            shown = f"{shown}{len(hidden)}" if shown in hidden else shown
            may_be_secret = item is not None and not isinstance(item, bool)
            hidden[shown] = HIDDEN if may_be_secret and names_a_secret(name, str(item)) else hide_in_json(item)
        return hidden
    if isinstance(value, list):
        return list(map(hide_in_json, value))
    return hide_secrets(value) if isinstance(value, str) else value


def is_plain_word(text: str, known: Iterable[str] = ()) -> bool:
    """Whether it is one short word without secrets, as codes and states are, and can be shown as it is."""
    if _WORD.fullmatch(text) is None:
        return False
    return hide_secrets(text, known) == text if known else _is_without_secrets(text)


@lru_cache(maxsize=64)  # short words only: the few models and states, which each create and each poll asks for
def _is_without_secrets(word: str) -> bool:
    return hide_secrets(word) == word


def visible_headers(headers: Mapping[str, str], known: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """The headers of a response as evidence: shortened, and without secrets and ``known`` values."""
    from vidgen_async.redaction.secret_names import HeaderKind, kind_of_header  # noqa: PLC0415 - as above

    hidden = as_known_values(known)
    return tuple(
        (name, HIDDEN if kind_of_header(name) is HeaderKind.SECRET else excerpt(value, hidden, limit=LONGEST_VALUE))
        for name, value in list(headers.items())[:MOST_HEADERS]
    )


def showable(
    error: BaseException | None,
    known: Iterable[str] = (),
    *,
    may_show: Callable[[BaseException], bool] = lambda _: True,
) -> BaseException | None:
    """``error``, or the first of its causes, of which no traceback shows a secret, or what ``may_show`` refuses."""
    known = as_known_values(known)
    while error is not None and not all(may_show(one) and _is_showable(one, known) for one in _chain_of(error)):
        error = error.__cause__
    return error


def _chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error with its causes, its contexts and the members of groups, each once."""
    chain = [error]
    for one in chain:
        yield one
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        more = (one.__cause__, one.__context__, *members)
        chain += [each for each in more if each is not None and each not in chain]


def _is_showable(error: BaseException, known: Iterable[str]) -> bool:
    """Whether no text that is shown of it has a secret, or is too long to be searched, as a body may be."""
    texts = [str(error), *getattr(error, "__notes__", ())]
    for arg in error.args:  # which the repr shows, such as the URL of a proxy in the key of a connection
        texts += map(str, arg if isinstance(arg, tuple) else (arg,))
    return all(len(text) <= LONGEST_READ and hide_secrets(text, known) == text for text in texts)

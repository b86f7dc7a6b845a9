"""What may be shown: URLs, bodies and messages of the service pass here before they are printed or logged.

Two kinds of secrets are hidden: *known values* (the API key, a prompt, an Idempotency-Key), wherever they occur and
however they are escaped, and the *values of secret names* (``sig``, ``exp``, ``token`` …), ``Bearer …``, prompts in
JSON or in quotes, and inline image data, whatever their value is.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from vidgen_async.redaction.known_values import HIDDEN, as_known_values
from vidgen_async.redaction.named_values import hide_named_values
from vidgen_async.redaction.secret_names import SECRET_FORMS, HeaderKind, is_word, kind_of_header, names_a_secret

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

#: An excerpt reads this much of the text, and omits the end of it: a secret that is cut would not be recognised.
LONGEST_READ = 4096
_EDGE = 256
#: Of a response, so many headers are evidence; longer values are shortened.
MOST_HEADERS = 60
LONGEST_VALUE = 300
_LEAST_BASE64 = 200

# The text in quotes after the word; an apostrophe does not end it.
_QUOTED_PROMPT = re.compile(
    r"(\bprompt\\{0,8}[\"']?\s{0,2}[:=]?\s{0,2}\\{0,8}[\"'\u2018\u201c])(?:(?![\"'\u2019\u201d](?!\w)).){1,2000}",
    re.IGNORECASE | re.DOTALL,
)
# A password may contain a slash that was not encoded.
_USERINFO = re.compile(r"(\w://)(?:[^/@\s\"']+|[^/@:\s\"']{0,256}:(?!\d{1,5}/)[^@\s\"']{0,256})@")
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80},[\w+/=%-]*", re.IGNORECASE)
_LONG_BASE64 = re.compile(rf"[A-Za-z0-9+/]{{{_LEAST_BASE64},}}={{0,2}}")
_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)


def _hide_unless_word(match: re.Match[str]) -> str:
    return match[0] if is_word(match[0]) else HIDDEN


#: A condition for each pattern, which is faster than the pattern, and what replaces its matches.
_PLACES: tuple[tuple[Callable[[str], bool], re.Pattern[str], Replacement], ...] = (
    (lambda text: ":" in text and "," in text, _DATA_URI, lambda match: f"data:{match[1] or ''},{HIDDEN}"),
    (lambda text: "://" in text and "@" in text, _USERINFO, rf"\1{HIDDEN}@"),
    (lambda text: "prompt" in text.lower(), _QUOTED_PROMPT, rf"\1{HIDDEN}"),
    (bool, _AUTHORIZATION, rf"\1 {HIDDEN}"),
    (lambda text: len(text) >= _LEAST_BASE64, _LONG_BASE64, HIDDEN),
    *((bool, pattern, _hide_unless_word) for _, pattern in SECRET_FORMS),
)


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret place and every one of the ``known`` values replaced by an ellipsis.

    Known values are found however they are escaped, in any case, with any white space, and in Base64 (standard and
    URL-safe); so is every part of one that has ``RUN`` letters or more. Takes time in proportion to the text.
    """
    text = as_known_values(known).hide(text)
    for may_be_in, pattern, replacement in _PLACES:
        if may_be_in(text):
            text = pattern.sub(replacement, text)
    return hide_named_values(text, lambda *_: HIDDEN) if "=" in text or ":" in text else text


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


def hide_in_json(value: Any) -> Any:
    """The JSON value without the values of secret names, and without the secrets in its texts."""
    if isinstance(value, dict):
        return {name: HIDDEN if _is_secret(name, item) else hide_in_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(hide_in_json, value))
    return hide_secrets(value) if isinstance(value, str) else value


def _is_secret(name: str, value: object) -> bool:
    return value is not None and not isinstance(value, bool) and names_a_secret(name, str(value))


def is_plain_word(text: str, known: Iterable[str] = ()) -> bool:
    """Whether it is one short word without secrets, as codes and states are, and can be shown as it is."""
    return _WORD.fullmatch(text) is not None and hide_secrets(text, known) == text


def visible_headers(headers: Mapping[str, str], known: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """The headers of a response as evidence: shortened, and without secrets and ``known`` values."""
    hidden = as_known_values(known)
    return tuple(
        (name, HIDDEN if kind_of_header(name) is HeaderKind.SECRET else excerpt(value, hidden, limit=LONGEST_VALUE))
        for name, value in list(headers.items())[:MOST_HEADERS]
    )

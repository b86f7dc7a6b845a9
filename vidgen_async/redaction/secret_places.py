"""The places in a text that hold secrets, whatever their value is."""

import re
from collections.abc import Callable
from typing import TypeAlias

from vidgen_async.redaction.known_values import HIDDEN
from vidgen_async.redaction.named_values import hide_named_values
from vidgen_async.redaction.secret_names import SECRET_FORMS, is_word

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

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


def hide_secret_places(text: str) -> str:
    """``text`` with an ellipsis for the secret in each of the places."""
    for may_be_in, pattern, replacement in _PLACES:
        if may_be_in(text):
            text = pattern.sub(replacement, text)
    return hide_named_values(text, lambda *_: HIDDEN) if "=" in text or ":" in text else text

"""What may be shown: everything that prints a URL, a body or a message of the service asks here first.

Two kinds of secrets: *known values* (the API key, a prompt, an Idempotency-Key), which are hidden wherever they
appear and however they are written, and *places* (``sig``, ``exp``, ``token`` … in a query, ``Bearer …``, a prompt in
JSON or in quotes, inline image data), which are hidden whatever they hold.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from vidgen_async.redaction.known_values import HIDDEN, RUN, KnownValues, as_known_values

__all__ = ["HIDDEN", "LONGEST_READ", "RUN", "KnownValues", "excerpt", "hide_secrets", "is_plain_word"]

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

#: An excerpt looks at so much of the text, and leaves out the last of it: a secret that is cut is not recognised.
LONGEST_READ = 4096
_EDGE = 256
_LEAST_BASE64 = 200

_TELLING_ANYWHERE = r"(?:token|secret|password|passwd|signature|credential|api[_-]?key|authorization)[\w.-]{0,40}"
_TELLING = rf"[\w.-]{{0,64}}(?:{_TELLING_ANYWHERE}|(?:cookie|session)[\w.-]{{0,40}})"
# In a query also names that would mean something harmless elsewhere.
_TELLING_IN_QUERY = rf"(?:{_TELLING}|x-amz-[\w-]+|x-goog-[\w-]+|sig|exp|expires|key|auth|code|policy)"
_QUERY_SECRET = re.compile(rf"([?&;](?:amp;)?{_TELLING_IN_QUERY}=)[^&;#\s\"'<>\\]*", re.IGNORECASE)
_JSON_SECRET = re.compile(rf"(\"(?:{_TELLING}|[\w.-]{{0,64}}prompt|sig|exp)\"\s*:\s*\")(?:[^\"\\]|\\.)*", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    rf"(\b(?:sig|exp)=|{_TELLING_ANYWHERE}\\{{0,8}}[\"']?\s{{0,3}}[:=]\s{{0,3}}\\{{0,8}}[\"']?"
    rf"(?:(?:Bearer|Basic|Digest|Token)\s{{1,3}})?+)(?!{HIDDEN})[^\s&\"'<>\\]+",
    re.IGNORECASE,
)
# What stands in quotes after the word; an apostrophe ends nothing.
_QUOTED_PROMPT = re.compile(
    r"(\bprompt\\{0,8}[\"']?\s{0,2}[:=]?\s{0,2}\\{0,8}[\"'\u2018\u201c])(?:(?![\"'\u2019\u201d](?!\w)).){1,2000}",
    re.IGNORECASE | re.DOTALL,
)
# A password may hold a slash that was not encoded.
_USERINFO = re.compile(r"(\w://)(?:[^/@\s\"']+|[^/@:\s\"']{0,256}:(?!\d{1,5}/)[^@\s\"']{0,256})@")
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80},[\w+/=%-]*", re.IGNORECASE)
_LONG_BASE64 = re.compile(rf"[A-Za-z0-9+/]{{{_LEAST_BASE64},}}={{0,2}}")
_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)

#: What a text must hold to have such a place at all, and what is hidden there.
_PLACES: tuple[tuple[Callable[[str], bool], re.Pattern[str], Replacement], ...] = (
    (lambda text: ":" in text and "," in text, _DATA_URI, lambda match: f"data:{match[1] or ''},{HIDDEN}"),
    (lambda text: "://" in text and "@" in text, _USERINFO, rf"\1{HIDDEN}@"),
    (lambda text: "=" in text, _QUERY_SECRET, rf"\1{HIDDEN}"),
    (lambda text: '"' in text, _JSON_SECRET, rf"\1{HIDDEN}"),
    (lambda text: "prompt" in text.lower(), _QUOTED_PROMPT, rf"\1{HIDDEN}"),
    (bool, _AUTHORIZATION, rf"\1 {HIDDEN}"),
    (lambda text: "=" in text or ":" in text, _NAMED_SECRET, rf"\1{HIDDEN}"),
    (lambda text: len(text) >= _LEAST_BASE64, _LONG_BASE64, HIDDEN),
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
    return text


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

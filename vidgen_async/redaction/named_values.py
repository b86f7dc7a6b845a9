"""The places in a text that hold secrets, whatever their value is: the values of secret names in assignments, JSON and
query strings, however they are escaped; and texts with the form of a secret."""

import re
from collections.abc import Callable
from typing import TypeAlias

from vidgen_async.redaction.known_values import HIDDEN
from vidgen_async.redaction.pseudonyms import unescape
from vidgen_async.redaction.secret_names import SECRET_FORMS, Kind, is_credential, is_word, kind_of, names_a_secret

_QUOTE = r"\\{0,16}(?:[\"']|&(?:quot|apos|#34|#39);)"
_NAME = r"[\w.%-]++(?:\[[\w-]{0,32}\])*+"
_PAIR = re.compile(
    rf"(?P<query>[?&;](?:amp;)?)?(?<![\w.%-])(?P<name>{_NAME})(?P<end>{_QUOTE})?\s{{0,3}}(?P<mark>[:=])[\s(]{{0,3}}"
    rf"(?P<quote>{_QUOTE})?(?:(?:Bearer|Basic|Digest|Token)\s{{1,3}})?+",
    re.IGNORECASE,
)
_IN_QUERY = re.compile(r"[^&;#\s\"'<>\\]*")
_BARE = re.compile(r"[^\s&\"'<>\\]+")
#: An apostrophe within a word does not end the value.
_QUOTED = {
    '"': re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.|'(?=\w))*", re.DOTALL),
}
_BRACKET_OR_STRING = re.compile(r"[\[{]|[\]}]|\"(?:[^\"\\]|\\.)*\"?", re.DOTALL)
#: So much of the end of a name is compared.
_LONGEST_NAME = 256
#: After the value of a name that is not quoted, this belongs to the sentence.
_PUNCTUATION = ",;)]}"


def hide_named_values(text: str, hide: Callable[[str, str], str], *, with_prompts: bool = True) -> str:
    """The text with ``hide(name, value)`` for each value of a secret name, in time in proportion to the text."""
    parts: list[str] = []
    at = shown_to = 0
    while match := _PAIR.search(text, at):
        name, start = match["name"][-_LONGEST_NAME:], match.end()
        name = unescape(name) if "%" in name else name
        is_searched = with_prompts or kind_of(name) is not Kind.PROMPT
        end = _end_of_value(text, match) if is_searched and _may_be_secret(name, match) else start
        if end > start and _is_secret(name, match, text[start:end]):
            parts += [text[shown_to:start], hide(name, text[start:end])]
            at = shown_to = end
        else:
            # The value may be the next name.
            at = match.start("mark") + 1
    return "".join([*parts, text[shown_to:]])


def _is_in_query(match: re.Match[str]) -> bool:
    return match["query"] is not None and match["mark"] == "="


def _may_be_secret(name: str, match: re.Match[str]) -> bool:
    """Whether the name alone permits that the value is a secret."""
    match kind_of(name):
        case Kind.EXPIRY:
            return bool(match["mark"] == "=" or match["end"])
        case Kind.PLAIN:
            return names_a_secret(name, "", is_in_query=_is_in_query(match))
    return True


def _is_secret(name: str, match: re.Match[str], value: str) -> bool:
    kind = kind_of(name)
    if kind is Kind.PROMPT:
        return bool(match["quote"] or value[0] in "[{" or _is_in_query(match))
    # "policy: violence" is a sentence; "password: violence" may be a password.
    is_prose = not (match["mark"] == "=" or match["end"] or match["quote"])
    if is_prose and is_word(value) and not is_credential(name):
        return False
    return kind is Kind.EXPIRY or names_a_secret(name, value, is_in_query=_is_in_query(match))


def _end_of_value(text: str, match: re.Match[str]) -> int:
    start, quote = match.end(), match["quote"]
    if quote is not None and len(quote) > 1:
        end = text.find(quote, start)
        return len(text) if end < 0 else end
    if quote is not None:
        found = _QUOTED[quote].match(text, start)
        return start if found is None else found.end()
    if text[start : start + 1] in ("[", "{"):
        return _end_of_brackets(text, start)
    found = (_IN_QUERY if _is_in_query(match) else _BARE).match(text, start)
    return start if found is None else start + len(found[0].rstrip(_PUNCTUATION))


def _end_of_brackets(text: str, start: int) -> int:
    """Where the JSON list or object ends; the end of the text where it was cut."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, start):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth == 0:
            return match.end()
    return len(text)


# -- all places ----------------------------------------------------------------------------------------------------

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


#: A condition for each pattern, which is faster than the pattern, and what replaces its matches.
_PLACES: tuple[tuple[Callable[[str], bool], re.Pattern[str], Replacement], ...] = (
    (lambda text: ":" in text and "," in text, _DATA_URI, lambda match: f"data:{match[1] or ''},{HIDDEN}"),
    (lambda text: "://" in text and "@" in text, _USERINFO, rf"\1{HIDDEN}@"),
    (lambda text: "prompt" in text.lower(), _QUOTED_PROMPT, rf"\1{HIDDEN}"),
    (bool, _AUTHORIZATION, rf"\1 {HIDDEN}"),
    (lambda text: len(text) >= _LEAST_BASE64, _LONG_BASE64, HIDDEN),
    *((bool, pattern, lambda match: match[0] if is_word(match[0]) else HIDDEN) for _, pattern in SECRET_FORMS),
)


def hide_secret_places(text: str) -> str:
    """``text`` with an ellipsis for the secret in each of the places."""
    for may_be_in, pattern, replacement in _PLACES:
        if may_be_in(text):
            text = pattern.sub(replacement, text)
    return hide_named_values(text, lambda *_: HIDDEN) if "=" in text or ":" in text else text

"""The secrets of one recording: each is replaced by one pseudonym, wherever it occurs and however it is escaped."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

#: What replaces a secret: valid in URLs, headers and JSON. It is never replaced itself, so that a request made from a
#: replayed response matches the recorded one.
PSEUDONYM = re.compile(r"REDACTED-[a-z]+(?:-\d+)?")
_NUMBERED = re.compile(r"(REDACTED-[a-z]+)-(\d+)")

#: Shorter values are hidden only where they were found: hiding them everywhere would make texts unreadable.
SHORTEST = 6

_ESCAPED = re.compile(r"[%&\\]")
_UNICODE_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{4})\}?|x([0-9a-fA-F]{2}))")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PRINTABLE = re.compile(rb"[\x20-\x7e]{6,}")
_DEPTH = 5
#: Texts are searched in parts of this many characters.
_PIECE = 1 << 16
#: Characters at the beginning of a value that distinguish it from others.
_LONGEST_BEGINNING = 256
#: Up to this many anchors are searched one by one.
_FEW = 48
#: The number of text fragments that are remembered as written; beyond that, every new value counts as late.
_MOST_WRITTEN = 200_000


class Secrets:
    """Values with their pseudonyms, found by anchors: a thousand values take no longer than ten."""

    def __init__(self, *, is_numbered: bool = True) -> None:
        """``is_numbered``: pseudonyms of one kind are numbered. Otherwise they only show that there was a secret."""
        self._is_numbered = is_numbered
        self._pseudonyms: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        self._by_anchor: dict[str, set[str]] = {}
        #: Whether a value contains characters that are not printable ASCII.
        self._has_unreadable = False
        self._written: set[str] = set()
        #: Incremented for every new value: a text without secrets may contain one now.
        self.version: int = 0
        #: Values that may have been written before they were known to be secrets.
        self.late: list[str] = []

    def __contains__(self, value: str) -> bool:
        return value in self._pseudonyms

    def reserve(self, text: str) -> None:
        """Give no new secret a pseudonym that ``text`` contains already."""
        for kind, number in _NUMBERED.findall(text):
            self._counts[kind] = max(self._counts.get(kind, 0), int(number))

    def hide(self, value: str, kind: str, *, is_secret: bool = True) -> str:
        """Return the pseudonym of a value. A secret is hidden everywhere from now on, other values only here."""
        if not value or PSEUDONYM.fullmatch(value):
            return value
        name = self._pseudonyms.get(value)
        if name is None:
            plain = "".join(filter("abcdefghijklmnopqrstuvwxyz".__contains__, kind.lower()))[:24]
            name = f"REDACTED-{plain or 'secret'}"
            if self._is_numbered:
                self._counts[name] = number = self._counts.get(name, 0) + 1
                name = f"{name}-{number}"
            self._pseudonyms[value] = name
        if is_secret and len(value) >= SHORTEST and value not in self._forms:
            self._know(value)
        return name

    def is_in(self, text: str) -> bool:
        """Whether the text contains a known value: raw, in another case, escaped, in Base64 or hexadecimal."""
        return next(self._found(text), None) is not None

    def is_in_bytes(self, data: bytes) -> bool:
        """Whether binary data contains a known value in any of these forms."""
        return self.is_in(data.decode("utf-8", "ignore") if self._has_unreadable else printable_text(data))

    def were_written(self, values: Iterable[str], data: bytes) -> bool:
        """Whether written data contains one of these known values; in every form, unless there is very much data."""
        if len(self._written) < _MOST_WRITTEN:
            return self.is_in_bytes(data)
        written = data.lower()
        forms = (form for value in values for form in self._forms[value])
        return any(form.encode("utf-8", "surrogatepass") in written for form in forms)

    def replace(self, text: str) -> str:
        """Return the text with pseudonyms; hidden as a whole where a value's place in escaped text is unknown."""
        found = sorted(self._found(text), key=len, reverse=True)
        if not found:
            return text
        for value in found:
            pattern = "|".join(re.escape(form) for form in sorted(self._forms[value], key=len, reverse=True))
            text = re.sub(pattern, self._pseudonyms[value], text, flags=re.IGNORECASE)
        return self.hide(text, "text", is_secret=False) if self.is_in(text) else text

    def note_written(self, text: str) -> None:
        """Remember what is written, to detect new secrets that were written before."""
        if not self._is_numbered:
            return
        for spelling in {text, unescape(text)} if _ESCAPED.search(text) else {text}:
            lowered = spelling.lower()
            for at in range(0, len(lowered), _PIECE):
                if len(self._written) < _MOST_WRITTEN:
                    self._written.update(_grams(lowered[at : at + _PIECE + SHORTEST - 1]))

    def _know(self, value: str) -> None:
        forms = tuple(dict.fromkeys(form.lower() for form in _forms(value) if len(form) >= SHORTEST))
        self._forms[value] = forms
        for form in forms:
            # Thousands of tokens may have the same prefix: the anchor is taken from where they differ.
            starts = range(min(len(form) - SHORTEST + 1, _LONGEST_BEGINNING))
            anchor = min((form[at : at + SHORTEST] for at in starts), key=lambda one: len(self._by_anchor.get(one, ())))
            self._by_anchor.setdefault(anchor, set()).add(value)
        self.version += 1
        is_readable = value.isascii() and value.isprintable()
        self._has_unreadable |= not is_readable
        # Of binary data, only readable text is noted as written.
        if (
            not is_readable
            or len(self._written) >= _MOST_WRITTEN
            or any(form[:SHORTEST] in self._written and form[-SHORTEST:] in self._written for form in forms)
        ):
            self.late.append(value)

    def _found(self, text: str) -> Iterator[str]:
        if not self._forms:
            return
        written = text.lower()
        read = unescape(text).lower() if _ESCAPED.search(text) else written
        candidates = self._candidates(written)
        if read != written:
            candidates |= self._candidates(read)
        for value in candidates:
            if any(form in written or form in read for form in self._forms[value]):
                yield value

    def _candidates(self, text: str) -> set[str]:
        """The values of which the text may contain a form."""
        if len(self._by_anchor) <= _FEW:
            return {value for anchor, values in self._by_anchor.items() if anchor in text for value in values}
        values: set[str] = set()
        for at in range(0, len(text), _PIECE):
            for anchor in self._by_anchor.keys() & _grams(text[at : at + _PIECE + SHORTEST - 1]):
                values |= self._by_anchor[anchor]
        return values


def printable_text(data: bytes) -> str:
    """The runs of printable characters in binary data, one per line."""
    return "\n".join(run.decode() for run in _PRINTABLE.findall(data))


def unescape(text: str) -> str:
    """The text without escapes, also nested ones."""
    for _ in range(_DEPTH):
        before = text
        text = unquote(text, errors="replace") if "%" in text else text
        if "&" in text:
            import html  # noqa: PLC0415 - its table is large, and such texts are rare

            text = html.unescape(text)
        if "\\" in text:
            text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text).replace("\\", "")
            if _SURROGATE.search(text):
                text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if text == before:
            break
    return text


def unify_pseudonyms(text: str) -> str:
    """The text with one and the same pseudonym for all secrets."""
    return PSEUDONYM.sub("REDACTED", text) if "REDACTED-" in text else text


def _grams(text: str) -> set[str]:
    """All parts of the text with the length of an anchor."""
    return {text[at : at + SHORTEST] for at in range(len(text) - SHORTEST + 1)}


def _forms(value: str) -> Iterator[str]:
    yield value
    yield unescape(value)
    yield value.replace("\\", "")
    yield quote(value, safe="", errors="surrogatepass")
    yield quote_plus(value, errors="surrogatepass")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    data = value.encode("utf-8", "surrogatepass")
    yield data.hex()
    for shift in range(3):
        # Within longer data: only the characters that depend on nothing but this value.
        inner = base64.b64encode(b"\0" * shift + data).decode()[(0, 2, 3)[shift] :].rstrip("=")
        inner = inner if (shift + len(data)) % 3 == 0 else inner[:-1]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
        yield quote(inner, safe="")

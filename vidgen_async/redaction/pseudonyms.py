"""The secrets of one recording: each has one pseudonym, the same wherever it appears and however it is written."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

#: What stands for a secret: safe in URLs, headers and JSON. It always stands for itself, so that an answer that was
#: played back leads to the request that was recorded.
PSEUDONYM = re.compile(r"REDACTED-[a-z]+(?:-\d+)?")
_NUMBERED = re.compile(r"(REDACTED-[a-z]+)-(\d+)")

#: Shorter values are hidden where they stand, but not looked for elsewhere: that would garble everything.
SHORTEST = 6

_ESCAPED = re.compile(r"[%&\\]")
_UNICODE_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{4})\}?|x([0-9a-fA-F]{2}))")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PRINTABLE = re.compile(rb"[\x20-\x7e]{6,}")
_DEPTH = 5
#: Texts are looked through in pieces of this many characters.
_PIECE = 1 << 16
#: So much of a value is looked at to tell it apart from others.
_LONGEST_BEGINNING = 256
#: Fewer anchors are looked for one by one.
_FEW = 48
#: Of so many pieces of text it is remembered that they were written; beyond that, every new value counts as late.
_MOST_WRITTEN = 200_000


class Secrets:
    """Values that must not be written down, and what is written instead.

    Every form in which a value may be written is found by a few characters of it, its anchor, so that looking for a
    thousand values takes no longer than looking for ten.
    """

    def __init__(self, *, is_numbered: bool = True) -> None:
        """``is_numbered``: tell secrets of a kind apart by a number. Without it they are only recognised as secrets."""
        self._is_numbered = is_numbered
        self._pseudonyms: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        self._by_anchor: dict[str, set[str]] = {}
        #: Values that do not stand in runs of printable characters.
        self._unreadable: list[str] = []
        self._written: set[str] = set()
        #: Grows with every new value: what was clean before may not be so now.
        self.version: int = 0
        #: Values that were perhaps written down before they were known as secrets.
        self.late: list[str] = []
        #: Whether a known value may stand as a number.
        self.has_numbers: bool = False

    def __contains__(self, value: str) -> bool:
        return value in self._pseudonyms

    def reserve(self, text: str) -> None:
        """Give no new secret a pseudonym that is in ``text`` already."""
        for kind, number in _NUMBERED.findall(text):
            self._counts[kind] = max(self._counts.get(kind, 0), int(number))

    def hide(self, value: str, kind: str, *, is_secret: bool = True) -> str:
        """The pseudonym of a value. A secret is looked for everywhere from now on; others are only hidden here."""
        if not value or PSEUDONYM.fullmatch(value):
            return value
        name = self._pseudonyms.get(value)
        if name is None:
            name = f"REDACTED-{_plain(kind)}"
            if self._is_numbered:
                self._counts[name] = number = self._counts.get(name, 0) + 1
                name = f"{name}-{number}"
            self._pseudonyms[value] = name
        if is_secret and len(value) >= SHORTEST and value not in self._forms:
            self._know(value)
        return name

    def is_in(self, text: str) -> bool:
        """Whether a known value is in the text: raw, in another case, percent-encoded, JSON- or HTML-escaped, in Base64
        or in hexadecimal digits."""
        return any(True for _ in self._found(text))

    def is_in_bytes(self, data: bytes) -> bool:
        """Whether a known value is in binary data, in any of these forms."""
        if not self._unreadable:
            return self.is_in(readable(data))
        return self.is_in(data.decode("utf-8", "ignore")) or any(
            form.encode("utf-8", "surrogatepass") in data
            for value in self._unreadable
            for form in (value, *self._forms[value])
        )

    def were_written(self, values: Iterable[str], data: bytes) -> bool:
        """Whether one of these known values is in data that was written; in any form, as long as there is not much."""
        if len(self._written) < _MOST_WRITTEN:
            return self.is_in_bytes(data)
        written = data.lower()
        forms = (form for value in values for form in self._forms[value])
        return any(form.encode("utf-8", "surrogatepass") in written for form in forms)

    def replace(self, text: str) -> str:
        """The text with the pseudonym in every place of a known value. Where it cannot be told which part of an escaped
        text the value is, all of the text is hidden."""
        for value in sorted(self._found(text), key=len, reverse=True):
            pattern = "|".join(re.escape(form) for form in sorted(self._forms[value], key=len, reverse=True))
            text = re.sub(pattern, self._pseudonyms[value], text, flags=re.IGNORECASE)
        return self.hide(text, "text", is_secret=False) if self.is_in(text) else text

    def wrote(self, text: str) -> None:
        """Remember what is written down, to tell of a new value whether it was."""
        if not self._is_numbered:
            return
        for spelling in {text, unescaped(text)} if _ESCAPED.search(text) else {text}:
            lowered = spelling.lower()
            for at in range(0, len(lowered), _PIECE):
                if len(self._written) < _MOST_WRITTEN:
                    self._written.update(_grams(lowered[at : at + _PIECE + SHORTEST - 1]))

    def _know(self, value: str) -> None:
        forms = tuple(dict.fromkeys(form.lower() for form in _forms(value) if len(form) >= SHORTEST))
        self._forms[value] = forms
        for form in forms:
            # Thousands of tokens may begin alike: where they differ, they are told apart.
            starts = range(min(len(form) - SHORTEST + 1, _LONGEST_BEGINNING))
            anchor = min((form[at : at + SHORTEST] for at in starts), key=lambda one: len(self._by_anchor.get(one, ())))
            self._by_anchor.setdefault(anchor, set()).add(value)
        self.version += 1
        if not (value.isascii() and value.isprintable()):
            self._unreadable.append(value)
        self.has_numbers = self.has_numbers or any(form.isdigit() for form in forms)
        if len(self._written) >= _MOST_WRITTEN or any(
            form[:SHORTEST] in self._written and form[-SHORTEST:] in self._written for form in forms
        ):
            self.late.append(value)

    def _found(self, text: str) -> Iterator[str]:
        if not self._forms:
            return
        written = text.lower()
        read = unescaped(text).lower() if _ESCAPED.search(text) else written
        candidates = self._candidates(written)
        if read != written:
            candidates |= self._candidates(read)
        for value in candidates:
            if any(form in written or form in read for form in self._forms[value]):
                yield value

    def _candidates(self, text: str) -> set[str]:
        """The values of which a form may begin somewhere in the text."""
        anchors: Iterable[str]
        if len(self._by_anchor) <= _FEW:
            anchors = (anchor for anchor in self._by_anchor if anchor in text)
        else:
            pieces = (text[at : at + _PIECE + SHORTEST - 1] for at in range(0, len(text), _PIECE))
            anchors = set().union(*(self._by_anchor.keys() & _grams(piece) for piece in pieces))
        return {value for anchor in anchors for value in self._by_anchor[anchor]}


def readable(data: bytes) -> str:
    """What of binary data can be read: runs of printable characters, a line each."""
    return "\n".join(run.decode() for run in _PRINTABLE.findall(data))


def unescaped(text: str) -> str:
    """The text with all escapes resolved, however deep they are nested."""
    for _ in range(_DEPTH):
        before = text
        text = unquote(text, errors="replace") if "%" in text else text
        text = html.unescape(text) if "&" in text else text
        if "\\" in text:
            text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text).replace("\\", "")
            if _SURROGATE.search(text):
                text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if text == before:
            break
    return text


def loosened(text: str) -> str:
    """The text with one pseudonym for all secrets."""
    return PSEUDONYM.sub("REDACTED", text) if "REDACTED-" in text else text


def _grams(text: str) -> set[str]:
    """All pieces of the text that are as long as an anchor."""
    return {text[at : at + SHORTEST] for at in range(len(text) - SHORTEST + 1)}


def _plain(kind: str) -> str:
    return "".join(filter("abcdefghijklmnopqrstuvwxyz".__contains__, kind.lower()))[:24] or "secret"


def _forms(value: str) -> Iterator[str]:
    yield value
    yield unescaped(value)
    yield value.replace("\\", "")
    yield quote(value, safe="")
    yield quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    data = value.encode("utf-8", "surrogatepass")
    yield data.hex()
    for shift in range(3):
        # Within longer data: only the characters that depend on this value alone.
        inner = base64.b64encode(b"\0" * shift + data).decode()[(0, 2, 3)[shift] :].rstrip("=")
        inner = inner if (shift + len(data)) % 3 == 0 else inner[:-1]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
        yield quote(inner, safe="")

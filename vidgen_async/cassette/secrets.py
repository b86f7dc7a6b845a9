"""The secrets of one recording: each has one pseudonym, the same wherever it appears and however it is written."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote

#: What stands for a secret: safe in URLs, headers and JSON. It always stands for itself, so that an answer that was
#: played back leads to the request that was recorded.
PSEUDONYM = re.compile(r"REDACTED-[a-z]+(?:-\d+)?")
_NUMBERED = re.compile(r"(REDACTED-[a-z]+)-(\d+)")

#: Shorter values are hidden where they stand, but not looked for elsewhere: that would garble everything.
SHORTEST = 6
#: A second look is taken at texts that are written with these.
_ESCAPES = re.compile(r"[%&\\]")
_UNICODE_ESCAPE = re.compile(r"\\+(?:u\{?([0-9a-fA-F]{4})\}?|x([0-9a-fA-F]{2}))")
_DEPTH = 5
#: So many values are looked for everywhere; of more, only where they stand as a word of their own, until publishing.
_FEW = 24
_WORD = re.compile(r"[a-z0-9]+")


class Secrets:
    """Values that must not be written down, and what is written instead."""

    def __init__(self, *, is_numbered: bool = True) -> None:
        """``is_numbered``: tell secrets of a kind apart by a number. Without it they are only recognised as secrets."""
        self._is_numbered = is_numbered
        self._pseudonyms: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        self._few: list[str] = []
        self._by_word: dict[str, set[str]] = {}
        #: Grows with every new value: what was clean before may not be so now.
        self.version = 0

    def __len__(self) -> int:
        return len(self._forms)

    def reserve(self, text: str) -> None:
        """Give no new secret a pseudonym that is in ``text`` already."""
        for kind, number in _NUMBERED.findall(text):
            self._counts[kind] = max(self._counts.get(kind, 0), int(number))

    def hide(self, value: str, kind: str, *, is_secret: bool = True) -> str:
        """The pseudonym of a value; a secret is looked for everywhere from now on."""
        if not value or PSEUDONYM.fullmatch(value):
            return value
        known = self._pseudonyms.get(value)
        if known is not None:
            return known
        name = f"REDACTED-{_plain(kind)}"
        if self._is_numbered:
            self._counts[name] = number = self._counts.get(name, 0) + 1
            name = f"{name}-{number}"
        self._pseudonyms[value] = name
        if is_secret and len(value) >= SHORTEST:
            self._know(value)
        return name

    def is_in(self, text: str, *, thoroughly: bool = False) -> bool:
        """Whether a known value is in the text: raw, in another case, percent-encoded, JSON- or HTML-escaped, in Base64
        or in hexadecimal digits. Beyond the first few values only whole words are compared, unless ``thoroughly``."""
        return any(True for _ in self._found(text, thoroughly=thoroughly))

    def is_in_bytes(self, data: bytes) -> bool:
        """Whether a known value is in binary data, in one of these forms."""
        lowered = data.lower()
        return any(form.encode("utf-8", "surrogatepass") in lowered for forms in self._forms.values() for form in forms)

    def replace(self, text: str, *, thoroughly: bool = False) -> str:
        """The text with the pseudonym in every place of a known value. Where it cannot be told which part of an escaped
        text the value is, all of the text is hidden."""
        for value in sorted(self._found(text, thoroughly=thoroughly), key=len, reverse=True):
            pattern = "|".join(re.escape(form) for form in sorted(self._forms[value], key=len, reverse=True))
            text = re.sub(pattern, self._pseudonyms[value], text, flags=re.IGNORECASE)
        return self.hide(text, "text", is_secret=False) if self.is_in(text, thoroughly=thoroughly) else text

    def _know(self, value: str) -> None:
        forms = tuple(dict.fromkeys(form.lower() for form in _forms(value)))
        self._forms[value] = forms
        self.version += 1
        if len(self._few) < _FEW:
            self._few.append(value)
            return
        for form in forms:
            self._by_word.setdefault(max(_WORD.findall(form) or [""], key=len), set()).add(value)

    def _found(self, text: str, *, thoroughly: bool) -> Iterator[str]:
        if not self._forms:
            return
        written = text.lower()
        read = unescaped(text).lower() if _ESCAPES.search(text) else written
        candidates: Iterable[str] = self._forms
        if not thoroughly:
            words = self._by_word.keys() & _WORD.findall(written if read is written else f"{written} {read}")
            candidates = [*self._few, *(value for word in words for value in self._by_word[word])]
        for value in candidates:
            for form in self._forms[value]:
                if form in written or form in read:
                    yield value
                    break


def unescaped(text: str) -> str:
    """The text with all escapes resolved, however deep they are nested."""
    for _ in range(_DEPTH):
        before = text
        text = unquote(text, errors="replace") if "%" in text else text
        text = html.unescape(text) if "&" in text else text
        if "\\" in text:
            text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
            text = text.replace("\\", "")
        if text == before:
            break
    return text


def loosened(text: str) -> str:
    """The text with one pseudonym for all secrets."""
    return PSEUDONYM.sub("REDACTED", text) if "REDACTED-" in text else text


def _plain(kind: str) -> str:
    return "".join(filter("abcdefghijklmnopqrstuvwxyz".__contains__, kind.lower()))[:24] or "secret"


def _forms(value: str) -> Iterator[str]:
    yield value
    yield quote(value, safe="")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    data = value.encode("utf-8", "surrogatepass")
    yield data.hex()
    for shift in range(3):
        # Within longer data: only the characters that depend on this value alone.
        inner = base64.b64encode(b"\0" * shift + data).decode()[(0, 2, 3)[shift] :].rstrip("=")
        inner = inner if (shift + len(data)) % 3 == 0 else inner[:-1]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")
            yield quote(inner, safe="")

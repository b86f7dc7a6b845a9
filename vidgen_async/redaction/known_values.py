"""Values that no message may show (the API key, a prompt, an Idempotency-Key), hidden however they are written.

The search compares the *letters* of a text: its letters and digits alone, decomposed and in lower case, with every
escape sequence resolved, also nested ones; a second search finds a value in Base64.
"""

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from attrs import frozen

HIDDEN = "…"

#: A known value is recognised by this many consecutive letters, at any position in it.
RUN = 16
#: Known values with fewer letters may be common words: they are hidden only where they are not part of a word.
FEW = 6
#: Shorter known values are not hidden: that would make every message unreadable.
FEWEST = 3

#: Of a value with more letters, every fifth part of 12 letters is searched for, to save memory: RUN consecutive letters
#: contain one of these. What is hidden may then be a little more.
_MOST_RUNS = 1 << 9
_PART = 12
#: In a text with at most so many letters, each run is searched for in a value that is not long, without its parts.
_SHORT = 1 << 6
#: Values with more characters in all take longer than a few milliseconds to prepare.
_LONG = 1 << 14
_LONGEST_PIECE = 1 << 15

# Escape sequences may be nested: each level adds a prefix.
_HEX = "[0-9A-Fa-f]"
_PERCENT = re.compile(rf"%(?:25)*({_HEX}{{2}})")
_UNIT = re.compile(rf"\\[uU]({_HEX}{{4}})")
# A plain text, a row of escape sequences, or a character that begins none. No alternative backtracks far, so that the
# time is proportional to the text. Rows end after 1,000 sequences, but not within a character of UTF-8 or UTF-16.
_PIECE = re.compile(
    rf"[^%&\\]{{1,{_LONGEST_PIECE}}}|"
    rf"%(?:25)*{_HEX}{{2}}(?:%(?:25)*{_HEX}{{2}}){{0,1000}}(?:%(?:25)*[89ABab]{_HEX}){{0,3}}|"
    rf"&(?:amp;)*(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z]\w{{1,30}});|"
    rf"\\++(?:[uU]{_HEX}{{4}}(?:\\++[uU]{_HEX}{{4}}){{0,1000}}(?:\\++[uU][Dd][C-Fc-f]{_HEX}{{2}})?|"
    rf"[xX]{_HEX}{{2}}|[nrtbfvNRTBFV])|"
    r"[%&]|\\++"
)
_LOWER = bytes(range(256)).lower()
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_NO_LETTER = re.compile(r"[\W_]+")


class KnownValues:
    """Values to search for in texts."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(values)
        # In scripts with a sign for a word, two characters are distinctive enough.
        self._searched = [value for value in self._values if len(value) >= (FEWEST if value.isascii() else FEWEST - 1)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @property
    def is_long(self) -> bool:
        return sum(map(len, self._searched)) > _LONG

    def prepare(self) -> None:
        """Make what a search needs, which takes long for long values: in a thread, where the caller must not block."""
        for form in self._forms:
            _ = form.parts

    @cached_property
    def _forms(self) -> "list[_Form]":
        forms = []
        for value in self._searched:
            encoded = [base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()] if len(value) >= FEW else []
            found = filter(None, map(letters_of, [value, *encoded]))
            forms += [_Form(letters, len(letters) < FEW and value.isascii()) for letters in found]
        return forms

    def hide(self, text: str) -> str:
        """``text`` with an ellipsis for every one of the values, and for every part of one that has ``RUN`` letters."""
        for value in self._searched:
            if len(value) >= FEW:
                text = text.replace(value, HIDDEN)  # also values without letters
        if not self._searched or not text:
            return text
        letters, forms = letters_of(text), self._forms
        if len(letters) > _SHORT:
            sizes = {form.size for form in forms if form.parts}
            parts = {size: {letters[at : at + size] for at in range(len(letters) - size + 1)} for size in sizes}
            forms = [form for form in forms if not form.parts or not form.parts.isdisjoint(parts[form.size])]
        found = [(*place, form.stands_alone) for form in forms for place in form.find_in(letters)]
        return _hide_letters(text, found) if found else text


def as_known_values(values: Iterable[str]) -> KnownValues:
    """The values; those that are prepared already stay so."""
    return values if isinstance(values, KnownValues) else KnownValues(values)


def letters_of(text: str) -> str:
    """The letters and digits that a text stands for."""
    return "".join(_letters_of_piece(match[0]) for match in _PIECE.finditer(text))


def _letters_of_piece(piece: str) -> str:
    plain = _unescape(piece)
    if plain.isascii():
        return plain.encode().translate(_LOWER, _NO_LETTERS).decode()
    return _NO_LETTER.sub("", unicodedata.normalize("NFKD", plain).casefold())


def _unescape(piece: str) -> str:
    if piece[0] == "%":
        return bytes.fromhex("".join(_PERCENT.findall(piece))).decode("utf-8", "replace")
    if piece[0] == "&":
        import html  # noqa: PLC0415 - its table is large, and such texts are rare

        return html.unescape("&" + piece[1:].replace("amp;", ""))
    if piece[0] != "\\":
        return piece
    match piece.lstrip("\\")[:1]:
        case "u" | "U":
            return bytes.fromhex("".join(_UNIT.findall(piece))).decode("utf-16-be", "replace")
        case "x" | "X":
            return chr(int(piece[-2:], 16))
    return ""


# -- search ----------------------------------------------------------------------------------------------------------


@frozen
class _Form:
    """The letters of a value, raw or in Base64. Of a long one, every run of RUN letters is found."""

    letters: str
    #: Whether it is hidden only where it is not part of a word.
    stands_alone: bool

    @property
    def size(self) -> int:
        """Of each of the parts, in letters."""
        return RUN if len(self.letters) <= _MOST_RUNS else _PART

    @cached_property
    def parts(self) -> frozenset[str]:
        """Empty for one with fewer than RUN letters."""
        starts = range(0, len(self.letters) - self.size + 1 if len(self.letters) >= RUN else 0, RUN - self.size + 1)
        return frozenset(self.letters[at : at + self.size] for at in starts)

    def find_in(self, letters: str) -> Iterator[tuple[int, int]]:
        """Where it, or a part of a long one, begins and ends in the letters of a text."""
        if RUN <= len(self.letters) <= _LONG and len(letters) <= _SHORT:
            runs = ((at, at + RUN) for at in range(len(letters) - RUN + 1))
            yield from (run for run in runs if letters[slice(*run)] in self.letters)
        elif self.parts:
            around = RUN - self.size
            for at in range(len(letters) - self.size + 1):
                if letters[at : at + self.size] in self.parts:
                    yield max(at - around, 0), min(at + self.size + around, len(letters))
        else:
            at = -1
            while (at := letters.find(self.letters, at + 1)) >= 0:
                yield at, at + len(self.letters)


def _hide_letters(text: str, found: Iterable[tuple[int, int, bool]]) -> str:
    """The text with an ellipsis for each place: its first letter, the one after its last, whether it stands alone."""
    starts, ends = _places_of_letters(text)
    hidden = bytearray(len(text))
    for first, after, stands_alone in found:
        start, end = starts[first], ends[after - 1]
        if not (stands_alone and (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())):
            hidden[start:end] = b"\1" * (end - start)
    groups = groupby(zip(text, hidden, strict=True), key=itemgetter(1))
    return "".join(HIDDEN if is_hidden else "".join(char for char, _ in group) for is_hidden, group in groups)


def _places_of_letters(text: str) -> tuple[list[int], list[int]]:
    """Where each letter of the text begins and ends in it."""
    starts: list[int] = []
    ends: list[int] = []
    for match in _PIECE.finditer(text):
        is_plain = match[0][0] not in "%&\\"
        for start, written in enumerate(match[0], match.start()) if is_plain else [(match.start(), match[0])]:
            count = written.isalnum() if is_plain and written.isascii() else len(_letters_of_piece(written))
            starts += [start] * count
            ends += [start + len(written)] * count
    return starts, ends

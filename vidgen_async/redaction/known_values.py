"""Values that no message may show (the API key, a prompt, an Idempotency-Key), hidden however they are written.

The search compares the *letters* of a text: its letters and digits alone, decomposed and in lower case, with every
escape sequence resolved. So one search finds a value raw, in capitals, with other white space, percent-encoded,
HTML-escaped, as a ``repr``, and in JSON within JSON; and so does one more in Base64.
"""

import base64
import html
import re
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache

from attrs import field, frozen

HIDDEN = "…"

#: So many letters in a row give a known value away, wherever they stand in it.
RUN = 16
#: Known values with fewer letters may be common words: they are hidden only where they stand alone.
FEW = 6
#: Shorter known values are not hidden: that would garble every message.
FEWEST = 3

#: A long value is known by blocks of so many of its letters, one at each step: RUN letters in a row hold a whole one.
_BLOCK = 12
_STEP = RUN - _BLOCK + 1
_BLOCKS_PER_STEP = 1 << 12
#: Where a text has a block in common with a long value, that is searched for the whole row. When so many letters were
#: gone through, the text's other rows with such blocks are hidden without a search.
_MOST_SEARCHED = 1 << 25
#: So many characters are prepared in one step, which takes a few milliseconds; an escape sequence counts for 20.
_MOST_PER_STEP = 1 << 15
_ESCAPE_COST = 20

# What letters are written with. Escapes may be nested: a sign of each level stands before the escaped one.
_HEX = "[0-9A-Fa-f]"
_PERCENT = re.compile(rf"%(?:25)*({_HEX}{{2}})")
_UNIT = re.compile(rf"\\[uU]({_HEX}{{4}})")
# It begins with a set of characters, which is found fast; a row of backslashes is tried from its beginning only.
# After 1,000 sequences in a row there is a cut, but not within a character of UTF-8 or a pair of surrogates.
_ESCAPE_PATTERN = (
    rf"[%&\\](?:(?<=%)(?:25)*{_HEX}{{2}}(?:%(?:25)*{_HEX}{{2}}){{0,1000}}(?:%(?:25)*[89ABab]{_HEX}){{0,3}}|"
    rf"(?<=&)(?:amp;)*(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z]\w{{1,30}});|"
    rf"(?<=\\)(?<!\\\\)\\*+(?:[uU]{_HEX}{{4}}(?:\\++[uU]{_HEX}{{4}}){{0,1000}}(?:\\++[uU][Dd][C-Fc-f]{_HEX}{{2}})?|"
    rf"[xX]{_HEX}{{2}}|[nrtbfvNRTBFV]))"
)
_ESCAPE = re.compile(_ESCAPE_PATTERN)
_PIECE = re.compile(rf"[A-Za-z0-9]+|[^\0-\x7f]|{_ESCAPE_PATTERN}")
#: Characters that end every escape sequence.
_CUT = re.compile(r"[^\w;#%\\]|(?<=%)%")
_TWO_BACKSLASHES = "\\\\"
_LOWER = bytes(range(256)).lower()
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_NO_LETTER = re.compile(r"[\W_]+")


class KnownValues:
    """Known values to search for in any number of texts.

    Preparing a value of a megabyte takes tenths of a second. Callers that must not block go through
    :meth:`prepare` first; otherwise the first search prepares.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(values)
        # Scripts with a sign for a word need fewer letters for as much.
        self._searched = [value for value in self._values if len(value) >= (FEWEST if value.isascii() else FEWEST - 1)]
        self._prepared: list[_LongValue | _ShortValue] = []
        self._preparing = self._prepare()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def prepare(self) -> Iterator[None]:
        """Steps of a few milliseconds each, after which no text waits any more."""
        return self._preparing

    def hide(self, text: str) -> str:
        """``text`` with an ellipsis for every one of the values, and for every part of one that has ``RUN`` letters."""
        for value in self._searched:
            if len(value) >= FEW:
                text = text.replace(value, HIDDEN)  # also what has no letters
        if not self._searched or not text:
            return text
        for _ in self._preparing:
            pass
        letters = letters_of(text)
        blocks = set(_runs(letters, _BLOCK))
        found = [
            (first, end, value.stands_alone)
            for value in self._prepared
            for first, end in value.places_in(letters, blocks)
        ]
        return _Written.of(text).without(found) if found else text

    def _prepare(self) -> Generator[None, None, None]:
        for value in self._searched:
            yield from self._prepare_form(value, _letters_of_parts(value))
            if len(value) >= FEW:
                yield from self._prepare_form(value, _letters_of_base64(value))

    def _prepare_form(self, value: str, parts: Iterator[tuple[str, int]]) -> Generator[None, None, None]:
        letters = yield from _joined_in_steps(parts)
        if len(letters) >= RUN:
            self._prepared.append((yield from _LongValue.prepare(letters)))
        elif letters:
            self._prepared.append(_ShortValue(letters, stands_alone=len(letters) < FEW and value.isascii()))


def as_known_values(values: Iterable[str]) -> KnownValues:
    """The values, prepared where they are."""
    return values if isinstance(values, KnownValues) else KnownValues(values)


@frozen
class _ShortValue:
    """One that is found as a whole."""

    letters: str
    stands_alone: bool

    def places_in(self, letters: str, blocks: Collection[str]) -> Iterator[tuple[int, int]]:
        """Where it begins and ends in the letters of a text, of which these are all blocks."""
        at = letters.find(self.letters)
        while at >= 0:
            yield at, at + len(self.letters)
            at = letters.find(self.letters, at + 1)


@frozen
class _LongValue:
    """One of which RUN letters in a row are found, wherever they stand in it."""

    letters: str
    blocks: set[str] = field(factory=set)
    stands_alone = False

    @classmethod
    def prepare(cls, letters: str) -> "Generator[None, None, _LongValue]":
        value = cls(letters)
        ends = len(letters) - _BLOCK + 1
        for start in range(0, ends, _STEP * _BLOCKS_PER_STEP):
            if start:
                yield
            stop = min(start + _STEP * _BLOCKS_PER_STEP, ends)
            value.blocks.update([letters[at : at + _BLOCK] for at in range(start, stop, _STEP)])
        return value

    def places_in(self, letters: str, blocks: AbstractSet[str]) -> Iterator[tuple[int, int]]:
        """Rows that hold a block are looked for in the value; what follows one that was found is only compared."""
        common = blocks & self.blocks
        if not common:
            return
        searches = _MOST_SEARCHED // len(self.letters)
        checked_to = 0
        for block_at in (at for at, block in enumerate(_runs(letters, _BLOCK)) if block in common):
            at = max(block_at + _BLOCK - RUN, checked_to)
            while at <= min(block_at, len(letters) - RUN):
                place = self.letters.find(letters[at : at + RUN]) if searches > 0 else at
                searches -= 1
                if place >= 0:
                    end = at + RUN
                    if searches >= 0:  # else it is hidden without a search, to be on the safe side
                        end += _common_length(letters, end, self.letters, place + RUN)
                    yield at, end
                    at = end - RUN
                at += 1
            checked_to = max(checked_to, at)


# -- letters ---------------------------------------------------------------------------------------------------------


def letters_of(text: str) -> str:
    """The letters and digits that a text stands for."""
    return "".join(letters for letters, _ in _letters_of_parts(text))


def _joined_in_steps(parts: Iterator[tuple[str, int]]) -> Generator[None, None, str]:
    found: list[str] = []
    done = 0
    for letters, cost in parts:
        found.append(letters)
        done += cost
        if done > _MOST_PER_STEP:
            done = 0
            yield
    return "".join(found)


def _letters_of_parts(text: str) -> Iterator[tuple[str, int]]:
    """Of escape sequences and of what stands between them, with what it cost."""
    while _TWO_BACKSLASHES in text:  # however many there are, they mean the same
        text = text.replace(_TWO_BACKSLASHES, "\\")
    shown_to = 0
    for start, stop in _stretches(text):
        for match in _ESCAPE.finditer(text, start, stop):
            yield from _plain_letters(text, shown_to, match.start())
            yield _unescaped_letters(match[0]), _ESCAPE_COST + len(match[0])
            shown_to = match.end()
        yield from _plain_letters(text, shown_to, stop)
        shown_to = stop


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Parts of a text, each short work. No escape sequence goes beyond one, but in tens of thousands of characters
    without any other."""
    start = 0
    while start < len(text):
        least = start + _MOST_PER_STEP
        cut = _CUT.search(text, least, least + _MOST_PER_STEP)
        stop = min(least + _MOST_PER_STEP, len(text)) if cut is None else cut.start()
        yield start, stop
        start = stop


def _plain_letters(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    for at in range(start, end, _MOST_PER_STEP):
        part = text[at : min(at + _MOST_PER_STEP, end)]
        if part.isascii():
            yield part.encode().translate(_LOWER, _NO_LETTERS).decode(), len(part)
        else:
            yield _NO_LETTER.sub("", unicodedata.normalize("NFKD", part).casefold()), len(part)


@lru_cache(1024)
def _count_letters(piece: str) -> int:
    return len(letters_of(piece))


def _unescaped_letters(escape: str) -> str:
    match escape[0]:
        case "%":
            plain = bytes.fromhex("".join(_PERCENT.findall(escape))).decode("utf-8", "replace")
        case "&":
            plain = html.unescape("&" + escape[1:].replace("amp;", ""))
        case _ if escape.lstrip("\\")[0] in "uU":
            plain = bytes.fromhex("".join(_UNIT.findall(escape))).decode("utf-16-be", "replace")
        case _ if escape.lstrip("\\")[0] in "xX":
            plain = chr(int(escape[-2:], 16))
        case _:
            return ""
    return "".join(letters for letters, _ in _plain_letters(plain, 0, len(plain)))


def _letters_of_base64(value: str) -> Iterator[tuple[str, int]]:
    data = value.encode("utf-8", "surrogatepass")
    for start in range(0, len(data), 3 << 13):
        encoded = base64.b64encode(data[start : start + (3 << 13)]).decode()
        yield from _plain_letters(encoded, 0, len(encoded))


def _common_length(text: str, at: int, other: str, other_at: int) -> int:
    """How many characters are equal from there on."""
    length = 0
    while at + length < len(text) and text[at + length] == other[other_at + length : other_at + length + 1]:
        length += 1
    return length


def _runs(letters: str, length: int) -> Iterator[str]:
    return (letters[at : at + length] for at in range(len(letters) - length + 1))


# -- places ----------------------------------------------------------------------------------------------------------


@frozen
class _Written:
    """Where each letter of a text begins and ends in it."""

    text: str
    starts: list[int] = field(factory=list)
    ends: list[int] = field(factory=list)

    @classmethod
    def of(cls, text: str) -> "_Written":
        written = cls(text)
        for match in _PIECE.finditer(text):
            start, end = match.span()
            count = end - start if match[0].isalnum() and match[0].isascii() else _count_letters(match[0])
            if count == end - start:
                written.starts.extend(range(start, end))
                written.ends.extend(range(start + 1, end + 1))
            else:
                written.starts.extend([start] * count)
                written.ends.extend([end] * count)
        return written

    def without(self, places: Iterable[tuple[int, int, bool]]) -> str:
        """The text with an ellipsis for each of the places, given as its first letter, the one after its last, and
        whether it is none where it is a part of a word."""
        ranges = [
            (start, end)
            for first, after, stands_alone in places
            for start, end in [(self.starts[first], self.ends[after - 1])]
            if not (stands_alone and self._is_in_word(start, end))
        ]
        parts: list[str] = []
        shown_to = 0
        hidden_to = -1
        for start, end in sorted(ranges):
            if start > hidden_to:
                parts += [self.text[shown_to:start], HIDDEN]
            hidden_to = shown_to = max(hidden_to, end)
        return "".join([*parts, self.text[shown_to:]])

    def _is_in_word(self, start: int, end: int) -> bool:
        return self.text[start - 1 : start].isalnum() or self.text[end : end + 1].isalnum()

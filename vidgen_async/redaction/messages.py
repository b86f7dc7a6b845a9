"""What may be shown: URLs, bodies and messages of the service pass here before they are printed or logged.

Two kinds of secrets are hidden: *known values* (the API key, a prompt, an Idempotency-Key), wherever they occur and
however they are escaped, and the *values of secret names* (``sig``, ``exp``, ``token`` …), ``Bearer …``, prompts in
JSON or in quotes, and inline image data, whatever their value is.

Known values are looked for in the *letters* of a text: its letters and digits alone, decomposed and in lower case, with
every escape sequence resolved. So one search finds a value raw, in capitals, with other white space, percent-encoded,
HTML-escaped, as a ``repr``, and in JSON within JSON.
"""

import base64
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

from attrs import field, frozen

from vidgen_async.redaction.named_values import hide_named_values
from vidgen_async.redaction.secret_names import SECRET_FORMS, is_word

HIDDEN = "…"

#: So many letters in a row give a known value away, wherever they stand in it.
RUN = 16
#: Known values with fewer letters may be common words: they are hidden only where they stand alone.
FEW = 6
#: Shorter known values are not hidden: that would garble every message.
FEWEST = 3
#: An excerpt looks at so much of the text, and leaves out the last of it: a secret that is cut is not recognised.
LONGEST_READ = 16_384
_EDGE = 256

# What stands in quotes after the word; an apostrophe ends nothing.
_QUOTED_PROMPT = re.compile(
    r"(\bprompt\\{0,8}[\"']?\s{0,2}[:=]?\s{0,2}\\{0,8}[\"'\u2018\u201c])(?:(?![\"'\u2019\u201d](?!\w)).){1,2000}",
    re.IGNORECASE | re.DOTALL,
)
# A password may hold a slash that was not encoded.
_USERINFO = re.compile(r"(\w://)(?:[^/@\s\"']+|[^/@:\s\"']{0,256}:(?!\d{1,5}/)[^@\s\"']{0,256})@")
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80},[\w+/=%-]*", re.IGNORECASE)
_LONG_BASE64 = re.compile(r"[A-Za-z0-9+/]{200,}={0,2}")
_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)

# What letters are written with. Escapes may be nested: a sign of each level stands before the escaped one.
_HEX = "[0-9A-Fa-f]"
_PERCENT = re.compile(rf"%(?:25)*({_HEX}{{2}})")
_UNIT = re.compile(rf"\\[uU]({_HEX}{{4}})")
_PIECE = re.compile(
    rf"[A-Za-z0-9]+|[^\0-\x7f]|(?:%(?:25)*{_HEX}{{2}})+|&(?:amp;)*(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z]\w{{1,30}});|"
    rf"(?:\\{{1,16}}[uU]{_HEX}{{4}})+|\\{{1,16}}(?:[xX]{_HEX}{{2}}|[nrtbfvNRTBFV])"
)


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret place and every one of the ``known`` values replaced by an ellipsis.

    Known values are found however they are escaped, in any case, with any white space, and in Base64 (standard and
    URL-safe); so is every part of one that has ``RUN`` letters or more. Takes time in proportion to the text.
    """
    text = _hide_known(text, known)
    text = _DATA_URI.sub(lambda match: f"data:{match[1] or ''},{HIDDEN}", text)
    text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    text = _QUOTED_PROMPT.sub(rf"\1{HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)
    text = hide_named_values(text, HIDDEN)
    for _, pattern in SECRET_FORMS:
        text = pattern.sub(lambda match: match[0] if is_word(match[0]) else HIDDEN, text)
    return _LONG_BASE64.sub(HIDDEN, text)


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


# -- known values ----------------------------------------------------------------------------------------------------


@frozen
class _Letters:
    """The letters of a text, and where each of them begins and ends in it."""

    text: str
    letters: str = ""
    starts: list[int] = field(factory=list)
    ends: list[int] = field(factory=list)

    @classmethod
    def of(cls, text: str) -> "_Letters":
        parts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in _PIECE.finditer(text):
            start, end = match.span()
            letters = _letters(match[0])
            parts.append(letters)
            if len(letters) == end - start:
                starts += range(start, end)
                ends += range(start + 1, end + 1)
            else:
                starts += [start] * len(letters)
                ends += [end] * len(letters)
        return cls(text, "".join(parts), starts, ends)

    def places_of(self, value: str) -> Iterator[tuple[int, int]]:
        """Where the letters of a known value stand, or RUN of them in a row."""
        wanted = _letters_of(value)
        if len(wanted) >= RUN:
            runs: dict[str, list[tuple[int, int]]] = {}
            for at, run in enumerate(_runs(self.letters)):
                runs.setdefault(run, []).append((self.starts[at], self.ends[at + RUN - 1]))
            for run in set(runs).intersection(_runs(wanted)):
                yield from runs[run]
            return
        stands_alone = len(wanted) < FEW and value.isascii()
        at = self.letters.find(wanted) if wanted else -1
        while at >= 0:
            start, end = self.starts[at], self.ends[at + len(wanted) - 1]
            if not stands_alone or not (self.text[start - 1 : start].isalnum() or self.text[end : end + 1].isalnum()):
                yield start, end
            at = self.letters.find(wanted, at + 1)


def _hide_known(text: str, known: Iterable[str]) -> str:
    # Scripts with a sign for a word need fewer letters for as much.
    values = [value for value in known if len(value) >= (FEWEST if value.isascii() else FEWEST - 1)]
    for value in values:
        if len(value) >= FEW:
            text = text.replace(value, HIDDEN)  # also what has no letters
    if not values or not text:
        return text
    encoded = (base64.b64encode(value.encode("utf-8", "surrogatepass")).decode() for value in values if len(value) > 5)
    here = _Letters.of(text)
    places = sorted(chain.from_iterable(here.places_of(value) for value in chain(values, encoded)))
    parts: list[str] = []
    shown_to = 0
    hidden_to = -1
    for start, end in places:
        if start > hidden_to:
            parts += [text[shown_to:start], HIDDEN]
        hidden_to = shown_to = max(hidden_to, end)
    return "".join([*parts, text[shown_to:]])


def _runs(letters: str) -> Iterator[str]:
    return (letters[at : at + RUN] for at in range(len(letters) - RUN + 1))


def _letters_of(text: str) -> str:
    return "".join(_letters(match[0]) for match in _PIECE.finditer(text))


def _letters(piece: str) -> str:
    """The letters that one match of ``_PIECE`` stands for."""
    match piece[0]:
        case "%":
            piece = bytes.fromhex("".join(_PERCENT.findall(piece))).decode("utf-8", "replace")
        case "&":
            piece = html.unescape("&" + piece[1:].replace("amp;", ""))
        case "\\" if piece.lstrip("\\")[0] in "uU":
            piece = bytes.fromhex("".join(_UNIT.findall(piece))).decode("utf-16-be", "replace")
        case "\\" if piece.lstrip("\\")[0] in "xX":
            piece = chr(int(piece[-2:], 16))
        case "\\":
            return ""
    if piece.isascii():
        return piece.lower() if piece.isalnum() else "".join(filter(str.isalnum, piece.lower()))
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", piece).casefold()))

"""Known values are found in linear time, and in the same places as by a search that compares every position."""

import base64
import html
import json
import time
import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vidgen_async.redaction import known_values
from vidgen_async.redaction.known_values import FEW, FEWEST, HIDDEN, RUN, KnownValues, letters_of
from vidgen_async.redaction.messages import excerpt, visible_headers

#: The characters of escape sequences, words and scripts.
WRITTEN = st.text("abcxyzEFGnurtU0123456789äöüéçЖ船舟ﬁ½\u0301😀\ud83d \n'\"\\/&<>%+=;#", max_size=60)
PIECES = st.lists(
    st.sampled_from([
        "a boat sails at dawn", "number 1974", "\\u00e9", "\\\\n", "%C3%A9", "%25C3", "&amp;amp;lt;", "&#x41;",
        "船は出る", "Straße", "\\ud83d\\ude00", "\\", "%", "&", "0123456789abcdef", "\\x41", "e\u0301",
    ]),
    max_size=8,
).map("".join)  # fmt: skip
FORMS = [str, quote, html.escape, json.dumps, str.upper, lambda text: base64.b64encode(text.encode("utf-8", "replace"))]


def letter_by_letter(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The letters of a text, and where each begins and ends, determined one character or escape sequence at a time."""
    letters, places = "", []
    for match in known_values._PIECE.finditer(text):
        is_escape = match[0][0] in "%&\\"
        pieces = [known_values._unescape(match[0])] if is_escape else match[0]
        for number, piece in enumerate(pieces, match.start()):
            plain = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", piece).casefold()))
            letters += plain
            places += [match.span() if is_escape else (number, number + 1)] * len(plain)
    return letters, places


def hide_by_comparing_every_position(text: str, values: list[str]) -> str:
    values = [value for value in values if len(value) >= (FEWEST if value.isascii() else FEWEST - 1)]
    for value in values:
        if len(value) >= FEW:
            text = text.replace(value, HIDDEN)
    letters, places = letter_by_letter(text)
    encoded = [base64.b64encode(v.encode("utf-8", "surrogatepass")).decode() for v in values if len(v) >= FEW]
    hidden = [False] * len(text)
    for value in (*values, *encoded):
        sought = letter_by_letter(value)[0]
        length = min(len(sought), RUN)
        runs = {sought[at : at + length] for at in range(len(sought) - length + 1)}
        for at in range(len(letters) - length + 1 if sought else 0):
            start, end = places[at][0], places[at + length - 1][1]
            is_in_word = text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()
            if letters[at : at + length] in runs and not (len(sought) < FEW and value.isascii() and is_in_word):
                hidden[start:end] = [True] * (end - start)
    shown = ""
    for at, char in enumerate(text):
        if not hidden[at]:
            shown += char
        elif at == 0 or not hidden[at - 1]:
            shown += HIDDEN
    return shown


@given(value=WRITTEN | PIECES, other=WRITTEN, form=st.sampled_from(FORMS), around=PIECES, cut=st.integers(0, 30))
@example(value="船" * 20 + "%41\\u0041", other="", form=quote, around="", cut=3)
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@pytest.mark.slow
def test_hide_finds_the_same_places_as_a_comparison_of_every_position(value, other, form, around, cut):
    try:
        echo = form(value)
    except UnicodeEncodeError:  # a lone surrogate cannot be quoted
        echo = value
    echo = echo.decode() if isinstance(echo, bytes) else echo
    text = f"{around}|{echo[cut:]}|{around}{other}"
    values = [value, other[:FEW], "key-0123456789abcdef"]

    assert KnownValues(values).hide(text) == hide_by_comparing_every_position(text, values)


@pytest.mark.slow
@given(text=WRITTEN | PIECES)
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_letters_of_equals_a_search_of_single_characters(text):
    assert letters_of(text) == letter_by_letter(text)[0]


def test_a_long_row_of_escape_sequences_is_not_split_within_a_character():
    assert letters_of(quote("é船" * 3000)) == unicodedata.normalize("NFKD", "é船").replace("\u0301", "") * 3000
    units = "".join(f"\\u{unit:04x}" for char in "\U0001d400b" * 3000 for unit in utf_16(char))
    assert letters_of(units) == "ab" * 3000
    assert letters_of("E\u0301 x" * 30_000) == "ex" * 30_000


def utf_16(char: str) -> list[int]:
    data = char.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def test_of_a_long_value_more_is_hidden_and_never_less(monkeypatch):
    value = "a boat sails at dawn, and the crew sings of the sea; " * 3
    text = "the crew sings loudly. a boat sails at noon. It says: a boat sails at dawn, and the crew."
    exact = KnownValues([value]).hide(text)

    monkeypatch.setattr(known_values, "_MOST_RUNS", 0)

    assert exact == "the crew sings loudly. a boat sails at noon. It says: …."
    shown = KnownValues([value]).hide(text)
    assert "dawn" not in shown
    assert "noon" not in shown  # it is next to a block, "aboatsailsat"
    assert shown.startswith("the crew")


#: Long prompts that take the longest to search.
KINDS = {
    "numbered": "".join(f"frame {number}: a boat sails at dawn " for number in range(8000)),
    "Chinese": "黎明时分一艘小船启航" * 26_000,
    "escapes": "\\u0041\\n%41&amp;" * 16_000,
    "backslashes": "\\" * 260_000,
    "no spaces": "abcdefghijklmnopqrstuvwxyz0123456789%" * 7000,
    "ampersands": "&a" * 130_000,
}


@pytest.mark.needs_dev
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [*(kind for kind in KINDS if kind != "escapes"), pytest.param("escapes", marks=pytest.mark.needs_dev)]
)
def test_a_long_value_is_searched_for_quickly_once_it_is_prepared(kind):
    value = KINDS[kind]
    known = KnownValues(["key-0123456789abcdef", value])
    known.prepare()
    text = f"bad: {value[1000:20_000]}"
    started = time.thread_time()

    shown = excerpt(text, known)

    took = time.thread_time() - started
    assert letters_of(value)[2000 : 2000 + RUN] == "" or letters_of(value)[2000 : 2000 + RUN] not in letters_of(shown)
    # Some 20 ms; unprepared, the value took a second.
    assert took < 0.2


def test_a_value_is_prepared_once_for_all_headers_of_a_response(monkeypatch):
    known = KnownValues(["a boat sails at dawn and nobody knows where " * 100])
    prepared = []
    read = known_values._letters_of_piece
    monkeypatch.setattr(known_values, "_letters_of_piece", lambda text: prepared.append(len(text)) or read(text))
    headers = dict.fromkeys(("Server", "Via", "Vary", "Date", "ETag"), "a boat sails at dawn and nobody")

    assert {value for _, value in visible_headers(headers, known)} == {HIDDEN}
    assert sum(length > 1000 for length in prepared) == 2  # raw and in Base64

"""Messages show no secret, in whatever encoding."""

import base64
import html
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidgen_async.redaction import messages
from vidgen_async.redaction.known_values import RUN
from vidgen_async.redaction.messages import LONGEST_READ, excerpt, hide_in_path, hide_secrets, is_plain_word

KEY = 'vk/live+"Ä=s3cr3t'
PROMPT = 'Tom & Jerry\'s "private" <boat>\nsails at dawn, order of Mrs. Müller 1974'

FORMS = {
    "raw": str,
    "percent-encoded": lambda value: quote(value, safe=""),
    "a form's": quote_plus,
    "percent-encoded twice": lambda value: quote(quote(value)),
    "HTML": html.escape,
    "HTML twice": lambda value: html.escape(html.escape(value)),
    "repr": repr,
    "ASCII": ascii,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON in JSON": lambda value: json.dumps(json.dumps({"prompt": value})),
    "JSON in HTML": lambda value: html.escape(json.dumps([value])),
    "white space squeezed": lambda value: " ".join(value.split()),
}
#: Letters whose capitals are one letter too, and what is escaped in one way or another.
WRITTEN = st.text("abcxyzEFG0123456789äöüéçЖш船舟 \n\t'\"\\/&<>%+=;#u.,-{}", min_size=1, max_size=60)


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        json.dumps(KEY)[1:-1],
        json.dumps(KEY, ensure_ascii=False)[1:-1],
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
    ],
)
def test_a_known_value_is_hidden_in_every_form(form):
    assert hide_secrets(f"before {form} after", [KEY]).replace("=", "") == "before … after"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://h/v.mp4?exp=1790000000&sig=a%2Bb", "a%2Bb"),
        ("https://h/v.mp4?exp=1790000000&sig=a%2Bb", "1790000000"),
        ("/api/reference-assets/1/content/x.png?token=tok-en", "tok-en"),
        ("https://h/x?X-Amz-Signature=abc123", "abc123"),
        ("https://user:pass@h/x", "pass"),
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("Authorization: token abc.def-ghi", "abc.def-ghi"),
        ("https://user:pass/word@h/x", "word"),
        ("https://user:pass/word@h/x", "pass"),
        ("the token: abc-def is bad", "abc-def"),
        ("token=abc-def", "abc-def"),
        ("access_token = abc-def", "abc-def"),
        ("api_key: 'abc-def'", "abc-def"),
        ('token: ("abc-def")', "abc-def"),
        ('{\\"api-key\\": \\"abc-def\\"}', "abc-def"),
        ("{'password': 'abc-def'}", "abc-def"),
        ("exp=1790000000 sig=a%2Bb", "a%2Bb"),
        ('{"prompt": "a boat at dawn", "n": 1}', "boat"),
        ("the prompt 'Tom's boat at dawn' was refused", "dawn"),
        ("Prompt: “a boat at dawn", "boat"),
        ("{'prompt': 'a boat at dawn'}", "boat"),
        ('{"api_key": "plain-secret", "n": 1}', "plain-secret"),
        ("data:image/png;base64,iVBORw0KGgo=", "iVBORw0KGgo"),
        ("x " + "QUJD" * 80 + " y", "QUJDQUJD"),
    ],
)
def test_the_value_in_a_secret_place_is_hidden(text, secret):
    assert secret in text
    assert secret not in hide_secrets(text)


@pytest.mark.parametrize(
    "text",
    ["the prompt 'a boat' must not be empty; token=… 'x'", "prompt: must not be empty, token", "https://h:80/@a?b=1"],
)
def test_the_text_around_a_secret_stays_readable(text):
    assert hide_secrets(text) == text.replace("a boat", "…")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/videos/https%3A%2F%2Fh%2Fv.mp4%3Fexp%3D1790000000%26sig%3DSECRET", "/videos/https://h/v.mp4?exp=…&sig=…"),
        ("/videos/https%253A%252F%252Fh%252Fv.mp4%253Fsig%253DSECRET", "/videos/https://h/v.mp4?sig=…"),
        ("/videos/token%3DSECRET", "/videos/token=…"),
        ("/videos/token=SECRET%26SECRET", "/videos/token=…"),
        ("/videos/%0Atoken%3DSECRET%1B[31m", "/videos/ token=…"),
        ("/videos/a%2Fb%0A", "/videos/a%2Fb%0A"),
        ("/videos/100%", "/videos/100%"),
    ],
)
def test_a_secret_in_a_path_is_hidden_although_it_is_percent_encoded(path, shown):
    assert hide_in_path(path) == shown


def test_a_text_without_secrets_is_unchanged():
    text = 'https://h/openapi/v1/videos/task-1?page=2 {"code": "INVALID", "message": "duration must be 15"}'
    assert hide_secrets(text) == text


@pytest.mark.parametrize("form", FORMS)
def test_a_prompt_is_hidden_in_every_encoding_of_a_service(form):
    shown = hide_secrets(f"bad prompt: {FORMS[form](PROMPT)} (rejected)", [PROMPT]).lower()
    for word in ("jerry", "private", "boat", "dawn", "ller", "1974"):
        assert word not in shown
    assert shown.startswith("bad prompt: ")
    assert shown.endswith(" (rejected)")


def test_a_known_value_in_upper_case_is_hidden():
    assert hide_secrets(f"<{PROMPT.upper()}>", [PROMPT]) == "<…>"


@pytest.mark.parametrize("cut", [slice(0, 25), slice(32, 60), slice(-24, None)])
def test_a_part_of_a_known_value_is_hidden(cut):
    assert letters(hide_secrets(f"what '{PROMPT[cut]}...' asks for", [PROMPT])) == "whatasksfor"


def test_a_part_of_the_base64_of_a_known_value_is_hidden():
    encoded = base64.b64encode(PROMPT.encode()).decode()
    assert hide_secrets(f"({encoded[4:38]})", [PROMPT]) == "(…)"


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(value=WRITTEN, form=st.sampled_from(list(FORMS)), around=st.tuples(WRITTEN, WRITTEN))
def test_no_long_part_of_a_known_value_is_visible_in_any_encoding(value, form, around):
    before, after = around
    shown = letters(hide_secrets(f"{before} | {FORMS[form](value)} | {after}", [value]))
    plain = letters(value)
    own = letters(hide_secrets(before) + "|" + hide_secrets(after))
    for at in range(len(plain) - RUN + 1):
        run = plain[at : at + RUN]
        assert run not in shown or run in own


#: Of every kind: what is no letter, what has no capital or two, what is decomposed, and half of a pair.
ANY = "".join(map(chr, range(0x250))) + "ẞﬁﬃ\u0301\u0345\u200d\ufeffЖшΣς船舟가각ｱア٣\U0001d7db😀👨👩👧\ud800\udfff"


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(text=st.text(ANY, max_size=200), value=st.text(ANY, min_size=6, max_size=40))
def test_any_text_can_be_hidden(text, value):
    assert value not in hide_secrets(text + value + text, [value]) or value == "…"
    assert len(excerpt(text, [value], limit=50)) <= 50


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("a", "a cat sat", "a cat sat"),
        ("cat", "a cat sat", "a … sat"),
        ("cat", "category concatenated", "category concatenated"),
        ("nude", 'bad prompt: "nude"', 'bad prompt: "…"'),
        ("船", "船は出る", "船は出る"),
        ("船出", "その船出は", "その…は"),
        ("------", "a ------ b", "a … b"),
    ],
)
def test_a_short_known_value_is_hidden_as_a_whole_word(value, text, shown):
    assert hide_secrets(text, [value]) == shown


def test_an_excerpt_is_one_printable_line_of_bounded_length():
    line = excerpt(b"<html>\r\n\x00\xff" + b"x y " * 200, limit=50)
    assert len(line) == 50
    assert line.isprintable()


def test_a_secret_at_the_end_of_an_excerpt_is_hidden():
    assert "s3cr3t" not in excerpt("x" * 190 + "s3cr3t-key-value", ["s3cr3t-key-value"], limit=197)


@pytest.mark.slow
def test_an_excerpt_reads_only_the_beginning_and_shows_no_secret_that_it_cuts():
    for at in range(LONGEST_READ - 40, LONGEST_READ + 3, 7):
        shown = excerpt("data:," + "A" * (at - 6) + " s3cr3t-key-value", ["s3cr3t-key-value"])
        assert "s3c" not in shown


@pytest.mark.parametrize("text", ["x" * (1 << 20), b"x" * (1 << 20)], ids=["text", "bytes"])
def test_the_time_of_an_excerpt_does_not_depend_on_the_length_of_the_response(text, monkeypatch):
    read = []
    monkeypatch.setattr(messages, "hide_secrets", lambda text, known=(): read.append(len(text)) or text)
    assert len(excerpt(text)) == 200
    assert read == [LONGEST_READ]


#: Of what patterns could be tried on again and again.
PIECES = [
    "token", '"token', "\\", "\\u0041", "&amp;", "&", "%25", "a", "://", "a://b:", "data:", "sig=", "?token",
    "prompt 'a", "prompt", "a: [", "exp: [", "exp: {\"", "tokens: 1", "token: [", 'pwd\\": \\"', "policy: a ", "k=[",
]  # fmt: skip


@pytest.mark.slow
def test_an_excerpt_of_a_hostile_text_takes_little_time():
    took = {}
    for piece in PIECES:
        text = (piece * LONGEST_READ)[:LONGEST_READ]
        started = time.thread_time()
        assert len(excerpt(text, [PROMPT, KEY])) <= 200
        took[piece] = time.thread_time() - started
    # A hundred times as long as it takes; what is not linear takes hours.
    assert max(took.values()) < 20, took


@pytest.mark.parametrize("word", ["INVALID_PARAMETERS", "E-17", "404", "error.v2"])
def test_a_code_is_a_plain_word(word):
    assert is_plain_word(word, ["vk-live-0123456789"])


@pytest.mark.parametrize("text", ["", "two words", "Bearer", "a" * 65, "ä", "x=1", "line\n", "vk-live-0123456789"])
def test_a_text_that_may_contain_anything_is_no_plain_word(text):
    assert is_plain_word(text, ["vk-live-0123456789"]) is (text == "Bearer")

"""Nothing secret is shown, in whatever form it comes."""

import base64
import json
from urllib.parse import quote

import pytest

from vidgen_async.redaction import excerpt, hide_secrets

KEY = 'vk/live+"Ä=s3cr3t'


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
        ('{"api_key": "plain-secret", "n": 1}', "plain-secret"),
        ("data:image/png;base64,iVBORw0KGgo=", "iVBORw0KGgo"),
        ("x " + "QUJD" * 80 + " y", "QUJDQUJD"),
    ],
)
def test_a_secret_place_is_hidden_whatever_it_holds(text, secret):
    assert secret in text
    assert secret not in hide_secrets(text)


def test_what_is_no_secret_stays_readable():
    text = 'https://h/openapi/v1/videos/task-1?page=2 {"code": "INVALID", "message": "duration must be 15"}'
    assert hide_secrets(text) == text


def test_short_known_values_do_not_garble_a_message():
    assert hide_secrets("a cat sat", ["a"]) == "a cat sat"


def test_an_excerpt_is_one_printable_line_of_bounded_length():
    line = excerpt(b"<html>\r\n\x00\xff" + b"x y " * 200, limit=50)
    assert len(line) == 50
    assert line.isprintable()


def test_a_secret_at_the_cut_of_an_excerpt_is_hidden_too():
    assert "s3cr3t" not in excerpt("x" * 190 + "s3cr3t-key-value", ["s3cr3t-key-value"], limit=197)

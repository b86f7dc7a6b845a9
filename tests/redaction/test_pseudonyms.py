"""One pseudonym per secret, in every encoding, for any number of secrets."""

import gc
import json
import re
import sys
from functools import cache
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cassette.planted_secrets import SECRETS, SPELLINGS, in_base64, in_utf8
from vidgen_async.redaction.pseudonyms import PSEUDONYM, Secrets, unescape, unify_pseudonyms

SECRET = "Zq7-a key/with+22=kX9"


@pytest.fixture
def secrets() -> Secrets:
    made = Secrets()
    made.hide(SECRET, "key")
    return made


# -- pseudonyms --------------------------------------------------------------------------------------------------------


def test_each_secret_has_one_pseudonym_that_names_its_kind():
    secrets = Secrets()
    assert [secrets.hide(value, "API-Key") for value in ("first-one", "other-one", "first-one")] == [
        "REDACTED-apikey-1", "REDACTED-apikey-2", "REDACTED-apikey-1",
    ]  # fmt: skip
    assert secrets.hide("first-one", "sig") == "REDACTED-apikey-1"
    assert secrets.hide("third-one", "sig") == "REDACTED-sig-1"


@pytest.mark.parametrize("kind", ["", "X-Amz-Signature", "ключ", "a" * 500, "1=2&3"])
def test_a_pseudonym_of_any_kind_is_safe_in_addresses_headers_and_json(kind):
    name = Secrets().hide("some-value", kind)
    assert PSEUDONYM.fullmatch(name)
    assert quote(name, safe="") == name == json.dumps(name)[1:-1]
    assert len(name) < 60


@pytest.mark.parametrize("value", ["", "REDACTED-sig-1", "REDACTED-sig"])
def test_a_pseudonym_and_an_empty_value_are_not_replaced(value):
    assert Secrets().hide(value, "key") == value


def test_pseudonyms_on_a_cassette_are_not_assigned_again():
    secrets = Secrets()
    secrets.reserve("https://h/?sig=REDACTED-sig-7 REDACTED-key-2")
    assert secrets.hide("a-new-value", "sig") == "REDACTED-sig-8"
    assert secrets.hide("another-value", "token") == "REDACTED-token-1"


def test_unified_pseudonyms_do_not_distinguish_secrets():
    assert unify_pseudonyms("a=REDACTED-sig-1&b=REDACTED-key") == unify_pseudonyms("a=REDACTED-sig-22&b=REDACTED-key-1")


# -- forms -------------------------------------------------------------------------------------------------------------


def test_a_known_value_is_found_and_replaced_in_any_encoding(secrets):
    for spelling, spell in SPELLINGS.items():
        # Letters before Base64 would be Base64, too: another text.
        texts = ["%s", '{"a": "%s"}', "say %s now", *(["abc%sxyz"] if "Base64" not in spelling else [])]
        for text in texts:
            spelt = text % spell(SECRET)
            assert secrets.is_in(spelt), (spelling, text)
            assert not secrets.is_in(secrets.replace(spelt)), (spelling, text)


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(SECRETS, st.sampled_from(sorted(SPELLINGS)))
def test_any_value_is_found_in_any_encoding(value, spelling):
    secrets = Secrets()
    secrets.hide(value, "key")
    assert secrets.is_in(f'{{"a": "{SPELLINGS[spelling](value)}"}}')
    assert secrets.is_in_bytes(b"\0\xff" + in_utf8(SPELLINGS[spelling](value)) + b"\0")


def test_a_value_with_a_lone_surrogate_is_hidden_too():
    secrets, value = Secrets(), "a-key-\ud800-22"
    assert secrets.hide(value, "key") == "REDACTED-key-1"
    for text in (value, json.dumps(value)[1:-1], quote(value, errors="surrogatepass"), in_base64(value)):
        assert secrets.replace(f"say {text}") == "say REDACTED-key-1"


def test_the_text_around_a_replaced_value_is_unchanged(secrets):
    assert secrets.replace(f"bad key {SECRET}: go") == "bad key REDACTED-key-1: go"
    assert secrets.replace(f"bad key {SECRET.upper()}: go") == "bad key REDACTED-key-1: go"
    assert secrets.replace(f"bad key {in_base64(SECRET)}: go").startswith("bad key REDACTED-key-1")


def test_a_text_in_which_a_value_cannot_be_located_is_hidden_completely(secrets):
    assert re.fullmatch(r"REDACTED-\w+-1", secrets.replace(f"bad key {SPELLINGS['percent for every byte'](SECRET)}"))


def test_of_values_that_contain_each_other_the_longest_is_replaced():
    secrets = Secrets()
    secrets.hide("abcdefgh", "key")
    secrets.hide("abcdefgh-and-more", "token")
    assert secrets.replace("x abcdefgh-and-more y abcdefgh z") == "x REDACTED-token-1 y REDACTED-key-1 z"


def test_a_short_value_is_hidden_only_in_its_place():
    secrets = Secrets()
    assert secrets.hide("ab12", "pin") == "REDACTED-pin-1"
    assert not secrets.is_in("cab1234")


def test_a_value_is_searched_for_only_once_it_is_a_secret():
    secrets = Secrets()
    secrets.hide("ordinary", "request", is_secret=False)
    assert not secrets.is_in("an ordinary word")
    secrets.hide("ordinary", "key")
    assert secrets.is_in("an ordinary word")


def test_a_text_without_known_values_is_not_changed(secrets):
    for text in ("", "a" * 100, "%zz &x; \\q \\u12", "Zq7-a key/with", "REDACTED-key-1"):
        assert secrets.replace(text) == text


@pytest.mark.parametrize("depth", range(1, 5))
def test_nested_escapes_are_resolved(depth, secrets):
    text = SECRET
    for _ in range(depth):
        text = json.dumps(quote(text))
    assert secrets.is_in(text)


@pytest.mark.parametrize(
    "text", ["%", "%%%2", "\\", "\\u", "\\u12", "\\ud800", "&#;", "&#x110000;", "&#99999999999;", "\ud800%ff"]
)
def test_invalid_escapes_are_unchanged(text, secrets):
    assert isinstance(unescape(text), str)
    assert not secrets.is_in(text)


# -- what is learnt late -----------------------------------------------------------------------------------------------


def test_a_value_that_was_written_in_any_encoding_before_it_was_known_is_late():
    for spelling, spell in SPELLINGS.items():
        secrets = Secrets()
        secrets.note_written(f"say {spell(SECRET)} now")
        secrets.hide(SECRET, "key")
        assert secrets.late == [SECRET], spelling


def test_a_value_at_the_end_of_a_long_written_text_is_late_too():
    secrets = Secrets()
    secrets.note_written("x" * 300_000 + SECRET)
    secrets.hide(SECRET, "key")
    assert secrets.late == [SECRET]


def test_a_value_that_was_not_written_is_not_late():
    secrets = Secrets()
    secrets.note_written("quite another text")
    secrets.hide(SECRET, "key")
    assert secrets.late == []


# -- many of them: counted, not timed ----------------------------------------------------------------------------------


def calls_of(work) -> int:
    """The number of function calls and resumed generators."""
    count = 0

    def tell(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(tell)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


FEW, MANY = 100, 1000
KINDS = ["%07d-mixed-kX9", "sk-live-mixed-%07d", "eyJhbGciOiJIUzI1NiJ9.%07d.kX9"]


@cache
def holding(count: int, value: str) -> Secrets:
    """So many values of one kind, optionally with a common beginning. Cached: callers add at most one value."""
    secrets = Secrets()
    for number in range(count):
        secrets.hide(value % (number * 7919 % 1_000_003), "token")
    return secrets


@pytest.mark.needs_dev
def test_a_search_for_a_thousand_values_takes_no_longer_than_for_a_hundred():
    text = f'{{"id": "task_1", "note": "a sk-live- thing, eyJhbGciOiJIUzI1NiJ9 and so on", "n": {list(range(40))}}}'
    for value in KINDS:
        few, many = (
            calls_of(lambda secrets=secrets: secrets.is_in(text))
            for secrets in (holding(FEW, value), holding(MANY, value))
        )
        assert many <= few + (MANY - FEW) / 4, value


@pytest.mark.slow
def test_learning_a_value_takes_no_longer_when_a_thousand_are_known():
    for value in KINDS:
        few, many = (
            calls_of(lambda secrets=secrets: secrets.hide("one-more-value", "key"))
            for secrets in (holding(FEW, value), holding(MANY, value))
        )
        assert many <= few + 5, value


@pytest.mark.slow
def test_each_of_a_thousand_values_is_found_in_the_middle_of_a_word():
    secrets = holding(MANY, KINDS[0])
    for number in (0, 23, 24, 47, 48, 500, MANY - 1):
        value = KINDS[0] % (number * 7919 % 1_000_003)
        name = secrets.hide(value, "token")
        assert secrets.replace(f"abc{value}xyz") == f"abc{name}xyz"
        assert secrets.is_in_bytes(f"\0abc{value}xyz\xff".encode("latin-1"))

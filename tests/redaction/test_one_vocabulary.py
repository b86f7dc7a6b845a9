"""Messages, logs, evidence and cassettes hide the values of the same names."""

import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cassette.recording_harness import client_on, says
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.errors import VidgenError
from vidgen_async.redaction.messages import hide_secrets, visible_headers
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport, make_headers
from vidgen_async.types.http import Request

#: Secret wherever it stands. Messages and cassettes had a list each.
NAMES = [
    "token", "access_token", "refreshToken", "tokens", "secret", "client_secret", "password", "passwd",
    "passphrase", "signature", "credential", "credentials", "api_key", "apikey", "api-key", "apiKey",
    "authorization", "cookie", "session", "session_id", "sessionId", "signed", "signing", "idempotency",
    "idempotency-key", "bearer", "webhook", "webhook_url", "callback", "callback_url", "private", "private_key",
    "jwt", "csrf", "xsrf", "policy", "X-Amz-Signature", "X-Amz-Credential", "x-goog-date", "sig", "key", "keys",
    "key_id", "auth", "pin", "otp", "hmac", "pwd", "sas", "nonce", "email", "e-mail", "phone", "code_verifier",
    "passcode", "upsig", "hdnts", "hdnea", "hdntl",
]  # fmt: skip
#: Secret in a query only: elsewhere these mean something harmless.
QUERY_NAMES = ["code", "hash", "h", "s", "t", "k", "p", "st", "se", "sp", "sv", "sr", "user", "pass"]
QUERY_NAMES += ["sign", "x-sign", "md5", "md5hash", "ticket", "cas_ticket", "pw", "tk"]
#: Times up to which something is valid: hidden wherever they are assigned.
UNTIL_NAMES = ["exp", "expires", "expiry", "expires_at", "expiration"]

FORMS = {
    "query": "https://files.test/v.mp4?a=b&{name}={value}&c=d",
    "query in HTML": "https://files.test/v.mp4?a=b&amp;{name}={value}&amp;c=d",
    "JSON": '{{"n": 1, "{name}": "{value}"}}',
    "JSON in JSON": '"{{\\"{name}\\": \\"{value}\\"}}"',
    "JSON in HTML": "{{&quot;{name}&quot;:&quot;{value}&quot;}}",
    "a JSON list": '{{"{name}": ["{value}", "{value}"], "n": 1}}',
    "a JSON object": '{{"{name}": {{"a": {{"b": "{value}"}}, "c": "{value}"}}, "n": 1}}',
    "a repr": "{{'{name}': '{value}'}}",
    "an assignment": "{name}={value}",
    "a sentence": "the {name}: {value} is not valid",
}
VALUE = "s3cr3t-4711-value"


def redacted_by_a_cassette(form: str, text: str) -> str:
    redactor = Redactor()
    if form in ("JSON", "a JSON list", "a JSON object"):
        return json.dumps(redactor.json(json.loads(text)))
    return redactor.text(text)


CASES = [(form, name) for form in FORMS for name in NAMES]
CASES += [("query", name) for name in [*QUERY_NAMES, *UNTIL_NAMES]]
CASES += [(form, name) for form in ("JSON", "an assignment") for name in UNTIL_NAMES]


@pytest.mark.parametrize("shown_in", ["messages", "cassettes"])
def test_the_value_of_a_secret_name_is_hidden_in_every_form(shown_in):
    shown = []
    for form, name in CASES:
        text = FORMS[form].format(name=name, value=VALUE)
        hidden = hide_secrets(text) if shown_in == "messages" else redacted_by_a_cassette(form, text)
        if "s3cr3t" in hidden or "4711" in hidden:
            shown.append((form, name, hidden))
    assert shown == []


@pytest.mark.parametrize("name", ["%73ig", "tok%65n", "token[0]", "token%5B0%5D"])
def test_an_escaped_name_in_a_query_is_recognised(name):
    text = FORMS["query"].format(name=name, value=VALUE)
    assert VALUE not in hide_secrets(text)
    assert VALUE not in Redactor().url(text)


def test_exactly_the_value_is_hidden():
    assert hide_secrets('{"pwd": "two words \\" and more", "n": 1}') == '{"pwd": "…", "n": 1}'
    assert hide_secrets("{'pwd': 'it's two words', 'n': 1}") == "{'pwd': '…', 'n': 1}"
    assert hide_secrets('"{\\"pwd\\": \\"two words\\", \\"n\\": 1}"') == '"{\\"pwd\\": \\"…\\", \\"n\\": 1}"'
    assert hide_secrets('{"keys": [{"a": "]"}, "b"], "n": 1}') == '{"keys": …, "n": 1}'
    assert hide_secrets('{"pin": 4711, "n": 1}') == '{"pin": …, "n": 1}'


@pytest.mark.parametrize(
    "cut", ['{"pwd": "two words', '{"pwd": ["one", "tw', "{'pwd': 'two wor", '"{\\"pwd\\": \\"two wo']
)
def test_a_truncated_value_is_hidden_to_the_end(cut):
    shown = hide_secrets(cut)
    assert shown.endswith("…")
    assert "wo" not in shown


@pytest.mark.parametrize("tokens", ["tokens", "max_tokens", "total_tokens", "access_tokens"])
def test_a_number_of_tokens_is_shown_and_a_list_of_them_is_not(tokens):
    count, listed = {tokens: 512}, {tokens: [VALUE]}
    assert hide_secrets(json.dumps(count)) == json.dumps(count)
    assert Redactor().json(count) == count
    assert VALUE not in hide_secrets(json.dumps(listed))
    assert VALUE not in json.dumps(Redactor().json(listed))


@pytest.mark.parametrize(
    "text",
    [
        "rejected by the policy: violence",
        "callback: must be reachable",
        '{"token_type": "bearer"}',
        "prompt: must not be empty",
        "sailing at 12:30, ratio 16:9, code=400",
        "https://files.test/v.mp4?page=2",
    ],
)
def test_an_ordinary_word_in_a_sentence_is_shown(text):
    assert hide_secrets(text) == text


@pytest.mark.parametrize(
    "shape",
    [
        '{name}: "{value}"',
        "{name}='{value}'",
        "{name} = '{value}'",
        'the {name}: "{value}", as always',
        '{{"{name}": "{value}"',
        '{{\\"{name}\\": \\"{value}\\"}}',
        "[{name}] ({name}=('{value}'))",
        "&quot;{name}&quot;: &quot;{value}&quot;",
        "{name}[0]='{value}'",
        "prompt: \"a boat with {name}: '{value}'\"",
    ],
)
@pytest.mark.parametrize("value", ["two words9 here", "it's-9 ours, is it", "correct horse battery staple", "a9;b c,d"])
@pytest.mark.parametrize("name", ["password", "passphrase", "client_secret", "api_key", "sessionToken"])
def test_a_pass_phrase_in_quotes_is_hidden_in_messages_and_on_cassettes(name, value, shape):
    if "'" in value:
        shape = shape.replace("'", '"')
    text = shape.format(name=name, value=value)
    for shown in (hide_secrets(text), Redactor().text(text), Redactor().json({"message": text})["message"]):
        assert not any(part in shown for part in (value, value[:6], value[-5:]))
    redactor = Redactor()
    redacted = redactor.text(text)
    assert Redactor(is_numbered=False).text(redacted) == redacted
    if "words9" in value:
        assert "words9" not in redactor.text(f"again: {value}")


@pytest.mark.parametrize("name", ["password", "token", "api_key", "privateKey", "pwd"])
def test_an_ordinary_word_may_be_a_password(name):
    assert "violence" not in hide_secrets(f"the {name}: violence")


@pytest.mark.parametrize(
    "secret",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "AKIAIOSFODNN7EXAMPLE",
        "sk-live-aB3dE5fG7hI9jK1lM3",
        "ghp_abcdefghijklmnopqrstuvwxyz0123",
        "vg1-abcdefghijklmnopqrstuvwxyz234567abcdefgh",
        "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",
        "someone.or-other+1@mail.example.test",
    ],
)
def test_a_value_with_the_form_of_a_secret_is_hidden_in_any_place(secret):
    assert secret not in hide_secrets(f"refused: ({secret})")
    assert secret not in Redactor().text(f"refused: ({secret})")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("keys", "tokens")])
def test_a_header_with_a_secret_name_is_no_evidence_and_not_on_a_cassette(name):
    headers = make_headers({f"X-{name}": VALUE, "Content-Type": f"text/html; {name}={VALUE}"})
    assert VALUE not in str(visible_headers(headers))
    assert VALUE not in str(Redactor().headers(headers))


async def test_no_error_log_record_or_cassette_shows_a_secret_that_a_response_quotes(tmp_path: Path, caplog):
    secrets = {name: f"s3cr3t-{number}-value" for number, name in enumerate(NAMES)}
    left = list(secrets.items())

    async def answer(request: Request) -> BufferedResponse:
        name, value = left.pop()
        message = f"{name}={value} ({name}: {value})"
        return says({"error": {"code": "INVALID", "message": message}}, 400, location=f"https://a.test/?{name}={value}")

    path = tmp_path / "one.json"
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG, logger="vidgen_async"):
        async with client_on(RecordingTransport(FakeTransport(answer), path)) as client:
            while left:
                with pytest.raises(VidgenError) as caught:
                    await client.account.get()
                shown += [str(caught.value), repr(caught.value)]

    whole = "\n".join([*shown, caplog.text, *map(repr, map(vars, caplog.records)), path.read_text()])
    assert "INVALID" in whole
    assert [name for name, value in secrets.items() if value in whole or quote(value) in whole] == []

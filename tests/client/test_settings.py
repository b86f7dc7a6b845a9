"""The key and the base URL are judged when the client is made."""

import traceback

import pytest
from yarl import URL

from vidgen_async import Client
from vidgen_async.client.settings import checked_base_url, checked_key, checked_name
from vidgen_async.errors import ConfigurationError
from vidgen_async.transports.direct.proxies import is_on_this_machine


@pytest.mark.parametrize("given", ["key-123", "  key-123\n", "Bearer key-123", "bearer   key-123 "])
def test_harmless_wrapping_of_a_key_is_trimmed(given):
    assert checked_key(given) == "key-123"


@pytest.mark.rule("5 item 1", side="sdk")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "blank"),
        ("   ", "blank"),
        ("Bearer ", "blank"),
        ("abc\ndef-secret", "control characters"),
        ("abc\x00def-secret", "control characters"),
        ("abc-secreté", "not ASCII"),
        ("sk-secret…", "not ASCII"),
        ("two secret-keys", "white space inside"),
        ('"sk-secret"', "quotes around it"),
        ("'sk-secret'", "quotes around it"),
        ("`sk-secret`", "quotes around it"),
        ('Bearer "sk-secret"', "quotes around it"),
        ('"sk-secret', "quotes around it"),
        ("VIDGEN_API_KEY=secret", "begins with a name"),
        ("export VIDGEN_API_KEY=secret", "begins with a name"),
        ("api-key: secret", "begins with a name"),
        ("sk-secret...", "shortened"),
        ("sk-secret..last", "shortened"),
        ("sk-secret****", "shortened"),
        ("sk-***secret", "shortened"),
        ("sk-xxxx", "shortened"),
        ("sk-xxxxxxxxxxxxxxxx", "shortened"),
        *(
            (given, "placeholder")
            for given in (
                "YOUR_API_KEY",
                "your-api-key",
                "YOUR_KEY",
                "<API_KEY>",
                "<your secret>".replace(" ", "-"),
                "sk-your-key-here",
                "my-api-key",
                "api_key",
                "API-KEY",
                "VIDGEN_API_KEY",
                "$VIDGEN_API_KEY",
                "${VIDGEN_API_KEY}",
                "{{api_key}}",
                "%VIDGEN_API_KEY%",
                "insert-your-key-here",
                "changeme",
                "REPLACE_ME",
                "todo",
                "None",
                "null",
                "undefined",
                "your_secret_token",
                "[key]",
                "<API_KEY",
                "API_KEY>",
                "put-your-key-here",
                "your-key-goes-here",
                "api_key_here",
                "add-key-here",
                "REPLACE_WITH_KEY",
                "replace-with-your-key",
                "placeholder",
                "sk-placeholder",
                "vg-changeme",
                "sk-REPLACE",
                "your-service-key",
            )
        ),
    ],
)
def test_a_bad_key_is_refused_with_the_reason_and_never_shown(given, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        checked_key(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "key",
        "test",
        "test-key",
        "dummy",
        "vg-key",
        "sk-test",
        "sandbox",
        "my-company-key-7f3a",
        "yourself-9d2e",
        "sk-1234..".rstrip("."),
        "sk-7f3axx",
        "sk-xyxxy",
        "sk-nonexxnull",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "a/b+c==",
        "k$1",
        "$1a2b3c4d",
        "<7f3a9d2e",
        "api_key_here_7f3a",
        "placeholder-7f3a",
        "abc=",
        "apikey1",
    ],
)
def test_a_key_that_may_be_real_is_accepted(given):
    assert checked_key(given) == given


def test_a_missing_key_is_refused_and_the_variable_named(monkeypatch):
    monkeypatch.delenv("VIDGEN_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="VIDGEN_API_KEY"):
        checked_key(None)


def test_the_environment_gives_key_and_base_url(monkeypatch):
    monkeypatch.setenv("VIDGEN_API_KEY", "from-env")
    monkeypatch.setenv("VIDGEN_BASE_URL", "https://h/openapi/v1/")
    assert checked_key(None) == "from-env"
    assert checked_base_url(None) == URL("https://h/openapi/v1")


@pytest.mark.parametrize(
    "given",
    ["https://h/openapi/v1", "https://h/openapi/v1/", "https://h/openapi/v1//", " https://h/openapi/v1\n"],
)
def test_slashes_and_white_space_after_a_base_url_do_not_matter(given):
    assert str(checked_base_url(given)) == "https://h/openapi/v1"


@pytest.mark.rule("4 note base", "9 bullet 1", side="sdk")
def test_a_base_url_without_the_prefix_is_warned_about_and_the_404s_are_named():
    with pytest.warns(UserWarning, match="404"):
        assert str(checked_base_url("https://h/v1")) == "https://h/v1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("h/openapi/v1", "scheme"),
        ("ftp://h/openapi/v1", "scheme"),
        ("https:///openapi/v1", "host"),
        ("https://me:secret@h/openapi/v1", "user name"),
        ("https://h/openapi/v1?token=secret", "query"),
        ("  ", "no base URL"),
        ("http://[::1/openapi/v1", "not a URL"),
        (r"https://h\x/openapi/v1", "not a URL"),
    ],
)
def test_a_bad_base_url_is_refused_with_the_reason(given, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        checked_base_url(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *((host, True) for host in ("127.0.0.1", "127.1", "2130706433", "0.0.0.0", "[::1]", "[::]")),  # noqa: S104
        *((host, True) for host in ("[::ffff:127.0.0.1]", "localhost", "localhost.", "api.localhost.")),
        *((host, False) for host in ("example.com", "10.1", "[::ffff:10.0.0.1]", "[2001:db8::1]", "mylocalhost")),
    ],
)
def test_loopback_hosts_are_on_this_machine(host, here):
    assert is_on_this_machine(URL(f"http://{host}:80/openapi/v1")) is here


@pytest.mark.parametrize(
    "given",
    [
        "vk-live-s3cr3t",
        "vk:live-s3cr3t",
        "ann:s3cr3t@host.net/openapi/v1",
        "https://ann:s3cr3t/x@host.net/openapi/v1",
        "https://ann:s3cr3t@host:bad/openapi/v1",
        "ftp://ann:s3cr3t@host/openapi/v1",
        "https://host/s3cr3t/openapi/v1?x=1",
        "https://host/openapi/v1#s3cr3t",
        "https:///s3cr3t",
    ],
)
def test_what_is_no_base_url_may_be_the_key_and_is_shown_nowhere(given):
    with pytest.raises(ConfigurationError) as caught:
        checked_base_url(given)
    assert "s3cr3t" not in str(caught.value)
    assert f"it has {len(given)} characters" in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_base_url_without_its_scheme_is_recognised():
    with pytest.raises(ConfigurationError, match=r"did you mean 'https://api\.host\.net:8443/openapi/v1'"):
        checked_base_url("api.host.net:8443/openapi/v1")


@pytest.mark.rule("5 item 1", side="sdk")
def test_a_key_that_would_be_sent_unencrypted_to_another_machine_is_warned_about():
    with pytest.warns(UserWarning, match="the API key is sent unencrypted to another machine") as caught:
        Client("key", base_url="http://api.host.net/openapi/v1")
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_client_that_could_not_be_made_can_be_shown():
    assert repr(Client.__new__(Client)) == "Client(base_url=None)"
    try:
        Client(base_url="https://h/openapi/v1", api_key="")
    except ConfigurationError as error:
        summary = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert "Client(base_url=None)" in "".join(summary.format())


def test_the_warning_about_a_prefix_hides_what_is_secret_in_the_url():
    with pytest.warns(UserWarning, match="404") as caught:
        checked_base_url("https://h/v1;key=s3cr3t")
    assert "s3cr3t" not in str(caught[0].message)


@pytest.mark.parametrize("given", ["default", "Müller & Söhne", "x" * 200])
def test_a_name_is_taken_as_it_is(given):
    assert checked_name("account", given) == given


@pytest.mark.parametrize("given", ["", " ", "\ud800", "a\nb", "x" * 201, None, 7])
def test_a_name_that_cannot_be_written_is_refused_and_its_setting_named(given):
    with pytest.raises(ConfigurationError, match=r"^account must be "):
        checked_name("account", given)


@pytest.mark.parametrize("setting", ["account", "namespace"])
@pytest.mark.parametrize("given", [" ", "\ud800", "x" * 201])
def test_a_client_is_not_made_with_a_name_that_cannot_be_written(setting, given):
    with pytest.raises(ConfigurationError, match=f"^{setting} must be "):
        Client("key", base_url="https://h/openapi/v1", **{setting: given})

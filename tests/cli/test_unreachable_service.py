"""A service that cannot be reached: how long a command tries, and which setting the error names."""

import io
import socket

import pytest

from vidgen_async.cli import settings
from vidgen_async.cli.settings import Settings
from vidgen_async.sandbox import Fault

from .conftest import text_of


@pytest.fixture
def unused_url(monkeypatch) -> str:
    """A base URL at which nothing listens, also in VIDGEN_BASE_URL."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/openapi/v1"
    monkeypatch.setenv("VIDGEN_BASE_URL", url)
    return url


COMMANDS = {
    ("account",): 1,
    ("models",): 1,
    ("get", "task-1"): 1,
    ("wait", "task-1"): 1,
    ("wait", "task-1", "task-2"): 1,
    ("watch", "task-1"): 1,
    ("download", "task-1", "-o", "a.mp4"): 1,
    ("create", "x"): 3,
    ("generate", "x", "-o", "a.mp4"): 3,
}


def test_at_a_terminal_it_is_final_after_a_few_seconds(terminal, unused_url, monkeypatch):
    assert settings.TERMINAL_RETRY <= 10
    monkeypatch.setattr(settings, "TERMINAL_RETRY", 0)
    for arguments, expected in COMMANDS.items():
        code, shown = terminal(*arguments)
        text = " ".join(text_of(shown))
        assert code == expected, arguments
        assert "refused" in text, arguments
        assert "hint: the base URL was set by VIDGEN_BASE_URL." in text, arguments


def test_without_a_terminal_it_is_retried_as_the_library_does(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert not Settings().is_impatient
    assert Settings().read_retry == 60
    assert Settings(retry_for=0).read_retry == 0


def test_an_option_sets_for_how_long_it_is_retried(here, unused_url):
    for arguments, expected in COMMANDS.items():
        code, _, err = here(*arguments, "--retry-for", "0")
        assert (code, "retrying" in err) == (expected, False), arguments
        assert "hint: the base URL was set by VIDGEN_BASE_URL." in err, arguments


def test_the_error_names_the_option_that_gave_the_base_url(unused_url, fails):
    err = fails(1, "account", "--retry-for", "0", "--base-url", unused_url)
    assert err.endswith("refused.\nhint: the base URL was set by --base-url.\n")


def test_the_error_names_the_setting_of_the_proxy_too(here, unused_url, monkeypatch):
    proxy = unused_url.removesuffix("/openapi/v1")
    other = "https://vidgen.invalid/openapi/v1"
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    assert "set by --base-url, the proxy by HTTPS_PROXY." in here("account", "--base-url", other, "--retry-for", "0")[2]
    more = ("--base-url", other, "--proxy", proxy, "--retry-for", "0")
    assert "set by --base-url, the proxy by --proxy." in here("account", *more)[2]


def test_a_page_instead_of_an_api_names_the_setting_of_the_base_url(here, service):
    service.add_fault("account.get", Fault.status(404, body=b"<html>not here</html>"))
    assert "hint: the base URL was set by VIDGEN_BASE_URL." in here("account")[2]


def test_a_429_shows_its_seconds(service, fails):
    service.add_fault("account.get", Fault.status(429, headers={"Retry-After": "90"}))
    err = fails(1, "account", "--json")
    assert "retry after 90 s" in err
    assert '"retry_after": 90' in err

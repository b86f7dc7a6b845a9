"""``--proxy``, VIDGEN_PROXY and the proxies of the environment; no password is shown."""

import http.client
import shlex
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from yarl import URL

from vidgen_async.sandbox import Fault

from .conftest import PICTURE

pytestmark = pytest.mark.slow

ELSEWHERE = "http://service.test/openapi/v1"
BOAT = ("create", "A paper boat", "--model", "gen-2.0", "--order-id", "order-1187")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "VIDGEN_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Proxy(ThreadingHTTPServer):
    """A proxy of plain http, which forwards every request to the sandbox."""

    def __init__(self, sandbox: URL) -> None:
        super().__init__(("127.0.0.1", 0), Forwarder)
        self.sandbox = sandbox
        self.targets: list[str] = []

    @property
    def url(self) -> str:
        return f"http://user:hush-hush@127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """The sandbox closed the connection: so does this."""


class Forwarder(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.targets.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.sandbox.port)) as sandbox:
            sandbox.request(self.command, URL(self.path).raw_path_qs, body, dict(self.headers))
            answer = sandbox.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer.read())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy_server(service) -> Iterator[Proxy]:
    with Proxy(URL(service.base_url)) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def proxy(proxy_server) -> str:
    return proxy_server.url


@pytest.fixture
def elsewhere(here, monkeypatch):
    monkeypatch.setenv("VIDGEN_BASE_URL", ELSEWHERE)
    return here


@pytest.mark.parametrize("how", ["--proxy", "VIDGEN_PROXY", "HTTP_PROXY", "ALL_PROXY"])
def test_every_request_goes_through_the_proxy(elsewhere, service, proxy_server, proxy, how, monkeypatch):
    option = ("--proxy", proxy) if how == "--proxy" else ()
    if not option:
        monkeypatch.setenv(how, proxy)
    for command in (("models",), ("account",), ("upload", PICTURE), BOAT, ("orders", "resume", "order-1187")):
        code, _, err = elsewhere(*command, *option)
        assert code == 0, err
        assert "hush-hush" not in err
    (task_id,) = [create.task_id for create in service.creates]
    for command in (("get", task_id), ("wait", task_id), ("watch", task_id), ("watch", "--journal")):
        polling = () if command[0] == "get" else ("--poll-interval", "0.05")
        code, _, err = elsewhere(*command, *polling, *option)
        assert code == 0, err
    assert {URL(target).host for target in proxy_server.targets} == {"service.test"}


def test_a_service_on_this_machine_and_the_sandbox_are_reached_directly(here, service, tmp_path, monkeypatch, works):
    dead = "http://127.0.0.1:9"
    for name in ("HTTP_PROXY", "ALL_PROXY", "VIDGEN_PROXY"):
        monkeypatch.setenv(name, dead)
    assert here("models", "--proxy", dead)[0] == 0
    works("generate", "x", "--sandbox", "-o", "boat.mp4", "--proxy", dead)


@pytest.mark.parametrize("flags", [(), ("--debug",), ("--json",)])
@pytest.mark.parametrize("how", ["--proxy", "VIDGEN_PROXY", "HTTPS_PROXY", "all_proxy"])
@pytest.mark.parametrize(
    "value",
    ["socks5://user:hush-hush@h:1", "http://user:hush-hush@h:port", "http://user:hu[sh-hush@h:1"],
)
def test_a_proxy_that_cannot_be_used_is_one_paragraph_and_exit_code_2(value, how, flags, monkeypatch, fails):
    option = ("--proxy", value) if how == "--proxy" else ()
    if not option:
        monkeypatch.setenv(how, value)
    for command in (("models",), BOAT, ("orders", "ls")):
        err = fails(2, *command, *option, *flags, "--base-url", "https://service.test/openapi/v1")
        last = err.splitlines()[-1]
        assert how.removeprefix("--") in last
        assert len(err.splitlines()) == 1 or flags == ("--debug",)
        assert "sh-hush" not in err


def test_proposed_commands_repeat_the_proxy_without_its_password(elsewhere, service, proxy):
    service.add_fault("videos.create", Fault.close_after_body())
    code, _, err = elsewhere(*BOAT, "--proxy", proxy)
    assert code == 5
    shown = f"http://USER:PASSWORD@127.0.0.1:{URL(proxy).port}"
    assert f"--proxy {shown}" in err
    assert "hush-hush" not in err
    plain = str(URL(proxy).with_user(None))
    _, _, err = elsewhere("orders", "resume", "order-1187", "--proxy", plain)
    commands = [shlex.split(line) for line in err.splitlines() if line.startswith("  vidgen")]
    assert commands
    assert all(command[command.index("--proxy") + 1] == plain for command in commands)


def test_a_proxy_that_refuses_its_password_is_an_error_without_it(elsewhere, service, proxy):
    service.add_fault("*", Fault.status(407), times=None)
    for command in (("models",), BOAT):
        for flags in ((), ("--debug",)):
            code, out, err = elsewhere(*command, *flags, "--proxy", proxy)
            assert code != 0
            assert "407" in err
            assert "hush-hush" not in out + err
            assert "dXNlcjpodXNoLWh1c2g" not in out + err, "in Base64"


# -- warnings ----------------------------------------------------------------------------------------------------------

UNENCRYPTED = "is http://: the API key is sent unencrypted"
NO_PREFIX = "does not end in /openapi/v1"


def test_a_warning_is_shown_once_where_a_resend_is_confirmed(terminal, service, monkeypatch):
    service.add_fault("videos.create", Fault.close_after_body())
    terminal(*BOAT)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url.replace("openapi", "api"))
    _, shown = terminal(
        *("orders", "resend", "order-1187", "--expect-attempt", "1", "--reason", "none"), typed="y\n", width=300
    )
    assert "Resend it?" in shown
    assert shown.count(NO_PREFIX) == 1


@pytest.mark.parametrize("status", [400, 401])
@pytest.mark.parametrize(
    "command", [BOAT, (*BOAT, "--check"), (*BOAT[:2], "--order-id", "o"), ("orders", "resume", "o")]
)
def test_a_catalog_that_cannot_be_fetched_is_reported_once(here, service, command, status):
    if command[0] == "orders":
        service.add_fault("videos.create", Fault.status(402))
        here(*BOAT[:-1], "o")
    service.add_fault("models.list", Fault.status(status), times=None)
    _, _, err = here(*command)
    assert err.count(f"models.list: {status}") == 1, err


def test_a_process_shows_a_warning_once(vidgen, service):
    for env in ({"PYTHONWARNINGS": ""}, {"PYTHONWARNINGS": "always"}):
        command = vidgen("orders", "ls", VIDGEN_BASE_URL="http://service.test/v2", **env)
        code, _, err = command.end()
        assert code == 0
        assert err.count(UNENCRYPTED) == 1
        assert err.count(NO_PREFIX) == 1
        assert ".py:" not in err

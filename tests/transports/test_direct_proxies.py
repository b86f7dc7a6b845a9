"""Settings of the direct transport that cannot be used are errors that name them, and no request leaves."""

import re
from contextlib import suppress

import pytest
from yarl import URL

from tests.transports import raw_service as raw
from tests.transports.raw_service import raw_service
from tests.transports.sending import create, swallowed
from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConfigurationError, ConnectError, NotSentError, TransportError
from vidgen_async.transports import DirectTransport
from vidgen_async.transports.contract.harness import by_both_ways
from vidgen_async.transports.direct.proxies import EnvironmentProxies
from vidgen_async.types.http import Delivery, Phase

BAD = {
    "a bracket in the password": "http://user:pa[ss-secret@127.0.0.1:9",
    "a bracket in the user name": "http://us]er:pass-secret@127.0.0.1:9",
    "a port that is no number": "http://user:pass-secret@127.0.0.1:port",
    "a port too large": "http://user:pass-secret@127.0.0.1:70000",
    "another scheme": "socks5://user:pass-secret@127.0.0.1:9",
    "another scheme, in the user's place": "pass-secret://user:x@127.0.0.1:9",
    "no host": "http://",
    "no host but a path": "http:///user:pass-secret@127.0.0.1:9",
    "no slashes": "http:user:pass-secret@127.0.0.1:9",
    "only slashes": "//user:pass-secret@127.0.0.1:9",
    "quotes": '"http://user:pass-secret@127.0.0.1:9"',
    "a # in the password": "http://user:pass#secret@127.0.0.1:9",
    "a # after digits": "http://user:12#secret@127.0.0.1:9",
    "a / after digits": "http://user:12/secret@127.0.0.1:9",
    "a ? after digits": "http://user:12?secret@127.0.0.1:9",
    "a path": "http://user:pass-secret@127.0.0.1:9/path",
    "a line break": "http://user:pass-secret\n@127.0.0.1:9",
    "a space in the host": "http://user:pass-secret@pro xy:9",
    "a host of a dot": "http://user:pass-secret@.:9",
    "an empty label": "http://user:pass-secret@a..b:9",
    "a long label": f"http://user:pass-secret@{'a' * 64}.test:9",
    "port 0": "http://user:pass-secret@127.0.0.1:0",
    "a password that is not Latin-1": "http://user:pass-secret%E5%AF%86@127.0.0.1:9",
    "a user name that is not Latin-1": "http://us密er:pass-secret@127.0.0.1:9",
    "a colon in the user name": "http://us%3Aer:pass-secret@127.0.0.1:9",
}
BAD_PROXIES = pytest.mark.parametrize("proxy", BAD.values(), ids=BAD)


VARIABLES = ("HTTPS_PROXY", "Https_Proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "VIDGEN_PROXY", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No proxies but those of the test."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@BAD_PROXIES
def test_a_proxy_that_cannot_be_used_is_an_error_when_the_transport_is_made(proxy):
    with pytest.raises(ConfigurationError, match=r"^proxy ") as caught:
        DirectTransport(proxy=proxy)
    assert "secret" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@BAD_PROXIES
@pytest.mark.parametrize("variable", ["VIDGEN_PROXY", "HTTPS_PROXY", "https_proxy", "Https_Proxy", "ALL_PROXY"])
def test_a_variable_that_cannot_be_used_is_named_when_the_client_is_made(variable, proxy, monkeypatch):
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ConfigurationError, match=rf"(^| ){variable} ") as caught:
        Client("key", base_url=SERVICE)
    assert "secret" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@BAD_PROXIES
@by_both_ways
async def test_an_unusable_proxy_of_the_environment_proves_that_nothing_was_sent(monkeypatch, proxy, op):
    monkeypatch.setenv("http_proxy", proxy)
    transport = DirectTransport(trust_env=True)
    try:
        with pytest.raises(TransportError, match=r"http_proxy .* trust_env=False ignores it") as caught:
            await swallowed(transport, create(URL("http://service.test:9/x"), op=op))
    finally:
        await transport.aclose()
    assert (caught.value.delivery, caught.value.phase) == (Delivery.NOT_SENT, Phase.BUILD)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [{"ssl": "no"}, {"ssl": None}, {"max_connections": 0}, {"max_connections": -1}, {"max_connections": "10"}],
    ids=str,
)
def test_a_setting_that_cannot_be_used_is_named(settings):
    (name,) = settings
    with pytest.raises(ConfigurationError, match=name):
        DirectTransport(**settings)


# -- the environment -------------------------------------------------------------------------------------------------

SERVICE = "https://api.service.test/openapi/v1"


def proxy_for(url: str) -> str | None:
    proxy = EnvironmentProxies.read().proxy_for(URL(url))
    return None if proxy is None else str(proxy).rstrip("/")


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "https://a.test/", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "https://a.test/", "http://p:1"),
        ({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "https://a.test/", "http://p:1"),
        ({"HTTPS_PROXY": "p:1"}, "https://a.test/", "http://p:1"),
        ({"HTTPS_PROXY": " http://p:1\n"}, "https://a.test/", "http://p:1"),
        ({"HTTPS_PROXY": "https://p:1"}, "https://a.test/", "https://p:1"),
        ({"HTTPS_PROXY": "http://u:w@p:1"}, "https://a.test/", "http://u:w@p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://a.test/", None),
        ({"HTTP_PROXY": "http://p:1"}, "https://a.test/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://a.test/", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p:1"}, "https://a.test/", "http://p:1"),
        ({"all_proxy": "http://p:1"}, "http://a.test/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "https://a.test/", "http://q:2"),
        ({"HTTPS_PROXY": ""}, "https://a.test/", None),
        ({"HTTPS_PROXY": " "}, "https://a.test/", None),
        ({"HTTPS_PROXY": "[2001:db8::1]:3128"}, "https://a.test/", "http://[2001:db8::1]:3128"),
        ({"HTTPS_PROXY": "u:w@p.corp:1"}, "https://a.test/", "http://u:w@p.corp:1"),
        ({"VIDGEN_PROXY": "u:w@p.corp:1", "HTTPS_PROXY": "http://q:2"}, "https://a.test/", "http://u:w@p.corp:1"),
        ({"VIDGEN_PROXY": " p:1\n", "NO_PROXY": "*"}, "http://a.test/", "http://p:1"),
        ({"VIDGEN_PROXY": " ", "HTTPS_PROXY": "http://q:2"}, "https://a.test/", "http://q:2"),
        ({}, "https://a.test/", None),
    ],
)
def test_the_variables_name_the_proxy(variables, url, proxy, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_direct"),
    [
        ("*", "https://a.test/", True),
        ("a.test", "https://a.test/", True),
        ("a.test", "https://x.a.test/", True),
        ("a.test", "https://xa.test/", False),
        (".a.test", "https://x.a.test/", True),
        (".a.test", "https://a.test/", True),
        ("*.a.test", "https://x.a.test/", True),
        ("A.TEST", "https://a.Test/", True),
        ("a.test.", "https://a.test/", True),
        ("b.test, a.test", "https://a.test/", True),
        ("b.test a.test", "https://a.test/", True),
        ("a.test:443", "https://a.test/", True),
        ("a.test:8443", "https://a.test/", False),
        ("a.test:8443", "https://a.test:8443/", True),
        ("10.1.2.3", "https://10.1.2.3/", True),
        ("10.0.0.0/8", "https://10.1.2.3/", True),
        ("10.0.0.0/8", "https://11.1.2.3/", False),
        ("10.1.2.3:443", "https://10.1.2.3/", True),
        ("10.1.2.3:80", "https://10.1.2.3/", False),
        ("2001:db8::1", "https://[2001:db8::1]/", True),
        ("[2001:db8::1]", "https://[2001:db8::1]/", True),
        ("[2001:db8::1]:443", "https://[2001:db8::1]/", True),
        ("[2001:db8::1]:80", "https://[2001:db8::1]/", False),
        ("2001:db8::/32", "https://[2001:db8::1]/", True),
        ("::1", "https://a.test/", False),
        (",", "https://a.test/", False),
        (".", "https://a.test/", False),
        ("", "https://a.test/", False),
        ("a.test.com", "https://a.test/", False),
    ],
)
def test_no_proxy_excludes_hosts_in_all_its_forms(no_proxy, url, is_direct, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (proxy_for(url) is None) is is_direct


@pytest.mark.parametrize(
    "value", ["p.corp:3128", "u:w@p.corp:3128", "http://p.corp:3128/", "https://p_1", "http://u:@p", "127.1"]
)
def test_a_proxy_may_be_named_as_in_the_variables(value, monkeypatch):
    DirectTransport(proxy=value)
    Client("key", base_url=SERVICE, proxy=value)
    monkeypatch.setenv("VIDGEN_PROXY", value)
    Client("key", base_url=SERVICE)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"https_proxy": "socks4://p:1", "HTTPS_PROXY": "socks5://p:1"}, "https_proxy"),
        ({"https_proxy": "", "HTTPS_PROXY": "socks4://p:1", "ALL_PROXY": "socks5://p:1"}, "ALL_PROXY"),
        ({"Https_Proxy": "socks5://p:1", "ALL_PROXY": "http://p:1"}, "Https_Proxy"),
        ({"HTTPS_PROXY": "http://p:1", "VIDGEN_PROXY": "socks5://p:1"}, "VIDGEN_PROXY"),
    ],
)
def test_the_variable_that_was_used_is_named(variables, named, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=rf"(^| ){named} "):
        Client("key", base_url=SERVICE)


def test_the_proxies_of_the_environment_are_shown_without_passwords(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass-secret@p:1")
    assert "secret" not in repr(EnvironmentProxies.read())


def test_variables_that_cannot_be_used_stop_no_client_of_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "VIDGEN_PROXY"):
        monkeypatch.setenv(name, "socks5://p:1")
    Client("key", base_url="http://127.0.0.1:8080/openapi/v1")
    with pytest.raises(ConfigurationError, match=r"^proxy must begin"):
        Client("key", base_url="http://127.0.0.1:8080/openapi/v1", proxy="socks5://p:1")


HERE = ["127.0.0.1", "127.8.9.10", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"]  # noqa: S104


@pytest.mark.parametrize("host", [*HERE, "localhost", "localhost.", "api.localhost", "LOCALHOST"])
async def test_this_machine_is_always_reached_directly(host, monkeypatch):
    for name in ("HTTP_PROXY", "ALL_PROXY", "VIDGEN_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{raw.dead_port()}")
    assert proxy_for(f"http://{host}:8080/") is None
    if host == "127.0.0.1":
        async with raw_service(answer_all) as service, Client("key", base_url=service.url("/openapi/v1")) as client:
            assert (await client.videos.get("task-1")).status == "queued"


def test_an_unusable_variable_stops_no_client_that_does_not_use_it(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5h://u:pass-secret@p:1")
    with pytest.raises(ConfigurationError, match=r"ALL_PROXY .*trust_env=False"):
        Client("key", base_url=SERVICE)
    Client("key", base_url=SERVICE, trust_env=False)
    monkeypatch.setenv("NO_PROXY", "service.test")
    Client("key", base_url=SERVICE)
    with pytest.raises(ConfigurationError, match="give it to the DirectTransport"):
        Client("key", base_url=SERVICE, proxy="http://p:1", transport=DirectTransport())


ANSWER = b'{"id": "task-1", "status": "queued"}'


async def answer_all(connection: raw.Connection) -> None:
    """A proxy of plain http that answers every request itself."""
    while True:
        await connection.request()
        await connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))


async def use(client: Client) -> None:
    async with client:
        assert (await client.videos.get("task-1")).status == "queued"
        await client.videos.create(model="m", prompt="p", validate=False)


@pytest.mark.filterwarnings("ignore:base_url")
@pytest.mark.parametrize("how", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "VIDGEN_PROXY", "proxy"])
async def test_a_client_sends_reads_and_creates_through_the_proxy(how, monkeypatch):
    async with raw_service(answer_all) as proxy:
        address = f"http://user:word@127.0.0.1:{proxy.port}"
        if how != "proxy":
            monkeypatch.setenv(how, address)
        base = "http://service.test/openapi/v1"
        await use(Client("key", base_url=base, proxy=address if how == "proxy" else None))
    read, create = proxy.received
    assert read.startswith(b"GET http://service.test/openapi/v1/videos/task-1 HTTP/1.1\r\n")
    assert create.startswith(b"POST http://service.test/openapi/v1/videos HTTP/1.1\r\n")
    for received in (read, create):
        assert b"Proxy-Authorization: Basic dXNlcjp3b3Jk\r\n" in received


@by_both_ways
async def test_a_transport_can_ignore_the_proxies_of_the_environment(op: str, monkeypatch) -> None:
    async with raw_service(raw.answers) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:word@127.0.0.1:{proxy.port}")
        for trust_env in (False, True):
            transport = DirectTransport(trust_env=trust_env)
            with suppress(ConnectError):
                await swallowed(transport, create(URL("http://service.invalid/x"), op=op))
            await transport.aclose()

    assert len(proxy.connections) == 1
    assert proxy.received[0].startswith(b"POST http://service.invalid/x ")


@pytest.mark.filterwarnings("ignore:base_url 'http")
def test_plain_http_through_a_proxy_is_warned_about_once(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://p:1")
    with pytest.warns(UserWarning, match="may repeat a create") as caught:
        Client("key", base_url="http://service.test/openapi/v1")
    assert len([warning for warning in caught if "proxy" in str(warning.message)]) == 1
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("status", [400, 403, 407, 502, 503])
async def test_a_refused_connect_proves_that_nothing_was_sent(status, monkeypatch):
    async def refuse(connection: raw.Connection) -> None:
        await connection.request()
        await connection.answer(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)

    async with raw_service(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.port}")
        async with Client("key", base_url=SERVICE, clock=VirtualClock(), journal="memory:") as client:
            with pytest.raises(NotSentError, match="the proxy on the way to") as caught:
                await client.videos.create(model="m", prompt="p", validate=False, order_id="o-1")
            order = await client.orders.get("o-1")
    assert (order.state, order.attempts) == ("queued", ())
    assert str(status) in str(caught.value)
    assert {request.split(b" ")[0] for request in proxy.received} == {b"CONNECT"}
    assert not any(b"uthorization" in request for request in proxy.received)


@pytest.mark.parametrize("is_through_proxy", [False, True])
async def test_the_text_of_an_expected_error_is_a_note(is_through_proxy):
    dead = f"http://127.0.0.1:{raw.dead_port()}"
    transport = DirectTransport(proxy=dead if is_through_proxy else None)
    with pytest.raises(ConnectError) as caught:
        await swallowed(transport, create(URL(SERVICE if is_through_proxy else dead)))
    await transport.aclose()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    (note,) = caught.value.__notes__
    assert re.match(r"\(cause: Client(Proxy)?Connect(ion|or)Error: Cannot connect to host", note)


@by_both_ways
@pytest.mark.parametrize(
    ("handler", "host", "named"),
    [
        (None, "127.0.0.1", "the proxy 127.0.0.1:{port} on the way to api.service.test:443 refused"),
        (None, "no-such-proxy.invalid", "the name no-such-proxy.invalid of the proxy was not resolved"),
        (raw.responds(b"HTTP/1.1 200 OK\r\n\r\nno TLS"), "127.0.0.1", "connection to api.service.test:443 failed"),
        (raw.responds(b"HTTP/1.1 407 No\r\n\r\n"), "127.0.0.1", "refused (407 No)"),
        (raw.closes_at_once, "127.0.0.1", "api.service.test:443"),
    ],
    ids=["refused", "not resolved", "no TLS", "407", "closed"],
)
async def test_a_failure_of_a_proxy_names_its_host_and_nothing_shows_its_password(op, handler, host, named):
    async with raw_service(handler or raw.answers) as proxy:
        port = proxy.port if handler else raw.dead_port()
        transport = DirectTransport(proxy=f"http://user:pass-secret@{host}:{port}")
        with pytest.raises(TransportError) as caught:
            await swallowed(transport, create(URL(f"{SERVICE}/x"), op=op))
        await transport.aclose()
    assert named.format(port=port) in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in f"{error} {error!r} {error.args!r} {vars(error)}"
        error = error.__cause__ or error.__context__

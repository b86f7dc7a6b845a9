"""Settings of the direct transport that cannot be used are errors that name them, and no request leaves."""

import pytest
from yarl import URL

from vidgen_async.errors import ConfigurationError, TransportError
from vidgen_async.transports import DirectTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase, Probe, Request, Timeouts

BAD = {
    "a bracket in the password": "http://user:pa[ss-secret@127.0.0.1:9",
    "a bracket in the user name": "http://us]er:pass-secret@127.0.0.1:9",
    "a port that is no number": "http://user:pass-secret@127.0.0.1:port",
    "a port too large": "http://user:pass-secret@127.0.0.1:70000",
    "another scheme": "socks5://user:pass-secret@127.0.0.1:9",
    "no host": "http://",
}
BAD_PROXIES = pytest.mark.parametrize("proxy", BAD.values(), ids=BAD)


def request(method: str = "POST") -> Request:
    body = BytesBody(b"{}") if method == "POST" else None
    return Request(
        op="videos.create", method=method, url=URL("http://127.0.0.1:9/x"), body=body, timeouts=Timeouts(connect=5)
    )


@BAD_PROXIES
def test_a_proxy_that_cannot_be_used_is_an_error_when_the_transport_is_made(proxy):
    with pytest.raises(ConfigurationError, match="proxy") as caught:
        DirectTransport(proxy=proxy)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@BAD_PROXIES
@pytest.mark.parametrize("is_create", [True, False], ids=["create", "read"])
async def test_an_unusable_proxy_of_the_environment_proves_that_nothing_was_sent(monkeypatch, proxy, is_create):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    probe = Probe() if is_create else None
    transport = DirectTransport(trust_env=True)
    try:
        with pytest.raises(TransportError, match="HTTP_PROXY") as caught:
            await transport.send(request("POST" if is_create else "GET"), probe=probe)
    finally:
        await transport.aclose()
    assert (caught.value.delivery, caught.value.phase) == (Delivery.NOT_SENT, Phase.BUILD)
    assert probe is None or probe.is_proven_not_sent
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

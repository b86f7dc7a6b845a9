"""Which connections, headers, cookies, credentials and proxies a request uses."""

import asyncio
import traceback
from pathlib import Path

import aiohttp
import pytest

from tests.transports import raw_service as raw
from tests.transports.raw_service import Certificate, raw_service
from tests.transports.sending import PROMPT, SHORT_CONNECT, create, read, swallowed, until
from vidgen_async.errors import ConnectError, TransportClosedError, TransportError
from vidgen_async.transports.contract.harness import by_both_ways
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import BytesBody, Delivery

KEY = {"Authorization": "Bearer the-key"}


def headers_of(data: bytes) -> list[str]:
    return data.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]


def values(data: bytes, name: str) -> list[str]:
    return [line.partition(": ")[2] for line in headers_of(data) if line.lower().startswith(name.lower() + ":")]


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A netrc file that has an entry for every host."""
    path = tmp_path / "netrc"
    path.write_text("default login somebody password else\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))


@pytest.fixture(params=["own", "given"])
async def transport(request: pytest.FixtureRequest):
    session = aiohttp.ClientSession() if request.param == "given" else None
    transport = DirectTransport(session)
    yield transport
    await transport.aclose()
    if session is not None:
        assert not session.closed
        await session.close()


# -- headers -----------------------------------------------------------------------------------------------------------


async def test_headers_are_sent_unchanged(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        asked = read(
            service.url("/a%2Fb?sig=x%2By+z&exp=1"), **KEY, Accept="application/json", X_Twice="1", Cookie="a=b"
        )
        await swallowed(transport, asked)

    (data,) = service.received
    assert data.startswith(b"GET /a%2Fb?sig=x%2By+z&exp=1 HTTP/1.1\r\n")
    assert {name: values(data, name) for name in ("Authorization", "Accept", "X-Twice", "Cookie", "Content-Type")} == {
        "Authorization": ["Bearer the-key"],
        "Accept": ["application/json"],
        "X-Twice": ["1"],
        "Cookie": ["a=b"],
        "Content-Type": [],
    }


@by_both_ways
async def test_the_content_type_is_that_of_the_body_unless_a_header_sets_it(op: str) -> None:
    own, said = BytesBody(PROMPT, "text/x-prompt"), {"Content-Type": "text/mine"}
    transport = DirectTransport()
    async with raw_service(raw.responds(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")) as service:
        await swallowed(transport, create(service.url(), op=op, body=own))
        await swallowed(transport, create(service.url(), op=op, body=own, **said))
        await transport.aclose()

    assert [values(data, "Content-Type") for data in service.received] == [["text/x-prompt"], ["text/mine"]]
    assert [values(data, "Content-Length") for data in service.received] == [[str(len(PROMPT))]] * 2


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"Accept": "application/json"}, 1), ({"Accept": "*/*"}, 0), ({}, 0), ({"Accept_Encoding": "identity"}, 1)],
)
async def test_only_json_is_requested_with_compression(transport: DirectTransport, headers, expected: int) -> None:
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url(), **headers))
    assert len(values(service.received[0], "Accept-Encoding")) == expected


async def test_only_the_connections_of_a_given_session_are_used() -> None:
    async def spoils(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        request.headers["X-Middleware"] = "yes"
        return await handler(request)

    async with (
        raw_service(raw.responds(b"HTTP/1.1 500 Oh\r\nSet-Cookie: s=1\r\nConnection: close\r\n\r\nno")) as service,
        aiohttp.ClientSession(
            base_url="http://elsewhere.test/v1/",
            headers={"X-Default": "1", "Authorization": "Bearer another", "Content-Type": "text/odd"},
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            cookies={"session": "mine"},
            raise_for_status=True,
            timeout=aiohttp.ClientTimeout(total=0.001),
            middlewares=(spoils,),
            auto_decompress=False,
        ) as session,
    ):
        transport = DirectTransport(session)
        for _ in range(2):
            response = await transport.send(read(service.url(), **KEY))
            assert (response.status, await response.read()) == (500, b"no")
        async with await transport.send(create(service.url(), op="files.upload")) as response:
            assert response.status == 500
        await transport.aclose()
        assert not session.closed

    for data in service.received[:2]:
        names = {line.partition(":")[0] for line in headers_of(data)}
        assert names == {"Host", "Accept", "User-Agent", "Authorization"}
        assert values(data, "Authorization") == ["Bearer the-key"]
    assert values(service.received[2], "Authorization") == []
    assert values(service.received[2], "Content-Type") == ["application/json"]
    assert service.received[2].endswith(PROMPT)


async def test_a_given_session_is_not_used_for_creates() -> None:
    async with raw_service(raw.answers) as service, aiohttp.ClientSession(headers={"X-Default": "1"}) as session:
        transport = DirectTransport(session)
        await swallowed(transport, read(service.url()))
        await swallowed(transport, create(service.url()))
        await transport.aclose()

    assert len(service.connections) == 2
    assert values(service.received[1], "X-Default") == []


async def test_a_given_session_that_was_closed_is_a_closed_transport() -> None:
    session = aiohttp.ClientSession()
    transport = DirectTransport(session)
    await session.close()
    with pytest.raises(TransportClosedError) as caught:
        await transport.send(read(raw.RawService(1).url()))
    assert caught.value.delivery is Delivery.NOT_SENT


async def test_a_read_whose_given_session_is_closed_while_it_waits_is_not_cancelled() -> None:
    async with raw_service(raw.hangs) as service:
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1))
        transport = DirectTransport(session)
        first = asyncio.create_task(swallowed(transport, read(service.url())))
        await until(lambda: service.bytes_received > 0)
        second = asyncio.create_task(swallowed(transport, read(service.url())))
        await asyncio.sleep(0.01)
        await session.close()
        ends = await asyncio.gather(first, second, return_exceptions=True)
        await transport.aclose()

    assert isinstance(ends[1], TransportClosedError)
    assert not isinstance(ends[0], asyncio.CancelledError)


# -- the environment ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("is_given", [False, True])
async def test_the_callers_authorization_is_the_only_one(is_given: bool) -> None:
    session = aiohttp.ClientSession(trust_env=True) if is_given else None
    transport = DirectTransport(session, trust_env=True)
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url(), **KEY))
        await swallowed(transport, read(service.url("/bare")))
        await swallowed(transport, create(service.url(), **KEY))
        await transport.aclose()
    if session is not None:
        await session.close()

    keyed, _, bare = service.received[0].partition(b"GET /bare")
    assert values(keyed, "Authorization") == values(service.received[1], "Authorization") == ["Bearer the-key"]
    assert b"uthorization" not in bare


# -- TLS ---------------------------------------------------------------------------------------------------------------


@by_both_ways
@pytest.mark.parametrize("how", ["context", "fingerprint", "unchecked"])
async def test_ssl_is_used_for_reads_and_creates(certificate: Certificate, how: str, op: str) -> None:
    ssl = {
        "context": certificate.client(),
        "fingerprint": aiohttp.Fingerprint(certificate.sha256),
        "unchecked": False,
    }[how]
    transport = DirectTransport(ssl=ssl)
    async with raw_service(raw.answers, tls=certificate.server()) as service:
        assert await swallowed(transport, create(service.url(), op=op)) == b"ok"
        await transport.aclose()


# -- errors ------------------------------------------------------------------------------------------------------------


async def test_a_cause_does_not_show_a_signed_link() -> None:
    transport = DirectTransport()
    with raw.full_port() as port:
        link = raw.RawService(port).url("/v.mp4?sig=SECRET-SIGNATURE")
        with pytest.raises(ConnectError) as caught:
            await transport.send(read(link, timeouts=SHORT_CONNECT))
    await transport.aclose()

    assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__notes__ == ["(cause: ConnectionTimeoutError)"]


async def test_requests_with_equal_headers_are_checked_one_by_one():
    async with raw_service(raw.answers) as service:
        transport = DirectTransport()
        for value in ("one", "two"):
            async with await transport.send(read(service.url(), **{"X-Mark": value})) as response:
                await response.read()
        with pytest.raises(TransportError, match="X-Mark"):
            await transport.send(read(service.url(), **{"X-Mark": "three\r\nfour"}))
        await transport.aclose()
    assert [values(data, "X-Mark") for data in b"".join(service.received).split(b"GET ")[1:]] == [["one"], ["two"]]

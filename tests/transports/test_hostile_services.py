"""Reads from a service that keeps to HTTP loosely or not at all: the same results without a session and with one."""

import asyncio

import pytest
from attrs import evolve

from tests.transports import raw_service as raw
from tests.transports.raw_service import OK, Certificate, Connection, raw_service
from tests.transports.sending import LONG, SHORT, read, swallowed, until
from vidgen_async.errors import (
    BodyError,
    ConnectionLostError,
    ProtocolError,
    ResponseTimeoutError,
    TransportError,
)
from vidgen_async.transports.direct.transport import DirectTransport

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("each_path")]

JSON = {"Accept": "application/json", "Authorization": "Bearer k"}
BIG = b"x" * (6 << 20)


def answering(*parts: bytes) -> raw.Behaviour:
    """Answers each request with these parts."""

    async def behaviour(connection: Connection) -> None:
        while True:
            await connection.request()
            for part in parts:
                await connection.answer(part)
                await asyncio.sleep(0)

    return behaviour


def head(*lines: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join((status, *lines, "", "")).encode()


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, certificate: Certificate) -> Certificate | None:
    return certificate if request.param == "https" else None


@pytest.fixture
async def transport(tls: Certificate | None):
    transport = DirectTransport(max_connections=3, ssl=tls.client() if tls else True)
    yield transport
    await transport.aclose()


def serve(behaviour: raw.Behaviour, tls: Certificate | None):
    return raw_service(behaviour, tls=tls and tls.server())


# -- responses that are read, and how many connections two of them take ------------------------------------------------

ACCEPTED = {
    "interim responses": (
        answering(head(status="HTTP/1.1 103 Early Hints") + head(status="HTTP/1.1 100 Continue") + OK),
        b"ok",
        1,
    ),
    "an interim response in a segment of its own": (answering(head(status="HTTP/1.1 103 Early Hints"), OK), b"ok", 1),
    "HTTP/1.0": (answering(head("Content-Length: 2", status="HTTP/1.0 200 OK") + b"ok"), b"ok", 2),
    "until the connection is closed": (raw.responds(head("Connection: close") + b"to the end"), b"to the end", 2),
    "until the connection is closed, without a header": (raw.responds(head() + b"to the end"), b"to the end", 2),
    "chunks with an extension and a trailer": (
        answering(head("Transfer-Encoding: chunked", "Trailer: X") + b"3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nX: 1\r\n\r\n"),
        b"abcde",
        1,
    ),
    "chunks in segments": (
        answering(head("Transfer-Encoding: chunked"), b"3\r\na", b"bc\r\n2\r", b"\nde\r\n0\r\n", b"\r\n"),
        b"abcde",
        1,
    ),
    "a line end after the response": (answering(OK + b"\r\n"), b"ok", 1),
    "a header of 60 kB": (answering(OK.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 60_000 + b"\r\n\r\n")), b"ok", 1),
}


@pytest.mark.parametrize(("behaviour", "body", "connections"), ACCEPTED.values(), ids=ACCEPTED)
async def test_it_is_read(transport: DirectTransport, tls, behaviour, body: bytes, connections: int) -> None:
    async with serve(behaviour, tls) as service:
        for _ in range(2):
            assert await swallowed(transport, read(service.url(), **JSON)) == body
        assert len(service.connections) == connections


# -- responses that are errors -----------------------------------------------------------------------------------------

REFUSED = {
    "no HTTP": (answering(b"SSH-2.0-x\r\n\r\n"), ProtocolError),
    "a header of 2 MB": (answering(head("X: " + "x" * 2_000_000)), ProtocolError),
    "a body that is cut": (raw.responds(head("Content-Length: 10") + b"abc"), BodyError),
    "chunks that are cut": (raw.responds(head("Transfer-Encoding: chunked") + b"5\r\nabc"), BodyError),
    "a head that is cut": (raw.responds(head("Content-Length: 10")[:-2]), ConnectionLostError),
    "nothing": (raw.reads_and_closes, ConnectionLostError),
    "a reset": (raw.reads_and_resets, ConnectionLostError),
}


@pytest.mark.parametrize(("behaviour", "kind"), REFUSED.values(), ids=REFUSED)
async def test_it_is_an_error_and_its_connection_is_closed(transport: DirectTransport, tls, behaviour, kind) -> None:
    async with serve(behaviour, tls) as service:
        for _ in range(2):
            with pytest.raises(kind) as caught:
                await swallowed(transport, read(service.url(), **JSON))
            assert type(caught.value) is kind
            assert not getattr(caught.value, "is_reused", False)
        assert len(service.connections) == 2


async def test_another_protocol_is_not_read_as_a_body(transport: DirectTransport, tls) -> None:
    switching = head("Upgrade: x", "Connection: upgrade", status="HTTP/1.1 101 Switching Protocols")
    async with serve(answering(switching + b"xx"), tls) as service:
        for _ in range(2):
            async with await transport.send(read(service.url())) as response:
                assert (response.status, await response.read()) == (101, b"")
        assert len(service.connections) == 2


# -- time limits -------------------------------------------------------------------------------------------------------


async def test_a_shorter_limit_holds_on_a_connection_that_had_a_longer_one(transport: DirectTransport, tls) -> None:
    async def once(connection: Connection) -> None:
        await connection.request()
        await connection.answer(OK)
        await connection.rest()

    async with serve(once, tls) as service:
        request = read(service.url(), timeouts=LONG)
        await swallowed(transport, request)
        with pytest.raises(ResponseTimeoutError):
            async with asyncio.timeout(LONG.read / 2):
                await swallowed(transport, evolve(request, timeouts=SHORT))
        assert len(service.connections) == 1


async def test_a_malformed_chunk_ends_with_the_read_timeout_at_the_latest(transport: DirectTransport, tls) -> None:
    async with serve(answering(head("Transfer-Encoding: chunked"), b"5\r\nabc", b"xyz\r\nno"), tls) as service:
        with pytest.raises((BodyError, ProtocolError)):
            await swallowed(transport, read(service.url(), timeouts=SHORT))
        await service.quiet()


# -- the pool ----------------------------------------------------------------------------------------------------------


async def test_cancelled_reads_take_no_connection_from_the_others(transport: DirectTransport, tls) -> None:
    may_answer = asyncio.Event()

    async def waits(connection: Connection) -> None:
        while True:
            await connection.request()
            await may_answer.wait()
            await connection.answer(OK)

    async with serve(waits, tls) as service:
        sends = [asyncio.create_task(swallowed(transport, read(service.url()))) for _ in range(50)]
        await until(lambda: service.requests_begun == 3)
        for sending in sends[::2]:
            sending.cancel()
        may_answer.set()
        ends = await asyncio.gather(*sends, return_exceptions=True)
        assert [isinstance(end, asyncio.CancelledError) for end in ends] == [True, False] * 25
        assert await swallowed(transport, read(service.url())) == b"ok"


async def test_a_connection_that_the_service_closed_while_idle_is_not_used(transport: DirectTransport, tls) -> None:
    async def once(connection: Connection) -> None:
        await connection.request()
        await connection.answer(OK)

    async with serve(once, tls) as service:
        for _ in range(2):
            assert await swallowed(transport, read(service.url())) == b"ok"
            await service.quiet()
        assert len(service.connections) == 2


@pytest.mark.parametrize(
    ("end", "kind", "is_reused"),
    [
        (b"", ConnectionLostError, True),
        (b"HTTP/1.1 200 OK\r\nX", ConnectionLostError, False),
        (b"no HTTP\r\n\r\n", ProtocolError, None),
    ],
    ids=["nothing", "part of a response", "no HTTP"],
)
async def test_a_connection_that_is_lost_at_its_second_request_is_reported_as_reused(
    transport, tls, end: bytes, kind: type[TransportError], is_reused: bool | None
) -> None:
    async def once(connection: Connection) -> None:
        await connection.request()
        await connection.answer(OK)
        await connection.request()
        await connection.answer(end)

    async with serve(once, tls) as service:
        request = read(service.url())
        assert await swallowed(transport, request) == b"ok"
        with pytest.raises(kind) as caught:
            await swallowed(transport, request)
        assert getattr(caught.value, "is_reused", None) is is_reused
        assert len(service.connections) == 1
        assert await swallowed(transport, evolve(request, needs_new_connection=True)) == b"ok"


# -- bodies ------------------------------------------------------------------------------------------------------------


async def test_what_is_not_read_is_not_received(transport: DirectTransport, tls) -> None:
    async with (
        serve(answering(head(f"Content-Length: {len(BIG)}") + BIG), tls) as service,
        await transport.send(read(service.url())) as response,
    ):
        await asyncio.sleep(0.05)
        assert response._answer.content._size < 2 << 20
        assert sum([len(piece) async for piece in response.chunks()]) == len(BIG)


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [JSON, {}, {"X_Twice": "1", "Host": "elsewhere.test"}, {"Accept": "*/*"}])
async def test_the_request_has_the_bytes_that_aiohttp_sends(transport: DirectTransport, headers, monkeypatch) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url("/a%20b?x=1&y=%2F&z=ä"), **headers)
        await swallowed(transport, request)
        monkeypatch.setattr(DirectTransport, "_plain_reads_of", lambda *_: None)
        await swallowed(transport, request)
    (received,) = service.received
    first, second = received[: len(received) // 2], received[len(received) // 2 :]
    assert first == second

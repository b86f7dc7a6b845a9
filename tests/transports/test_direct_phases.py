"""The phase table: for every way in which a create can go wrong, what is known of it, and what the service really got.

``nothing``, ``something`` and ``everything`` are what reached the service of the *request*, in bytes counted there.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from attrs import field, frozen
from yarl import URL

from tests.transports import raw_service as raw
from tests.transports.raw_service import Certificate, RawService, raw_service
from tests.transports.sending import LONG, PROMPT, SHORT, SHORT_CONNECT, FailingBody, create, read, swallowed, until
from vidgen_async.errors import (
    BodyError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    ResponseTimeoutError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase, Probe, Timeouts

NOT_SENT, MAYBE_SENT, ANSWERED = Delivery
BUILD, POOL, DNS, CONNECT, SEND, WAIT, BODY = Phase

Resolver = Callable[..., Awaitable[object]]


async def no_such_host(*args: object, **options: object) -> object:
    raise OSError(-2, "Name or service not known")


async def no_answer(*args: object, **options: object) -> object:
    await asyncio.Event().wait()


async def cancelled(task: asyncio.Task[bytes], transport: DirectTransport) -> None:
    task.cancel()


async def closed(task: asyncio.Task[bytes], transport: DirectTransport) -> None:
    await transport.aclose()


@frozen(kw_only=True)
class Row:
    name: str
    service: raw.Behaviour | None = None
    url: str = ""
    """With {port} for the service, {dead} for a port that refuses, {full} for one that never accepts."""
    tls: str = ""
    """"trusted" (the service speaks TLS and is trusted), "unknown" certificate, "client" (it wants one of ours)."""
    ssl: object = None
    proxy: str = ""
    resolver: Resolver | None = None
    method: str = "POST"
    body: object = BytesBody(PROMPT)
    headers: dict[str, str] = field(factory=dict)
    timeouts: Timeouts = LONG
    interrupt: tuple[Phase, Callable[[asyncio.Task[bytes], DirectTransport], Awaitable[None]]] | None = None

    raises: type[BaseException]
    delivery: Delivery
    phase: Phase
    received: str = "nothing"
    requests: int = 0
    message: str = ""


SENT = {"delivery": MAYBE_SENT, "phase": WAIT, "received": "everything", "requests": 1}
UNSENT = {"delivery": NOT_SENT, "phase": CONNECT, "raises": ConnectError}
LOST = {"raises": ConnectionLostError, **SENT}
HTTP, HTTPS = "http://127.0.0.1:{port}/x", "https://127.0.0.1:{port}/x"
DEAD, FULL = "http://127.0.0.1:{dead}/x", "http://127.0.0.1:{full}/x"
NAMED, THROUGH = "http://service.test/x", "https://service.test/x"
PROXY, DEAD_PROXY = "http://user:pa55word@127.0.0.1:{port}", "http://127.0.0.1:{dead}"

ROWS = [
    # 1-3, 11: before the network
    *[
        Row(
            name=name,
            url=url,
            raises=TransportError,
            delivery=NOT_SENT,
            phase=BUILD,
            message="no byte of the request was sent",
        )
        for name, url in {
            "a URL without a host": "http:///x",
            "a URL that is not HTTP": "ftp://h/",
            "a URL with a password": "http://me:secret@h/",
            "a URL with a blank": "http://h/x y",
        }.items()
    ],
    *[
        Row(name=name, service=raw.hangs, url=HTTP, raises=TransportError, delivery=NOT_SENT, phase=BUILD, **facts)
        for name, facts in {
            "a control character in a header": {"headers": {"X-A": "a\nb"}},
            "a lone surrogate in a header": {"headers": {"X-A": "\ud800"}},
            "a blank in a header name": {"headers": {"X A": "a"}},
            "a blank in the method": {"method": "PO ST"},
            "a small body that cannot be read": {"body": FailingBody(0, length=10), "message": "its body"},
        }.items()
    ],
    # 5: name look-up
    Row(name="no such name", url=NAMED, resolver=no_such_host, **UNSENT | {"phase": DNS}, message="was not resolved"),
    Row(
        name="look-up hangs",
        timeouts=SHORT_CONNECT,
        url=NAMED,
        resolver=no_answer,
        **UNSENT | {"phase": DNS},
        message="within 0.08 s",
    ),
    Row(
        name="look-up hangs, cancelled",
        url=NAMED,
        resolver=no_answer,
        interrupt=(DNS, cancelled),
        **UNSENT | {"phase": DNS, "raises": asyncio.CancelledError},
    ),
    Row(
        name="look-up hangs, transport closed",
        url=NAMED,
        resolver=no_answer,
        interrupt=(DNS, closed),
        **UNSENT | {"phase": DNS, "raises": TransportClosedError},
    ),
    # 6: connection
    Row(name="refused", url=DEAD, **UNSENT, message="refused; no byte of the request was sent"),
    Row(name="connecting hangs", timeouts=SHORT_CONNECT, url=FULL, **UNSENT, message="no connection to 127.0.0.1"),
    Row(
        name="connecting hangs, cancelled",
        url=FULL,
        interrupt=(CONNECT, cancelled),
        **UNSENT | {"raises": asyncio.CancelledError},
    ),
    Row(
        name="connecting hangs, transport closed",
        url=FULL,
        interrupt=(CONNECT, closed),
        **UNSENT | {"raises": TransportClosedError},
    ),
    # 7: TLS
    Row(name="TLS to a port that speaks none", service=raw.speaks_no_tls, url=HTTPS, **UNSENT),
    Row(
        name="unknown certificate", service=raw.answers, url=HTTPS, tls="unknown", **UNSENT, message="was not accepted"
    ),
    Row(
        name="another fingerprint",
        service=raw.answers,
        url=HTTPS,
        tls="trusted",
        ssl=aiohttp.Fingerprint(b"\0" * 32),
        **UNSENT,
        message="another fingerprint",
    ),
    Row(name="reset in the handshake", service=raw.resets_in_the_handshake, url=HTTPS, ssl=False, **UNSENT),
    Row(
        name="handshake hangs",
        timeouts=SHORT_CONNECT,
        service=raw.hangs,
        url=HTTPS,
        ssl=False,
        **UNSENT,
        message="within 0.08 s",
    ),
    Row(
        name="handshake hangs, cancelled",
        service=raw.hangs,
        url=HTTPS,
        ssl=False,
        interrupt=(CONNECT, cancelled),
        **UNSENT | {"raises": asyncio.CancelledError},
    ),
    # 8: proxy
    Row(name="proxy refuses connections", url=NAMED, proxy=DEAD_PROXY, **UNSENT, message="on the way to service.test"),
    Row(name="proxy refuses connections (https)", url=THROUGH, proxy=DEAD_PROXY, **UNSENT),
    Row(
        name="proxy answers CONNECT with 407",
        service=raw.responds(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"),
        url=THROUGH,
        proxy=PROXY,
        **UNSENT,
        message="refused (407 No)",
    ),
    Row(name="proxy drops CONNECT", service=raw.reads_and_closes, url=THROUGH, proxy=PROXY, **UNSENT),
    Row(name="proxy sends no HTTP", service=raw.responds(b"NO\r\n\r\n"), url=THROUGH, proxy=PROXY, **UNSENT),
    Row(
        name="proxy does not answer CONNECT",
        timeouts=SHORT_CONNECT,
        service=raw.hangs,
        url=THROUGH,
        proxy=PROXY,
        **UNSENT,
    ),
    Row(name="proxy drops a plain request", service=raw.reads_and_closes, url=NAMED, proxy=PROXY, **LOST),
    # 12-14: the request goes out
    Row(name="closed as soon as accepted", service=raw.closes_at_once, url=HTTP, **LOST | {"received": "anything"}),
    Row(
        name="a large body that breaks at once",
        service=raw.hangs,
        url=HTTP,
        body=FailingBody(0),
        **SENT | {"raises": TransportError, "phase": SEND, "received": "nothing", "requests": 0},
        message="the file is gone",
    ),
    Row(
        name="a large body that breaks half-way",
        service=raw.hangs,
        url=HTTP,
        body=FailingBody(3),
        **SENT | {"raises": TransportError, "phase": SEND, "received": "something"},
        message="the file is gone",
    ),
    Row(
        name="a large body that the service does not read",
        timeouts=SHORT,
        service=raw.reads_nothing,
        url=HTTP,
        body=BytesBody(b"x" * 30_000_000),
        **SENT | {"raises": ResponseTimeoutError, "phase": SEND, "received": "anything", "requests": 0},
        message="read no more",
    ),
    Row(
        name="cancelled in a large body that the service does not read",
        service=raw.reads_nothing,
        url=HTTP,
        interrupt=(SEND, cancelled),
        body=BytesBody(b"x" * 30_000_000),
        delivery=MAYBE_SENT,
        phase=SEND,
        raises=asyncio.CancelledError,
        received="anything",
    ),
    # 16, 18, 19: no answer
    Row(name="read and closed", service=raw.reads_and_closes, url=HTTP, **LOST, message="may have received"),
    Row(name="read and reset", service=raw.reads_and_resets, url=HTTP, **LOST),
    *[
        Row(name=f"read and closed, {method}", service=raw.reads_and_closes, url=HTTP, method=method, body=body, **LOST)
        for method, body in {"GET": None, "PUT": BytesBody(PROMPT), "DELETE": None, "HEAD": None}.items()
    ],
    Row(name="read and reset, DELETE", service=raw.reads_and_resets, url=HTTP, method="DELETE", body=None, **LOST),
    Row(
        name="TLS 1.3, client certificate missing",
        service=raw.answers,
        url=HTTPS,
        tls="client",
        **LOST | {"received": "nothing", "requests": 0},
    ),
    Row(
        name="silence",
        timeouts=SHORT,
        service=raw.hangs,
        url=HTTP,
        **SENT | {"raises": ResponseTimeoutError},
        message="within 0.08 s",
    ),
    Row(
        name="silence over TLS",
        timeouts=SHORT,
        service=raw.hangs,
        url=HTTPS,
        tls="trusted",
        **SENT | {"raises": ResponseTimeoutError},
    ),
    Row(
        name="silence, cancelled",
        service=raw.hangs,
        url=HTTP,
        interrupt=(WAIT, cancelled),
        **SENT | {"raises": asyncio.CancelledError},
    ),
    Row(
        name="silence, transport closed",
        service=raw.hangs,
        url=HTTP,
        interrupt=(WAIT, closed),
        **SENT | {"raises": TransportClosedError},
    ),
    # 21: not HTTP
    Row(name="not HTTP", service=raw.responds(b"NOT HTTP\r\n\r\n"), url=HTTP, **SENT | {"raises": ProtocolError}),
    Row(
        name="garbled header",
        service=raw.responds(b"HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
        url=HTTP,
        **SENT | {"raises": ProtocolError},
    ),
    Row(
        name="garbled first chunk",
        url=HTTP,
        **SENT | {"raises": ProtocolError},
        service=raw.responds(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nab"),
    ),
    Row(name="half a status line", service=raw.responds(b"HTTP/1.1 20"), url=HTTP, **LOST),
    # 22: the body of the answer
    *[
        Row(
            name=name,
            service=service,
            url=HTTP,
            timeouts=SHORT,
            raises=BodyError,
            **SENT | {"delivery": ANSWERED, "phase": BODY},
        )
        for name, service in {
            "cut body": raw.responds(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab"),
            "cut chunked body": raw.responds(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
            "garbled gzip": raw.responds(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"),
            "body times out": raw.responds_and_hangs(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab"),
        }.items()
    ],
]


@asynccontextmanager
async def staged(row: Row, certificate: Certificate) -> AsyncIterator[tuple[DirectTransport, URL, RawService | None]]:
    async with _service(row, certificate) as service:
        with raw.full_port() as full:
            ports = {"port": service.port if service else 0, "dead": raw.dead_port(), "full": full}
            ssl = row.ssl if row.ssl is not None else True if row.tls == "unknown" else certificate.client()
            transport = DirectTransport(ssl=ssl, proxy=row.proxy.format(**ports) or None)
            try:
                yield transport, URL(row.url.format(**ports), encoded=True), service
            finally:
                await transport.aclose()


@asynccontextmanager
async def _service(row: Row, certificate: Certificate) -> AsyncIterator[RawService | None]:
    if row.service is None:
        yield None
        return
    tls = certificate.server(asks_for_client=row.tls == "client") if row.tls else None
    async with raw_service(row.service, tls=tls) as service:
        yield service


def request_bytes(service: RawService | None) -> bytes:
    """What was received of the request itself, without the TLS handshake and the CONNECT to a proxy."""
    data = b"".join(service.received) if service else b""
    return b"" if data.startswith((b"\x16\x03", b"CONNECT ")) else data


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
async def test_what_is_known_of_a_create_that_failed(row: Row, certificate: Certificate, monkeypatch) -> None:
    if row.resolver is not None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", row.resolver)
    probe = Probe()
    async with staged(row, certificate) as (transport, url, service):
        request = create(url, method=row.method, body=row.body, timeouts=row.timeouts, **row.headers)
        sending = asyncio.create_task(swallowed(transport, request, probe))
        if row.interrupt is not None:
            phase, interrupt = row.interrupt
            await until(lambda: probe.phase is phase)
            await interrupt(sending, transport)
        with pytest.raises(row.raises) as caught:
            await sending
        if service is not None and row.service is not raw.reads_nothing:
            await service.quiet()

    assert type(caught.value) is row.raises
    assert (probe.delivery, probe.phase) == (row.delivery, row.phase)
    if isinstance(caught.value, TransportError):
        assert (caught.value.delivery, caught.value.phase, caught.value.op) == (
            row.delivery,
            row.phase,
            "videos.create",
        )
        assert row.message in str(caught.value)
        assert "pa55word" not in "".join(traceback.format_exception(caught.value))
    data = request_bytes(service)
    match row.received:
        case "nothing":
            assert data == b""
        case "something":
            assert data
        case "everything":
            assert data.endswith(PROMPT if row.body else b"\r\n\r\n")
    if service is not None and row.received != "anything":
        assert data.count(b" HTTP/1.1\r\n") == row.requests


async def test_a_delete_that_was_received_is_maybe_sent_although_a_retry_would_be_refused() -> None:
    async def reads_and_is_gone(connection: raw.Connection) -> None:
        await connection.request()
        service.stop_listening()

    probe = Probe()
    transport = DirectTransport()
    async with raw_service(reads_and_is_gone) as service:
        with pytest.raises(ConnectionLostError):
            await transport.send(create(service.url(), method="DELETE", body=None), probe=probe)
        await transport.aclose()

    assert probe.delivery is MAYBE_SENT
    assert service.requests_begun == 1


async def test_a_connection_that_is_lost_while_the_gate_waits_is_maybe_sent() -> None:
    async def gate() -> None:
        await until(lambda: bool(service.connections))
        await service.quiet()
        await asyncio.sleep(0.02)

    probe = Probe(gate=gate)
    transport = DirectTransport()
    async with raw_service(raw.closes_at_once) as service:
        with pytest.raises(ConnectionLostError):
            await transport.send(create(service.url()), probe=probe)
        await transport.aclose()

    assert (probe.delivery, service.bytes_received) == (MAYBE_SENT, 0)


async def test_a_read_that_times_out_in_the_pool_is_a_connect_error() -> None:
    transport = DirectTransport(max_connections=1)
    async with raw_service(raw.hangs) as service:
        first = asyncio.create_task(swallowed(transport, read(service.url())))
        await until(lambda: service.bytes_received > 0)
        with pytest.raises(ConnectError, match="no connection to") as caught:
            await transport.send(read(service.url(), timeouts=SHORT_CONNECT))
        await transport.aclose()
        with pytest.raises(TransportClosedError):
            await first

    assert caught.value.delivery is MAYBE_SENT
    assert service.requests_begun == 1


@pytest.mark.slow
async def test_many_creates_at_once_do_not_wait_for_each_other() -> None:
    transport = DirectTransport(max_connections=1)
    async with raw_service(raw.hangs) as service:
        probes = [Probe() for _ in range(120)]
        sending = [asyncio.create_task(transport.send(create(service.url()), probe=probe)) for probe in probes]
        await until(lambda: service.requests_begun == 120)
        await transport.aclose()
        ends = await asyncio.gather(*sending, return_exceptions=True)

    assert {type(end) for end in ends} == {TransportClosedError}
    assert {probe.delivery for probe in probes} == {MAYBE_SENT}

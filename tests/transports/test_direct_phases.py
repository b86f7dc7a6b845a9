"""The phase table: for every way in which a create can go wrong, what is known of it, and what the service really got.

``nothing``, ``something`` and ``everything`` are what reached the service of the *request*, in bytes counted there.
What is *not sent* was raised by ``connect``; all else by ``connection.send()``, or by reading the response.
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
from vidgen_async.types.http import BytesBody, Delivery, Phase, Request, Timeouts

NOT_SENT, MAYBE_SENT, ANSWERED = Delivery
BUILD, POOL, DNS, CONNECT, SEND, WAIT, BODY = Phase

Interrupt = Callable[[asyncio.Task[None], DirectTransport], Awaitable[None]]


async def no_such_host(*args: object, **options: object) -> object:
    raise OSError(-2, "Name or service not known")


async def no_answer(*args: object, **options: object) -> object:
    await asyncio.Event().wait()


async def cancelled(task: asyncio.Task[None], transport: DirectTransport) -> None:
    task.cancel()


async def closed(task: asyncio.Task[None], transport: DirectTransport) -> None:
    await transport.aclose()


@frozen
class End:
    """How a create ends."""

    raises: type[BaseException]
    delivery: Delivery
    phase: Phase
    received: str = "nothing"
    requests: int = 0


@frozen
class Row:
    name: str
    end: End
    message: str = ""
    url: str = "http://127.0.0.1:{port}/x"
    """With {port} for the service, {dead} for a port that refuses, {full} for one that never accepts."""
    service: raw.Behaviour | None = None
    tls: str = ""
    """"trusted" (the service speaks TLS and is trusted), "unknown" certificate, "client" (it wants one of ours)."""
    ssl: object = None
    proxy: str = ""
    resolver: Callable[..., Awaitable[object]] | None = None
    method: str = "POST"
    body: object = BytesBody(PROMPT)
    headers: dict[str, str] = field(factory=dict)
    timeouts: Timeouts = LONG
    interrupt: tuple[Phase, Interrupt] | None = None


INVALID = End(TransportError, NOT_SENT, BUILD)
UNRESOLVED, UNCONNECTED = End(ConnectError, NOT_SENT, DNS), End(ConnectError, NOT_SENT, CONNECT)
BROKEN, BROKEN_LATER = (End(TransportError, MAYBE_SENT, SEND, *more) for more in ((), ("something", 1)))
UNREAD = End(ResponseTimeoutError, MAYBE_SENT, SEND, "anything")
UNANSWERED = End(ConnectionLostError, MAYBE_SENT, WAIT)
LOST = End(ConnectionLostError, MAYBE_SENT, WAIT, "everything", 1)
TIMED_OUT = End(ResponseTimeoutError, MAYBE_SENT, WAIT, "everything", 1)
NO_HTTP = End(ProtocolError, MAYBE_SENT, WAIT, "everything", 1)
CUT = End(BodyError, ANSWERED, BODY, "everything", 1)
HTTPS = "https://127.0.0.1:{port}/x"
DEAD, FULL = "http://127.0.0.1:{dead}/x", "http://127.0.0.1:{full}/x"
NAMED, THROUGH = "http://service.test/x", "https://service.test/x"
PROXY, DEAD_PROXY = "http://user:pa55word@127.0.0.1:{port}", "http://127.0.0.1:{dead}"
OK, LENGTH = b"HTTP/1.1 200 OK\r\n", b"Content-Length: 100\r\n\r\n"
PINNED = aiohttp.Fingerprint(bytes(32))
LARGE = BytesBody(b"x" * 30_000_000)
refuses = raw.responds(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")


def interrupted(end: End, interrupt: Interrupt) -> dict[str, object]:
    """The same end, interrupted in its phase."""
    kind = TransportClosedError if interrupt is closed else asyncio.CancelledError
    return {"end": End(kind, end.delivery, end.phase, end.received, end.requests), "interrupt": (end.phase, interrupt)}


ROWS = [
    # before the network
    Row("a URL without a host", INVALID, "no byte of the request was sent", "http:///x"),
    Row("a URL that is not HTTP", INVALID, "no byte of the request was sent", "ftp://h/"),
    Row("a URL with a password", INVALID, "no byte of the request was sent", "http://me:secret@h/"),
    Row("a URL with a blank", INVALID, "no byte of the request was sent", "http://h/x y"),
    Row("a control character in a header", INVALID, service=raw.hangs, headers={"X-A": "a\nb"}),
    Row("a lone surrogate in a header", INVALID, service=raw.hangs, headers={"X-A": "\ud800"}),
    Row("a blank in a header name", INVALID, service=raw.hangs, headers={"X A": "a"}),
    Row("a blank in the method", INVALID, service=raw.hangs, method="PO ST"),
    Row("a small body that cannot be read", INVALID, "its body", service=raw.hangs, body=FailingBody(0, length=10)),
    # name look-up
    Row("no such name", UNRESOLVED, "was not resolved", NAMED, resolver=no_such_host),
    Row("look-up hangs", UNRESOLVED, "within 0.08 s", NAMED, resolver=no_answer, timeouts=SHORT_CONNECT),
    Row("look-up hangs, cancelled", **interrupted(UNRESOLVED, cancelled), url=NAMED, resolver=no_answer),
    Row("look-up hangs, transport closed", **interrupted(UNRESOLVED, closed), url=NAMED, resolver=no_answer),
    # connection
    Row("refused", UNCONNECTED, "refused; no byte of the request was sent", DEAD),
    Row("connecting hangs", UNCONNECTED, "no connection to 127.0.0.1", FULL, timeouts=SHORT_CONNECT),
    Row("connecting hangs, cancelled", **interrupted(UNCONNECTED, cancelled), url=FULL),
    Row("connecting hangs, transport closed", **interrupted(UNCONNECTED, closed), url=FULL),
    # TLS
    Row("TLS to a port that speaks none", UNCONNECTED, "", HTTPS, raw.speaks_no_tls),
    Row("unknown certificate", UNCONNECTED, "was not accepted", HTTPS, raw.answers, tls="unknown"),
    Row("another fingerprint", UNCONNECTED, "another fingerprint", HTTPS, raw.answers, tls="trusted", ssl=PINNED),
    Row("reset in the handshake", UNCONNECTED, "", HTTPS, raw.resets_in_the_handshake, ssl=False),
    Row("handshake hangs", UNCONNECTED, "within 0.08 s", HTTPS, raw.hangs, ssl=False, timeouts=SHORT_CONNECT),
    Row("handshake hangs, cancelled", **interrupted(UNCONNECTED, cancelled), url=HTTPS, service=raw.hangs, ssl=False),
    # proxy
    Row("proxy refuses connections", UNCONNECTED, "on the way to service.test", NAMED, proxy=DEAD_PROXY),
    Row("proxy refuses connections (https)", UNCONNECTED, "", THROUGH, proxy=DEAD_PROXY),
    Row("proxy answers CONNECT with 407", UNCONNECTED, "refused (407 No)", THROUGH, refuses, proxy=PROXY),
    Row("proxy drops CONNECT", UNCONNECTED, "", THROUGH, raw.reads_and_closes, proxy=PROXY),
    Row("proxy sends no HTTP", UNCONNECTED, "", THROUGH, raw.responds(b"NO\r\n\r\n"), proxy=PROXY),
    Row("proxy does not answer CONNECT", UNCONNECTED, "", THROUGH, raw.hangs, proxy=PROXY, timeouts=SHORT_CONNECT),
    Row("proxy drops a plain request", LOST, "", NAMED, raw.reads_and_closes, proxy=PROXY),
    # the request is being sent
    Row("a large body that breaks at once", BROKEN, "the file is gone", service=raw.hangs, body=FailingBody(0)),
    Row("a large body that breaks half-way", BROKEN_LATER, "the file is gone", service=raw.hangs, body=FailingBody(3)),
    Row("a large body that is not read", UNREAD, "read no more", timeouts=SHORT, service=raw.reads_nothing, body=LARGE),
    Row("the same, cancelled", **interrupted(UNREAD, cancelled), service=raw.reads_nothing, body=LARGE),
    # no response
    Row("read and closed", LOST, "may have received", service=raw.reads_and_closes),
    Row("read and reset", LOST, service=raw.reads_and_resets),
    Row("a large body, read and closed", LOST, service=raw.reads_and_closes, body=BytesBody(bytes(100_000) + PROMPT)),
    Row("read and closed, PUT", LOST, service=raw.reads_and_closes, method="PUT"),
    Row("read and closed, GET", LOST, service=raw.reads_and_closes, method="GET", body=None),
    Row("read and closed, DELETE", LOST, service=raw.reads_and_closes, method="DELETE", body=None),
    Row("read and closed, HEAD", LOST, service=raw.reads_and_closes, method="HEAD", body=None),
    Row("read and reset, DELETE", LOST, service=raw.reads_and_resets, method="DELETE", body=None),
    Row("TLS 1.3, client certificate missing", UNANSWERED, "", HTTPS, raw.answers, tls="client"),
    Row("silence", TIMED_OUT, "within 0.08 s", service=raw.hangs, timeouts=SHORT),
    Row("silence over TLS", TIMED_OUT, "", HTTPS, raw.hangs, tls="trusted", timeouts=SHORT),
    Row("silence, cancelled", **interrupted(TIMED_OUT, cancelled), service=raw.hangs),
    Row("silence, transport closed", **interrupted(TIMED_OUT, closed), service=raw.hangs),
    # not HTTP
    Row("not HTTP", NO_HTTP, service=raw.responds(b"NOT HTTP\r\n\r\n")),
    Row("garbled header", NO_HTTP, service=raw.responds(OK + b": x\r\n\r\n")),
    Row("garbled first chunk", NO_HTTP, service=raw.responds(OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nab")),
    Row("half a status line", LOST, service=raw.responds(b"HTTP/1.1 20")),
    # the body of the response
    Row("cut body", CUT, service=raw.responds(OK + LENGTH + b"ab")),
    Row("cut chunked body", CUT, service=raw.responds(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab")),
    Row("garbled gzip", CUT, service=raw.responds(OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")),
    Row("body times out", CUT, service=raw.responds_and_hangs(OK + LENGTH + b"ab"), timeouts=SHORT),
]


@asynccontextmanager
async def staged(row: Row, certificate: Certificate) -> AsyncIterator[tuple[DirectTransport, URL, RawService]]:
    tls = certificate.server(asks_for_client=row.tls == "client") if row.tls else None
    async with raw_service(row.service or raw.hangs, tls=tls) as service:
        with raw.full_port() as full:
            ports = {"port": service.port, "dead": raw.dead_port(), "full": full}
            ssl = row.ssl if row.ssl is not None else True if row.tls == "unknown" else certificate.client()
            transport = DirectTransport(ssl=ssl, proxy=row.proxy.format(**ports) or None)
            try:
                yield transport, URL(row.url.format(**ports), encoded=True), service
            finally:
                await transport.aclose()


def request_bytes(service: RawService) -> bytes:
    """What was received of the request itself, without the TLS handshake and the CONNECT to a proxy."""
    data = b"".join(service.received)
    return b"" if data.startswith((b"\x16\x03", b"CONNECT ")) else data


async def send(transport: DirectTransport, request: Request, steps: list[str]) -> None:
    async with transport.connect(request) as connection:
        steps.append("send")
        async with await connection.send() as response:
            await response.read()


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
async def test_what_is_known_of_a_create_that_failed(row: Row, certificate: Certificate, monkeypatch) -> None:
    steps, end = ["connect"], row.end
    if row.resolver is not None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", row.resolver)
    async with staged(row, certificate) as (transport, url, service):
        request = create(url, method=row.method, body=row.body, timeouts=row.timeouts, **row.headers)
        sending = asyncio.create_task(send(transport, request, steps))
        if row.interrupt is not None:
            phase, interrupt = row.interrupt
            await until(lambda: any(create.progress.phase is phase for create in transport._pending))
            await interrupt(sending, transport)
        with pytest.raises(end.raises) as caught:
            await sending
        if row.service is not raw.reads_nothing:
            await service.quiet()

    error = caught.value
    assert type(error) is end.raises
    assert steps[-1] == ("connect" if end.delivery is NOT_SENT else "send")
    if not isinstance(error, asyncio.CancelledError):
        assert row.message in str(error)
        assert "pa55word" not in "".join(traceback.format_exception(error))
    evidence = error.__cause__ if isinstance(error, asyncio.CancelledError) else error
    if evidence is not None or end.delivery is NOT_SENT:
        assert (evidence.delivery, evidence.phase, evidence.op) == (end.delivery, end.phase, "videos.create")
    data = request_bytes(service)
    expected = {"nothing": data == b"", "something": data, "everything": data.endswith(PROMPT if row.body else b"\r\n")}
    if end.received != "anything":
        assert expected[end.received]
        assert data.count(b" HTTP/1.1\r\n") == end.requests


async def test_a_delete_that_was_received_is_maybe_sent_although_a_retry_would_be_refused() -> None:
    async def reads_and_is_gone(connection: raw.Connection) -> None:
        await connection.request()
        service.stop_listening()

    transport = DirectTransport()
    async with raw_service(reads_and_is_gone) as service:
        with pytest.raises(ConnectionLostError) as caught:
            await swallowed(transport, create(service.url(), method="DELETE", body=None))
        await transport.aclose()

    assert (caught.value.delivery, service.requests_begun) == (MAYBE_SENT, 1)


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

    assert (caught.value.delivery, service.requests_begun) == (MAYBE_SENT, 1)


@pytest.mark.slow
async def test_many_creates_at_once_do_not_wait_for_each_other() -> None:
    transport = DirectTransport(max_connections=1)
    async with raw_service(raw.hangs) as service:
        sending = [asyncio.create_task(swallowed(transport, create(service.url()))) for _ in range(120)]
        await until(lambda: service.requests_begun == 120)
        await transport.aclose()
        ends = await asyncio.gather(*sending, return_exceptions=True)

    assert {(type(end), end.delivery) for end in ends} == {(TransportClosedError, MAYBE_SENT)}

"""Which requests are sent without a session, how their connections end, and their one timer."""

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partialmethod
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses
from attrs import define, evolve, field

from tests.transports import raw_service as raw
from tests.transports.method_proxies import Proxy
from tests.transports.raw_service import OK, Certificate, raw_service
from tests.transports.sending import create, read, swallowed, until
from vidgen_async.errors import ConnectError, TransportClosedError
from vidgen_async.transports.direct import connections
from vidgen_async.transports.direct.connections import GuardedProtocol, PlainReads, PlainResponse, find_missing
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Request


async def is_plain(transport: DirectTransport, request: Request) -> bool:
    """Whether the request was sent without a session."""
    async with await transport.send(request) as response:
        assert await response.read() == b"ok"
        return isinstance(response._answer, PlainResponse)


# -- which requests ----------------------------------------------------------------------------------------------------


async def test_reads_without_a_body_are_sent_without_a_session(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url(), Accept="application/json")
        for pool in ("polls", "reads", "polls", "reads"):
            assert await is_plain(transport, evolve(request, pool=pool))
        assert len(service.connections) == 2


async def test_all_others_are_sent_by_a_session(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url())
        assert await is_plain(transport, request)
        assert not await is_plain(transport, evolve(request, op="videos.create"))
        assert not await is_plain(transport, create(service.url()))
        assert not await is_plain(transport, create(service.url(), method="GET"))
        assert not await is_plain(transport, evolve(request, method="DELETE"))
        assert not await is_plain(transport, evolve(request, pool="streams"))
        assert not await is_plain(transport, evolve(request, needs_new_connection=True))
        assert not await is_plain(transport, read(service.url(), Accept_Encoding="identity"))
        assert await is_plain(transport, request)


async def test_with_a_proxy_or_a_given_session_a_session_sends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_service(raw.answers) as service, aiohttp.ClientSession() as session:
        monkeypatch.setenv("HTTP_PROXY", str(service.url("")))
        for transport, host in (
            (DirectTransport(session), "127.0.0.1"),
            (DirectTransport(proxy=service.url("")), "127.0.0.1"),
            (DirectTransport(), "service.test"),
        ):
            assert not await is_plain(transport, read(service.url(host=host)))
            await transport.aclose()


async def test_both_ways_use_the_same_connections(transport: DirectTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url())
        for missing in ((), ("a name",), ()):
            monkeypatch.setattr(connections, "MISSING", missing)
            connections._is_supported.cache_clear()
            assert await is_plain(transport, request) is not bool(missing)
        assert len(service.connections) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{port}/a b", "http://127.0.0.1:{port}/#a b", "http://user@127.0.0.1:{port}/"]
)
async def test_each_url_is_checked(transport: DirectTransport, url: str) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url())
        assert await is_plain(transport, request)
        wrong = evolve(request, url=request.url.__class__(url.format(port=service.port), encoded=True))
        with pytest.raises(Exception, match="the URL contains"):
            await transport.send(wrong)
        assert service.requests_begun == 1


# -- versions of aiohttp, and fakes ------------------------------------------------------------------------------------


def test_this_version_of_aiohttp_has_everything() -> None:
    assert find_missing() == ()


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, name, _ in connections._NEEDED])
def test_a_method_that_aiohttp_no_longer_has_is_found(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (None, lambda: None, dict.update):
        monkeypatch.setattr(owner, name, other)
        assert find_missing() == (f"{owner.__name__}.{name}",)


async def test_where_a_name_is_missing_sessions_send_the_reads_and_one_record_tells_why(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "MISSING", ("ResponseHandler.read",))
    monkeypatch.setattr(PlainReads, "__init__", pytest.fail)
    connections._is_supported.cache_clear()
    with caplog.at_level(logging.INFO, "vidgen_async"):
        async with raw_service(raw.answers) as service:
            for _ in range(3):
                assert not await is_plain(transport, read(service.url()))
    connections._is_supported.cache_clear()

    (record,) = caplog.records
    assert (record.event_name, record.levelname) == ("plain_reads.missing", "INFO")
    assert "ResponseHandler.read" in record.getMessage()


@pytest.mark.usefixtures("vidgen_aioresponses_fix")
async def test_a_fake_service_is_asked_also_when_it_comes_late(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url())
        assert await is_plain(transport, request)
        with aioresponses() as fake:
            fake.get(request.url, body=b"fake")
            assert await swallowed(transport, request) == b"fake"
        assert await is_plain(transport, request)
        assert service.requests_begun == 2


@pytest.mark.parametrize("name", ["request", "_request", "__init__"])
async def test_a_replaced_method_of_the_session_is_called(transport: DirectTransport, name: str, monkeypatch) -> None:
    async with raw_service(raw.answers) as service:
        request = read(service.url())
        assert await is_plain(transport, request)
        monkeypatch.setattr(aiohttp.ClientSession, name, partialmethod(getattr(aiohttp.ClientSession, name)))
        assert not await is_plain(transport, request)


PROXIED = [
    *((aiohttp.ClientSession, name) for name in ("request", "_request", "__init__")),
    *((aiohttp.ClientRequest, name) for name in ("__init__", "send")),
    *((aiohttp.ClientResponse, name) for name in ("__init__", "start")),
]


async def test_reads_do_not_go_past_the_proxies_of_agents_for_monitoring(monkeypatch: pytest.MonkeyPatch) -> None:
    missed: list[str] = []
    async with raw_service(raw.answers) as service:
        for owner, name in PROXIED:
            transport, seen = DirectTransport(), list[str]()
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, Proxy(getattr(owner, name), seen))
                assert getattr(owner, name) == owner.__dict__[name].__wrapped__
                is_past = await is_plain(transport, read(service.url()))
                if is_past or name not in seen:
                    missed.append(f"{owner.__name__}.{name}")
            assert await is_plain(transport, read(service.url())) or name == "__init__"
            await transport.aclose()
    assert missed == []


async def test_reads_do_not_go_past_proxies_that_were_there_before_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aiohttp.ClientSession() as session:
        for owner, name in PROXIED:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, Proxy(getattr(owner, name), []))
                assert not imported_again().may_bypass(session), (owner, name)
        assert imported_again().may_bypass(session)


def imported_again() -> Any:
    """The module as a program imports it now."""
    spec = spec_from_file_location("connections_again", connections.__file__)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_replaced_session_is_used(transport: DirectTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(DeprecationWarning, match="Inheritance"):

        class Session(aiohttp.ClientSession):
            pass

    async with raw_service(raw.answers) as service:
        with monkeypatch.context() as patch:
            patch.setattr(aiohttp, "ClientSession", Session)
            assert not await is_plain(transport, read(service.url()))
        assert not await is_plain(transport, read(service.url())), "the session of the pool is the replaced one"


async def test_telemetry_that_listens_to_sessions_receives_the_reads(transport: DirectTransport, monkeypatch) -> None:
    async def on_request_start(session: object, context: object, params: aiohttp.TraceRequestStartParams) -> None:
        seen.append(params.method)

    seen: list[str] = []
    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(on_request_start)
    original = aiohttp.ClientSession.__init__

    def traced(self: aiohttp.ClientSession, **options: object) -> None:
        original(self, **{**options, "trace_configs": [trace]})

    async with raw_service(raw.answers) as service:
        with monkeypatch.context() as patch:
            patch.setattr(aiohttp.ClientSession, "__init__", traced)
            await swallowed(transport, read(service.url()))
        await swallowed(transport, read(service.url()))
    assert seen == ["GET", "GET"]


# -- certificates ------------------------------------------------------------------------------------------------------


async def test_certificates_are_verified(certificate: Certificate) -> None:
    async with raw_service(raw.answers, tls=certificate.server()) as service:
        for ssl, is_accepted in (
            (certificate.client(), True),
            (aiohttp.Fingerprint(certificate.sha256), True),
            (False, True),
            (True, False),
            (aiohttp.Fingerprint(bytes(32)), False),
        ):
            transport = DirectTransport(ssl=ssl)
            if is_accepted:
                assert await is_plain(transport, read(service.url()))
            else:
                with pytest.raises(ConnectError, match="certificate"):
                    await transport.send(read(service.url()))
            await transport.aclose()
    assert service.requests_begun == 3


# -- closing and cancelling --------------------------------------------------------------------------------------------


async def test_closing_ends_reads_in_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, *args: object, **options: object) -> object:
        if host != "service.test":
            return await getaddrinfo(host, *args, **options)
        asked.set()
        return await asyncio.Event().wait()

    asked, getaddrinfo = asyncio.Event(), asyncio.get_running_loop().getaddrinfo
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    async with raw_service(raw.hangs) as service:
        transport = DirectTransport(max_connections=1)
        resolving = evolve(read(service.url(host="service.test")), pool="polls")
        sends = [
            asyncio.create_task(transport.send(request))
            for request in (resolving, read(service.url()), read(service.url()))
        ]
        await asked.wait()
        await until(lambda: service.requests_begun == 1)
        async with asyncio.timeout(2):
            await asyncio.gather(transport.aclose(), transport.aclose())
        assert all(send.done() for send in sends)
        ends = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(end) for end in ends} == {TransportClosedError}
        assert all(send.cancelling() == 0 for send in sends)
        with pytest.raises(TransportClosedError):
            await transport.send(read(service.url()))
        await service.quiet()


@pytest.mark.parametrize("make", [read, create])
@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_a_send_that_is_cancelled_while_the_transport_closes_stays_cancelled(transport, is_cancelled_first, make):
    async with raw_service(raw.hangs) as service:
        sending = asyncio.create_task(swallowed(transport, make(service.url())))
        await until(lambda: service.requests_begun == 1)
        closing = asyncio.create_task(transport.aclose())
        if is_cancelled_first:
            sending.cancel()
        await asyncio.sleep(0)
        if not is_cancelled_first:
            sending.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError):
            await sending
        await service.quiet()


# -- connections that are kept alive -----------------------------------------------------------------------------------


async def test_the_connections_of_polls_are_kept_for_longer_than_a_polling_interval(transport, monkeypatch) -> None:
    now = 1000.0
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: now)
    async with raw_service(raw.answers) as service:
        poll = evolve(read(service.url()), pool="polls")
        for seconds in (0, 62, 62):
            now += seconds
            assert await is_plain(transport, poll)
        assert len(service.connections) == 1
        now += 200
        assert await is_plain(transport, poll)
        assert len(service.connections) == 2


# -- the timer of a connection -----------------------------------------------------------------------------------------


@define
class Timer:
    when: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@define
class Loop:
    """The time and the timers of an event loop."""

    now: float = 100.0
    timers: list[Timer] = field(factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, callback))
        return self.timers[-1]

    def pass_to(self, now: float) -> None:
        """Run the timers up to this time."""
        while due := [timer for timer in self.timers if timer.when <= now and not timer.is_cancelled]:
            first = min(due, key=lambda timer: timer.when)
            self.now = first.when
            first.is_cancelled = True
            first.callback()
        self.now = now


class Socket(asyncio.Transport):
    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def connection(loop: Loop) -> GuardedProtocol:
    connection = GuardedProtocol(loop)
    connection.connection_made(Socket())
    return connection


def begin(connection: GuardedProtocol, *, limit: float | None, total: float = math.inf) -> None:
    connection.set_response_params(read_until_eof=True, read_timeout=limit)
    connection.start_timeouts(connection._loop.time() + total)


def test_a_thousand_requests_set_the_timer_of_a_connection_a_few_times(loop: Loop, connection) -> None:
    for _ in range(1000):
        begin(connection, limit=60, total=300)
        loop.pass_to(loop.now + 0.1)
        connection.data_received(OK)
        connection._buffer.clear()
        connection.end_request()
    assert len(loop.timers) <= 4
    assert connection.exception() is None
    loop.pass_to(loop.now + 1000)
    assert connection.exception() is None, "no time limit while it is idle"
    assert all(timer.is_cancelled for timer in loop.timers)


def test_a_response_in_many_parts_sets_no_timer_for_each_of_them(loop: Loop, connection) -> None:
    begin(connection, limit=60)
    connection.data_received(OK.replace(b": 2", b": 2000"))
    for _ in range(1000):
        loop.pass_to(loop.now + 0.1)
        connection.data_received(b"x")
    assert len(loop.timers) <= 3
    assert connection.exception() is None


@pytest.mark.parametrize("received", [b"", b"HTTP/1.1 200 OK\r\nX", OK[:-1]], ids=["nothing", "headers", "body"])
def test_silence_for_the_read_timeout_is_an_error(loop: Loop, connection, received: bytes) -> None:
    begin(connection, limit=60)
    loop.pass_to(150)
    if received:
        connection.data_received(received)
    silent_at = 210 if received else 160
    loop.pass_to(silent_at - 0.1)
    assert connection.exception() is None
    loop.pass_to(silent_at)
    assert isinstance(connection.exception(), aiohttp.SocketTimeoutError)


@pytest.mark.parametrize("limit", [None, 60])
def test_the_whole_response_has_a_time_limit_however_often_data_is_received(loop: Loop, connection, limit) -> None:
    begin(connection, limit=limit, total=300)
    connection.data_received(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(29):
        loop.pass_to(loop.now + 10)
        connection.data_received(b"x")
    assert connection.exception() is None
    loop.pass_to(400)
    assert type(connection.exception()) is TimeoutError


def test_an_earlier_time_limit_sets_the_timer_again(loop: Loop, connection) -> None:
    begin(connection, limit=60)
    connection.data_received(OK)
    connection._buffer.clear()
    connection.end_request()
    begin(connection, limit=5)
    loop.pass_to(105)
    assert isinstance(connection.exception(), aiohttp.SocketTimeoutError)


@pytest.mark.parametrize("end", ["close", "lose"])
def test_a_connection_that_ends_leaves_no_timer(loop: Loop, connection, end: str) -> None:
    begin(connection, limit=60, total=300)
    if end == "close":
        connection.close()
    else:
        connection.connection_lost(None)
    assert all(timer.is_cancelled for timer in loop.timers)

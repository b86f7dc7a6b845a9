"""A create in two steps: nothing of it is sent before ``connection.send()``, and nothing at all without that call."""

import asyncio
import contextlib
import functools
import gc
import logging
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from tests.transports import raw_service as raw
from tests.transports.method_proxies import Proxy
from tests.transports.raw_service import OK, Certificate, RawService, raw_service
from tests.transports.sending import PROMPT, SHORT, create, read, swallowed, until
from vidgen_async.errors import ConnectError, ConnectionLostError, TransportClosedError, TransportError
from vidgen_async.transports.base import Connection
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Delivery


@contextlib.asynccontextmanager
async def reached(way: str, certificate: Certificate) -> AsyncIterator[tuple[DirectTransport, RawService]]:
    """A transport and a service that it reaches over HTTP, TLS, a proxy, or a tunnel of a proxy."""

    async def tunnel(connection: raw.Connection) -> None:
        await connection.request()
        await connection.answer(b"HTTP/1.1 200 OK\r\n\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        with contextlib.closing(writer):
            async with asyncio.TaskGroup() as both:
                both.create_task(pump(connection.reader, writer))
                both.create_task(pump(reader, connection.writer))

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65536):
            writer.write(piece)
        writer.close()

    tls = certificate.server() if way in ("https", "tunnel") else None
    async with raw_service(raw.answers, tls=tls) as service, raw_service(tunnel) as proxy:
        proxies = {"proxy": service.url("").with_scheme("http"), "tunnel": proxy.url("")}
        transport = DirectTransport(proxy=proxies.get(way), ssl=certificate.client())
        yield transport, service
        await transport.aclose()
        assert proxy.received == [] or proxy.received[0].startswith(b"CONNECT 127.0.0.1:")


@pytest.mark.parametrize("way", ["http", "https", "proxy", "tunnel"])
async def test_nothing_is_sent_before_send_and_once_with_it(way: str, certificate: Certificate) -> None:
    async with reached(way, certificate) as (transport, service):
        async with transport.connect(create(service.url(), timeouts=SHORT)) as connection:
            await until(lambda: bool(service.connections))
            # The time in the block does not count for the read timeout.
            await asyncio.sleep(SHORT.read + 0.03)
            assert (service.bytes_received, connection.is_ready) == (0, True)
            async with await connection.send() as response:
                assert await response.read() == b"ok"
            with pytest.raises(RuntimeError, match="it was not sent again"):
                await connection.send()
        await service.quiet()
        assert (service.requests_begun, service.received[0].endswith(PROMPT)) == (1, True)


class OwnBaseError(BaseException):
    pass


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_block_that_is_left_without_send_sends_nothing(scheme: str, certificate: Certificate) -> None:
    for error in (
        None,
        OSError(28, "No space left on device"),
        TimeoutError("the journal is slow"),
        aiohttp.ClientOSError(104, "looks like a lost connection"),
        aiohttp.ServerDisconnectedError(),
        KeyError("a bug"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        OwnBaseError(),
        BaseExceptionGroup("some", [OwnBaseError()]),
    ):
        raised, tasks = None, asyncio.all_tasks()
        async with reached(scheme, certificate) as (transport, service):
            try:
                async with transport.connect(create(service.url())):
                    await until(lambda: bool(service.connections))
                    if error is not None:
                        raise error
            except BaseException as caught:  # noqa: BLE001 - compared below
                raised = caught
            await service.quiet()
            assert raised is error
            assert (getattr(error, "__cause__", None), getattr(error, "__context__", None)) == (None, None)
            assert (service.bytes_received, len(service.connections)) == (0, 1)
            assert transport._pending == set()
        assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("interrupt", ["cancelled", "cancelled twice", "closed"])
async def test_a_create_that_is_interrupted_sends_nothing_at_any_step(interrupt: str) -> None:
    async def connect() -> None:
        async with transport.connect(create(service.url())):
            entered.set()
            await asyncio.Event().wait()

    async with raw_service(raw.answers) as service:
        entered, steps = asyncio.Event(), 0
        while not entered.is_set():
            transport = DirectTransport()
            creating = asyncio.create_task(connect())
            for _ in range(steps := steps + 1):
                await asyncio.sleep(0)
            if interrupt == "closed":
                await transport.aclose()
                await asyncio.wait({creating}, timeout=0.01)
            if interrupt != "closed" or entered.is_set():
                creating.cancel()
                await asyncio.sleep(0)
            if interrupt == "cancelled twice":
                creating.cancel()
            with pytest.raises((asyncio.CancelledError, TransportClosedError)) as caught:
                await creating
            if not entered.is_set():
                proof = caught.value if interrupt == "closed" else caught.value.__cause__
                assert type(proof) is (TransportClosedError if interrupt == "closed" else TransportError), steps
                assert (proof.delivery, proof.op) == (Delivery.NOT_SENT, "videos.create")
            await transport.aclose()
        await service.quiet()
        assert service.bytes_received == 0
        assert steps > 3


@pytest.mark.slow
@pytest.mark.parametrize("how", ["is dropped", "is referenced", "is in a task that is destroyed"])
async def test_a_block_that_is_never_left_sends_nothing_and_ends_with_the_transport(
    transport: DirectTransport, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def hold() -> None:
        async with transport.connect(create(service.url())):
            entered.set()
            await asyncio.get_running_loop().create_future()

    entered, tasks = asyncio.Event(), asyncio.all_tasks()
    async with raw_service(raw.answers) as service:
        if "task" in how:
            holding = asyncio.create_task(hold())
            await entered.wait()
            holding._log_destroy_pending = False
            del holding
        else:
            block = transport.connect(create(service.url()))
            await block.__aenter__()
            if "dropped" in how:
                del block
        gc.collect()
        await transport.aclose()
        block = None
        gc.collect()
        await service.quiet()
        assert service.bytes_received == 0
    assert asyncio.all_tasks() == tasks
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_every_create_has_its_own_connection(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url()))
        for _ in range(2):
            await swallowed(transport, create(service.url()))
            async with await transport.send(create(service.url())) as response:
                await response.read()
        await swallowed(transport, read(service.url()))

    # The first is the reads' own, kept alive from the first to the last.
    assert [data.count(b" HTTP/1.1\r\n") for data in service.received] == [2, 1, 1, 1, 1]
    assert [b"Connection: close" in data for data in service.received] == [False, True, True, True, True]


@pytest.mark.slow
async def test_a_create_leaves_nothing_for_the_garbage_collector(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await swallowed(transport, create(service.url()))
            async with transport.connect(create(service.url())):
                pass
            gc.collect()
            left = [found for found in gc.garbage if type(found).__module__.startswith("vidgen_async")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert left == []


# -- the connection is lost in the block -------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [b"", OK, b"HTTP/1.0 408 Request Time-out\r\n\r\n", OK[:10], b"garbage\r\n"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("is_at_once", [True, False], ids=["at once", "in the block"])
async def test_a_connection_that_was_closed_or_has_received_data_is_not_ready_and_sends_nothing(
    early: bytes, scheme: str, is_at_once: bool, certificate: Certificate
) -> None:
    async def behaviour(connection: raw.Connection) -> None:
        if not is_at_once:
            await in_block.wait()
        await connection.answer(early)
        if early:
            await connection.rest()

    in_block = asyncio.Event()
    tls = certificate.server() if scheme == "https" else None
    transport = DirectTransport(ssl=certificate.client())
    async with raw_service(behaviour, tls=tls) as service:
        async with transport.connect(create(service.url())) as connection:
            assert is_at_once or connection.is_ready
            in_block.set()
            await until(lambda: not connection.is_ready)
            # A caller that does not ask has no proof, and nothing is sent all the same.
            with pytest.raises(ConnectionLostError, match="closed the connection") as caught:
                await connection.send()
        await service.quiet()
        await transport.aclose()
    assert (caught.value.delivery, service.bytes_received) == (Delivery.MAYBE_SENT, 0)


# -- sessions that were replaced, and wrappers -------------------------------------------------------------------------

REQUEST = aiohttp.ClientSession._request
REFUSAL = aiohttp.ClientConnectorError(
    aiohttp.client_reqrep.ConnectionKey("service.test", 80, False, True, None, None, None),
    ConnectionRefusedError(111, "refused"),
)
Replace = Callable[[pytest.MonkeyPatch, DirectTransport, object], None]
REPLACED: dict[str, Replace] = {
    "_request": lambda patch, transport, fake: patch.setattr(aiohttp.ClientSession, "_request", fake),
    "request": lambda patch, transport, fake: patch.setattr(aiohttp.ClientSession, "request", fake),
    "the session": lambda patch, transport, fake: patch.setattr(
        aiohttp, "ClientSession", lambda **options: type("Fake", (), {"request": fake, "close": fake})()
    ),
    "send of the class": lambda patch, transport, fake: patch.setattr(DirectTransport, "send", fake),
    "send of the object": lambda patch, transport, fake: patch.setattr(
        transport, "send", functools.partial(fake, None)
    ),
}


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
async def test_where_it_is_replaced_nothing_is_done_before_send_and_an_error_proves_nothing(
    replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fake(*args: object, **options: object) -> None:
        calls.append(args)
        if options or len(args) > 1:
            raise REFUSAL

    calls: list[object] = []
    transport = DirectTransport()
    with monkeypatch.context() as patch:
        replace(patch, transport, fake)
        async with transport.connect(create(RawService(1).url())) as connection:
            await asyncio.sleep(0.01)
            assert (calls, connection.is_ready) == ([], True)
            with pytest.raises((ConnectError, aiohttp.ClientConnectorError)) as caught:
                await connection.send()
        await transport.aclose()
    assert getattr(caught.value, "delivery", Delivery.MAYBE_SENT) is Delivery.MAYBE_SENT
    assert calls


@contextlib.contextmanager
def wrapper(patch: pytest.MonkeyPatch, send: object):
    """A wrapper around aiohttp, as monitoring agents install."""
    with patch.context() as wrapped:
        wrapped.setattr(aiohttp.ClientSession, "_request", functools.wraps(REQUEST)(send))
        yield


async def outcome(connecting: contextlib.AbstractAsyncContextManager[Connection]) -> tuple[str, object]:
    """Which step failed, and the evidence."""
    step = "connect"
    try:
        async with connecting as connection:
            step = "send"
            async with await connection.send() as response:
                return "read", await response.read()
    except TransportError as error:
        return step, error.delivery


async def test_a_wrapper_around_aiohttp_keeps_the_proof(transport: DirectTransport, monkeypatch) -> None:
    async def monitored(*args: object, **options: object) -> aiohttp.ClientResponse:
        return await REQUEST(*args, **options)

    async with raw_service(raw.answers) as service:
        for monitor in (functools.wraps(REQUEST)(monitored), Proxy(REQUEST, [])):
            with monkeypatch.context() as patch:
                patch.setattr(aiohttp.ClientSession, "_request", monitor)
                assert await outcome(transport.connect(create(service.url()))) == ("read", b"ok")
                refused = RawService(raw.dead_port()).url()
                assert await outcome(transport.connect(create(refused))) == ("connect", Delivery.NOT_SENT)


@pytest.mark.parametrize("error", [REFUSAL, aiohttp.ServerDisconnectedError(), TimeoutError()], ids=repr)
async def test_a_wrapper_that_sends_by_itself_proves_nothing(transport, monkeypatch, error: Exception) -> None:
    async def replace(*args: object, **options: object) -> None:
        raise error

    with wrapper(monkeypatch, replace):
        assert await outcome(transport.connect(create(RawService(1).url()))) == ("send", Delivery.MAYBE_SENT)


@pytest.mark.parametrize("is_gone", [False, True], ids=["it would be sent again", "it would be refused"])
async def test_a_wrapper_that_retries_sends_no_create_twice_and_proves_nothing(transport, monkeypatch, is_gone) -> None:
    async def retry(*args: object, **options: object) -> aiohttp.ClientResponse:
        with contextlib.suppress(Exception):
            return await REQUEST(*args, **options)
        return await REQUEST(*args, **options)

    async def loses(connection: raw.Connection) -> None:
        await connection.request()
        if is_gone:
            service.stop_listening()

    async with raw_service(loses) as service:
        with wrapper(monkeypatch, retry):
            assert await outcome(transport.connect(create(service.url()))) == ("send", Delivery.MAYBE_SENT)
        await service.quiet()
        assert service.requests_begun == 1


@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after the own session has failed"])
async def test_a_wrapper_that_passes_it_to_another_session_sends_nothing_before_send(
    transport, monkeypatch, is_second: bool
) -> None:
    async def reroute(session: aiohttp.ClientSession, method: str, url: str, **options: object):
        if is_second:
            with contextlib.suppress(Exception):
                await REQUEST(session, method, RawService(raw.dead_port()).url(), **options)
        return await REQUEST(other, method, url, **options)

    async with raw_service(raw.answers) as service, aiohttp.ClientSession() as other:
        with wrapper(monkeypatch, reroute):
            async with transport.connect(create(service.url())) as connection:
                assert connection.is_ready
            await asyncio.sleep(0.01)
            assert service.bytes_received == 0
            assert await outcome(transport.connect(create(service.url()))) == ("read", b"ok")
        assert service.requests_begun == 1


async def test_a_cancelled_send_of_a_replaced_session_proves_nothing(transport, monkeypatch) -> None:
    async def hang(*args: object, **options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(aiohttp.ClientSession, "_request", hang)
    sending = asyncio.create_task(swallowed(transport, create(RawService(1).url())))
    await asyncio.sleep(0.01)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await sending
    assert caught.value.__cause__ is None

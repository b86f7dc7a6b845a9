"""The gate: nothing of a create is sent before it returns, and nothing at all if it does not return."""

import asyncio
import contextlib

import aiohttp
import pytest

from tests.transports import raw_service as raw
from tests.transports.raw_service import Certificate, raw_service
from tests.transports.sending import PROMPT, SHORT, create, read, swallowed, until
from vidgen_async.errors import ConnectError, JournalError, TransportClosedError
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Delivery, Phase, Probe


class Gate:
    """Waits until it is opened, and records that it was reached."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.passes = 0

    async def __call__(self) -> None:
        self.reached.set()
        await self.open.wait()
        self.passes += 1


@pytest.fixture
async def transport():
    transport = DirectTransport()
    yield transport
    await transport.aclose()


async def test_nothing_is_sent_until_the_gate_returns(transport: DirectTransport) -> None:
    gate = Gate()
    probe = Probe(gate=gate)
    async with raw_service(raw.answers) as service:
        # Longer than the read timeout, which does not include the time at the gate.
        sending = asyncio.create_task(swallowed(transport, create(service.url(), timeouts=SHORT), probe))
        await gate.reached.wait()
        await until(lambda: bool(service.connections))
        await asyncio.sleep(SHORT.read + 0.03)
        assert (service.bytes_received, probe.delivery) == (0, Delivery.NOT_SENT)

        gate.open.set()
        assert await sending == b"ok"

    assert service.received[0].endswith(PROMPT)
    assert gate.passes == 1
    assert (probe.delivery, probe.phase) == (Delivery.ANSWERED, Phase.BODY)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "error",
    [
        JournalError("the disk is full"),
        OSError(28, "No space left on device"),
        TimeoutError("the journal is slow"),
        aiohttp.ClientOSError(104, "looks like a lost connection"),
        aiohttp.ServerDisconnectedError(),
        KeyError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_the_gate_raises_is_raised_unchanged(
    error: Exception, scheme: str, certificate: Certificate
) -> None:
    method = "POST" if scheme == "http" else "PUT"

    async def gate() -> None:
        await until(lambda: bool(service.connections))
        raise error

    cause, context = error.__cause__, error.__context__
    probe = Probe(gate=gate)
    transport = DirectTransport(ssl=certificate.client())
    async with raw_service(raw.answers, tls=certificate.server() if scheme == "https" else None) as service:
        with pytest.raises(type(error)) as caught:
            await transport.send(create(service.url(), method=method), probe=probe)
        await service.quiet()
        await transport.aclose()

    assert caught.value is error
    assert (error.__cause__, error.__context__) == (cause, context)
    assert (probe.delivery, service.bytes_received, len(service.connections)) == (Delivery.NOT_SENT, 0, 1)


async def test_a_create_that_is_cancelled_at_the_gate_is_not_sent(transport: DirectTransport) -> None:
    gate = Gate()
    probe = Probe(gate=gate)
    async with raw_service(raw.answers) as service:
        sending = asyncio.create_task(swallowed(transport, create(service.url()), probe))
        await gate.reached.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await service.quiet()

    assert (probe.delivery, service.bytes_received) == (Delivery.NOT_SENT, 0)


async def test_a_cancelled_error_of_the_gate_itself_is_raised(transport: DirectTransport) -> None:
    async def gate() -> None:
        dead = asyncio.get_running_loop().create_future()
        dead.cancel()
        await dead

    probe = Probe(gate=gate)
    async with raw_service(raw.answers) as service:
        with pytest.raises(asyncio.CancelledError):
            await transport.send(create(service.url()), probe=probe)
        await service.quiet()

    assert (probe.delivery, service.bytes_received) == (Delivery.NOT_SENT, 0)


async def test_closing_the_transport_ends_a_create_at_its_gate(transport: DirectTransport) -> None:
    gate = Gate()
    probe = Probe(gate=gate)
    async with raw_service(raw.answers) as service:
        sending = asyncio.create_task(swallowed(transport, create(service.url()), probe))
        await gate.reached.wait()
        await transport.aclose()
        with pytest.raises(TransportClosedError, match="no byte of the request was sent") as caught:
            await sending
        await service.quiet()

    assert caught.value.delivery is Delivery.NOT_SENT
    assert service.bytes_received == 0


async def test_closing_waits_for_the_cleanup_of_a_cancelled_gate(transport: DirectTransport) -> None:
    async def gate() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            tidied.set()

    reached, tidied = asyncio.Event(), asyncio.Event()
    async with raw_service(raw.answers) as service:
        sending = asyncio.create_task(swallowed(transport, create(service.url()), Probe(gate=gate)))
        await reached.wait()
        await transport.aclose()
        assert tidied.is_set()
        with pytest.raises(TransportClosedError):
            await sending

    assert service.bytes_received == 0


async def test_a_gate_may_close_the_transport(transport: DirectTransport) -> None:
    probe = Probe(gate=transport.aclose)
    async with raw_service(raw.answers) as service:
        with pytest.raises(TransportClosedError):
            await transport.send(create(service.url()), probe=probe)

    assert (probe.delivery, service.bytes_received) == (Delivery.NOT_SENT, 0)


async def test_a_probe_is_for_one_send_only(transport: DirectTransport) -> None:
    probe = Probe()
    async with raw_service(raw.answers) as service:
        await swallowed(transport, create(service.url()), probe)
        with pytest.raises(RuntimeError, match="a second request"):
            await transport.send(create(service.url()), probe=probe)
        await service.quiet()

    assert service.requests_begun == 1
    assert probe.delivery is Delivery.ANSWERED


async def test_every_create_has_its_own_connection(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url()))
        for _ in range(3):
            await swallowed(transport, create(service.url()), Probe())
        await swallowed(transport, read(service.url()))

    # The first is the reads' own, kept alive from the first to the last.
    assert [data.count(b" HTTP/1.1\r\n") for data in service.received] == [2, 1, 1, 1]
    assert [b"Connection: close" in data for data in service.received] == [False, True, True, True]


async def test_a_refused_connection_never_reaches_the_gate(transport: DirectTransport) -> None:
    gate = Gate()
    with pytest.raises(ConnectError):
        await transport.send(create(raw.RawService(raw.dead_port()).url()), probe=Probe(gate=gate))
    assert not gate.reached.is_set()


async def test_creates_through_a_proxy_pass_their_gate_too(certificate: Certificate) -> None:
    """For https the CONNECT goes out before the gate: it is not the request, and the service sees nothing of it."""
    gate = Gate()
    async with raw_service(raw.answers) as proxy:
        transport = DirectTransport(proxy=proxy.url(""))
        sending = asyncio.create_task(swallowed(transport, create(proxy.url(host="service.test")), Probe(gate=gate)))
        await gate.reached.wait()
        await until(lambda: bool(proxy.connections))
        assert proxy.bytes_received == 0
        gate.open.set()
        await sending
        await transport.aclose()

    assert proxy.received[0].startswith(b"POST http://service.test:")


async def test_through_a_tunnel_nothing_of_the_request_is_sent_before_the_gate(certificate: Certificate) -> None:
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

    gate = Gate()
    async with raw_service(raw.answers, tls=certificate.server()) as service, raw_service(tunnel) as proxy:
        transport = DirectTransport(proxy=proxy.url(""), ssl=certificate.client())
        sending = asyncio.create_task(swallowed(transport, create(service.url(), timeouts=SHORT), Probe(gate=gate)))
        await gate.reached.wait()
        await until(lambda: bool(service.connections))
        assert service.bytes_received == 0
        gate.open.set()
        assert await sending == b"ok"
        await transport.aclose()

    assert proxy.received[0].startswith(b"CONNECT 127.0.0.1:")
    assert service.received[0].endswith(PROMPT)


async def test_a_session_that_sends_no_signals_proves_nothing(transport: DirectTransport, monkeypatch) -> None:
    async def patched(self: aiohttp.ClientSession, *args: object, **options: object) -> aiohttp.ClientResponse:
        raise error

    key = aiohttp.client_reqrep.ConnectionKey("service.test", 80, False, True, None, None, None)
    error = aiohttp.ClientConnectorError(key, ConnectionRefusedError(111, "refused"))
    monkeypatch.setattr(aiohttp.ClientSession, "_request", patched)
    probe = Probe()
    with pytest.raises(ConnectError) as caught:
        await transport.send(create(raw.RawService(1).url()), probe=probe)

    assert (caught.value.delivery, probe.delivery) == (Delivery.MAYBE_SENT, Delivery.MAYBE_SENT)


async def test_a_cancelled_send_in_a_session_without_signals_is_maybe_sent(
    transport: DirectTransport, monkeypatch
) -> None:
    async def patched(self: aiohttp.ClientSession, *args: object, **options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(aiohttp.ClientSession, "_request", patched)
    probe = Probe()
    sending = asyncio.create_task(transport.send(create(raw.RawService(1).url()), probe=probe))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert probe.delivery is Delivery.MAYBE_SENT

"""Closing: nothing hangs, no caller is cancelled, and no resource stays open."""

import asyncio
import gc
import os
import time
from pathlib import Path

import pytest

from tests.transports import raw_service as raw
from tests.transports.raw_service import Certificate, raw_service
from tests.transports.sending import LONG, SHORT, create, read, swallowed, until
from vidgen_async.errors import BodyError, ClientStateError, TransportClosedError, VidgenError
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase, Probe

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


async def test_nothing_is_opened_before_the_first_send() -> None:
    before = open_descriptors()
    transport = DirectTransport()
    assert open_descriptors() == before
    await transport.aclose()
    await transport.aclose()


def test_a_transport_can_be_made_without_an_event_loop() -> None:
    DirectTransport(max_connections=5, trust_env=True, proxy="http://127.0.0.1:1", ssl=False)


@pytest.mark.parametrize("probe", [None, Probe()], ids=["no probe", "probe"])
async def test_a_closed_transport_refuses(probe: Probe | None) -> None:
    transport = DirectTransport()
    await transport.aclose()
    with pytest.raises(TransportClosedError, match="no byte of the request was sent") as caught:
        await transport.send(create(raw.RawService(1).url()), probe=probe)
    assert (caught.value.delivery, caught.value.phase) == (Delivery.NOT_SENT, Phase.BUILD)


@pytest.mark.parametrize("is_probed", [False, True], ids=["no probe", "probe"])
async def test_closing_ends_a_send_that_waits_for_its_dns_query(monkeypatch, is_probed: bool) -> None:
    async def no_answer(*args: object, **options: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_answer)
    transport = DirectTransport()
    request = create(raw.RawService(80).url(host="service.test"))
    sends = [asyncio.create_task(transport.send(request, probe=Probe() if is_probed else None)) for _ in range(3)]
    await asked.wait()
    started = time.monotonic()
    await transport.aclose()
    assert all(send.done() for send in sends)
    ends = await asyncio.gather(*sends, return_exceptions=True)

    assert {type(end) for end in ends} == {TransportClosedError}
    assert time.monotonic() - started < 0.5


async def test_every_create_makes_its_own_dns_query(monkeypatch) -> None:
    async def no_answer(*args: object, **options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_answer)
    transport = DirectTransport()
    request = create(raw.RawService(80).url(host="service.test"))
    probes = [Probe(), Probe()]
    sends = [asyncio.create_task(transport.send(request, probe=probe)) for probe in probes]
    await until(lambda: all(probe.phase is Phase.DNS for probe in probes))
    sends[0].cancel()
    await asyncio.wait(sends, timeout=0.01)
    assert [send.done() for send in sends] == [True, False]

    await transport.aclose()
    assert (await asyncio.gather(*sends, return_exceptions=True))[1].delivery is Delivery.NOT_SENT


@pytest.mark.parametrize("is_probed", [False, True], ids=["no probe", "probe"])
async def test_closing_aborts_the_bodies_that_are_being_read(is_probed: bool) -> None:
    transport = DirectTransport()
    async with raw_service(raw.responds_and_hangs(HEAD + b"abc")) as service:
        response = await transport.send(create(service.url()), probe=Probe() if is_probed else None)
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0.01)
        await transport.aclose()
        with pytest.raises(BodyError, match="the transport was closed"):
            await reading
        await response.aclose()
        await service.quiet()


async def test_a_caller_cancelled_while_the_transport_closes_stays_cancelled() -> None:
    transport = DirectTransport()
    async with raw_service(raw.hangs) as service:
        sending = asyncio.create_task(transport.send(create(service.url()), probe=Probe()))
        await until(lambda: service.requests_begun == 1)
        closing = asyncio.create_task(transport.aclose())
        await asyncio.sleep(0)
        sending.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError):
            await sending


async def test_a_close_that_was_cancelled_can_be_repeated() -> None:
    transport = DirectTransport()
    async with raw_service(raw.hangs) as service:
        sending = asyncio.create_task(transport.send(create(service.url()), probe=Probe()))
        await until(lambda: service.requests_begun == 1)
        closing = asyncio.create_task(transport.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(TransportClosedError):
            await sending
        await transport.aclose()
        await service.quiet()


# -- loops and processes -----------------------------------------------------------------------------------------------


def test_on_a_second_event_loop_a_send_is_refused() -> None:
    async def once() -> bytes:
        async with raw_service(raw.responds(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok")) as service:
            return await swallowed(transport, read(service.url()))

    transport = DirectTransport()
    assert asyncio.run(once()) == b"ok"
    with pytest.raises(ClientStateError, match="another event loop"):
        asyncio.run(once())
    asyncio.run(transport.aclose())


async def test_a_transport_is_closed_on_its_own_event_loop_only() -> None:
    transport = DirectTransport()
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url()))
        with pytest.raises(ClientStateError, match="must be closed on the event loop"):
            await asyncio.to_thread(lambda: asyncio.run(transport.aclose()))
        await transport.aclose()


async def test_in_a_forked_child_a_send_is_refused_and_the_parents_connections_stay_open(monkeypatch) -> None:
    transport = DirectTransport()
    async with raw_service(raw.answers) as service:
        await swallowed(transport, read(service.url()))
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: -1)
            with pytest.raises(ClientStateError, match="fork"):
                await transport.send(create(service.url()), probe=Probe())
            await transport.aclose()
        transport._is_closed = False
        await swallowed(transport, read(service.url()))
        await transport.aclose()
    assert len(service.connections) == 1


# -- nothing is left ---------------------------------------------------------------------------------------------------


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def mixed_sends(
    transport: DirectTransport, services: list[raw.RawService], dead: int, tls: raw.RawService
) -> None:
    """Two hundred sends of every kind, with every outcome."""
    answers, hangs, closes, cuts = services
    dead_service = raw.RawService(dead)

    async def interrupted(service: raw.RawService, probe: Probe | None) -> None:
        body = BytesBody(b"x" * 200_000)
        async with asyncio.timeout(0.02):
            await swallowed(transport, create(service.url(), body=body, timeouts=LONG), probe)

    sends = []
    for probe in (lambda: None, Probe):
        for _ in range(10):
            sends += [
                swallowed(transport, create(one.url(), timeouts=LONG), probe()) for one in (answers, closes, cuts)
            ]
            sends += [swallowed(transport, create(hangs.url(), timeouts=SHORT), probe())]
            sends += [swallowed(transport, create(dead_service.url()), probe())]
            sends += [swallowed(transport, create(tls.url(path)), probe()) for path in ("/a", "/b")]
            sends += [interrupted(hangs, probe()), interrupted(answers, probe()), interrupted(cuts, probe())]
    ends = await asyncio.gather(*sends, return_exceptions=True)
    assert len(ends) == 200
    assert {type(end) for end in ends if not isinstance(end, bytes | VidgenError | TimeoutError)} == set()
    assert sum(isinstance(end, bytes) for end in ends) == 60


@pytest.mark.slow
async def test_two_hundred_mixed_sends_leave_no_socket_and_no_task(certificate: Certificate) -> None:
    cut = raw.responds(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab")
    async with (
        raw_service(raw.answers) as answers,
        raw_service(raw.hangs) as hangs,
        raw_service(raw.closes_at_once) as closes,
        raw_service(cut) as cuts,
        raw_service(raw.answers, tls=certificate.server()) as tls,
    ):
        services = [answers, hangs, closes, cuts]
        before, tasks = open_descriptors(), asyncio.all_tasks()
        transport = DirectTransport(ssl=certificate.client())
        try:
            await mixed_sends(transport, services, raw.dead_port(), tls)
        finally:
            await transport.aclose()
        for service in (*services, tls):
            await service.quiet()
        gc.collect()
        assert asyncio.all_tasks() == tasks
        assert open_descriptors() == before

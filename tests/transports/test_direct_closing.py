"""Closing: nothing hangs, no caller is cancelled, and no resource stays open."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from tests.transports import raw_service as raw
from tests.transports.raw_service import Certificate, raw_service
from tests.transports.sending import SHORT, create, read, swallowed, until
from vidgen_async.errors import ClientStateError, TransportClosedError, VidgenError
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase


async def test_nothing_is_opened_before_the_first_send() -> None:
    before = open_descriptors()
    transport = DirectTransport()
    assert open_descriptors() == before
    await transport.aclose()
    await transport.aclose()


async def test_every_create_makes_its_own_dns_query(monkeypatch) -> None:
    async def no_answer(*args: object, **options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_answer)
    transport = DirectTransport()
    request = create(raw.RawService(80).url(host="service.test"))
    sends = [asyncio.create_task(swallowed(transport, request)) for _ in range(2)]
    await until(lambda: [create.progress.phase for create in transport._pending] == [Phase.DNS] * 2)
    sends[0].cancel()
    await asyncio.wait(sends, timeout=0.01)
    assert [send.done() for send in sends] == [True, False]

    await transport.aclose()
    assert (await asyncio.gather(*sends, return_exceptions=True))[1].delivery is Delivery.NOT_SENT


async def test_a_close_that_was_cancelled_can_be_repeated() -> None:
    transport = DirectTransport()
    async with raw_service(raw.hangs) as service:
        sending = asyncio.create_task(swallowed(transport, create(service.url())))
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
                await swallowed(transport, create(service.url()))
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

    async def interrupted(service: raw.RawService, op: str) -> None:
        async with asyncio.timeout(0.02):
            await swallowed(transport, create(service.url(), op=op, body=BytesBody(b"x" * 200_000)))

    sends = []
    for op in ("files.upload", "videos.create"):
        for _ in range(10):
            sends += [swallowed(transport, create(one.url(), op=op)) for one in (answers, closes, cuts, dead_service)]
            sends += [swallowed(transport, create(hangs.url(), op=op, timeouts=SHORT))]
            sends += [swallowed(transport, create(tls.url(path), op=op)) for path in ("/a", "/b")]
            sends += [interrupted(service, op) for service in (hangs, answers, cuts)]
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

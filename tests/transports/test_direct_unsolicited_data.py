"""Data that is received on a connection without a request is not a response: such a connection is not reused."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable

import pytest
from attrs import evolve

from tests.transports import raw_service as raw
from tests.transports.raw_service import OK, Certificate, Connection, raw_service
from tests.transports.sending import read, swallowed
from vidgen_async import Client
from vidgen_async.transports.direct.transport import DirectTransport

pytestmark = pytest.mark.usefixtures("each_path")

UNASKED = OK.replace(b"ok", b"no")
TIMEOUT = b"HTTP/1.0 408 Request Time-out\r\nConnection: close\r\n\r\n"


async def passes() -> None:
    """Let the event loop read everything that was received."""
    for _ in range(10):
        await asyncio.sleep(0)


async def in_one_segment(connection: Connection) -> None:
    await connection.answer(OK + UNASKED)


async def with_the_end_of_the_answer(connection: Connection) -> None:
    await connection.answer(OK[:-1])
    await passes()
    await connection.answer(OK[-1:] + UNASKED)


def later(unasked: bytes) -> Callable[[Connection], Awaitable[None]]:
    async def answer(connection: Connection) -> None:
        await connection.answer(OK)
        await passes()
        await connection.answer(unasked)

    return answer


WAYS = {
    "in one segment": in_one_segment,
    "with the end of the answer": with_the_end_of_the_answer,
    "later": later(UNASKED),
    "later, in part": later(UNASKED[:-1]),
    "later, hardly begun": later(UNASKED[:10]),
    "later, and the end": later(TIMEOUT),
    "later, no HTTP": later(b"garbage\r\n"),
}


async def answers_of(way: Callable[[Connection], Awaitable[None]], pool: str, certificate: Certificate | None) -> None:
    answered = asyncio.Event()

    async def behaviour(connection: Connection) -> None:
        while True:
            await connection.request()
            await way(connection)
            answered.set()

    tls = certificate and certificate.server()
    async with raw_service(behaviour, tls=tls) as service:
        transport = DirectTransport(ssl=certificate.client() if certificate else True)
        request = evolve(read(service.url()), pool=pool)
        for number in range(1, 4):
            answered.clear()
            assert await swallowed(transport, request) == b"ok"
            await answered.wait()
            await passes()
            assert len(service.connections) == number
        await transport.aclose()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_connection_on_which_more_than_the_response_was_received_is_not_reused(way) -> None:
    for pool in ("polls", "reads", "streams"):
        await answers_of(way, pool, None)


async def test_over_tls_it_is_not_reused_either(certificate: Certificate) -> None:
    await answers_of(WAYS["later"], "polls", certificate)


@pytest.mark.needs_dev
@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
def test_on_uvloop_it_is_not_reused_either(certificate: Certificate, is_secure) -> None:
    import uvloop  # noqa: PLC0415 - no need of every run

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for way in WAYS.values():
            runner.run(answers_of(way, "polls", certificate if is_secure else None))


async def test_data_that_was_received_but_not_read_yet_counts_too() -> None:
    for unasked in (UNASKED, b""):
        async with raw_service(raw.answers) as service:
            transport = DirectTransport()
            request = read(service.url())
            assert await swallowed(transport, request) == b"ok"
            # At once, so that the event loop does not come to read it.
            os.write(service.connections[0].writer.get_extra_info("socket").fileno(), unasked)
            assert await swallowed(transport, request) == b"ok"
            assert len(service.connections) == (2 if unasked else 1), "a sound connection is used again"
            await transport.aclose()


async def test_a_response_without_a_request_is_not_returned_for_the_next_request() -> None:
    def answer(status: str) -> bytes:
        body = json.dumps({"id": "t-1", "status": status}).encode()
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    sent = asyncio.Event()

    async def behaviour(connection: Connection) -> None:
        for _ in range(2):
            await connection.request()
            await connection.answer(answer("running"))
            await passes()
            await connection.answer(answer("failed"))
            sent.set()

    async with (
        raw_service(behaviour) as service,
        Client("key-1", base_url=str(service.url("/openapi/v1")), poll_interval=60) as client,
    ):
        for _ in range(3):
            sent.clear()
            assert (await client.videos.get("t-1")).status == "running"
            await sent.wait()
            await passes()

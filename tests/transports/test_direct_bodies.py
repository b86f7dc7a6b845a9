"""Bodies of requests and responses: streamed, complete or an error, and limited when the send is cancelled."""

import asyncio
import contextlib
import gc
import gzip
import sys
import warnings
from collections.abc import AsyncIterator

import pytest
from aiohttp import StreamReader
from attrs import frozen

from tests.transports import raw_service as raw
from tests.transports.raw_service import raw_service
from tests.transports.sending import LONG, SHORT, create, read, respond, swallowed, until
from vidgen_async.errors import BodyError, TransportError
from vidgen_async.transports.contract.harness import by_both_ways
from vidgen_async.transports.direct.bodies import DirectResponse
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import CHUNK, BytesBody, Delivery, Phase

pytestmark = pytest.mark.slow

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
MANY = 30_000_000


# -- the request's -----------------------------------------------------------------------------------------------------


@by_both_ways
@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 1_000_000])
async def test_a_body_is_sent_completely_and_with_its_length(transport: DirectTransport, size: int, op: str) -> None:
    body = BytesBody(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    async with raw_service(raw.answers) as service:
        for _ in range(2):
            await swallowed(transport, create(service.url(), op=op, body=body))

    whole = b"".join(service.received)
    assert whole.count(f"Content-Length: {size}\r\n".encode()) == 2
    assert b"chunked" not in whole.partition(b"\r\n\r\n")[0]
    assert whole.endswith(body.data)


@by_both_ways
async def test_after_the_cancellation_of_a_large_upload_little_more_is_sent(
    transport: DirectTransport, op: str
) -> None:
    async def reads_late(connection: raw.Connection) -> None:
        connection.writer.transport.pause_reading()
        await cancelled.wait()
        connection.writer.transport.resume_reading()
        await connection.rest()

    cancelled = asyncio.Event()
    async with raw_service(reads_late) as service:
        sending = asyncio.create_task(swallowed(transport, create(service.url(), op=op, body=BytesBody(b"x" * MANY))))
        await until(lambda: bool(service.connections))
        await asyncio.sleep(0.02)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        cancelled.set()
        await service.quiet()

    # What the kernel's buffers hold, instead of everything.
    assert 0 < service.bytes_received < MANY / 3


@frozen
class RecordingBody:
    """Records whether every iterator that was opened was also closed."""

    ends: list[str]
    length: int = 10 * CHUNK
    pieces: int = 10
    size: int = CHUNK
    pause: float = 0
    content_type: str = "video/mp4"

    async def open(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.pieces):
                if self.pause:
                    await asyncio.sleep(self.pause)
                yield b"x" * self.size
        finally:
            self.ends.append("ended")


@by_both_ways
@pytest.mark.parametrize("behaviour", [raw.answers, raw.closes_at_once, raw.reads_nothing], ids=lambda b: b.__name__)
async def test_every_iterator_over_a_body_is_closed(transport: DirectTransport, behaviour, op: str) -> None:
    ends: list[str] = []
    limits = SHORT if behaviour is raw.reads_nothing else LONG
    async with raw_service(behaviour) as service:
        body = RecordingBody(ends, length=30 * CHUNK * 10, pieces=300)
        with contextlib.nullcontext() if behaviour is raw.answers else pytest.raises(TransportError):
            await swallowed(transport, create(service.url(), op=op, body=body, timeouts=limits))
        assert ends == ["ended"]


@by_both_ways
async def test_a_response_may_be_received_before_the_body_is_sent(transport: DirectTransport, op: str) -> None:
    async def refuses(connection: raw.Connection) -> None:
        connection.received += await connection.reader.readuntil(b"\r\n\r\n")
        connection.writer.transport.pause_reading()
        await connection.answer(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno")
        await read_it.wait()

    read_it = asyncio.Event()
    ends: list[str] = []
    async with raw_service(refuses) as service:
        body = RecordingBody(ends, length=MANY // CHUNK * CHUNK, pieces=MANY // CHUNK)
        async with respond(transport, create(service.url(), op=op, body=body)) as response:
            assert (response.status, await response.read()) == (401, b"no")
        # By the response itself: nothing is left for the event loop to finish.
        assert ends == ["ended"]
        read_it.set()


async def test_an_upload_that_makes_progress_does_not_time_out(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        started = asyncio.get_running_loop().time()
        body = RecordingBody([], length=5 * CHUNK, pieces=5, pause=0.4 * SHORT.read)
        request = create(service.url(), op="files.upload", body=body, timeouts=SHORT)
        assert await swallowed(transport, request) == b"ok"
        assert asyncio.get_running_loop().time() - started > 1.5 * SHORT.read


@by_both_ways
@pytest.mark.parametrize(("pieces", "word"), [(9, "shorter"), (11, "longer")])
async def test_a_body_of_another_length_than_declared_is_an_error(
    transport: DirectTransport, pieces: int, word: str, op: str
) -> None:
    async with raw_service(raw.answers) as service:
        body = RecordingBody([], pieces=pieces)
        with pytest.raises(TransportError, match=word):
            await swallowed(transport, create(service.url(), op=op, body=body, timeouts=SHORT))


async def test_pieces_larger_than_a_chunk_are_split(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        await swallowed(transport, create(service.url(), body=RecordingBody([], pieces=1, size=10 * CHUNK)))
    assert service.received[0].endswith(b"\r\n\r\n" + b"x" * 10 * CHUNK)


# -- the answer's ------------------------------------------------------------------------------------------------------


async def test_a_body_that_is_read_slowly_is_received_to_its_end(transport: DirectTransport) -> None:
    async with (
        raw_service(raw.responds(HEAD % MANY + b"x" * MANY)) as service,
        respond(transport, read(service.url())) as response,
    ):
        chunks = response.chunks()
        size = len(await anext(chunks))
        await until(lambda: response._answer.content._protocol._reading_paused)
        assert size + sum([len(chunk) async for chunk in chunks]) == MANY


@by_both_ways
async def test_the_error_of_an_incomplete_body_has_the_number_of_received_bytes(
    transport: DirectTransport, op: str
) -> None:
    async def breaks(connection: raw.Connection) -> None:
        await connection.request()
        await connection.answer(HEAD % 100 + b"x" * 60)
        await taken.wait()

    taken = asyncio.Event()
    async with raw_service(breaks) as service, respond(transport, create(service.url(), op=op)) as response:
        chunks = response.chunks(16)
        pieces = [len(await anext(chunks)) for _ in range(4)]
        taken.set()
        with pytest.raises(BodyError, match="60 bytes were received") as caught:
            await anext(chunks)

    assert pieces == [16, 16, 16, 12]
    assert (caught.value.received, caught.value.delivery, caught.value.phase) == (60, Delivery.ANSWERED, Phase.BODY)
    assert caught.value.op == op


async def test_an_incomplete_body_leaves_nothing_for_the_garbage_collector(transport: DirectTransport) -> None:
    async def breaks(connection: raw.Connection) -> None:
        await connection.request()
        await connection.answer(HEAD % 100 + b"x" * 60)
        await taken.wait()

    taken = asyncio.Event()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        async with raw_service(breaks) as service, await transport.send(read(service.url())) as response:
            taken.set()
            with contextlib.suppress(BodyError):
                await response.read()
        del response
        gc.collect()
        left = [found for found in gc.garbage if isinstance(found, StreamReader | DirectResponse)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()

    assert left == []


async def test_a_long_download_does_not_time_out_while_data_is_received(transport: DirectTransport) -> None:
    async def drips(connection: raw.Connection) -> None:
        await connection.request()
        await connection.answer(HEAD % 8)
        for _ in range(8):
            await asyncio.sleep(SHORT.read / 4)
            await connection.answer(b"x")

    async with raw_service(drips) as service:
        assert await swallowed(transport, read(service.url(), timeouts=SHORT)) == b"x" * 8


@pytest.mark.parametrize("accept", ["identity", "gzip", None])
async def test_with_an_accept_encoding_header_the_bytes_are_returned_as_received(
    transport: DirectTransport, accept
) -> None:
    packed = gzip.compress(b'{"id":"task"}')
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    headers = {"Accept": "application/json"} if accept is None else {"Accept_Encoding": accept}
    async with raw_service(raw.responds(answer)) as service:
        body = await swallowed(transport, read(service.url(), **headers))
    assert body == (b'{"id":"task"}' if accept is None else packed)


@by_both_ways
@pytest.mark.parametrize("debug", [False, True])
async def test_an_unclosed_response_is_warned_about_once(transport: DirectTransport, op: str, debug: bool) -> None:
    asyncio.get_running_loop().set_debug(debug)
    async with raw_service(raw.responds_and_hangs(HEAD % 9 + b"abc")) as service:
        response = await transport.send(create(service.url(), op=op))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del response
            gc.collect()
        await service.quiet()
    assert [str(warning.message) for warning in caught] == [f"{op}: the response was never closed"]


async def test_an_unclosed_response_is_closed_also_where_warnings_are_errors(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(what.exc_type))
    async with raw_service(raw.responds_and_hangs(HEAD % 9 + b"abc")) as service:
        response = await transport.send(read(service.url()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del response
            gc.collect()
        await service.quiet()
    assert raised == [ResourceWarning]


async def test_a_response_read_to_its_end_needs_no_closing(transport: DirectTransport) -> None:
    async with raw_service(raw.answers) as service:
        response = await transport.send(read(service.url()))
        await response.read()
        del response
        gc.collect()
        await swallowed(transport, read(service.url()))
    assert len(service.connections) == 1

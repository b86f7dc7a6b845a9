"""Answers that come byte by byte end at a time limit for the whole answer, on real sockets."""

import asyncio
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from vidgen_async import Client, Timeouts, TransportError
from vidgen_async.errors import BodyError, ResponseTimeoutError

PICTURE = Path(__file__).resolve().parents[2] / "examples" / "boat.png"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


@asynccontextmanager
async def dripping(before: bytes, drip: bytes):
    """A service that sends ``before`` and then ``drip`` again and again; the requests that it received."""
    requests: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(before)
            while not writer.is_closing():
                writer.write(drip)
                await writer.drain()
                await asyncio.sleep(0.005)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/openapi/v1", requests
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await asyncio.sleep(0.01)  # the handlers see it


DRIPS = pytest.mark.parametrize(
    ("before", "drip", "error"),
    [(HEAD, b" ", BodyError), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", ResponseTimeoutError)],
    ids=["body", "head"],
)


@pytest.mark.slow
@DRIPS
@pytest.mark.parametrize("read", ["videos.get", "models.list", "account.get", "files.upload"])
async def test_a_read_whose_answer_drips_ends_at_its_time_limit(before, drip, error, read):
    async with (
        dripping(before, drip) as (base_url, requests),
        Client("key-1", base_url=base_url, timeouts=Timeouts(read=60, answer=0.3), retry_reads_for=0) as client,
    ):
        calls = {
            "videos.get": lambda: client.videos.get("t-1"),
            "models.list": client.models.list,
            "account.get": client.account.get,
            "files.upload": lambda: client.files.upload(PICTURE),
        }
        with pytest.raises(TransportError) as caught:
            await calls[read]()
    assert isinstance(caught.value, error)
    assert len(requests) == 1


@pytest.mark.slow
@DRIPS
async def test_a_poll_whose_answer_drips_is_a_fault_in_the_stats_and_the_next_ones_are_made(before, drip, error):
    async with (
        dripping(before, drip) as (base_url, requests),
        Client("key-1", base_url=base_url, timeouts=Timeouts(answer=0.1), poll_interval=0.2) as client,
    ):
        waiting = asyncio.create_task(client.videos.wait("t-1", timeout=60))
        while len(requests) < 3:  # noqa: ASYNC110 - the service sets no event
            await asyncio.sleep(0.01)
        assert client.watcher.stats.errors[error.__name__] >= 1
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting

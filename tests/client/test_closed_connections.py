"""Services close kept-alive connections at any time: a GET that meets one is sent once more, at once, on a new one."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from vidgen_async import Client, TransportError, UncertainCreateError
from vidgen_async.errors import ConnectionLostError
from vidgen_async.transports import DirectTransport, FakeTransport, RecordingTransport, ReplayTransport

PICTURE = Path(__file__).resolve().parents[2] / "examples" / "boat.png"
TASK = json.dumps({"id": "t-1", "status": "running"}).encode()
DONE = json.dumps({"id": "t-1", "status": "completed"}).encode()


class Service:
    """Answers the first ``answers`` requests on each connection, and closes it at the next one without an answer.

    ``requests`` are those that it received: each the number of its connection and its method.
    """

    def __init__(self, answers: int = 1) -> None:
        self.answers = answers
        self.requests: list[tuple[int, str]] = []
        self.connections = 0
        self.body = TASK
        self.before_close = b""
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections += 1
        number = self.connections
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(self.answers):
                await self._receive(reader, number)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}\r\n\r\n"
                writer.write(head.encode() + self.body)
                await writer.drain()
            await self._receive(reader, number)
            writer.write(self.before_close)
        writer.close()

    async def _receive(self, reader: asyncio.StreamReader, number: int) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append((number, head.split(b" ", 1)[0].decode()))

    @asynccontextmanager
    async def running(self, **options):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/openapi/v1"
        try:
            async with Client("key-1", base_url=base_url, **options) as client:
                yield client
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            await asyncio.sleep(0)


async def test_a_get_that_meets_a_closed_connection_is_sent_once_more_at_once_on_a_new_one():
    service = Service()
    async with service.running(retry_reads_for=0) as client:
        for _ in range(3):
            assert (await client.videos.get("t-1")).status == "running"
    assert service.requests == [(1, "GET"), (1, "GET"), (2, "GET"), (3, "GET")]


async def test_when_all_kept_alive_connections_are_closed_none_of_them_is_tried_a_second_time():
    service = Service()
    async with service.running(retry_reads_for=0) as client:
        await asyncio.gather(*(client.videos.get("t-1") for _ in range(5)))
        pooled = service.connections
        assert (await client.videos.get("t-1")).status == "running"
    assert pooled > 1
    assert service.requests[-1] == (pooled + 1, "GET")
    assert len(service.requests) == 5 + 2


async def test_a_new_connection_that_is_closed_is_a_fault_as_any_other():
    service = Service(answers=0)
    async with service.running(retry_reads_for=0) as client:
        with pytest.raises(TransportError):
            await client.videos.get("t-1")
    assert service.requests == [(1, "GET")]


async def test_a_get_is_not_sent_a_third_time_at_once():
    async def lose(request):
        raise ConnectionLostError(is_reused=True)

    transport = FakeTransport(lose)
    base_url = "https://service.test/openapi/v1"
    async with Client("key-1", base_url=base_url, transport=transport, retry_reads_for=0) as client:
        with pytest.raises(ConnectionLostError):
            await client.videos.get("t-1")
    assert [request.needs_new_connection for request in transport.requests] == [False, True]


async def test_part_of_an_answer_is_a_fault_as_any_other():
    service = Service()
    service.before_close = b"HTTP/1.1 200 OK\r\nContent-Le"
    async with service.running(retry_reads_for=0) as client:
        await client.videos.get("t-1")
        with pytest.raises(TransportError):
            await client.videos.get("t-1")
    assert service.requests == [(1, "GET"), (1, "GET")]


async def test_an_upload_is_not_sent_a_second_time_at_once_for_it():
    service = Service()
    async with service.running(retry_reads_for=0) as client:
        await client.videos.get("t-1")
        with pytest.raises(TransportError):
            await client.files.upload(PICTURE)
    assert service.requests == [(1, "GET"), (1, "POST")]


async def test_a_create_is_never_sent_a_second_time_for_it():
    service = Service()
    async with service.running(retry_reads_for=0) as client:
        await client.videos.get("t-1")
        service.answers = 0
        with pytest.raises(UncertainCreateError):
            await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, validate=False)
    assert [method for _, method in service.requests].count("POST") == 1


async def test_no_poll_is_lost_and_each_is_one_in_the_stats():
    service = Service()
    async with service.running(poll_interval=0.05) as client:
        waiting = asyncio.create_task(client.videos.wait("t-1", timeout=60))
        while client.watcher.stats.polls < 6:  # noqa: ASYNC110 - the watcher sets no event
            await asyncio.sleep(0.01)
        service.body = DONE
        assert (await waiting).status == "completed"
        stats = client.watcher.stats
    assert dict(stats.errors) == {}
    assert len(service.requests) > stats.polls >= 6


async def test_both_sends_are_on_a_cassette_and_are_played_as_they_were(tmp_path):
    path = tmp_path / "calls.json"
    service = Service()
    async with service.running(retry_reads_for=0, transport=RecordingTransport(DirectTransport(), path)) as client:
        for _ in range(2):
            await client.videos.get("t-1")
    recorded = json.loads(path.read_text())["interactions"]
    assert [("error" in one, one.get("error", {}).get("reused")) for one in recorded] == [
        (False, None),
        (True, True),
        (False, None),
    ]

    transport = ReplayTransport(path)
    async with Client("key-1", base_url=str(transport.base_url), transport=transport, retry_reads_for=0) as client:
        for _ in range(2):
            assert (await client.videos.get("t-1")).status == "running"
    transport.check()

"""Polls, other reads and videos have connections of their own: however slow one kind is, the others are not held up."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress

import pytest

from vidgen_async import Client
from vidgen_async.transports import DirectTransport

LIMIT = 2


class Service:
    """Never answers a path with ``slow`` in it, and everything else at once."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
                self.requests.append(path)
                if "slow" in path:
                    continue
                body = json.dumps({"id": path.rpartition("/")[2], "status": "completed", "models": []}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def running(stack: AsyncExitStack) -> tuple[Service, Client]:
    service = Service()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    stack.callback(server.close)
    stack.push_async_callback(service.close)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/openapi/v1"
    transport = DirectTransport(max_connections=LIMIT, max_streams=LIMIT)
    client = Client("key-1", base_url=base_url, transport=transport, poll_interval=0.05, retry_reads_for=0)
    return service, await stack.enter_async_context(client)


async def watch(client: Client, task_id: str) -> None:
    async with client.videos.stream(task_id):
        pass


HELD_UP = {
    "viewers": watch,
    "reads": lambda client, task_id: client.videos.get(task_id),
    "polls": lambda client, task_id: client.videos.wait(task_id, timeout=60),
}


@pytest.mark.parametrize("which", HELD_UP)
async def test_whatever_is_slow_holds_up_its_own_kind_alone(which):
    async with AsyncExitStack() as stack:
        service, client = await running(stack)
        slow = [asyncio.create_task(HELD_UP[which](client, f"slow-{n}")) for n in range(3 * LIMIT)]
        while len(service.requests) < LIMIT:  # noqa: ASYNC110 - the service sets no event
            await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            if which != "polls":
                assert (await client.videos.wait("t-1")).id == "t-1"
            if which != "reads":
                assert (await client.videos.get("t-2")).id == "t-2"
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

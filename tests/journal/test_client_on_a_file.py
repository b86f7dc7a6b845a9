"""A client with its orders in a file, against the sandbox: the requests that it received are the oracle."""

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from vidgen_async import Client, JournalError
from vidgen_async.journal import SqliteJournal
from vidgen_async.sandbox import Sandbox

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
ROOT = Path(__file__).resolve().parents[2]

#: Orders a video, prints its task id, and runs until it is killed.
ORDERS = f"""
import asyncio, sys
from vidgen_async import Client
from vidgen_async.journal import SqliteJournal

async def main():
    async with Client(sys.argv[1], base_url=sys.argv[2], journal=SqliteJournal(sys.argv[3])) as client:
        receipt = await client.videos.create(**{FIELDS!r}, order_id="order-1187")
        print(receipt.task_id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


#: Waits for a video, and is killed before it has saved it.
WAITS = f"""
import asyncio, sys
from vidgen_async import Client
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[3])
    async with Client(sys.argv[1], base_url=sys.argv[2], journal=journal, poll_interval=0.05) as client:
        receipt = await client.videos.create(**{FIELDS!r}, order_id="order-1187")
        with client.orders.handling(receipt):
            task = await client.videos.wait(receipt)
            print(task.id, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def service() -> AsyncIterator[Sandbox]:
    async with Sandbox(queued_for=0, running_for=0) as sandbox:
        yield sandbox


@pytest.fixture
def make_client(service, path):
    def make(**options: object) -> Client:
        journal = SqliteJournal(path)
        return Client(service.api_key, base_url=service.base_url, journal=journal, **options)

    return make


@pytest.fixture
async def start_process(service, path) -> AsyncIterator[Callable[..., Awaitable[Process]]]:
    """Another process, which orders a video."""
    started: list[Process] = []

    async def start(program: str = ORDERS) -> Process:
        arguments = (sys.executable, "-c", program, service.api_key, service.base_url, str(path))
        started.append(await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_same_order_id_gives_the_same_receipt_to_the_next_client(make_client, service):
    async with make_client() as first:
        receipt = await first.videos.create(**FIELDS, order_id="order-1187")
    async with make_client() as second:
        assert await second.videos.create(**FIELDS, order_id="order-1187") == receipt
    assert len(service.creates) == 1


@pytest.mark.slow
async def test_a_terminal_state_that_a_killed_process_received_but_did_not_handle_is_returned_again(
    start_process, make_client, service
):
    other_process = await start_process(WAITS)
    told = (await other_process.stdout.readline()).decode().strip()
    other_process.kill()
    await other_process.wait()
    for expected in ([("order-1187", told)], []):
        async with make_client(poll_interval=0.05) as client:
            outcomes = [outcome async for outcome in client.videos.rewatch(timeout=60)]
            assert [(outcome.order_id, outcome.unwrap().id) for outcome in outcomes] == expected
    assert len(service.creates) == 1


@pytest.mark.slow
async def test_a_receipt_survives_the_kill_of_its_process(start_process, make_client, service):
    other_process = await start_process()
    told = (await other_process.stdout.readline()).decode().strip()
    other_process.kill()
    await other_process.wait()
    async with make_client() as client:
        receipt = await client.videos.create(**FIELDS, order_id="order-1187")
    assert receipt.task_id == told
    assert len(service.creates) == 1


async def test_without_a_journal_nothing_is_sent(make_client, service, path):
    async with make_client() as client:
        path.write_bytes(b"a thesis. " * 1000)
        with pytest.raises(JournalError, match="not a journal"):
            await client.videos.create(**FIELDS, order_id="order-1187")
    assert service.creates == []


async def test_many_orders_at_once_are_one_post_each(make_client, service):
    async with make_client() as first, make_client() as second:
        clients = [first, second] * 20
        creates = (one.videos.create(**FIELDS, order_id=f"order-{n // 4}") for n, one in enumerate(clients))
        receipts = await asyncio.gather(*creates)
    assert len({receipt.task_id for receipt in receipts}) == 10
    assert len(service.creates) == 10

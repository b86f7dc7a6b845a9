"""Processes create hundreds of orders while their PostgreSQL server crashes, ends connections, or is cut off."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import count, cycle
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.proof.lossy_network import Loss, Message
from tests.proof.processes import Processes, connect
from tests.proof.test_kill_storm import Storm

pytestmark = pytest.mark.needs_engines

PROCESSES, ORDERS = 3, 150


@pytest.fixture
def journal(server: PostgresServer) -> str:
    with connect(server.dsn) as database:
        database.execute("DROP SCHEMA IF EXISTS vidgen CASCADE")
    return server.dsn


class ServerStorm(Storm):
    """Processes that create the same orders, and repeat what the journal could not store."""

    def __init__(self, processes: Processes, **options: object) -> None:
        super().__init__(processes, orders=ORDERS, repeats=True, **options)

    async def run_while(self, strike: Callable[[], Awaitable[object]], events: int) -> int:
        """Strike whenever the service has recorded so many more events, until the processes have ended. Return how
        often."""
        workers = [await self.start() for _ in range(PROCESSES)]
        told = [asyncio.ensure_future(worker.ended()) for worker in workers]
        record, strikes, reached = self._processes.record, 0, events
        while not all(each.done() for each in told):
            if len(record.events()) < reached:
                await asyncio.wait(told, timeout=0.01)
            else:
                await strike()
                strikes, reached = strikes + 1, len(record.events()) + events
        for each in told:
            self.told += each.result()
        return strikes

    @property
    def repeated(self) -> list[dict[str, Any]]:
        """The errors of the journal after which a create was called again."""
        return [word for word in self.told if "repeated" in word]


@pytest.fixture
async def service(processes: Processes) -> Processes:
    await processes.start_service(unread=0.1, latency=0.02, seed=4)
    return processes


async def test_crashes_of_the_server_duplicate_no_order_and_lose_no_receipt(service, server):
    async def crash() -> None:
        await asyncio.to_thread(server.stop, "immediate")
        await asyncio.to_thread(server.start)

    storm = ServerStorm(service)
    strikes = await storm.run_while(crash, events=80)
    await storm.check()
    assert strikes >= 2
    assert len(storm.repeated) > strikes


async def test_ended_connections_duplicate_no_order_and_lose_no_receipt(service, server):
    async def end_connections() -> None:
        with connect(server.dsn) as database:
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    storm = ServerStorm(service)
    strikes = await storm.run_while(end_connections, events=30)
    await storm.check()
    assert strikes >= 10


async def test_a_network_that_loses_messages_duplicates_no_order_and_loses_no_receipt(service, network):
    numbers = defaultdict(count)
    losses = cycle(Loss)

    def decide(message: Message) -> Loss | None:
        is_commit = b"COMMIT\0" in message.data
        return next(losses) if next(numbers[is_commit]) % (40 if is_commit else 3000) == 7 else None

    network.decide = decide
    storm = ServerStorm(service, journal=network.dsn, journal_time_limit=0.4, time_limit=1.0)
    await storm.run_while(lambda: asyncio.sleep(0), events=10**6)
    await storm.check()
    assert network.losses >= 20
    assert any(word["may_be_committed"] for word in storm.repeated)

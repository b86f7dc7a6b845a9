"""What a journal in PostgreSQL costs: orders per second beside plain inserts and SQLite, and round trips of an order.

All wait for the same disk. The plain inserts are three commits an order as well, with the same columns and as many
connections, but without the check that the order may be sent, its limit and its locks.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import psycopg
from attrs import asdict

from benchmarks.children import interleaved
from benchmarks.journal import Block, measure_orders, store_order
from benchmarks.journal_peers import OURS as SQLITE
from benchmarks.journal_peers import OrderJournal
from benchmarks.measure import machine, median
from benchmarks.results import Figure, Scale, with_limit, with_ratio
from tests.postgres import PostgresServer, running_server
from vidgen_async.journal import Permission, PostgresJournal, SqliteJournal
from vidgen_async.journal.postgres.pipeline import _translate
from vidgen_async.journal.sql import queries
from vidgen_async.types.orders import Attempt, Evidence, Order, OrderRef

#: The settings of a real server, which the tests do without.
DURABLE = ("fsync=on", "full_page_writes=on", "shared_buffers=128MB")
SOCKET = ".s.PGSQL.5432"
OURS, RAW = "PostgresJournal", "psycopg, plain inserts"
CONCURRENCIES = (1, 10, 100)
#: The round trips of the three operations of an order that may be made.
MOST_ROUND_TRIPS = 8
CONNECTIONS = 4
#: Seconds after which a client that sends nothing waits for a response.
_SILENCE = 0.02
_SCHEMAS = count()


class PlainInserts:
    """One INSERT, and one commit, for each operation."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = f"{dsn}&options=-c%20search_path%3D{schema}"
        self._connections: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        self._orders: dict[OrderRef, Order] = {}

    async def namespace(self, proposed: str) -> str:
        """Open a connection."""
        if self._connections.qsize() < CONNECTIONS:
            self._connections.put_nowait(await psycopg.AsyncConnection.connect(self._dsn, autocommit=True))
        return proposed

    async def intend(self, order: Order) -> Order:
        await self._execute(queries._SQL["add_order"], asdict(order.ref) | queries._to_row(order))
        return self._orders.setdefault(order.ref, order)

    async def begin(self, permission: Permission) -> Attempt:
        attempt = permission.make_attempt()
        facts = queries._to_row(attempt) | {"counted_at": queries._to_column(attempt.counted_at)}
        await self._execute(queries._SQL["add_attempt"], asdict(permission.ref) | facts)
        return attempt

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        await self._execute(queries._SQL["add_evidence"], asdict(ref) | {"n": n} | queries._to_row(evidence))
        return self._orders[ref]

    async def aclose(self) -> None:
        while not self._connections.empty():
            await self._connections.get_nowait().close()

    async def _execute(self, statement: str, parameters: Mapping[str, object]) -> None:
        connection = await self._connections.get()
        try:
            await connection.execute(_translate(statement), parameters)
        finally:
            self._connections.put_nowait(connection)


class CountingProxy:
    """Stands between one client and the server, and counts for how many responses the client waits.

    It withholds what the server sends until the client has sent nothing for a while: a client that does not wait sends
    its next statements meanwhile.
    """

    def __init__(self, server: Path) -> None:
        self._server = server
        self._sent_at = 0.0
        self._is_counted = True
        self.count = 0
        self.handlers: list[asyncio.Task[None]] = []
        """One for each connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handlers += filter(None, [asyncio.current_task()])
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        responses = asyncio.ensure_future(self._forward_responses(from_server, writer))
        try:
            while data := await reader.read(65536):
                self._sent_at, self._is_counted = time.monotonic(), False
                to_server.write(data)
        finally:
            responses.cancel()
            for each in (writer, to_server):
                each.close()

    async def _forward_responses(self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await from_server.read(65536):
            while (remaining := self._sent_at + _SILENCE - time.monotonic()) > 0:  # noqa: ASYNC110 - not for an event
                await asyncio.sleep(remaining)
            self.count += not self._is_counted
            self._is_counted = True
            writer.write(data)


def run(scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as directory, running_server(*DURABLE) as server:
        note = machine(Path(directory))
        for concurrency in CONCURRENCIES:
            orders = max(min(scale.gets, 50), concurrency)
            take = partial(_take, server, Path(directory), orders, concurrency)
            found += figures(concurrency, orders, interleaved((OURS, RAW, SQLITE), scale.rounds, take), note)
        trips = asyncio.run(count_round_trips(server))
    return [
        *found,
        with_limit(Figure("journal in PostgreSQL, an order", "round trips", trips, "in all"), MOST_ROUND_TRIPS),
    ]


def figures(concurrency: int, orders: int, blocks: Mapping[str, Sequence[Block]], note: str) -> Iterator[Figure]:
    """Orders per second, and those of ours as a multiple of the others'."""
    benchmark = f"journal in PostgreSQL, {concurrency} orders at a time"
    for name, found in blocks.items():
        rate = median(orders / block.seconds for block in found)
        ratios = [other.seconds / block.seconds for block, other in zip(found, blocks[RAW], strict=True)]
        figure = Figure(benchmark, name, rate, "orders/s", note=note if name == OURS else "")
        yield figure if name == RAW else with_ratio(figure, RAW, ratios)


async def count_round_trips(server: PostgresServer) -> int:
    """For how many responses an order waits, without those of opening a connection and of reading the clock."""
    with tempfile.TemporaryDirectory(prefix="b-") as directory:
        proxy = CountingProxy(server.directory / SOCKET)
        async with await asyncio.start_unix_server(proxy.serve, Path(directory) / SOCKET):
            journal = PostgresJournal(f"postgresql://postgres@/postgres?host={directory}", max_connections=1)
            counts = []
            for number in range(5):
                await store_order(journal, number)
                counts.append(proxy.count)
            await journal.aclose()
            await asyncio.wait(proxy.handlers)
    return min(after - before for before, after in pairwise(counts))


def _take(server: PostgresServer, directory: Path, orders: int, concurrency: int, name: str) -> Block:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        return asyncio.run(_measure(name, server.dsn, Path(place) / "orders.db", orders, concurrency))


async def _measure(name: str, dsn: str, path: Path, orders: int, concurrency: int) -> Block:
    if name == SQLITE:
        return await measure_orders(SqliteJournal(path), orders, concurrency)
    schema = f"block_{next(_SCHEMAS)}"
    ours = PostgresJournal(dsn, schema=schema, max_connections=CONNECTIONS)
    await ours.namespace("word")  # makes the tables
    journal: OrderJournal = ours
    if name == RAW:
        await ours.aclose()
        journal = PlainInserts(dsn, schema)
    await asyncio.gather(*(journal.namespace("word") for _ in range(CONNECTIONS)))  # opens the connections
    return await measure_orders(journal, orders, concurrency)

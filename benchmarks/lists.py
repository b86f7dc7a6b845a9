"""How long it takes to list few orders beside many others, and to find the tasks that a restarted process watches.

A journal of either size has the same number of orders in each state; all others have ended.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from benchmarks.children import interleaved
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_limit, with_ratio
from tests.postgres import PostgresServer, running_server
from vidgen_async.journal import PostgresJournal, SqliteJournal
from vidgen_async.journal.sql.journal import SqlJournal
from vidgen_async.journal.sql.queries import Database
from vidgen_async.types.orders import OrderState

SERVICE, ACCOUNT = "https://service.test", "default"
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
#: Orders in each state.
FEW = 100
#: So many times more orders are in the larger journal.
TIMES = 5
#: A list of few orders may take so many milliseconds, and so many times as long in the larger journal.
LONGEST, GROWTH = 50, 2
_HOUR = 3600 * 10**6

_STAGE = """
    CASE n - n / :every * :every
    WHEN 1 THEN 'uncertain' WHEN 2 THEN 'queued' WHEN 3 THEN 'rejected' WHEN 4 THEN 'sending' WHEN 5 THEN 'accepted'
    ELSE 'ended' END
"""
_NUMBERED = f"""
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :many),
    numbered AS (
        SELECT n, {_STAGE} AS stage, 'order-' || n AS order_id, 'task-' || n AS task_id, :now + n AS at FROM numbers
    )
"""
#: The statements that store orders.
FILL = (
    f"""
    {_NUMBERED}
    INSERT INTO orders
    (service, account, order_id, idempotency_key, body, created_at, local_images, stage)
    SELECT :service, :account, order_id, 'key-' || n, :body, at, '{{}}', stage FROM numbered
    """,
    f"""
    {_NUMBERED}
    INSERT INTO attempts (service, account, order_id, n, sent_at, deadline_at, kind, "by", reason)
    SELECT :service, :account, order_id, 1, at, at + {_HOUR}, 'create', '', '' FROM numbered WHERE stage <> 'queued'
    """,
    f"""
    {_NUMBERED}
    INSERT INTO evidence
    (service, account, order_id, n, outcome, at, status, task_id, cause, body, extra, answered, headers, candidates)
    SELECT :service, :account, order_id, 1, CASE stage WHEN 'ended' THEN 'accepted' ELSE stage END, at, 202,
    CASE WHEN stage IN ('accepted', 'ended') THEN task_id END, '', :empty, '{{}}', :answered, '[]', '[]'
    FROM numbered WHERE stage NOT IN ('queued', 'sending') ORDER BY n
    """,
    f"""
    {_NUMBERED}
    INSERT INTO results (service, task_id, status, at)
    SELECT :service, task_id, 'completed', at FROM numbered WHERE stage = 'ended'
    """,
)

Read: TypeAlias = Callable[[SqlJournal[Any]], Coroutine[Any, Any, int]]
"""Returns how many it has found."""


async def _list(journal: SqlJournal[Any], **which: Any) -> int:
    return len(await journal.list(SERVICE, ACCOUNT, datetime.now(UTC), **which))


async def _running(journal: SqlJournal[Any]) -> int:
    count, after = 0, 0
    while True:
        page = await journal.running(SERVICE, ACCOUNT, after=after)
        count += len(page.tasks)
        if page.after is None:
            return count
        after = page.after


RUNNING = "running tasks, all pages"
READS: Mapping[str, Read] = {
    "uncertain orders": partial(_list, states=[OrderState.UNCERTAIN]),
    "queued orders": partial(_list, states=[OrderState.QUEUED]),
    "orders that have not ended": partial(_list, is_terminal=False),
    "the newest orders": partial(_list, newest_first=True, limit=FEW),
    RUNNING: _running,
}


def run(scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    sizes = (scale.orders // TIMES, scale.orders)
    with tempfile.TemporaryDirectory() as directory, running_server() as server:
        journals: dict[str, SqlJournal[Any]] = {}
        for many in sizes:
            journals[_name(SQLITE, many)] = sqlite = SqliteJournal(Path(directory) / f"{many}.db")
            journals[_name(POSTGRES, many)] = postgres = PostgresJournal(
                server.dsn, schema=f"with_{many}", time_limit=600
            )
            for filled in (sqlite, postgres):
                asyncio.run(fill(filled, FILL, many, every=many // FEW))
            analyze(server)
        for title, read in READS.items():
            found += figures(title, sizes, interleaved(journals, scale.rounds, partial(_take, journals, read)))
        for journal in journals.values():
            asyncio.run(journal.aclose())
    return found


def figures(title: str, sizes: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    """Milliseconds, and for the larger journal the ratio to the smaller one."""
    is_judged = title != RUNNING  # which reads all receipts
    for kind in (SQLITE, POSTGRES):
        small, large = (_name(kind, many) for many in sizes)
        figure = Figure(title, small, median(seconds[small]) * 1e3, "ms")
        yield with_limit(figure, LONGEST) if is_judged else figure
        figure = Figure(title, large, median(seconds[large]) * 1e3, "ms")
        judge = partial(at_most, GROWTH) if is_judged else None
        yield with_ratio(figure, small, ratios_of(seconds[large], seconds[small]), judge)


def _name(kind: str, many: int) -> str:
    return f"{kind}, {many:,} orders"


def _take(journals: Mapping[str, SqlJournal[Any]], read: Read, name: str) -> float:
    """The seconds of one read."""

    async def measure() -> float:
        begun_at = time.perf_counter()
        found = await read(journals[name])
        seconds = time.perf_counter() - begun_at
        if found != FEW:
            message = f"{name}: found {found} instead of {FEW}"
            raise ValueError(message)
        return seconds

    return asyncio.run(measure())


def analyze(server: PostgresServer) -> None:
    """What the server does by itself after a minute."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


async def fill(journal: SqlJournal[Any], statements: Iterable[str], many: int, *, every: int) -> None:
    """Store so many orders by these statements. Of each so many orders one is in each state; with 1, all have ended."""
    now = int(time.time() * 1e6) - many
    body = b'{"model": "vendorh3", "prompt": "' + b"A paper boat sails at dawn. " * 15 + b'", "duration": 5}'
    facts = {"many": many, "every": every, "now": now, "service": SERVICE, "account": ACCOUNT}
    facts |= {"body": body, "empty": b"", "answered": True}

    def store(db: Database) -> None:
        if isinstance(journal, PostgresJournal):  # triggers that add up so many costs in one transaction take hours
            db.execute("SET LOCAL session_replication_role = replica", {})
        for statement in statements:
            db.execute(statement, facts)

    await journal._write(store)
    await journal.aclose()

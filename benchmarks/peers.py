"""The journals that are compared: ours, none, and three as a careful user would write them.

All of them but ``memory`` keep the same tables, with the same statements, one commit per operation at
``synchronous=FULL``; they differ in who waits for the disk.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import aiosqlite
from attrs import asdict

from vidgen_async.journal import Journal, MemoryJournal, Permission, RunningPage, SqliteJournal
from vidgen_async.journal.base import unknown_order_error
from vidgen_async.journal.sqlite import queries, schema
from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn
from vidgen_async.types.orders import Attempt, Closing, Evidence, Order, OrderRef, OrderState, TaskResult

T = TypeVar("T")


def set_up(mode: str) -> Iterator[str]:
    """What makes a new file the same as ours; all that is measured later is one commit per operation."""
    for setting in (f"journal_mode = {mode}", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON"):
        yield f"PRAGMA {setting}"
    yield "BEGIN IMMEDIATE"
    for statements in schema.MIGRATIONS:
        yield from statements
    yield "COMMIT"


class OnTheLoop(SqliteJournal):
    """Plain sqlite3: the same operations, carried out where they are awaited."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._opened: sqlite3.Connection | None = None

    async def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return self._carry_out(operation)

    async def aclose(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _carry_out(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        if self._opened is None:
            db = self._opened = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            db.row_factory = sqlite3.Row
            for statement in set_up("TRUNCATE"):
                db.execute(statement)
        return operation(self._opened)


class InAThread(OnTheLoop):
    """Plain sqlite3, handed to asyncio.to_thread: one connection, and a lock around each operation."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._turns = asyncio.Lock()

    async def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        async with self._turns:
            return await asyncio.to_thread(self._carry_out, operation)


class Aiosqlite:
    """The same statements through aiosqlite: one connection, and a lock around each transaction."""

    durable = True

    def __init__(self, path: Path, *, mode: str = "TRUNCATE") -> None:
        self._path = path
        self._mode = mode
        self._lock = asyncio.Lock()
        self._opened: aiosqlite.Connection | None = None

    async def namespace(self, proposed: str) -> str:
        async with self._transaction("IMMEDIATE") as db:
            rows = list(await db.execute_fetchall("SELECT word FROM namespace"))
            if not rows:
                await db.execute("INSERT INTO namespace (id, word) VALUES (1, ?)", (proposed,))
            return str(rows[0]["word"]) if rows else proposed

    async def intend(self, order: Order) -> Order:
        facts = queries._to_row(order)
        async with self._transaction("IMMEDIATE") as db:
            await db.execute(queries._ADD_ORDER, asdict(order.ref) | facts)
            return await self._known(db, order.ref)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        async with self._transaction("DEFERRED") as db:
            return await self._turn(db, service, account, pacing, now)

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        ref = permission.ref
        async with self._transaction("IMMEDIATE") as db:
            order = await self._known(db, ref)
            if not permission.matches(order):
                return order
            available = await self._turn(db, ref.service, ref.account, permission.pacing, permission.now)
            if not available.free:
                return available
            attempt = permission.make_attempt()
            facts = queries._to_row(attempt) | {"counted_at": queries._to_column(attempt.counted_at)}
            await db.execute(queries._ADD_ATTEMPT, asdict(ref) | facts)
            return attempt

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        async with self._transaction("IMMEDIATE") as db:
            order = await self._known(db, ref)
            after = order.with_evidence(n, evidence)
            if after != order:
                attempt = asdict(ref) | {"n": n}
                learned = after.attempts[n - 1].evidence or evidence
                await db.execute(queries._ADD_EVIDENCE, attempt | queries._to_row(learned))
                counted = {"counted_at": queries._to_column(after.attempts[n - 1].counted_at)}
                await db.execute(queries._COUNT, attempt | counted)
            return after

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        async with self._transaction("DEFERRED") as db:
            facts = asdict(ref) | {"task_id": task_id}
            rows = list(await db.execute_fetchall(queries._OWNER, facts))
        return OrderRef(service=ref.service, account=rows[0]["account"], order_id=rows[0]["order_id"]) if rows else None

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        async with self._transaction("DEFERRED") as db:
            return await self._read(db, ref)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _read(self, db: aiosqlite.Connection, ref: OrderRef) -> Order | None:
        whose = asdict(ref)

        async def rows(query: str, table: str) -> list[sqlite3.Row]:
            return list(await db.execute_fetchall(f"{query} {queries._OF_ORDER.format(table)}", whose))

        attempts = await rows(queries._ATTEMPTS, "attempts")
        closings = await rows(queries._CLOSINGS, "closings")
        await rows(queries._RESULTS, "evidence")
        for row in await rows(queries._ORDERS, "orders"):
            return Order(
                ref=ref,
                idempotency_key=row["idempotency_key"],
                body=row["body"],
                created_at=queries._at(row["created_at"]),
                attempts=tuple(map(queries._attempt, attempts)),
                closing=queries._from_row(Closing, closings[-1]) if closings else None,
            )
        return None

    async def _known(self, db: aiosqlite.Connection, ref: OrderRef) -> Order:
        order = await self._read(db, ref)
        if order is None:
            raise unknown_order_error(ref)
        return order

    async def _turn(self, db: aiosqlite.Connection, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        since = queries._micros(now - timedelta(seconds=pacing.window) - SLOT_MARGIN)
        whose = {"service": service, "account": account, "since": since, "limit": pacing.limit}
        ((held,),) = await db.execute_fetchall(queries._HELD, whose)
        return Turn(pacing.limit - held, 0.0)

    @asynccontextmanager
    async def _transaction(self, kind: str) -> AsyncIterator[aiosqlite.Connection]:
        async with self._lock:
            db = self._opened = self._opened or await self._open()
            await db.execute(f"BEGIN {kind}")
            try:
                yield db
                await db.execute("COMMIT")
            except BaseException:
                await db.execute("ROLLBACK")
                raise

    async def _open(self) -> aiosqlite.Connection:
        db = await aiosqlite.connect(self._path, isolation_level=None)
        db.row_factory = sqlite3.Row
        for statement in set_up(self._mode):
            await db.execute(statement)
        return db

    # A create needs none of these.

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        raise NotImplementedError

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        raise NotImplementedError

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        raise NotImplementedError

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        raise NotImplementedError

    async def list(self, service: str, account: str, now: datetime, *, is_terminal: bool | None = None) -> list[Order]:
        raise NotImplementedError

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        raise NotImplementedError


MakeJournal = Callable[[Path], Journal]

#: Ours first: the ratios are to it. The write-ahead log is there for information: with it, an SQLite before 3.51.3 can
#: lose a commit when two processes write.
PEERS: dict[str, MakeJournal] = {
    "SqliteJournal": SqliteJournal,
    "aiosqlite": Aiosqlite,
    "sqlite3 in to_thread": InAThread,
    "sqlite3 on the loop": OnTheLoop,
    "aiosqlite, WAL": lambda path: Aiosqlite(path, mode="WAL"),
    "no journal (memory)": lambda _: MemoryJournal(),
}

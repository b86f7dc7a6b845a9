"""The journals that are compared: ours, none, and those that a careful user would write.

All but the one in memory have the same tables, with the same statements, and make one commit per operation with
``synchronous=FULL``; they differ in which thread waits for the disk.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiosqlite
from attrs import asdict

from vidgen_async.journal import MemoryJournal, MustWait, OrderChanged, Permission, SqliteJournal
from vidgen_async.journal.base import unknown_order_error
from vidgen_async.journal.sql import queries
from vidgen_async.journal.sqlite import file_lock, schema  # names in them are not those of an earlier version
from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn
from vidgen_async.types.orders import Attempt, Closing, Evidence, Order, OrderRef

T = TypeVar("T")


class OrderJournal(Protocol):
    """The operations of a journal that an order needs."""

    async def namespace(self, proposed: str) -> str: ...

    async def intend(self, order: Order) -> Order: ...

    async def begin(self, permission: Permission) -> Attempt: ...

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order: ...

    async def aclose(self) -> None: ...


def set_up(mode: str) -> Iterator[str]:
    """The statements that make a new file the same as ours."""
    for setting in (f"journal_mode = {mode}", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON"):
        yield f"PRAGMA {setting}"
    yield "BEGIN IMMEDIATE"
    for statements in schema.MIGRATIONS:
        yield from statements
    yield "COMMIT"


class OnTheLoop(SqliteJournal):
    """Plain sqlite3: the same operations, executed by the coroutine that awaits them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._opened: file_lock.LockedConnection | None = None

    async def _run(self, operation: Callable[[file_lock.LockedConnection], T], kind: str | None = None) -> T:
        return self._execute(operation, kind)

    async def aclose(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _execute(self, operation: Callable[[file_lock.LockedConnection], T], kind: str | None) -> T:
        if self._opened is None:
            db = self._opened = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, factory=file_lock.LockedConnection
            )
            db.row_factory = sqlite3.Row
            for statement in set_up("TRUNCATE"):
                db.execute(statement)
        with nullcontext() if kind is None else file_lock.transaction(self._opened, kind):
            return operation(self._opened)


class InAThread(OnTheLoop):
    """Plain sqlite3 in asyncio.to_thread: one connection, and a lock around each operation."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock_of_operations = asyncio.Lock()

    async def _run(self, operation: Callable[[file_lock.LockedConnection], T], kind: str | None = None) -> T:
        async with self._lock_of_operations:
            return await asyncio.to_thread(self._execute, operation, kind)


class Aiosqlite:
    """The same statements through aiosqlite: one connection, and a lock around each transaction."""

    def __init__(self, path: Path, *, mode: str = "TRUNCATE") -> None:
        self._path = path
        self._mode = mode
        self._lock = asyncio.Lock()
        self._opened: aiosqlite.Connection | None = None

    async def namespace(self, proposed: str) -> str:
        async with self._transaction():
            return proposed

    async def intend(self, order: Order) -> Order:
        async with self._transaction() as db:
            await db.execute(queries._SQL["add_order"], asdict(order.ref) | queries._to_row(order))
            return await self._read(db, order.ref)

    async def begin(self, permission: Permission) -> Attempt:
        ref, pacing = permission.ref, permission.pacing or Pacing()
        async with self._transaction() as db:
            order = await self._read(db, ref)
            if not permission.matches(order):
                raise OrderChanged(order)
            since = queries._micros(permission.now) - int(1e6 * (pacing.window + SLOT_MARGIN.total_seconds()))
            window = {"service": ref.service, "account": ref.account, "since": since}
            held = queries._SQL["count_held_slots"], window | {"newest_at": since, "limit": pacing.limit}
            ((used, _),) = await db.execute_fetchall(*held)
            if used >= pacing.limit:
                raise MustWait(Turn(0, 0.0))
            attempt = permission.make_attempt()
            facts = queries._to_row(attempt) | {"counted_at": queries._to_column(attempt.counted_at)}
            await db.execute(queries._SQL["add_attempt"], asdict(ref) | facts)
            await self._store_stage(db, order.with_attempt(attempt))
            return attempt

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        async with self._transaction() as db:
            after = (await self._read(db, ref)).with_evidence(n, evidence)
            attempt = asdict(ref) | {"n": n}
            await db.execute(queries._SQL["add_evidence"], attempt | queries._to_row(evidence))
            counted_at = queries._to_column(after.attempts[n - 1].counted_at)
            await db.execute(queries._SQL["set_counted_at"], attempt | {"counted_at": counted_at})
            await self._store_stage(db, after)
            return after

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _store_stage(self, db: aiosqlite.Connection, order: Order) -> None:
        await db.execute(queries._SQL["set_stage_of_order"], asdict(order.ref) | {"state": order.state})

    async def _read(self, db: aiosqlite.Connection, ref: OrderRef) -> Order:
        async def rows(name: str) -> list[Any]:
            query = queries._SQL[name].replace("{which}", "= :order_id")
            return list(await db.execute_fetchall(query, asdict(ref)))

        attempts = await rows("read_attempts")
        for row in await rows("read_orders"):
            return Order(
                ref=ref,
                idempotency_key=row["idempotency_key"],
                body=row["body"],
                created_at=queries._at(row["created_at"]),
                attempts=tuple(map(queries._attempt, attempts)),
                closing=None if row["state"] is None else queries._from_row(Closing, row),
            )
        raise unknown_order_error(ref)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[aiosqlite.Connection]:
        async with self._lock:
            db = self._opened = self._opened or await self._open()
            await db.execute("BEGIN IMMEDIATE")
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


OURS, NONE = "SqliteJournal", "no journal (memory)"
#: The write-ahead log is for information: with SQLite before 3.51.3, two processes that write may lose a commit.
PEERS: Mapping[str, Callable[[Path], OrderJournal]] = {
    OURS: SqliteJournal,
    "aiosqlite": Aiosqlite,
    "sqlite3 in to_thread": InAThread,
    "sqlite3 on the loop": OnTheLoop,
    "aiosqlite, WAL": lambda path: Aiosqlite(path, mode="WAL"),
    NONE: lambda _: MemoryJournal(),
}

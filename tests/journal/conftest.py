"""Journals, and orders to write into them."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psycopg
import pytest
from attrs import Factory, mutable

from tests.postgres import any_server, new_database
from vidgen_async.journal import Journal, MemoryJournal, Permission, SqliteJournal
from vidgen_async.journal.postgres.journal import PostgresJournal
from vidgen_async.journal.sql import groups, queries
from vidgen_async.journal.sql.queries import Database
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef, OrderState

#: A directory in memory, where there is one.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SERVICE = "https://h"
ACCOUNT = "a"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
DEADLINE = timedelta(seconds=130)
SENDABLE = frozenset({OrderState.QUEUED, OrderState.REJECTED})

TABLES = ("namespace", "orders", "attempts", "evidence", "closings", "results", "candidates", "spending")

MakeJournal: TypeAlias = Callable[[], Journal]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ref_of(order_id: str = "o", *, account: str = ACCOUNT, service: str = SERVICE) -> OrderRef:
    return OrderRef(service=service, account=account, order_id=order_id)


def order_of(order_id: str = "o", *, body: bytes = b'{"prompt": "a paper boat"}', **whose: str) -> Order:
    ref = ref_of(order_id, **whose)
    return Order(ref=ref, idempotency_key=f"key-of-{order_id}", body=body, created_at=NOW)


def permission(
    order_id: str = "o",
    *,
    expect_attempt: int = 0,
    states: frozenset[OrderState] = SENDABLE,
    now: datetime = NOW,
    limit: int = 100,
    account: str = ACCOUNT,
    **words: str,
) -> Permission:
    return Permission(
        ref=ref_of(order_id, account=account),
        expect_attempt=expect_attempt,
        states=states,
        now=now,
        deadline_at=now + DEADLINE,
        pacing=Pacing(limit=limit),
        **words,
    )


def evidence(outcome: AttemptOutcome, at: datetime = NOW, **facts: object) -> Evidence:
    return Evidence(outcome=outcome, at=at, **facts)


def accepted(task_id: str = "task-1", at: datetime = NOW) -> Evidence:
    return evidence(AttemptOutcome.ACCEPTED, at, task_id=task_id, status=202, answered=True)


def uncertain(at: datetime = NOW, **facts: object) -> Evidence:
    return evidence(AttemptOutcome.UNCERTAIN, at, **facts)


def rejected(at: datetime = NOW, **facts: object) -> Evidence:
    return evidence(AttemptOutcome.REJECTED, at, status=429, answered=True, **facts)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """The rows that any SQLite tool reads from the file."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


async def sending(journal: Journal, order_id: str = "o", *, now: datetime = NOW, **more: object) -> Attempt:
    """An order that is being sent."""
    await journal.intend(order_of(order_id))
    return await journal.begin(permission(order_id, now=now, **more))


class HeldLock:
    """A lock that another thread of the parent process held when it was forked."""

    def __enter__(self) -> None:
        pytest.fail("this would wait for good")

    def __exit__(self, *error: object) -> None:
        """It is never held."""


@mutable(eq=False)
class Holding:
    """The first order that is stored waits for ``end``, and with it all that is asked for meanwhile."""

    begun: threading.Event = Factory(threading.Event)
    end: threading.Event = Factory(threading.Event)
    failures: dict[str, Callable[[Database], object]] = Factory(dict)
    """What is executed when an order is stored, by its id."""
    stored: list[str] = Factory(list)

    async def gather(self, journal: Journal, *names: str) -> list[Any]:
        """The orders, or errors, of operations that wait together."""
        operations = await self.start(journal, *names)
        self.end.set()
        return await asyncio.gather(*operations, return_exceptions=True)

    async def start(self, journal: Journal, *names: str) -> list["asyncio.Future[Order]"]:
        await journal.namespace("a word")  # opens it
        first = asyncio.ensure_future(journal.intend(order_of("first")))
        assert await asyncio.to_thread(self.begun.wait, 30)
        others = [asyncio.ensure_future(journal.intend(order_of(name))) for name in names]
        await asyncio.sleep(0)
        return [first, *others]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory in memory if possible: no test here is about a loss of power, so commits need no disk."""
    with TemporaryDirectory(prefix="vidgen-", dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


@pytest.fixture
async def open_file(path: Path) -> AsyncIterator[Callable[..., SqliteJournal]]:
    """Another journal on the same file."""
    made: list[SqliteJournal] = []

    def make(place: Path = path, **options: float) -> SqliteJournal:
        made.append(SqliteJournal(place, **options))
        return made[-1]

    yield make
    for journal in made:
        await journal.aclose()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_journal(request: pytest.FixtureRequest) -> MakeJournal:
    """Opens another journal on the same orders; for orders in memory it is the same journal."""
    if request.param == "memory":
        journal = MemoryJournal()
        return lambda: journal
    return request.getfixturevalue({"sqlite": "open_file", "postgres": "open_database"}[request.param])


@pytest.fixture
async def open_database(postgres: str) -> AsyncIterator[MakeJournal]:
    """Another journal in the same tables, which are empty when the test begins."""
    made: list[PostgresJournal] = []

    def make(**options: object) -> PostgresJournal:
        made.append(PostgresJournal(postgres, **{"schema": "tests", "max_connections": 2, **options}))
        return made[-1]

    first = make()
    await first.owner(ref_of(), "creates the tables")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("TRUNCATE " + ", ".join(f"tests.{table}" for table in TABLES) + " RESTART IDENTITY")
    yield make
    for journal in made:
        await journal.aclose()
        if journal._sender_lock is not None:  # as when its process ends, also if an attempt has no outcome
            journal._sender_lock.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a PostgreSQL database that no other process of the tests uses."""
    with any_server() as server, new_database(server) as database:
        yield database


@pytest.fixture
def journal(open_journal: MakeJournal) -> Journal:
    return open_journal()


@pytest.fixture
def other(open_journal: MakeJournal) -> Journal:
    """The journal as another process would open it."""
    return open_journal()


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Holding]:
    monkeypatch.setattr(groups, "LONGEST_GROUP", 1000.0)
    holding, add_order = Holding(), queries.add_order

    def add(db: Database, order: Order) -> object:
        if order.order_id == "first" and not holding.begun.is_set():
            holding.begun.set()
            assert holding.end.wait(30)
        holding.stored.append(order.order_id)
        found = add_order(db, order)
        if order.order_id in holding.failures:
            holding.failures[order.order_id](db)
        return found

    monkeypatch.setattr(queries, "add_order", add)
    yield holding
    holding.end.set()

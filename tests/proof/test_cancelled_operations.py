"""An operation of the journal whose caller goes away: carried out whole, or never begun, wherever it is just then."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.journal.conftest import (
    ACCOUNT,
    NOW,
    SERVICE,
    TABLES,
    accepted,
    after,
    order_of,
    permission,
    ref_of,
    sending,
    uncertain,
)
from tests.proof.cancelling import Pause, comes_true, threads
from tests.proof.processes import connect, on_each_journal
from vidgen_async.journal import Journal, PostgresJournal, SqliteJournal
from vidgen_async.journal.postgres.connections import Connections
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, Closing, OrderState, TaskResult

Rows: TypeAlias = list[object]
OPERATIONS: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "namespace": lambda journal: journal.namespace("word"),
    "intend": lambda journal: journal.intend(order_of("new")),
    "turn": lambda journal: journal.turn(SERVICE, ACCOUNT, Pacing(), NOW),
    "begin": lambda journal: journal.begin(permission("queued")),
    "settle": lambda journal: journal.settle(ref_of("sending"), 1, accepted("task-2")),
    "confirm": lambda journal: journal.confirm(ref_of("uncertain"), 1, accepted("task-2")),
    "close_order": lambda journal: journal.close_order(ref_of("uncertain"), ABANDONED, {OrderState.UNCERTAIN}),
    "adopt": lambda journal: journal.adopt(ref_of("uncertain"), ADOPTED, {OrderState.UNCERTAIN}),
    "owner": lambda journal: journal.owner(ref_of("sending"), "task-1"),
    "record": lambda journal: journal.record(SERVICE, [TaskResult(task_id="task-1", status="completed", at=NOW)]),
    "get": lambda journal: journal.get(ref_of("sending"), after(1000)),
    "list": lambda journal: journal.list(SERVICE, ACCOUNT, after(1000)),
    "running": lambda journal: journal.running(SERVICE, ACCOUNT),
}
ABANDONED = Closing(state=OrderState.ABANDONED, at=NOW, reason="given up")
ADOPTED = Attempt(n=0, sent_at=NOW, deadline_at=NOW, kind="adopt", evidence=accepted("task-3"))


class Files:
    """Journals in files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "0.db"
        self._record = b""

    async def prepare(self) -> None:
        await write_record(SqliteJournal(self._path))
        self._record = self._path.read_bytes()

    async def open_record(self) -> SqliteJournal:
        """A journal with an order in each state."""
        self._path = self._directory / f"{int(self._path.stem) + 1}.db"
        self._path.touch(mode=0o600)
        self._path.write_bytes(self._record)
        return SqliteJournal(self._path)

    def rows(self) -> Rows:
        """What is stored by the journal that was opened last, without the numbers of files and random bytes."""
        with closing(sqlite3.connect(self._path)) as db:
            return [re.sub(r"'\d+:\d+'", "'a session'", line) for line in db.iterdump()]

    def close(self) -> None:
        """Nothing is open."""


#: Empties the tables and fills them with the record, without triggers.
RESTORE = ";".join(
    (
        "SET session_replication_role = replica",
        *(f"DELETE FROM {table}" for table in reversed(TABLES)),  # noqa: S608 - names of tables
        *(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM record.{table}" for table in TABLES),  # noqa: S608
        *(f"ALTER TABLE {table} ALTER id RESTART WITH 1000" for table in ("orders", "evidence", "closings")),
        "SET session_replication_role = origin",
    )
)
READ = " UNION ALL ".join(f"SELECT '{table}', to_jsonb(t) FROM {table} AS t" for table in TABLES)  # noqa: S608


class Tables:
    """Journals in PostgreSQL, all in the same tables."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._db = connect(dsn)

    async def prepare(self) -> None:
        self._db.execute("DROP SCHEMA IF EXISTS record CASCADE")
        await write_record(PostgresJournal(self._dsn))
        self._db.execute("ALTER SCHEMA vidgen RENAME TO record")
        journal = PostgresJournal(self._dsn)
        await journal.get(ref_of(), NOW)
        await journal.aclose()

    async def open_record(self) -> PostgresJournal:
        """A journal with an order in each state, which executes one operation at a time and holds its lock."""
        self._db.execute(RESTORE)
        journal = PostgresJournal(self._dsn, max_connections=1)
        await journal._submit(Connections.hold_session_lock)
        return journal

    def rows(self) -> Rows:
        """What is stored; sessions, which are random numbers, only as whether there is one."""
        rows = self._db.execute(READ).fetchall()
        for _, row in rows:
            if "session" in row:
                row["session"] = row["session"] is not None
        return sorted(rows, key=str)

    def close(self) -> None:
        self._db.close()


async def write_record(journal: SqliteJournal | PostgresJournal) -> None:
    await journal.intend(order_of("queued"))
    for name, evidence in {"sending": None, "uncertain": uncertain(), "accepted": accepted("task-1")}.items():
        await sending(journal, name)
        if evidence is not None:
            await journal.settle(ref_of(name), 1, evidence)
    await journal.aclose()


@pytest.fixture
async def journals(journal: str, tmp_path: Path) -> AsyncIterator[Files | Tables]:
    made = Files(tmp_path) if journal.startswith("sqlite:") else Tables(journal)
    await made.prepare()
    yield made
    made.close()


@pytest.mark.slow
@on_each_journal
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_journal_operation_whose_caller_is_cancelled_at_any_statement_is_completed(journals, name, monkeypatch):
    journal = await journals.open_record()
    before = journals.rows()
    await OPERATIONS[name](journal)
    await journal.aclose()
    complete = [journals.rows()]
    # They read first; that a deadline has passed is written in a transaction of its own.
    allowed = [before, *complete] if name in {"get", "list"} else complete

    for at in count(1):
        journal = await journals.open_record()
        pause = Pause(at)
        with monkeypatch.context() as patch:
            await pause.apply_to(journal, patch)
            caller = asyncio.ensure_future(OPERATIONS[name](journal))
            await comes_true(lambda pause=pause, caller=caller: pause.is_reached.is_set() or caller.done())
            is_over = caller.done()
            caller.cancel()
            await asyncio.wait({caller})
            pause.go_on.set()
            await journal.aclose()
        assert journals.rows() in allowed
        if is_over:
            break
        assert caller.cancelled()
    assert at > 1
    assert threads() == set()


@on_each_journal
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_journal_operation_whose_caller_is_cancelled_before_it_begins_never_begins(journals, name, monkeypatch):
    journal = await journals.open_record()
    before = journals.rows()
    pause = Pause(1)
    await pause.apply_to(journal, monkeypatch)
    first = asyncio.ensure_future(journal.owner(ref_of("sending"), "task-1"))
    await comes_true(pause.is_reached.is_set)
    caller = asyncio.ensure_future(OPERATIONS[name](journal))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    pause.go_on.set()
    await first
    await journal.aclose()
    assert journals.rows() == before


@on_each_journal
async def test_a_cancelled_aclose_of_a_journal_still_ends_its_thread(journals, monkeypatch):
    journal = await journals.open_record()
    pause = Pause(1)
    await pause.apply_to(journal, monkeypatch)
    last = asyncio.ensure_future(journal.namespace("word"))
    await comes_true(pause.is_reached.is_set)
    closing_it = asyncio.ensure_future(journal.aclose())
    await asyncio.sleep(0)
    closing_it.cancel()
    await asyncio.wait({closing_it})
    pause.go_on.set()
    assert await last == "word"
    await comes_true(lambda: threads() == set())

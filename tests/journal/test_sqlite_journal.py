"""The promises of a journal in a file, in addition to those of every journal."""

import asyncio
import logging
import os
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.journal.conftest import (
    ACCOUNT,
    NOW,
    SERVICE,
    accepted,
    after,
    evidence,
    order_of,
    permission,
    ref_of,
    rejected,
    rows,
    sending,
    uncertain,
)
from vidgen_async.errors import JournalError
from vidgen_async.journal import Journal, MemoryJournal, MustWait, OrderChanged, SqliteJournal
from vidgen_async.journal.sql import queries
from vidgen_async.journal.sql.queries import _SQL, _micros
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, AttemptOutcome, Closing, OrderState, TaskResult

RESENDABLE = frozenset({OrderState.UNCERTAIN})


@pytest.fixture
def journal(open_file) -> SqliteJournal:
    return open_file()


# -- what survives -----------------------------------------------------------------------------------------------------


def test_an_sqlite_journal_is_durable(path):
    journal: Journal = SqliteJournal(path)
    assert journal.durable is True
    assert repr(journal) == f"SqliteJournal({str(path)!r})"


def test_a_journal_that_could_not_be_made_can_be_shown():
    assert repr(SqliteJournal.__new__(SqliteJournal)) == "SqliteJournal('')"


async def test_all_orders_are_available_after_the_file_was_closed_and_reopened(journal, open_file):
    word = await journal.namespace("word")
    await sending(journal, "a")
    await journal.settle(ref_of("a"), 1, uncertain(cause="lost", body=b"half an ans"))
    await journal.close_order(ref_of("a"), Closing(state=OrderState.ABANDONED, at=NOW, reason="x"), RESENDABLE)
    await sending(journal, "b")
    await journal.settle(ref_of("b"), 1, accepted())
    before = await journal.list(SERVICE, ACCOUNT, NOW)
    await journal.aclose()

    again = open_file()

    assert await again.list(SERVICE, ACCOUNT, NOW) == before
    assert await again.namespace("another") == word


async def test_every_closing_and_every_evidence_remains_in_the_file(journal, path):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain(after(1), cause="lost", body=b"half an ans"))
    for by, state in (("Ann", OrderState.ABANDONED), ("Bob", OrderState.WITHDRAWN)):
        word = Closing(state=state, at=after(2), reason=f"said {by}", by=by)
        await journal.close_order(ref_of(), word, {OrderState.UNCERTAIN, OrderState.ABANDONED})
    await journal.settle(ref_of(), 1, accepted(at=after(3)))
    await journal.aclose()

    assert rows(path, 'SELECT state, reason, "by" FROM closings ORDER BY id') == [
        ("abandoned", "said Ann", "Ann"),
        ("withdrawn", "said Bob", "Bob"),
    ]
    assert rows(path, "SELECT outcome, cause, body FROM evidence ORDER BY id") == [
        ("uncertain", "lost", b"half an ans"),
        ("accepted", "", b""),
    ]


async def test_evidence_that_adds_nothing_is_not_written(journal, path):
    await sending(journal)
    for _ in range(3):
        await journal.settle(ref_of(), 1, accepted())
    await journal.settle(ref_of(), 1, uncertain())
    await journal.aclose()
    assert rows(path, "SELECT outcome FROM evidence") == [("accepted",)]


async def test_a_lone_surrogate_does_not_prevent_storing_a_receipt(journal):
    await sending(journal)
    told = evidence(AttemptOutcome.ACCEPTED, task_id="task-1", cause="it said \udc80")
    assert (await journal.settle(ref_of(), 1, told)).receipt.task_id == "task-1"
    assert (await journal.get(ref_of(), NOW)).attempts[0].evidence.cause == r"it said \udc80"


async def test_a_closed_journal_can_be_used_again(journal):
    await journal.intend(order_of("a"))
    await journal.aclose()
    await journal.intend(order_of("b"))
    assert [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW)] == ["a", "b"]


# -- the file ----------------------------------------------------------------------------------------------------------


async def test_only_the_owner_can_access_the_file_and_those_beside_it(journal, path):
    usual = os.umask(0)
    try:
        await journal.intend(order_of())
    finally:
        os.umask(usual)
    files = list(path.parent.iterdir())
    assert path in files
    assert len(files) > 1
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_a_file_that_all_users_can_read_is_reported_and_not_changed(journal, path, caplog):
    path.touch()
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, logger="vidgen_async"):
        await journal.intend(order_of())
        await journal.intend(order_of("another"))
    assert path.stat().st_mode & 0o777 == 0o644
    assert [record.message for record in caplog.records] == [f"journal {path}: everyone has access (mode 644)"]


async def test_a_relative_path_is_the_same_file_after_a_change_of_directory(tmp_path, monkeypatch, open_file):
    monkeypatch.chdir(tmp_path)
    journal = open_file(Path("orders.db"))
    monkeypatch.chdir("/")
    await journal.intend(order_of())
    assert (tmp_path / "orders.db").exists()


async def test_the_missing_target_of_a_link_is_created_for_its_owner_only(tmp_path, path, journal):
    target = tmp_path / "elsewhere.db"
    path.symlink_to(target)
    await journal.intend(order_of())
    assert target.stat().st_mode & 0o777 == 0o600


async def test_every_commit_is_durable_and_safe_with_several_writers(journal):
    await journal.intend(order_of())
    pragmas = ("journal_mode", "synchronous", "foreign_keys")
    found = await journal._run(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas])
    assert found == ["truncate", 2, 1]


DECISIONS = {
    "namespace": lambda journal: journal.namespace("word"),
    "begin": lambda journal: journal.begin(permission()),
    "settle": lambda journal: journal.settle(ref_of("late"), 1, accepted()),
    "close_order": lambda journal: journal.close_order(
        ref_of(), Closing(state=OrderState.WITHDRAWN, at=NOW, reason=""), {OrderState.QUEUED}
    ),
    "get, past a deadline": lambda journal: journal.get(ref_of("late"), after(140)),
}


@pytest.mark.parametrize("operation", DECISIONS.values(), ids=DECISIONS.keys())
async def test_no_other_writer_can_write_between_the_reads_and_writes_of_an_operation(
    journal, path, monkeypatch, operation
):
    def reading(name: str) -> Callable[..., object]:
        read = getattr(queries, name)

        def read_and_look(*facts: object) -> object:
            found = read(*facts)
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as stranger:
                try:
                    stranger.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    is_alone.append(True)
                else:
                    is_alone.append(False)
            return found

        return read_and_look

    await journal.intend(order_of())
    await sending(journal, "late")
    is_alone: list[bool] = []
    for name in ("read_order", "read_namespace"):
        monkeypatch.setattr(queries, name, reading(name))

    await operation(journal)

    assert is_alone[-1]  # what it read last is what it decided on


# -- many orders -------------------------------------------------------------------------------------------------------


async def statements(journal: SqliteJournal, operation: Awaitable[object]) -> list[str]:
    seen: list[str] = []
    await journal._run(lambda db: db.set_trace_callback(seen.append))
    await operation
    await journal._run(lambda db: db.set_trace_callback(None))
    return seen


async def test_listing_takes_as_many_statements_for_many_orders_as_for_one(journal):
    await sending(journal, "first")
    few = await statements(journal, journal.list(SERVICE, ACCOUNT, NOW))
    for number in range(50):
        await sending(journal, f"order-{number}")
    many = await statements(journal, journal.list(SERVICE, ACCOUNT, NOW))
    assert len(many) == len(few)


#: A table of one row; parts of statements; and one that reads all attempts of an account, once for each client.
SCANS = {"read_namespace", "set_costs", "verify_costs", "costs", "adopted", "open"}


@pytest.mark.parametrize(
    "name", [name for name, text in _SQL.items() if text.startswith(("SELECT", "UPDATE")) and name not in SCANS]
)
async def test_no_query_scans_a_whole_table(journal, name):
    query = _SQL[name].replace("{which}", _SQL["of_rows"]).replace("{rows}", "1")
    await sending(journal)
    facts = {"service": SERVICE, "account": ACCOUNT, "order_id": "o", "since": 0, "task_id": "task-1"}
    facts |= {"after": 0, "until": 9, "size": 9, "stage": "queued", "state": "queued", "n": 1, "counted_at": 0}
    facts |= {"minute": 0, "day": 86400, "seconds": 60, "first": 0, "end": 9, "newest_at": 0, "limit": 9}
    plan = await journal._run(lambda db: [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", facts)])
    assert plan
    assert not [step for step in plan if step.startswith("SCAN") and step not in ("SCAN held", "SCAN sums")]


async def test_a_page_of_running_tasks_reads_a_range_of_ids_and_not_all_rows_of_the_account(journal):
    facts = {"service": SERVICE, "account": ACCOUNT, "after": 0, "until": 9}
    plan = await journal._run(
        lambda db: [row["detail"] for row in db.execute("EXPLAIN QUERY PLAN " + _SQL["read_running"], facts)]
    )
    assert [step for step in plan if "_by_account (service=? AND account=? AND rowid>? AND rowid<?)" in step]


@pytest.mark.parametrize("query", [_SQL["find_oldest"], _SQL["find_newest"]])
async def test_a_page_of_a_list_reads_the_first_orders_of_a_range_of_the_index(journal, query):
    facts = {"service": SERVICE, "account": ACCOUNT, "after": 0, "since": 0, "size": 9, "stage": "queued"}
    (step,) = await journal._run(lambda db: [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", facts)])
    assert "USING COVERING INDEX orders_by_stage (service=? AND account=? AND stage=? AND id" in step


async def test_a_create_is_carried_out_between_two_pages_of_a_list(journal, monkeypatch):
    monkeypatch.setattr("vidgen_async.journal.sql.journal.LIST_PAGE", 2)
    for number in range(20):
        await journal.intend(order_of(f"order-{number}"))

    listing = asyncio.ensure_future(journal.list(SERVICE, ACCOUNT, NOW))
    await asyncio.sleep(0)
    await journal.intend(order_of("new"))

    assert not listing.done()
    assert len(await listing) == 21


async def test_a_transaction_that_is_repeated_records_all_results(open_file, monkeypatch):
    journal = open_file()
    await sending(journal)
    await journal.settle(ref_of(), 1, accepted())
    write = journal._write

    async def write_twice(operation, *locked):
        def fail(db):
            operation(db)
            raise sqlite3.OperationalError("the connection was lost")

        with pytest.raises(JournalError):
            await write(fail, *locked)
        return await write(operation, *locked)

    monkeypatch.setattr(journal, "_write", write_twice)
    result = TaskResult(task_id="task-1", status="completed", at=NOW)
    await journal.record(SERVICE, (each for each in [result]))

    order = await journal.get(ref_of(), NOW)
    assert order is not None
    assert order.results == (result,)


async def test_an_operation_succeeds_although_another_thread_closes_the_journal_at_its_start(path):
    class ClosedAfterARead(SqliteJournal):
        is_being_closed = False

        @property
        def _database(self):
            database = self.stored
            if self.is_being_closed:
                self.stored, self.is_being_closed = None, False
            return database

        @_database.setter
        def _database(self, database):
            self.stored = database

    journal = ClosedAfterARead(path)
    await journal.intend(order_of())
    first, journal.is_being_closed = journal.stored, True

    assert await journal.get(ref_of(), NOW) is not None
    assert journal.stored is not first
    await first.aclose()
    await journal.aclose()


async def test_pacing_reads_only_attempts_that_can_hold_a_slot(journal):
    for number in range(20):
        await sending(journal, f"old-{number}")
        await journal.settle(ref_of(f"old-{number}"), 1, accepted(at=after(1)))
    await sending(journal, "new", now=after(100))
    facts = {"service": SERVICE, "account": ACCOUNT, "since": _micros(after(100 - 60.1))}
    found = await journal._run(lambda db: db.execute(_SQL["read_held_slots"], facts).fetchall())
    assert len(found) == 1
    assert (await journal.turn(SERVICE, ACCOUNT, Pacing(limit=100), after(100))).free == 99


async def test_the_pause_after_a_429_is_found_by_an_index(journal):
    facts = {"service": SERVICE, "account": ACCOUNT, "since": 0, "newest_at": 0, "limit": 9}
    plan = await journal._run(
        lambda db: [row["detail"] for row in db.execute("EXPLAIN QUERY PLAN " + _SQL["count_held_slots"], facts)]
    )
    assert [step for step in plan if "evidence_by_retry_at (service=? AND account=? AND retry_at>?)" in step]


# -- next to the journal in memory -------------------------------------------------------------------------------------


class Step:
    """One random operation, the same for each journal on which it is carried out."""

    def __init__(self, rng: random.Random, now: datetime) -> None:
        order_id = f"order-{rng.randrange(8)}"
        self.now, self.ref, self.order = now, ref_of(order_id), order_of(order_id)
        self.n = rng.randint(1, 3)
        self.news = rng.choice(
            [uncertain(now, cause="lost"), uncertain(now, answered=True), rejected(now), accepted(at=now)]
        )
        self.states = frozenset(rng.sample(list(OrderState), 4))
        state = rng.choice([OrderState.ABANDONED, OrderState.WITHDRAWN])
        self.closing = Closing(state=state, at=now, reason=f"at {now}", by="Ann")
        self.wish = permission(order_id, expect_attempt=rng.randrange(3), states=self.states, now=now, limit=3)
        self.name = rng.choice(["intend", "begin", "begin", "settle", "close_order", "get", "list", "turn"])

    async def carry_out(self, journal: Journal) -> object:
        if self.name == "list":
            return await journal.list(SERVICE, ACCOUNT, self.now)
        if self.name == "turn":
            return await journal.turn(SERVICE, ACCOUNT, Pacing(limit=3), self.now)
        if self.name == "intend" or await journal.get(self.ref, self.now) is None:
            return await journal.intend(self.order)
        if self.name == "begin":
            try:
                return await journal.begin(self.wish)
            except (OrderChanged, MustWait) as answer:
                return type(answer), answer.args
        if self.name == "settle":
            try:
                return await journal.settle(self.ref, self.n, self.news)
            except JournalError as missing:
                return str(missing)
        if self.name == "close_order":
            return await journal.close_order(self.ref, self.closing, self.states)
        return await journal.get(self.ref, self.now)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_a_random_history_gives_the_same_results_as_in_memory(open_file, monkeypatch, seed):
    monkeypatch.setattr("vidgen_async.journal.sql.journal.LIST_PAGE", 3)
    rng = random.Random(seed)  # noqa: S311 - a repeatable history, not secrets
    memory, file = MemoryJournal(), open_file()
    now = NOW
    begun = 0
    for _ in range(200):
        now += timedelta(seconds=rng.choice([0, 0.1, 5, 60]))
        step = Step(rng, now)
        found = await step.carry_out(file)
        assert found == await step.carry_out(memory)
        begun += isinstance(found, Attempt)
    order_ids = [None, *(order.order_id for order in await memory.list(SERVICE, ACCOUNT, now))]
    for _ in range(100):
        which = {
            "states": rng.choice([None, {OrderState.ACCEPTED}, frozenset(rng.sample(list(OrderState), 3))]),
            "is_terminal": rng.choice([None, None, False, True]),
            "since": rng.choice([None, NOW, after(1)]),
            "after": rng.choice(order_ids),
            "limit": rng.choice([None, 0, 1, 4]),
            "newest_first": rng.choice([False, True]),
        }
        assert await file.list(SERVICE, ACCOUNT, now, **which) == await memory.list(SERVICE, ACCOUNT, now, **which)
    assert begun > 3

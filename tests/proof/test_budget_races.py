"""Processes and coroutines share a budget: no attempt is committed above its limit, whatever happens to them.

The oracle knows nothing of sums: the rows that are written are logged in the sequence of their commits, and what counts
is computed anew at each attempt.
"""

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.journal.conftest import ACCOUNT, SERVICE
from tests.proof.forker import SPENDER
from tests.proof.points import Halt
from tests.proof.processes import Processes, connect, on_each_journal
from tests.proof.spender import UNKNOWN, WINDOW, carry_out
from vidgen_async.journal import MemoryJournal
from vidgen_async.journal.opening import journal_from
from vidgen_async.types.limits import SpendingLimit
from vidgen_async.types.orders import Order, OrderRef

pytestmark = pytest.mark.slow

FROM_OUTSIDE = "from outside"
#: Where a process is killed.
POINTS = (
    "before the commit of the attempt",
    "after the commit of the attempt",
    "before the commit of the outcome",
    FROM_OUTSIDE,
)
#: The columns that are logged.
COLUMNS = {
    "attempts": ("order_id", "n", "sent_at", "reserved", "reason"),
    "evidence": ("order_id", "n", "outcome", "task_id"),
    "results": ("task_id", "points"),
}
IN_POSTGRES = """
    CREATE TABLE log (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT, facts TEXT);
    CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO log (name, facts) VALUES (TG_TABLE_NAME, to_json(NEW)::text);
        RETURN NULL;
    END $$;
"""
Log = Iterable[tuple[str, Mapping[str, Any]]]


async def start_log(journal: str) -> None:
    """Create the tables of the journal, and triggers that log what is written."""
    opened = journal_from(journal)
    await opened.namespace("creates the tables")
    await opened.aclose()
    if journal.startswith("sqlite"):
        with closing(sqlite3.connect(journal.removeprefix("sqlite:///"))) as db:
            db.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT, facts TEXT)")
            for table, columns in COLUMNS.items():
                facts = ", ".join(f"'{column}', NEW.{column}" for column in columns)
                insert = f"INSERT INTO log (name, facts) VALUES ('{table}', json_object({facts}))"  # noqa: S608 - constants
                db.execute(f"CREATE TRIGGER log_{table} AFTER INSERT ON {table} BEGIN {insert}; END")
    else:
        with connect(journal) as database:
            database.execute(IN_POSTGRES)
            for table in COLUMNS:
                database.execute(
                    f"CREATE TRIGGER log_{table} AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION log_row()"
                )


def read_log(journal: str) -> Log:
    is_file = journal.startswith("sqlite")
    with closing(sqlite3.connect(journal.removeprefix("sqlite:///")) if is_file else connect(journal)) as db:
        return [(name, json.loads(facts)) for name, facts in db.execute("SELECT name, facts FROM log ORDER BY id")]


class LoggedMemory(MemoryJournal):
    """A journal in memory that logs the same."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, Mapping[str, Any]]] = []

    def _read(self, ref: OrderRef, now: datetime) -> Order:
        return self._log(self._require(ref), super()._read(ref, now))

    def _store(self, order: Order) -> Order:
        return self._log(self._orders[order.ref], super()._store(order))

    def _log(self, before: Order, after: Order) -> Order:
        known = {attempt.n: attempt.evidence for attempt in before.attempts}
        for attempt in after.attempts:
            name = {"order_id": after.order_id, "n": attempt.n}
            if attempt.n not in known:
                sent_at = int(attempt.sent_at.timestamp() * 10**6)
                facts = {"sent_at": sent_at, "reserved": attempt.reserved, "reason": attempt.reason}
                self.log.append(("attempts", name | facts))
            if attempt.evidence is not known.get(attempt.n):
                facts = {"outcome": attempt.evidence.outcome, "task_id": attempt.evidence.task_id}
                self.log.append(("evidence", name | facts))
        new = [result for result in after.results if result not in before.results]
        self.log += [("results", {"task_id": result.task_id, "points": result.points}) for result in new]
        return after


class Oracle:
    """What counts, from the rows so far."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], dict[str, Any]] = {}
        self.owners: dict[str, tuple[str, int]] = {}
        self.points: dict[str, int | None] = {}
        self.seen: set[str] = set()
        """What has happened, so that it is known that the race was one."""

    def add(self, name: str, facts: Mapping[str, Any]) -> None:
        if name == "results":
            self.points.setdefault(facts["task_id"], facts["points"])
            return
        key = facts["order_id"], facts["n"]
        if name == "attempts":
            self.attempts[key] = {**facts, "outcome": "sending", "task_id": None}
            self.seen.add("resend" if facts["n"] > 1 else "create")
            return
        self.seen |= {str(facts["outcome"]), f"after {self.attempts[key]['outcome']}"}
        self.attempts[key] |= {"outcome": facts["outcome"], "task_id": facts["task_id"]}
        if facts["outcome"] == "accepted" and self.owners.setdefault(facts["task_id"], key) != key:
            self.seen.add("a task twice")

    def cost(self, key: tuple[str, int]) -> int:
        attempt = self.attempts[key]
        is_second = attempt["outcome"] == "accepted" and self.owners[attempt["task_id"]] != key
        if attempt["outcome"] in {"not_sent", "rejected"} or is_second:
            return 0
        points = self.points.get(attempt["task_id"])
        if points is not None and points >= 0:
            return points
        return UNKNOWN if attempt["reserved"] is None else attempt["reserved"]

    def count(self, since: int) -> int:
        """What counts of what was sent since then, in microseconds."""
        return sum(self.cost(key) for key, attempt in self.attempts.items() if attempt["sent_at"] >= since)


def check(log: Log) -> Oracle:
    """Assert that each attempt was within its limit when it was committed."""
    oracle, highest = Oracle(), -UNKNOWN
    for name, facts in log:
        oracle.add(name, facts)
        if name == "attempts":
            limit = int(facts["reason"])
            counted = oracle.count(facts["sent_at"] - WINDOW * 10**6)
            highest = max(highest, counted - limit)
            assert counted <= limit, facts
    assert highest > -UNKNOWN, "a limit was nearly reached"
    outcomes = {"uncertain", "accepted", "rejected", "not_sent"}
    assert oracle.seen >= {"create", "resend", *outcomes, "after uncertain", "a task twice"}
    return oracle


async def check_sums(journal: Any, oracle: Oracle) -> None:
    """Assert that what the journal counts is what the oracle does, from the first minute of the window on."""
    newest = max(attempt["sent_at"] for attempt in oracle.attempts.values())
    for seconds in (60, 3600, WINDOW, 86400):
        limit = SpendingLimit(points=1, window=float(seconds), unknown=UNKNOWN)
        now = datetime.fromtimestamp(newest / 10**6, UTC)
        (state,) = await journal.spending(SERVICE, ACCOUNT, [limit], 0, now)
        first = (newest - seconds * 10**6) // (60 * 10**6) * (60 * 10**6)
        assert limit.count(state.spending) == oracle.count(first)


@on_each_journal
async def test_four_processes_begin_exactly_as_many_attempts_as_the_limit_allows(processes):
    workers = await processes.start_together([[]] * 4, program=SPENDER, begins=200)
    begun = [await worker.ended() for worker in workers]
    assert sum(map(len, begun)) == 100
    assert sum(map(bool, begun)) > 1, "it was a race"


@on_each_journal
async def test_processes_that_are_killed_begin_no_attempt_above_a_limit(processes):
    await start_log(processes.journal)
    halted = 0
    for turn in range(4):
        told = await asyncio.gather(*(run(processes, 4 * turn + n, POINTS[(turn + n) % 4]) for n in range(4)))
        halted += sum({"halted": True} in words for words in told)
    told = await asyncio.gather(*(run(processes, 100 + n, None) for n in range(4)))
    assert halted > 8, "killed in commits"
    assert sum(words.count({"over": True}) for words in told) > 8
    oracle = check(read_log(processes.journal))
    journal = journal_from(processes.journal)
    await check_sums(journal, oracle)
    await journal.aclose()


async def run(processes: Processes, seed: int, at: str | None) -> list[dict[str, Any]]:
    """What a process reports that is killed at the point; None lets it end by itself."""
    killed = {} if at is None else {"at": at, "halts_after": 40}
    worker = await processes.start(program=SPENDER, seed=seed, steps=200, **killed)
    assert await worker.next() == {"ready": True}
    worker.go()
    if at == FROM_OUTSIDE:
        for _ in range(60):
            await worker.next()
        return await worker.kill()
    return await worker.ended()


async def test_coroutines_begin_no_attempt_above_a_limit():
    journal = LoggedMemory()

    async def carry_out_all(seed: int) -> int:
        return sum([is_over async for is_over in carry_out(journal, {"seed": seed, "steps": 400}, Halt("", "SIGKILL"))])

    assert sum(await asyncio.gather(*map(carry_out_all, range(4)))) > 8
    await check_sums(journal, check(journal.log))

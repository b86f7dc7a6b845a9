"""An operation of the journal whose caller goes away: carried out whole, or never begun, wherever it is just then."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.journal.conftest import (
    ACCOUNT,
    NOW,
    SERVICE,
    accepted,
    after,
    order_of,
    permission,
    ref_of,
    sending,
    uncertain,
)
from tests.proof.cancelling import Pause, comes_true, threads
from vidgen_async.journal import Journal, SqliteJournal
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, Closing, OrderState, TaskResult

OPERATIONS: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "namespace": lambda journal: journal.namespace("word"),
    "intend": lambda journal: journal.intend(order_of("new")),
    "turn": lambda journal: journal.turn(SERVICE, ACCOUNT, Pacing(), NOW),
    "begin": lambda journal: journal.begin(permission("queued")),
    "settle": lambda journal: journal.settle(ref_of("sending"), 1, accepted("task-2")),
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


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> bytes:
    """A file with an order in each state."""
    path = tmp_path_factory.mktemp("record") / "orders.db"
    asyncio.run(write_record(SqliteJournal(path)))
    return path.read_bytes()


async def write_record(journal: SqliteJournal) -> None:
    await journal.intend(order_of("queued"))
    for name, evidence in {"sending": None, "uncertain": uncertain(), "accepted": accepted("task-1")}.items():
        await sending(journal, name)
        if evidence is not None:
            await journal.settle(ref_of(name), 1, evidence)
    await journal.aclose()


@pytest.fixture
def journal_at(record) -> Callable[[Path], SqliteJournal]:
    """A journal in a new file, with an order in each state."""

    def make(path: Path) -> SqliteJournal:
        path.touch(mode=0o600)
        path.write_bytes(record)
        return SqliteJournal(path)

    return make


def stored_rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_journal_operation_whose_caller_is_cancelled_at_any_statement_is_completed(journal_at, name, tmp_path):
    journal = journal_at(tmp_path / "whole.db")
    before = stored_rows(tmp_path / "whole.db")
    await OPERATIONS[name](journal)
    await journal.aclose()
    complete = [stored_rows(tmp_path / "whole.db")]
    # They read first; that a deadline has passed is written in a transaction of its own.
    allowed = [before, *complete] if name in {"get", "list"} else complete

    for at in count(1):
        journal = journal_at(path := tmp_path / f"{at}.db")
        pause = Pause(at)
        await journal._run(lambda db, pause=pause: db.set_trace_callback(pause))
        caller = asyncio.ensure_future(OPERATIONS[name](journal))
        await comes_true(lambda pause=pause, caller=caller: pause.is_reached.is_set() or caller.done())
        is_over = caller.done()
        caller.cancel()
        await asyncio.wait({caller})
        pause.go_on.set()
        await journal.aclose()
        assert stored_rows(path) in allowed
        if is_over:
            break
        assert caller.cancelled()
    assert at > 1
    assert threads() == set()


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_journal_operation_whose_caller_is_cancelled_before_it_begins_never_begins(journal_at, name, tmp_path):
    journal = journal_at(path := tmp_path / "orders.db")
    before = stored_rows(path)
    pause = Pause(1)
    await journal._run(lambda db: db.set_trace_callback(pause))
    first = asyncio.ensure_future(journal.owner(ref_of("sending"), "task-1"))
    await comes_true(pause.is_reached.is_set)
    caller = asyncio.ensure_future(OPERATIONS[name](journal))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    pause.go_on.set()
    await first
    await journal.aclose()
    assert stored_rows(path) == before


async def test_a_cancelled_aclose_of_a_journal_still_ends_its_thread(journal_at, tmp_path):
    journal = journal_at(tmp_path / "orders.db")
    pause = Pause(1)
    await journal._run(lambda db: db.set_trace_callback(pause))
    last = asyncio.ensure_future(journal.namespace("word"))
    await comes_true(pause.is_reached.is_set)
    closing_it = asyncio.ensure_future(journal.aclose())
    await asyncio.sleep(0)
    closing_it.cancel()
    await asyncio.wait({closing_it})
    pause.go_on.set()
    assert await last == "word"
    await comes_true(lambda: threads() == set())

"""Operations that wait share a commit; nobody is answered before it, and a failure concerns one caller only."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, Holding, order_of, ref_of
from vidgen_async.errors import JournalError
from vidgen_async.journal import Journal
from vidgen_async.journal.sql import groups, queries
from vidgen_async.journal.sql.queries import Database
from vidgen_async.types.orders import Order, OrderRef


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest) -> Journal:
    return request.getfixturevalue({"sqlite": "open_file", "postgres": "open_database"}[request.param])()


async def stored(journal: Journal) -> list[str]:
    return [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW)]


@pytest.fixture
def commits(holding: Holding, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of operations of each commit, from the first order on."""
    found: list[int] = []
    answer = groups.Group.answer

    def count(group: Any) -> None:
        found.extend([len(group._operations)] if holding.begun.is_set() else [])
        answer(group)

    monkeypatch.setattr(groups.Group, "answer", count)
    return found


async def test_operations_that_wait_share_a_commit(journal, holding, commits):
    names = [f"order-{n}" for n in range(10)]
    await holding.gather(journal, *names)
    assert commits[0] == 11
    assert await stored(journal) == ["first", *names]


@pytest.mark.parametrize(("most", "longest", "expected"), [(4, 1000.0, [4, 4, 3]), (64, -1.0, [1] * 11)])
async def test_a_group_ends_after_so_many_operations_or_seconds(
    journal, holding, commits, monkeypatch, most, longest, expected
):
    monkeypatch.setattr(groups, "MOST_OPERATIONS", most)
    monkeypatch.setattr(groups, "LONGEST_GROUP", longest)
    await holding.gather(journal, *(f"order-{n}" for n in range(10)))
    assert commits == expected


def test_a_group_that_is_executed_again_is_split_if_an_operation_then_fails():
    class Connection:
        def finish(self) -> None:
            """As that of a database that reports all errors at once."""

    waiting, outcomes = groups.Waiting(), iter([1, 2])
    for _ in range(2):
        waiting.add(lambda _: next(outcomes), Future())
    group = waiting.next_group()
    group.execute(Connection())  # but the connection was lost before the commit
    with pytest.raises(StopIteration):
        group.execute(Connection())
    assert len(group.split()) == 2


class UnexpectedError(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def raising(error: BaseException) -> Callable[[Database], object]:
    def fail(db: Database) -> object:
        raise error

    return fail


#: What an operation fails with after it has written, and what its caller gets.
FAILURES = {
    "an expected error": (raising(JournalError("no such attempt")), JournalError),
    "a damaged row": (raising(ValueError("no JSON")), JournalError),
    "a statement that the database refuses": (
        lambda db: db.execute("INSERT INTO namespace (id, word) VALUES (1, NULL)", {}),
        JournalError,
    ),
    "a defect": (raising(RuntimeError("a defect")), RuntimeError),
    "no exception that one expects": (raising(UnexpectedError()), UnexpectedError),
}


@pytest.mark.parametrize(("failure", "expected"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("failing", ["first", "b", "c"])
async def test_an_operation_that_fails_is_undone_alone(journal, holding, failing, failure, expected):
    holding.failures[failing] = failure
    names = ["first", "a", "b", "c"]

    outcomes = dict(zip(names, await holding.gather(journal, *names[1:]), strict=True))

    assert isinstance(outcomes.pop(failing), expected)
    assert {name: order.order_id for name, order in outcomes.items()} == {name: name for name in outcomes}
    assert await stored(journal) == list(outcomes)
    del holding.failures[failing]
    assert (await journal.intend(order_of(failing))).order_id == failing


async def test_an_operation_whose_caller_is_cancelled_is_dropped_only_if_it_has_not_begun(journal, holding):
    first, dropped, other = await holding.start(journal, "dropped", "other")
    for each in (first, dropped):
        each.cancel()
    await asyncio.sleep(0)
    holding.end.set()
    await asyncio.wait([first, dropped, other])
    assert await stored(journal) == ["first", "other"]


# -- SQLite ------------------------------------------------------------------------------------------------------------


async def test_a_read_waits_for_one_group_and_not_for_all_that_is_written(open_file, holding, monkeypatch):
    def read(db: Database, ref: OrderRef) -> Order | None:
        stored_before.append(len(holding.stored))
        return read_order(db, ref)

    journal, stored_before, read_order = open_file(), list[int](), queries.read_order
    monkeypatch.setattr(queries, "read_order", read)
    monkeypatch.setattr(groups, "MOST_OPERATIONS", 4)
    operations = await holding.start(journal, "a")
    reading = asyncio.ensure_future(journal.get(ref_of("first"), NOW))
    await asyncio.sleep(0)
    operations += [asyncio.ensure_future(journal.intend(order_of(f"order-{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    holding.end.set()
    assert await reading is not None
    await asyncio.gather(*operations)
    assert stored_before == [4]


async def test_the_file_is_opened_again_after_an_error_of_sqlite(open_file, holding):
    def fail(db: Database) -> None:
        db.execute("PRAGMA query_only = ON", {})
        raise sqlite3.OperationalError("a fault")

    journal = open_file()
    holding.failures["a"] = fail
    outcomes = await holding.gather(journal, "a")
    assert [type(outcome) for outcome in outcomes] == [Order, JournalError]
    assert (await journal.intend(order_of("b"))).order_id == "b"


async def test_nobody_is_answered_before_the_commit_in_a_file(open_file, path, holding):
    journal = open_file()
    operations = await holding.start(journal, "a", "b")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM orders").fetchall()  # a commit waits until this transaction ends
        holding.end.set()
        await until(lambda: holding.stored == ["first", "a", "b"])
        await asyncio.sleep(0)
        assert not any(operation.done() for operation in operations)
    assert [(await operation).order_id for operation in operations] == ["first", "a", "b"]


async def test_all_operations_of_a_commit_that_fails_have_failed_and_can_be_repeated(open_file, path, holding):
    journal = open_file(busy_timeout=0)
    operations = await holding.start(journal, "a", "b")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM orders").fetchall()
        holding.end.set()
        outcomes = await asyncio.gather(*operations, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [JournalError] * 3
    assert await stored(journal) == []
    for name in ("first", "a", "b"):
        await journal.intend(order_of(name))
    assert await stored(journal) == ["first", "a", "b"]


async def test_on_a_full_disk_those_orders_are_stored_whose_callers_have_them(open_file, holding):
    journal = open_file()
    operations = await holding.start(journal, "a")
    operations.append(asyncio.ensure_future(journal.intend(order_of("large", body=b"x" * 1_000_000))))
    await asyncio.sleep(0)
    holding.failures["first"] = lambda db: db.execute("PRAGMA max_page_count = 100", {})
    holding.end.set()
    outcomes = await asyncio.gather(*operations, return_exceptions=True)
    assert "the disk is full" in str(outcomes[-1])
    found = [outcome.order_id for outcome in outcomes if not isinstance(outcome, JournalError)]
    assert await stored(journal) == found


async def test_an_error_that_ends_the_transaction_is_that_of_one_operation(open_file, holding):
    def fail(db: Database) -> None:
        db.execute("ROLLBACK", {})
        raise sqlite3.OperationalError("disk I/O error")

    journal = open_file()
    holding.failures["a"] = fail
    outcomes = await holding.gather(journal, "a", "b")
    assert [type(outcome) for outcome in outcomes] == [Order, JournalError, Order]
    assert await stored(journal) == ["first", "b"]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what a thread does is no event
        await asyncio.sleep(0.001)

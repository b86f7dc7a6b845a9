"""The thread of a journal: the event loop never waits for the disk, and every operation is atomic."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import Factory, frozen

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, order_of
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sql import queries
from vidgen_async.types.orders import Order, OrderState


def journal_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("journal ")]


@pytest.fixture
def journal(open_file) -> SqliteJournal:
    return open_file()


@frozen
class Slow:
    """Storing an order waits for ``end``."""

    begun: threading.Event = Factory(threading.Event)
    end: threading.Event = Factory(threading.Event)

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 30)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow()
    add_order = queries.add_order

    def wait_and_add(db: sqlite3.Connection, order: Order) -> Order | None:
        slow.begun.set()
        assert slow.end.wait(30)
        return add_order(db, order)

    monkeypatch.setattr(queries, "add_order", wait_and_add)
    yield slow
    slow.end.set()


@pytest.mark.slow
async def test_nothing_is_started_before_the_first_operation(journal, path):
    assert journal_threads() == []
    await journal.aclose()
    assert not path.exists()


async def test_the_event_loop_is_not_blocked_while_an_operation_waits_for_the_disk(journal, slow):
    operation = asyncio.ensure_future(journal.intend(order_of()))
    await slow.until_begun()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not operation.done()
    slow.end.set()
    assert (await operation).state is OrderState.QUEUED


async def test_aclose_waits_for_earlier_operations_and_leaves_no_thread(journal, slow):
    operations = [asyncio.ensure_future(journal.intend(order_of(f"order-{n}"))) for n in range(5)]
    await slow.until_begun()
    closing = asyncio.ensure_future(journal.aclose())
    await asyncio.sleep(0)
    assert not closing.done()

    slow.end.set()
    await closing

    assert journal_threads() == []
    assert [(await operation).order_id for operation in operations] == [f"order-{n}" for n in range(5)]


async def test_all_operations_run_in_one_thread(journal):
    await asyncio.gather(*(journal.intend(order_of(f"order-{n}")) for n in range(20)))
    (thread,) = journal_threads()
    assert thread.daemon


def test_several_event_loops_in_several_threads_share_a_journal(path: Path):
    journal = SqliteJournal(path)

    async def orders_of(name: str) -> None:
        await asyncio.gather(*(journal.intend(order_of(f"{name}-{n}")) for n in range(10)))

    workers = [threading.Thread(target=lambda name=name: asyncio.run(orders_of(name))) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    async def count() -> int:
        found = len(await journal.list(SERVICE, ACCOUNT, NOW))
        await journal.aclose()
        return found

    assert asyncio.run(count()) == 30

"""A process that forks."""

import asyncio
import os

import pytest

from tests.journal.conftest import NOW, HeldLock, accepted, order_of, ref_of, sending
from vidgen_async.errors import JournalError
from vidgen_async.journal import SqliteJournal
from vidgen_async.types.orders import OrderState


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the fork is what this is about
def test_a_journal_used_before_a_fork_is_refused_in_the_child_and_works_in_the_parent(path):
    journal = SqliteJournal(path)
    asyncio.run(sending(journal))

    async def in_the_child() -> bool:
        journal._lock = HeldLock()
        with pytest.raises(JournalError, match="fork"):
            await journal.settle(ref_of(), 1, accepted())
        await journal.aclose()
        fresh = SqliteJournal(path)
        found = await fresh.get(ref_of(), NOW)
        await fresh.aclose()
        return found is not None and found.state is OrderState.SENDING

    child = os.fork()
    if child == 0:
        try:
            is_right = asyncio.run(in_the_child())
        except BaseException:  # noqa: BLE001 - nothing of the child may go on
            is_right = False
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0

    async def in_the_parent() -> str:
        order = await journal.settle(ref_of(), 1, accepted())
        await journal.aclose()
        return order.receipt.task_id

    assert asyncio.run(in_the_parent()) == "task-1"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the fork is what this is about
def test_a_journal_not_used_before_a_fork_works_in_the_child(path):
    journal = SqliteJournal(path)

    async def use() -> None:
        await journal.intend(order_of())
        await journal.aclose()

    child = os.fork()
    if child == 0:
        try:
            asyncio.run(use())
        except BaseException:  # noqa: BLE001 - nothing of the child may go on
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert path.exists()

"""Several processes on one file; a process that is killed; a process that forks."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, HeldLock, accepted, order_of, ref_of, sending
from vidgen_async.errors import JournalError
from vidgen_async.journal import SqliteJournal
from vidgen_async.types.orders import OrderState

ROOT = Path(__file__).resolve().parents[2]

#: Begins every order of two accounts, and prints the attempts that it may send; the limit of the second is small.
BEGINS = """
import asyncio, sys
from contextlib import suppress
from tests.journal.conftest import order_of, permission
from vidgen_async.journal import MustWait, OrderChanged, SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.namespace("word")
    print("ready", flush=True)
    sys.stdin.readline()
    for account, limit in (("first", 100), ("second", 7)):
        for number in range(20):
            await journal.intend(order_of(f"order-{number}", account=account))
            with suppress(OrderChanged, MustWait):
                await journal.begin(permission(f"order-{number}", account=account, limit=limit))
                print(f"{account}-{number}", flush=True)
    await journal.aclose()

asyncio.run(main())
"""

#: Stores orders without end, and prints the id of each.
WRITES = """
import asyncio, sys
from tests.journal.conftest import sending
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    number = 0
    while True:
        await sending(journal, f"order-{number}", limit=10**9)
        print(f"order-{number}", flush=True)
        number += 1

asyncio.run(main())
"""

#: Ends without closing anything, after one operation and during another.
LEAVES = """
import asyncio, sys
from tests.journal.conftest import order_of
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.intend(order_of("a"))
    asyncio.ensure_future(journal.intend(order_of("b")))
    await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Another process that runs a script with these arguments."""
    with ExitStack() as stack:

        def start(script: str, *arguments: object) -> subprocess.Popen[str]:
            process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """The words that a process prints until it ends successfully."""
    said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    return said.split()


def begun_by(processes: list[subprocess.Popen[str]]) -> list[str]:
    """The words that all of them print after a simultaneous start."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    return [word for process in processes for word in said_by(process)]


@pytest.mark.slow
def test_only_one_of_several_processes_may_send_each_order_and_they_share_the_rolling_limit(start, path):
    begun = begun_by([start(BEGINS, path) for _ in range(3)])
    first, second = ([order for order in begun if order.startswith(account)] for account in ("first", "second"))
    assert sorted(first) == sorted(f"first-{n}" for n in range(20))
    assert len(second) == len(set(second)) == 7


@pytest.mark.slow
async def test_committed_orders_survive_a_kill(start, open_file, path):
    process = start(WRITES, path)
    told = [process.stdout.readline().strip() for _ in range(25)]
    process.kill()
    told += process.communicate()[0].split()

    journal = open_file()
    found = await journal.list(SERVICE, ACCOUNT, NOW)

    assert len(told) >= 25
    assert [order.order_id for order in found[: len(told)]] == told
    assert {order.state for order in found[: len(told)]} == {OrderState.UNCERTAIN}
    assert len(found) <= len(told) + 1
    await journal.settle(ref_of(told[-1]), 1, accepted())
    await journal.intend(order_of("another"))


@pytest.mark.slow
async def test_a_process_that_ends_without_closing_does_not_hang_and_leaves_an_intact_file(start, open_file, path):
    assert said_by(start(LEAVES, path)) == []
    found = [order.order_id for order in await open_file().list(SERVICE, ACCOUNT, NOW)]
    assert found in (["a"], ["a", "b"])


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

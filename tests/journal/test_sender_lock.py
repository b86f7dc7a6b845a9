"""The lock of a sender on the file of a journal: what it proves, and when it proves nothing."""

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, accepted, ref_of, rows, sending
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sqlite import side_files
from vidgen_async.journal.sqlite.side_files import find_side_files
from vidgen_async.types.orders import OrderState

ROOT = Path(__file__).resolve().parents[2]

#: Begins 64 attempts and is killed.
SENDS = """
import asyncio, os, signal, sys
from tests.journal.conftest import sending
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    for number in range(64):
        await sending(journal, f"order-{number}")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


#: Begins attempts without end, and asks after each one whose senders have ended.
SENDS_AND_ASKS = """
import asyncio, itertools, os, sys
from tests.journal.conftest import ACCOUNT, NOW, SERVICE, sending
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    for number in itertools.count():
        await sending(journal, f"{os.getpid()}-{number}", limit=10**9)
        await journal.list(SERVICE, ACCOUNT, NOW, newest_first=True, limit=10)
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def sender(open_file) -> SqliteJournal:
    """The journal of a process that sends an order."""
    journal = open_file()
    await sending(journal)
    return journal


@pytest.fixture
def senders(path: Path) -> Path:
    """The file of the locks."""
    return path.with_name("orders.db-senders")


def end(journal: SqliteJournal) -> None:
    """Release the lock as the system does when the process has ended."""
    side_files._close(journal._sender_lock._descriptors)


async def read_state(journal: SqliteJournal) -> OrderState:
    return (await journal.get(ref_of(), NOW)).state


@pytest.mark.slow
async def test_all_attempts_of_a_killed_process_are_uncertain_at_once(open_file, path):
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SENDS, str(path), cwd=ROOT)
    assert await process.wait() < 0
    orders = await open_file().list(SERVICE, ACCOUNT, NOW)
    assert [order.state for order in orders] == [OrderState.UNCERTAIN] * 64


@pytest.mark.slow
def test_while_the_files_beside_the_journal_are_deleted_no_living_sender_is_taken_for_ended(path):
    with ExitStack() as stack:
        senders = []
        for _ in range(3):
            command = [sys.executable, "-W", "error", "-c", SENDS_AND_ASKS, str(path)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)  # noqa: S603 - our own script
            stack.enter_context(process)
            stack.callback(process.kill)
            senders.append(process)
        for _ in range(40):
            for sender in senders:
                assert sender.stdout.readline(), "it still runs"
            for each in find_side_files(path):
                if each.suffix != ".db-journal":
                    each.unlink(missing_ok=True)
        assert rows(path, "SELECT count(*) FROM evidence") == [(0,)]
        assert rows(path, "SELECT count(*) >= 120, count(*) = count(session) FROM attempts") == [(1, 1)]


async def test_a_missing_file_proves_nothing(sender, open_file, senders):
    end(sender)
    senders.unlink()
    assert await read_state(open_file()) is OrderState.SENDING


async def test_a_file_that_was_replaced_by_a_copy_proves_nothing(sender, open_file, senders):
    shutil.copy(senders, senders.with_name("copy"))
    senders.with_name("copy").replace(senders)
    assert await read_state(open_file()) is OrderState.SENDING


async def test_the_attempts_before_and_after_a_loss_of_the_file_stay_sending(sender, open_file, senders):
    for number in range(10):  # the file system may give the numbers of deleted files to new ones
        senders.unlink()
        await sending(sender, f"order-{number}")
    states = {order.state for order in await open_file().list(SERVICE, ACCOUNT, NOW)}
    assert states == {OrderState.SENDING}
    end(sender)
    states = [order.state for order in await open_file().list(SERVICE, ACCOUNT, NOW)]
    assert states == [OrderState.SENDING] * 10 + [OrderState.UNCERTAIN]


async def test_a_lock_that_other_code_released_is_acquired_again(sender, open_file):
    end(sender)
    await sending(sender, "another")
    assert await read_state(open_file()) is OrderState.SENDING


async def test_an_answer_that_is_stored_between_the_check_and_the_write_is_not_overwritten(
    sender, open_file, monkeypatch
):
    other = open_file()
    write = other._write

    async def store_the_answer_first(operation, *locked):
        await sender.settle(ref_of(), 1, accepted())
        return await write(operation, *locked)

    end(sender)
    monkeypatch.setattr(other, "_write", store_the_answer_first)
    order = await other.get(ref_of(), NOW)
    assert [attempt.outcome for attempt in order.attempts] == ["accepted"]
    assert len(rows(other.path, "SELECT * FROM evidence")) == 1


async def test_a_closed_journal_whose_attempts_have_outcomes_has_no_open_file(sender):
    await sender.aclose()
    assert sender._sender_lock._descriptors
    await sender.settle(ref_of(), 1, accepted())
    await sender.aclose()
    assert not sender._sender_lock._descriptors


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the fork is what this is about
async def test_a_child_that_lives_longer_does_not_hold_the_lock(sender, open_file):
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(writer)
        os.read(reader, 1)  # until the parent has closed its end
        os._exit(0)
    try:
        assert await read_state(open_file()) is OrderState.SENDING
        end(sender)
        assert await read_state(open_file()) is OrderState.UNCERTAIN
    finally:
        os.close(writer)
        os.close(reader)
        await asyncio.to_thread(os.waitpid, child, 0)


@pytest.mark.parametrize("reason", ["no such locks", "locks without effect", "not permitted", "a network file system"])
async def test_where_a_lock_cannot_be_held_attempts_are_sending_until_their_deadlines(
    open_file, senders, monkeypatch, reason
):
    options = {}
    if reason == "no such locks":
        monkeypatch.setattr(side_files, "_IS_SUPPORTED", False)
    elif reason == "locks without effect":
        monkeypatch.setattr(side_files.fcntl, "F_OFD_SETLK", side_files.fcntl.F_OFD_GETLK)
    elif reason == "not permitted":
        senders.mkdir()
    else:
        options = {"allow_network_file_system": True}
    journal = open_file(**options)
    await sending(journal)
    assert rows(journal.path, "SELECT session FROM attempts") == [(None,)]
    await journal.aclose()
    assert await read_state(open_file()) is OrderState.SENDING

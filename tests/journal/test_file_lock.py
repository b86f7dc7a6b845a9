"""Processes that share a journal exclude each other, also if one copies the file or another program locks it."""

import asyncio
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.journal.conftest import NOW, accepted, order_of, permission, ref_of, sending
from vidgen_async.errors import JournalError
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sqlite import file_lock
from vidgen_async.journal.sqlite.file_lock import FileLock
from vidgen_async.types.orders import OrderState

ROOT = Path(__file__).resolve().parents[2]

#: Another process that writes one order, and reports when it has.
WRITER = """
import asyncio, sys
from tests.journal.conftest import order_of
from vidgen_async.journal import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1], busy_timeout=float(sys.argv[2]))
    try:
        await journal.intend(order_of("theirs"))
    finally:
        await journal.aclose()

asyncio.run(main())
"""


def write_elsewhere(path: Path, time_limit: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(time_limit)]
    return subprocess.run(  # noqa: S603 - our own program
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


async def in_a_transaction(journal: SqliteJournal, work) -> None:
    """Call ``work()`` in the journal's thread while a write transaction of it is open."""

    def operation(db: sqlite3.Connection) -> None:
        from vidgen_async.journal.sqlite.file_lock import transaction  # noqa: PLC0415

        with transaction(db, "IMMEDIATE"):
            work()

    await journal._run(operation)


@pytest.mark.slow
async def test_another_process_cannot_write_while_the_file_is_copied_inside_a_transaction(open_file, path, tmp_path):
    journal = open_file()
    await journal.intend(order_of("ours"))
    results = []

    def copy_and_let_another_process_try() -> None:
        shutil.copyfile(path, tmp_path / "copy.db")  # SQLite's own locks are gone now
        results.append(write_elsewhere(path, 0.2))

    await in_a_transaction(journal, copy_and_let_another_process_try)

    assert results[0].returncode == 1
    assert "locked" in results[0].stderr
    assert await journal.get(ref_of("theirs"), NOW) is None
    assert write_elsewhere(path, 5).returncode == 0
    assert (await journal.get(ref_of("theirs"), NOW)).state is OrderState.QUEUED


async def test_a_read_waits_for_a_write_of_another_journal_object(open_file, path):
    writing, reading = open_file(), open_file(busy_timeout=0.05)
    await writing.intend(order_of("a"))
    assert await reading.get(ref_of("a"), NOW) is not None  # it is open: only the read itself is to be held up
    errors = []

    def read() -> None:
        with closing(os.fdopen(os.open(path, os.O_RDONLY))):
            pass  # drops SQLite's own locks
        try:
            asyncio.run(reading.get(ref_of("a"), NOW))
        except JournalError as error:
            errors.append(error)

    await in_a_transaction(writing, read)

    assert ["locked" in str(error) for error in errors] == [True]
    assert await reading.get(ref_of("a"), NOW) is not None


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The pauses, in seconds, for which the lock was waited for; no time passes."""
    found: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        found.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(file_lock, "sleep", sleep)
    monkeypatch.setattr(file_lock, "monotonic", lambda: now[0])
    return found


def can_hold(lock: FileLock, *, exclusive: bool) -> bool:
    try:
        with lock.hold(exclusive=exclusive):
            return True
    except sqlite3.OperationalError:
        return False


def test_readers_share_and_a_writer_excludes(tmp_path):
    locks = [FileLock(tmp_path / "lock", time_limit=0, mode=0o600) for _ in range(3)]
    first, second, third = locks
    with first.hold(exclusive=False), second.hold(exclusive=False):
        assert not can_hold(third, exclusive=True)
    with first.hold(exclusive=True), first.hold(exclusive=False):  # again, by the one that holds it
        assert not can_hold(second, exclusive=False)
    assert can_hold(second, exclusive=True)
    for lock in locks:
        lock.close()


def test_a_writer_that_waits_is_next_also_if_the_previous_one_has_more_to_write(tmp_path):
    first, second = (FileLock(tmp_path / "lock", time_limit=30, mode=0o600) for _ in range(2))
    writers = []

    def write_next() -> None:
        with second.hold(exclusive=True):
            writers.append("second")

    waiting = threading.Thread(target=write_next)
    queue = FileLock(tmp_path / "lock-queue", time_limit=0, mode=0o600)
    with first.hold(exclusive=True):
        waiting.start()
        while can_hold(queue, exclusive=True):
            time.sleep(0)
    for _ in range(2):
        with first.hold(exclusive=True):
            writers.append("first")
    waiting.join()
    assert writers == ["second", "first", "first"]
    for lock in (first, second, queue):
        lock.close()


def test_a_suspended_writer_in_the_queue_holds_up_others_for_a_second_and_readers_not_at_all(tmp_path, waits):
    suspended = FileLock(tmp_path / "lock-queue", time_limit=0, mode=0o600)
    lock = FileLock(tmp_path / "lock", time_limit=30, mode=0o600)
    with suspended.hold(exclusive=True):
        assert can_hold(lock, exclusive=False)
        assert waits == []
        assert can_hold(lock, exclusive=True)
    assert 1 <= sum(waits) <= 1.1
    for each in (suspended, lock):
        each.close()


async def test_the_lock_file_is_accessible_to_its_owner_only_and_shared_by_links(open_file, path, tmp_path):
    link = tmp_path / "link.db"
    journal = open_file()
    await journal.intend(order_of("a"))
    link.symlink_to(path)
    linked = open_file(link)
    assert await linked.get(ref_of("a"), NOW) is not None
    locks = {found.name: found.stat().st_mode & 0o777 for found in path.parent.iterdir() if "lock" in found.name}
    assert locks == {f"{path.name}-lock": 0o600, f"{path.name}-lock-queue": 0o600}


# -- a journal that is locked ------------------------------------------------------------------------------------------


@pytest.fixture
def locked(path):
    """Another program keeps the journal locked, in both ways."""
    holder = FileLock(path.with_name(f"{path.name}-lock"), time_limit=0, mode=0o600)
    with holder.hold(exclusive=True):
        yield
    holder.close()


async def test_operations_that_wait_behind_a_timed_out_one_fail_at_once_with_a_single_warning(
    open_file, locked, waits, caplog
):
    journal = open_file(busy_timeout=30.0)

    with caplog.at_level(logging.WARNING):
        found = await asyncio.gather(*(journal.intend(order_of(str(n))) for n in range(20)), return_exceptions=True)

    assert {type(error) for error in found} == {JournalError}
    assert all("locked" in str(error) for error in found)
    assert 30 <= sum(waits) <= 31
    assert [record.event_name for record in caplog.records] == ["journal.locked"]


async def test_a_later_operation_waits_again_and_an_unlocked_journal_is_used_again(open_file, path, waits, caplog):
    journal = open_file(busy_timeout=30.0)
    holder = FileLock(path.with_name(f"{path.name}-lock"), time_limit=0, mode=0o600)
    for _ in range(2):
        with holder.hold(exclusive=True), pytest.raises(JournalError):
            await journal.intend(order_of("a"))
    assert sum(waits) >= 60
    assert [record.event_name for record in caplog.records] == ["journal.locked"]

    assert (await journal.intend(order_of("a"))).state is OrderState.QUEUED
    with holder.hold(exclusive=True), pytest.raises(JournalError):
        await journal.intend(order_of("b"))
    assert [record.event_name for record in caplog.records] == ["journal.locked"] * 2
    holder.close()


# -- backups -----------------------------------------------------------------------------------------------------------


async def test_a_backup_is_a_consistent_journal_for_its_owner_only(open_file, path, tmp_path):
    journal = open_file()
    await sending(journal, "a")
    await journal.settle(ref_of("a"), 1, accepted("task-1"))
    target = tmp_path / "backup.db"
    target.write_text("an older backup")

    assert await journal.backup(target) == target

    await sending(journal, "b")
    copy = open_file(target)
    assert (await copy.get(ref_of("a"), NOW)).receipt.task_id == "task-1"
    assert await copy.get(ref_of("b"), NOW) is None
    assert target.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir() if found.suffix == ".part"] == []


async def test_a_failed_backup_leaves_the_journal_usable_and_the_target_unchanged(open_file, path, tmp_path):
    journal = open_file()
    await journal.intend(order_of("a"))
    for target, words in ((path, "journal .* itself"), (tmp_path / "missing" / "b.db", "could not be written")):
        with pytest.raises(JournalError, match=words):
            await journal.backup(target)
    assert (await journal.intend(order_of("a"))).state is OrderState.QUEUED
    assert (await journal.begin(permission("a"))).n == 1


#: A backup to the second argument that is killed when the copy has its first page.
KILLED_BACKUP = """
import asyncio, os, signal, sqlite3, sys
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sqlite.file_lock import LockedConnection

def backup(self, target):
    kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    sqlite3.Connection.backup(self, target, pages=1, progress=kill)

LockedConnection.backup = backup
asyncio.run(SqliteJournal(sys.argv[1]).backup(sys.argv[2]))
"""


@pytest.mark.slow
async def test_what_killed_backups_leave_is_removed_by_the_next_one_also_under_another_name(open_file, path, tmp_path):
    await sending(journal := open_file())
    directory = tmp_path / "backups"
    directory.mkdir()
    for day in ("monday.db", "tuesday.db"):
        command = [sys.executable, "-c", KILLED_BACKUP, str(path), str(directory / day)]
        killed = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
        assert await killed.wait() == -signal.SIGKILL
        assert len(list(directory.iterdir())) == 1

    target = await journal.backup(directory / "wednesday.db")

    assert list(directory.iterdir()) == [target]
    assert await open_file(target).get(ref_of(), NOW) is not None


async def test_a_backup_during_writes_is_consistent(open_file, tmp_path):
    journal, other = open_file(), open_file()
    await journal.intend(order_of("0"))

    async def write() -> None:
        for n in range(1, 30):
            await other.intend(order_of(str(n)))

    writing = asyncio.create_task(write())
    target = await journal.backup(tmp_path / "backup.db")
    await writing
    with closing(sqlite3.connect(target)) as db:
        found = [int(row[0]) for row in db.execute("SELECT order_id FROM orders ORDER BY id")]
        assert found
        assert found == list(range(len(found)))
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)

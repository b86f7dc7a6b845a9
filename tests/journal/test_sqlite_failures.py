"""Failures of a journal in a file: the error states what happened to which file and what to do; nothing is changed."""

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from attrs import evolve

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, accepted, order_of, permission, ref_of, rows, sending
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sqlite import file, schema
from vidgen_async.journal.sqlite.file import find_network_file_system
from vidgen_async.types.orders import OrderState, TaskResult


async def fails(journal: SqliteJournal, *words: str, may_be_temporary: bool = False) -> None:
    """An operation raises JournalError with these words and the file's name in it."""
    with pytest.raises(JournalError) as caught:
        await journal.intend(order_of())
    for word in (str(journal._file.path), "Nothing was written", *words):
        assert word in str(caught.value)
    assert caught.value.may_be_temporary is may_be_temporary


@pytest.fixture
def journal(open_file) -> SqliteJournal:
    return open_file()


async def test_a_directory_is_not_a_journal(open_file, tmp_path):
    await fails(open_file(tmp_path), "cannot be opened")


async def test_a_database_of_another_program_is_not_changed(journal, path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE of_another_program (id)")
        db.commit()
    before = path.read_bytes()
    await fails(journal, "another program", "another path")
    assert path.read_bytes() == before


async def test_a_file_of_an_older_version_is_upgraded_with_its_orders(journal, path, monkeypatch):
    await sending(journal)
    await journal.aclose()
    later = ("ALTER TABLE orders ADD COLUMN note TEXT NOT NULL DEFAULT 'none'",)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, later))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)

    assert (await journal.get(ref_of(), NOW)).state is OrderState.SENDING

    await journal.aclose()
    assert rows(path, "SELECT note FROM orders") == [("none",)]
    assert rows(path, "PRAGMA user_version") == [(schema.VERSION,)]


@pytest.mark.parametrize("version", range(1, schema.VERSION))
async def test_a_file_of_each_earlier_version_is_upgraded_with_its_orders(version, path, open_file, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:version])
        older.setattr(schema, "VERSION", version)
        old = open_file()
        await old.namespace("word")
        await old.aclose()
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "INSERT INTO orders (service, account, order_id, idempotency_key, body, created_at) "
            "VALUES (?, ?, 'o', 'k', ?, 0)",
            (SERVICE, ACCOUNT, b"{}"),
        )
        db.commit()

    new = open_file()

    assert await new.namespace("another") == "word"
    await new.begin(permission())
    await new.settle(ref_of(), 1, accepted("task-1"))
    await new.record(SERVICE, [TaskResult(task_id="task-1", status="completed", at=NOW)])
    order = await new.get(ref_of(), NOW)
    assert order.is_terminal
    assert order.local_images == {}
    with_images = evolve(order_of("p"), local_images={"image-1": "ab" * 32})
    assert await new.intend(with_images) == with_images


async def test_a_failed_migration_changes_nothing(journal, path, monkeypatch):
    await journal.intend(order_of())
    await journal.aclose()
    before = path.read_bytes()
    broken = ("ALTER TABLE orders ADD COLUMN note TEXT", "INSERT INTO missing VALUES (1)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    await fails(journal, "no such table")
    assert path.read_bytes() == before


async def test_an_operation_on_a_full_disk_writes_nothing_and_can_be_retried(journal):
    await journal.intend(order_of("a"))
    pages = "PRAGMA max_page_count = 1"  # no more than it has now
    await journal._run(lambda db: db.execute(pages).fetchone())
    with pytest.raises(JournalError, match="disk is full") as caught:
        await journal.intend(order_of("b", body=b"x" * 100_000))
    assert caught.value.may_be_temporary
    assert [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW)] == ["a"]
    await journal.intend(order_of("b", body=b"x" * 100_000))
    assert len(await journal.list(SERVICE, ACCOUNT, NOW)) == 2


async def test_an_operation_on_a_locked_file_times_out_and_can_be_retried(open_file, path):
    journal = open_file(busy_timeout=0.05)
    await journal.intend(order_of("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        await fails(journal, "locked", "close that program", may_be_temporary=True)
        db.execute("ROLLBACK")
    await journal.intend(order_of())
    assert len(await journal.list(SERVICE, ACCOUNT, NOW)) == 2


@pytest.mark.parametrize("busy_timeout", [0.05, 30.0])
async def test_a_file_that_another_program_has_open_in_wal_mode_is_refused_at_once(open_file, path, busy_timeout):
    journal = open_file(busy_timeout=busy_timeout)
    await journal.intend(order_of("a"))
    await journal.aclose()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("SELECT * FROM orders").fetchall()
        words = ("locked", "journal_mode = WAL", "end that program", "database browser")
        await fails(journal, *words, may_be_temporary=True)
    await journal.intend(order_of())
    assert rows(path, "PRAGMA journal_mode") == [("delete",)]  # which is not stored, unlike WAL


async def test_a_file_that_another_program_switches_to_wal_mode_while_in_use_is_switched_back(open_file, path):
    journals = {order_id: open_file(busy_timeout=0.05) for order_id in "xy"}
    for order_id, journal in journals.items():
        await sending(journal, order_id)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("SELECT * FROM orders").fetchall()
        for journal in journals.values():
            with suppress(JournalError):
                await journal.intend(order_of("b"))
        await fails(journal, "locked", "journal_mode = WAL", may_be_temporary=True)

    for order_id, journal in journals.items():
        assert (await journal.settle(ref_of(order_id), 1, accepted())).receipt is not None
    assert rows(path, "PRAGMA journal_mode") == [("delete",)]
    assert not path.with_name("orders.db-wal").exists()


async def test_a_file_whose_unsafe_journal_mode_cannot_be_changed_is_refused(journal, monkeypatch):
    class Stubborn(file.LockedConnection):
        def execute(self, sql, *facts):
            return super().execute("SELECT 'wal'" if "journal_mode" in sql else sql, *facts)

    monkeypatch.setattr(file, "LockedConnection", Stubborn)
    await fails(journal, "journal mode 'wal'", "end that program", may_be_temporary=True)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.rename(path.with_suffix(".old"))])
async def test_a_file_that_is_deleted_or_moved_while_in_use_is_not_created_again(journal, path, harm):
    await sending(journal)
    harm(path)
    for _ in range(2):
        await fails(journal, "deleted or replaced", "put it back", may_be_temporary=True)
    with pytest.raises(JournalError, match="deleted"):
        await journal.settle(ref_of(), 1, accepted())
    assert not path.exists()


async def test_an_outdated_sqlite_is_reported(journal, path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    await fails(journal, "SQLite 3.37 or newer")
    assert not path.exists()


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:40 / /mnt/share rw shared:1 - nfs4 host:/export rw
24 23 254:1 / /mnt/share/disk rw - xfs /dev/vdb rw
25 22 0:41 / /mnt/with\\040space rw - cifs //host/share rw
26 22 0:42 / /mnt/sshfs rw - fuse.sshfs user@host: rw
27 22 254:2 / /mnt/ntfs rw - fuseblk /dev/vdc rw
28 22 0:43 / /mnt/hidden rw - nfs host:/export rw
29 28 254:3 / /mnt/hidden rw - ext4 /dev/vdd rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file from which the mounts are read; it is missing at first."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(file, "MOUNTS", mounts)
    return mounts


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/var/lib", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/shared", None),
        ("/mnt/share/disk", None),
        ("/mnt/with space", "cifs"),
        ("/mnt/sshfs/a/b", "fuse.sshfs"),
        ("/mnt/ntfs", None),
        ("/mnt/hidden", None),
    ],
)
def test_a_network_file_system_is_detected_by_its_mount(mounts, where, kind):
    mounts.write_text(MOUNTS)
    assert find_network_file_system(Path(where, "orders.db")) == kind


@pytest.mark.parametrize("kind", ["virtiofs", "vboxsf", "prl_fs", "drvfs", "vmhgfs", "9p", "fuse.vmhgfs-fuse", "osxfs"])
async def test_a_folder_that_is_shared_with_a_host_is_refused(mounts, open_file, path, kind):
    mounts.write_text(f"22 1 0:40 / / rw - {kind} host rw\n")
    await fails(open_file(), f"({kind})")
    assert not path.exists()


def test_no_network_file_system_is_detected_without_a_list_of_mounts(mounts, path):
    assert find_network_file_system(path) is None


async def test_a_network_file_system_is_refused_unless_it_is_allowed(mounts, open_file, path):
    mounts.write_text("22 1 0:40 / / rw - nfs host:/export rw\n")
    await fails(open_file(), "network file system or in a shared folder (nfs)")
    assert not path.exists()
    assert (await open_file(allow_network_file_system=True).intend(order_of())).state is OrderState.QUEUED


@pytest.mark.parametrize("path", ["", ":memory:", "a\0b"])
def test_an_invalid_path_is_refused_immediately(path):
    with pytest.raises(ConfigurationError, match="MemoryJournal"):
        SqliteJournal(path)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e9, True, "30", None])
def test_a_timeout_that_is_no_number_of_seconds_is_refused_immediately(path, seconds):
    message = re.escape(f"busy_timeout must be 0 to 86400 seconds: {seconds!r}")
    with pytest.raises(ConfigurationError, match=message):
        SqliteJournal(path, busy_timeout=seconds)

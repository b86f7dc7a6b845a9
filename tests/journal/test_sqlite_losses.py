"""A journal that is missing or empty, but was not before, is no new one; every healthy file remains usable."""

import asyncio
import errno
import itertools
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.journal.conftest import ACCOUNT, NOW, SERVICE, accepted, order_of, permission, ref_of, rows, sending
from tests.journal.test_stored_files import DATA
from tests.proof.broken import unprivileged
from vidgen_async.errors import JournalError
from vidgen_async.journal.sqlite import file, schema, side_files
from vidgen_async.types.orders import Attempt, OrderState


async def use(journal) -> None:
    """Store an accepted order ``used``, and close the journal."""
    await sending(journal, "used")
    await journal.settle(ref_of("used"), 1, accepted())
    await journal.aclose()


async def begin_new(journal) -> Attempt:
    await journal.intend(order_of("new"))
    return await journal.begin(permission("new"))


async def is_refused(journal, *words: str) -> str:
    """Every operation fails, with a message that names these words, the documentation, and how to begin anew."""
    for operation in (begin_new, lambda journal: journal.list(SERVICE, ACCOUNT, NOW)):
        with pytest.raises(JournalError) as caught:
            await operation(journal)
        for word in (
            str(journal.path),
            *words,
            "docs/how-to/backups.md",
            "begin anew on purpose",
            "Nothing was written",
        ):
            assert word in str(caught.value)
        assert caught.value.may_be_temporary is False
    return str(caught.value)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir()}


def overwrite(content: bytes, path: Path) -> None:
    path.write_bytes(content)


DELETED = Path.unlink
EMPTIED = partial(overwrite, b"")
LOSSES = {"deleted": DELETED, "emptied": EMPTIED, "one line": partial(overwrite, b"\n")}
#: The files that are left beside it, with content for those that a journal does not leave by itself.
LEFT = {
    "-lock": None,
    "-lock-queue": None,
    "-lock -lock-queue -journal": None,
    "-journal": None,
    "-wal": b"a log",
    "-shm": b"its index",
}


#: What a first opening that is killed leaves, too, or what only another program can leave.
NO_LOSS = {("emptied", "-journal"), ("one line", "-journal"), ("one line", "-wal"), ("one line", "-shm")}


@pytest.mark.parametrize(("loss", "left"), sorted({*itertools.product(LOSSES, LEFT)} - NO_LOSS))
async def test_a_lost_file_is_refused_until_those_beside_it_are_deleted(open_file, path, loss, left):
    await use(open_file())
    LOSSES[loss](path)
    names = {path.name + suffix for suffix in left.split()}
    for each in path.parent.iterdir():
        if each != path and each.name not in names:
            each.unlink()
    if LEFT[left] is not None:
        (path.parent / names.copy().pop()).write_bytes(LEFT[left])
    before = snapshot(path.parent)

    message = await is_refused(open_file(), "is missing" if loss == "deleted" else "is empty", *names)

    if loss != "one line":
        assert snapshot(path.parent) == before
    for name in message.rsplit("first delete ", 1)[1].rsplit(" in ", 1)[0].split(", "):
        (path.parent / name).unlink()
    assert list(path.parent.iterdir()) == []
    assert (await begin_new(open_file())).n == 1


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_file_that_is_put_back_is_used_again(open_file, path, loss, tmp_path):
    journal = open_file()
    await use(open_file())
    shutil.copyfile(path, tmp_path / "backup.db")
    LOSSES[loss](path)
    await is_refused(journal)
    shutil.copyfile(tmp_path / "backup.db", path)
    assert (await journal.get(ref_of("used"), NOW)).state is OrderState.ACCEPTED


async def test_a_file_that_is_lost_while_in_use_is_refused_by_all_processes(open_file, path):
    running = open_file()
    await sending(running, "used")
    EMPTIED(path)
    before = snapshot(path.parent)
    await is_refused(running, "is empty")
    await is_refused(open_file(), "is empty")
    assert snapshot(path.parent) == before
    DELETED(path)
    await is_refused(open_file(), "is missing")
    assert not path.exists()


async def test_an_emptied_file_that_another_program_has_made_a_database_again_is_refused(open_file, path):
    await use(open_file())
    EMPTIED(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    assert path.stat().st_size
    await is_refused(open_file(), "is empty")


async def test_a_lost_file_of_an_earlier_release_is_noticed_once_it_was_opened(open_file, path):
    shutil.copyfile(DATA / "orders-0.1.0.db", path)
    journal = open_file()
    await journal.get(ref_of(), NOW)
    await journal.aclose()
    EMPTIED(path)
    await is_refused(open_file(), "is empty")


async def test_the_target_of_a_link_that_is_lost_is_noticed(open_file, path, tmp_path):
    (directory := tmp_path / "volume").mkdir()
    path.symlink_to(directory / "target.db")
    await use(open_file())
    DELETED(directory / "target.db")
    await is_refused(open_file(), "target.db-lock")


# -- no false alarm ----------------------------------------------------------------------------------------------------


def copy_file(path: Path, new: Path) -> None:
    """As a volume has it that holds only the file."""
    shutil.copyfile(path, new)


def move_all(path: Path, new: Path) -> None:
    for each in list(path.parent.glob("orders.db*")):
        each.rename(new.parent / each.name)


def restore_over(path: Path, new: Path) -> None:
    """Where another journal was used and deleted without the files beside it."""
    move_all(path, new)
    new.write_bytes(b"")
    shutil.copyfile(new.with_name("saved"), new)


def only_the_file_is_left(path: Path, new: Path) -> None:
    path.rename(new)


MOVES = {"copied": copy_file, "moved": move_all, "restored": restore_over, "alone": only_the_file_is_left}


@pytest.mark.parametrize("move", MOVES)
async def test_a_journal_elsewhere_is_used_and_its_loss_is_noticed_there(open_file, path, tmp_path, move):
    (directory := tmp_path / "elsewhere").mkdir()
    await use(open_file())
    await (journal := open_file()).backup(directory / "saved")
    await journal.aclose()
    new = directory / path.name
    MOVES[move](path, new)

    journal = open_file(new)
    assert (await journal.get(ref_of("used"), NOW)).state is OrderState.ACCEPTED
    await journal.aclose()
    await begin_new(again := open_file(new))
    await again.aclose()
    EMPTIED(new)
    await is_refused(open_file(new), "is empty")


async def test_a_restored_backup_without_attempts_is_used(open_file, path, tmp_path):
    journal = open_file()
    await journal.intend(order_of("used"))
    await journal.backup(tmp_path / "saved")
    await use(journal)
    shutil.copyfile(tmp_path / "saved", path)
    assert (await begin_new(open_file())).n == 1


async def test_after_all_files_are_deleted_a_journal_is_new(open_file, path):
    await use(open_file())
    for each in path.parent.iterdir():
        each.unlink()
    assert (await begin_new(open_file())).n == 1


async def test_an_empty_file_is_a_new_journal_until_the_first_attempt(open_file, path):
    path.touch()
    for _ in range(2):
        journal = open_file()
        await journal.intend(order_of("used"))
        await journal.aclose()
        EMPTIED(path)
    await use(open_file())
    EMPTIED(path)
    await is_refused(open_file(), "is empty")


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.slow
async def test_a_first_opening_that_is_killed_at_any_statement_leaves_a_file_that_works(
    open_file, tmp_path, monkeypatch
):
    """Its transaction is left as on a disk: the files are copied before the connection is closed."""
    left: list[Path] = []
    for last in itertools.count():
        (directory := tmp_path / str(last)).mkdir()
        copy = tmp_path / f"{last}-left"

        class Dying(file.LockedConnection):
            count = itertools.count()

            def execute(self, sql, *facts, directory=directory, copy=copy, last=last):
                if sql != "PRAGMA journal_mode" and next(self.count) == last:
                    shutil.copytree(directory, copy)
                    raise KilledError
                return super().execute(sql, *facts)

        with monkeypatch.context() as patch:
            patch.setattr(file, "LockedConnection", Dying)
            journal = open_file(directory / "orders.db")
            try:
                await journal.intend(order_of())
            except KilledError:
                left.append(copy / "orders.db")
            else:
                break
            finally:
                await journal.aclose()
    assert len(left) > len(schema.MIGRATIONS)
    assert {each.stat().st_size > 0 for each in left} == {False, True}
    for each in left:
        assert (await begin_new(open_file(each))).n == 1


async def test_a_first_opening_that_is_killed_in_its_commit_leaves_a_file_that_works(open_file, path):
    """SQLite has written to the rollback journal how to undo the commit, and nothing to the file."""
    await open_file().namespace("word")
    path.write_bytes(b"")
    path.with_name("orders.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    assert (await begin_new(open_file())).n == 1


async def test_a_crash_between_the_mark_and_the_commit_of_the_first_attempt_leaves_a_file_that_works(
    open_file, path, monkeypatch
):
    class Dying(file.LockedConnection):
        has_attempt = False

        def execute(self, sql, *facts):
            self.has_attempt |= sql.startswith("INSERT INTO attempts")
            if sql == "COMMIT" and self.has_attempt:
                assert side_files.is_marked(path)
                raise KilledError
            return super().execute(sql, *facts)

    with monkeypatch.context() as patch:
        patch.setattr(file, "LockedConnection", Dying)
        with pytest.raises(KilledError):
            await begin_new(journal := open_file())
        await journal.aclose()

    assert (await open_file().get(ref_of("new"), NOW)).state is OrderState.QUEUED
    assert (await begin_new(open_file())).n == 1


async def test_an_attempt_whose_mark_cannot_be_written_is_not_stored_and_one_that_can_is(open_file, path, monkeypatch):
    journal = open_file()

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    await journal.intend(order_of("new"))
    with monkeypatch.context() as patch:
        patch.setattr(side_files.os, "fsync", fail)
        patch.setattr(side_files, "_MARK", b"")
        with pytest.raises(JournalError, match="disk is full") as caught:
            await journal.begin(permission("new"))
        assert caught.value.may_be_temporary
        assert rows(path, "SELECT * FROM attempts") == []
    assert (await journal.begin(permission("new"))).n == 1
    await journal.aclose()

    for each in path.parent.glob("*-lock*"):
        each.write_bytes(b"")  # as in a copy
    with monkeypatch.context() as patch:
        patch.setattr(side_files, "_MARK", b"")
        patch.setattr(side_files.os, "fsync", fail)
        assert (await open_file().get(ref_of("new"), NOW)).state is OrderState.SENDING


async def test_the_first_attempts_of_several_journals_at_once_are_stored(open_file, tmp_path):
    for round_ in range(5):
        (directory := tmp_path / str(round_)).mkdir()
        journals = [open_file(directory / "orders.db") for _ in range(6)]
        await asyncio.gather(*(sending(journal, str(n)) for n, journal in enumerate(journals)))
        assert rows(directory / "orders.db", "SELECT count(*) FROM attempts") == [(6,)]


@pytest.mark.parametrize("is_locked", [False, True], ids=["read-only directory", "lock of another user"])
async def test_files_that_another_user_owns_are_used_as_before(open_file, path, is_locked):
    shutil.copyfile(DATA / "orders-0.1.0.db", path)
    for name in ("", "-journal", "-lock", "-lock-queue"):
        (each := path.with_name(path.name + name)).touch()
        each.chmod(0o444 if is_locked and "lock" in name else 0o666)
    path.parent.chmod(0o555)
    with unprivileged():
        await begin_new(journal := open_file())
        await journal.aclose()
    path.parent.chmod(0o755)
    assert side_files.is_marked(path) is not is_locked


WRITES: dict[str, Callable[..., object]] = {
    "namespace": lambda journal: journal.namespace("word"),
    "intend": lambda journal: journal.intend(order_of()),
    "get": lambda journal: journal.get(ref_of(), NOW),
}


@pytest.mark.parametrize("write", WRITES)
async def test_no_mark_is_written_before_the_first_attempt(open_file, path, write):
    await WRITES[write](open_file())
    assert not side_files.is_marked(path)

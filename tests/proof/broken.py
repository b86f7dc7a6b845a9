"""Ways to damage the file of a journal. Each is a context manager that damages it on entry and repairs it on exit."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from vidgen_async.clock import VirtualClock
from vidgen_async.journal import PostgresJournal, SqliteJournal
from vidgen_async.journal.sqlite import schema

Harm: TypeAlias = Callable[[Path], AbstractContextManager[None]]

NOBODY = 65534
PAGE = 4096
UNWRITABLE = ("may not write", "make the file and its directory writable")
DAMAGED = ("damaged", "check the account before you order anything", "docs/how-to/backups.md")
LOST = ("lost", "begin anew on purpose", *DAMAGED)
GONE = ("deleted or replaced", "put it back")


class Held:
    """A journal during whose operations no virtual time passes."""

    def __init__(self, place: Any, clock: VirtualClock, **options: Any) -> None:
        super().__init__(place, **options)
        self._clock = clock
        self.is_settling = asyncio.Event()
        """A writer that has an outcome to record."""

    async def settle(self, *outcome: Any) -> Any:
        self.is_settling.set()
        return await super().settle(*outcome)


class HeldJournal(Held, SqliteJournal):
    def __init__(self, path: Path, clock: VirtualClock) -> None:
        super().__init__(path, clock, busy_timeout=0.01)

    async def _run(self, *operation: Any) -> Any:
        with self._clock.hold():
            return await super()._run(*operation)


class HeldPostgresJournal(Held, PostgresJournal):
    async def _submit(self, submit: Any) -> Any:
        with self._clock.hold():
            return await super()._submit(submit)


class StruckJournal(SqliteJournal):
    """Harm comes just before the named operation, once."""

    def __init__(self, path: Path, operation: str, strike: Callable[[], object]) -> None:
        super().__init__(path, busy_timeout=0.01)
        self._strikes = {operation: strike}

    def _maybe(self, operation: str) -> None:
        self._strikes.pop(operation, lambda: None)()

    async def intend(self, order: Any) -> Any:
        self._maybe("intend")
        return await super().intend(order)

    async def turn(self, *asked: Any) -> Any:
        self._maybe("turn")
        return await super().turn(*asked)

    async def begin(self, permission: Any) -> Any:
        self._maybe("begin")
        return await super().begin(permission)


# -- its place ---------------------------------------------------------------------------------------------------------


@contextmanager
def no_directory(path: Path) -> Iterator[None]:
    elsewhere = path.parent.with_suffix(".away")
    path.parent.rename(elsewhere)
    yield
    elsewhere.rename(path.parent)


@contextmanager
def moved(path: Path) -> Iterator[None]:
    elsewhere = path.with_suffix(".away")
    path.rename(elsewhere)
    yield
    elsewhere.rename(path)


@contextmanager
def deleted(path: Path) -> Iterator[None]:
    """What puts it back is another name of the same file."""
    kept = path.with_suffix(".kept")
    kept.hardlink_to(path)
    path.unlink()
    yield
    kept.rename(path)


@contextmanager
def replaced(path: Path) -> Iterator[None]:
    """By a copy: the same orders, but not the file that other processes write into."""
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    with deleted(path):
        copy.rename(path)
        yield


@contextmanager
def unprivileged() -> Iterator[None]:
    """Not root, to whom nothing is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def directory_not_writable(path: Path) -> Iterator[None]:
    path.parent.chmod(0o555)
    with unprivileged():
        yield
    path.parent.chmod(0o755)


@contextmanager
def not_writable(path: Path) -> Iterator[None]:
    path.chmod(0o444)
    with unprivileged():
        yield
    path.chmod(0o600)


@contextmanager
def rollback_file_not_writable(path: Path) -> Iterator[None]:
    """The file beside it, without which SQLite writes nothing."""
    with not_writable(path.with_name(f"{path.name}-journal")):
        yield


# -- its users ---------------------------------------------------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.execute("ROLLBACK")


@contextmanager
def newer(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    yield
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION}")


# -- its bytes ---------------------------------------------------------------------------------------------------------


@contextmanager
def overwritten(path: Path, change: Callable[[bytearray], object]) -> Iterator[None]:
    """The same file with other bytes, as a failing disk or a careless program leaves it."""
    before = path.read_bytes()
    changed = bytearray(before)
    change(changed)
    _write(path, changed)
    yield
    _write(path, before)


def _write(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def damaged(path: Path) -> AbstractContextManager[None]:
    """Everything but the first page, and the counter by which SQLite sees that its memory is stale."""

    def change(content: bytearray) -> None:
        content[24:28] = b"\xee" * 4
        content[PAGE:] = b"\xff" * (len(content) - PAGE)

    return overwritten(path, change)


def without_head(path: Path) -> AbstractContextManager[None]:
    def change(content: bytearray) -> None:
        content[:100] = b"\xff" * 100

    return overwritten(path, change)


def truncated(path: Path) -> AbstractContextManager[None]:
    def change(content: bytearray) -> None:
        content[24:28] = b"\xee" * 4
        del content[2 * PAGE + 100 :]

    return overwritten(path, change)


def misread(path: Path) -> AbstractContextManager[None]:
    """The name of a table is not valid text any more, so that Python cannot even decode SQLite's message."""

    def change(content: bytearray) -> None:
        for counter in (24, 40):  # SQLite looks at the content again, and at the definitions
            content[counter : counter + 4] = b"\xee" * 4
        for words in (b"ordersorders", b"CREATE TABLE orders"):
            start = content.index(words)
            content[start : start + len(words)] = b"\xff" * len(words)

    return overwritten(path, change)


def emptied(path: Path) -> AbstractContextManager[None]:
    return overwritten(path, bytearray.clear)


@frozen
class Trouble:
    """A way to damage the journal, and texts of the resulting message."""

    harm: Harm
    words: tuple[str, ...]

    def __str__(self) -> str:
        return self.harm.__name__


#: To a file that no process uses; the first two also where there is none yet.
AT_OPENING = (
    Trouble(no_directory, ("no directory", "create it first")),
    Trouble(directory_not_writable, UNWRITABLE),
    Trouble(not_writable, UNWRITABLE),
    Trouble(locked, ("locked", "close that program")),
    Trouble(damaged, DAMAGED),
    Trouble(without_head, ("not a journal", "give the path")),
    Trouble(truncated, DAMAGED),
    Trouble(emptied, LOST),
    Trouble(moved, LOST),
    Trouble(newer, ("newer", "upgrade vidgen_async")),
)
#: To a file that is in use.
IN_USE = (
    Trouble(no_directory, GONE),
    Trouble(moved, GONE),
    Trouble(deleted, GONE),
    Trouble(replaced, GONE),
    Trouble(rollback_file_not_writable, ()),  # SQLite takes it for a disk that fails, then for a file that is not there
    Trouble(locked, ("locked", "close that program")),
    Trouble(damaged, DAMAGED),
    Trouble(without_head, ("not a journal", "give the path")),
    Trouble(truncated, DAMAGED),
    Trouble(emptied, LOST),
)

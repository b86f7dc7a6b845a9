"""A database connection in its own thread, so that the event loop never waits for the disk."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeGuard, TypeVar

from vidgen_async.errors import VidgenError
from vidgen_async.events import Event
from vidgen_async.journal.sql.groups import Group, Waiting, has_begun
from vidgen_async.journal.sql.queries import RECORD_ERRORS
from vidgen_async.journal.sqlite.file import JournalFile
from vidgen_async.journal.sqlite.file_lock import LockedConnection, transaction
from vidgen_async.redaction.messages import showable

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Waiting: TypeAlias = Waiting[LockedConnection]


class ConnectionThread:
    """Carries out operations one after the other until it is closed. Those that write share commits.

    An operation that has begun is completed; one whose caller is cancelled before never begins. The thread is a daemon:
    a process that ends without closing it does not wait for it, and SQLite rolls back an uncommitted transaction when
    the file is opened again.
    """

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._queue: SimpleQueue[tuple[Future[Any], _Waiting, str | None] | None] = SimpleQueue()
        """The future of an operation, where that waits, and the kind of its transaction."""
        self._writes: _Waiting = Waiting()
        self._is_locked = False
        """Whether the last operation failed because another program locked the journal."""
        self._end: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name=f"journal {file.path.name}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[LockedConnection], T], kind: str | None) -> Future[T]:
        """Queue an operation, in a transaction of this kind if it is not None, and return the future of its result, or
        of a JournalError. Cancelling the future has an effect only on an operation that has not begun."""
        future: Future[T] = Future()
        waiting = self._writes if kind == "IMMEDIATE" else Waiting()
        waiting.add(operation, future)
        self._queue.put((future, waiting, kind))
        return future

    async def aclose(self) -> None:
        """Wait until all queued operations are carried out and the thread has ended. The thread also ends if the caller
        is cancelled."""
        self._queue.put(None)
        await asyncio.wrap_future(self._end)
        self._thread.join()

    def _work(self) -> None:
        # Only this thread refers to the connection. A forked child does not have this thread, so it cannot close the
        # connection, which would roll back the parent's transaction in the file.
        db: LockedConnection | None = None
        while (item := self._queue.get()) is not None:
            future, waiting, kind = item
            if not has_begun(future):
                db = self._carry_out(waiting.next_group(), kind, db)
            del item, future, waiting  # an idle thread must not keep a result in memory
        _close(db)
        if self._end.set_running_or_notify_cancel():
            self._end.set_result(None)

    def _carry_out(
        self, group: Group[LockedConnection], kind: str | None, db: LockedConnection | None
    ) -> LockedConnection | None:
        """Return the connection for the next group; None after an error, so that it is opened again."""
        try:
            db = db or self._file.open()
            self._file.check_identity()
            with nullcontext() if kind is None else transaction(db, kind):
                group.execute(db)
        except BaseException as error:  # noqa: BLE001 - any error must reach the waiting callers
            failure, parts = self._explain(error), group.split()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                self._fail_waiting(failure)
            if failure is not error:
                _close(db)
                db = None
            for part in parts:
                db = self._carry_out(part, kind, db)
            if not parts:
                group.fail(failure)
            return db
        self._is_locked = False
        group.answer()
        if _is_in_wal_mode(db):  # so that this connection does not prevent another one from switching it off
            _close(db)
            return None
        return db

    def _explain(self, error: BaseException) -> BaseException:
        """Return the JournalError for an error of SQLite, of the system, or of a record; any other as it is."""
        if not _is_of_file(error):
            return error
        failure = self._file.explain(error)
        failure.__cause__ = showable(error)
        return failure

    def _fail_waiting(self, error: BaseException) -> None:
        """Let all queued operations fail: they have waited for the lock just as long. A single warning is logged until
        an operation succeeds again."""
        if not self._is_locked:
            self._is_locked = True
            Event.JOURNAL_LOCKED.log(logger, path=str(self._file.path))
        for _ in range(self._queue.qsize()):
            item = self._queue.get()
            if item is None:
                self._queue.put(None)  # the thread ends after the current operation
            elif not has_begun(item[0]) and item[0].set_running_or_notify_cancel():
                item[0].set_exception(error)


def _is_of_file(error: BaseException) -> TypeGuard[Exception]:
    """Whether SQLite, the system or a record is the cause: the file is opened again."""
    return isinstance(error, (sqlite3.Error, OSError, *RECORD_ERRORS)) and not isinstance(error, VidgenError)


def _is_in_wal_mode(db: LockedConnection) -> bool:
    """Return whether another program has switched the file to WAL mode. Opening it again switches that off."""
    try:
        return bool(db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")
    except sqlite3.Error:
        return False  # the next operation reports it


def _close(db: LockedConnection | None) -> None:
    if db is not None:
        with suppress(sqlite3.Error):
            db.close()

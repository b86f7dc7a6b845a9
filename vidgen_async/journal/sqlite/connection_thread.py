"""A database connection in its own thread, so that the event loop never waits for the disk."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from vidgen_async.errors import JournalError, VidgenError
from vidgen_async.events import Event, report
from vidgen_async.journal.sqlite.file import JournalFile

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ConnectionThread:
    """Carries out operations one after the other until it is closed.

    An operation that has begun is completed; one whose caller is cancelled before never begins. The thread is a daemon:
    a process that ends without closing it does not wait for it, and SQLite rolls back an uncommitted transaction when
    the file is opened again.
    """

    def __init__(self, file: JournalFile) -> None:
        self.process = os.getpid()
        self._file = file
        self._steps: SimpleQueue[Callable[[_Connection], None] | None] = SimpleQueue()
        self._tickets = 0
        """Number of operations submitted so far; the number of the latest one."""
        self._lock = threading.Lock()
        self._end: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name=f"journal {file.path.name}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue an operation and return the future of its result, or of a JournalError.

        Cancelling the future has an effect only on an operation that has not begun.
        """
        future: Future[T] = Future()
        with self._lock:
            self._tickets += 1
            self._steps.put(partial(self._carry_out, operation, future, self._tickets))
        return future

    def _carry_out(
        self, operation: Callable[[sqlite3.Connection], T], future: "Future[T]", ticket: int, connection: "_Connection"
    ) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if connection.timeout is not None and ticket <= connection.timeout[0]:
            future.set_exception(connection.timeout[1])
            return
        try:
            result = operation(connection.get())
        except VidgenError as error:
            future.set_exception(error)
        except (sqlite3.Error, OSError, ValueError, OverflowError, RecursionError) as error:
            connection.close()
            journal_error = connection.file.explain(error)
            journal_error.__cause__ = error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                # Operations that were submitted meanwhile have waited for the lock just as long: they fail too.
                connection.time_out(self._tickets, journal_error)
            future.set_exception(journal_error)
        except BaseException as error:  # noqa: BLE001 - any error must reach the waiting caller
            future.set_exception(error)
        else:
            connection.timeout = None
            future.set_result(result)

    async def aclose(self) -> None:
        """Wait until all queued operations are carried out and the thread has ended. The thread also ends if the caller
        is cancelled."""
        self._steps.put(None)
        await asyncio.wrap_future(self._end)
        self._thread.join()

    def _work(self) -> None:
        # Only this frame refers to the connection. A forked child does not have this thread, so it cannot close the
        # connection, which would roll back the parent's transaction in the file.
        connection = _Connection(self._file)
        while (step := self._steps.get()) is not None:
            step(connection)
            del step  # an idle thread must not keep a result in memory
        connection.close()
        if self._end.set_running_or_notify_cancel():
            self._end.set_result(None)


class _Connection:
    """The connection, opened when it is first needed and again after an error."""

    def __init__(self, file: JournalFile) -> None:
        self.file = file
        self._db: sqlite3.Connection | None = None
        self.timeout: tuple[int, JournalError] | None = None
        """The number of the last operation that fails because the journal is locked, and the error; None after a
        successful operation."""

    def time_out(self, ticket: int, error: JournalError) -> None:
        """Let the operations up to ``ticket`` fail, because the journal is locked. A single warning is logged until an
        operation succeeds again."""
        if self.timeout is None:
            message = "journal %(path)s: locked by another program; the waiting operations fail"
            report(logger, logging.WARNING, Event.JOURNAL_LOCKED, message, path=str(self.file.path))
        self.timeout = (ticket, error)

    def get(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = self.file.open()
        self.file.check_identity()
        return self._db

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

"""A connection in a thread of its own: the event loop never waits for the disk."""

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
    """Carries out operations, one after the other, until it is closed.

    An operation that has begun is carried out to its end; one whose caller was cancelled before that never begins.
    The thread is a daemon: a process that ends without closing it does not wait, and what was not committed is undone
    by whoever opens the file next.
    """

    def __init__(self, file: JournalFile) -> None:
        self.process = os.getpid()
        self._file = file
        self._steps: SimpleQueue[Callable[[_Connection], None] | None] = SimpleQueue()
        self._tickets = 0
        """How many operations were submitted: each has the next number."""
        self._lock = threading.Lock()
        self._end: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name=f"journal {file.path.name}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Its result, or JournalError. Cancelling the future keeps an operation from beginning, never from ending."""
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
        if connection.timed_out is not None and ticket <= connection.timed_out[0]:
            future.set_exception(connection.timed_out[1])
            return
        try:
            result = operation(connection.get())
        except VidgenError as error:
            future.set_exception(error)
        except (sqlite3.Error, OSError, ValueError, OverflowError, RecursionError) as error:
            connection.close()
            explained = connection.file.explain(error)
            explained.__cause__ = error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                # What was submitted meanwhile has waited as long as it had to wait for its own turn.
                connection.time_out(self._tickets, explained)
            future.set_exception(explained)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller is waiting for it
            future.set_exception(error)
        else:
            connection.timed_out = None
            future.set_result(result)

    async def aclose(self) -> None:
        """Wait for the operations so far, and for the end of the thread. It ends also when the caller is cancelled."""
        self._steps.put(None)
        await asyncio.wrap_future(self._end)
        self._thread.join()

    def _work(self) -> None:
        # The connection is held by this frame alone. A forked child has no such thread, so nothing there can close
        # it: that would undo, in the file, what the parent is just writing.
        connection = _Connection(self._file)
        while (step := self._steps.get()) is not None:
            step(connection)
            del step  # an idle thread keeps no result alive
        connection.close()
        if self._end.set_running_or_notify_cancel():
            self._end.set_result(None)


class _Connection:
    """Opened when it is first needed, and again after an error."""

    def __init__(self, file: JournalFile) -> None:
        self.file = file
        self._opened: sqlite3.Connection | None = None
        self.timed_out: tuple[int, JournalError] | None = None
        """The last operation that was submitted before the journal turned out to be locked, and the error; None after
        an operation that came through."""

    def time_out(self, ticket: int, error: JournalError) -> None:
        """The journal is locked: operations up to this one fail at once. One warning while it stays so."""
        if self.timed_out is None:
            message = "journal %(path)s: it is locked by another program; what waits for it fails"
            report(logger, logging.WARNING, Event.JOURNAL_LOCKED, message, path=str(self.file.path))
        self.timed_out = (ticket, error)

    def get(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self.file.open()
        self.file.check_still_there()
        return self._opened

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(sqlite3.Error):
                opened.close()

"""A lock on a file beside the journal, and the transactions that hold it.

SQLite's own locks belong to the process and the file: closing any other descriptor of the file, as copying it does,
releases them all. A ``flock`` belongs to the descriptor that acquired it, so other code of the process may copy or read
the journal.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from attrs import asdict

from vidgen_async.journal.sqlite.side_files import SenderLock, is_marked, mark
from vidgen_async.types.orders import OrderRef

try:
    import fcntl
except ImportError:  # not on Windows, whose locks belong to the descriptor anyway
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

_ADD_SESSION = """
    UPDATE attempts SET session = :session
    WHERE service = :service AND account = :account AND order_id = :order_id AND n = :n
"""
_SESSIONS = """
    SELECT order_id, n, session FROM attempts
    WHERE service = :service AND account = :account AND order_id IN ({}) AND session IS NOT NULL
"""

#: Seconds between two attempts to acquire a lock that another process holds.
_PAUSE = 0.001
#: Seconds for which a writer queues behind others, one of which may be suspended.
_LONGEST_QUEUEING = 1.0


class FileLock:
    """A reentrant lock between processes, for use by one thread.

    Writers queue for it with a second file. Without it, the process that has just released the lock would nearly always
    be the first to acquire it again, and keep others waiting while it has more to write.

    Args:
        path: The file that is locked; it is created if it does not exist, as is the one of the queue.
        time_limit: Seconds to wait for the lock before sqlite3.OperationalError (SQLITE_BUSY) is raised, as SQLite
            raises it for its own locks.
        mode: The permissions of new files.
    """

    def __init__(self, path: Path, *, time_limit: float, mode: int) -> None:
        self.path = path
        self._time_limit = time_limit
        self._file = _LockedFile(path, mode)
        self._queue = _LockedFile(path.with_name(f"{path.name}-queue"), mode)
        self._depth = 0

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the lock inside the ``with`` block: exclusively to write, else shared with other readers."""
        if fcntl is not None and not self._depth:
            self._acquire(exclusive=exclusive)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._file.release()

    def close(self) -> None:
        """Close the files; the next use opens them again."""
        self._file.close()
        self._queue.close()

    def _acquire(self, *, exclusive: bool) -> None:
        started_at = monotonic()
        if exclusive:
            self._queue.acquire(fcntl.LOCK_EX, min(self._time_limit, _LONGEST_QUEUEING))
        try:
            time_limit = started_at + self._time_limit - monotonic()
            if not self._file.acquire(fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, time_limit):
                error = sqlite3.OperationalError("the journal's lock file is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
        finally:
            self._queue.release()


class _LockedFile:
    """A file that is opened when it is locked."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path
        self._mode = mode
        self._descriptor: int | None = None

    def acquire(self, kind: int, time_limit: float) -> bool:
        """Lock the file; return whether that succeeded in ``time_limit`` seconds."""
        give_up_at = monotonic() + time_limit
        while True:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT, self._mode)
            try:
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= give_up_at:
                    return False
                sleep(_PAUSE)
                continue
            if self._is_in_place(self._descriptor):
                return True
            self.close()  # the file was replaced, and other processes lock the new one

    def release(self) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False


class LockedConnection(sqlite3.Connection):
    """A connection whose transactions hold the lock. Closing it closes the lock's file too."""

    lock: FileLock | None = None
    file: Path | None = None
    """The journal, if this user may write it."""
    sender_lock: SenderLock | None = None
    """The lock of the attempts that are recorded; None if the end of a process is not detected."""

    def mark_use(self) -> None:
        """Mark the files beside the journal if it has an attempt, which need not be committed yet.

        Raises:
            OSError: The mark could not be written.
        """
        if self.file is None or is_marked(self.file):
            return
        if self.execute("SELECT EXISTS (SELECT 1 FROM attempts)").fetchone()[0]:
            mark(self.file, self.file.stat().st_mode & 0o666)

    def finish(self) -> None:
        """Do nothing: a statement raises its errors when it is executed."""

    def adjust(self, record: T) -> T:
        """Return the record as it is: all processes of one machine have the same clock."""
        return record

    def add_session(self, ref: OrderRef, n: int) -> None:
        if self.sender_lock is not None and (mark := self.sender_lock.hold()) is not None:
            self.execute(_ADD_SESSION, asdict(ref) | {"n": n, "session": mark})

    def lock_task(self, service: str, task_id: str) -> None:
        """Do nothing: one transaction at a time writes."""

    def find_orphaned(self, service: str, account: str, order_ids: Sequence[str]) -> Collection[tuple[str, int]]:
        if self.sender_lock is None:
            return ()
        ids = {f"id{number}": order_id for number, order_id in enumerate(order_ids)}
        query = _SESSIONS.format(", ".join(f":{name}" for name in ids))
        rows = self.execute(query, {"service": service, "account": account} | ids).fetchall()
        ended = self.sender_lock.find_ended(row["session"] for row in rows)
        return {(row["order_id"], row["n"]) for row in rows if row["session"] in ended}

    def close(self) -> None:
        super().close()
        if self.lock is not None:
            self.lock.close()


@contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Execute the ``with`` block in one transaction.

    Args:
        db: The connection.
        kind: ``DEFERRED`` to read a consistent state, ``IMMEDIATE`` to write, with no other writer meanwhile.
    """
    lock = db.lock if isinstance(db, LockedConnection) else None
    is_writing = kind == "IMMEDIATE"
    with nullcontext() if lock is None else lock.hold(exclusive=is_writing):
        db.execute(f"BEGIN {kind}")
        try:
            yield
            if is_writing and isinstance(db, LockedConnection):
                db.mark_use()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

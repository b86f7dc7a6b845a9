"""A lock on a file beside the journal.

SQLite's own locks belong to the process and the file: closing any other descriptor of the file, as copying it does,
releases them all. A ``flock`` belongs to the descriptor that acquired it, so other code of the process may copy or read
the journal.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from vidgen_async.types.orders import OrderRef

try:
    import fcntl
except ImportError:  # not on Windows, whose locks belong to the descriptor anyway
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

#: Seconds between two attempts to acquire a lock that another process holds.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.002


class FileLock:
    """A reentrant lock between processes, for use by one thread.

    Args:
        path: The file that is locked; it is created if it does not exist.
        time_limit: Seconds to wait for the lock before sqlite3.OperationalError (SQLITE_BUSY) is raised, as SQLite
            raises it for its own locks.
        mode: The permissions of a new file.
    """

    def __init__(self, path: Path, *, time_limit: float, mode: int) -> None:
        self.path = path
        self._time_limit = time_limit
        self._mode = mode
        self._descriptor: int | None = None
        self._depth = 0

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the lock inside the ``with`` block: exclusively to write, else shared with other readers."""
        if fcntl is None or self._depth:
            self._depth += 1
        else:
            self._acquire(fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            self._depth = 1
        try:
            yield
        finally:
            self._depth -= 1
            if fcntl is not None and not self._depth and self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _acquire(self, kind: int) -> None:
        give_up_at = monotonic() + self._time_limit
        pause = _SHORTEST_PAUSE
        while True:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CREAT, self._mode)
            try:
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= give_up_at:
                    error = sqlite3.OperationalError("the journal's lock file is locked")
                    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                    raise error from None
                sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if self._is_in_place(self._descriptor):
                return
            self.close()  # the file was replaced, and other processes lock the new one

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False


class LockedConnection(sqlite3.Connection):
    """A connection whose transactions hold the lock. Closing it closes the lock's file too."""

    lock: FileLock | None = None

    def adjust(self, record: T) -> T:
        """Return the record as it is: all processes of one machine have the same clock."""
        return record

    def add_session(self, ref: OrderRef, n: int) -> None:
        """Do nothing: the end of a process is not detected."""

    def find_ended(self, service: str, account: str, order_ids: Sequence[str]) -> Collection[tuple[str, int]]:
        """Return nothing: the end of a process is not detected."""
        return ()

    def close(self) -> None:
        super().close()
        if self.lock is not None:
            self.lock.close()

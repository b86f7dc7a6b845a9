"""The files beside a journal, by which the loss of the journal, and the end of the sender of an attempt, are detected.

An empty file is a new journal, in which an order that was sent would be sent again. So the files of the lock have
content, the mark, once the journal has an attempt. The mark is written before the first attempt is committed,
thus before the first POST. A file without it may be that of a first opening which was killed.

Each open journal locks a byte of its own in a third file, and stores which one in the row of each attempt that it
begins. The system releases the lock when the process has ended, whatever ended it; a process that is stopped holds it.
The locks belong to open file descriptions (``F_OFD_SETLK``), so that no other code of the process releases them by
closing the file. A file that is missing or was replaced proves nothing. A lock that is not held proves only that the
process has ended: it may have sent the order.
"""

import os
import secrets
import struct
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

LOCK, QUEUE, SENDERS = "-lock", "-lock-queue", "-senders"
#: The files of SQLite's write-ahead log, which only a database that is not empty has.
_LOG = ("-wal", "-shm")
_ROLLBACK = "-journal"
_ALL = (_ROLLBACK, *_LOG, LOCK, QUEUE, SENDERS)
_MARK = b"The journal beside this file has been used: if it is missing or empty, it was lost.\n"


def beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def find_side_files(file: Path) -> list[Path]:
    """Return the files beside the journal that exist."""
    return [path for path in (beside(file, suffix) for suffix in _ALL) if path.exists()]


def is_marked(file: Path) -> bool:
    """Return whether the journal has had an attempt."""
    return any(_has_content(beside(file, suffix)) for suffix in (LOCK, QUEUE))


def is_lost(file: Path) -> bool:
    """Return whether the journal is missing or empty, but was not before.

    The files beside it are examined first, because another process may create the journal, and then these, meanwhile.
    """
    was_filled = is_marked(file) or any(beside(file, suffix).exists() for suffix in _LOG)
    existed = was_filled or beside(file, _ROLLBACK).exists()
    try:
        return not file.stat().st_size and was_filled
    except FileNotFoundError:
        return existed


def mark(file: Path, mode: int) -> None:
    """Mark that the journal has an attempt.

    Args:
        file: The journal.
        mode: The permissions of new files.

    Raises:
        OSError: The mark could not be written. The files of another user, which this one may lock but not write, remain
            unmarked.
    """
    for suffix in (LOCK, QUEUE):
        try:
            descriptor = os.open(beside(file, suffix), os.O_WRONLY | os.O_CREAT, mode)
        except PermissionError:
            continue
        try:
            os.write(descriptor, _MARK)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


#: Whether the system has these locks. Without them attempts are sending until their deadlines.
_IS_SUPPORTED = hasattr(fcntl, "F_OFD_SETLK")
#: ``struct flock``: the type, whence the byte is counted, the byte, the length, and a process id, which must be 0.
_FLOCK = "hhqqi0q"


class SenderLock:
    """The lock of one journal in one process. It is acquired when the first attempt is recorded, and held until
    :meth:`close`, or until this object or the process ends."""

    def __init__(self, journal: Path) -> None:
        self.process = os.getpid()
        self._journal = journal
        self._path = beside(journal, SENDERS)
        self._byte = secrets.randbits(62)
        self._mark: str | None = None
        #: Also of files that were replaced: the number of a file is not given to another one while it is open.
        self._descriptors: list[int] = []
        weakref.finalize(self, _close, self._descriptors)
        _locks.add(self)

    def hold(self) -> str | None:
        """Acquire the lock, unless it is held in the file that is in place. Return the mark of attempts that depend on
        it; None if others cannot detect here that this process has ended."""
        if _IS_SUPPORTED and (self._mark is None or not _is_held(self._path, self._mark)):
            self._mark = None
            with suppress(OSError):
                self._mark = self._acquire()
        return self._mark

    def close(self) -> None:
        """Release the lock. It can be called several times."""
        self._mark = None
        _close(self._descriptors)

    def find_ended(self, marks: Iterable[str]) -> set[str]:
        """Return those of the marks of other locks that were released because their processes have ended."""
        others = {mark for mark in marks if not mark.endswith(f":{self._byte}")}
        return {mark for mark in others if _is_held(self._path, mark) is False}

    def _acquire(self) -> str | None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, self._journal.stat().st_mode & 0o666)
        self._descriptors.append(descriptor)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK, self._byte))
        mark = f"{os.fstat(descriptor).st_ino}:{self._byte}"
        return mark if _is_held(self._path, mark) else None  # some file systems accept a lock without effect


_locks: weakref.WeakSet[SenderLock] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the parent's files, so that a child which lives longer does not hold its locks."""
    for lock in list(_locks):
        lock.close()


if _IS_SUPPORTED:
    os.register_at_fork(after_in_child=_close_in_child)


def _is_held(path: Path, mark: str) -> bool | None:
    """Return whether the lock is held; None if that is unknown, because its file is not in place."""
    file, _, byte = mark.partition(":")
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        if str(os.fstat(descriptor).st_ino) != file:
            return None
        kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request(fcntl.F_RDLCK, int(byte))))
        return bool(kind != fcntl.F_UNLCK)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _request(kind: int, byte: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0)


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())

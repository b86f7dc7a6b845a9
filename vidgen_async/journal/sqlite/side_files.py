"""The files beside a journal, by which the loss of the journal itself is detected.

An empty file is a new journal, in which an order that was sent would be sent again. So the files of the lock have
content, the mark, once the journal has an attempt. The mark is written before the first attempt is committed,
thus before the first POST. A file without it may be that of a first opening which was killed.
"""

import os
from pathlib import Path

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

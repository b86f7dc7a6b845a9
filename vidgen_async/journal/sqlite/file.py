"""The file of a journal: where it may lie, how it is opened, and what its errors mean."""

import errno
import logging
import os
import re
import sqlite3
import threading
from pathlib import Path

from vidgen_async.errors import JournalError
from vidgen_async.events import Event, report
from vidgen_async.journal.sqlite import schema
from vidgen_async.journal.sqlite.file_lock import FileLock, LockedConnection

logger = logging.getLogger(__name__)

#: The first SQLite that checks the types of what is written (STRICT tables).
OLDEST_SQLITE = (3, 37, 0)
#: Where Linux lists what is mounted. Elsewhere a network file system is not recognised.
MOUNTS = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"smb2", "smb3", "smbfs"}
)

#: A new file is made by one thread at a time: closing it drops every lock that this process holds on it.
_making = threading.Lock()

_NOT_WRITABLE = "this user may not write it; make the file and its directory writable"
_DISK_FULL = "the disk is full; make room, then try again"
_DAMAGED = (
    "it is damaged; look at the account before anything is ordered again, with a new file or with a copy that is put "
    "back: what is not in it is sent again"
)
_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another program kept it locked for too long; end that program's transaction, then try again",
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened; it must be a file that this user may read and write, in a directory where this user may "
        "make files"
    ),
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_IOERR: (
        "the disk failed; look whether it is full, over its quota, or gone, and whether the files beside it may be "
        "written, then try again"
    ),
    sqlite3.SQLITE_NOTADB: "it is not a journal; give the path of a journal, or of a file that does not exist yet",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table is missing: the statements themselves are right
}
_OS_MEANINGS = {
    errno.EACCES: _NOT_WRITABLE,
    errno.EPERM: _NOT_WRITABLE,
    errno.EROFS: _NOT_WRITABLE,
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: _DISK_FULL,
}


class JournalFile:
    """Names the file; nothing is opened before :meth:`open`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float,
        allow_network_file_system: bool = False,
        mounts: Path = MOUNTS,
    ) -> None:
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._allow_network_file_system = allow_network_file_system
        self._mounts = mounts
        self._identity: tuple[int, int] | None = None

    def open(self) -> LockedConnection:
        """A connection that is ready for use. JournalError, sqlite3.Error or OSError: there is none."""
        if self._identity is None:
            self._check_place()
            self._make()
        else:
            self.check_still_there()
        place = Path(os.path.realpath(self.path))
        if not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return self._connect(None)  # it can only be read, by SQLite too
        lock = FileLock(
            place.with_name(f"{place.name}-lock"), time_limit=self._busy_timeout, mode=place.stat().st_mode & 0o666
        )
        try:
            with lock.hold(exclusive=True):  # the first read may have to undo what a process that died has left
                return self._connect(lock)
        except BaseException:
            lock.close()
            raise

    def _connect(self, lock: FileLock | None) -> LockedConnection:
        db = sqlite3.connect(self.path, timeout=self._busy_timeout, isolation_level=None, factory=LockedConnection)
        db.lock = lock
        try:
            db.row_factory = sqlite3.Row
            version = schema.version_of(db, str(self.path))
            if version == 0 and self._identity is not None:
                raise self.error(f"it was emptied while it was in use: {_DAMAGED}")
            # With a rollback journal, several processes can write safely under every SQLite. (The write-ahead log of
            # versions before 3.51.3 can lose a commit when two of them do.)
            (mode,) = db.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
            if mode != "truncate":
                raise self.error(f"another program keeps it in journal mode {mode!r}; end that program, then try again")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")
            db.execute("PRAGMA foreign_keys = ON")
            if version < schema.VERSION:
                schema.upgrade(db, str(self.path))
            if self._identity is None:
                self._identity = self._look()
        except BaseException:
            db.close()
            raise
        return db

    def check_still_there(self) -> None:
        """JournalError when the file has been deleted or replaced: what is written then would be seen by nobody, and
        a new file would know nothing of the orders that were sent."""
        try:
            found = self._look()
        except FileNotFoundError:
            found = None
        if found != self._identity:
            what = (
                "it was deleted or replaced while it was in use; put it back, or restart with the file that is to count"
            )
            raise self.error(what)

    def explain(self, error: Exception) -> JournalError:
        """What happened to which file, and what to do. What neither SQLite nor the disk raised: a record is damaged."""
        code = 0
        meaning: str | None = _DAMAGED
        if not isinstance(error, (sqlite3.Error, OSError)):
            said = type(error).__name__
        elif isinstance(error, OSError):
            meaning = _OS_MEANINGS.get(error.errno or 0)
            said = error.strerror or type(error).__name__
        else:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind of error
            meaning = _MEANINGS.get(code)
            said = str(error)
        what = f"{meaning} ({said})" if meaning else said
        return self.error(what, may_pass=code not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN))

    def error(self, what: str, *, may_pass: bool = False) -> JournalError:
        message = f"the journal {self.path} could not be used: {what}. Nothing was written."
        return JournalError(message, may_pass=may_pass)

    def _look(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_dev, found.st_ino

    def _check_place(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise self.error(f"it needs SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}")
        if not self.path.parent.is_dir():
            raise self.error(f"there is no directory {self.path.parent}; make it first")
        kind = None if self._allow_network_file_system else network_file_system(self.path, self._mounts)
        if kind is not None:
            raise self.error(
                f"it lies on a network file system ({kind}), where locks do not keep two writers apart; give a path on "
                "a disk of this machine"
            )

    def _make(self) -> None:
        """A new file is for its owner alone, and SQLite gives the files beside it the same mode."""
        target = os.path.realpath(self.path)
        with _making:
            try:
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                mode = Path(target).stat().st_mode & 0o777
                if mode & 0o007:
                    message = "journal %(path)s: everybody on this machine may read it (mode %(mode)o)"
                    report(logger, logging.WARNING, Event.JOURNAL_READABLE, message, path=str(self.path), mode=mode)


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the network file system (or of one in user space, which can be anything) that holds ``path``; None
    when it is another, or nobody can tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = Path(os.path.realpath(path))
    deepest, kind = -1, ""
    for line in lines:
        mount, _, system = line.partition(" - ")
        point = Path(_unescaped(mount.split(" ")[4]))
        # Of two mounts at one point the later one hides the earlier.
        if place.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), system.split(" ")[0]
    return kind if kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.") else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)

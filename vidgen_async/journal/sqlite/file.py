"""The file of a journal: its permitted locations, how it is opened, and what its errors mean."""

import errno
import logging
import os
import re
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.errors import JournalError
from vidgen_async.events import Event
from vidgen_async.journal.sqlite import schema
from vidgen_async.journal.sqlite.file_lock import FileLock, LockedConnection, transaction
from vidgen_async.journal.sqlite.side_files import LOCK, SenderLock, beside, find_side_files, is_lost, is_marked

logger = logging.getLogger(__name__)

#: The first version of SQLite that checks the types of values (STRICT tables).
OLDEST_SQLITE = (3, 37, 0)
#: The list of mounts on Linux. On other systems network file systems are not detected.
MOUNTS = Path("/proc/self/mountinfo")
#: Also directories that a virtual machine or a container shares with its host, whose programs lock them separately.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncp",
        "ncpfs",
    }
    | {"nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "wekafs"}
    | {"drvfs", "fakeowner", "grpcfuse", "hgfs", "osxfs", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"}
)

#: Only one thread at a time creates a file, because closing it releases every lock that this process has on it.
_creation_lock = threading.Lock()

_NOT_WRITABLE = "this user may not write it; make the file and its directory writable"
_DISK_FULL = "the disk is full; free some space, then retry"
_PAGE = "docs/how-to/backups.md"
_RESTORE = (
    f"check the account before you order anything with a new file or a restored backup (see {_PAGE}): orders that are "
    "missing in that file would be sent again"
)
_DAMAGED = f"it is damaged; {_RESTORE}"
_CANNOT_BE_OPENED = (
    "it cannot be opened; it must be a file that this user may read and write, in a directory where this user may "
    "create files"
)
_IN_WAL_MODE = (
    "it is locked, because another program has it open in journal mode 'wal' (a write-ahead log, which PRAGMA "
    "journal_mode = WAL switches on); end that program, for example a database browser or a replication tool, then "
    "retry: this mode is then switched off"
)
_NOT_A_JOURNAL = (
    f"it is not a journal; give the path of a journal, or of a file that does not exist yet. If it was one, {_DAMAGED}"
)
#: What no later attempt changes. Any other cause may be temporary.
_PERMANENT = frozenset({_NOT_WRITABLE, _DAMAGED, _CANNOT_BE_OPENED, _NOT_A_JOURNAL})
_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another program has locked it; close that program, or wait until it has finished, then retry",
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_BE_OPENED,
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_IOERR: (
        "the disk failed; check whether it is full, over its quota or disconnected, and whether the files beside the "
        "journal are writable, then retry"
    ),
    sqlite3.SQLITE_NOTADB: _NOT_A_JOURNAL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table is missing, since the statements themselves are correct
}
_OS_MEANINGS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _NOT_WRITABLE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _DISK_FULL),
}


class JournalFile:
    """The file of a journal, which is not opened before :meth:`open`."""

    def __init__(
        self, path: str | os.PathLike[str], *, busy_timeout: float, allow_network_file_system: bool = False
    ) -> None:
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._allow_network_file_system = allow_network_file_system
        self._identity: tuple[int, int] | None = None
        self.sender_lock: SenderLock | None = None
        """That of the attempts which are recorded; None if the end of a process is not detected."""

    def check(self) -> None:
        """Check what can be checked without writing: the directory, the rights, and whether it is a journal.

        Raises:
            JournalError: The file cannot be used.
        """
        self._check_location()
        file = self._real_path()
        if is_lost(file):
            raise self._make_loss()
        if not file.exists():
            if not os.access(file.parent, os.W_OK | os.X_OK):
                raise self.make_error(_CANNOT_BE_OPENED)
            return
        if not file.is_file() or not os.access(file, os.R_OK):
            raise self.make_error(_CANNOT_BE_OPENED)
        try:
            # Not opened by other means: closing it would release the locks that this process has on it.
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=0)) as db:
                schema.read_version(db, self.path)
        except sqlite3.Error as error:
            # Any other may be temporary: a writer has locked it, or was killed and has left a transaction.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
                raise self.explain(error) from error

    def make_sender_lock(self) -> SenderLock | None:
        """Return a lock of the attempts of this process; None if other hosts may write the file."""
        self.sender_lock = None if self._allow_network_file_system else SenderLock(self._real_path())
        return self.sender_lock

    def open(self) -> LockedConnection:
        """Open a connection that is ready for use.

        Raises:
            JournalError: The file cannot be used.
            sqlite3.Error: SQLite failed; see :meth:`explain`.
            OSError: The system failed; see :meth:`explain`.
        """
        if self._identity is None:
            self._check_location()
            self._create()
        else:
            self.check_identity()
        file = self._real_path()
        if not os.access(file, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return self._connect(None)  # a file that this user can only read needs no lock
        lock = FileLock(beside(file, LOCK), time_limit=self._busy_timeout, mode=file.stat().st_mode & 0o666)
        try:
            # The first read may have to roll back the transaction of a process that was killed.
            with lock.hold(exclusive=True):
                return self._connect(lock)
        except BaseException:
            lock.close()
            raise

    def _connect(self, lock: FileLock | None) -> LockedConnection:
        file = self._real_path()
        had_attempts = is_marked(file)  # first, since another process may be writing the first attempt
        db = sqlite3.connect(self.path, timeout=self._busy_timeout, isolation_level=None, factory=LockedConnection)
        db.lock = lock
        db.file = None if lock is None else file
        db.sender_lock = self.sender_lock
        try:
            db.row_factory = sqlite3.Row
            with transaction(db, "DEFERRED"):
                version = schema.read_version(db, self.path)
            if version == 0 and (had_attempts or self._identity is not None):
                raise self._make_loss()
            # With a rollback journal, several processes can write safely in every version of SQLite. (The write-ahead
            # log of versions before 3.51.3 can lose a commit if two processes write.)
            if not _set_journal_mode(db):
                raise self.make_error(_IN_WAL_MODE, may_be_temporary=True)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")
            db.execute("PRAGMA foreign_keys = ON")
            if version < schema.VERSION:
                schema.upgrade(db, self.path)
            with suppress(OSError):  # a copy, or a journal of an earlier release, can be read on a full disk, too
                db.mark_use()
            if self._identity is None:
                self._identity = _identity_of(self.path.stat())
        except BaseException:
            db.close()
            raise
        return db

    def check_identity(self) -> None:
        """Check that the file is the one that was opened first. Otherwise changes would be written to a deleted file,
        or to a new one without the orders that were sent.

        Raises:
            JournalError: The file was deleted, replaced or emptied.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            status = None
        if status is not None and _identity_of(status) == self._identity:
            if not status.st_size:  # before SQLite deletes what it had not applied to the file yet
                raise self._make_loss()
        else:
            problem = "it was deleted or replaced while it was in use; put it back, or restart with the file to use"
            raise self.make_error(problem, may_be_temporary=True)

    def write_backup(self, db: sqlite3.Connection, target: Path) -> Path:
        """Replace ``target`` atomically by a copy of the journal.

        Raises:
            JournalError: The copy could not be written; ``target`` is unchanged.
        """
        if os.path.realpath(target) == os.path.realpath(self.path):
            message = f"the backup cannot be the journal {self.path} itself; give another path. Nothing was written."
            raise JournalError(message)
        try:
            # The next backup removes what a killed one left, also if its name has another date.
            with AtomicFile(target, name=f"{self.path.name}-backup", mode=0o600) as copy:
                with closing(sqlite3.connect(copy.path)) as copy_db:
                    copy_db.execute("PRAGMA journal_mode = OFF")  # no second file
                    db.backup(copy_db)
                copy.commit()
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"the backup {target} of the journal {self.path} could not be written ({reason})"
            raise JournalError(message) from error
        return target

    def explain(self, error: Exception) -> JournalError:
        """Return the error that states what happened to the file and what to do. An error that is neither SQLite's nor
        the system's means that a record is damaged."""
        meaning: str | None
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind of error
            meaning, reason = _MEANINGS.get(code), str(error)
            if code == sqlite3.SQLITE_BUSY:
                reason += f"; operations wait at most {self._busy_timeout:g} s for a lock (busy_timeout)"
        elif isinstance(error, OSError):
            meaning, reason = _OS_MEANINGS.get(error.errno or 0), error.strerror or type(error).__name__
        else:
            meaning, reason = _DAMAGED, type(error).__name__
        problem = f"{meaning} ({reason})" if meaning else reason
        return self.make_error(problem, may_be_temporary=meaning not in _PERMANENT)

    def make_error(self, problem: str, *, may_be_temporary: bool = False) -> JournalError:
        message = f"the journal {self.path} could not be used: {problem}. Nothing was written."
        return JournalError(message, may_be_temporary=may_be_temporary)

    def _make_loss(self) -> JournalError:
        """Return the error for a file that was used and now is missing or empty."""
        file = self._real_path()
        names = [path.name for path in (file, *find_side_files(file)) if path.exists()]
        return self.make_error(
            f"it was used, and now is {'empty' if file.exists() else 'missing'}, thus lost or damaged. Put it back; or "
            f"{_RESTORE}. To begin anew on purpose, with order ids that were never used, first delete "
            f"{', '.join(names)} in {file.parent}"
        )

    def _real_path(self) -> Path:
        """The file itself if the path is that of a link: SQLite puts its files beside it."""
        return Path(os.path.realpath(self.path))

    def _check_location(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise self.make_error(f"it needs SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}")
        if not self.path.parent.is_dir():
            raise self.make_error(f"there is no directory {self.path.parent}; create it first")
        kind = None if self._allow_network_file_system else find_network_file_system(self.path)
        if kind is not None:
            raise self.make_error(
                f"it is on a network file system or in a shared folder ({kind}), whose locks do not exclude a second "
                "writer; give a path on a local disk"
            )

    def _create(self) -> None:
        """Create a missing file for its owner only. SQLite gives the files beside it the same permissions.

        Raises:
            JournalError: The file was deleted or emptied.
        """
        target = self._real_path()
        if is_lost(target):
            raise self._make_loss()
        with _creation_lock:
            try:
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                mode = target.stat().st_mode & 0o777
                if mode & 0o007:
                    Event.JOURNAL_WORLD_READABLE.log(logger, path=str(self.path), mode=mode)


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _set_journal_mode(db: sqlite3.Connection) -> bool:
    """Return whether SQLite uses a rollback journal, which it cannot while another program has the file open in WAL
    mode."""
    try:
        (mode,) = db.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return bool(mode == "truncate")


def find_network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that holds ``path``; None for other file systems, and if it is
    unknown. File systems in user space (FUSE) and folders shared with a host count as network file systems."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    target = Path(os.path.realpath(path))
    deepest, kind = -1, ""
    for line in lines:
        mount, _, system = line.partition(" - ")
        # Spaces in the path are written as \040.
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), mount.split(" ")[4]))
        # Of two mounts at the same mount point, the later one hides the earlier.
        if target.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), system.split(" ")[0]
    return kind if kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.") else None

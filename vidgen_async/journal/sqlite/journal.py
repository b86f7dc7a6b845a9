"""A journal in a file: it survives the process, and all processes of one machine can share it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.sql.journal import SqlJournal, check_seconds
from vidgen_async.journal.sql.queries import Database
from vidgen_async.journal.sqlite.connection_thread import ConnectionThread
from vidgen_async.journal.sqlite.file import JournalFile
from vidgen_async.journal.sqlite.file_lock import LockedConnection
from vidgen_async.journal.sqlite.side_files import SenderLock

T = TypeVar("T")


class SqliteJournal(SqlJournal[ConnectionThread]):
    """Orders in an SQLite file. Completed operations survive a killed process and a loss of power.

    The file is not opened before the first operation. All work is done in a thread of the journal's own, so that the
    event loop never waits for the disk. Clients, event loops and threads can share a journal. A forked child can use it
    only if it was not used before the fork. Nothing is ever deleted: every evidence and every closing remains in the
    journal, with its time and its texts. If an operation raises JournalError, the message states the problem with the
    file and what to do.

    An attempt whose process has ended is *uncertain* at once, because each process holds a lock on a file beside the
    journal from its first attempt on: until :meth:`aclose`, and as long as an attempt has no outcome. Where that is not
    possible, as on systems other than Linux, it is *sending* until its deadline.

    Args:
        path: The file. The first operation creates it, for its owner only (mode 0600); its directory must exist. A file
            that was deleted or replaced while in use is not written any more. One that had an attempt and is missing or
            empty now is not created again, as long as the files beside it (such as ``orders.db-lock``) exist: every
            operation raises JournalError.
        busy_timeout: Seconds for which an operation waits while another process writes; at most a day.
        allow_network_file_system: Permits a network file system. Use it only if its locks work across all machines that
            use the file.

    Raises:
        ConfigurationError: The path is not that of a file, or ``busy_timeout`` is invalid.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 30.0,
        allow_network_file_system: bool = False,
    ) -> None:
        name = os.fspath(path)
        if not name or name == ":memory:" or "\0" in name:
            message = f"a journal needs the path of a file, not {name!r}; for orders in memory use a MemoryJournal"
            raise ConfigurationError(message)
        check_seconds("busy_timeout", busy_timeout, shortest=0)
        self._file = JournalFile(name, busy_timeout=busy_timeout, allow_network_file_system=allow_network_file_system)
        super().__init__(str(self.path))

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._file.path

    async def backup(self, path: str | os.PathLike[str]) -> Path:
        """Write a consistent copy of the journal to another file. Meanwhile other processes can read the journal.
        Operations that write, and those of this journal, wait for it; the former fail after their ``busy_timeout``.

        Use this to copy a journal that is in use: a copy of the file itself may contain half of a transaction. If the
        call is cancelled, ``path`` has the old file or the complete copy.

        Args:
            path: The file to write; an existing file is replaced atomically.

        Returns:
            The absolute path of the copy.

        Raises:
            JournalError: The copy cannot be written, or ``path`` is the journal itself; ``path`` is unchanged.
        """

        def operation(db: LockedConnection) -> Path:
            return self._file.write_backup(db, Path(path).absolute())

        return await self._run(operation, "DEFERRED")

    async def check(self) -> None:
        await asyncio.to_thread(self._file.check)

    def _open(self) -> ConnectionThread:
        return ConnectionThread(self._file)

    def _make_sender_lock(self) -> SenderLock | None:
        return self._file.make_sender_lock()

    async def _close(self, database: ConnectionThread) -> None:
        await database.aclose()

    async def _read(self, operation: Callable[[Database], T]) -> T:
        return await self._run(operation, "DEFERRED")

    async def _write(self, operation: Callable[[Database], T], *locked: str) -> T:
        return await self._run(operation, "IMMEDIATE")  # nobody else writes to the file

    async def _run(self, operation: Callable[[LockedConnection], T], kind: str | None = None) -> T:
        return await self._submit(lambda thread: thread.submit(operation, kind))

"""Backups of a journal that is in use."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.errors import JournalError


def write_backup(db: sqlite3.Connection, journal: Path, target: Path) -> Path:
    """Replace ``target`` atomically by a copy of the journal.

    Raises:
        JournalError: The copy could not be written; ``target`` is unchanged.
    """
    if os.path.realpath(target) == os.path.realpath(journal):
        message = f"the backup cannot be the journal {journal} itself; give another path. Nothing was written."
        raise JournalError(message)
    try:
        with AtomicFile(target, mode=0o600) as copy:
            with closing(sqlite3.connect(copy.path)) as copy_db:
                db.backup(copy_db)
            copy.commit()
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the backup {target} of the journal {journal} could not be written ({reason})"
        raise JournalError(message) from error
    return target

"""Backups of a journal that is in use."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from vidgen_async.errors import JournalError


def write_backup(db: sqlite3.Connection, journal: Path, target: Path) -> Path:
    """Write a copy of the journal beside ``target``, then replace ``target`` with it atomically.

    Raises:
        JournalError: The copy could not be written; ``target`` is unchanged.
    """
    if os.path.realpath(target) == os.path.realpath(journal):
        message = f"the backup cannot be the journal {journal} itself; give another path. Nothing was written."
        raise JournalError(message)
    copy = target.with_name(f"{target.name}.{uuid4().hex[:8]}.part")
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        copy_db = sqlite3.connect(copy)
        try:
            db.backup(copy_db)
        finally:
            copy_db.close()
        copy.replace(target)
    except (sqlite3.Error, OSError) as error:
        with suppress(OSError):
            copy.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the backup {target} of the journal {journal} could not be written ({reason})"
        raise JournalError(message) from error
    return target

"""A copy of a journal that is in use."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from vidgen_async.errors import JournalError


def write_backup(db: sqlite3.Connection, journal: Path, target: Path) -> Path:
    """Write the copy beside ``target`` and move it into place. JournalError: ``target`` is as it was."""
    if os.path.realpath(target) == os.path.realpath(journal):
        message = f"the backup cannot be the journal {journal} itself; give another path. Nothing was written."
        raise JournalError(message)
    copy = target.with_name(f"{target.name}.{uuid4().hex[:8]}.part")
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        written = sqlite3.connect(copy)
        try:
            db.backup(written)
        finally:
            written.close()
        copy.replace(target)
    except (sqlite3.Error, OSError) as error:
        with suppress(OSError):
            copy.unlink(missing_ok=True)
        said = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the backup {target} of the journal {journal} could not be written ({said})"
        raise JournalError(message) from error
    return target

"""The tables of a journal file.

Nothing is ever deleted, and no evidence or decision is overwritten: the latest evidence of an attempt and the latest
closing of an order count, and the state of the order is computed from these. Times are microseconds since 1970, UTC.
"""

import sqlite3
from pathlib import Path

from vidgen_async.errors import JournalError
from vidgen_async.journal.sql.statements import COSTS, read_statements, split_script
from vidgen_async.journal.sqlite.file_lock import transaction

#: The application id in SQLite's file header, which identifies the file as a journal.
APPLICATION = int.from_bytes(b"vgjr")

_SQL = read_statements(Path(__file__).with_name("schema.sql"), COSTS)
_NAMES = "first results confirmation balances local_images lists marks budgets adoptions"

#: The statements that upgrade each version to the next. All of them are executed for a new file.
MIGRATIONS = tuple(split_script(_SQL[name]) for name in _NAMES.split())
VERSION = len(MIGRATIONS)


def upgrade(db: sqlite3.Connection, path: Path) -> None:
    """Upgrade the file to this version, in one commit."""
    with transaction(db, "IMMEDIATE"):
        for statements in MIGRATIONS[read_version(db, path) :]:  # another process may have upgraded it meanwhile
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def read_version(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema; 0 for a new file.

    Raises:
        JournalError: The file has a newer version, or is not a journal; it is not changed.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (application or version or tables):
        message = f"{path} is a database of another program, not a journal; give another path. Nothing was written."
        raise JournalError(message)
    if version > VERSION:
        raise JournalError(
            f"the journal {path} was written by a newer vidgen_async (schema version {version}; this release supports "
            f"{VERSION}): upgrade vidgen_async. Nothing was written."
        )
    return int(version)

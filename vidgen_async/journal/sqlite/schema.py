"""The tables of a journal file.

Nothing in them is ever deleted, and nothing that anybody said is overwritten: an attempt's knowledge is its latest
evidence, an order's closing is its latest closing, and an order's state is computed from these. Times are microseconds
since 1970, UTC.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from vidgen_async.errors import JournalError
from vidgen_async.journal.sqlite.file_lock import LockedConnection

#: Marks the file as a journal, in SQLite's header field for that.
APPLICATION = int.from_bytes(b"vgjr")

_FIRST = (
    """
    CREATE TABLE namespace (
        id    INTEGER PRIMARY KEY CHECK (id = 1),
        word  TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE orders (
        id               INTEGER PRIMARY KEY,
        service          TEXT NOT NULL,
        account          TEXT NOT NULL,
        order_id         TEXT NOT NULL,
        idempotency_key  TEXT NOT NULL,
        body             BLOB NOT NULL,
        created_at       INTEGER NOT NULL,
        UNIQUE (service, account, order_id)
    ) STRICT
    """,
    # counted_at: from when the rolling limit's window runs, by what is known; NULL: nothing of it was sent. It is
    # computed from the evidence, and kept so that pacing looks at no more attempts than can hold a slot.
    """
    CREATE TABLE attempts (
        service      TEXT NOT NULL,
        account      TEXT NOT NULL,
        order_id     TEXT NOT NULL,
        n            INTEGER NOT NULL,
        sent_at      INTEGER NOT NULL,
        deadline_at  INTEGER NOT NULL,
        kind         TEXT NOT NULL,
        "by"         TEXT NOT NULL,
        reason       TEXT NOT NULL,
        counted_at   INTEGER,
        PRIMARY KEY (service, account, order_id, n),
        FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX attempts_by_counted_at ON attempts (service, account, counted_at)",
    """
    CREATE TABLE evidence (
        id        INTEGER PRIMARY KEY,
        service   TEXT NOT NULL,
        account   TEXT NOT NULL,
        order_id  TEXT NOT NULL,
        n         INTEGER NOT NULL,
        outcome   TEXT NOT NULL,
        at        INTEGER NOT NULL,
        status    INTEGER,
        task_id   TEXT,
        cause     TEXT NOT NULL,
        body      BLOB NOT NULL,
        extra     TEXT NOT NULL,
        answered  INTEGER NOT NULL,
        FOREIGN KEY (service, account, order_id, n) REFERENCES attempts (service, account, order_id, n)
    ) STRICT
    """,
    "CREATE INDEX evidence_by_attempt ON evidence (service, account, order_id, n)",
    "CREATE INDEX evidence_by_task ON evidence (service, task_id) WHERE task_id IS NOT NULL",
    """
    CREATE TABLE closings (
        id        INTEGER PRIMARY KEY,
        service   TEXT NOT NULL,
        account   TEXT NOT NULL,
        order_id  TEXT NOT NULL,
        state     TEXT NOT NULL,
        at        INTEGER NOT NULL,
        reason    TEXT NOT NULL,
        "by"      TEXT NOT NULL,
        FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
    ) STRICT
    """,
    "CREATE INDEX closings_by_order ON closings (service, account, order_id)",
)

_RESULTS = (
    """
    CREATE TABLE results (
        service         TEXT NOT NULL,
        task_id         TEXT NOT NULL,
        status          TEXT NOT NULL,
        at              INTEGER NOT NULL,
        points          INTEGER,
        failure_reason  TEXT,
        PRIMARY KEY (service, task_id)
    ) STRICT, WITHOUT ROWID
    """,
)

_CONFIRMATION = (
    "ALTER TABLE evidence ADD COLUMN headers TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE evidence ADD COLUMN request_id TEXT",
    "ALTER TABLE evidence ADD COLUMN candidates TEXT NOT NULL DEFAULT '[]'",
    # What may be the task id of an uncertain attempt, by order; nothing ever leaves it.
    """
    CREATE TABLE candidates (
        service   TEXT NOT NULL,
        account   TEXT NOT NULL,
        task_id   TEXT NOT NULL,
        order_id  TEXT NOT NULL,
        PRIMARY KEY (service, account, task_id, order_id)
    ) STRICT, WITHOUT ROWID
    """,
)

_BALANCES = (
    "ALTER TABLE evidence ADD COLUMN balance_before TEXT",
    "ALTER TABLE evidence ADD COLUMN balance_after TEXT",
)

#: The statements that lead from each version to the next; a new file goes through all of them.
MIGRATIONS = (_FIRST, _RESULTS, _CONFIRMATION, _BALANCES)
VERSION = len(MIGRATIONS)


@contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    """``DEFERRED``: all that is read is of one moment. ``IMMEDIATE``: nothing else writes meanwhile; one commit."""
    lock = db.lock if isinstance(db, LockedConnection) else None
    with nullcontext() if lock is None else lock.hold(exclusive=kind == "IMMEDIATE"):
        db.execute(f"BEGIN {kind}")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def version_of(db: sqlite3.Connection, path: str) -> int:
    """0 for a new file. JournalError when it is a newer version's, or something else's; nothing is changed."""
    with transaction(db, "DEFERRED"):
        return _version(db, path)


def upgrade(db: sqlite3.Connection, path: str) -> None:
    """Bring the file to this version, in one commit."""
    with transaction(db, "IMMEDIATE"):
        for statements in MIGRATIONS[_version(db, path) :]:  # another process may have been faster
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def _version(db: sqlite3.Connection, path: str) -> int:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (application or version or tables):
        message = f"{path} is a database of something else, not a journal; give another path. Nothing was written."
        raise JournalError(message)
    if version > VERSION:
        message = (
            f"the journal {path} was written by a newer vidgen_async (its version is {version}; this one knows "
            f"{VERSION}): upgrade vidgen_async. Nothing was written."
        )
        raise JournalError(message)
    return int(version)

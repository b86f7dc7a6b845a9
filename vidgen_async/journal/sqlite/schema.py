"""The tables of a journal file.

Nothing is ever deleted, and no evidence or decision is overwritten: the latest evidence of an attempt and the latest
closing of an order count, and the state of the order is computed from these. Times are microseconds since 1970, UTC.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from vidgen_async.errors import JournalError
from vidgen_async.journal.sqlite.file_lock import LockedConnection

#: The application id in SQLite's file header, which identifies the file as a journal.
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
    # counted_at is the start of the rolling limit's window for the attempt, NULL if nothing was sent. It is computed
    # from the evidence, and stored so that pacing only reads attempts that can hold a slot.
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
    # The values that may be the task id of an uncertain attempt, by order. Rows are never deleted.
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

_LOCAL_IMAGES = ("ALTER TABLE orders ADD COLUMN local_images TEXT NOT NULL DEFAULT '{}'",)

_HAS_ATTEMPT = """
    SELECT 1 FROM attempts LEFT JOIN evidence ON evidence.id = (
        SELECT max(id) FROM evidence AS latest
        WHERE latest.service = attempts.service AND latest.account = attempts.account
        AND latest.order_id = attempts.order_id AND latest.n = attempts.n
    )
    WHERE attempts.service = orders.service AND attempts.account = orders.account
    AND attempts.order_id = orders.order_id AND coalesce(outcome, 'sending') =
"""
_CLOSED = """
    SELECT state FROM closings
    WHERE service = orders.service AND account = orders.account AND order_id = orders.order_id
    ORDER BY id DESC LIMIT 1
"""
_STAGE = f"""
    CASE
        WHEN EXISTS (
            {_HAS_ATTEMPT} 'accepted' AND NOT EXISTS (
                SELECT 1 FROM results WHERE service = evidence.service AND task_id = evidence.task_id
            )
        ) THEN 'accepted'
        WHEN EXISTS ({_HAS_ATTEMPT} 'accepted') THEN 'ended'
        WHEN EXISTS ({_HAS_ATTEMPT} 'sending') THEN 'sending'
        WHEN EXISTS ({_HAS_ATTEMPT} 'uncertain') AND coalesce(({_CLOSED}), '') <> 'abandoned' THEN 'uncertain'
        ELSE coalesce(
            ({_CLOSED}), CASE WHEN EXISTS ({_HAS_ATTEMPT} 'rejected') THEN 'rejected' ELSE 'queued' END
        )
    END
"""  # noqa: S608 - made of constants
_OF_NEW_ROW = "service = NEW.service AND account = NEW.account AND order_id = NEW.order_id"
_OF_NEW_RESULT = """
    service = NEW.service AND (account, order_id) IN (
        SELECT account, order_id FROM evidence WHERE service = NEW.service AND task_id = NEW.task_id
    )
"""
# stage is the state of the order, or 'ended' if all its tasks are terminal. It is computed from the other tables
# whenever they change, and stored so that a list only reads orders that it may have. The triggers compute it for
# processes of the release before, which have opened the file and do not know the column.
_LISTS = (
    "ALTER TABLE orders ADD COLUMN stage TEXT NOT NULL DEFAULT 'queued'",
    f"UPDATE orders SET stage = {_STAGE}",  # noqa: S608 - made of constants
    *(
        f"""
        CREATE TRIGGER stage_after_{table} AFTER INSERT ON {table}
        BEGIN
            UPDATE orders SET stage = {_STAGE} WHERE {where};
        END
        """  # noqa: S608 - made of constants
        for table, where in {
            "attempts": _OF_NEW_ROW,
            "evidence": _OF_NEW_ROW,
            "closings": _OF_NEW_ROW,
            "results": _OF_NEW_RESULT,
        }.items()
    ),
    "CREATE INDEX orders_by_stage ON orders (service, account, stage, id, created_at)",
    "CREATE INDEX evidence_by_account ON evidence (service, account)",  # it ends with the id of the row
    # When a create of the account may start again after a 429.
    "ALTER TABLE evidence ADD COLUMN retry_at INTEGER",
    "CREATE INDEX evidence_by_retry_at ON evidence (service, account, retry_at) WHERE retry_at IS NOT NULL",
)

_MARKS = ("ALTER TABLE attempts ADD COLUMN mark TEXT NOT NULL DEFAULT ''",)

# session is the mark of the lock that the sender holds while it runs, NULL if it holds none.
_SESSIONS = ("ALTER TABLE attempts ADD COLUMN session TEXT",)

#: The statements that upgrade each version to the next. All of them are executed for a new file.
MIGRATIONS = (_FIRST, _RESULTS, _CONFIRMATION, _BALANCES, _LOCAL_IMAGES, _LISTS, _MARKS, _SESSIONS)
VERSION = len(MIGRATIONS)


@contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Execute the ``with`` block in one transaction.

    Args:
        db: The connection.
        kind: ``DEFERRED`` to read a consistent state, ``IMMEDIATE`` to write, with no other writer meanwhile.
    """
    lock = db.lock if isinstance(db, LockedConnection) else None
    is_writing = kind == "IMMEDIATE"
    with nullcontext() if lock is None else lock.hold(exclusive=is_writing):
        db.execute(f"BEGIN {kind}")
        try:
            yield
            if is_writing and isinstance(db, LockedConnection):
                db.mark_use()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


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

"""The tables of a journal in PostgreSQL, which are those of the SQLite file.

Nothing is ever deleted, and no evidence or decision is overwritten. Times are microseconds since 1970, UTC, of the
database's clock: ``to_timestamp(at / 1e6)``.
"""

from collections.abc import Sequence
from textwrap import dedent

from vidgen_async.errors import ConfigurationError

#: Bytes.
_LONGEST_NAME = 63
_CHECK_VERSION = """
    DO $$
    BEGIN
        IF (SELECT number FROM version) IS DISTINCT FROM {0} THEN
            RAISE EXCEPTION 'the tables are not those of schema version {0}';
        END IF;
    END
    $$
"""

_FIRST = (
    """
    CREATE TABLE namespace (
        id    INTEGER PRIMARY KEY CHECK (id = 1),
        word  TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE orders (
        id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        service          TEXT NOT NULL,
        account          TEXT NOT NULL,
        order_id         TEXT NOT NULL,
        idempotency_key  TEXT NOT NULL,
        body             BYTEA NOT NULL,
        created_at       BIGINT NOT NULL,
        local_images     TEXT NOT NULL,
        stage            TEXT NOT NULL DEFAULT 'queued',
        UNIQUE (service, account, order_id)
    )
    """,
    # stage is the state of the order, or 'ended' if all its tasks are terminal. It is computed from the other tables
    # whenever they change, and stored so that a list only reads orders that it may have.
    "CREATE INDEX orders_by_stage ON orders (service, account, stage, id, created_at)",
    # counted_at is the start of the rolling limit's window for the attempt, NULL if nothing was sent. session is the
    # advisory lock that the sender holds while it is connected, NULL if it holds none.
    """
    CREATE TABLE attempts (
        service      TEXT NOT NULL,
        account      TEXT NOT NULL,
        order_id     TEXT NOT NULL,
        n            INTEGER NOT NULL,
        sent_at      BIGINT NOT NULL,
        deadline_at  BIGINT NOT NULL,
        kind         TEXT NOT NULL,
        "by"         TEXT NOT NULL,
        reason       TEXT NOT NULL,
        counted_at   BIGINT,
        session      BIGINT,
        PRIMARY KEY (service, account, order_id, n),
        FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
    )
    """,
    "CREATE INDEX attempts_by_counted_at ON attempts (service, account, counted_at)",
    """
    CREATE TABLE evidence (
        id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        service         TEXT NOT NULL,
        account         TEXT NOT NULL,
        order_id        TEXT NOT NULL,
        n               INTEGER NOT NULL,
        outcome         TEXT NOT NULL,
        at              BIGINT NOT NULL,
        status          INTEGER,
        task_id         TEXT,
        cause           TEXT NOT NULL,
        body            BYTEA NOT NULL,
        extra           TEXT NOT NULL,
        answered        BOOLEAN NOT NULL,
        headers         TEXT NOT NULL,
        request_id      TEXT,
        candidates      TEXT NOT NULL,
        balance_before  TEXT,
        balance_after   TEXT,
        retry_at        BIGINT,
        FOREIGN KEY (service, account, order_id, n) REFERENCES attempts (service, account, order_id, n)
    )
    """,
    "CREATE INDEX evidence_by_account ON evidence (service, account, id)",
    "CREATE INDEX evidence_by_attempt ON evidence (service, account, order_id, n)",
    "CREATE INDEX evidence_by_retry_at ON evidence (service, account, retry_at) WHERE retry_at IS NOT NULL",
    "CREATE INDEX evidence_by_task ON evidence (service, task_id) WHERE task_id IS NOT NULL",
    """
    CREATE TABLE closings (
        id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        service   TEXT NOT NULL,
        account   TEXT NOT NULL,
        order_id  TEXT NOT NULL,
        state     TEXT NOT NULL,
        at        BIGINT NOT NULL,
        reason    TEXT NOT NULL,
        "by"      TEXT NOT NULL,
        FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
    )
    """,
    "CREATE INDEX closings_by_order ON closings (service, account, order_id)",
    """
    CREATE TABLE results (
        service         TEXT NOT NULL,
        task_id         TEXT NOT NULL,
        status          TEXT NOT NULL,
        at              BIGINT NOT NULL,
        points          BIGINT,
        failure_reason  TEXT,
        PRIMARY KEY (service, task_id)
    )
    """,
    """
    CREATE TABLE candidates (
        service   TEXT NOT NULL,
        account   TEXT NOT NULL,
        task_id   TEXT NOT NULL,
        order_id  TEXT NOT NULL,
        PRIMARY KEY (service, account, task_id, order_id)
    )
    """,
)

_MARKS = ("ALTER TABLE attempts ADD COLUMN mark TEXT NOT NULL DEFAULT ''",)

#: The statements that upgrade each version to the next. All of them are executed for a new schema. They leave the
#: statements of the release before valid, because its processes may be running meanwhile.
MIGRATIONS: Sequence[Sequence[str]] = (_FIRST, _MARKS)
VERSION = len(MIGRATIONS)


def postgres_schema(schema: str, *, user: str = "", version: int = 0) -> str:
    """Return the SQL with which an administrator creates the tables of a journal in PostgreSQL, or upgrades those of
    that version. psycopg is not needed.

    Args:
        schema: The PostgreSQL schema of the tables.
        user: The user of the journal, who is granted what it needs.
        version: The version of the tables that exist; 0 if there are none.

    Raises:
        ConfigurationError: A name is not a valid identifier, or ``version`` is later than that of this release.
    """
    if version > VERSION:
        raise ConfigurationError(f"this release has schema version {VERSION}")
    name = quoted_schema(schema)
    statements = ["BEGIN"]
    if not version:
        statements.append(f"CREATE SCHEMA IF NOT EXISTS {name}")
    statements.append(f"SET LOCAL search_path = {name}")
    if version:
        statements.append(_CHECK_VERSION.format(version))
    statements += upgrade_statements(version)
    if user:
        statements.append(f"GRANT USAGE ON SCHEMA {name} TO {quoted(user)}")
        statements.append(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {name} TO {quoted(user)}")
    statements.append("COMMIT")
    head = f"-- The tables of a journal of vidgen_async, schema version {VERSION}.\n\n"
    return head + "\n".join(f"{dedent(statement).strip()};\n" for statement in statements)


def quoted(identifier: str, *, label: str = "a name") -> str:
    """Return the name as an identifier of SQL.

    Raises:
        ConfigurationError: It is not a valid identifier: PostgreSQL would shorten or refuse it.
    """
    try:
        size = len(identifier.encode())
    except UnicodeEncodeError:  # a lone surrogate
        size = 0
    if not 0 < size <= _LONGEST_NAME or "\0" in identifier:
        message = f"{label} in PostgreSQL has 1 to {_LONGEST_NAME} bytes of UTF-8, without NUL: {identifier!r}"
        raise ConfigurationError(message)
    return '"' + identifier.replace('"', '""') + '"'


def quoted_schema(name: str) -> str:
    """Return the name of a schema as an identifier of SQL.

    Raises:
        ConfigurationError: PostgreSQL refuses the name, or replaces it in a search path by that of the user.
    """
    identifier = quoted(name, label="schema: a name")
    if name == "$user" or name.startswith("pg_"):
        message = f"schema must not be $user or begin with pg_, which have a meaning in PostgreSQL: {name!r}"
        raise ConfigurationError(message)
    return identifier


def upgrade_statements(version: int) -> list[str]:
    """Return the statements that upgrade a schema of that version, 0 if it does not exist, to this version. They are to
    be executed in one transaction, with the schema first in the search path."""
    creating = [] if version else ["CREATE TABLE version (number INTEGER NOT NULL)", "INSERT INTO version VALUES (0)"]
    statements = [statement for migration in MIGRATIONS[version:] for statement in migration]
    return [*creating, *statements, f"UPDATE version SET number = {VERSION}"]  # noqa: S608 - a number

"""The tables of a journal in PostgreSQL, which are those of the SQLite file.

Nothing is ever deleted, and no evidence or decision is overwritten. Times are microseconds since 1970, UTC, of the
database's clock: ``to_timestamp(at / 1e6)``.
"""

from collections.abc import Sequence
from pathlib import Path

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.sql.statements import COSTS, read_statements, split_script

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

_SQL = read_statements(Path(__file__).with_name("schema.sql"), COSTS)

#: The statements that upgrade each version to the next.
MIGRATIONS: Sequence[Sequence[str]] = tuple(
    split_script(_SQL[name]) for name in ("first", "marks", "budgets", "adoptions")
)
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
    return head + "\n".join(f"{statement};\n" for statement in statements)


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

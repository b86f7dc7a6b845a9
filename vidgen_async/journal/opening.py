"""Journals by name, as in VIDGEN_JOURNAL."""

import re

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.base import Journal
from vidgen_async.journal.memory import MemoryJournal

_ALLOWED = (
    'allowed are "sqlite:///relative.db", "sqlite:////absolute/path.db", "postgresql://user:password@host/database" '
    'and "memory:"'
)
_SQLITE = "sqlite:///"

#: Invalid names that messages may show: URLs, and names of files. Any other text may be a key.
_URL = re.compile(r"\w{1,20}:(//.*)?", re.DOTALL)
_FILE = re.compile(r"[\w./ -]{0,200}\.(db|sqlite3?)|memory", re.IGNORECASE)


def journal_from(text: str) -> Journal:
    """Return the journal that ``text`` names. No file and no connection is opened yet.

    Args:
        text: ``sqlite:///orders.db`` for a file in the working directory, ``sqlite:////var/lib/orders.db`` (four
            slashes) for an absolute path, ``postgresql://…`` for a database (extra ``postgres``), with the parameters
            of libpq; ``memory:`` for orders in memory.

    Raises:
        ConfigurationError: ``text`` is anything else, or psycopg is not installed.
    """
    if text == "memory:":
        return MemoryJournal()
    if text.startswith(("postgresql://", "postgres://")):
        from vidgen_async.journal.postgres.journal import PostgresJournal  # noqa: PLC0415 - only where it is used

        return PostgresJournal(text)
    path = text.removeprefix(_SQLITE)
    if path != text and path and path != ":memory:" and not re.search(r"[?#\0]", path):
        from vidgen_async.journal.sqlite.journal import SqliteJournal  # noqa: PLC0415 - only where it is used

        return SqliteJournal(path)
    message = f"journal {_describe(text)}: {_ALLOWED}"
    if "?" in text:
        message += ", without options"
    raise ConfigurationError(message)


def _describe(text: str) -> str:
    if text and not _URL.fullmatch(text) and not _FILE.fullmatch(text):
        return f"({len(text)} characters)"
    # A user name and password stand between the slashes and an @; a query may contain anything.
    return repr(re.sub(r"//.*@", "//…@", text, flags=re.DOTALL).partition("?")[0])

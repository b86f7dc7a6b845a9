"""Journals by name, as in VIDGEN_JOURNAL."""

import re

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.base import Journal
from vidgen_async.journal.memory import MemoryJournal

_ALLOWED = 'allowed are "sqlite:///relative.db", "sqlite:////absolute/path.db" and "memory:"'
_SQLITE = "sqlite:///"

#: Invalid names that messages may show: URLs, and names of files. Any other text may be a key.
_URL = re.compile(r"\w{1,20}:(//.*)?", re.DOTALL)
_FILE = re.compile(r"[\w./ -]{0,200}\.(db|sqlite3?)|memory", re.IGNORECASE)


def journal_from(text: str) -> Journal:
    """Return the journal that ``text`` names. No file is opened yet.

    Args:
        text: ``sqlite:///orders.db`` for a file in the working directory, ``sqlite:////var/lib/orders.db`` (four
            slashes) for an absolute path, ``memory:`` for orders in memory.

    Raises:
        ConfigurationError: ``text`` is anything else.
    """
    if text == "memory:":
        return MemoryJournal()
    path = text.removeprefix(_SQLITE)
    if path != text and path and path != ":memory:" and not re.search(r"[?#\0]", path):
        from vidgen_async.journal.sqlite.journal import SqliteJournal  # noqa: PLC0415 - only where it is used

        return SqliteJournal(path)
    message = f"journal {_describe(text)}: {_ALLOWED}"
    if text.startswith(("postgres:", "postgresql:")):
        message += "; PostgreSQL is not supported yet"
    elif "?" in text:
        message += ", without options"
    raise ConfigurationError(message)


def _describe(text: str) -> str:
    if text and not _URL.fullmatch(text) and not _FILE.fullmatch(text):
        return f"({len(text)} characters)"
    # A user name and password stand between the slashes and an @; a query may contain anything.
    return repr(re.sub(r"//.*@", "//…@", text, flags=re.DOTALL).partition("?")[0])

"""A journal by its name, as it stands in VIDGEN_JOURNAL."""

import re

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.base import Journal
from vidgen_async.journal.memory import MemoryJournal
from vidgen_async.journal.sqlite.journal import SqliteJournal

_ALLOWED = 'allowed are "sqlite:///relative.db", "sqlite:////absolute/path.db" and "memory:"'
_SQLITE = "sqlite:///"

#: What is shown of a wrong name: a place with a scheme, or what could be a file's. Anything else may be a key.
_PLACE = re.compile(r"\w{1,20}:(//.*)?", re.DOTALL)
_FILE = re.compile(r"[\w./ -]{0,200}\.(db|sqlite3?)|memory", re.IGNORECASE)


def journal_from(text: str) -> Journal:
    """The journal that ``text`` names; nothing is opened yet.

    ``sqlite:///orders.db`` is a file in the working directory, ``sqlite:////var/lib/orders.db`` (four slashes) one with
    an absolute path, ``memory:`` is this process only. ConfigurationError for anything else.
    """
    if text == "memory:":
        return MemoryJournal()
    path = text.removeprefix(_SQLITE)
    if path != text and path and path != ":memory:" and not re.search(r"[?#\0]", path):
        return SqliteJournal(path)
    message = f"journal {_shown(text)}: {_ALLOWED}"
    if text.startswith(("postgres:", "postgresql:")):
        message += "; PostgreSQL is not supported yet"
    elif "?" in text:
        message += ", without options"
    raise ConfigurationError(message)


def _shown(text: str) -> str:
    if text and not _PLACE.fullmatch(text) and not _FILE.fullmatch(text):
        return f"({len(text)} characters)"
    # Between the slashes and an @ stand a name and a password; after a question mark anything may stand.
    return repr(re.sub(r"//.*@", "//…@", text, flags=re.DOTALL).partition("?")[0])

"""A journal by its name, as it stands in VIDGEN_JOURNAL."""

import re

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.base import Journal
from vidgen_async.journal.memory import MemoryJournal
from vidgen_async.journal.sqlite import SqliteJournal

_ALLOWED = 'allowed are "sqlite:///relative.db", "sqlite:////absolute/path.db" and "memory:"'
_SQLITE = "sqlite:///"


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
    # Between the slashes and an @ stand a name and a password; after a question mark anything may stand.
    shown = re.sub(r"//.*@", "//…@", text, flags=re.DOTALL).partition("?")[0]
    message = f"journal {shown!r}: {_ALLOWED}"
    if text.startswith(("postgres:", "postgresql:")):
        message += "; PostgreSQL is not supported yet"
    elif "?" in text:
        message += ", without options"
    raise ConfigurationError(message)

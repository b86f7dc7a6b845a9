"""A journal in an SQLite file."""

from vidgen_async.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]

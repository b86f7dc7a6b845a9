"""One SQLite file of facts, values, assets and bytes. It is written in whole batches, by one sandbox at a time."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

Record = dict[str, Any]

FILE_NAME = "sandbox.db"
#: Tells our files from other SQLite files.
APPLICATION_ID = 0x56675362
FORMAT = 1

# A commit is in the hands of the operating system when it returns: a killed process loses nothing of it.
SETTINGS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL")
SCHEMA = (
    "CREATE TABLE facts (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE TABLE assets (id TEXT PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE named (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE bytes (digest TEXT PRIMARY KEY, content BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
ALL_TABLES = ("facts", "assets", "named", "bytes")


class StateError(Exception):
    """The state cannot be read, written or had for oneself; the message names the file."""


@define
class Batch:
    """What is written at once. ``is_whole``: instead of all that was there."""

    is_whole: bool = False
    facts: list[tuple[str, Record]] = field(factory=list)
    values: Record = field(factory=dict)
    #: None for an asset that was deleted.
    assets: dict[str, Record | None] = field(factory=dict)
    contents: dict[str, bytes] = field(factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.is_whole or self.facts or self.values or self.assets)

    def put(self, content: bytes) -> str:
        """Put bytes beside the records; their digest stands for them."""
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        return digest


class StateFile:
    """``path`` is the file, or a directory in which it is ``sandbox.db``. Every failure is a :class:`StateError`."""

    def __init__(self, path: Path) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Take the file for oneself, made if there is none; what it holds stays as it is."""
        with self._told():
            # Only the owner may read it: it holds keys and prompts. An existing one is not opened here, since closing
            # it again would give up the locks of a sandbox in this process.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            try:
                self._check_format(self._db)
                for setting in SETTINGS:
                    self._db.execute(f"PRAGMA {setting}")
                self._db.execute("BEGIN EXCLUSIVE")
                if not self._pragma("application_id"):
                    for statement in SCHEMA:
                        self._db.execute(statement)
                self._db.execute("COMMIT")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Give the file up; a second time does nothing."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return not any(self._rows(f"SELECT 1 FROM {table} LIMIT 1") for table in ALL_TABLES)  # noqa: S608 - our own names

    def facts(self) -> Iterator[tuple[str, Record]]:
        for kind, record in self._rows("SELECT kind, record FROM facts ORDER BY n"):
            yield kind, self._object(record)

    def assets(self) -> Iterator[Record]:
        for (record,) in self._rows("SELECT record FROM assets ORDER BY rowid"):
            yield self._object(record)

    def values(self) -> Record:
        return {name: self._parsed(value) for name, value in self._rows("SELECT name, value FROM named")}

    def contents(self) -> dict[str, bytes]:
        found = dict(self._rows("SELECT digest, content FROM bytes"))
        if not all(isinstance(content, bytes) for content in found.values()):
            raise StateError(f"the state {self.path} is damaged: what should be bytes is none")
        return found

    def write(self, batch: Batch) -> None:
        """All of the batch, or nothing of it."""
        with self._told(), self._transaction() as db:
            if batch.is_whole:
                for table in ALL_TABLES:
                    db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            db.executemany("INSERT OR IGNORE INTO bytes VALUES (?, ?)", batch.contents.items())
            facts = [(kind, json.dumps(record)) for kind, record in batch.facts]
            db.executemany("INSERT INTO facts (kind, record) VALUES (?, ?)", facts)
            values = [(name, json.dumps(value)) for name, value in batch.values.items()]
            db.executemany("INSERT OR REPLACE INTO named VALUES (?, ?)", values)
            for asset_id, record in batch.assets.items():
                if record is None:
                    db.execute("DELETE FROM assets WHERE id = ?", (asset_id,))
                else:
                    db.execute("INSERT INTO assets VALUES (?, ?)", (asset_id, json.dumps(record)))

    def _check_format(self, db: sqlite3.Connection) -> None:
        found = self._pragma("application_id")
        if found != APPLICATION_ID and (found or self._pragma("page_count")):
            raise StateError(f"{self.path} is a file of something else, not the state of a sandbox")
        if (version := self._pragma("user_version")) > FORMAT:
            message = f"was written by a newer version: its format is {version}, this one reads up to {FORMAT}"
            raise StateError(f"the state {self.path} {message}")
        if (verdict := db.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise StateError(f"the state {self.path} is damaged: {verdict}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _rows(self, query: str) -> list[Any]:
        with self._told():
            return self._connection.execute(query).fetchall()

    def _object(self, text: str) -> Record:
        record = self._parsed(text)
        if not isinstance(record, dict):
            raise StateError(f"the state {self.path} is damaged: a record is no object")
        return record

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise StateError(f"the state {self.path} is damaged: a record is no JSON") from None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise StateError(f"the state {self.path} is not open")
        return self._db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._connection
        db.execute("BEGIN")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong, in words that name the file."""
        try:
            yield
        except OSError as error:
            raise StateError(f"the state {self.path} cannot be opened: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise StateError(f"the state {self.path} is damaged: {error.reason}") from error
        except sqlite3.Error as error:
            code = error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else 0
            if code == sqlite3.SQLITE_BUSY:
                message = f"the state {self.path} is in use by another sandbox"
            elif code == sqlite3.SQLITE_NOTADB:
                message = f"{self.path} is a file of something else, not the state of a sandbox, or it is damaged"
            elif code == sqlite3.SQLITE_CORRUPT:
                message = f"the state {self.path} is damaged: {error}"
            else:
                message = f"the state {self.path} cannot be read or written: {error}"
            raise StateError(message) from error

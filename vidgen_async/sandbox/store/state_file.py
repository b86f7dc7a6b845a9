"""A SQLite file with one table of JSON records, and a folder of blobs beside it. One sandbox at a time has it open."""

import hashlib
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE_NAME = "sandbox.db"
#: Identifies our files among other SQLite files.
APPLICATION_ID = 0x56675362
FORMAT = 3

# A commit has reached the operating system when it returns: a killed process loses no committed record.
SETTINGS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL")
SCHEMA = (
    "CREATE TABLE records (kind TEXT, id TEXT, record TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (kind, id))",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
BLOB_NAME = re.compile(r"[0-9a-f]{64}(\.part)?")

#: A JSON value by kind and id.
Record = tuple[str, str, Any]


class StateError(Exception):
    """The state cannot be opened, read or written; the message names the file."""


class StateFile:
    """``path`` is the file, or a directory in which the file is ``sandbox.db``. Every failure is a StateError."""

    def __init__(self, path: Path) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        self._blobs = self.path.with_name(f"{self.path.name}.blobs")
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open and lock the file. Create it if there is none; change nothing in a file of another format."""
        with self._state_errors():
            # Only the owner may read it: it holds keys and prompts. An existing file is not opened here: closing it
            # again would release the locks of another sandbox in this process.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            try:
                self._check_format()
                for setting in SETTINGS:
                    self._db.execute(f"PRAGMA {setting}")
                with self._db:
                    self._db.execute("BEGIN EXCLUSIVE")
                    for statement in () if self._pragma("application_id") else SCHEMA:
                        self._db.execute(statement)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close and unlock the file. May be called twice."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def records(self) -> Iterator[Record]:
        """Return every record, in the order in which they were first written."""
        with self._state_errors():
            rows = self._connection.execute("SELECT kind, id, record, crc FROM records ORDER BY rowid").fetchall()
        for kind, record_id, text, crc in rows:
            if crc != _checksum(kind, record_id, text):
                raise StateError(f"the state {self.path} is damaged: the checksum of {kind} {record_id} is wrong")
            yield kind, record_id, json.loads(text)

    def write(self, records: Iterable[Record], *, replace_all: bool = False) -> None:
        """Write all of the records in one transaction, or none; with ``replace_all`` in place of those in the file."""
        with self._state_errors(), self._connection as db:
            db.execute("BEGIN")
            if replace_all:
                db.execute("DELETE FROM records")
            for kind, record_id, value in records:
                text = json.dumps(value)
                row = (kind, record_id, text, _checksum(kind, record_id, text))
                db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", row)

    def put_blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = self._blobs / digest
        with self._state_errors():
            if not path.exists():
                self._blobs.mkdir(mode=0o700, exist_ok=True)
                part = path.with_suffix(".part")
                part.write_bytes(content)
                part.replace(path)
        return digest

    def get_blob(self, digest: str) -> bytes:
        path = self._blobs / digest
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StateError(f"the state {self.path} is damaged: {path}: {error.strerror or error}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise StateError(f"the state {self.path} is damaged: the content of {path} was changed")
        return content

    def remove_blobs(self, *, keep: Container[str]) -> None:
        """Remove the blobs whose digests are not in ``keep``, and the parts that a killed process left."""
        with self._state_errors():
            for path in list(self._blobs.iterdir()) if self._blobs.is_dir() else ():
                if BLOB_NAME.fullmatch(path.name) and path.name not in keep:
                    path.unlink()

    def _check_format(self) -> None:
        application = self._pragma("application_id")
        if application != APPLICATION_ID and (application or self._pragma("page_count")):
            raise StateError(f"{self.path} is not the state of a sandbox but another file; pass another path")
        if application and (version := self._pragma("user_version")) != FORMAT:
            raise StateError(
                f"the state {self.path} has format {version}, and this version of vidgen_async reads format {FORMAT} "
                "only. The file was not changed: pass another path to start with a new state, or open this one with "
                "the version of vidgen_async that wrote it"
            )
        if (verdict := self._connection.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise StateError(f"the state {self.path} is damaged: {verdict}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise StateError(f"the state {self.path} is not open")
        return self._db

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        """Raise what fails as a StateError that names the file."""
        try:
            yield
        except OSError as error:
            raise StateError(f"the state {self.path} cannot be read or written: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise StateError(f"the state {self.path} is damaged: {error.reason}") from error
        except sqlite3.Error as error:
            message = {
                sqlite3.SQLITE_BUSY: f"the state {self.path} is in use by another sandbox",
                sqlite3.SQLITE_NOTADB: f"{self.path} is not the state of a sandbox but another file, or is damaged",
                sqlite3.SQLITE_CORRUPT: f"the state {self.path} is damaged: {error}",
            }.get(
                getattr(error, "sqlite_errorcode", 0) & 0xFF,
                f"the state {self.path} cannot be read or written: {error}",
            )
            raise StateError(message) from error


def _checksum(kind: object, record_id: object, text: object) -> int:
    return zlib.crc32(f"{kind}\0{record_id}\0{text}".encode("utf-8", "surrogatepass"))

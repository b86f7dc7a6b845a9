"""The state of a sandbox: a SQLite file of JSON records, which one sandbox at a time has open."""

import base64
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from cattrs.preconf.json import make_converter

from vidgen_async.sandbox.accounts import Account, LedgerEntry, SandboxTask
from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.state import SandboxState

#: Identifies our files among other SQLite files, and their format.
APPLICATION_ID, FORMAT = 0x56675362, 5
CHECK = "SELECT * FROM pragma_application_id, pragma_user_version, pragma_page_count, pragma_quick_check"
#: A commit has reached the operating system when it returns: a killed process loses none.
BEGIN = f"""
    PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN EXCLUSIVE;
    CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, record TEXT);
    PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};
"""


class StateError(Exception):
    """The state cannot be opened, read or written; the message names the file."""


class StateFile:
    """``path`` is the file, or a directory for ``sandbox.db``; it is locked while open. A failure is a StateError."""

    def __init__(self, path: Path, sandbox: SandboxState) -> None:
        self.path = path / "sandbox.db" if path.is_dir() else path
        self._sandbox = sandbox
        self._stored: dict[str, object] = {}
        self._converter = make_converter(detailed_validation=False)
        self._converter.register_unstructure_hook(Account, lambda account: account.name)
        self._converter.register_structure_hook(Account, lambda name, _: sandbox.account(name))
        self._converter.register_unstructure_hook(bytes, lambda content: base64.b64encode(content).decode())
        self._converter.register_structure_hook(bytes, lambda text, _: base64.b64decode(text, validate=True))

    @contextmanager
    def open(self) -> Iterator[None]:
        with ExitStack() as stack:
            with self._state_errors():
                self.path.touch(0o600)  # only the owner may read it; an existing file is not opened (its lock)
                self._db = stack.enter_context(closing(sqlite3.connect(self.path, timeout=0)))
                program, version, pages, damage = self._db.execute(CHECK).fetchone()
                if pages and (program, version, damage) != (APPLICATION_ID, FORMAT, "ok"):
                    why = f"has format {version}, not {FORMAT}, is another file, or is damaged (its check: {damage})"
                    raise StateError(f"{self.path} {why}. Pass another path, or use the version that wrote it")
                self._db.executescript(BEGIN)
                if records := dict(self._db.execute("SELECT * FROM records ORDER BY rowid")):
                    self._restore(records)
            self.save()
            yield
            self.save()

    def _restore(self, records: dict[str, str]) -> None:
        sandbox, assets, loads = self._sandbox, self._sandbox.assets, self._converter.loads
        stored = [Account(*each) for each in loads(records.pop("accounts"), list[tuple[str, str, list[LedgerEntry]]])]
        added = [each for each in sandbox.accounts.values() if each.name not in {account.name for account in stored}]
        sandbox.accounts.clear()
        for account in stored + added:
            sandbox.accounts.put(account)
        sandbox.models = {entry.code: entry for entry in loads(records.pop("models"), list[CatalogEntry])}
        assets.signer.secret, now, wall, speed = loads(records.pop("settings"), tuple[bytes, float, float, float])
        sandbox.clock.start_at(now + max(0.0, time.time() - wall) * min(1.0, speed))  # at most as fast as real time
        for key in [each for each in records if each.startswith("task_")]:
            sandbox.add_task(loads(records.pop(key), SandboxTask))
        assets.by_id |= {key: loads(record, Asset) for key, record in records.items()}
        refunded = {entry.task_id for account in stored for entry in account.ledger if entry.kind == "refund"}
        sandbox.refunds = sorted(each for each in sandbox.refunds if each[1] not in refunded)
        self._stored = {**sandbox.tasks, **assets.by_id}

    def save(self) -> None:
        """Store what has changed, in one transaction. If it raises, nothing was stored; the next call does it."""
        sandbox, secret, clock = self._sandbox, self._sandbox.assets.signer.secret, self._sandbox.clock
        records: dict[str, object] = {**sandbox.tasks, **sandbox.assets.by_id}
        records["accounts"] = [(each.name, each.api_key, list(each.ledger)) for each in sandbox.accounts.values()]
        records["models"] = list(sandbox.models.values())
        records["settings"] = (secret, clock.now(), time.time(), clock.speed)
        with self._state_errors(), self._db as db:
            db.executemany("DELETE FROM records WHERE id = ?", [(key,) for key in self._stored.keys() - records.keys()])
            for key, record in records.items():
                if record is not (old := self._stored.get(key)) and record != old:
                    db.execute("REPLACE INTO records VALUES (?, ?)", (key, self._converter.dumps(record)))
        self._stored = records

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, LookupError, TypeError, ValueError) as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            why = "in use by another sandbox" if is_busy else f"damaged, or cannot be read or written: {error}"
            raise StateError(f"the state {self.path} is {why}") from error

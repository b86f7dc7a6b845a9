"""The state of a sandbox: a SQLite file of JSON records, which one sandbox at a time has open."""

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
STORE = "INSERT INTO records VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record"


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

    @contextmanager
    def open(self) -> Iterator[None]:
        with ExitStack() as stack:
            with self._state_errors():
                if not self.path.exists():  # an existing file is not opened here: closing it would release its lock
                    self.path.touch(0o600)
                self._db = stack.enter_context(closing(sqlite3.connect(self.path, timeout=0)))
                program, version, pages, damage = self._db.execute(CHECK).fetchone()
                if pages and (program, version) != (APPLICATION_ID, FORMAT):
                    found = version if program == APPLICATION_ID else "of another program"
                    advice = "It was not changed: pass another path, or use the version of vidgen_async that wrote it"
                    raise StateError(f"{self.path} has format {found}, not {FORMAT}. {advice}")
                if damage != "ok":
                    raise ValueError(damage)
                self._db.executescript(BEGIN)
                if records := dict(self._db.execute("SELECT * FROM records ORDER BY rowid")):
                    self._restore(records)
            self.save()
            stack.callback(self.save)
            yield

    def _restore(self, records: dict[str, str]) -> None:
        sandbox, assets, loads = self._sandbox, self._sandbox.assets, self._converter.loads
        stored = [Account(*each) for each in loads(records.pop("accounts"), list[tuple[str, str]])]
        added = [each for each in sandbox.accounts.values() if each.name not in {account.name for account in stored}]
        sandbox.accounts.clear()
        for account in stored + added:
            sandbox.accounts.put(account)
        sandbox.models = {entry.code: entry for entry in loads(records.pop("models"), list[CatalogEntry])}
        assets.signer.secret, now, wall, speed = loads(records.pop("settings"), tuple[bytes, float, float, float])
        sandbox.clock.start_at(now + max(0.0, time.time() - wall) * min(1.0, speed))  # at most as fast as real time
        for key in [each for each in records if each.startswith("entry ")]:
            sandbox.account(key.split(" ", 2)[2]).ledger.append(loads(records.pop(key), LedgerEntry))
        for key in [each for each in records if each.startswith("task_")]:
            sandbox.add_task(loads(records.pop(key), SandboxTask))
        assets.by_id |= {key: loads(record, Asset) for key, record in records.items()}
        refunded = {entry.task_id for account in stored for entry in account.ledger if entry.kind == "refund"}
        sandbox.refunds = sorted(each for each in sandbox.refunds if each[1] not in refunded)
        self._stored = {**sandbox.tasks, **assets.by_id}

    def save(self) -> None:
        """Store what has changed, in one transaction. If it raises, nothing was stored; the next call does it."""
        sandbox, accounts, clock = self._sandbox, self._sandbox.accounts.values(), self._sandbox.clock
        records: dict[str, object] = {**sandbox.tasks, **sandbox.assets.by_id}
        records["accounts"] = [(each.name, each.api_key) for each in accounts]
        records |= {f"entry {n} {each.name}": entry for each in accounts for n, entry in enumerate(each.ledger)}
        records["models"] = list(sandbox.models.values())
        records["settings"] = (sandbox.assets.signer.secret, clock.now(), time.time(), clock.speed)
        with self._state_errors(), self._db as db:
            db.executemany("DELETE FROM records WHERE id = ?", [(key,) for key in self._stored.keys() - records.keys()])
            for key, record in records.items():
                if record is not (old := self._stored.get(key)) and record != old:
                    db.execute(STORE, (key, self._converter.dumps(record)))
        self._stored = records

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            reason = getattr(error, "strerror", None) or error
            why = "is in use by another sandbox" if is_busy else f"cannot be read or written: {reason}"
            raise StateError(f"the state {self.path} {why}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StateError(f"the state {self.path} is damaged, or conflicts with this sandbox: {error}") from error

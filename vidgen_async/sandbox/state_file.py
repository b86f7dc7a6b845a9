"""The state of a sandbox: a SQLite file of JSON records, which one sandbox at a time has open."""

import base64
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from cattrs import BaseValidationError, Converter, transform_error

from vidgen_async.sandbox.accounts import Account, LedgerEntry, SandboxTask
from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.state import SandboxState

#: Identifies our files among other SQLite files, and their format.
APPLICATION_ID, FORMAT = 0x56675362, 4
CREATE = f"""
    CREATE TABLE records (kind TEXT, account TEXT, n INTEGER, record TEXT, PRIMARY KEY (kind, account, n));
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {FORMAT};
"""
SETTINGS = ("settings", "")


class StateError(Exception):
    """The state cannot be opened, read or written; the message names the file."""


@frozen
class Settings:
    """What may change at any time. ``now`` and ``speed`` are those of the sandbox at ``wall``, in real time."""

    link_secret: str
    models: tuple[CatalogEntry, ...]
    now: float
    wall: float
    speed: float

    def time(self) -> float:
        """Return the sandbox's time. It also passes while the sandbox is closed, at most as fast as real time."""
        return self.now + max(0.0, time.time() - self.wall) * min(1.0, self.speed)


class StateFile:
    """``path`` is the file, or a directory in which the file is ``sandbox.db``. Every failure is a StateError."""

    def __init__(self, path: Path, sandbox: SandboxState) -> None:
        self.path = path / "sandbox.db" if path.is_dir() else path
        self._sandbox = sandbox
        self._stored: dict[tuple[str, str], list[Any]] = {}
        self._converter = Converter(forbid_extra_keys=True)
        self._converter.register_unstructure_hook(Account, lambda account: account.name)
        self._converter.register_structure_hook(Account, lambda name, _: sandbox.account(name))
        self._converter.register_unstructure_hook(bytes, lambda content: base64.b64encode(content).decode())
        self._converter.register_structure_hook(bytes, lambda text, _: base64.b64decode(text, validate=True))

    def open(self) -> None:
        """Open and lock the file, restore what it holds, and add the sandbox's accounts that it does not hold."""
        with self._state_errors(), ExitStack() as stack:
            # Only the owner may read it. An existing file is not opened here: closing it would release its lock.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            stack.callback(self._db.close)
            create = CREATE if self._is_new() else ""
            # A commit has reached the operating system when it returns: a killed process loses none.
            settings = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"
            self._db.executescript(f"{settings}; BEGIN EXCLUSIVE; {create} COMMIT")
            self._restore()
            self.save()
            stack.pop_all()

    def close(self) -> None:
        with closing(self._db):
            self.save()

    def save(self) -> None:
        """Store what has changed, in one transaction. If it raises, nothing was stored; the next call does it."""
        lists = dict(self._lists())
        if lists == self._stored:
            return
        with self._state_errors(), self._db as db:
            db.execute("BEGIN")
            for key, members in lists.items():
                stored = self._stored.get(key, [])
                if len(members) < len(stored):
                    db.execute("DELETE FROM records WHERE (kind, account) = (?, ?) AND n >= ?", (*key, len(members)))
                for n, (new, old) in enumerate(zip_longest(members, stored[: len(members)])):
                    if new is not old and new != old:
                        record = json.dumps(self._converter.unstructure(new))
                        db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (*key, n, record))
        self._stored = lists

    def _lists(self) -> Iterator[tuple[tuple[str, str], list[Any]]]:
        """Return what the file should hold: each list with its kind, and with its account if it is a ledger."""
        sandbox = self._sandbox
        yield ("account", ""), [(account.name, account.api_key) for account in sandbox.accounts.values()]
        for account in sandbox.accounts.values():
            yield ("entry", account.name), list(account.ledger)
        yield ("task", ""), list(sandbox.tasks.values())
        yield ("asset", ""), list(sandbox.assets)
        secret, models = sandbox.assets.signer.secret.hex(), tuple(sandbox.models.values())
        new = Settings(secret, models, sandbox.clock.now(), time.time(), sandbox.clock.speed)
        for old in self._stored.get(SETTINGS, []):
            if old.speed == new.speed and abs(old.time() - new.now) < 0.01:  # the stored time is still right
                new = evolve(new, now=old.now, wall=old.wall)
        yield SETTINGS, [new]

    def _is_new(self) -> bool:
        names = ("application_id", "user_version", "page_count", "quick_check")
        program, version, pages, verdict = (self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if (program or pages) and (program, version) != (APPLICATION_ID, FORMAT):
            raise StateError(
                f"{self.path} has format {version}, not {FORMAT}, or is another file. It was not changed: pass another "
                "path, or open it with the version of vidgen_async that wrote it"
            )
        if verdict != "ok":
            raise ValueError(verdict)
        return not program

    def _restore(self) -> None:
        sandbox, accounts, structure = self._sandbox, self._sandbox.accounts, self._converter.structure
        new_accounts = list(accounts.values())
        accounts.clear()
        rows = self._db.execute("SELECT * FROM records ORDER BY kind = 'settings', kind, account, n").fetchall()
        for kind, name, _, record in rows:
            value = json.loads(record)
            match kind:
                case "account":
                    accounts.put(Account(*structure(value, tuple[str, str])))
                case "entry":
                    sandbox.account(name).ledger.append(structure(value, LedgerEntry))
                case "task":
                    sandbox.add_task(structure(value, SandboxTask))
                case "asset":
                    asset = structure(value, Asset)
                    sandbox.assets.by_id[asset.id] = asset
                case _ if kind != "settings":
                    raise ValueError(f"there is no kind {kind!r}")
        if rows:
            settings = structure(value, Settings)
            sandbox.assets.signer.secret = bytes.fromhex(settings.link_secret)
            sandbox.models = {entry.code: entry for entry in settings.models}
            entries = [entry for account in accounts.values() for entry in account.ledger]
            refunded = {entry.task_id for entry in entries if entry.kind == "refund"}
            sandbox.refunds = sorted(each for each in sandbox.refunds if each[1] not in refunded)
            sandbox.clock.start_at(max([settings.time(), *(entry.at for entry in entries)]))
            self._stored = {**dict(self._lists()), SETTINGS: [settings]}
        for account in new_accounts:
            if account.name not in accounts.names:
                accounts.put(account)

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            why = f"cannot be read or written: {getattr(error, 'strerror', None) or error}"
            raise StateError(f"the state {self.path} {'is in use by another sandbox' if is_busy else why}") from error
        except (BaseValidationError, LookupError, TypeError, ValueError) as error:
            why = "; ".join(transform_error(error)) if isinstance(error, BaseValidationError) else str(error)
            raise StateError(f"the state {self.path} is damaged, or conflicts with this sandbox: {why}") from error

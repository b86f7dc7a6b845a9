"""Stores what a sandbox holds as records in a state file, and restores it from there.

Accounts, ledgers, tasks and uploads grow at their end: only their new members are written. After a deletion or a reset
everything is written anew.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cattrs import BaseValidationError, Converter, transform_error

from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.ledger import Account, LedgerEntry
from vidgen_async.sandbox.store.state_file import Record, StateError, StateFile
from vidgen_async.sandbox.tasks import SandboxTask

#: Seconds by which the stored time may differ from the clock before the time is written again.
TOLERANCE = 0.01


@frozen
class Settings:
    """What may change at any time, apart from the time itself."""

    link_secret: str
    models: tuple[CatalogEntry, ...]


@frozen
class StoredTime:
    """The sandbox's time and speed at a moment of the wall clock."""

    sandbox: float
    wall: float
    speed: float

    def now(self) -> float:
        """Return the sandbox's time now. It also passes while the sandbox is closed, at most as fast as real time."""
        return self.sandbox + max(0.0, time.time() - self.wall) * min(1.0, self.speed)


RECORD_TYPES: Mapping[str, Any] = {
    "account": tuple[str, str],
    "entry": tuple[Account, LedgerEntry],
    "task": SandboxTask,
    "asset": Asset,
    "settings": Settings,
    "time": StoredTime,
}


@frozen
class Progress:
    """What the file holds: the lengths of the lists by kind and account, and the number of deletions before it."""

    deletions: int = 0
    sizes: Mapping[tuple[str, str], int] = field(factory=dict)
    settings: Settings | None = None
    time: StoredTime | None = None


class Persistence:
    """Writes what has changed in ``endpoints`` since the last time, and restores all of it into a new sandbox."""

    def __init__(self, file: StateFile, endpoints: Endpoints) -> None:
        self._file = file
        self._endpoints = endpoints
        self._stored = Progress()
        self._blobs: dict[str, bytes] = {}
        # Records name an account by its name, and bytes by the digest of a blob.
        self._converter = Converter(forbid_extra_keys=True)
        self._converter.register_unstructure_hook(Account, lambda account: account.name)
        self._converter.register_structure_hook(Account, lambda name, _: endpoints.accounts.by_name(name))
        self._converter.register_unstructure_hook(bytes, file.put_blob)
        self._converter.register_structure_hook(bytes, lambda digest, _: self._read_blob(digest))

    @property
    def path(self) -> Path:
        return self._file.path

    def open(self) -> None:
        """Open the file, restore what it holds, and add the sandbox's accounts that it does not hold.

        Raises:
            StateError: The file cannot be opened, is in use, has another format, is damaged, or its accounts conflict
                with those of the sandbox.
        """
        self._file.open()
        try:
            new_accounts = list(self._endpoints.accounts.values())
            self._endpoints.accounts.clear()
            self._restore()
            try:
                self._endpoints.accounts.add_missing(new_accounts)
            except ValueError as error:
                raise StateError(
                    f"the state {self.path} conflicts with the accounts of this sandbox: {error}"
                ) from error
            self.save()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        try:
            self.save()
        finally:
            self._file.close()

    def save(self) -> None:
        """Store what has changed, in one transaction.

        Raises:
            StateError: It could not be written. Nothing was; the next call writes it.
        """
        after, before = self._progress(self._stored.time), self._stored
        replace_all = after.deletions != before.deletions
        if records := list(self._changes(Progress() if replace_all else before, after)):
            self._file.write(records, replace_all=replace_all)
            self._stored = after

    def _progress(self, stored_time: StoredTime | None) -> Progress:
        """Return what the file holds once everything is stored."""
        endpoints, clock = self._endpoints, self._endpoints.clock
        now = StoredTime(clock.now(), time.time(), clock.speed)
        if stored_time and abs(now.sandbox - stored_time.now()) <= TOLERANCE and now.speed == stored_time.speed:
            now = stored_time
        return Progress(
            deletions=endpoints.assets.deletions,
            sizes={(kind, account): len(members) for kind, account, members in self._lists()},
            settings=Settings(endpoints.signer.secret.hex(), tuple(endpoints.create_handler.models.values())),
            time=now,
        )

    def _lists(self) -> Iterator[tuple[str, str, Any]]:
        """Return what only grows: the kind, the account if each account has its own list, and the members."""
        accounts = self._endpoints.accounts
        yield "account", "", [(account.name, account.api_key) for account in accounts.values()]
        for account in accounts.values():
            yield "entry", account.name, account.ledger
        yield "task", "", self._endpoints.create_handler.tasks.values()
        yield "asset", "", self._endpoints.assets

    def _changes(self, before: Progress, after: Progress) -> Iterator[Record]:
        for kind, account, members in self._lists():
            stored = before.sizes.get((kind, account), 0)
            # From the end, without a walk over the members that are stored.
            new = list(islice(reversed(members), max(0, len(members) - stored)))[::-1]
            for n, member in enumerate(self._converter.unstructure(new), stored):
                yield kind, f"{account}/{n}", [account, member] if account else member
        if after.settings != before.settings:
            yield "settings", "", self._converter.unstructure(after.settings)
        if after.time != before.time:
            yield "time", "", self._converter.unstructure(after.time)

    def _restore(self) -> None:
        latest: dict[str, Any] = {}
        try:
            for kind, _, record in self._file.records():
                latest[kind] = value = self._converter.structure(record, RECORD_TYPES[kind])
                self._restore_one(kind, value)
            if latest:
                self._restore_settings(latest["settings"], latest["time"])
        except BaseValidationError as error:
            raise StateError(f"the state {self.path} is damaged: {'; '.join(transform_error(error))}") from error
        except (LookupError, TypeError, ValueError) as error:
            raise StateError(f"the state {self.path} is damaged: {type(error).__name__}: {error}") from error
        self._file.remove_blobs(keep=self._blobs)
        self._blobs.clear()

    def _restore_one(self, kind: str, value: Any) -> None:
        match kind, value:
            case "account", (name, api_key):
                self._endpoints.accounts.add_missing([Account(name, api_key)])
            case "entry", (account, entry):
                account.ledger.append(entry)
                account.balance = entry.balance
            case "task", task:
                self._endpoints.create_handler.add_task(task)
            case "asset", asset:
                self._endpoints.assets.put(asset)

    def _restore_settings(self, settings: Settings, stored_time: StoredTime) -> None:
        """Restore the settings, the time, and the refunds that are still due."""
        creates = self._endpoints.create_handler
        entries = [entry for account in self._endpoints.accounts.values() for entry in account.ledger]
        if missing := {entry.task_id for entry in entries} - {None, *creates.tasks}:
            raise ValueError(f"the ledger names tasks that are not stored: {', '.join(map(str, missing))}")
        creates.refunds.remove({entry.task_id for entry in entries if entry.kind == "refund"})
        self._endpoints.signer.secret = bytes.fromhex(settings.link_secret)
        creates.models.clear()
        creates.models.update((entry.code, entry) for entry in settings.models)
        self._endpoints.clock.start_at(max([stored_time.now(), *(entry.at for entry in entries)]))
        self._stored = self._progress(stored_time)

    def _read_blob(self, digest: str) -> bytes:
        """Return a blob, read once for all records that refer to it."""
        if digest not in self._blobs:
            self._blobs[digest] = self._file.get_blob(digest)
        return self._blobs[digest]

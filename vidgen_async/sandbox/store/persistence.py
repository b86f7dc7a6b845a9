"""Stores what a sandbox holds as records in a state file, and restores it from there.

Accounts, ledgers, Idempotency-Keys, submissions, tasks and uploads grow at their end: only their new members are
written. After a deletion or a reset everything is written anew. Received creates and requests are not stored.
"""

import time
from collections.abc import Iterator, Mapping, Reversible
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cattrs import BaseValidationError, Converter, transform_error

from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.creates import WINDOW
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.ledger import Account, KeyedCreate, LedgerEntry
from vidgen_async.sandbox.store.state_file import StateError, StateFile
from vidgen_async.sandbox.tasks import Failure, SandboxTask

#: Seconds by which the stored time may differ from the clock before the time is written again.
TOLERANCE = 0.01


@frozen
class Settings:
    """What may change at any time, apart from the time itself."""

    link_secret: str
    models: tuple[CatalogEntry, ...]
    next_outcomes: tuple[Failure | None, ...]


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
    "key": tuple[Account, tuple[str, KeyedCreate]],
    "submission": tuple[Account, float],
    "task": SandboxTask,
    "asset": Asset,
    "settings": Settings,
    "time": StoredTime,
}


@frozen
class Series:
    """Members of one kind, of one account or of all, that are only appended. ``size`` also counts expired members."""

    kind: str
    account: Account | None
    size: int
    members: Reversible[Any]

    @property
    def prefix(self) -> str:
        """What the ids of its records begin with."""
        return f"{self.account.name}/" if self.account else ""

    def newest(self, stored: int) -> Iterator[tuple[str, str, Any]]:
        """Return what to write when ``stored`` members are in the file, without a walk over those."""
        members = list(islice(reversed(self.members), max(0, self.size - stored)))[::-1]
        for n, member in enumerate(members, self.size - len(members)):
            yield self.kind, f"{self.prefix}{n}", (self.account, member) if self.account else member


@frozen
class Progress:
    """What the file holds: the size of each series, the number of deletions before it, the settings and the time."""

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
        """Store what has changed and close the file."""
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
        changes = list(self._changes(Progress() if replace_all else before, after))
        if changes:
            records = [(kind, record_id, self._converter.unstructure(value)) for kind, record_id, value in changes]
            self._file.write(records, replace_all=replace_all)
            self._stored = after

    def _progress(self, stored_time: StoredTime | None) -> Progress:
        """Return what the file holds once everything is stored."""
        endpoints, creates, clock = self._endpoints, self._endpoints.create_handler, self._endpoints.clock
        now = StoredTime(clock.now(), time.time(), clock.speed)
        if stored_time and abs(now.sandbox - stored_time.now()) <= TOLERANCE and now.speed == stored_time.speed:
            now = stored_time
        return Progress(
            deletions=endpoints.assets.deletions,
            sizes={(series.kind, series.prefix): series.size for series in self._series()},
            settings=Settings(
                endpoints.signer.secret.hex(), tuple(creates.models.values()), tuple(creates.next_outcomes)
            ),
            time=now,
        )

    def _series(self) -> Iterator[Series]:
        accounts, tasks, assets = self._endpoints.accounts, self._endpoints.create_handler.tasks, self._endpoints.assets
        yield Series("account", None, len(accounts), [(account.name, account.api_key) for account in accounts.values()])
        for account in accounts.values():
            yield Series("entry", account, len(account.ledger), account.ledger)
            yield Series("key", account, len(account.keys), account.keys.items())
            yield Series("submission", account, account.submissions, account.submitted_at)
        yield Series("task", None, len(tasks), tasks.values())
        yield Series("asset", None, len(assets), assets)

    def _changes(self, before: Progress, after: Progress) -> Iterator[tuple[str, str, Any]]:
        for series in self._series():
            yield from series.newest(before.sizes.get((series.kind, series.prefix), 0))
        if after.settings != before.settings:
            yield "settings", "", after.settings
        if after.time != before.time:
            yield "time", "", after.time

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
            case "key", (account, (key, create)):
                account.keys[key] = create
            case "submission", (account, at):
                account.submit(at)
                while account.submitted_at[0] <= at - WINDOW:
                    account.submitted_at.popleft()
            case "task", task:
                self._endpoints.create_handler.tasks[task.id] = task
            case "asset", asset:
                self._endpoints.assets.put(asset)

    def _restore_settings(self, settings: Settings, stored_time: StoredTime) -> None:
        """Restore the settings, the time, and what follows from all records together."""
        creates = self._endpoints.create_handler
        self._endpoints.signer.secret = bytes.fromhex(settings.link_secret)
        creates.models.clear()
        creates.models.update((entry.code, entry) for entry in settings.models)
        creates.next_outcomes[:] = settings.next_outcomes
        refunded, newest = set(), stored_time.now()
        for account in self._endpoints.accounts.values():
            if missing := {create.task_id for create in account.keys.values()} - creates.tasks.keys():
                raise ValueError(f"an Idempotency-Key belongs to tasks that are not stored: {', '.join(missing)}")
            refunded |= {entry.task_id for entry in account.ledger if entry.kind == "refund"}
            newest = max([newest, *(entry.at for entry in account.ledger)])
        for task in creates.tasks.values():
            if task.id not in refunded:
                creates.refunds.expect(task)
        self._endpoints.clock.start_at(newest)
        self._stored = self._progress(stored_time)

    def _read_blob(self, digest: str) -> bytes:
        """Return a blob, read once for all records that refer to it."""
        if digest not in self._blobs:
            self._blobs[digest] = self._file.get_blob(digest)
        return self._blobs[digest]

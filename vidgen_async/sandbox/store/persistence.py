"""The state of a sandbox, kept in a file, so that it outlives the process, however that ends.

What only grows (accounts, ledgers, Idempotency-Keys, submissions, tasks) is a list of facts in the order in which they
came about; what changes is a value by name. Received creates and requests are not kept: they are what *this* sandbox
has seen.
"""

import time
from collections.abc import Iterator, Reversible, Sized
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from attrs import asdict, define, field, frozen

from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.creates import WINDOW
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.ledger import Account, KeyedCreate, LedgerEntry
from vidgen_async.sandbox.store import record_schema
from vidgen_async.sandbox.store.records import (
    Record,
    asset_of,
    asset_record,
    entry_of,
    failure_of,
    failure_record,
    task_of,
    task_record,
)
from vidgen_async.sandbox.store.state_file import Batch, StateError, StateFile
from vidgen_async.sandbox.tasks import Failure

T_co = TypeVar("T_co", covariant=True)

#: Seconds by which the time on record may be off before it is written again.
TOLERANCE = 0.01


class _Grown(Reversible[T_co], Sized, Protocol[T_co]):
    """Something that grows at its end."""


@frozen
class _Seen:
    """How much of an account is on record."""

    entries: int = 0
    keys: int = 0
    submissions: int = 0


@define
class _Marks:
    """How much of everything is on record."""

    accounts: dict[str, _Seen] = field(factory=dict)
    tasks: int = 0
    asset_ids: frozenset[str] = frozenset()
    asset_revision: int = -1
    models: tuple[CatalogEntry, ...] = ()
    outcomes: tuple[Failure | None, ...] | None = None
    secret: bytes = b""
    #: Sandbox time, wall time, speed.
    clock: tuple[float, float, float] = (float("-inf"), 0.0, 0.0)


class Keeper:
    """Writes what has changed in ``held`` since the last time, and puts it all back into a new sandbox.

    While a sandbox is closed its time goes on like everybody's, though never faster than its speed.
    """

    def __init__(self, file: StateFile, held: Endpoints) -> None:
        self._file = file
        self._held = held
        self._marks = _Marks()
        self._is_stale = False

    def open(self) -> None:
        """Take the file, put what is on record into the sandbox, and add the accounts that the record does not know.

        StateError if the file cannot be had, or is damaged.
        """
        self._file.open()
        try:
            mine = list(self._held.accounts.values())
            self._held.accounts.clear()
            self._load()
            self._add_missing(mine)
            self.save()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Have everything on record and give the file up."""
        try:
            self.save()
        finally:
            self._file.close()

    @property
    def path(self) -> Path:
        return self._file.path

    def save(self) -> None:
        """Have everything on record; StateError when it could not be written, and then nothing of it was."""
        marks = _Marks() if self._is_stale else self._marks
        batch = Batch(is_whole=self._is_stale)
        batch.facts.extend(self._new_facts(marks, batch))
        self._note_values(marks, batch)
        self._note_assets(marks, batch)
        if batch:
            self._file.write(batch)
            self._marks, self._is_stale = self._marks_now(marks, batch), False

    def start_over(self) -> None:
        """What is on record does not hold any more: the next :meth:`save` writes everything anew."""
        self._is_stale = True

    def _load(self) -> None:
        try:
            values = self._file.values()
            if values or not self._file.is_empty:
                self._load_facts()
                self._load_values(values)
                self._marks = self._marks_now(self._marks, Batch(values=values))
        except (LookupError, TypeError, ValueError) as error:
            raise StateError(f"the state {self.path} is damaged: {type(error).__name__}: {error}") from error

    def _add_missing(self, accounts: list[Account]) -> None:
        try:
            self._held.accounts.add_missing(accounts)
        except ValueError as error:
            raise StateError(f"the state {self.path} does not fit the accounts that were given: {error}") from error

    def _new_facts(self, marks: _Marks, batch: Batch) -> Iterator[tuple[str, Record]]:
        for account in self._held.accounts.values():
            seen = marks.accounts.get(account.name)
            if seen is None:
                yield "account", {"name": account.name, "api_key": account.api_key}
            yield from _new_of_account(account, seen or _Seen())
        tasks = self._held.desk.tasks
        for task in _newest(tasks.values(), len(tasks) - marks.tasks):
            yield "task", task_record(task, batch.put)

    def _note_values(self, marks: _Marks, batch: Batch) -> None:
        desk, signer = self._held.desk, self._held.signer
        if signer.secret != marks.secret:
            batch.values["secret"] = signer.secret.hex()
        if (models := tuple(desk.models.values())) != marks.models:
            batch.values["models"] = [asdict(entry) for entry in models]
        if (outcomes := tuple(desk.next_outcomes)) != marks.outcomes:
            batch.values["outcomes"] = [failure_record(outcome) for outcome in outcomes]
        clock = self._held.clock
        if abs(clock.now() - _time_from(marks.clock)) > TOLERANCE or clock.speed != marks.clock[2]:
            batch.values["clock"] = [clock.now(), time.time(), clock.speed]

    def _note_assets(self, marks: _Marks, batch: Batch) -> None:
        assets = self._held.assets
        if assets.revision == marks.asset_revision:
            return
        present = {asset.id: asset for asset in assets}
        for asset_id in marks.asset_ids - present.keys():
            batch.assets[asset_id] = None
        for asset in present.values():
            if asset.id not in marks.asset_ids:
                batch.assets[asset.id] = asset_record(asset, batch.put)

    def _marks_now(self, before: _Marks, batch: Batch) -> _Marks:
        held, desk = self._held, self._held.desk
        return _Marks(
            accounts={
                account.name: _Seen(len(account.ledger), len(account.keys), account.submissions)
                for account in held.accounts.values()
            },
            tasks=len(desk.tasks),
            asset_ids=(
                before.asset_ids
                if before.asset_revision == held.assets.revision
                else frozenset(asset.id for asset in held.assets)
            ),
            asset_revision=held.assets.revision,
            models=tuple(desk.models.values()),
            outcomes=tuple(desk.next_outcomes),
            secret=held.signer.secret,
            clock=tuple(batch.values["clock"]) if "clock" in batch.values else before.clock,
        )

    def _load_facts(self) -> None:
        named: dict[str, Account] = {}
        contents = self._file.contents()
        for kind, record in self._file.facts():
            if kind == "account":
                account = Account(**record_schema.read(record, record_schema.ACCOUNT))
                self._held.accounts.add_missing([account])
                named[account.name] = account
            elif kind == "task":
                task = task_of(record, named, contents.__getitem__)
                self._held.desk.tasks[task.id] = task
            else:
                _take_in(named[record.pop("account")], kind, record)
        if not named:
            raise ValueError("there is no account on record")
        self._check_keys()
        for record in self._file.assets():
            self._held.assets.put(asset_of(record, named, contents.__getitem__))
        refunded = {entry.task_id for account in named.values() for entry in account.ledger if entry.kind == "refund"}
        for task in self._held.desk.tasks.values():
            if task.id not in refunded:
                self._held.desk.refunds.expect(task)

    def _check_keys(self) -> None:
        tasks = self._held.desk.tasks
        for account in self._held.accounts.values():
            if any(create.task_id not in tasks for create in account.keys.values()):
                raise ValueError("an Idempotency-Key stands for a task that is not on record")

    def _load_values(self, values: Record) -> None:
        desk = self._held.desk
        self._held.signer.secret = bytes.fromhex(values["secret"])
        desk.models.clear()
        desk.models.update((entry.code, entry) for entry in map(entry_of, values["models"]))
        desk.next_outcomes[:] = [failure_of(record) for record in values["outcomes"]]
        clock_now, wall, speed = (record_schema.TIME.read(number) for number in values["clock"])
        newest = [entry.at for account in self._held.accounts.values() for entry in account.ledger]
        self._held.clock.start_at(max([_time_from((clock_now, wall, speed)), *newest]))


def _new_of_account(account: Account, seen: _Seen) -> Iterator[tuple[str, Record]]:
    for entry in account.ledger[seen.entries :]:
        yield "entry", {"account": account.name, **asdict(entry)}
    for key, create in _newest(account.keys.items(), len(account.keys) - seen.keys):
        yield "key", {"account": account.name, "key": key, **asdict(create)}
    for at in _newest(account.submitted_at, account.submissions - seen.submissions):
        yield "submission", {"account": account.name, "at": at}


def _take_in(account: Account, kind: str, record: Record) -> None:
    if kind == "entry":
        account.ledger.append(LedgerEntry(**record_schema.read(record, record_schema.ENTRY)))
        account.balance = account.ledger[-1].balance
    elif kind == "key":
        fields = record_schema.read(record, record_schema.KEY)
        key = fields.pop("key")
        account.keys[key] = KeyedCreate(**fields)
    elif kind == "submission":
        at = record_schema.read(record, record_schema.SUBMISSION)["at"]
        account.submit(at)
        while account.submitted_at[0] <= at - WINDOW:
            account.submitted_at.popleft()
    else:
        raise ValueError(f"a fact of an unknown kind {kind!r}")


def _newest(grown: "_Grown[Any]", count: int) -> list[Any]:
    """The last ``count``, newest last; without a walk over the others."""
    return list(islice(reversed(grown), max(0, count)))[::-1]


def _time_from(clock: tuple[float, float, float]) -> float:
    """What the sandbox's time is now, by what was written of it."""
    now, wall, speed = clock
    return now + max(0.0, time.time() - wall) * min(1.0, speed)

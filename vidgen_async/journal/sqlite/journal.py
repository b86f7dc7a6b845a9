"""A journal in a file: it survives the process, and any number of processes of one machine may share it."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.base import RUNNING_PAGE, RunningPage, unknown_order
from vidgen_async.journal.sqlite import queries
from vidgen_async.journal.sqlite.backup import write_backup
from vidgen_async.journal.sqlite.connection_thread import ConnectionThread
from vidgen_async.journal.sqlite.file import JournalFile
from vidgen_async.journal.sqlite.schema import transaction
from vidgen_async.types.limits import Pacing, Turn
from vidgen_async.types.orders import Attempt, Closing, Evidence, Order, OrderRef, OrderState, Permission, TaskResult

T = TypeVar("T")

#: So many orders are read at one go.
_LIST_PAGE = 250


class SqliteJournal:
    """Orders in an SQLite file. What an operation wrote survives a kill and a loss of power.

    ``path``  of the file. It is made by the first operation, for its owner alone (mode 0600), in a directory that
        exists. A file that was deleted or replaced while in use is not written again.
    ``busy_timeout``  seconds for which an operation waits while another process writes.
    ``allow_network_file_system``  for those who know that its locks hold across all machines that use the file.

    Nothing is opened before the first operation; JournalError says what is wrong with the file and what to do. All
    work is done in one thread of the journal's own, so the event loop never waits for the disk. Several clients, event
    loops and threads may share one. In a forked child it can be used only if it had not been in use before the fork.
    Nothing is ever deleted: every piece of evidence and every closing stays on record, with its time and its words.
    """

    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 30.0,
        allow_network_file_system: bool = False,
    ) -> None:
        name = os.fspath(path)
        if not name or name == ":memory:" or "\0" in name:
            message = f"a journal needs the path of a file, not {name!r}; for orders in memory take a MemoryJournal"
            raise ConfigurationError(message)
        self._file = JournalFile(name, busy_timeout=busy_timeout, allow_network_file_system=allow_network_file_system)
        self._thread: ConnectionThread | None = None
        self._lock = threading.Lock()
        self._closings = 0
        """How often it was closed."""

    def __repr__(self) -> str:
        return f"SqliteJournal({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """Where the file is, absolute."""
        return self._file.path

    async def namespace(self, proposed: str) -> str:
        def operation(db: sqlite3.Connection) -> str:
            with transaction(db, "IMMEDIATE"):
                word = queries.read_namespace(db)
                if word is None:
                    queries.add_namespace(db, proposed)
                return word or proposed

        return await self._run(operation)

    async def intend(self, order: Order) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            with transaction(db, "IMMEDIATE"):
                queries.add_order(db, order)
                return _known(db, order.ref)

        return await self._run(operation)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        def operation(db: sqlite3.Connection) -> Turn:
            with transaction(db, "DEFERRED"):
                available = queries.read_turn(db, service, account, pacing, now)
            if available is not None:
                return available
            with transaction(db, "IMMEDIATE"):
                return _turn(db, service, account, pacing, now)

        return await self._run(operation)

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        ref, now = permission.ref, permission.now

        def operation(db: sqlite3.Connection) -> Attempt | Order | Turn:
            with transaction(db, "IMMEDIATE"):
                order = _expired(db, _known(db, ref), now)
                if not permission.suits(order):
                    return order
                available = _turn(db, ref.service, ref.account, permission.pacing, now)
                if not available.free:
                    return available
                attempt = permission.attempt()
                queries.add_attempt(db, ref, attempt)
                return attempt

        return await self._run(operation)

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            with transaction(db, "IMMEDIATE"):
                order = _known(db, ref)
                return _written(db, order, order.learned(n, evidence))

        return await self._run(operation)

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            with transaction(db, "IMMEDIATE"):
                order = _known(db, ref)
                if queries.is_claimed(db, ref, str(evidence.task_id)):
                    return order
                return _written(db, order, order.learned(n, evidence))

        return await self._run(operation)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            with transaction(db, "IMMEDIATE"):
                order = _expired(db, _known(db, ref), closing.at)
                if order.state not in states:
                    return order
                queries.add_closing(db, ref, closing)
                return evolve(order, closing=closing)

        return await self._run(operation)

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            with transaction(db, "IMMEDIATE"):
                if attempt.evidence is not None and attempt.evidence.task_id is not None:
                    owner = queries.read_owner(db, ref, attempt.evidence.task_id)
                    if owner is not None:
                        return _known(db, owner)
                order = _expired(db, _known(db, ref), attempt.sent_at)
                if order.state not in states:
                    return order
                empty = evolve(attempt, n=len(order.attempts) + 1, evidence=None)
                queries.add_attempt(db, ref, empty)
                before, after = order.with_attempt(empty), order.with_attempt(evolve(attempt, n=empty.n))
                return _written(db, before, after)

        return await self._run(operation)

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        def operation(db: sqlite3.Connection) -> OrderRef | None:
            with transaction(db, "DEFERRED"):
                return queries.read_owner(db, ref, task_id)

        return await self._run(operation)

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        def operation(db: sqlite3.Connection) -> None:
            with transaction(db, "IMMEDIATE"):
                queries.add_results(db, service, results)

        await self._run(operation)

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        def read(db: sqlite3.Connection) -> list[Order]:
            order = queries.read_order(db, ref)
            return [] if order is None else [order]

        found = await self._run(lambda db: _current(db, read, now))
        return found[0] if found else None

    async def list(self, service: str, account: str, now: datetime, *, is_terminal: bool | None = None) -> list[Order]:
        def page(db: sqlite3.Connection, after: int) -> tuple[list[Order], int | None]:
            until = queries.end_of_page(db, "orders", after, _LIST_PAGE)

            def read(db: sqlite3.Connection) -> list[Order]:
                return queries.read_orders(db, service, account, after, until, is_terminal=is_terminal)

            return _current(db, read, now), until

        listed: list[Order] = []
        after: int | None = 0
        closings = self._closings
        while after is not None:
            if closings != self._closings:
                what = "it was closed while its orders were being listed"
                raise self._file.error(what)
            orders, after = await self._run(partial(page, after=after))
            listed.extend(orders)
        return listed

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        def operation(db: sqlite3.Connection) -> RunningPage:
            with transaction(db, "DEFERRED"):
                until = queries.end_of_page(db, "evidence", after, RUNNING_PAGE)
                return RunningPage(tasks=queries.read_running(db, service, account, after, until), after=until)

        return await self._run(operation)

    async def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy the journal, as it is at one moment, to another file, and return its absolute path. Any number of
        processes may use the journal meanwhile. A file at ``path`` is replaced atomically.

        JournalError, with ``path`` as it was, when the copy cannot be written or is the journal itself. Copy a journal
        in use by this only: a copied file may mix two moments. Cancelling leaves the old file or the whole copy.
        """

        def operation(db: sqlite3.Connection) -> Path:
            with transaction(db, "DEFERRED"):
                return write_backup(db, self.path, Path(path).absolute())

        return await self._run(operation)

    async def aclose(self) -> None:
        """Wait for the operations so far, then close the file and end the thread. Twice is fine; an operation after
        that opens the file again."""
        self._closings += 1
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.process == os.getpid():
            await thread.aclose()

    async def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """When the caller is cancelled, the operation is carried out to its end, or was never begun."""
        if self._thread is not None and self._thread.process != os.getpid():
            what = "it was in use before this process was forked; make a new client with a new journal after the fork"
            raise self._file.error(what)
        with self._lock:  # nothing is handed to a thread that is told to end in between
            if self._thread is None:
                self._thread = ConnectionThread(self._file)
            future = self._thread.submit(operation)
        return await asyncio.wrap_future(future)


def _known(db: sqlite3.Connection, ref: OrderRef) -> Order:
    order = queries.read_order(db, ref)
    if order is None:
        raise unknown_order(ref)
    return order


def _turn(db: sqlite3.Connection, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
    """Of a transaction that writes."""
    available = queries.read_turn(db, service, account, pacing, now)
    if available is None:
        queries.count_anew(db, service, account, now)
        return _turn(db, service, account, pacing, now)
    return available


def _expired(db: sqlite3.Connection, order: Order, now: datetime) -> Order:
    return _written(db, order, order.expired(now))


def _written(db: sqlite3.Connection, before: Order, after: Order) -> Order:
    queries.add_news(db, before, after)
    return after


def _current(db: sqlite3.Connection, read: Callable[[sqlite3.Connection], list[Order]], now: datetime) -> list[Order]:
    """What is read, as it is now; only a deadline that has passed makes it a write."""
    with transaction(db, "DEFERRED"):
        orders = read(db)
    if all(order.expired(now) is order for order in orders):
        return orders
    with transaction(db, "IMMEDIATE"):
        return [_expired(db, order, now) for order in read(db)]

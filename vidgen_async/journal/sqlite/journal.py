"""A journal in a file: it survives the process, and all processes of one machine can share it."""

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
from vidgen_async.journal.base import RUNNING_PAGE, RunningPage, is_listed, unknown_order_error
from vidgen_async.journal.sqlite import queries
from vidgen_async.journal.sqlite.connection_thread import ConnectionThread
from vidgen_async.journal.sqlite.file import JournalFile
from vidgen_async.journal.sqlite.schema import transaction
from vidgen_async.types.limits import Pacing, Turn
from vidgen_async.types.orders import Attempt, Closing, Evidence, Order, OrderRef, OrderState, Permission, TaskResult

T = TypeVar("T")

#: Number of orders that are read in one transaction.
_LIST_PAGE = 250
#: Number of orders among which one transaction looks for those of a list.
_SCANNED = 5000


class SqliteJournal:
    """Orders in an SQLite file. Completed operations survive a killed process and a loss of power.

    The file is not opened before the first operation. All work is done in a thread of the journal's own, so that the
    event loop never waits for the disk. Clients, event loops and threads can share a journal. A forked child can use it
    only if it was not used before the fork. Nothing is ever deleted: every evidence and every closing remains in the
    journal, with its time and its texts. If an operation raises JournalError, the message states the problem with the
    file and what to do.

    Args:
        path: The file. The first operation creates it, for its owner only (mode 0600); its directory must exist. A file
            that was deleted or replaced while in use is not written any more.
        busy_timeout: Seconds for which an operation waits while another process writes.
        allow_network_file_system: Permits a network file system. Use it only if its locks work across all machines that
            use the file.
    """

    durable = True
    _name = ""  # so that repr() works if __init__ failed

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 30.0,
        allow_network_file_system: bool = False,
    ) -> None:
        name = os.fspath(path)
        if not name or name == ":memory:" or "\0" in name:
            message = f"a journal needs the path of a file, not {name!r}; for orders in memory use a MemoryJournal"
            raise ConfigurationError(message)
        self._file = JournalFile(name, busy_timeout=busy_timeout, allow_network_file_system=allow_network_file_system)
        self._name = str(self.path)
        self._thread: ConnectionThread | None = None
        self._lock = threading.Lock()
        self._closings = 0
        """Number of calls of :meth:`aclose`."""

    def __repr__(self) -> str:
        return f"SqliteJournal({self._name!r})"

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._file.path

    async def namespace(self, proposed: str) -> str:
        return await self._write(lambda db: queries.read_namespace(db, proposed))

    async def intend(self, order: Order) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            queries.add_order(db, order)
            return _require_order(db, order.ref)

        return await self._write(operation)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        return await self._write(lambda db: queries.read_turn(db, service, account, pacing, now))

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        ref, now = permission.ref, permission.now

        def operation(db: sqlite3.Connection) -> Attempt | Order | Turn:
            order = _read_as_of(db, ref, now)
            if not permission.matches(order):
                return order
            available = queries.read_turn(db, ref.service, ref.account, permission.pacing, now)
            if not available.free:
                return available
            attempt = permission.make_attempt()
            queries.add_attempt(db, ref, attempt)
            return attempt

        return await self._write(operation)

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            order = _require_order(db, ref)
            return queries.add_evidence(db, order, order.with_evidence(n, evidence))

        return await self._write(operation)

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            order = _require_order(db, ref)
            if queries.is_claimed(db, ref, str(evidence.task_id)):
                return order
            return queries.add_evidence(db, order, order.with_evidence(n, evidence))

        return await self._write(operation)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            order = _read_as_of(db, ref, closing.at)
            if order.state not in states:
                return order
            queries.add_closing(db, ref, closing)
            return evolve(order, closing=closing)

        return await self._write(operation)

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        def operation(db: sqlite3.Connection) -> Order:
            task_id = attempt.evidence.task_id if attempt.evidence else None
            if task_id is not None and (owner := queries.read_owner(db, ref, task_id)) is not None:
                return _require_order(db, owner)
            order = _read_as_of(db, ref, attempt.sent_at)
            if order.state not in states:
                return order
            empty = evolve(attempt, n=len(order.attempts) + 1, evidence=None)
            queries.add_attempt(db, ref, empty)
            before, after = order.with_attempt(empty), order.with_attempt(evolve(attempt, n=empty.n))
            return queries.add_evidence(db, before, after)

        return await self._write(operation)

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        return await self._read(lambda db: queries.read_owner(db, ref, task_id))

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        await self._write(lambda db: queries.add_results(db, service, results))

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        def read(db: sqlite3.Connection) -> list[Order]:
            order = queries.read_order(db, ref)
            return [] if order is None else [order]

        found = await self._run(lambda db: _read_all_as_of(db, read, now))
        return found[0] if found else None

    async def list(
        self,
        service: str,
        account: str,
        now: datetime,
        *,
        states: Collection[OrderState] | None = None,
        is_terminal: bool | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[Order]:
        accepted_states = None if states is None else frozenset(states)
        which = queries.OrderFilter(
            service=service,
            account=account,
            states=accepted_states,
            is_terminal=is_terminal,
            since=since,
            newest_first=newest_first,
        )

        def page(db: sqlite3.Connection) -> tuple[list[Order], int | None]:
            size = _LIST_PAGE if limit is None else min(_LIST_PAGE, limit - len(listed))
            find = partial(queries.find_orders, which=which, after=row, size=size, scanned=_SCANNED)
            rows, end = _in_transaction("DEFERRED", find, db)
            read = partial(queries.read_orders, service=service, account=account, rows=rows)
            orders = _read_all_as_of(db, read, now)
            return orders[::-1] if newest_first else orders, end

        listed: list[Order] = []
        row = None if after is None else await self._find_row(service, account, after)
        closings = self._closings
        while limit is None or len(listed) < limit:
            if closings != self._closings:
                problem = "it was closed while its orders were being listed"
                raise self._file.make_error(problem)
            orders, row = await self._run(page)
            listed += [order for order in orders if is_listed(order, accepted_states, is_terminal)]
            if row is None:
                break
        return listed

    async def _find_row(self, service: str, account: str, order_id: str) -> int:
        ref = OrderRef(service=service, account=account, order_id=order_id)
        row = await self._read(partial(queries.find_row, ref=ref))
        if row is None:
            raise unknown_order_error(ref)
        return row

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        def operation(db: sqlite3.Connection) -> RunningPage:
            until = queries.find_end_of_page(db, "evidence", after, RUNNING_PAGE)
            return RunningPage(tasks=queries.read_running(db, service, account, after, until), after=until)

        return await self._read(operation)

    async def backup(self, path: str | os.PathLike[str]) -> Path:
        """Write a consistent copy of the journal to another file. All processes can use the journal meanwhile.

        Use this to copy a journal that is in use: a copy of the file itself may contain half of a transaction. If the
        call is cancelled, ``path`` has the old file or the complete copy.

        Args:
            path: The file to write; an existing file is replaced atomically.

        Returns:
            The absolute path of the copy.

        Raises:
            JournalError: The copy cannot be written, or ``path`` is the journal itself; ``path`` is unchanged.
        """
        return await self._read(lambda db: self._file.write_backup(db, Path(path).absolute()))

    async def aclose(self) -> None:
        """Wait for the operations so far, then close the file and end the thread.

        It can be called several times. An operation after that opens the file again.
        """
        self._closings += 1
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.process == os.getpid():
            await thread.aclose()

    async def _read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(partial(_in_transaction, "DEFERRED", operation))

    async def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(partial(_in_transaction, "IMMEDIATE", operation))

    async def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out the operation. If the caller is cancelled, it is carried out completely or not at all."""
        if self._thread is not None and self._thread.process != os.getpid():
            problem = "it was used before this process was forked; make a new client with a new journal after the fork"
            raise self._file.make_error(problem)
        with self._lock:  # so that aclose cannot end the thread between these lines
            if self._thread is None:
                self._thread = ConnectionThread(self._file)
            future = self._thread.submit(operation)
        return await asyncio.wrap_future(future)


def _in_transaction(kind: str, operation: Callable[[sqlite3.Connection], T], db: sqlite3.Connection) -> T:
    with transaction(db, kind):
        return operation(db)


def _require_order(db: sqlite3.Connection, ref: OrderRef) -> Order:
    order = queries.read_order(db, ref)
    if order is None:
        raise unknown_order_error(ref)
    return order


def _read_as_of(db: sqlite3.Connection, ref: OrderRef, now: datetime) -> Order:
    order = _require_order(db, ref)
    return queries.add_evidence(db, order, order.as_of(now))


def _read_all_as_of(
    db: sqlite3.Connection, read: Callable[[sqlite3.Connection], list[Order]], now: datetime
) -> list[Order]:
    """Return the orders as of ``now``. The transaction writes only if a deadline has passed."""
    orders = _in_transaction("DEFERRED", read, db)
    if all(order.as_of(now) is order for order in orders):
        return orders
    with transaction(db, "IMMEDIATE"):
        return [queries.add_evidence(db, order, order.as_of(now)) for order in read(db)]

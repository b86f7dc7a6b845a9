"""The operations of a journal in an SQL database, whichever database it is."""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar

from attrs import evolve

from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal.base import (
    RUNNING_PAGE,
    MustWait,
    OrderChanged,
    OverBudget,
    RunningPage,
    check_attempt,
    is_in_shard,
    is_listed,
    report_shared_task,
    unknown_order_error,
)
from vidgen_async.journal.sql import queries
from vidgen_async.journal.sql.queries import Database
from vidgen_async.types.limits import LimitState, Pacing, SpendingLimit, Turn
from vidgen_async.types.orders import (
    Attempt,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    OrderSummary,
    Permission,
    Shard,
    Spend,
    TaskResult,
)

D = TypeVar("D")
T = TypeVar("T")
_Page: TypeAlias = tuple[Sequence[Order], int | None]
"""Orders, and the last id of their page; None if it is the last page."""

#: Number of orders that are read in one transaction.
LIST_PAGE = 250
#: Number of orders whose costs are added up in one transaction.
SPEND_PAGE = 5000


class SenderLock(Protocol):
    """By which other processes know whether the sender of an attempt has ended."""

    @property
    def process(self) -> int:
        """The process that holds it."""
        ...

    def close(self) -> None:
        """Release it. It can be called several times."""
        ...


class SqlJournal(ABC, Generic[D]):
    """Orders in an SQL database, which the first operation opens: each operation is one transaction.

    A subclass executes the transactions in threads of an open database ``D``. If the caller is cancelled, it executes
    them completely or not at all.
    """

    durable = True
    name = ""  # so that repr() works if __init__ failed
    """The path of the file, or the database as a URL without password."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._database: D | None = None
        self._process = os.getpid()
        self._times_closed = 0
        """Number of calls of :meth:`aclose`."""
        self._sender_lock: SenderLock | None = None
        """Of this process. It outlives :meth:`aclose`: another client may still use the journal."""
        self._begins = 0
        """Number of calls of :meth:`begin` under way."""
        self._without_outcome: set[tuple[OrderRef, int]] = set()
        """The attempts that were begun by this journal and have no outcome yet: they need the lock."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def _open(self) -> D:
        """Start the threads that execute transactions."""

    @abstractmethod
    def _make_sender_lock(self) -> SenderLock | None:
        """Return the lock of the attempts of this process; None if its end cannot be detected."""

    async def _prepare_begin(self) -> None:
        """Called before the transaction of each attempt."""

    @abstractmethod
    async def _close(self, database: D) -> None:
        """Complete what was submitted and release all resources, even if the caller is cancelled."""

    @abstractmethod
    async def _read(self, operation: Callable[[Database], T]) -> T:
        """Return the result of an operation that reads a consistent state. The operation may be called more than
        once, because a transaction may be repeated."""

    @abstractmethod
    async def _write(self, operation: Callable[[Database], T], *locked: str) -> T:
        """Return the result of an operation that may write, and commit what it wrote. The operation may be called
        more than once, because a transaction may be repeated; only what its last call wrote is committed.

        Meanwhile nobody else writes to what is locked: nothing, all orders of a service, or those of a service and an
        account.
        """

    @abstractmethod
    async def check(self) -> None:
        """As ``Journal.check``."""

    def _has_no_right(self, error: JournalError) -> bool:
        """Return whether nothing was written because the user of the database may only read."""
        return False

    async def aclose(self) -> None:
        """Wait for the operations so far, then release all resources, even if the caller is cancelled.

        It can be called several times. An operation after that opens the database again.
        """
        self._times_closed += 1
        if self._is_used_by_parent():
            return
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            try:
                await self._close(database)
            finally:
                self._release_sender_lock()

    def _release_sender_lock(self) -> None:
        """Release the lock if the journal is closed, unless an attempt depends on it."""
        with self._lock:  # so that no attempt begins meanwhile
            is_used = self._database is not None or self._begins or self._without_outcome
            if self._sender_lock is not None and not is_used:
                self._sender_lock.close()

    async def _submit(self, submit: Callable[[D], Future[T]]) -> T:
        """Return the result of what is submitted to the threads of the database, which is opened if it is closed."""
        self._check_process()
        with self._lock:  # so that aclose cannot end the threads between these lines
            if self._database is None:
                self._process = os.getpid()  # first, because it is read without the lock
                if self._sender_lock is None or self._sender_lock.process != self._process:
                    self._sender_lock = self._make_sender_lock()
                    self._without_outcome.clear()  # those of the parent of this process
                self._database = self._open()
            future = submit(self._database)
        return await asyncio.wrap_future(future)

    def _check_process(self) -> None:
        if self._is_used_by_parent():
            message = (
                f"the journal {self.name} could not be used: it was used before this process was forked; make a new "
                "client with a new journal after the fork. Nothing was written."
            )
            raise JournalError(message)

    def _is_used_by_parent(self) -> bool:
        """Return whether this is a forked child of the process that uses the journal: it must not wait for the lock,
        which another thread of the parent may have held."""
        return self._database is not None and self._process != os.getpid()

    async def namespace(self, proposed: str) -> str:
        return await self._write(lambda db: queries.read_namespace(db, proposed))

    async def intend(self, order: Order) -> Order:
        def operation(db: Database) -> Order:
            return queries.add_order(db, db.adjust(order)) or _require_order(db, order.ref)

        return await self._write(operation, order.ref.service, order.ref.account)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        def operation(db: Database) -> Turn:
            return queries.read_turn(db, service, account, pacing, db.adjust(now))

        return await self._write(operation, service, account)

    async def begin(self, permission: Permission) -> Attempt:
        self._check_process()
        with self._lock:
            self._begins += 1
        try:
            async with self._closed_again():
                await self._prepare_begin()
                attempt = await self._begin(permission)
                self._without_outcome.add((permission.ref, attempt.n))
                return attempt
        finally:
            with self._lock:
                self._begins -= 1
            self._release_sender_lock()

    async def _begin(self, permission: Permission) -> Attempt:
        ref = permission.ref

        def operation(db: Database) -> Attempt | Order | Turn | LimitState:
            adjusted = db.adjust(permission)
            order = _read_as_of(db, ref, adjusted.now)
            if not adjusted.matches(order):
                return order
            if adjusted.pacing is not None:
                turn = queries.read_turn(db, ref.service, ref.account, adjusted.pacing, adjusted.now)
                if not turn.free:
                    return turn
            for limit in adjusted.limits:
                state = queries.read_limit(db, ref.service, ref.account, limit, adjusted.reserved, adjusted.now)
                if not state.is_allowed:
                    return state
            attempt = adjusted.make_attempt()
            queries.add_attempt(db, ref, attempt)
            db.add_session(ref, attempt.n)
            queries.store_stage(db, order.with_attempt(attempt))
            return attempt

        begun = await self._write(operation, ref.service, ref.account)
        # After the commit, which also records that a deadline has passed: an exception in it would undo that.
        if isinstance(begun, Order):
            raise OrderChanged(begun)
        if isinstance(begun, Turn):
            raise MustWait(begun)
        if isinstance(begun, LimitState):
            raise OverBudget(begun)
        return begun

    async def spending(
        self, service: str, account: str, limits: Iterable[SpendingLimit], reserved: int | None, now: datetime
    ) -> Sequence[LimitState]:
        def operation(db: Database) -> Sequence[LimitState]:
            at = db.adjust(now)
            return [queries.read_limit(db, service, account, limit, reserved, at) for limit in limits]

        return await self._read(operation)

    async def spend(self, service: str, account: str, since: datetime | None) -> AsyncIterator[Spend]:
        after: int | None = 0
        async with self._closed_again():
            while after is not None:
                at = after

                def operation(db: Database, at: int = at) -> tuple[list[Spend], int | None]:
                    return queries.read_spend(db, service, account, db.adjust(since), at, SPEND_PAGE)

                found, after = await self._read(operation)
                for each in found:
                    yield each

    async def summaries(
        self, service: str, account: str, order_ids: Sequence[str], now: datetime
    ) -> Sequence[OrderSummary]:
        found: list[OrderSummary] = []
        async with self._closed_again():
            for first in range(0, len(order_ids), LIST_PAGE):

                def read(db: Database, first: int = first) -> _Page:
                    return queries.read_brief_orders(db, service, account, order_ids[first : first + LIST_PAGE]), None

                orders, _ = await self._read_page_as_of(read, now, service, account)
                found += map(OrderSummary.of, orders)
        return found

    async def verify_spending(self, service: str, account: str) -> None:
        await self._write(lambda db: queries.verify_spending(db, service, account), service, account)

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: Database) -> tuple[Order, OrderRef | None]:
            if evidence.task_id is None:
                return _add_evidence(db, _require_order(db, ref), n, evidence), None
            db.lock_task(ref.service, evidence.task_id)
            read_owner = queries.find_owner(db, ref, evidence.task_id)
            order = queries.read_order(db, ref)
            owner = read_owner()
            if order is None:
                raise unknown_order_error(ref)
            return _add_evidence(db, order, n, evidence), owner

        order, owner = await self._write(operation, ref.service, ref.account)
        report_shared_task(ref, evidence, owner)
        self._without_outcome.discard((ref, n))
        self._release_sender_lock()
        return order

    async def settle_mark(self, ref: OrderRef, mark: str, evidence: Evidence) -> Order | None:
        def operation(db: Database) -> Order | None:
            order = queries.read_order(db, ref)
            if order is None or (attempt := order.find(mark)) is None:
                return order
            return queries.add_evidence(db, order, order.with_evidence(attempt.n, db.adjust(evidence)))

        return await self._write(operation, ref.service, ref.account)

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        def operation(db: Database) -> Order:
            order = _require_order(db, ref)
            if queries.is_claimed(db, ref, str(evidence.task_id)):
                return order
            return _add_evidence(db, order, n, evidence)

        return await self._write(operation, ref.service)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        def operation(db: Database) -> Order:
            adjusted = db.adjust(closing)
            order = _read_as_of(db, ref, adjusted.at)
            if order.state not in states:
                return order
            queries.add_closing(db, ref, adjusted)
            order = evolve(order, closing=adjusted)
            queries.store_stage(db, order)
            return order

        return await self._write(operation, ref.service, ref.account)

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        def operation(db: Database) -> Order:
            task_id = attempt.evidence.task_id if attempt.evidence else None
            if task_id is not None and (owner := queries.read_owner(db, ref, task_id)) is not None:
                return _require_order(db, owner)
            adjusted = db.adjust(attempt)
            order = _read_as_of(db, ref, adjusted.sent_at)
            if order.state not in states:
                return order
            empty = evolve(adjusted, n=len(order.attempts) + 1, evidence=None)
            queries.add_attempt(db, ref, empty)
            before, after = order.with_attempt(empty), order.with_attempt(evolve(adjusted, n=empty.n))
            return queries.add_evidence(db, before, after)

        return await self._write(operation, ref.service)

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        return await self._read(lambda db: queries.read_owner(db, ref, task_id))

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        batch = list(results)

        def operation(db: Database) -> None:
            queries.add_results(db, service, [db.adjust(result) for result in batch])

        # A receipt of the task, of any account, that is being stored meanwhile counts for the stage of its order.
        await self._write(operation, service)

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        def read(db: Database) -> _Page:
            order = queries.read_order(db, ref)
            return [] if order is None else [order], None

        async with self._closed_again():
            orders, _ = await self._read_page_as_of(read, now, ref.service, ref.account)
        return orders[0] if orders else None

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
        which = queries.OrderFilter(
            service=service,
            account=account,
            states=states,
            is_terminal=is_terminal,
            since=since,
            newest_first=newest_first,
        )

        def read(db: Database) -> _Page:
            size = LIST_PAGE if limit is None else min(LIST_PAGE, limit - len(listed))
            rows = queries.find_orders(db, db.adjust(which), row, size)
            return queries.read_orders(db, service, account, rows), rows[-1] if len(rows) == size else None

        listed: list[Order] = []
        async with self._closed_again():
            row = None if after is None else await self._find_row(service, account, after)
            while limit is None or len(listed) < limit:
                orders, row = await self._read_page_as_of(read, now, service, account)
                orders = orders[::-1] if newest_first else orders
                listed += [order for order in orders if is_listed(order, states, is_terminal)]
                if row is None:
                    break
        return listed

    @asynccontextmanager
    async def _closed_again(self) -> AsyncIterator[None]:
        """Close the journal after several transactions during which it was closed: the later ones have opened it again,
        and other clients can do so too."""
        times_closed = self._times_closed
        try:
            yield
        finally:
            if times_closed != self._times_closed:
                await self.aclose()

    async def _find_row(self, service: str, account: str, order_id: str) -> int:
        ref = OrderRef(service=service, account=account, order_id=order_id)
        row = await self._read(lambda db: queries.find_row(db, ref))
        if row is None:
            raise unknown_order_error(ref)
        return row

    async def accounts(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return the first accounts that have orders, as services and accounts."""
        return await self._read(lambda db: queries.read_accounts(db, limit))

    async def running(self, service: str, account: str, *, after: int = 0, shard: Shard | None = None) -> RunningPage:
        def operation(db: Database) -> RunningPage:
            until = queries.find_end_of_page(db, service, account, after, RUNNING_PAGE)
            tasks = queries.read_running(db, service, account, after, until)
            return RunningPage(tasks=[task for task in tasks if is_in_shard(task.task_id, shard)], after=until)

        return await self._read(operation)

    async def _read_page_as_of(self, read: Callable[[Database], _Page], now: datetime, *locked: str) -> _Page:
        """Return the orders as of ``now``. What has changed since a deadline passed or a sender ended is recorded, if
        the user of the database may write."""

        def read_as_of(db: Database) -> tuple[_Page, list[tuple[Order, Order]]]:
            orders, until = read(db)
            updated = _as_of(db, orders, db.adjust(now))
            pairs = zip(orders, updated, strict=True)
            return (updated, until), [(before, after) for before, after in pairs if after is not before]

        def write(db: Database) -> _Page:
            page, changes = read_as_of(db)
            for before, after in changes:
                queries.add_evidence(db, before, after)
            return page

        page, changes = await self._read(read_as_of)
        try:
            return await self._write(write, *locked) if changes else page
        except JournalError as error:
            if not self._has_no_right(error):
                raise
            return page


def check_seconds(name: str, value: object, *, shortest: float) -> None:
    """Raise ConfigurationError if the argument is no number of seconds from ``shortest`` to a day."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not shortest <= value <= 86400:
        message = f"{name} must be {shortest:g} to 86400 seconds: {value!r}"
        raise ConfigurationError(message)


def _require_order(db: Database, ref: OrderRef) -> Order:
    order = queries.read_order(db, ref)
    if order is None:
        raise unknown_order_error(ref)
    return order


def _add_evidence(db: Database, order: Order, n: int, evidence: Evidence) -> Order:
    check_attempt(order, n)
    return queries.add_evidence(db, order, order.with_evidence(n, db.adjust(evidence)))


def _read_as_of(db: Database, ref: OrderRef, now: datetime) -> Order:
    order = _require_order(db, ref)
    (updated,) = _as_of(db, [order], now)
    return queries.add_evidence(db, order, updated)


def _as_of(db: Database, orders: Sequence[Order], now: datetime) -> Sequence[Order]:
    """Return these orders of one account as they are at ``now``, unchanged ones as the same objects."""
    sending = [order for order in orders if order.sending_until is not None]
    if not sending:
        return orders
    ref = sending[0].ref
    ended = db.find_orphaned(ref.service, ref.account, [order.order_id for order in sending])
    return [order.as_of(now, [n for order_id, n in ended if order_id == order.order_id]) for order in orders]

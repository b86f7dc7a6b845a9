"""A journal in memory, for the coroutines of one process; it is lost when the process ends."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

from attrs import evolve

from vidgen_async.journal.base import (
    RUNNING_PAGE,
    RunningPage,
    unknown_order_error,
)
from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn, compute_turn, make_hold
from vidgen_async.types.orders import (
    Attempt,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    Permission,
    RunningTask,
    TaskResult,
)

#: Number of orders that a list reads before other tasks run.
_LIST_BATCH = 500


class MemoryJournal:
    """Orders in memory, the default of a client. Several clients of one event loop may share one."""

    durable = False

    def __init__(self) -> None:
        self._orders: dict[OrderRef, Order] = {}
        self._namespace: str | None = None
        #: The orders of each task, by service and task id. Entries are never removed.
        self._owners: dict[tuple[str, str], list[OrderRef]] = {}
        #: The orders of each candidate for a task id, by service, account and candidate. Entries are never removed.
        self._candidates: dict[tuple[str, str, str], set[OrderRef]] = {}
        self._results: dict[tuple[str, str], TaskResult] = {}
        #: The attempts that may hold a slot, by service and account.
        self._counts: dict[tuple[str, str], _CountTable] = {}

    async def namespace(self, proposed: str) -> str:
        if self._namespace is None:
            self._namespace = proposed
        return self._namespace

    async def intend(self, order: Order) -> Order:
        return self._orders.setdefault(order.ref, order)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        return self._compute_turn((service, account), pacing, now)

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        ref, now = permission.ref, permission.now
        order = self._read(ref, now)
        if not permission.matches(order):
            return order
        available = self._compute_turn((ref.service, ref.account), permission.pacing, now)
        if not available.free:
            return available
        attempt = permission.make_attempt()
        self._orders[ref] = order.with_attempt(attempt)
        self._count(ref, attempt)
        return attempt

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        before = self._require(ref)
        order = self._store(before.with_evidence(n, evidence))
        for old, new in zip(before.attempts, order.attempts, strict=True):
            if new is not old:
                self._count(ref, new)
                for candidate in new.evidence.candidates if new.evidence else ():
                    self._candidates.setdefault((ref.service, ref.account, candidate), set()).add(ref)
        return order

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        task_id = str(evidence.task_id)
        others = self._candidates.get((ref.service, ref.account, task_id), set()) - {ref}
        if others or await self.owner(ref, task_id) is not None:
            return self._require(ref)
        return await self.settle(ref, n, evidence)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        order = self._read(ref, closing.at)
        if order.state in states:
            order = self._orders[ref] = evolve(order, closing=closing)
        return order

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        task_id = attempt.evidence.task_id if attempt.evidence else None
        if task_id is not None and (owner := await self.owner(ref, task_id)) is not None:
            return self._orders[owner]
        order = self._read(ref, attempt.sent_at)
        if order.state in states:
            order = self._store(order.with_attempt(evolve(attempt, n=len(order.attempts) + 1)))
        return order

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        return next((owner for owner in self._owners.get((ref.service, task_id), ()) if owner != ref), None)

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        for result in results:
            task = (service, result.task_id)
            if task in self._owners and task not in self._results:
                self._results[task] = result
                for ref in self._owners[task]:
                    self._store(self._orders[ref])

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        return self._read(ref, now) if ref in self._orders else None

    async def list(self, service: str, account: str, now: datetime, *, is_terminal: bool | None = None) -> list[Order]:
        listed: list[Order] = []
        for number, ref in enumerate(list(self._orders), 1):
            if (ref.service, ref.account) == (service, account):
                order = self._read(ref, now)
                if is_terminal is None or (order.task_ids and order.is_terminal is is_terminal):
                    listed.append(order)
            if number % _LIST_BATCH == 0:
                await asyncio.sleep(0)
        return listed

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        page = list(islice(self._owners.items(), after, after + RUNNING_PAGE))
        tasks = [
            _make_running_task(self._orders[ref], task[1])
            for task, refs in page
            if task[0] == service and task not in self._results
            for ref in refs
            if ref.account == account
        ]
        return RunningPage(tasks=tasks, after=after + len(page) if len(page) == RUNNING_PAGE else None)

    async def aclose(self) -> None:
        """Do nothing: the orders remain readable."""

    def _require(self, ref: OrderRef) -> Order:
        try:
            return self._orders[ref]
        except KeyError:
            raise unknown_order_error(ref) from None

    def _read(self, ref: OrderRef, now: datetime) -> Order:
        order = self._orders[ref] = self._require(ref).as_of(now)
        return order

    def _store(self, order: Order) -> Order:
        """Store an order whose receipts, or the results of whose tasks, may have changed."""
        tasks = [(order.ref.service, task_id) for task_id in order.task_ids]
        for task in tasks:
            owners = self._owners.setdefault(task, [])
            if order.ref not in owners:
                owners.append(order.ref)
        order = evolve(order, results=tuple(self._results[task] for task in tasks if task in self._results))
        self._orders[order.ref] = order
        return order

    def _count(self, ref: OrderRef, attempt: Attempt) -> None:
        counts = self._counts.setdefault((ref.service, ref.account), _CountTable())
        counts.set((ref, attempt.n), attempt.counted_at)

    def _compute_turn(self, account: tuple[str, str], pacing: Pacing, now: datetime) -> Turn:
        """Compute the turn. Single attempts are read only if no slot is free."""
        counts = self._counts.setdefault(account, _CountTable())
        used = counts.count_after(now - timedelta(seconds=pacing.window) - SLOT_MARGIN)
        if used < pacing.limit:
            return Turn(pacing.limit - used, 0.0)
        holds = []
        for (ref, n), counted_at in counts.items():
            attempt = self._orders[ref].attempts[n - 1]
            corrected = attempt.correct_counted_at(counted_at, now)
            if corrected != counted_at:
                counts.set((ref, n), corrected)
            holds.append(make_hold(corrected, pacing, now, is_open=attempt.evidence is None))
        return compute_turn(holds, pacing, now)


def _make_running_task(order: Order, task_id: str) -> RunningTask:
    receipts = [attempt.evidence for attempt in order.attempts if attempt.evidence is not None]
    accepted_at = min(evidence.at for evidence in receipts if evidence.task_id == task_id)
    return RunningTask(task_id=task_id, order_id=order.order_id, accepted_at=accepted_at)


_AttemptKey: TypeAlias = tuple[OrderRef, int]


class _CountTable:
    """The latest times at which the service can have counted the attempts that may hold a slot."""

    def __init__(self) -> None:
        self._counted_at: dict[_AttemptKey, datetime] = {}
        self._times: list[datetime] = []
        """The same times, sorted."""

    def set(self, key: _AttemptKey, counted_at: datetime | None) -> None:
        """Set the time of an attempt; None if it holds no slot."""
        previous = self._counted_at.pop(key, None)
        if previous is not None:
            del self._times[bisect_left(self._times, previous)]
        if counted_at is not None:
            self._counted_at[key] = counted_at
            insort(self._times, counted_at)

    def count_after(self, since: datetime) -> int:
        """Return the number of attempts that were counted after ``since``. Old ones are removed from time to time."""
        past = bisect_right(self._times, since)
        if past > len(self._times) // 2 + 100:
            self._counted_at = {key: counted_at for key, counted_at in self._counted_at.items() if counted_at > since}
            self._times = self._times[past:]
            past = 0
        return len(self._times) - past

    def items(self) -> list[tuple[_AttemptKey, datetime]]:
        return list(self._counted_at.items())

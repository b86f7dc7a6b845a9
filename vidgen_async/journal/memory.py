"""A journal in memory: it keeps its promises between the coroutines of one process, and dies with it."""

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
    unknown_order,
)
from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn, hold_of, turn
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

#: Of very many orders, so many are looked at before others have their turn.
_LISTED_AT_ONCE = 500


class MemoryJournal:
    """The default of a bare client. Several clients of one event loop may share one."""

    durable = False

    def __init__(self) -> None:
        self._orders: dict[OrderRef, Order] = {}
        self._namespace: str | None = None
        #: The orders of each task, by service and task id; none ever leaves it.
        self._owners: dict[tuple[str, str], list[OrderRef]] = {}
        #: The orders of each candidate for a task id, by service, account and candidate; none ever leaves it.
        self._candidates: dict[tuple[str, str, str], set[OrderRef]] = {}
        self._results: dict[tuple[str, str], TaskResult] = {}
        #: Per account, the attempts that may still hold a slot.
        self._counted: dict[tuple[str, str], _Counts] = {}

    async def namespace(self, proposed: str) -> str:
        if self._namespace is None:
            self._namespace = proposed
        return self._namespace

    async def intend(self, order: Order) -> Order:
        return self._orders.setdefault(order.ref, order)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        return self._turn((service, account), pacing, now)

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        ref, now = permission.ref, permission.now
        order = self._current(ref, now)
        if not permission.suits(order):
            return order
        available = self._turn((ref.service, ref.account), permission.pacing, now)
        if not available.free:
            return available
        attempt = permission.attempt()
        self._orders[ref] = order.with_attempt(attempt)
        self._count(ref, attempt)
        return attempt

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        before = self._known(ref)
        order = self._kept(before.learned(n, evidence))
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
            return self._known(ref)
        return await self.settle(ref, n, evidence)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        order = self._current(ref, closing.at)
        if order.state in states:
            order = self._orders[ref] = evolve(order, closing=closing)
        return order

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        task_id = attempt.evidence.task_id if attempt.evidence else None
        if task_id is not None and (owner := await self.owner(ref, task_id)) is not None:
            return self._orders[owner]
        order = self._current(ref, attempt.sent_at)
        if order.state in states:
            order = self._kept(order.with_attempt(evolve(attempt, n=len(order.attempts) + 1)))
        return order

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        return next((owner for owner in self._owners.get((ref.service, task_id), ()) if owner != ref), None)

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        for result in results:
            task = (service, result.task_id)
            if task in self._owners and task not in self._results:
                self._results[task] = result
                for ref in self._owners[task]:
                    self._kept(self._orders[ref])

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        return self._current(ref, now) if ref in self._orders else None

    async def list(self, service: str, account: str, now: datetime, *, is_terminal: bool | None = None) -> list[Order]:
        listed: list[Order] = []
        for number, ref in enumerate(list(self._orders), 1):
            if (ref.service, ref.account) == (service, account):
                order = self._current(ref, now)
                if is_terminal is None or (order.task_ids and order.is_terminal is is_terminal):
                    listed.append(order)
            if number % _LISTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return listed

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        page = list(islice(self._owners.items(), after, after + RUNNING_PAGE))
        tasks = [
            _running(self._orders[ref], task[1])
            for task, refs in page
            if task[0] == service and task not in self._results
            for ref in refs
            if ref.account == account
        ]
        return RunningPage(tasks=tasks, after=after + len(page) if len(page) == RUNNING_PAGE else None)

    async def aclose(self) -> None:
        """Nothing to release; what is written stays readable."""

    def _known(self, ref: OrderRef) -> Order:
        try:
            return self._orders[ref]
        except KeyError:
            raise unknown_order(ref) from None

    def _current(self, ref: OrderRef, now: datetime) -> Order:
        order = self._orders[ref] = self._known(ref).expired(now)
        return order

    def _kept(self, order: Order) -> Order:
        """Keep an order whose receipts, or what is known of their tasks, may have changed."""
        tasks = [(order.ref.service, task_id) for task_id in order.task_ids]
        for task in tasks:
            owners = self._owners.setdefault(task, [])
            if order.ref not in owners:
                owners.append(order.ref)
        order = evolve(order, results=tuple(self._results[task] for task in tasks if task in self._results))
        self._orders[order.ref] = order
        return order

    def _count(self, ref: OrderRef, attempt: Attempt) -> None:
        counts = self._counted.setdefault((ref.service, ref.account), _Counts())
        counts.put((ref, attempt.n), attempt.counted_at)

    def _turn(self, account: tuple[str, str], pacing: Pacing, now: datetime) -> Turn:
        """Looks at single attempts only when so many hold a slot that none is free."""
        counts = self._counted.setdefault(account, _Counts())
        held = counts.later_than(now - timedelta(seconds=pacing.window) - SLOT_MARGIN)
        if held < pacing.limit:
            return Turn(pacing.limit - held, 0.0)
        holds = []
        for (ref, n), counted in counts.items():
            attempt = self._orders[ref].attempts[n - 1]
            anew = attempt.correct_count(counted, now)
            if anew != counted:
                counts.put((ref, n), anew)
            holds.append(hold_of(anew, pacing, now, is_open=attempt.evidence is None))
        return turn(holds, pacing, now)


def _running(order: Order, task_id: str) -> RunningTask:
    receipts = [attempt.evidence for attempt in order.attempts if attempt.evidence is not None]
    accepted_at = min(evidence.at for evidence in receipts if evidence.task_id == task_id)
    return RunningTask(task_id=task_id, order_id=order.order_id, accepted_at=accepted_at)


_AttemptKey: TypeAlias = tuple[OrderRef, int]


class _Counts:
    """By when the service has counted each attempt that may still hold a slot."""

    def __init__(self) -> None:
        self._counted: dict[_AttemptKey, datetime] = {}
        self._moments: list[datetime] = []
        """The same moments, in order."""

    def put(self, key: _AttemptKey, counted: datetime | None) -> None:
        """None: it holds none."""
        before = self._counted.pop(key, None)
        if before is not None:
            del self._moments[bisect_left(self._moments, before)]
        if counted is not None:
            self._counted[key] = counted
            insort(self._moments, counted)

    def later_than(self, since: datetime) -> int:
        """How many were counted later; now and then the others are forgotten."""
        past = bisect_right(self._moments, since)
        if past > len(self._moments) // 2 + 100:
            self._counted = {key: counted for key, counted in self._counted.items() if counted > since}
            self._moments = self._moments[past:]
            past = 0
        return len(self._moments) - past

    def items(self) -> list[tuple[_AttemptKey, datetime]]:
        return list(self._counted.items())

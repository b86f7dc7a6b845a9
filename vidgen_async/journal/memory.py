"""A journal in memory, for the coroutines of one process; it is lost when the process ends."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter

from attrs import evolve

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
from vidgen_async.types.limits import (
    DAY,
    MINUTE,
    SLOT_MARGIN,
    LimitState,
    Pacing,
    Spending,
    SpendingLimit,
    Turn,
    compute_turn,
    make_hold,
)
from vidgen_async.types.orders import (
    SET_BACK,
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    OrderSummary,
    Permission,
    RunningTask,
    Shard,
    Spend,
    TaskResult,
)

#: Number of orders that a list reads before other tasks run.
_LIST_BATCH = 500
_NOTHING = Spending()
_OPEN = (AttemptOutcome.SENDING, AttemptOutcome.UNCERTAIN)


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
        #: When the service can have counted each attempt that was sent, at the latest.
        self._counted_at: dict[tuple[OrderRef, int], datetime] = {}
        #: The same times, sorted, with order id and number of the attempt, by service and account.
        self._times: defaultdict[tuple[str, str], list[tuple[datetime, str, int]]] = defaultdict(list)
        #: What each attempt counts for in a budget, and the sums by the beginning of each minute and day.
        self._costs: dict[tuple[OrderRef, int], Spending] = {}
        self._sums: defaultdict[tuple[str, str, int], dict[int, Spending]] = defaultdict(dict)
        #: The attempt whose receipt of a task was stored first, by service, account and task id.
        self._first_receipts: dict[tuple[str, str, str], tuple[OrderRef, int]] = {}
        #: What pauses the creates of an account, by service and account, as time of the 429 and end of the pause.
        self._pauses: dict[tuple[str, str], list[tuple[datetime, datetime]]] = {}

    async def check(self) -> None:
        """Do nothing: memory can always be used."""

    async def namespace(self, proposed: str) -> str:
        if self._namespace is None:
            self._namespace = proposed
        return self._namespace

    async def intend(self, order: Order) -> Order:
        return self._orders.setdefault(order.ref, order)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        return self._compute_turn(service, account, pacing, now)

    async def begin(self, permission: Permission) -> Attempt:
        ref, now = permission.ref, permission.now
        order = self._read(ref, now)
        if not permission.matches(order):
            raise OrderChanged(order)
        if permission.pacing is not None:
            turn = self._compute_turn(ref.service, ref.account, permission.pacing, now)
            if not turn.free:
                raise MustWait(turn)
        for limit in permission.limits:
            state = self._read_limit(ref.service, ref.account, limit, permission.reserved, now)
            if not state.is_allowed:
                raise OverBudget(state)
        attempt = permission.make_attempt()
        self._store(order.with_attempt(attempt))
        self._count(ref, attempt.n, attempt.counted_at)
        return attempt

    async def spending(
        self, service: str, account: str, limits: Iterable[SpendingLimit], reserved: int | None, now: datetime
    ) -> list[LimitState]:
        return [self._read_limit(service, account, limit, reserved, now) for limit in limits]

    async def spend(self, service: str, account: str, since: datetime | None) -> AsyncIterator[Spend]:
        for number, order in enumerate(list(self._orders.values()), 1):
            for attempt in order.attempts if (order.ref.service, order.ref.account) == (service, account) else ():
                cost = self._compute_cost(order, attempt)
                if cost is not None and (since is None or attempt.sent_at >= since):
                    yield _make_spend(order, attempt, cost)
            if number % _LIST_BATCH == 0:
                await asyncio.sleep(0)

    async def summaries(
        self, service: str, account: str, order_ids: Collection[str], now: datetime
    ) -> list[OrderSummary]:
        refs = (OrderRef(service=service, account=account, order_id=order_id) for order_id in order_ids)
        return [OrderSummary.of(self._read(ref, now)) for ref in refs if ref in self._orders]

    async def verify_spending(self, service: str, account: str) -> None:
        """Do nothing: nobody else writes the sums."""

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        before = self._require(ref)
        check_attempt(before, n)
        order = self._store(before.with_evidence(n, evidence))
        for old, new in zip(before.attempts, order.attempts, strict=True):
            if new is not old:
                self._count(ref, new.n, new.counted_at)
                self._pause(ref, new.evidence)
                for candidate in new.evidence.candidates if new.evidence else ():
                    self._candidates.setdefault((ref.service, ref.account, candidate), set()).add(ref)
        if evidence.task_id is not None:
            report_shared_task(ref, evidence, await self.owner(ref, evidence.task_id))
        return order

    async def settle_mark(self, ref: OrderRef, mark: str, evidence: Evidence) -> Order | None:
        order = self._orders.get(ref)
        if order is None or (attempt := order.find(mark)) is None:
            return order
        return await self.settle(ref, attempt.n, evidence)

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
        refs = list(reversed(self._orders) if newest_first else self._orders)
        if after is not None:
            last = self._require(OrderRef(service=service, account=account, order_id=after)).ref
            refs = refs[refs.index(last) + 1 :]
        listed: list[Order] = []
        for number, ref in enumerate(refs, 1):
            if len(listed) == limit:
                break
            if (ref.service, ref.account) == (service, account):
                order = self._read(ref, now)
                if (since is None or order.created_at >= since) and is_listed(order, states, is_terminal):
                    listed.append(order)
            if number % _LIST_BATCH == 0:
                await asyncio.sleep(0)
        return listed

    async def running(self, service: str, account: str, *, after: int = 0, shard: Shard | None = None) -> RunningPage:
        page = list(islice(self._owners.items(), after, after + RUNNING_PAGE))
        tasks = [
            _make_running_task(self._orders[ref], task[1])
            for task, refs in page
            if task[0] == service and task not in self._results and is_in_shard(task[1], shard)
            for ref in refs
            if ref.account == account
        ]
        return RunningPage(tasks=tasks, after=after + len(page) if len(page) == RUNNING_PAGE else None)

    async def aclose(self) -> None:
        """Do nothing: the orders remain readable."""

    def _require(self, ref: OrderRef) -> Order:
        if (order := self._orders.get(ref)) is None:
            raise unknown_order_error(ref)
        return order

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
        results = tuple(self._results[task] for task in tasks if task in self._results)
        if results != order.results:
            order = evolve(order, results=results)
        self._orders[order.ref] = order
        for attempt in order.attempts:
            self._book(order, attempt)
        return order

    def _book(self, order: Order, attempt: Attempt) -> None:
        """Add what the attempt counts for to the sums, in place of what it counted for before."""
        ref, name = order.ref, (order.ref, attempt.n)
        cost, before = self._compute_cost(order, attempt) or _NOTHING, self._costs.get(name, _NOTHING)
        if cost != before:
            change = cost - before
            self._costs[name] = cost
            at = int(attempt.sent_at.timestamp() // 1)
            for seconds in (MINUTE, DAY):
                sums = self._sums[ref.service, ref.account, seconds]
                start = at // seconds * seconds
                sums[start] = sums.get(start, _NOTHING) + change

    def _compute_cost(self, order: Order, attempt: Attempt) -> Spending | None:
        """Return what the attempt counts for; None if it does not, or its task counts for another one."""
        evidence, name = attempt.evidence, (order.ref, attempt.n)
        if evidence is not None and evidence.outcome is AttemptOutcome.ACCEPTED:
            task = order.ref.service, order.ref.account, str(evidence.task_id)
            if self._first_receipts.setdefault(task, name) != name:
                return None
        later = [each for each in order.attempts if each.n > attempt.n]
        if not later or attempt.outcome not in _OPEN:
            return attempt.compute_cost(order.results)
        # An adopted task that no send has as its receipt is that of the latest attempt without outcome.
        sent = {each.evidence.task_id for each in order.attempts if each.evidence and each.kind != "adopt"}
        adopted = {each.evidence.task_id for each in later if each.evidence and each.kind == "adopt"} - sent
        is_adopted = len(adopted) > sum(each.outcome in _OPEN for each in later)
        return None if is_adopted else attempt.compute_cost(order.results)

    def _read_limit(
        self, service: str, account: str, limit: SpendingLimit, reserved: int | None, now: datetime
    ) -> LimitState:
        def read_sums(seconds: int, since: int, until: int) -> list[tuple[int, Spending]]:
            sums = self._sums[service, account, seconds]
            starts = range(since, until, MINUTE) if seconds == MINUTE else sorted(sums)
            return [(start, sums[start]) for start in starts if since <= start < until and start in sums]

        minute, day = limit.begins_at(now)
        window = [*read_sums(MINUTE, minute, day), *read_sums(DAY, day, 2**62)]
        spending = sum((sums for _, sums in window), Spending())
        if limit.allows(spending, reserved):
            return LimitState(limit, spending, is_allowed=True)
        room_at = limit.find_room(spending, reserved, now, read_sums)
        return LimitState(limit, spending, is_allowed=False, room_at=room_at)

    def _count(self, ref: OrderRef, n: int, counted_at: datetime | None) -> None:
        """Set the latest time at which the service can have counted the attempt; None if it holds no slot."""
        times = self._times[ref.service, ref.account]
        previous = self._counted_at.pop((ref, n), None)
        if previous is not None:
            del times[bisect_left(times, (previous, ref.order_id, n))]
        if counted_at is not None:
            self._counted_at[ref, n] = counted_at
            insort(times, (counted_at, ref.order_id, n))

    def _pause(self, ref: OrderRef, evidence: Evidence | None) -> None:
        if evidence is not None and evidence.retry_at is not None:
            others = self._pauses.get((ref.service, ref.account), [])
            others = [(at, retry_at) for at, retry_at in others if retry_at > evidence.at]
            self._pauses[ref.service, ref.account] = [*others, (evidence.at, evidence.retry_at)]

    def _compute_turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        """Compute the turn. Single attempts are read only if no slot is free."""
        pauses = self._pauses.get((service, account), [])
        retry_at = max((retry_at for at, retry_at in pauses if at <= now + SET_BACK), default=None)
        since = now - timedelta(seconds=pacing.window) - SLOT_MARGIN
        times = self._times[service, account]
        first = bisect_right(times, since, key=itemgetter(0))
        used = len(times) - first
        if used < pacing.limit:
            turn = Turn(pacing.limit - used, 0.0)
            return turn if retry_at is None else turn.with_pause(retry_at, now)
        holds = []
        for stored_at, order_id, n in times[first:]:
            ref = OrderRef(service=service, account=account, order_id=order_id)
            attempt = self._orders[ref].attempts[n - 1]
            counted_at = attempt.correct_counted_at(stored_at, now)
            if counted_at != stored_at:
                self._count(ref, n, counted_at)
            holds.append(make_hold(counted_at, pacing, now, is_open=attempt.evidence is None))
        return compute_turn(holds, pacing, now).with_pause(retry_at, now)


def _make_spend(order: Order, attempt: Attempt, cost: Spending) -> Spend:
    task_id = attempt.evidence.task_id if attempt.evidence is not None else None
    ended = (result.status for result in order.results if result.task_id == task_id)
    return Spend(
        model=order.model,
        state=next(ended, str(attempt.outcome) if order.state is OrderState.ACCEPTED else order.state),
        start=attempt.sent_at - timedelta(seconds=attempt.sent_at.timestamp() % 900),
        attempts=1,
        tasks=int(attempt.outcome is AttemptOutcome.ACCEPTED),
        spending=cost,
    )


def _make_running_task(order: Order, task_id: str) -> RunningTask:
    receipts = [attempt.evidence for attempt in order.attempts if attempt.evidence is not None]
    accepted_at = min(evidence.at for evidence in receipts if evidence.task_id == task_id)
    return RunningTask(task_id=task_id, order_id=order.order_id, accepted_at=accepted_at)

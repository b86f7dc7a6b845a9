"""What an order may cost, whether the budgets allow that, and what it then costs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, tzinfo

from attrs import Factory, frozen

from vidgen_async.errors import BudgetExceededError
from vidgen_async.journal.base import SpendingJournal
from vidgen_async.orders.error_messages import facts
from vidgen_async.orders.results import Results
from vidgen_async.service.endpoints import read_request
from vidgen_async.types.budgets import Budget, BudgetState, SpendKey, SpendRow
from vidgen_async.types.limits import LimitState, Spending, SpendingLimit
from vidgen_async.types.orders import Order, OrderRef, OrderState, Spend
from vidgen_async.types.resources import CatalogModel
from vidgen_async.user_code import UserCode, describe

_MAY_BE_CHARGED = (OrderState.SENDING, OrderState.UNCERTAIN, OrderState.ABANDONED)


@frozen(eq=False)
class Budgets:
    """The budgets of a client, or of a view of it. All of them must allow a create."""

    budgets: tuple[Budget, ...]
    _journal: SpendingJournal
    """Used only if there are budgets: a client with another journal and a budget cannot be made."""
    _results: Results
    _find_model: Callable[[str], Awaitable[CatalogModel | None]]
    """Returns the entry of the live catalog; None if it has none, or cannot be fetched."""
    _verified: set[str] = Factory(set)
    """The accounts whose stored sums were compared with the attempts."""

    @property
    def limits(self) -> tuple[SpendingLimit, ...]:
        """The limits, as journals apply them."""
        return tuple(budget.limit for budget in self.budgets)

    async def prepare(self, service: str, account: str) -> None:
        """Compare the stored sums of the account with its attempts, once."""
        if self.budgets and account not in self._verified:
            await self._journal.verify_spending(service, account)
            self._verified.add(account)

    async def estimate(self, ref: OrderRef, body: bytes) -> int | None:
        """Return the points that a create may cost, or raise BudgetExceededError; None: it counts as unknown."""
        if not self.budgets:
            return None
        if self._results.excess:
            message = f"order {ref.order_id!r} was not sent: {self._results.excess}. Correct the price of the budget."
            raise BudgetExceededError(message, order_id=ref.order_id, limit=self.budgets[0].points)
        request = read_request(body)
        entry = await self._find_model(request.model)
        found = []
        for budget in self.budgets:
            points, problem = None, f"the catalog has no entry of model {request.model!r}, or cannot be fetched"
            if entry is not None:
                with UserCode(is_awaited=False) as call:
                    points = budget.estimate(entry, request)
                problem = f"its price is {budget.price!r}, which the catalog entry of {request.model!r} does not have"
                if callable(budget.price):
                    problem = "the price function does not know it"
                if call.error is not None:
                    problem = f"the price function raised {describe(call.error)}"
            if points is not None:
                found.append(points)
            elif budget.unknown is None:
                message = f"order {ref.order_id!r} was not sent: it is unknown what it may cost: {problem}."
                advice = "State the points of such creates with Budget(unknown=…), or correct the price."
                error = BudgetExceededError(message, order_id=ref.order_id, limit=budget.points, advice=advice)
                error.may_retry = entry is None  # type: ignore[misc]  # the catalog may be fetched later
                raise error
        return max(found, default=None)

    async def check(self, order: Order, reserved: int | None, now: datetime) -> None:
        """Raise BudgetExceededError unless all limits allow the create now."""
        if self.budgets:
            ref = order.ref
            await self.prepare(ref.service, ref.account)
            for state in await self._journal.spending(ref.service, ref.account, self.limits, reserved, now):
                if not state.is_allowed:
                    raise budget_exceeded(order, state, reserved)

    async def read(self, service: str, account: str, now: datetime) -> BudgetState | None:
        """Return the budget with the fewest free points, and what counts towards it; None without a budget."""
        if not self.budgets:
            return None
        await self.prepare(service, account)
        states = await self._journal.spending(service, account, self.limits, 1, now)
        return min(map(_budget_state, states), key=lambda state: -1 if state.free is None else state.free)


def budget_exceeded(order: Order, state: LimitState, reserved: int | None) -> BudgetExceededError:
    """Return the error of a create that a limit does not allow."""
    limit, spending = state.limit, state.spending
    asks = "it is unknown what it may cost" if reserved is None else f"it may cost {reserved} points"
    counted = f"{spending.spent} are spent and {spending.reserved} are reserved"
    if spending.unknown:
        counted += f", and the cost of {spending.unknown} creates is unknown"
    when = "" if state.room_at is None else f" There is room from {state.room_at:%Y-%m-%d %H:%M} UTC on."
    window = "" if limit.window is None else f" in {limit.window:g} s"
    budget = f"the budget of {limit.points} points{window}"
    message = f"order {order.order_id!r} was not sent: {asks}, and of {budget} {counted}.{when}"
    return BudgetExceededError(
        message,
        spent=spending.spent,
        reserved=spending.reserved,
        unknown=spending.unknown,
        asked=reserved,
        limit=limit.points,
        room_at=state.room_at,
        **facts(order),
    )


def _budget_state(state: LimitState) -> BudgetState:
    counted = state.limit.count(state.spending)
    return BudgetState(
        limit=state.limit.points,
        window=state.limit.window,
        spent=state.spending.spent,
        reserved=state.spending.reserved,
        unknown=state.spending.unknown,
        free=None if counted is None else state.limit.points - counted,
        room_at=state.room_at,
    )


async def add_up(spend: AsyncIterator[Spend], by: SpendKey, tz: tzinfo) -> list[SpendRow]:
    """Return the rows of a bill, in the sequence of their keys."""
    rows: dict[str, tuple[int, Spending, int]] = {}
    async for each in spend:
        key = f"{each.start.astimezone(tz):%Y-%m-%d}" if by == "day" else str(getattr(each, by))
        videos, spending, uncertain = rows.get(key, (0, Spending(), 0))
        may_be_charged = each.attempts if each.state in _MAY_BE_CHARGED else 0
        rows[key] = videos + each.tasks, spending + each.spending, uncertain + may_be_charged
    return [
        SpendRow(
            key=key,
            videos=videos,
            spent=spending.spent,
            estimated=spending.reserved,
            unknown=spending.unknown,
            uncertain=uncertain,
        )
        for key, (videos, spending, uncertain) in sorted(rows.items())
    ]

"""The journal: where orders are written before they go out.

Every operation is one commit: when it returns, what it wrote survives what the journal promises to survive; when it
raises, nothing was written. Operations are never stopped half way: a caller who is cancelled leaves the journal as it
was before or after the operation.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from vidgen_async.errors import JournalError
from vidgen_async.types.limits import Pacing, Turn
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

#: Of how much a page of what is running consists, whether it still runs or not.
RUNNING_PAGE = 1000


@frozen(kw_only=True)
class RunningPage:
    """Some of the tasks that were not seen to end."""

    tasks: Sequence[RunningTask]
    after: int | None
    """What the next page is asked for with; None: this is the last one."""


class Journal(Protocol):
    """Keeps orders and their attempts. JournalError from any operation means that it was not carried out."""

    @property
    def durable(self) -> bool:
        """Whether what is written survives the process."""
        ...

    async def namespace(self, proposed: str) -> str:
        """The deployment's random word: what is on record, or ``proposed``, which is then kept for ever."""
        ...

    async def intend(self, order: Order) -> Order:
        """Write a new order as *queued*, unless its name is on record already; what is on record comes back."""
        ...

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        """Whether the rolling limit has a slot now; counts the creates of everybody on this journal."""
        ...

    async def begin(self, permission: Permission) -> Attempt | Order | Turn:
        """Write the next attempt as *sending*, if the order is as the caller saw it and a slot is free.

        The attempt: it is on record, a byte may leave now. An Order: it was not as expected; this is how it is.
        A Turn: no slot is free. In the latter two cases nothing was written.
        """
        ...

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        """Add evidence about attempt ``n``. Knowledge only grows, so any order and any repetition gives one record."""
        ...

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        """Like :meth:`settle`, for a receipt whose task id was a candidate of attempt ``n``. Nothing is written if
        another order of this service has the task as its receipt, or one of this account as a candidate. The order
        comes back.
        """
        ...

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        """Write a person's word about an order that is in one of ``states``; the order as it is comes back."""
        ...

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        """Write a person's word that a task is the order's: ``attempt``, of kind ``adopt``, which holds its receipt, as
        the order's next one (its ``n`` is set here).

        The order as it is comes back; it was written to if it was in one of ``states``. Another order comes back, and
        nothing was written, if the task is the receipt of that one, of whatever account of this service.
        """
        ...

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        """The name of another order, of whatever account of this service, whose receipt is this task."""
        ...

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        """Write how tasks ended, in one commit. What is on record of a task stays; of a task that is no order's
        receipt nothing is written."""
        ...

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        """The order; an attempt past its deadline is *uncertain* from here on."""
        ...

    async def list(self, service: str, account: str, now: datetime, *, is_terminal: bool | None = None) -> list[Order]:
        """The orders of the account, oldest first; deadlines as in :meth:`get`. ``is_terminal``: only those that have
        a task, all of whose tasks have ended (True), or not all (False).

        Of very many it is read in pieces, between which other operations have their turn; an order that is written
        meanwhile may be among them or not."""
        ...

    async def running(self, service: str, account: str, *, after: int = 0) -> RunningPage:
        """A page of the tasks of the account's orders that were not seen to end, in the order in which their receipts
        were written, without the orders. It is short work, however many orders there are and have been.

        A page may be empty without being the last one. A task that several receipts name may come several times. What
        is accepted between two pages is on a later one.
        """
        ...

    async def aclose(self) -> None:
        """Release everything. Twice is fine."""
        ...


def unknown_order(ref: OrderRef) -> JournalError:
    message = f"the journal has no order {ref.order_id!r}"
    return JournalError(message)

"""The interface of journals, in which orders are stored before they are sent.

Once an operation has returned, its changes are committed, as durable as the journal promises. Operations are atomic,
also if they raise or the caller is cancelled: carried out completely or not at all.

The times in arguments and in results are those of the caller's clock, also if the journal has a clock of its own.
"""

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable
from zlib import crc32

from attrs import frozen

from vidgen_async.errors import JournalError
from vidgen_async.events import Event
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
    RunningTask,
    Shard,
    Spend,
    TaskResult,
)

logger = logging.getLogger(__name__)

#: Number of receipts that one page covers, whether their tasks are running or not.
RUNNING_PAGE = 1000


@frozen(kw_only=True)
class RunningPage:
    """A page of the tasks that are not known to be terminal."""

    tasks: Sequence[RunningTask]
    after: int | None
    """The argument ``after`` for the next page; None if this is the last one."""


class OrderChanged(Exception):  # noqa: N818 - an answer of the journal and no error
    """The order is not as the caller has read it; no attempt was recorded."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        #: The order as it is.
        self.order = order


class MustWait(Exception):  # noqa: N818 - an answer of the journal and no error
    """The turn of the order has not come; no attempt was recorded."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        #: The time to wait.
        self.turn = turn


class OverBudget(Exception):  # noqa: N818 - an answer of the journal and no error
    """A limit of points does not allow the attempt; none was recorded."""

    def __init__(self, state: LimitState) -> None:
        super().__init__(state)
        #: The limit, what counts towards it, and when the attempt is within it.
        self.state = state


class Journal(Protocol):
    """Stores orders and their attempts.

    An operation that raises JournalError was not carried out, unless ``may_be_committed`` of the error is true. Every
    operation can be repeated safely.
    """

    @property
    def durable(self) -> bool:
        """Whether the stored data survives the process."""
        ...

    async def check(self) -> None:
        """Raise JournalError if the journal certainly cannot be used. A client calls it when it is entered; nothing is
        written."""
        ...

    async def namespace(self, proposed: str) -> str:
        """Return the random namespace of the deployment. If none is stored yet, ``proposed`` is stored permanently."""
        ...

    async def intend(self, order: Order) -> Order:
        """Store a new order as *queued*, unless an order with its ``ref`` exists. Return the stored order."""
        ...

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        """Return whether a create may start: the rolling limit has a free slot, and no 429 pauses the account
        (``Evidence.retry_at``). The creates and answers of all clients that use the journal are
        counted."""
        ...

    async def begin(self, permission: Permission) -> Attempt:
        """Record the next attempt as *sending*, if the order is as the caller has read it and its turn has come. An
        attempt after its deadline is recorded as *uncertain* first, as by :meth:`get`.

        Returns:
            The attempt: a byte may be sent now.

        Raises:
            OrderChanged: The order is not as the caller has read it.
            MustWait: Its turn has not come.
            OverBudget: A limit of the permission does not allow it (only of a :class:`SpendingJournal`).
        """
        ...

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        """Add evidence about attempt ``n`` and return the order. It is idempotent, and the sequence of calls does not
        change the result, because knowledge is only added. If the task of a receipt is that of another order of the
        service too, of any account, the event ``task.shared`` is logged.

        Raises:
            JournalError: The journal does not have the attempt.
        """
        ...

    async def settle_mark(self, ref: OrderRef, mark: str, evidence: Evidence) -> Order | None:
        """Add evidence about the attempt of the order that has this mark, as :meth:`settle` does. Return the order, or
        None if the journal does not have it; nothing is written if the order has no such attempt."""
        ...

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        """Add a receipt whose task id is a candidate of attempt ``n``, as :meth:`settle` does, and return the order.

        Nothing is written if the task is the receipt of another order of the service, or a candidate of another order
        of the account.
        """
        ...

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        """Record that an operator abandoned or withdrew an order, if it is in one of ``states``. Return the order."""
        ...

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        """Record an operator's decision that a task belongs to the order, if the order is in one of ``states``.

        Args:
            ref: The order.
            attempt: An attempt of kind ``adopt`` with the receipt; its ``n`` is set here.
            states: The states in which the order may be changed.

        Returns:
            The order as it is now. If the task is the receipt of another order, of any account of the service, that
            order is returned and nothing was written.
        """
        ...

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        """Return the ref of another order, of any account, whose receipt is this task; None if there is none."""
        ...

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        """Record the terminal states of tasks, in one commit. A state that is recorded already is not changed, and
        tasks without a receipt are ignored."""
        ...

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        """Return the order, or None. An attempt after its deadline is recorded as *uncertain*. So is one whose sender
        has ended or has lost its connection, if the journal can detect that."""
        ...

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
        """Return the orders of the account, oldest first, with deadlines as in :meth:`get`.

        A long list is read in pages, between which other operations are carried out: an order that is added meanwhile
        may be missing. The filters are applied in the journal, so that the duration of a call that returns few orders
        depends little on the number of stored ones.

        Args:
            service: The origin of the service.
            account: The account whose orders are listed.
            now: The current time.
            states: Restricts the list to orders that are in one of these states at ``now``.
            is_terminal: Restricts the list to orders with a task: True to those of which all tasks are terminal, False
                to all others.
            since: Restricts the list to orders that were created then or later.
            after: Restricts the list to the orders that follow the one with this id. A caller that passes the last id
                of each page reads all orders, whatever is added meanwhile.
            limit: The maximum number of orders.
            newest_first: Reverses the sequence.

        Raises:
            JournalError: There is no order ``after``.
        """
        ...

    async def running(self, service: str, account: str, *, after: int = 0, shard: Shard | None = None) -> RunningPage:
        """Return a page of the account's tasks that are not known to be terminal, in the sequence of their receipts.

        The duration does not depend on the number of orders. A page may be empty without being the last one. A task
        that is named by several receipts may occur several times. A task that is accepted between two calls is on a
        later page: receipts are stored one after the other, so that their sequence is that of their commits.

        Args:
            service: The origin of the service.
            account: The account whose tasks are returned.
            after: The position after the previous page; 0 for the first page.
            shard: Restricts the page to the tasks for which :func:`is_in_shard` is true.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources. It can be called several times."""
        ...


@runtime_checkable
class SpendingJournal(Journal, Protocol):
    """A journal that can enforce budgets: :meth:`begin` applies ``Permission.limits`` in the commit of the attempt.

    An attempt counts from ``sent_at`` on, unless it is *not sent* or *rejected*: for the points of its task where the
    service has stated them, else for ``reserved``, else as unknown. One in the future counts. A task is counted once:
    for each adopted one that no send has as its receipt, the latest *sending* or *uncertain* attempt does not count.
    """

    async def spending(
        self, service: str, account: str, limits: Iterable[SpendingLimit], reserved: int | None, now: datetime
    ) -> Sequence[LimitState]:
        """Return for each limit what counts towards it, and when it allows one more attempt that may cost ``reserved``
        points, None if that is unknown."""
        ...

    def spend(self, service: str, account: str, since: datetime | None) -> AsyncIterator[Spend]:
        """Yield what the attempts of the account have cost that were sent since then. Other operations are carried out
        meanwhile. Several results may have the same model, state and quarter of an hour."""
        ...

    async def summaries(
        self, service: str, account: str, order_ids: Sequence[str], now: datetime
    ) -> Sequence[OrderSummary]:
        """Return the summaries of the orders that the journal has, with deadlines as in :meth:`get`."""
        ...

    async def verify_spending(self, service: str, account: str) -> None:
        """Compare the stored sums with the attempts, and correct them: other programs may have written without the
        triggers that maintain the sums."""
        ...


def is_listed(order: Order, states: Collection[OrderState] | None, is_terminal: bool | None) -> bool:
    """Return whether the order is in one of ``states``, and has a task as ``is_terminal`` requires; None allows all."""
    matches_terminal = is_terminal is None or (bool(order.task_ids) and order.is_terminal is is_terminal)
    return matches_terminal and (states is None or order.state in states)


def is_in_shard(task_id: str, shard: Shard | None) -> bool:
    """Return whether the task belongs to shard ``(i, n)``: the CRC-32 of its id in UTF-8, modulo ``n``, is ``i``. It is
    the same in all processes, on all hosts and for all journals. With None, the answer is true."""
    if shard is None:
        return True
    index, count = shard
    return crc32(escape_text(task_id).encode()) % count == index


def escape_text(text: str) -> str:
    """Return the text with lone surrogates and NUL escaped (``\\udc80``, ``\\0``): JSON can contain them, but SQLite
    rejects the former and PostgreSQL both."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def unknown_order_error(ref: OrderRef) -> JournalError:
    """Return the error for an operation on an order that the journal does not have."""
    message = f"the journal has no order {ref.order_id!r}"
    return JournalError(message)


def check_attempt(order: Order, n: int) -> None:
    """Raise JournalError if the journal does not have the attempt: what is known about it would be lost."""
    if all(attempt.n != n for attempt in order.attempts):
        message = (
            f"the journal has no attempt {n} of order {order.order_id!r} any more; restore it. Nothing was written."
        )
        raise JournalError(message)


def report_shared_task(ref: OrderRef, evidence: Evidence, owner: OrderRef | None) -> None:
    """Log that the task of a receipt is that of another order too: one of the two has no task of its own."""
    if owner is not None:
        Event.TASK_SHARED.log(logger, order_id=ref.order_id, task_id=evidence.task_id, other_order_id=owner.order_id)

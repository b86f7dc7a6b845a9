"""Orders being carried out: each by a worker that the client owns, for any number of callers."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeAlias

from attrs import Factory, mutable

from vidgen_async.errors import CreateError, NotSentError, UncertainCreateError
from vidgen_async.events import contain_hook
from vidgen_async.orders.error_messages import CALL_AGAIN, WHAT_TO_DO, facts, is_unaccounted
from vidgen_async.types.orders import Order
from vidgen_async.types.resources import Receipt

logger = logging.getLogger(__name__)

OnReceipt: TypeAlias = Callable[[Receipt], Awaitable[None] | None]


@mutable(eq=False, kw_only=True)
class Submission:
    """An order being carried out: its worker, and what its callers wait for."""

    order_id: str
    body: bytes
    outcome: "asyncio.Future[Receipt]"
    worker: "asyncio.Task[None] | None" = None
    hooks: list[OnReceipt] = Factory(list)
    order: Order | None = None
    """As it was seen last."""
    refusal: CreateError | None = None
    """The last answer was a 429, and nothing has left since."""
    is_begun: bool = False
    """A byte may have left."""
    checked: "asyncio.Future[None]" = Factory(lambda: asyncio.get_running_loop().create_future())
    """Done when the request has passed: from then on it has the order id. One that does not pass leaves it free."""

    @property
    def may_have_left(self) -> bool:
        """By this submission or by another's attempt that is not accounted for."""
        return self.is_begun or (self.order is not None and is_unaccounted(self.order))

    @property
    def is_over(self) -> bool:
        """The worker has ended and takes no more hooks."""
        return self.worker is not None and self.worker.done()

    @property
    def is_checking(self) -> bool:
        """It is not decided yet whether this request gets the order id."""
        return not self.checked.done()

    def passed(self) -> None:
        if not self.checked.done():
            self.checked.set_result(None)

    def saw(self, order: Order) -> None:
        self.order = order

    def mark_begun(self) -> None:
        self.is_begun = True
        self.refusal = None


Work: TypeAlias = Callable[[Submission], Coroutine[Any, Any, Receipt]]


class Submissions:
    """The orders under way, by order id. A worker and its callers end with the same outcome."""

    def __init__(self) -> None:
        self._under_way: dict[str, Submission] = {}

    def __iter__(self) -> Iterator[Submission]:
        return iter(tuple(self._under_way.values()))

    def get(self, order_id: str) -> Submission | None:
        """The submission of this order that still takes callers."""
        submission = self._under_way.get(order_id)
        return None if submission is None or submission.is_over else submission

    def start(self, order_id: str, body: bytes, work: Work) -> Submission:
        """Have the order carried out by a worker of its own."""
        loop = asyncio.get_running_loop()
        submission = Submission(order_id=order_id, body=body, outcome=loop.create_future())
        submission.worker = loop.create_task(_worked(submission, work), name=f"order {order_id}")
        submission.worker.add_done_callback(lambda _: self._ended(submission))
        self._under_way[order_id] = submission
        return submission

    def _ended(self, submission: Submission) -> None:
        if self._under_way.get(submission.order_id) is submission:
            del self._under_way[submission.order_id]
        worker, outcome = submission.worker, submission.outcome
        if worker is None or outcome.done():
            return
        if worker.cancelled() and submission.order is not None and submission.order.receipt is not None:
            outcome.set_result(submission.order.receipt)  # it was written down after all
            return
        error = None if worker.cancelled() else worker.exception()
        outcome.set_exception(error or _stopped(submission))
        outcome.exception()  # seen: when every caller has gone, nobody is left to retrieve it


async def outcome_of(submission: Submission, on_receipt: OnReceipt | None = None) -> Receipt:
    """What comes of the submission, and ``on_receipt`` heard before it. Cancelling the caller stops nothing."""
    if on_receipt is not None:
        submission.hooks.append(on_receipt)
    receipt = await asyncio.shield(submission.outcome)
    if on_receipt is not None and submission.worker not in (None, asyncio.current_task()):
        await asyncio.wait([submission.worker])
    return receipt


async def _worked(submission: Submission, work: Work) -> None:
    """The outcome; with a receipt, everybody hears of it who wanted to."""
    receipt = await work(submission)
    submission.outcome.set_result(receipt)  # before the hooks: one of them may ask for this very order
    while submission.hooks:
        hook = submission.hooks.pop(0)
        # The order is made: a caller's fault must not hide the receipt.
        with contain_hook(logger, "on_receipt", order_id=submission.order_id, task_id=receipt.task_id):
            pending = hook(receipt)
            if inspect.isawaitable(pending):
                await pending


def _stopped(submission: Submission) -> CreateError:
    order_id = submission.order_id
    known = {"order_id": order_id} if submission.order is None else facts(submission.order)
    if submission.may_have_left:
        message = (
            f"order {order_id!r}: the client was closed while it waited for the answer; the service may have made, and "
            "charged, a task. It will not be sent again by itself."
        )
        return UncertainCreateError(message, **known, advice=WHAT_TO_DO)
    if submission.refusal is not None:
        return submission.refusal
    message = f"order {order_id!r} was not sent: the client was closed first."
    return NotSentError(message, **known, advice=CALL_AGAIN)

"""Orders: one order = one Idempotency-Key = one body, for ever; and at most one POST that nobody can account for.

Every order is submitted by a worker that the client owns. Callers wait for its outcome; a caller who is cancelled
(a browser that went away) changes nothing but that caller.
"""

import asyncio
import inspect
import logging
import secrets
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeAlias

from attrs import Factory, evolve, frozen, mutable

from vidgen_async.attempts import (
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    fold,
    idempotency_key,
    may_become,
)
from vidgen_async.clock import Clock, within
from vidgen_async.codec import create_body, rejected_error, service_error
from vidgen_async.creates import Creates, Sent, Wish
from vidgen_async.endpoints import checked_task_id
from vidgen_async.errors import (
    CassetteError,
    CreateError,
    InvalidRequestError,
    JournalError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    RateLimitError,
    UncertainCreateError,
)
from vidgen_async.journal.base import Journal
from vidgen_async.lifetime import Lifetime
from vidgen_async.pacing import Pacing, backoff
from vidgen_async.resources import Receipt, VideoRequest, VideoTask

logger = logging.getLogger(__name__)

OnReceipt: TypeAlias = Callable[[Receipt], Awaitable[None] | None]

#: How often a create for which no connection was to be had (proven: no byte left) is tried in all.
CONNECT_TRIES = 3
LONGEST_ORDER_ID = 200
WHAT_TO_DO = "Look at the account, then orders.adopt(…), orders.abandon(…) or an explicit orders.resend(…)."


@frozen(kw_only=True)
class Names:
    """Whose orders these are: they are named by service, account and order id."""

    service: str
    """The origin of the service."""
    account: str = "default"
    """The caller's own name for the account; not derived from the key, since keys are renewed."""
    namespace: str | None = None
    """The deployment's random word; None: made once and kept in the journal."""


class Orders:
    """The orders of one account on one journal, and what a person can do about an uncertain one."""

    def __init__(
        self,
        creates: Creates,
        journal: Journal,
        clock: Clock,
        names: Names,
        *,
        pacing: Pacing,
        lifetime: Lifetime,
        get_task: Callable[[str], Awaitable[VideoTask]],
    ) -> None:
        self._creates = creates
        self._journal = journal
        self._clock = clock
        self._names = names
        self._pacing = pacing
        self._get_task = get_task
        self._submissions: dict[str, _Submission] = {}
        self._lifetime = lifetime

    # -- creating ------------------------------------------------------------------------------------------------------

    async def create(
        self, request: VideoRequest, *, order_id: str | None = None, on_receipt: OnReceipt | None = None
    ) -> Receipt:
        """Have the order made, once. The same order id again gives the same receipt, or joins the send under way.

        Raises NotSentError, RejectedError, UncertainCreateError or OrderConflictError; JournalError when the journal
        fails before anything was sent, ReceiptNotStoredError when it fails after the order was accepted.
        Cancelling the caller stops nothing: the outcome is on record under the order id.
        """
        self._lifetime.check()
        if order_id is None:
            order_id = str(uuid.uuid4())
            logger.info("order %s: a new order id, since none was given", order_id)
        ref = self._ref(order_id)
        body = create_body(request)
        submission = self._submissions.get(order_id)
        if submission is None or submission.is_over:
            submission = self._submit(ref, body, lambda submission: self._create(submission, ref, body))
        elif submission.body != body:
            raise _conflict(order_id, "stands for a different request, which is being sent now")
        if on_receipt is not None:
            submission.hooks.append(on_receipt)
        receipt = await asyncio.shield(submission.outcome)
        if on_receipt is not None and submission.worker not in (None, asyncio.current_task()):
            await asyncio.wait([submission.worker])  # it is heard before the caller goes on
        return receipt

    async def _create(self, submission: "_Submission", ref: OrderRef, body: bytes) -> Receipt:
        namespace = self._names.namespace or await self._journal.namespace(secrets.token_hex(8))
        key = idempotency_key(namespace, ref.account, ref.order_id)
        intent = Order(ref=ref, idempotency_key=key, body=body, created_at=self._clock.wall())
        order = await self._journal.intend(intent)
        if order.body != body:
            raise _conflict(ref.order_id, "already stands for a different request")
        return await self._carry_out(submission, order, Wish())

    async def _carry_out(self, submission: "_Submission", order: Order, wish: Wish) -> Receipt:
        """Send the order as wished until there is an outcome; at most one send of it is ever unaccounted for."""
        unconnected = 0
        patience = self._pacing.patience
        while True:
            order = await self._outcome_elsewhere(submission, order)
            if (receipt := order.receipt) is not None:
                self._report_duplicates(order)
                return receipt
            _check_sendable(order, wish)
            sent = await self._creates.send(order, wish, submission.mark_begun, submission.saw)
            order = submission.order = sent.order
            if wish.expect_attempt is not None and sent.attempt is not None:
                wish = evolve(wish, expect_attempt=sent.attempt.n)
            if sent.was_taken or order.receipt is not None:
                continue  # somebody else was faster, or this send was: look at what the order is now
            if sent.is_proven_unsent:
                unconnected += 1
                if unconnected == CONNECT_TRIES or isinstance(sent.failure, CassetteError):
                    raise _not_sent(order, sent) from sent.failure
                submission.is_begun = False
                await self._clock.sleep(backoff(unconnected, 1.0))
            else:
                pause, submission.refusal = self._pause_after_refusal(order, sent, patience)
                submission.is_begun = False
                patience -= pause
                await self._clock.sleep(pause)

    def _pause_after_refusal(self, order: Order, sent: Sent, patience: float) -> tuple[float, CreateError]:
        """Seconds until a create that was answered with 429 may go again, and its refusal; raises for every other
        outcome, and when the patience does not last."""
        if order.state is not OrderState.REJECTED or sent.answer is None:
            raise _uncertain(order) from sent.failure
        error = service_error(sent.answer, origin=self._names.service, wall=self._clock.wall())
        pause = backoff(1, 1.0, first=10.0) if error.retry_after is None else error.retry_after
        refusal = rejected_error(error, **_facts(order))
        if not isinstance(error, RateLimitError) or pause > patience:
            raise refusal
        return pause, refusal

    async def _outcome_elsewhere(self, submission: "_Submission", order: Order) -> Order:
        """The order as it is; while another process or client is sending it, wait for what comes of that."""
        pause = 0.05
        while True:
            order = submission.order = await self._journal.get(order.ref, self._clock.wall()) or order
            if order.state is not OrderState.SENDING:
                return order
            await self._clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _report_duplicates(self, order: Order) -> None:
        if len(order.task_ids) > 1:
            logger.error("order %r: the service made it more than once: tasks %s", order.order_id, order.task_ids)

    # -- looking, and a person's word ----------------------------------------------------------------------------------

    async def get(self, order_id: str) -> Order | None:
        """What is on record about the order; None when nothing is."""
        self._lifetime.check()
        return await self._journal.get(self._ref(order_id), self._clock.wall())

    async def list(self, states: Collection[OrderState | str] | None = None) -> list[Order]:
        """All orders of this account, oldest first; with ``states`` only those in one of them."""
        self._lifetime.check()
        if isinstance(states, str):
            states = [states]
        wanted = None if states is None else {OrderState(state) for state in states}
        orders = await self._journal.list(self._names.service, self._names.account, self._clock.wall())
        return [order for order in orders if wanted is None or order.state in wanted]

    async def resend(self, order_id: str, *, expect_attempt: int, reason: str, by: str = "") -> Receipt:
        """Send an uncertain order once more, knowing that this may make and charge a second task: the stored bytes
        under the stored key.

        ``expect_attempt`` is the number of the last attempt you know of: of two people who decide the same, one
        sends. ``reason`` and ``by`` go on record. Raises as :meth:`create`; OrderStateError, with nothing sent, when
        the order is not uncertain or has another attempt.
        """
        _check_reason("resend", reason)
        order = await self._in_state(order_id, "resent", {OrderState.UNCERTAIN})
        _check_attempt(order, expect_attempt)
        if order_id in self._submissions:
            raise _wrong_state(order, "resent while it is being submitted")
        wish = Wish(
            kind="resend",
            states=frozenset({OrderState.UNCERTAIN}),
            expect_attempt=expect_attempt,
            by=by,
            reason=reason,
        )
        self._lifetime.check()  # the client may have been closed while the journal was read
        submission = self._submit(order.ref, order.body, lambda submission: self._carry_out(submission, order, wish))
        submission.order = order
        return await asyncio.shield(submission.outcome)

    async def adopt(self, order_id: str, task_id: str, *, reason: str = "", by: str = "") -> Receipt:
        """Say that this task is the order's: it is asked for (GET, section 4.5) and, if it exists, becomes the
        order's receipt. NotFoundError when the service does not know the task; OrderStateError when it is the receipt
        of another order on record."""
        checked_task_id(task_id)
        states = {OrderState.UNCERTAIN, OrderState.ABANDONED, OrderState.SENDING}
        order = await self._in_state(order_id, "adopted", states)
        await self._get_task(task_id)
        for other in await self.list([OrderState.ACCEPTED]):
            if task_id in other.task_ids:
                message = (
                    f"task {task_id!r} is the receipt of order {other.order_id!r}; {order_id!r} needs one of its own"
                )
                raise OrderStateError(message, order_id=order_id, state=order.state)
        open_attempts = [attempt for attempt in order.attempts if may_become(attempt.outcome, AttemptOutcome.ACCEPTED)]
        cause = f"adopted by {by or 'a person'}" + (f": {reason}" if reason else "")
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=self._clock.wall(), task_id=task_id, cause=cause)
        order = await self._journal.settle(order.ref, open_attempts[-1].n, evidence)
        receipt = order.receipt
        if receipt is None:  # another process learned something else in between
            raise _wrong_state(order, "adopted")
        return receipt

    async def abandon(self, order_id: str, reason: str, *, by: str = "") -> Order:
        """Give up an uncertain order, accepting that a task may exist and be charged. A late receipt still wins."""
        _check_reason("abandon", reason)
        return await self._close(order_id, "abandoned", OrderState.ABANDONED, {OrderState.UNCERTAIN}, (reason, by))

    async def withdraw(self, order_id: str, reason: str = "", *, by: str = "") -> Order:
        """Take back an order that is still queued: it will never be sent."""
        return await self._close(order_id, "withdrawn", OrderState.WITHDRAWN, {OrderState.QUEUED}, (reason, by))

    async def _close(
        self, order_id: str, done: str, to: OrderState, states: set[OrderState], word: tuple[str, str]
    ) -> Order:
        order = await self._in_state(order_id, done, states)
        closing = Closing(state=to, at=self._clock.wall(), reason=word[0], by=word[1])
        order = await self._journal.close_order(order.ref, closing, states)
        if order.state is not to:
            raise _wrong_state(order, done)
        return order

    async def _in_state(self, order_id: str, done: str, states: set[OrderState]) -> Order:
        order = await self.get(order_id)
        if order is None:
            message = f"there is no order {order_id!r} of account {self._names.account!r} in the journal"
            raise OrderStateError(message, order_id=order_id)
        if order.state not in states:
            raise _wrong_state(order, done)
        return order

    # -- workers -------------------------------------------------------------------------------------------------------

    def _submit(
        self, ref: OrderRef, body: bytes, work: Callable[["_Submission"], Coroutine[Any, Any, Receipt]]
    ) -> "_Submission":
        loop = asyncio.get_running_loop()
        submission = _Submission(order_id=ref.order_id, body=body, outcome=loop.create_future())
        submission.worker = loop.create_task(_worked(submission, work), name=f"order {ref.order_id}")
        submission.worker.add_done_callback(lambda _: self._ended(submission))
        self._submissions[ref.order_id] = submission
        return submission

    def _ended(self, submission: "_Submission") -> None:
        if self._submissions.get(submission.order_id) is submission:
            del self._submissions[submission.order_id]
        worker, outcome = submission.worker, submission.outcome
        if worker is None or outcome.done():
            return
        if worker.cancelled() and submission.order is not None and submission.order.receipt is not None:
            outcome.set_result(submission.order.receipt)  # it was written down after all
            return
        error = None if worker.cancelled() else worker.exception()
        outcome.set_exception(error or _stopped(submission))
        outcome.exception()  # seen: when every caller has gone, nobody is left to retrieve it

    async def aclose(self, grace: float = 5.0) -> None:
        """Wait up to ``grace`` seconds for the orders under way, then leave. What was not answered by
        then stays *sending* on record, and its callers get an UncertainCreateError."""
        caller = asyncio.current_task()  # an on_receipt may be what closes the client
        workers = [
            worker
            for submission in self._submissions.values()
            if (worker := submission.worker) is not None and worker is not caller
        ]
        if not workers:
            return
        try:
            await within(self._clock, grace, lambda: asyncio.wait(workers))
        except TimeoutError:
            logger.warning("closed with %d orders unanswered", sum(not worker.done() for worker in workers))
            await self._look_at_unanswered()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _look_at_unanswered(self) -> None:
        """Before their callers are told how it stands: others on this journal may have done something to the orders."""
        for submission in list(self._submissions.values()):
            try:
                order = await self._journal.get(self._ref(submission.order_id), self._clock.wall())
            except JournalError as error:
                logger.warning("order %r: the journal could not be asked: %s", submission.order_id, error)
            else:
                submission.order = order or submission.order

    def _ref(self, order_id: str) -> OrderRef:
        _check_order_id(order_id)
        return OrderRef(service=self._names.service, account=self._names.account, order_id=order_id)


@mutable(eq=False, kw_only=True)
class _Submission:
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

    @property
    def may_have_left(self) -> bool:
        """By this submission or by another's attempt that is not accounted for."""
        return self.is_begun or (self.order is not None and _is_unaccounted(self.order))

    @property
    def is_over(self) -> bool:
        """The worker has ended and takes no more hooks."""
        return self.worker is not None and self.worker.done()

    def saw(self, order: Order) -> None:
        self.order = order

    def mark_begun(self) -> None:
        self.is_begun = True
        self.refusal = None


async def _worked(submission: _Submission, work: Callable[[_Submission], Coroutine[Any, Any, Receipt]]) -> None:
    """The outcome; with a receipt, everybody hears of it who wanted to."""
    receipt = await work(submission)
    submission.outcome.set_result(receipt)  # before the hooks: one of them may ask for this very order
    while submission.hooks:
        hook = submission.hooks.pop(0)
        try:
            heard = hook(receipt)
            if inspect.isawaitable(heard):
                await heard
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if worker is not None and worker.cancelling():
                raise
            logger.warning("order %r: an on_receipt was cancelled", submission.order_id)
        except Exception:  # the order is made: a caller's fault must not hide the receipt
            logger.exception("order %r: on_receipt failed for task %s", submission.order_id, receipt.task_id)


# -- words -------------------------------------------------------------------------------------------------------------


def _facts(order: Order) -> dict[str, Any]:
    return {"order_id": order.order_id, "idempotency_key": order.idempotency_key, "attempts": order.attempts}


def _uncertain(order: Order) -> UncertainCreateError:
    if order.state is OrderState.ABANDONED and order.closing is not None:
        message = (
            f"order {order.order_id!r} was abandoned ({order.closing.reason}) and is not sent again. If its task is "
            "found, orders.adopt(…) takes it; a new video needs a new order id."
        )
        return UncertainCreateError(message, **_facts(order))
    unclear = [attempt for attempt in order.attempts if attempt.outcome is AttemptOutcome.UNCERTAIN]
    causes = "; ".join(
        f"attempt {attempt.n}, sent {attempt.sent_at:%Y-%m-%d %H:%M:%S} UTC: {attempt.evidence.cause}"
        for attempt in unclear
        if attempt.evidence is not None
    )
    message = (
        f"order {order.order_id!r}: nobody knows whether the service took it ({causes}); it may have made, and "
        f"charged, a task. It was not sent again. {WHAT_TO_DO}"
    )
    return UncertainCreateError(message, **_facts(order))


def _not_sent(order: Order, sent: Sent) -> Exception:
    if isinstance(sent.failure, CassetteError):
        return sent.failure
    cause = str(sent.failure)
    if isinstance(sent.failure, TimeoutError):
        cause = "the create's time limit passed before a connection was ready"
    if _is_unaccounted(order):
        message = (
            f"order {order.order_id!r} was not sent again: {cause}. What became of an earlier attempt is still not "
            f"known: it may have made, and charged, a task. {WHAT_TO_DO}"
        )
        return UncertainCreateError(message, **_facts(order))
    message = f"order {order.order_id!r} was not sent: {cause}. Calling again with the same order id is safe."
    return NotSentError(message, **_facts(order))


def _is_unaccounted(order: Order) -> bool:
    return fold(attempt.outcome for attempt in order.attempts) in (OrderState.SENDING, OrderState.UNCERTAIN)


def _stopped(submission: _Submission) -> CreateError:
    order_id = submission.order_id
    if submission.may_have_left:
        message = (
            f"order {order_id!r}: the client was closed while it waited for the answer; the service may have made, and "
            f"charged, a task. It will not be sent again by itself. {WHAT_TO_DO}"
        )
        return UncertainCreateError(message, order_id=order_id)
    if submission.refusal is not None:
        return submission.refusal
    message = f"order {order_id!r} was not sent: the client was closed first. Calling again is safe."
    return NotSentError(message, order_id=order_id)


def _conflict(order_id: str, why: str) -> OrderConflictError:
    message = f"order id {order_id!r} {why}; nothing was sent. A new video needs a new order id."
    return OrderConflictError(message, order_id=order_id)


def _wrong_state(order: Order, done: str) -> OrderStateError:
    message = f"order {order.order_id!r} cannot be {done}: it is {order.state}"
    return OrderStateError(message, order_id=order.order_id, state=order.state)


def _check_sendable(order: Order, wish: Wish) -> None:
    if wish.expect_attempt is not None:
        _check_attempt(order, wish.expect_attempt)
    if order.state in wish.states:
        return
    if order.state is OrderState.WITHDRAWN:
        raise _conflict(order.order_id, "was withdrawn")
    raise _uncertain(order)


def _check_attempt(order: Order, expected: int) -> None:
    if len(order.attempts) != expected:
        message = (
            f"order {order.order_id!r} was not resent: its last attempt is {len(order.attempts)}, not {expected}. "
            "Somebody else may have resent it; look at it again."
        )
        raise OrderStateError(message, order_id=order.order_id, state=order.state)


def _check_reason(what: str, reason: str) -> None:
    if not reason.strip():
        message = f"orders.{what} needs a reason: it goes on record"
        raise InvalidRequestError(message, problems=[message])


def _check_order_id(order_id: object) -> None:
    problem = None
    if not isinstance(order_id, str):
        problem = f"order_id must be a string, not {type(order_id).__name__}"
    elif not order_id.strip() or order_id != order_id.strip():
        problem = f"order_id must not be empty or begin or end with white space: {order_id!r}"
    elif len(order_id) > LONGEST_ORDER_ID or not order_id.isprintable():
        problem = f"order_id must be at most {LONGEST_ORDER_ID} printable characters: {order_id[:80]!r}"
    if problem:
        raise InvalidRequestError(problem, problems=[problem])

"""Orders: one order = one Idempotency-Key = one body, for ever; and at most one POST that nobody can account for.

Every order is submitted by a worker that the client owns. Callers wait for its outcome; a caller who is cancelled
(a browser that went away) changes nothing but that caller.
"""

import asyncio
import logging
import secrets
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

from attrs import frozen

from vidgen_async.clock import Clock, within
from vidgen_async.errors import JournalError, OrderStateError
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal
from vidgen_async.orders.attempt_loop import Carrier
from vidgen_async.orders.confirmation import Confirmation
from vidgen_async.orders.error_messages import (
    check_adoptable,
    check_age,
    check_attempt,
    check_order_id,
    check_reason,
    conflict,
    taken_by_another,
    wanted_states,
    wrong_state,
)
from vidgen_async.orders.results import Results
from vidgen_async.orders.sending import Creates, Wish
from vidgen_async.orders.submission import OnReceipt, Submission, Submissions, outcome_of
from vidgen_async.service.codec import create_body, is_same_request, read_request
from vidgen_async.service.endpoints import checked_task_id
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import (
    SENDABLE,
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    RunningTask,
    idempotency_key,
)
from vidgen_async.types.resources import Receipt, TaskLike, VideoRequest, VideoTask

logger = logging.getLogger(__name__)

#: For how many seconds the service is taken to remember an Idempotency-Key. Its description (section 8) does not say.
KEY_LIFETIME = 3600.0

#: Looking at very many orders lets the event loop breathe after so many.
_CHUNK = 1000

#: Raises InvalidRequestError for a request that is not worth sending.
Check: TypeAlias = Callable[[VideoRequest], Awaitable[object]]


@frozen(kw_only=True)
class Names:
    """Whose orders these are: they are named by service, account and order id."""

    service: str
    """The origin of the service."""
    account: str = "default"
    """The caller's own name for the account; not derived from the key, since keys are renewed."""
    namespace: str | None = None
    """The deployment's random word, from which, with account and order id, each Idempotency-Key is derived. None: each
    journal makes its own, so that the same order id has another key in another journal."""


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
        check_usable: Callable[[], None],
        get_task: Callable[[str], Awaitable[VideoTask]],
        get_task_once: Callable[[str], Awaitable[VideoTask]] | None = None,
        check: Check | None = None,
        key_lifetime: float = KEY_LIFETIME,
    ) -> None:
        confirmation = Confirmation(journal=journal, clock=clock, get_task=get_task_once or get_task)
        self._carrier = Carrier(
            creates=creates,
            confirmation=confirmation,
            journal=journal,
            clock=clock,
            pacing=pacing,
            service=names.service,
        )
        self._settling = creates.settling
        self._balances = creates.balances
        self.results = Results(journal, clock, names.service, creates.settling.why)
        """How tasks ended goes on record."""
        self._journal = journal
        self._clock = clock
        self._names = names
        self._word = names.namespace
        self._key_lifetime = key_lifetime
        self._get_task = get_task
        self._check = check
        self._submissions = Submissions()
        self._check_usable = check_usable

    # -- creating ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        request: VideoRequest,
        *,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        validate: bool = True,
    ) -> Receipt:
        """Have the order made, once. The same order id again gives the same receipt, or joins the send under way.

        With ``validate`` the request is checked before it is on record; an order that has been taken, or may have been,
        is not checked again.

        Raises NotSentError, RejectedError, UncertainCreateError or OrderConflictError; JournalError when the journal
        fails before anything was sent, ReceiptNotStoredError when it fails after the order was accepted;
        InvalidRequestError, with nothing on record.
        Cancelling the caller stops nothing: the outcome is on record under the order id.
        """
        self._check_usable()
        if order_id is None:
            order_id = str(uuid.uuid4())
            message = "order %(order_id)s: a new order id, since none was given"
            report(logger, logging.INFO, Event.ORDER_NAMED, message, order_id=order_id)
        ref = self._ref(order_id)
        body = create_body(request)
        check = self._check_of(request) if validate else None
        while (submission := self._submissions.get(order_id)) is not None and submission.is_checking:
            if is_same_request(submission.body, body) and validate:
                break
            decided: list[asyncio.Future[Any]] = [submission.outcome, submission.checked]
            await asyncio.wait(decided, return_when=asyncio.FIRST_COMPLETED)
            self._check_usable()
        if submission is None:
            work = partial(self._create, ref=ref, body=body, check=check)
            submission = self._submissions.start(order_id, body, work)
        elif not is_same_request(submission.body, body):
            raise conflict(order_id, "stands for a different request, which is being sent now")
        try:
            return await outcome_of(submission, on_receipt)
        except OrderStateError:  # of a person's resend, joined here, before which somebody else's was faster
            return await self.create(request, order_id=order_id, on_receipt=on_receipt, validate=validate)

    async def _create(
        self, submission: Submission, *, ref: OrderRef, body: bytes, check: Callable[[], Awaitable[object]] | None
    ) -> Receipt:
        await self._settling.catch_up(ref)
        order = submission.order = await self._journal.get(ref, self._clock.wall())
        if order is not None and not is_same_request(order.body, body):
            raise conflict(ref.order_id, "already stands for a different request")
        if check is not None and (order is None or order.state in SENDABLE):
            await check()
        submission.passed()
        if order is None:
            key = idempotency_key(await self._namespace(), ref.account, ref.order_id)
            intent = Order(ref=ref, idempotency_key=key, body=body, created_at=self._clock.wall())
            order = await self._journal.intend(intent)
            if not is_same_request(order.body, body):
                raise conflict(ref.order_id, "already stands for a different request")
        return await self._carrier.carry_out(submission, order, Wish())

    async def _namespace(self) -> str:
        if self._word is None:
            self._word = await self._journal.namespace(secrets.token_hex(8))
        return self._word

    def _check_of(self, request: VideoRequest) -> Callable[[], Awaitable[object]] | None:
        return None if self._check is None else partial(self._check, request)

    # -- looking, and a person's word ----------------------------------------------------------------------------------

    async def get(self, order_id: str) -> Order | None:
        """What is on record about the order; None when nothing is."""
        self._check_usable()
        order = await self._journal.get(self._ref(order_id), self._clock.wall())
        return None if order is None else self._settling.known(order)

    async def list(
        self, states: Collection[OrderState | str] | None = None, *, is_terminal: bool | None = None
    ) -> list[Order]:
        """All orders of this account, oldest first; with ``states`` only those in one of them, with ``is_terminal``
        only those that have a task, and whose tasks were all seen to end (True) or not (False).

        Nothing is sent. A send whose deadline has passed without an outcome, since its process is gone, is
        *uncertain* from here on; ``order.unclear`` holds the evidence.
        """
        self._check_usable()
        wanted = wanted_states(states)
        names, now = self._names, self._clock.wall()
        orders = await self._journal.list(names.service, names.account, now, is_terminal=is_terminal)
        found: list[Order] = []
        for start in range(0, len(orders), _CHUNK):
            found.extend(
                order for order in map(self._settling.known, orders[start : start + _CHUNK]) if order.state in wanted
            )
            await self._clock.sleep(0)
        return found

    async def running(self) -> AsyncGenerator[RunningTask, None]:
        """Each task of this account's orders on record that was not seen to end (``videos.rewatch`` says what counts as
        seen), by its receipts, oldest first; a task that several receipts name may come several times. It comes without
        the order's body: made for hundreds of thousands.

        Nothing is sent. It is read in pages as the loop goes on, and creates have their turn in between: what is
        accepted meanwhile comes too. JournalError when the journal cannot be read.
        """
        after: int | None = 0
        while after is not None:
            self._check_usable()  # a journal that was closed would open again
            page = await self._journal.running(self._names.service, self._names.account, after=after)
            after = page.after
            for task in page.tasks:
                yield task
            await self._clock.sleep(0)  # a journal in memory never waits

    def handling(self, *tasks: TaskLike) -> AbstractContextManager[None]:
        """A block in which the end of these tasks, whoever is told of it, does not count as seen yet; it does when the
        block, and every other one of the same task beside it, is left without an error.

        For who has something to do once a ``wait``, a ``watch`` or an ``as_completed`` has told the end: a process that
        dies in the block, or whose block raises or is cancelled, gets the outcome from its next ``videos.rewatch``.
        ::

            with client.orders.handling(receipt):
                await client.videos.download(await client.videos.wait(receipt), "hero.mp4")
        """
        return self.results.handling([checked_task_id(task) for task in tasks])

    async def resume(self, order_id: str, *, on_receipt: OnReceipt | None = None, validate: bool = True) -> Receipt:
        """Go on with an order on record, whose request need not be known any more: its receipt, if there is one; the
        outcome of a send under way; or, if it is proven that the service has nothing of it (queued, not sent,
        rejected), the stored bytes are sent under the stored key, once they have passed the check of ``validate``.

        Raises as :meth:`create`; OrderStateError when there is no such order, or it was withdrawn.
        """
        states = set(OrderState) - {OrderState.WITHDRAWN}
        order = await self._in_state(order_id, "resumed", states)
        self._check_usable()  # the client may have been closed while the journal was read
        submission = self._submissions.get(order_id)
        if submission is None:
            check = self._check_of(read_request(order.body)) if validate else None
            work = partial(self._create, ref=order.ref, body=order.body, check=check)
            submission = self._submissions.start(order_id, order.body, work)
            submission.order = order
        try:
            return await outcome_of(submission, on_receipt)
        except OrderStateError:  # of a person's resend, joined here, before which somebody else's was faster
            return await self.resume(order_id, on_receipt=on_receipt, validate=validate)

    async def resend(
        self,
        order_id: str,
        *,
        expect_attempt: int,
        reason: str,
        by: str = "",
        accept_duplicate_risk: bool = False,
    ) -> Receipt:
        """Send an uncertain order once more, knowing that this may make and charge a second task: the stored bytes
        under the stored key, whatever has been upgraded or set up differently since.

        ``expect_attempt`` is the number of the last attempt you know of: of two people who decide the same, one
        sends. ``reason`` and ``by`` go on record. An order whose key went out longer ago than the client's
        ``key_lifetime`` needs ``accept_duplicate_risk=True``: a service that has forgotten the key makes, and charges,
        a second task if there is a first. Raises as :meth:`create`; OrderStateError, with nothing sent, when the order
        is not uncertain, has another attempt, or is too old.
        """
        check_reason("resend", reason)
        order = await self._in_state(order_id, "resent", {OrderState.UNCERTAIN})
        check_attempt(order, expect_attempt)
        if not accept_duplicate_risk:
            check_age(order, self._clock.wall(), self._key_lifetime)
        if self._submissions.get(order_id) is not None:
            raise wrong_state(order, "resent while it is being submitted")
        wish = Wish(
            kind="resend",
            states=frozenset({OrderState.UNCERTAIN}),
            expect_attempt=expect_attempt,
            by=by,
            reason=reason,
        )
        self._check_usable()  # the client may have been closed while the journal was read
        submission = self._submissions.start(
            order_id, order.body, partial(self._carrier.carry_out, order=order, wish=wish)
        )
        submission.order = order
        submission.passed()
        return await outcome_of(submission)

    async def adopt(self, order_id: str, task_id: str, *, reason: str = "", by: str = "") -> Receipt:
        """Say that this task is the order's: it is asked for (GET, section 4.5) and, if it exists, becomes the
        order's receipt. A receipt of a send that is still under way is kept beside it, and reported as an error. A task
        that is the order's receipt already is returned as such.

        An adoption is final. NotFoundError when the service does not know the task; OrderStateError when it is the
        receipt of another order on record, cannot be this one's (another model, or made more than an hour, by which
        clocks may differ, before the order was), or the order is not uncertain, abandoned or sending.
        """
        checked_task_id(task_id)
        known = await self.get(order_id)
        if known is not None and known.receipt is not None and known.receipt.task_id == task_id:
            return known.receipt
        states = {OrderState.UNCERTAIN, OrderState.ABANDONED, OrderState.SENDING}
        order = await self._in_state(order_id, "adopted", states)
        check_adoptable(order, read_request(order.body), await self._get_task(task_id))
        self._check_usable()  # the client may have been closed while the task was asked for
        now = self._clock.wall()
        cause = f"adopted by {by or 'a person'}" + (f": {reason}" if reason else "")
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=now, task_id=task_id, cause=cause)
        word = Attempt(n=0, sent_at=now, deadline_at=now, kind="adopt", by=by, reason=reason, evidence=evidence)
        found = await self._journal.adopt(order.ref, word, states)
        if found.ref != order.ref:
            raise taken_by_another(order, found, task_id)
        if found.receipt is None or found.attempts[-1].kind != "adopt":  # another process learned something in between
            raise wrong_state(found, "adopted")
        return found.receipt

    async def abandon(self, order_id: str, reason: str, *, by: str = "") -> Order:
        """Give up an uncertain order, accepting that a task may exist and be charged. A late receipt still wins."""
        check_reason("abandon", reason)
        return await self._close(order_id, "abandoned", OrderState.ABANDONED, {OrderState.UNCERTAIN}, (reason, by))

    async def withdraw(self, order_id: str, reason: str = "", *, by: str = "") -> Order:
        """Take back an order that is still queued: it will never be sent."""
        return await self._close(order_id, "withdrawn", OrderState.WITHDRAWN, {OrderState.QUEUED}, (reason, by))

    async def _close(
        self, order_id: str, done: str, to: OrderState, states: set[OrderState], word: tuple[str, str]
    ) -> Order:
        order = await self._in_state(order_id, done, states)
        self._check_usable()  # the client may have been closed while the journal was read
        closing = Closing(state=to, at=self._clock.wall(), reason=word[0], by=word[1])
        order = await self._journal.close_order(order.ref, closing, states)
        if order.state is not to:
            raise wrong_state(order, done)
        return order

    async def _in_state(self, order_id: str, done: str, states: set[OrderState]) -> Order:
        order = await self.get(order_id)
        if order is None:
            message = (
                f"there is no order {order_id!r} of account {self._names.account!r} at {self._names.service} in the "
                "journal; whether the service has it, that does not tell"
            )
            raise OrderStateError(message, order_id=order_id)
        if order.state not in states:
            raise wrong_state(order, done)
        return order

    async def aclose(self, grace: float = 5.0) -> None:
        """Wait up to ``grace`` seconds for the orders under way, then leave. What was not answered by then stays
        *sending* on record, and its callers get an UncertainCreateError."""
        caller = asyncio.current_task()  # an on_receipt may be what closes the client
        workers = [
            worker
            for submission in self._submissions
            if (worker := submission.worker) is not None and worker is not caller
        ]
        try:
            if workers:
                await self._finish(workers, grace)
        finally:
            try:
                await self._settling.aclose()
            finally:
                try:
                    await self._balances.aclose(grace)
                finally:
                    await self.results.aclose()

    async def _finish(self, workers: Collection["asyncio.Task[None]"], grace: float) -> None:
        try:
            await within(self._clock, grace, lambda: asyncio.wait(workers))
        except TimeoutError:
            if unanswered := sum(not worker.done() for worker in workers):
                message = "closed with %(count)d orders unanswered"
                report(logger, logging.WARNING, Event.ORDERS_UNANSWERED, message, count=unanswered)
            await self._look_at_unanswered()
        finally:
            self._settling.hurry()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _look_at_unanswered(self) -> None:
        """Before their callers are told how it stands: others on this journal may have done something to the orders."""
        for submission in self._submissions:
            try:
                order = await self._journal.get(self._ref(submission.order_id), self._clock.wall())
            except JournalError as error:
                message = "order %(order_id)r: the journal could not be asked: %(error)s"
                fields = {"order_id": submission.order_id, "error": self._settling.why(error)}
                report(logger, logging.WARNING, Event.ORDER_UNREAD, message, **fields)
            else:
                submission.order = order or submission.order

    def _ref(self, order_id: str) -> OrderRef:
        check_order_id(order_id)
        return OrderRef(service=self._names.service, account=self._names.account, order_id=order_id)

"""Orders: one order = one Idempotency-Key = one body, for ever; and at most one POST that nobody can account for.

Every order is submitted by a worker that the client owns. Callers wait for its outcome; a caller who is cancelled
(a browser that went away) changes nothing but that caller.
"""

import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractContextManager
from functools import partial

from vidgen_async.clock import Clock
from vidgen_async.errors import InvalidRequestError, OrderStateError
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal
from vidgen_async.orders.error_messages import (
    check_adoptable,
    check_age,
    check_attempt,
    check_reason,
    taken_by_another,
    wanted_states,
    wrong_state,
)
from vidgen_async.orders.results import Results
from vidgen_async.orders.sending import Check, OnReceipt, Resend, Sender
from vidgen_async.service.endpoints import checked_task_id
from vidgen_async.service.request_body import create_body, read_request
from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    RunningTask,
)
from vidgen_async.types.resources import Receipt, TaskLike, VideoRequest, VideoTask

logger = logging.getLogger(__name__)

LONGEST_ORDER_ID = 200
#: For how many seconds the service is taken to remember an Idempotency-Key. Its description (section 8) does not say.
KEY_LIFETIME = 3600.0

#: Looking at very many orders lets the event loop breathe after so many.
_CHUNK = 1000


class Orders:
    """The orders of one account on one journal, and what a person can do about an uncertain one."""

    def __init__(
        self,
        sender: Sender,
        journal: Journal,
        clock: Clock,
        *,
        service: str,
        account: str,
        check_usable: Callable[[], None],
        get_task: Callable[[str], Awaitable[VideoTask]],
        check: Callable[[VideoRequest], Awaitable[object]] | None = None,
        key_lifetime: float = KEY_LIFETIME,
    ) -> None:
        self._sender = sender
        self._settlement = sender.settlement
        self.results = Results(journal, clock, service, sender.settlement.describe)
        """How tasks ended is written to the journal."""
        self._journal = journal
        self._clock = clock
        self._service = service
        self._account = account
        self._key_lifetime = key_lifetime
        self._get_task = get_task
        self._check = check
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
        ref, body = self._ref(order_id), create_body(request)
        check = self._check_of(request) if validate else None
        return await self._sender.submit(ref, body, check=check, on_receipt=on_receipt, usable=self._check_usable)

    def _check_of(self, request: VideoRequest) -> Check | None:
        return None if self._check is None else partial(self._check, request)

    # -- looking, and a person's word ----------------------------------------------------------------------------------

    async def get(self, order_id: str) -> Order | None:
        """What is on record about the order; None when nothing is."""
        self._check_usable()
        order = await self._journal.get(self._ref(order_id), self._clock.wall())
        return None if order is None else self._settlement.known(order)

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
        now = self._clock.wall()
        orders = await self._journal.list(self._service, self._account, now, is_terminal=is_terminal)
        found: list[Order] = []
        for start in range(0, len(orders), _CHUNK):
            found.extend(
                order for order in map(self._settlement.known, orders[start : start + _CHUNK]) if order.state in wanted
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
            page = await self._journal.running(self._service, self._account, after=after)
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
        check = self._check_of(read_request(order.body)) if validate else None
        return await self._sender.submit(
            order.ref, order.body, check=check, on_receipt=on_receipt, usable=self._check_usable
        )

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
        if self._sender.submission(order_id) is not None:
            raise wrong_state(order, "resent while it is being submitted")
        self._check_usable()  # the client may have been closed while the journal was read
        return await self._sender.resend(order, Resend(expect_attempt=expect_attempt, reason=reason, by=by))

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
                f"there is no order {order_id!r} of account {self._account!r} at {self._service} in the "
                "journal; whether the service has it, that does not tell"
            )
            raise OrderStateError(message, order_id=order_id)
        if order.state not in states:
            raise wrong_state(order, done)
        return order

    async def aclose(self, grace: float = 5.0) -> None:
        """Wait up to ``grace`` seconds for the orders under way, then leave. What was not answered by then stays
        *sending* on record, and its callers get an UncertainCreateError."""
        try:
            await self._sender.aclose(grace)
        finally:
            await self.results.aclose()

    def _ref(self, order_id: str) -> OrderRef:
        check_order_id(order_id)
        return OrderRef(service=self._service, account=self._account, order_id=order_id)


def check_order_id(order_id: object) -> None:
    """Raise InvalidRequestError for what cannot name an order."""
    problem = None
    if not isinstance(order_id, str):
        problem = f"order_id must be a string, not {type(order_id).__name__}"
    elif not order_id.strip() or order_id != order_id.strip():
        problem = f"order_id must not be empty or begin or end with white space: {order_id!r}"
    elif len(order_id) > LONGEST_ORDER_ID or not order_id.isprintable():
        problem = f"order_id must be at most {LONGEST_ORDER_ID} printable characters: {order_id[:80]!r}"
    if problem:
        raise InvalidRequestError(problem, problems=[problem])

"""Orders: one order = one Idempotency-Key = one body, forever; and at most one POST with an unknown outcome.

This is the public interface: creates, and the decisions of an operator about uncertain ones. How an order is sent is in
:mod:`vidgen_async.orders.sending`.
"""

import asyncio
import logging
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Protocol, get_args

from attrs import mutable

from vidgen_async.clock import wait_for_end, within
from vidgen_async.errors import AuthenticationError, InvalidRequestError, JournalError, NotSentError, OrderStateError
from vidgen_async.events import Event
from vidgen_async.journal.base import SpendingJournal
from vidgen_async.orders.budgets import Budgets, add_up
from vidgen_async.orders.error_messages import (
    check_adoptable,
    check_age,
    check_attempt,
    check_page,
    check_reason,
    check_shard,
    conflict,
    parse_states,
    still_sending,
    unreadable,
    wrong_state,
)
from vidgen_async.orders.sending import OnReceipt, Resend, Sender, Shared
from vidgen_async.orders.settlement import report_found_uncertain
from vidgen_async.service.endpoints import (
    add_image_ids,
    checked_task_id,
    content_of_images,
    create_body,
    read_request,
)
from vidgen_async.types.budgets import BudgetState, SpendKey, SpendRow
from vidgen_async.types.http import Delivery
from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderContent,
    OrderRef,
    OrderState,
    OrderStates,
    OrderSummary,
    RunningTask,
    Shard,
)
from vidgen_async.types.resources import Receipt, TaskLike, VideoRequest, VideoTask
from vidgen_async.user_code import UserCode

logger = logging.getLogger(__name__)

LONGEST_ORDER_ID = 200
#: Orders are processed in chunks of this size, between which the event loop runs.
_CHUNK = 1000


class ImagesToUpload(Protocol):
    """The local images of one request, which are not uploaded yet."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What each is compared by: the SHA-256 of its content, or the image id of an asset."""
        ...

    async def upload(self) -> tuple[str, ...]:
        """Upload them, and return their image ids. Cancelling the call stops the upload."""
        ...


@mutable(eq=False, repr=False, slots=False)
class Orders:
    """The orders of one account on one journal, and what a person can do about an uncertain one."""

    _shared: Shared
    _sender: Sender
    _account: str
    _get_task: Callable[[str], Awaitable[VideoTask]]
    _check: Callable[[VideoRequest], Awaitable[object]]
    """Raises InvalidRequestError for a request that is not worth sending."""
    _budgets: Budgets

    def __attrs_post_init__(self) -> None:
        self.results = self._shared.results
        """Decides which ends of tasks are recorded in the journal."""

    # -- creating ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        request: VideoRequest,
        *,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        validate: bool = True,
        images: ImagesToUpload | None = None,
        on_order: Callable[[], None] | None = None,
        wait_for_sender: float | None = None,
    ) -> Receipt:
        """Create the order's task, once. The same order id again returns the same receipt, or joins the send under way.

        With ``validate`` the request is checked before it is stored; an order that was accepted, or may have been, is
        not checked again. Cancelling the caller stops nothing: the outcome is stored under the order id. But the upload
        of local ``images`` is stopped, and then there is no order; ``on_order`` is called when they are uploaded.

        Raises:
            NotSentError, RejectedError, UncertainCreateError, OrderConflictError: What became of the order.
            JournalError: The journal failed before the order was sent.
            ReceiptNotStoredError: The journal failed after the order was accepted.
            InvalidRequestError: Nothing was sent or stored.
            ServiceError, TransportError: An image could not be uploaded. Nothing was stored.
            StillSendingError: The order had no outcome within ``wait_for_sender`` seconds; it is carried out
                nevertheless. An upload that was under way is stopped.
        """
        self._shared.check_usable()
        is_new = order_id is None
        if order_id is None:
            order_id = str(uuid.uuid4())
            Event.ORDER_ID_CREATED.log(logger, order_id=order_id)
        elif self._shared.has_unnamed_journal:
            self._shared.has_unnamed_journal = False
            warnings.warn(
                "this client keeps its orders in memory: after a restart the same order id would create and charge a "
                'second video. Name a journal, Client(journal="sqlite:///orders.db") or VIDGEN_JOURNAL; "memory:" '
                "names this one",
                UserWarning,
                stacklevel=3,
            )
        is_number = isinstance(wait_for_sender, int | float) and not isinstance(wait_for_sender, bool)
        if wait_for_sender is not None and not (is_number and wait_for_sender > 0):
            problem = f"must be a number of seconds above 0, or None: {wait_for_sender!r}"
            raise InvalidRequestError(f"wait_for_sender: {problem}")
        ref = self._ref(order_id)

        async def work() -> Receipt:
            if images is None:
                content, checked = OrderContent(body=create_body(request)), request
            else:
                content = await self._add_images(ref, request, images, validate=validate)
                self._shared.check_usable()  # the client may have been closed during the upload
                checked = read_request(content.body)
            if on_order is not None:
                on_order()
            check = partial(self._check_request, ref, checked) if validate else None
            return await self._sender.submit(ref, content, check=check, on_receipt=on_receipt, is_new=is_new)

        if wait_for_sender is None:
            return await work()
        try:
            return await within(self._shared.clock, wait_for_sender, work)
        except TimeoutError:
            raise still_sending(order_id, await self.find(order_id), wait_for_sender) from None

    def is_sending(self, order_id: str) -> bool:
        """Whether this client is sending a create of the order, of which a byte may have left."""
        create = self._sender.find_running(self._ref(order_id))
        return create is not None and create.delivery is not Delivery.NOT_SENT

    def cancel_unsent(self, order_id: str) -> None:
        """End the create of the order unless a byte of it may have left: its callers get a NotSentError, or what is
        known of earlier attempts. The order stays queued, so that a later call can send it."""
        create = self._sender.find_running(self._ref(order_id))
        if create is not None and create.worker is not None and create.delivery is Delivery.NOT_SENT:
            create.worker.cancel()

    async def refuse_if_known(self, order_id: str, problems: Iterable[str]) -> None:
        """Raise OrderStateError for an order that is known, or being submitted: the local images of this call have
        these ``problems``, so that nothing shows whether it is the same request."""
        self._shared.check_usable()
        ref = self._ref(order_id)
        async with self._shared.upload_locks.setdefault(ref, asyncio.Lock()):
            order = await self.find(order_id)
            if order is not None or self._sender.find_running(ref) is not None:
                raise unreadable(order_id, OrderState.QUEUED if order is None else order.state, problems)

    async def _add_images(
        self, ref: OrderRef, request: VideoRequest, images: ImagesToUpload, *, validate: bool
    ) -> OrderContent:
        """Upload the images before the order is stored: until then there is no order, and no charge. Concurrent calls
        upload once, provided that the caller submits the content before it awaits anything else."""
        async with self._shared.upload_locks.setdefault(ref, asyncio.Lock()):
            running = self._sender.find_running(ref)
            known = await self._shared.settlement.read(ref) if running is None else running.content
            if known is not None:
                return _with_known_ids(ref, request, images, known)
            planned = add_image_ids(request, images.keys)
            if validate:
                await self._check_request(ref, planned)
            ids = await images.upload()
            local = {each: key for each, key in zip(ids, images.keys, strict=True) if each != key}
            return OrderContent(body=create_body(add_image_ids(request, ids)), local_images=local)

    async def _check_request(self, ref: OrderRef, request: VideoRequest) -> None:
        try:
            await self._check(request)
        except AuthenticationError as refused:
            message = f"order {ref.order_id!r} was not sent: models.list: 401: the API key was refused."
            raise NotSentError(message, order_id=ref.order_id, advice=refused.advice) from refused.with_traceback(None)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def get(self, order_id: str) -> Order:
        """The order as the journal has it.

        Raises:
            OrderStateError: The journal has no such order of this account at this service; ``state`` is None.
        """
        order = await self.find(order_id)
        if order is None:
            message = (
                f"there is no order {order_id!r} of account {self._account!r} at {self._shared.service} in the "
                "journal; that does not tell whether the service has it"
            )
            raise OrderStateError(message, order_id=order_id)
        return order

    async def find(self, order_id: str) -> Order | None:
        """The same where the order may be unknown: None if it is."""
        self._shared.check_usable()
        order = await self._shared.settlement.read(self._ref(order_id))
        return None if order is None else self._shared.settlement.add_unwritten(order)

    async def states(self, order_ids: Iterable[str]) -> dict[str, OrderSummary]:
        """The states of those of the orders that the journal has, by their ids: read in pages, and without what they
        ask for. Nothing is sent. Cancelling the call has no effect.

        Raises:
            InvalidRequestError: One of them is no order id.
            JournalError: The journal cannot be read.
        """
        self._shared.check_usable()
        await self._shared.settlement.flush_results()
        ids, now = [self._ref(order_id).order_id for order_id in dict.fromkeys(order_ids)], self._shared.clock.wall()
        if isinstance(self._shared.journal, SpendingJournal) and not self._shared.settlement.unwritten:
            found = await self._shared.journal.summaries(self._shared.service, self._account, ids, now)
            return {summary.order_id: summary for summary in found}
        orders = [await self.find(order_id) for order_id in ids]
        return {order.order_id: OrderSummary.of(order) for order in orders if order is not None}

    async def budget(self) -> BudgetState | None:
        """The budget, and what counts towards it now; of several the one with the fewest free points. None without one.

        Raises:
            JournalError: The journal cannot be read.
        """
        self._shared.check_usable()
        return await self._budgets.read(self._shared.service, self._account, self._shared.clock.wall())

    async def prepare_budget(self) -> None:
        """Compare the sums of a budget with the orders, once; without one nothing is read. A client does it when it is
        entered, or at its first create."""
        await self._budgets.prepare(self._shared.service, self._account)

    async def spend(self, by: SpendKey = "day", *, since: datetime | None = None, tz: tzinfo = UTC) -> list[SpendRow]:
        """What the creates of this account have cost, as far as the journal knows, with or without a budget. Nothing is
        sent. The orders are read in pages, between which others are created.

        An unknown cost is no 0: ``SpendRow.unknown`` counts it. Whether the service has refunded a failed task is in
        its ledger alone (7.2).

        Args:
            by: ``day`` (of the send, in the time zone ``tz``), ``model`` or ``state``: ``completed`` or ``failed``
                where the end of the task was seen; else the outcome of each create where the order has a task; else
                the state of the order.
            since: Only creates that were sent then or later; with a time zone.
            tz: The time zone of days.

        Raises:
            InvalidRequestError: An argument is not valid.
            JournalError: The journal cannot be read, or is one of your own that does not add up costs.
        """
        self._shared.check_usable()
        check_page(since, None)
        if by not in get_args(SpendKey):
            raise InvalidRequestError(f"by: must be one of {', '.join(get_args(SpendKey))}: {by!r}")
        if not isinstance(self._shared.journal, SpendingJournal):
            raise JournalError(
                f"the journal {type(self._shared.journal).__name__} does not add up what orders have cost"
            )
        await self._shared.settlement.flush_results()
        return await add_up(self._shared.journal.spend(self._shared.service, self._account, since), by, tz)

    async def find_accepted(self, task_id: str) -> datetime | None:
        """When the service accepted the order whose receipt is this task, of any account; None if that is unknown."""
        for evidence in self._shared.settlement.unwritten.values():
            if evidence.task_id == task_id:
                return evidence.at
        nobody = OrderRef(service=self._shared.service, account=self._account, order_id="")
        ref = await self._shared.journal.owner(nobody, task_id)
        order = None if ref is None else await self._shared.journal.get(ref, self._shared.clock.wall())
        attempts = () if order is None else order.attempts
        found = [each.evidence.at for each in attempts if each.evidence and each.evidence.task_id == task_id]
        return min(found, default=None)

    async def list(
        self,
        states: OrderStates | None = None,
        *,
        is_terminal: bool | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[Order]:
        """Orders of this account, oldest first. Nothing is sent.

        An attempt whose deadline has passed without an outcome, since its process ended, is *uncertain* from here on;
        ``order.unclear`` holds the evidence.

        Args:
            states: Only orders in this state, or in one of these.
            is_terminal: Only orders with tasks, all of which are known to have ended (True), or not (False).
            since: Only orders that were created then or later; with a time zone.
            after: Only orders that follow the one with this order id, which is the last of the previous page.
            limit: The maximum number of orders.
            newest_first: Reverse the sequence.

        Raises:
            InvalidRequestError: A filter is not valid.
            JournalError: The journal cannot be read, or has no order ``after``.
        """
        self._shared.check_usable()
        accepted_states = parse_states(states)
        check_page(since, limit)
        # Evidence that the journal does not have yet may change the state of an order.
        is_journal_complete = not self._shared.settlement.unwritten
        now = self._shared.clock.wall()
        orders = await self._shared.journal.list(
            self._shared.service,
            self._account,
            now,
            states=None if states is None or not is_journal_complete else accepted_states,
            is_terminal=is_terminal,
            since=since,
            after=after,
            limit=limit if is_journal_complete else None,
            newest_first=newest_first,
        )
        found: list[Order] = []
        for number, order in enumerate(orders, 1):
            report_found_uncertain(order, now)
            known = self._shared.settlement.add_unwritten(order)
            if known.state in accepted_states:
                found.append(known)
            if number % _CHUNK == 0:
                await self._shared.clock.sleep(0)
        return found[:limit]

    async def running(self, *, shard: Shard | None = None) -> AsyncGenerator[RunningTask, None]:
        """Each task of this account's orders that is not known to have ended (``videos.rewatch`` defines *known*),
        oldest receipt first, without the order's body: made for hundreds of thousands. A task that several receipts
        name may be yielded several times.

        Nothing is sent. The journal is read in pages while the loop runs, so creates are not held up, and tasks
        accepted meanwhile are yielded too.

        Args:
            shard: ``(i, n)``: only the tasks of share ``i`` of ``n``, as ``videos.rewatch`` defines it.

        Raises:
            InvalidRequestError: The shard is not valid.
            JournalError: The journal cannot be read.
        """
        check_shard(shard)
        after: int | None = 0
        while after is not None:
            self._shared.check_usable()  # a journal that was closed would open again
            page = await self._shared.journal.running(self._shared.service, self._account, after=after, shard=shard)
            after = page.after
            for task in page.tasks:
                yield task
            await self._shared.clock.sleep(0)  # a journal in memory never waits

    def handling(self, *tasks: TaskLike) -> AbstractContextManager[None]:
        """A block that handles the end of these tasks: their end is recorded only when the block, and every concurrent
        block for the same task, was left without an error.

        Use it for work that follows a ``wait``, ``watch`` or ``as_completed``: a process that dies in the block, or
        whose block raises or is cancelled, gets the outcome again from its next ``videos.rewatch``.
        ::

            with client.orders.handling(receipt):
                await client.videos.download(await client.videos.wait(receipt), "hero.mp4")
        """
        return self.results.handling([checked_task_id(task) for task in tasks])

    async def resume(self, order_id: str, *, on_receipt: OnReceipt | None = None, validate: bool = True) -> Receipt:
        """Continue with a stored order by its id alone: return its receipt, if there is one; await a send under way;
        or, if it is proven that the service does not have it (queued, not sent, rejected), send the stored bytes under
        the stored key, after the check of ``validate``.

        Raises:
            OrderStateError: There is no such order, or it was withdrawn. Otherwise the errors of :meth:`create`.
        """
        states = set(OrderState) - {OrderState.WITHDRAWN}
        order = await self._in_state(order_id, "resumed", states)
        check = partial(self._check_request, order.ref, read_request(order.body)) if validate else None
        return await self._sender.submit(order.ref, order, check=check, on_receipt=on_receipt)

    # -- an operator's decisions ---------------------------------------------------------------------------------------

    async def resend(
        self,
        order_id: str,
        *,
        expect_attempt: int,
        reason: str,
        by: str = "",
        accept_duplicate_risk: bool = False,
    ) -> Receipt:
        """Send an uncertain order once more, accepting that this may create and charge a second task. The stored bytes
        are sent under the stored key, whatever was upgraded or reconfigured since.

        Args:
            expect_attempt: The number of the last attempt you know of: of two operators who decide the same, one sends.
            reason: Recorded, like ``by``.
            accept_duplicate_risk: Needed when the key was first sent longer ago than the client's ``key_lifetime``: a
                service that has forgotten the key creates, and charges, a second task if there is a first.

        Raises:
            OrderStateError: Nothing was sent: the order is not uncertain, has another attempt, or is too old.
            UncertainCreateError: It is still uncertain. ``__cause__`` is the refusal of the resend, if there was one.
                Otherwise the errors of :meth:`create`.
        """
        order = await self.check_resend(
            order_id, expect_attempt=expect_attempt, reason=reason, accept_duplicate_risk=accept_duplicate_risk
        )
        return await self._sender.resend(order, Resend(expect_attempt=expect_attempt, reason=reason, by=by))

    async def check_resend(
        self, order_id: str, *, expect_attempt: int, reason: str, accept_duplicate_risk: bool = False
    ) -> Order:
        """Return the order if :meth:`resend` with these arguments would send it now, else raise what that would raise.
        Nothing is sent or recorded: for a check before an operator is asked to confirm."""
        check_reason("resend", reason)
        order = await self._in_state(order_id, "resent", {OrderState.UNCERTAIN})
        check_attempt(order, expect_attempt)
        if not accept_duplicate_risk:
            check_age(order, self._shared.clock.wall(), self._shared.key_lifetime)
        if self._sender.find_running(order.ref) is not None:
            raise wrong_state(order, "resent while it is being submitted")
        return order

    async def adopt(self, order_id: str, task_id: str, *, reason: str = "", by: str = "") -> Receipt:
        """Record that this task is the order's. The task is read (GET, section 4.5) and, if it exists, becomes the
        order's receipt; that is final. A receipt of a send that is still under way is stored beside it, and reported as
        an error. A task that is the order's receipt already is returned as such.

        Raises:
            NotFoundError: The service does not know the task.
            OrderStateError: The task is the receipt of another order, cannot belong to this one (another model, or
                created more than an hour, by which clocks may differ, before the order), or the order is not
                uncertain, abandoned or sending.
        """
        checked_task_id(task_id)
        known = await self.find(order_id)
        if known is not None and known.receipt is not None and known.receipt.task_id == task_id:
            return known.receipt
        states = {OrderState.UNCERTAIN, OrderState.ABANDONED, OrderState.SENDING}
        order = await self._in_state(order_id, "adopted", states)
        check_adoptable(order, read_request(order.body), await self._get_task(task_id))
        self._shared.check_usable()  # the client may have been closed while the task was read
        now = self._shared.clock.wall()
        cause = f"adopted by {by or 'an operator'}" + (f": {reason}" if reason else "")
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=now, task_id=task_id, cause=cause)
        reserved = max((one.reserved for one in order.attempts if one.reserved is not None), default=None)
        adoption = Attempt(
            n=0,
            sent_at=now,
            deadline_at=now,
            kind="adopt",
            by=by,
            reason=reason,
            reserved=reserved,
            evidence=evidence,
        )
        found = await self._shared.journal.adopt(order.ref, adoption, states)
        if found.ref != order.ref:
            whose = "" if found.ref.account == order.ref.account else f" of account {found.ref.account!r}"
            taken = f"task {task_id!r} already belongs to order {found.order_id!r}{whose}"
            message = f"{taken}; order {order_id!r} cannot adopt it"
            raise OrderStateError(message, order_id=order_id, state=order.state)
        if (receipt := found.receipt) is None or task_id not in found.task_ids:
            raise wrong_state(found, "adopted")  # another process changed the order in between
        return receipt

    async def abandon(self, order_id: str, reason: str, *, by: str = "") -> Order:
        """Close an uncertain order, accepting that a task may exist and be charged. A late receipt still wins."""
        check_reason("abandon", reason)
        return await self._close(order_id, "abandoned", OrderState.ABANDONED, {OrderState.UNCERTAIN}, reason, by)

    async def withdraw(self, order_id: str, reason: str = "", *, by: str = "") -> Order:
        """Cancel an order that is still queued: it is never sent."""
        return await self._close(order_id, "withdrawn", OrderState.WITHDRAWN, {OrderState.QUEUED}, reason, by)

    async def _close(
        self, order_id: str, done: str, to: OrderState, states: set[OrderState], reason: str, by: str
    ) -> Order:
        order = await self._in_state(order_id, done, states)
        closing = Closing(state=to, at=self._shared.clock.wall(), reason=reason, by=by)
        order = await self._shared.journal.close_order(order.ref, closing, states)
        if order.state is not to:
            raise wrong_state(order, done)
        return order

    async def _in_state(self, order_id: str, done: str, states: set[OrderState]) -> Order:
        order = await self.get(order_id)
        self._shared.check_usable()  # the client may have been closed while the journal was read
        if order.state not in states:
            raise wrong_state(order, done)
        return order

    async def aclose(self, grace: float = 5.0) -> None:
        """Wait up to ``grace`` seconds for the orders under way. Those without an answer by then stay *sending* in the
        journal, and their callers get an UncertainCreateError."""
        caller = asyncio.current_task()  # an on_receipt may be what closes the client
        creates = list(self._shared.creates.values())
        workers = [each.worker for each in creates if each.worker is not None and each.worker is not caller]
        try:
            if workers:
                await self._finish(workers, grace)
        finally:
            await self._shared.settlement.aclose(grace)

    async def _finish(self, workers: "Collection[asyncio.Task[None]]", grace: float) -> None:
        try:
            await within(self._shared.clock, grace, lambda: asyncio.wait(workers))
        except TimeoutError:
            if unanswered := sum(not worker.done() for worker in workers):
                Event.ORDERS_UNANSWERED.log(logger, count=unanswered, seconds=grace)
            for create in list(self._shared.creates.values()):  # other processes may have changed their orders
                with UserCode() as call:
                    create.order = await self._shared.settlement.read(create.ref) or create.order
                if call.error is not None:
                    error = self._shared.settlement.describe(call.error)
                    Event.ORDER_READ_FAILED.log(logger, order_id=create.ref.order_id, error=error)
        finally:
            self._shared.settlement.stop_waiting()
            for worker in workers:
                worker.cancel()
            await wait_for_end(workers)  # a second cancellation would interrupt what they write after the first one

    def _ref(self, order_id: str) -> OrderRef:
        check_order_id(order_id)
        return OrderRef(service=self._shared.service, account=self._account, order_id=order_id)


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
        raise InvalidRequestError(problem)


def _with_known_ids(ref: OrderRef, request: VideoRequest, images: ImagesToUpload, known: OrderContent) -> OrderContent:
    """The content with the image ids of a known order, whatever else in it may be different."""
    ids = read_request(known.body).image_ids
    asked = add_image_ids(request, images.keys).image_ids or ()
    if not isinstance(ids, tuple) or content_of_images(known, ids) != content_of_images(known, asked):
        raise conflict(ref.order_id, "was already used with other images")
    own = add_image_ids(request, ids[len(asked) - len(images.keys) :])
    return OrderContent(body=create_body(own), local_images=known.local_images)

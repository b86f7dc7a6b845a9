"""One create, from the call to its receipt; read it from top to bottom.

A call enters by :meth:`Sender.submit` (a first send, or it joins the one under way) or :meth:`Sender.resend`. A worker
that the client owns carries the order out: ``_create`` stores the intent, ``_send_until_settled`` loops over the
attempts, ``_attempt`` and ``_send`` make one. If a caller is cancelled (the browser of its user has disconnected), only
that caller is affected.

Two commits precede the first byte. The order is stored as *queued*; a slot of the rolling limit is reserved; the
connection is made; then the attempt is stored as *sending*, and only then the first byte is sent. Later evidence only
adds to that: after a crash, a cancellation or a lost answer the journal has *sending*. That is read as *uncertain* once
its deadline has passed or, in PostgreSQL, once its sender has ended and so released its lock
(``journal/postgres/session_lock.py``). This is the only code that sends a POST /videos.
"""

import asyncio
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from attrs import Factory, evolve, field, frozen, mutable
from yarl import URL

from vidgen_async.clock import Clock, backoff, hold_of, run_in_thread, within
from vidgen_async.errors import (
    CassetteError,
    ClientStateError,
    ConnectionLostError,
    JournalError,
    OrderStateError,
    RateLimitError,
    ServiceError,
    TransportError,
)
from vidgen_async.events import Event, contain_hook, current_order
from vidgen_async.journal.base import Journal, MustWait, OrderChanged, OverBudget
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.budgets import Budgets, budget_exceeded
from vidgen_async.orders.confirmation import confirm
from vidgen_async.orders.error_messages import (
    check_attempt,
    conflict,
    facts,
    interrupted,
    not_recorded,
    not_sent,
    uncertain,
    wrong_state,
)
from vidgen_async.orders.evidence import decode_body, evidence_of_answer, evidence_without_answer, split_response
from vidgen_async.orders.results import Results
from vidgen_async.orders.settlement import Settlement, report_found_uncertain, report_outcome
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import showable, visible_headers
from vidgen_async.service import request_records
from vidgen_async.service.api_keys import Key
from vidgen_async.service.candidates import find_candidates
from vidgen_async.service.codec import Answer, is_json_object
from vidgen_async.service.endpoints import Endpoints, is_same_request, model_of, prompt_of
from vidgen_async.service.error_responses import describe_outcome, recorded_refusal, rejected_error, service_error
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.types.http import LONG_ANSWER, LONGEST_ANSWER, BytesBody, Delivery, Headers, Phase, Request
from vidgen_async.types.limits import KEY_LIFETIME, PAUSE_WITHOUT_RETRY_AFTER, Pacing
from vidgen_async.types.orders import (
    SENDABLE,
    Attempt,
    AttemptOutcome,
    Evidence,
    Order,
    OrderContent,
    OrderRef,
    OrderState,
    Permission,
    idempotency_key,
)
from vidgen_async.types.resources import Receipt, TerminalStatus, VideoTask
from vidgen_async.user_code import UserCode, current_task, describe, must_propagate

logger = logging.getLogger(__name__)

#: Maximum number of connection attempts for one create (proven: no byte was sent).
CONNECT_ATTEMPTS = 3
#: Minimum number of seconds between a create that was answered with 429 and its next attempt.
SHORTEST_PAUSE = 1.0
#: Seconds after which a create that waits for a reserved slot reads the limit again.
RECHECK_INTERVAL = 1.0
#: With one read of the limit, a client takes the free slots divided by this: the processes that share it take turns.
SLOTS_DIVISOR = 8
#: Seconds added to a create's time limit; after that, other processes treat it as uncertain.
DEADLINE_MARGIN = 10.0
#: The deadline in seconds of a create without a time limit of its own.
DEADLINE_WITHOUT_LIMIT = 86400.0

#: Called, and awaited if it is async, when the receipt of a create is there.
OnReceipt: TypeAlias = Callable[[Receipt], Awaitable[None] | None]
#: Raises InvalidRequestError for a request that is not worth sending.
Check: TypeAlias = Callable[[], Awaitable[object]]


@frozen(kw_only=True)
class Resend:
    """An operator's decision to send an uncertain order once more."""

    expect_attempt: int
    """The number of the last attempt that the operator knew of."""
    reason: str
    by: str = ""


@mutable(eq=False)
class Received:
    """What was received of the answer to a create."""

    request: Request
    status: int
    headers: Headers
    body: bytearray = Factory(bytearray)
    is_complete: bool = False


@mutable(eq=False, kw_only=True)
class Create:
    """The state of one create: an order that a worker carries out, and the receipt that its callers await."""

    ref: OrderRef
    content: OrderContent
    resend: Resend | None = None
    worker: "asyncio.Task[None] | None" = None
    hooks: list[OnReceipt] = Factory(list)
    receipt: "asyncio.Future[Receipt]" = Factory(lambda: asyncio.get_running_loop().create_future())
    checked: "asyncio.Future[None]" = Factory(lambda: asyncio.get_running_loop().create_future())
    """Done when the request has passed its check: from then on it owns the order id."""
    order: Order | None = None
    """As last read or written; None before its intent is stored."""
    slots: "AccountSlots | None" = None
    """The slots of its account, while it has reserved one of them."""
    reserved: int | None = None
    """The points that each attempt may cost; None if that is unknown."""

    # Of the last attempt:
    delivery: Delivery = Delivery.NOT_SENT
    """Whether it may have been sent; *not sent* again once its outcome is part of the order."""
    attempt: Attempt | None = None
    """None if nothing was stored of it, so that nothing was sent."""
    key: Key | None = None
    """The API key that it is sent with, if a function returned it."""
    received: Received | None = None
    connection: Connection | None = None
    ended_by: BaseException | None = None
    """The first exception in it."""
    cause: BaseException | None = None
    """The same without secrets: the ``__cause__`` of what the caller gets."""
    refusal: ServiceError | None = None
    """The answer with which the service rejected it."""

    @property
    def stored_order(self) -> Order:
        """The order, of which at least the intent is stored."""
        if self.order is None:
            raise RuntimeError
        return self.order


@mutable(eq=False)
class AccountSlots:
    """The slots of an account's rolling limit that sends of this client are about to use."""

    lock: asyncio.Lock = Factory(asyncio.Lock)
    """Held by the create that waits for a slot; the others wait in line for the lock."""
    waiting: int = 0
    """Number of creates in line."""
    granted: int = 0
    """Number of slots that the last read has found for those in line."""
    reserved: int = 0
    released: asyncio.Event = Factory(asyncio.Event)


@mutable(eq=False, kw_only=True)
class Shared:
    """What all views of one client share, whatever their accounts and keys: one of each per client."""

    transport: Transport
    journal: Journal
    clock: Clock
    base_url: URL
    check_usable: Callable[[], None]
    """Raises ClientStateError unless the client may be used here and now."""
    user_agent: str = ""
    pacing: Pacing = Factory(Pacing)
    namespace: str | None = None
    """From it, with account and order id, each Idempotency-Key is derived; None: the journal's own."""
    key_lifetime: float = KEY_LIFETIME
    terminal_states: Mapping[str, TerminalStatus] = Factory(dict)
    """States that section 3 does not name, and the terminal ones that they count as."""
    known_secrets: tuple[str, ...] = field(default=(), repr=False)
    service: str = Factory(lambda own: str(own.base_url.origin()), takes_self=True)
    """Its origin, to which the orders belong."""
    settlement: Settlement = Factory(
        lambda own: Settlement(own.journal, own.clock, own.service, own.known_secrets), takes_self=True
    )
    results: Results = Factory(lambda own: Results(own.clock, own.settlement), takes_self=True)
    creates: dict[OrderRef, Create] = Factory(dict)
    """Under way."""
    slots: WeakValueDictionary[str, AccountSlots] = Factory(WeakValueDictionary)
    """By account."""
    upload_locks: WeakValueDictionary[OrderRef, asyncio.Lock] = Factory(WeakValueDictionary)
    """Held while the local images of an order are uploaded."""
    hiding_lock: asyncio.Lock = Factory(asyncio.Lock)
    has_answered: asyncio.Event = Factory(asyncio.Event)
    """Set once the service has answered in its own form, with a JSON object."""
    has_unnamed_journal: bool = False
    """Orders are kept in memory, which nobody asked for, and can be charged; False once that was warned about."""


@frozen(eq=False, repr=False)
class Sender:
    """Carries out the orders that are sent with one API key."""

    _shared: Shared
    _endpoints: Endpoints
    _balances: Balances
    _get_task: Callable[[str], Awaitable[VideoTask]]
    """Sends one GET of a task (4.5), which may be the one that the answer to a create did not name where it should."""
    _budgets: Budgets

    # -- the call ------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        ref: OrderRef,
        content: OrderContent,
        *,
        check: Check | None,
        on_receipt: OnReceipt | None,
        is_new: bool = False,
    ) -> Receipt:
        """Create the order's task, or join its create under way. Cancelling the caller stops nothing. If its id
        ``is_new``, the journal is not searched for the order first: storing it finds one with this id."""
        # A request that has not passed its check does not own the order id: if it fails, this call may still use it.
        # Only a call with the same request, which would be checked too, shares that failure.
        while (create := self.find_running(ref)) is not None and not create.checked.done():
            if is_same_request(create.content, content) and check is not None:
                break
            decided: list[asyncio.Future[Any]] = [create.receipt, create.checked]
            await asyncio.wait(decided, return_when=asyncio.FIRST_COMPLETED)
            self._shared.check_usable()
        if create is None:
            create = Create(ref=ref, content=content)
            self._start(create, self._create(create, check, is_new=is_new))
        elif not is_same_request(create.content, content):
            raise conflict(ref.order_id, "is being used for a different request, which is being sent now")
        try:
            return await self._await_receipt(create, on_receipt)
        except OrderStateError:
            # It joined a resend that was refused, because the order had changed since the operator read it. That is not
            # an outcome of the order, so this call starts again.
            self._shared.check_usable()
            return await self.submit(ref, content, check=check, on_receipt=on_receipt)

    async def resend(self, order: Order, resend: Resend) -> Receipt:
        """Send the uncertain order once more, as an operator decided. No create of it may be under way."""
        reserved = await self._budgets.estimate(order.ref, order.body)
        create = Create(ref=order.ref, content=order, order=order, resend=resend, reserved=reserved)
        create.checked.set_result(None)
        self._start(create, self._send_until_settled(create))
        return await self._await_receipt(create, None)

    def find_running(self, ref: OrderRef) -> Create | None:
        """The create of this order that still accepts callers."""
        create = self._shared.creates.get(ref)
        is_over = create is None or (create.worker is not None and create.worker.done())
        return None if is_over else create

    async def _await_receipt(self, create: Create, on_receipt: OnReceipt | None) -> Receipt:
        """Add the hook; return the receipt once the hook has returned."""
        if on_receipt is not None:
            create.hooks.append(on_receipt)
        receipt = await asyncio.shield(create.receipt)
        if on_receipt is not None and create.worker not in (None, asyncio.current_task()):
            await asyncio.wait([create.worker])
        return receipt

    # -- the worker of an order ----------------------------------------------------------------------------------------

    def _start(self, create: Create, work: Coroutine[Any, Any, Receipt]) -> None:
        create.worker = asyncio.create_task(self._run(create, work), name=f"order {create.ref.order_id}")
        create.worker.add_done_callback(partial(self._on_end, create))
        create.worker.add_done_callback(lambda _: work.close())  # it was cancelled before it began
        self._shared.creates[create.ref] = create

    async def _run(self, create: Create, work: Coroutine[Any, Any, Receipt]) -> None:
        """Carry out the order, give its callers the receipt, and call their hooks."""
        current_order.set(create.ref.order_id)
        Event.ORDER_STARTED.log(logger, order_id=create.ref.order_id)
        receipt = await work
        create.receipt.set_result(receipt)  # before the hooks: one of them may ask for this very order
        while create.hooks:
            hook = create.hooks.pop(0)
            # The order is accepted: an error of the caller must not hide the receipt.
            with contain_hook(logger, "on_receipt", order_id=create.ref.order_id, task_id=receipt.task_id):
                pending = hook(receipt)
                if inspect.isawaitable(pending):
                    await pending

    def _on_end(self, create: Create, worker: "asyncio.Task[None]") -> None:
        """Give the callers the outcome with which the worker ended."""
        if self._shared.creates.get(create.ref) is create:
            del self._shared.creates[create.ref]
        if create.receipt.done():
            return
        if worker.cancelled() and create.order is not None and create.order.receipt is not None:
            create.receipt.set_result(create.order.receipt)  # it was stored although the worker was cancelled
            return
        error = asyncio.CancelledError() if worker.cancelled() else worker.exception()
        if not isinstance(error, Exception | KeyboardInterrupt | SystemExit):
            why = (
                "the client was closed" if worker.cancelling() else f"its journal or its clock raised {describe(error)}"
            )
            is_sent = create.delivery is not Delivery.NOT_SENT
            error = interrupted(create.ref.order_id, create.order, create.refusal, why=why, may_have_been_sent=is_sent)
        create.receipt.set_exception(error)
        create.receipt.exception()  # marked as retrieved: asyncio would log it if every caller was cancelled

    async def _create(self, create: Create, check: Check | None, *, is_new: bool) -> Receipt:
        """Check the request, store the intent unless it is stored already, and send the order."""
        ref, content = create.ref, create.content
        await self._shared.settlement.flush(ref)
        order = create.order = None if is_new else await self._shared.settlement.read(ref)
        if order is not None and not is_same_request(order, content):
            raise conflict(ref.order_id, "was already used for a different request")
        if check is not None and (order is None or order.state in SENDABLE):
            await check()
        if order is None or order.state in SENDABLE:
            create.reserved = await self._budgets.estimate(ref, content.body)
        if not create.checked.done():
            create.checked.set_result(None)
        if order is None:
            if self._shared.namespace is None:
                self._shared.namespace = await self._shared.journal.namespace(secrets.token_hex(8))
            intent = Order(
                ref=ref,
                idempotency_key=idempotency_key(self._shared.namespace, ref.account, ref.order_id),
                model=model_of(content.body) or "",
                body=content.body,
                local_images=content.local_images,
                created_at=self._shared.clock.wall(),
            )
            create.order = order = await self._shared.journal.intend(intent)
            if not is_same_request(order, content):
                raise conflict(ref.order_id, "was already used for a different request")
        return await self._send_until_settled(create)

    async def _send_until_settled(self, create: Create) -> Receipt:
        """Send the order until there is an outcome; at most one send of it ever has an unknown outcome. The outcome of
        a concurrent send by another process or client is the outcome here too: its receipt, or its refusal."""
        connect_failures, max_wait = 0, self._shared.pacing.max_wait
        # The attempts that were settled before this call or by it: the rejection of any other is new to the caller.
        seen = {one.n for one in create.stored_order.attempts if one.outcome is not AttemptOutcome.SENDING}
        await self._shared.settlement.flush(create.ref)
        while True:
            await self._await_other_sender(create)
            await self._confirm(create)
            if (receipt := create.stored_order.receipt) is not None:
                if len(task_ids := create.stored_order.task_ids) > 1:
                    Event.ORDER_DUPLICATED.log(logger, order_id=create.ref.order_id, task_ids=task_ids)
                return receipt
            self._check_sendable(create, seen)
            await self._attempt(create)
            await self._confirm(create)
            order = create.stored_order
            if order.receipt is not None or isinstance(create.ended_by, OrderChanged):
                continue  # read the order again
            seen |= {attempt.n for attempt in order.attempts}
            if create.attempt is None or create.attempt.outcome is AttemptOutcome.NOT_SENT:
                connect_failures += 1
                if connect_failures == CONNECT_ATTEMPTS or isinstance(create.ended_by, ClientStateError):
                    known = [value for value in self._secrets_of(order) if len(value) <= LONG_ANSWER]
                    raise not_sent(order, create.ended_by, known) from _cause_of(create, known)
                pause = backoff(connect_failures, 1.0)
            else:
                max_wait -= _pause_of_retry(create, max_wait)
                pause = SHORTEST_PAUSE  # the account may be paused longer: _reserve_slot awaits and reports that
            await self._shared.clock.sleep(pause)

    async def _await_other_sender(self, create: Create) -> None:
        """Return once no other process or client is sending the order."""
        order = create.stored_order
        if order.state is OrderState.SENDING and (until := order.sending_until) is not None:
            seconds = round((until - self._shared.clock.wall()).total_seconds(), 1)
            at = f"{until:%Y-%m-%d %H:%M:%S} UTC"
            Event.ORDER_AWAITED.log(logger, order_id=order.order_id, seconds=seconds, until=at)
        pause = 0.05
        while order.state is OrderState.SENDING:
            await self._shared.clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)
            create.order = order = await self._shared.settlement.read(order.ref) or order

    async def _confirm(self, create: Create) -> None:
        """If the order is uncertain, check whether one of its candidates is its task."""
        if create.stored_order.state is OrderState.UNCERTAIN:
            create.order = await confirm(create.stored_order, self._shared.journal, self._shared.clock, self._get_task)

    def _check_sendable(self, create: Create, seen: Collection[int]) -> None:
        """Raise the error of an order that may not be sent, or the refusal with which a concurrent send ended."""
        order = create.stored_order
        if create.resend is not None:
            check_attempt(order, create.resend.expect_attempt)
            if order.state is not OrderState.UNCERTAIN:
                raise wrong_state(order, "resent")
            return
        # The last attempt may be a later one, which was not sent.
        refused = [one for one in order.attempts if one.outcome is AttemptOutcome.REJECTED and one.n not in seen]
        if order.state is OrderState.REJECTED and refused:
            wall = self._shared.clock.wall()
            raise recorded_refusal(refused[-1], origin=order.ref.service, wall=wall, **facts(order))
        if order.state is OrderState.WITHDRAWN:
            raise conflict(order.order_id, "was withdrawn")
        if order.state not in SENDABLE:
            raise uncertain(order)

    # -- one attempt ---------------------------------------------------------------------------------------------------

    async def _attempt(self, create: Create) -> None:
        """Send the order once: reserve a slot, connect, begin, send; whatever ends that, store what is known."""
        while True:
            await self._budgets.check(create.stored_order, create.reserved, self._shared.clock.wall())
            create.slots = await self._reserve_slot(create.ref)
            create.attempt = create.received = create.connection = create.ended_by = cancelled = None
            try:
                await within(self._shared.clock, self._endpoints.timeouts.create, partial(self._send, create))
            except TimeoutError:
                if isinstance(create.ended_by, asyncio.CancelledError | None):
                    limit = self._endpoints.timeouts.within("create")
                    create.ended_by = TimeoutError(f"no complete answer came {limit}")
            except asyncio.CancelledError as closing:
                cancelled = closing
            self._release_slot(create)
            await self._shared.settlement.complete(self._settle(create, is_closing=cancelled is not None))
            if cancelled is not None:
                raise cancelled
            if not isinstance(create.ended_by, MustWait):  # otherwise another process has taken the last slot
                break
        ended_by = create.ended_by
        if isinstance(ended_by, CassetteError | KeyboardInterrupt | SystemExit):
            raise ended_by
        is_retried = isinstance(ended_by, OrderChanged | TransportError | TimeoutError | ClientStateError)
        if create.attempt is None and ended_by is not None and not is_retried:
            raise ended_by  # the journal failed

    async def _send(self, create: Create) -> None:
        """Connect, store the attempt, send. Whatever ends this is recorded in the create; only the cancellation of the
        worker is raised."""
        states = SENDABLE if create.resend is None else frozenset({OrderState.UNCERTAIN})
        try:
            request = await self._make_request(create)
            create.delivery = Delivery.MAYBE_SENT  # unless connecting succeeds, or proves that nothing was sent
            async with self._connect(create, request) as connection:
                try:
                    self._check_connection(connection)
                    create.delivery = Delivery.NOT_SENT
                    create.connection = connection
                    await self._shared.settlement.complete(self._begin(create, self._shared.pacing, states))
                    _check_ready(connection)
                    create.delivery = Delivery.MAYBE_SENT
                    await self._receive(create, request, await connection.send())
                except BaseException as error:
                    create.ended_by = error  # whatever the transport then makes of it
                    raise
        except BaseException as error:
            create.ended_by = create.ended_by or error
            if create.attempt is None and _proves_not_sent(error):
                create.delivery = Delivery.NOT_SENT
            if isinstance(error, asyncio.CancelledError) and must_propagate(error, current_task()):
                raise

    async def _make_request(self, create: Create) -> Request:
        order = create.stored_order
        request = self._endpoints.create_video(BytesBody(order.body), order.idempotency_key)
        if (ring := self._endpoints.key_ring) is None:
            return request
        key = create.key = await ring.get(request, self._shared.clock)
        return ring.add_to(request, key)

    def _connect(self, create: Create, request: Request) -> AbstractAsyncContextManager[Connection]:
        if not request_records.logger.isEnabledFor(logging.DEBUG):
            return self._shared.transport.connect(request)
        n, known = len(create.stored_order.attempts) + 1, self._secrets_of(create.stored_order)
        return request_records.RequestRecord(request, self._shared.clock, n, known).connect(self._shared.transport)

    def _check_connection(self, connection: Connection) -> None:
        if not isinstance(connection, Connection):
            returned = f"{type(self._shared.transport).__name__}.connect returned {type(connection).__name__}"
            message = f"{returned}, not a Connection"
            raise TransportError(message, phase=Phase.CONNECT, op="videos.create")  # the response of a send, perhaps
        if connection.is_replay and self._shared.journal.durable:
            raise CassetteError(
                "a replayed create was about to be written into a durable journal, where it would count as sent; "
                "replay with a MemoryJournal"
            )

    async def _begin(self, create: Create, pacing: Pacing | None, states: Collection[OrderState]) -> None:
        """Store the attempt as *sending*. It must not be interrupted if the create is cancelled: a journal in a
        thread commits nevertheless."""
        order, resend, now = create.stored_order, create.resend, self._shared.clock.wall()
        limit = self._endpoints.timeouts.create
        seconds = DEADLINE_WITHOUT_LIMIT if limit is None else limit + DEADLINE_MARGIN
        permission = Permission(
            ref=order.ref,
            expect_attempt=len(order.attempts),
            states=states,
            now=now,
            deadline_at=now + timedelta(seconds=seconds),
            pacing=pacing,
            kind="create" if resend is None else "resend",
            by="" if resend is None else resend.by,
            reason="" if resend is None else resend.reason,
            mark=secrets.token_hex(8),
            reserved=create.reserved,
            limits=() if pacing is None else self._budgets.limits,
        )
        try:
            attempt = await self._shared.journal.begin(permission)
            if not isinstance(attempt, Attempt):  # as journals written for 0.1.0 return: no permission to send
                raise JournalError(f"the journal's begin returned {type(attempt).__name__}, not an Attempt")
        except MustWait:
            raise
        except OverBudget as over:
            raise budget_exceeded(order, over.state, create.reserved) from None
        except OrderChanged as changed:
            create.order = changed.order
            report_found_uncertain(changed.order, now)
            raise
        except BaseException:
            if create.delivery is Delivery.NOT_SENT:  # although the journal may have stored the attempt
                self._shared.settlement.record_unsent(order.ref, permission.mark)
            raise
        create.attempt, create.order, create.refusal = attempt, order.with_attempt(attempt), None
        self._release_slot(create)

    async def _receive(self, create: Create, request: Request, response: Response) -> None:
        """Read the answer into the create. One that is longer than LONGEST_ANSWER stays incomplete."""
        ring = self._endpoints.key_ring
        async with response:
            received = create.received = Received(request, response.status, response.headers)
            create.delivery = Delivery.ANSWERED
            if ring is not None and create.key is not None and response.status == HTTPStatus.UNAUTHORIZED:
                ring.discard(create.key)  # for the next create: this one is not repeated
            async for piece in response.chunks():
                received.body += piece
                if len(received.body) > LONGEST_ANSWER:
                    return
            received.is_complete = True

    # -- the outcome of an attempt -------------------------------------------------------------------------------------

    async def _settle(self, create: Create, *, is_closing: bool) -> None:
        """Store the outcome of the attempt; nothing if it has none yet, and the client is closing."""
        if create.attempt is None and create.delivery is not Delivery.NOT_SENT:
            await self._begin_unproven(create)
        attempt, order = create.attempt, create.stored_order
        is_complete = create.received is not None and create.received.is_complete
        if attempt is None or (is_closing and create.delivery is not Delivery.NOT_SENT and not is_complete):
            return
        evidence = await self._collect_evidence(create)
        if evidence.outcome is AttemptOutcome.UNCERTAIN:
            evidence = evolve(evidence, balance_before=self._balances.before(attempt.sent_at))
        report_outcome(order, attempt.n, evidence)
        create.order = order = await self._shared.settlement.write(order, attempt.n, evidence)
        create.attempt, create.delivery = order.attempts[attempt.n - 1], Delivery.NOT_SENT
        if create.resend is not None:
            create.resend = evolve(create.resend, expect_attempt=attempt.n)
        if evidence.task_id is not None and create.reserved is not None:
            self._shared.results.reserved[evidence.task_id] = create.reserved
        if evidence.outcome is AttemptOutcome.UNCERTAIN:
            self._balances.read_after(order.ref, attempt.n, evidence)

    async def _begin_unproven(self, create: Create) -> None:
        """Store the attempt of a transport that failed to connect without proof that nothing was sent, whatever the
        order has become meanwhile."""
        with UserCode() as call:
            while create.attempt is None:
                with suppress(OrderChanged):
                    await self._begin(create, None, frozenset(OrderState))
        if call.error is not None:
            cause = showable(call.error, self._endpoints.secret_values)
            raise not_recorded(create.stored_order, self._shared.settlement.describe(call.error)) from cause

    async def _collect_evidence(self, create: Create) -> Evidence:
        """Return the evidence of the attempt; set ``cause`` and ``refusal`` of the create. A long answer is examined in
        several turns of the event loop."""
        order, received, now = create.stored_order, create.received, self._shared.clock.wall()
        known = KnownValues(self._secrets_of(order))
        unparsed = b"" if create.connection is None else create.connection.unparsed
        if received is None:
            async with self._prepared(known):
                create.cause = _cause_of(create, known)
                return evidence_without_answer(create.delivery, create.ended_by, unparsed=unparsed, at=now, known=known)
        request, is_complete = received.request, received.is_complete
        await self._yield_to_loop(received)
        body = bytes(received.body)
        body = decode_body(body, received.headers) if is_complete else split_response(unparsed)[2] or body
        answer = Answer(
            request.op, received.status, received.headers, body, url=request.url, known=known, sent=order.body
        )
        await self._yield_to_loop(received)
        if is_json_object(body):
            self._shared.has_answered.set()
        await self._yield_to_loop(received)
        evidence = evidence_of_answer(answer, is_complete=is_complete, at=now)
        if evidence.outcome is AttemptOutcome.ACCEPTED:
            return evidence
        async with self._prepared(known):
            create.cause = _cause_of(create, known)
            failure = None if is_complete else create.ended_by
            cause = describe_outcome(answer, evidence.outcome, is_complete=is_complete, failure=failure)
            evidence = evolve(evidence, cause=cause)
            await self._yield_to_loop(received)
            if evidence.outcome is AttemptOutcome.REJECTED:
                create.refusal = service_error(answer, origin=order.ref.service, wall=now)
                return evidence
            headers = visible_headers(answer.headers, known)
        await self._yield_to_loop(received)
        candidates: tuple[str, ...] = ()
        if is_complete and 200 <= received.status < 300:
            candidates = find_candidates(answer, order.body, {*known, order.order_id})
        return evolve(evidence, body=body, headers=headers, candidates=candidates)

    def _secrets_of(self, order: Order) -> tuple[str, ...]:
        keys = () if self._endpoints.key_ring is None else self._endpoints.key_ring.known
        return (*self._endpoints.secret_values, *keys, order.idempotency_key, prompt_of(order.body))

    @asynccontextmanager
    async def _prepared(self, known: KnownValues) -> AsyncIterator[None]:
        """A block in which these values are hidden in texts. One block at a time, since hiding a long prompt takes
        fifty times its size in memory."""
        async with self._shared.hiding_lock:
            if known.is_long:
                # Not in a thread of the event loop's own executor, which may be busy. If no thread can be started, the
                # values are prepared on the event loop, later: the outcome of a create must not be lost.
                with suppress(RuntimeError), hold_of(self._shared.clock)(), ThreadPoolExecutor(1) as executor:
                    await run_in_thread(known.prepare, executor=executor)
            yield

    async def _yield_to_loop(self, received: Received) -> None:
        """Give the event loop a turn if each pass over the answer takes long."""
        if len(received.body) > LONG_ANSWER:
            await self._shared.clock.sleep(0)

    # -- the rolling limit ---------------------------------------------------------------------------------------------

    async def _reserve_slot(self, ref: OrderRef) -> AccountSlots:
        """Wait, in line, until the rolling limit has a slot that no other send of this client is about to use. One read
        of the limit serves many that are in line."""
        slots = self._shared.slots.setdefault(ref.account, AccountSlots())
        slots.waiting += 1
        try:
            async with slots.lock:
                if not slots.granted:
                    await self._wait_for_slots(ref, slots)
                slots.granted -= 1
                slots.reserved += 1
        finally:
            slots.waiting -= 1
            slots.granted = min(slots.granted, slots.waiting)  # nothing is kept for later, when it may not be free
        return slots

    async def _wait_for_slots(self, ref: OrderRef, slots: AccountSlots) -> None:
        while True:
            slots.released.clear()
            turn = await self._shared.journal.turn(
                ref.service, ref.account, self._shared.pacing, self._shared.clock.wall()
            )
            if turn.free > slots.reserved:
                slots.granted = min(turn.free - slots.reserved, slots.waiting, max(1, turn.free // SLOTS_DIVISOR))
                return
            if turn.free:
                with suppress(TimeoutError):  # more slots may be free by then
                    await within(self._shared.clock, RECHECK_INTERVAL, slots.released.wait)
            else:
                if round(turn.wait, 1) > 0:
                    level, reason = logging.INFO, "the submission limit is reached"
                    if turn.is_paused:
                        level, reason = logging.WARNING, "the service answered a create of the account with 429"
                    order_id, seconds = ref.order_id, turn.wait
                    Event.ORDER_PACED.log(logger, level=level, order_id=order_id, seconds=seconds, reason=reason)
                await self._shared.clock.sleep(turn.wait)

    def _release_slot(self, create: Create) -> None:
        """Release the slot: it is free again, or the stored attempt now counts in its place."""
        if create.slots is not None:
            create.slots.reserved -= 1
            create.slots.released.set()
            create.slots = None


def _check_ready(connection: Connection) -> None:
    if not connection.is_ready:
        message = "the service closed the connection, or sent data on it, before the request was sent"
        raise ConnectionLostError(message, delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op="videos.create")


def _cause_of(create: Create, known: Iterable[str]) -> BaseException | None:
    """What may be shown of what ended the attempt; of a failure of the network without the frames of the send."""
    cause = showable(create.ended_by, known)
    is_expected = isinstance(cause, TransportError | TimeoutError) and cause.__cause__ is None
    return cause.with_traceback(None) if cause is not None and is_expected else cause


def _proves_not_sent(error: BaseException) -> bool:
    """Whether what ended ``connect`` proves that nothing was sent."""
    proof = error.__cause__ if isinstance(error, asyncio.CancelledError) else error
    if isinstance(proof, TransportError):
        return proof.delivery is Delivery.NOT_SENT
    return isinstance(proof, CassetteError | ClientStateError)


def _pause_of_retry(create: Create, max_wait: float) -> float:
    """Return the seconds after which a create is retried: it was answered with a 429 whose pause is at most
    ``max_wait``. Raise any other outcome."""
    order, refusal = create.stored_order, create.refusal
    if order.state is not OrderState.REJECTED or refusal is None:
        raise uncertain(order, refusal) from refusal or create.cause
    pause = PAUSE_WITHOUT_RETRY_AFTER if refusal.retry_after is None else max(refusal.retry_after, SHORTEST_PAUSE)
    # A page that is not the service's own is no evidence of the rate: a proxy may answer every create with it.
    is_own = is_json_object(refusal.body)
    if not isinstance(refusal, RateLimitError) or not is_own or pause > max_wait:
        raise rejected_error(refusal, **facts(order))
    return pause

"""One create, from the call to its receipt; read it from top to bottom.

A call enters by :meth:`Sender.submit` (a first send, or it joins the one under way) or :meth:`Sender.resend`. A worker
that the client owns carries the order out: ``_create`` stores the intent, ``_send_until_settled`` loops over the
attempts, ``_send`` sends one. A caller who is cancelled (a browser that went away) changes nothing but that caller.

Two commits precede the first byte. The order is stored as *queued*; a slot of the rolling limit is reserved; the
connection is made; then, in the gate, the attempt is stored as *sending*, and only then the first byte is sent. Later
evidence only adds to that: after a crash, a cancellation or a lost answer the journal has *sending*. That is read as
*uncertain* once its deadline has passed or, in PostgreSQL, once its sender has ended and so released its lock
(``journal/postgres/session_lock.py``). This is the only code that sends a POST /videos.
"""

import asyncio
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TypeAlias
from weakref import WeakValueDictionary

from attrs import Factory, evolve, field, frozen, mutable

from vidgen_async.clock import Clock, backoff, in_turns, wait_for_end, within
from vidgen_async.errors import (
    CassetteError,
    CreateError,
    JournalError,
    OrderStateError,
    RateLimitError,
    RejectedError,
    ServiceError,
    UncertainCreateError,
)
from vidgen_async.events import Event, contain_hook, report
from vidgen_async.journal.base import Journal
from vidgen_async.orders.balances import Balances, end_readers
from vidgen_async.orders.confirmation import Confirmation
from vidgen_async.orders.error_messages import (
    check_attempt,
    conflict,
    facts,
    interrupted,
    is_unaccounted,
    not_recorded,
    not_sent,
    uncertain,
    wrong_state,
)
from vidgen_async.orders.evidence import evidence_of_answer, evidence_without_answer
from vidgen_async.orders.settlement import Settlement, report_found_uncertain, report_outcome
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import visible_headers
from vidgen_async.service import request_records
from vidgen_async.service.body_decoding import decode_body
from vidgen_async.service.candidates import find_candidates
from vidgen_async.service.codec import Answer, is_json_object, read_created_id
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.error_responses import describe_outcome, recorded_refusal, rejected_error, service_error
from vidgen_async.service.request_body import is_same_request, prompt_of
from vidgen_async.transports.base import Response, Transport, capabilities_of
from vidgen_async.types.http import (
    LONG_ANSWER,
    LONGEST_ANSWER,
    BytesBody,
    Delivery,
    Headers,
    Probe,
    Request,
    make_headers,
)
from vidgen_async.types.limits import PAUSE_WITHOUT_RETRY_AFTER, Pacing, Turn
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
from vidgen_async.types.resources import Receipt

logger = logging.getLogger(__name__)

#: Maximum number of connection attempts for one create (proven: no byte was sent).
CONNECT_ATTEMPTS = 3
#: Seconds between a create that was answered with 429 and its next attempt, however short its Retry-After.
SHORTEST_PAUSE = 1.0
#: Seconds after which a create that waits for a reserved slot reads the limit again.
RECHECK_INTERVAL = 1.0
#: Seconds added to a create's time limit; after that, other processes treat it as uncertain.
DEADLINE_MARGIN = 10.0
#: The deadline in seconds of a create without a time limit of its own.
DEADLINE_WITHOUT_LIMIT = 86400.0
#: Log level and reason for a create that waits, by Turn.is_paused.
_WAITS = {
    False: (logging.INFO, "the submission limit is reached"),
    True: (logging.WARNING, "the service answered a create of the account with 429"),
}

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


@mutable(eq=False, kw_only=True)
class Submission:
    """An order being carried out: its worker, and the receipt that its callers await."""

    ref: OrderRef
    content: OrderContent
    receipt: "asyncio.Future[Receipt]"
    worker: "asyncio.Task[None] | None" = None
    hooks: list[OnReceipt] = Factory(list)
    order: Order | None = None
    """As it was read last."""
    refusal: CreateError | None = None
    """The last answer was a 429, and nothing was sent since."""
    has_open_attempt: bool = False
    """Whether an attempt of this submission may have been sent, and is not known to be rejected or not sent."""
    checked: "asyncio.Future[None]" = Factory(lambda: asyncio.get_running_loop().create_future())
    """Done when the request has passed its check: from then on it owns the order id."""

    @property
    def may_have_been_sent(self) -> bool:
        """Whether the order may have been sent, by this submission or another, with an outcome that is unknown."""
        return self.has_open_attempt or (self.order is not None and is_unaccounted(self.order))


@mutable(eq=False)
class SendProgress:
    """The progress of one send."""

    order: Order
    resend: Resend | None
    slots: "AccountSlots | None"
    """Where it has reserved a slot; None once the slot is released."""
    gate_write: "asyncio.Future[Attempt | Order | Turn] | None" = None
    """What the journal answers in the gate; None if the gate was not reached."""
    is_handed_over: bool = False
    """The transport was asked to send it."""
    request: Request | None = None
    status: int | None = None
    headers: Headers = field(factory=make_headers)
    body: bytearray = field(factory=bytearray)
    is_complete: bool = False
    failure: Exception | None = None
    service_error: ServiceError | None = None
    """The answer with which the service rejected it."""
    attempt: Attempt | None = None
    """The attempt with its outcome; None if nothing was sent."""


class HeldBackError(Exception):
    """Raised in the gate: this send must not continue. No byte was sent."""


@mutable(eq=False)
class AccountSlots:
    """The slots of an account's rolling limit that sends of this client are about to use."""

    lock: asyncio.Lock = Factory(asyncio.Lock)
    """Held by the first in line."""
    reserved: int = 0
    released: asyncio.Event = Factory(asyncio.Event)


@mutable(eq=False, kw_only=True)
class OrdersUnderWay:
    """What all senders of one client share, whatever their accounts and keys."""

    settlement: Settlement
    namespace: str | None
    submissions: dict[OrderRef, Submission] = Factory(dict)
    slots: WeakValueDictionary[str, AccountSlots] = Factory(WeakValueDictionary)
    """By account."""
    unrecorded: dict[OrderRef, UncertainCreateError] = Factory(dict)
    """Orders that may have been sent without being stored as such."""
    upload_locks: WeakValueDictionary[OrderRef, asyncio.Lock] = Factory(WeakValueDictionary)
    """Held while the local images of an order are uploaded."""
    balance_readers: set[asyncio.Task[None]] = Factory(set)
    hiding_lock: asyncio.Lock = Factory(asyncio.Lock)
    has_answer: bool = False
    """The service has answered a create in its own form."""


class Sender:
    """Carries out the orders that are sent with one API key.

    Args:
        confirmation: Looks for the receipt of a create whose answer did not name the task where it should.
        namespace: The string from which, with account and order id, each Idempotency-Key is derived; None: the
            journal's own.
        known: Values that no message may show.
        under_way: Shared with the client's other senders.
    """

    def __init__(
        self,
        transport: Transport,
        endpoints: Endpoints,
        journal: Journal,
        clock: Clock,
        *,
        pacing: Pacing,
        confirmation: Confirmation,
        namespace: str | None = None,
        balances: Balances | None = None,
        known: tuple[str, ...] = (),
        under_way: OrdersUnderWay | None = None,
    ) -> None:
        self._transport = transport
        self._honours_gate = capabilities_of(transport).honours_gate
        self._endpoints = endpoints
        self._journal = journal
        self._clock = clock
        self._pacing = pacing
        self._confirmation = confirmation
        if under_way is None:
            under_way = OrdersUnderWay(settlement=Settlement(journal, clock, known), namespace=namespace)
        self.under_way = under_way
        self.settlement = under_way.settlement
        self._balances = balances or Balances(None, journal, clock, under_way.balance_readers)
        self._known = known
        self._time_limit = endpoints.timeouts.create

    # -- the call ------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        ref: OrderRef,
        content: OrderContent,
        *,
        check: Check | None,
        on_receipt: OnReceipt | None,
        raise_if_closed: Callable[[], None],
    ) -> Receipt:
        """Create the order's task, or join its submission under way. Cancelling the caller stops nothing.

        Args:
            check: Raises InvalidRequestError for a request that must not be sent.
            on_receipt: Called before this returns.
            raise_if_closed: Raises when the client was closed meanwhile.
        """
        # A request that has not passed its check does not own the order id: if it fails, this call may still use it.
        # Only a call with the same request, which would be checked too, shares that failure.
        while (submission := self.find_running(ref)) is not None and not submission.checked.done():
            if is_same_request(submission.content, content) and check is not None:
                break
            decided: list[asyncio.Future[object]] = [submission.receipt, submission.checked]  # type: ignore[list-item]
            await asyncio.wait(decided, return_when=asyncio.FIRST_COMPLETED)
            raise_if_closed()
        if submission is None:
            submission = self._start(ref, content, lambda submission: self._create(submission, ref, check))
        elif not is_same_request(submission.content, content):
            raise conflict(ref.order_id, "is being used for a different request, which is being sent now")
        try:
            return await self._receipt(submission, on_receipt)
        except OrderStateError:
            # It joined a resend that is refused, because the order had changed since the operator read it. That is no
            # outcome of the order, so this call looks for one again.
            raise_if_closed()
            return await self.submit(ref, content, check=check, on_receipt=on_receipt, raise_if_closed=raise_if_closed)

    async def resend(self, order: Order, resend: Resend) -> Receipt:
        """Send the uncertain order once more, as an operator decided. No submission of it may be under way."""
        submission = self._start(
            order.ref, order, lambda submission: self._send_until_settled(submission, order, resend)
        )
        submission.order = order
        submission.checked.set_result(None)
        return await self._receipt(submission, None)

    def find_running(self, ref: OrderRef) -> Submission | None:
        """The submission of this order that still accepts callers."""
        submission = self.under_way.submissions.get(ref)
        is_over = submission is None or (submission.worker is not None and submission.worker.done())
        return None if is_over else submission

    async def _receipt(self, submission: Submission, on_receipt: OnReceipt | None) -> Receipt:
        if on_receipt is not None:
            submission.hooks.append(on_receipt)
        receipt = await asyncio.shield(submission.receipt)
        if on_receipt is not None and submission.worker not in (None, asyncio.current_task()):
            await asyncio.wait([submission.worker])
        return receipt

    # -- the worker of an order ----------------------------------------------------------------------------------------

    def _start(
        self, ref: OrderRef, content: OrderContent, work: Callable[[Submission], Awaitable[Receipt]]
    ) -> Submission:
        loop = asyncio.get_running_loop()
        submission = Submission(ref=ref, content=content, receipt=loop.create_future())
        submission.worker = loop.create_task(self._work(submission, work), name=f"order {ref.order_id}")
        submission.worker.add_done_callback(lambda _: self._end(submission))
        self.under_way.submissions[ref] = submission
        return submission

    async def _work(self, submission: Submission, work: Callable[[Submission], Awaitable[Receipt]]) -> None:
        receipt = await work(submission)
        submission.receipt.set_result(receipt)  # before the hooks: one of them may ask for this very order
        while submission.hooks:
            hook = submission.hooks.pop(0)
            # The order is accepted: an error of the caller must not hide the receipt.
            with contain_hook(logger, "on_receipt", order_id=submission.ref.order_id, task_id=receipt.task_id):
                pending = hook(receipt)
                if inspect.isawaitable(pending):
                    await pending

    def _end(self, submission: Submission) -> None:
        """The worker and its callers end with the same outcome."""
        order_id = submission.ref.order_id
        if self.under_way.submissions.get(submission.ref) is submission:
            del self.under_way.submissions[submission.ref]
        worker, receipt = submission.worker, submission.receipt
        if worker is None or receipt.done():
            return
        if worker.cancelled() and submission.order is not None and submission.order.receipt is not None:
            receipt.set_result(submission.order.receipt)  # it was written after all
            return
        error = None if worker.cancelled() else worker.exception()
        receipt.set_exception(
            error
            or interrupted(
                order_id, submission.order, submission.refusal, may_have_been_sent=submission.may_have_been_sent
            )
        )
        receipt.exception()  # retrieved: every caller may have gone

    async def _create(self, submission: Submission, ref: OrderRef, check: Check | None) -> Receipt:
        """Store the intent, unless it is stored already, once the request has passed its check."""
        await self.settlement.flush(ref)
        order = submission.order = await self.settlement.read(ref)
        content = submission.content
        if order is not None and not is_same_request(order, content):
            raise conflict(ref.order_id, "was already used for a different request")
        if check is not None and (order is None or order.state in SENDABLE):
            await check()
        if not submission.checked.done():
            submission.checked.set_result(None)
        if order is None:
            if self.under_way.namespace is None:
                self.under_way.namespace = await self._journal.namespace(secrets.token_hex(8))
            key = idempotency_key(self.under_way.namespace, ref.account, ref.order_id)
            order = await self._journal.intend(
                Order(
                    ref=ref,
                    idempotency_key=key,
                    body=content.body,
                    local_images=content.local_images,
                    created_at=self._clock.wall(),
                )
            )
            if not is_same_request(order, content):
                raise conflict(ref.order_id, "was already used for a different request")
        return await self._send_until_settled(submission, order)

    async def _send_until_settled(self, submission: Submission, order: Order, resend: Resend | None = None) -> Receipt:
        """Send the order until there is an outcome; at most one send of it ever has an unknown outcome. The outcome of
        a concurrent send by another process or client is the outcome here too: its receipt, or its refusal."""
        connect_failures = 0
        max_wait = self._pacing.max_wait
        # The attempts that were settled before this call or by it: the rejection of any other is new to the caller.
        seen = {attempt.n for attempt in order.attempts if attempt.outcome is not AttemptOutcome.SENDING}
        await self.settlement.flush(order.ref)
        while True:
            submission.order = order = await self._await_other_sender(submission, order)
            if order.state is OrderState.UNCERTAIN:
                submission.order = order = await self._confirmation.confirm(order)
            if (receipt := order.receipt) is not None:
                _report_duplicates(order)
                return receipt
            # (The last attempt may be another one, which was not sent.)
            refused = [one for one in order.attempts if one.outcome is AttemptOutcome.REJECTED and one.n not in seen]
            if order.state is OrderState.REJECTED and refused and resend is None:
                service = order.ref.service
                raise recorded_refusal(refused[-1], origin=service, wall=self._clock.wall(), **facts(order))
            _check_sendable(order, resend)
            send = await self._send(submission, order, resend)
            order = submission.order
            if resend is not None and send.attempt is not None:
                resend = evolve(resend, expect_attempt=send.attempt.n)
            if order.state is OrderState.UNCERTAIN and send.attempt is not None:
                submission.order = order = await self._confirmation.confirm(order)
            if order.receipt is not None or (send.attempt is None and send.failure is None):
                continue  # accepted, or changed by another process: read the order again
            seen |= {attempt.n for attempt in order.attempts}
            if send.attempt is None or send.attempt.outcome is AttemptOutcome.NOT_SENT:
                connect_failures += 1
                if connect_failures == CONNECT_ATTEMPTS:
                    raise not_sent(order, send.failure) from send.failure
                pause = backoff(connect_failures, 1.0)
            else:
                required_pause, submission.refusal = _raise_unless_retryable(order, send, max_wait)
                max_wait -= required_pause
                pause = SHORTEST_PAUSE  # the rest is a pause of the account, which _reserve_slot awaits and reports
            submission.has_open_attempt = False
            await self._clock.sleep(pause)

    async def _await_other_sender(self, submission: Submission, order: Order) -> Order:
        """The order once no other process or client is sending it."""
        if order.state is OrderState.SENDING and (until := order.sending_until) is not None:
            _report_wait(order, until, self._clock.wall())
        pause = 0.05
        while order.state is OrderState.SENDING:
            await self._clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)
            order = submission.order = await self.settlement.read(order.ref) or order
        return order

    # -- one attempt ---------------------------------------------------------------------------------------------------

    async def _send(self, submission: Submission, order: Order, resend: Resend | None) -> SendProgress:
        """Send the order once: reserve a slot, connect, begin in the gate, send, settle.

        The answer or failure is in the result; see Raises.

        Raises:
            JournalError: No POST was made.
            ReceiptNotStoredError: It was made and accepted.
        """
        if (failure := self.under_way.unrecorded.get(order.ref)) is not None:
            raise failure
        while True:
            send = SendProgress(order, resend, await self._reserve_slot(order.ref))
            try:
                begun = await self._send_in_slot(submission, send)
            finally:
                self._release_slot(send)
                if send.gate_write is not None:
                    await asyncio.wait({send.gate_write})
            if not isinstance(begun, Turn):  # otherwise another process has taken the last slot
                return send

    async def _send_in_slot(self, submission: Submission, send: SendProgress) -> Attempt | Order | Turn | None:
        # The gate is called when there is a probe.
        probe = Probe(gate=lambda: self._open_gate(submission, send, probe))
        try:
            await within(self._clock, self._time_limit, lambda: self._exchange(send, probe))
        except asyncio.CancelledError:
            begun = await self._find_attempt(submission, send, probe)
            # What is known by now is written: that nothing was sent, or a complete answer.
            if isinstance(begun, Attempt) and (probe.delivery is Delivery.NOT_SENT or send.is_complete):
                await self.settlement.complete(self._settle(submission, send, begun, probe.delivery))
            raise
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the probe says how far it got
            send.failure = error
        if send.status is not None:
            probe.learn(Delivery.ANSWERED)
        begun = await self._find_attempt(submission, send, probe)
        if isinstance(begun, Attempt):
            await self.settlement.complete(self._settle(submission, send, begun, probe.delivery))
        elif isinstance(begun, Order):
            submission.order, send.failure = begun, None
        if isinstance(send.failure, CassetteError):
            raise send.failure
        return begun

    async def _exchange(self, send: SendProgress, probe: Probe) -> None:
        request = self._endpoints.create_video(BytesBody(send.order.body), send.order.idempotency_key)
        key = None
        if (ring := self._endpoints.key_ring) is not None:
            key = await ring.get(request, self._clock)
            request = ring.add_to(request, key)
        if not self._honours_gate:
            await probe.pass_gate()
        send.is_handed_over = True
        async with await self._send_create(request, send.order, probe) as response:
            send.request, send.status, send.headers = request, response.status, response.headers
            if ring is not None and key is not None and response.status == HTTPStatus.UNAUTHORIZED:
                ring.discard(key)  # for the next create: this one is not repeated
            async for piece in response.chunks():
                send.body += piece
                if len(send.body) > LONGEST_ANSWER:
                    return
            send.is_complete = True

    async def _send_create(self, request: Request, order: Order, probe: Probe) -> Response:
        if not request_records.logger.isEnabledFor(logging.DEBUG):
            return await self._transport.send(request, probe=probe)
        attempt, known = len(order.attempts) + 1, self._secrets_of(order)
        return await request_records.send_recorded(self._transport, request, self._clock, attempt, known, probe)

    async def _open_gate(self, submission: Submission, send: SendProgress, probe: Probe) -> None:
        """Called by the transport when the connection is ready: no byte passes before the attempt is stored."""
        if probe.is_replay and self._journal.durable:
            message = (
                "a replayed create was about to be written into a durable journal, where it would count as sent; "
                "replay with a MemoryJournal"
            )
            raise CassetteError(message)
        states = SENDABLE if send.resend is None else frozenset({OrderState.UNCERTAIN})
        if not isinstance(await self._begin(submission, send, self._pacing, states), Attempt):
            raise HeldBackError

    async def _begin(
        self, submission: Submission, send: SendProgress, pacing: Pacing | None, states: frozenset[OrderState]
    ) -> Attempt | Order | Turn:
        """Store the attempt as *sending*. The write is an asyncio task of its own: a send that is cut off in the gate
        still learns whether it happened."""
        now = self._clock.wall()
        limit = DEADLINE_WITHOUT_LIMIT if self._time_limit is None else self._time_limit + DEADLINE_MARGIN
        resend = send.resend
        permission = Permission(
            ref=send.order.ref,
            expect_attempt=len(send.order.attempts),
            states=states,
            now=now,
            deadline_at=now + timedelta(seconds=limit),
            pacing=pacing,
            kind="create" if resend is None else "resend",
            by="" if resend is None else resend.by,
            reason="" if resend is None else resend.reason,
        )
        send.gate_write = asyncio.ensure_future(self._journal.begin(permission))
        begun = await asyncio.shield(send.gate_write)
        if isinstance(begun, Attempt):
            self._release_slot(send)
            submission.has_open_attempt, submission.refusal = True, None
        elif isinstance(begun, Order):
            report_found_uncertain(begun, now)
        return begun

    async def _begin_after_sending(self, submission: Submission, send: SendProgress) -> Attempt | Turn:
        """Store the attempt of a send that did not wait for the gate, whatever the order has become meanwhile."""
        while isinstance(begun := await self._begin(submission, send, None, frozenset(OrderState)), Order):
            send.order = begun
        return begun

    async def _find_attempt(
        self, submission: Submission, send: SendProgress, probe: Probe
    ) -> Attempt | Order | Turn | None:
        """What the journal answered in the gate; None where the send provably ended before it.

        A transport that declares the gate and did not wait for it may have sent the request all the same: its attempt
        is stored now, and is not retried.

        Raises:
            JournalError: The journal failed, and nothing was sent.
            UncertainCreateError: The journal failed, and something may have been sent.
        """
        try:
            begun = None if send.gate_write is None else await asyncio.shield(send.gate_write)
        except Exception:
            if send.status is None:
                raise
            begun = None  # the transport continued although the gate had not opened
        if not isinstance(begun, Attempt) and send.is_handed_over and not probe.is_proven_not_sent:
            probe.learn(Delivery.MAYBE_SENT)
            message = "order %(order_id)r: the transport may have sent it before it was stored in the journal"
            report(logger, logging.ERROR, Event.ORDER_GATE_BYPASSED, message, order_id=send.order.order_id)
            try:
                begun = await self._begin_after_sending(submission, send)
            except Exception as error:
                task_id, _ = read_created_id(bytes(send.body)) if send.is_complete else (None, {})
                failure = not_recorded(send.order, task_id, self.settlement.describe(error))
                self.under_way.unrecorded[send.order.ref] = failure
                raise failure from error
        return begun

    async def _settle(self, submission: Submission, send: SendProgress, attempt: Attempt, delivery: Delivery) -> None:
        """Record the outcome of the attempt."""
        order = send.order
        evidence = await self._collect_evidence(send, delivery)
        if evidence.outcome is AttemptOutcome.UNCERTAIN:
            evidence = evolve(evidence, balance_before=self._balances.before(attempt.sent_at))
        report_outcome(order.ref, attempt.n, evidence)
        submission.order = order = await self.settlement.write(order, attempt, evidence)
        send.attempt = order.attempts[attempt.n - 1]
        if evidence.outcome is AttemptOutcome.UNCERTAIN:
            self._balances.read_after(order.ref, attempt.n, evidence)

    async def _collect_evidence(self, send: SendProgress, delivery: Delivery) -> Evidence:
        """What the send is evidence of. A long answer is read in several turns of the event loop."""
        order, now = send.order, self._clock.wall()
        known = KnownValues(self._secrets_of(order))
        await self._yield_to_loop(send)
        if send.request is None or send.status is None:
            async with self._prepared(known):
                return evidence_without_answer(delivery, send.failure, limit=self._time_limit, at=now, known=known)
        body = bytes(send.body)
        body = decode_body(body, send.headers) if send.is_complete else body
        answer = Answer(
            send.request.op, send.status, send.headers, body, url=send.request.url, known=known, sent=order.body
        )
        await self._yield_to_loop(send)
        self.under_way.has_answer |= is_json_object(body)
        await self._yield_to_loop(send)
        evidence = evidence_of_answer(answer, is_complete=send.is_complete, at=now)
        if evidence.outcome is AttemptOutcome.ACCEPTED:
            return evidence
        async with self._prepared(known):
            evidence = evolve(evidence, cause=describe_outcome(answer, evidence.outcome, is_complete=send.is_complete))
            await self._yield_to_loop(send)
            if evidence.outcome is AttemptOutcome.REJECTED:
                send.service_error = service_error(answer, origin=order.ref.service, wall=now)
                return evidence
            headers = visible_headers(answer.headers, known)
        await self._yield_to_loop(send)
        candidates: tuple[str, ...] = ()
        if send.is_complete and 200 <= send.status < 300:
            candidates = find_candidates(answer, order.body, {*known, order.order_id})
        return evolve(evidence, body=body, headers=headers, candidates=candidates)

    def _secrets_of(self, order: Order) -> tuple[str, ...]:
        keys = () if self._endpoints.key_ring is None else self._endpoints.key_ring.known
        return (*self._known, *keys, order.idempotency_key, prompt_of(order.body))

    @asynccontextmanager
    async def _prepared(self, known: KnownValues) -> AsyncIterator[None]:
        """A block that hides these values. One at a time: to hide a long prompt needs fifty times
        its size of memory meanwhile."""
        async with self.under_way.hiding_lock:
            await in_turns(self._clock, known.prepare())
            yield

    async def _yield_to_loop(self, send: SendProgress) -> None:
        """Give the event loop a turn if each pass over the answer takes long."""
        if len(send.body) > LONG_ANSWER:
            await self._clock.sleep(0)

    # -- the rolling limit ---------------------------------------------------------------------------------------------

    async def _reserve_slot(self, ref: OrderRef) -> AccountSlots:
        """Wait, in line, until the rolling limit has a slot that no other send of this client is about to use."""
        slots = self.under_way.slots.setdefault(ref.account, AccountSlots())
        async with slots.lock:
            await self._wait_for_slot(ref, slots)
            slots.reserved += 1
        return slots

    async def _wait_for_slot(self, ref: OrderRef, slots: AccountSlots) -> None:
        while True:
            slots.released.clear()
            turn = await self._journal.turn(ref.service, ref.account, self._pacing, self._clock.wall())
            if turn.free > slots.reserved:
                return
            if turn.free:
                with suppress(TimeoutError):  # more slots may be free by then
                    await within(self._clock, RECHECK_INTERVAL, slots.released.wait)
            else:
                if round(turn.wait, 1) > 0:
                    message = "order %(order_id)r waits %(seconds).1f s: %(reason)s"
                    level, reason = _WAITS[turn.is_paused]
                    fields = {"order_id": ref.order_id, "seconds": turn.wait, "reason": reason}
                    report(logger, level, Event.ORDER_PACED, message, **fields)
                await self._clock.sleep(turn.wait)

    def _release_slot(self, send: SendProgress) -> None:
        """The slot is free again, or the stored attempt counts from now on."""
        if send.slots is not None:
            send.slots.reserved -= 1
            send.slots.released.set()
            send.slots = None

    # -- the end -------------------------------------------------------------------------------------------------------

    async def aclose(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for the orders under way, then stop. What was not answered by then stays
        *sending* in the journal, and its callers get an UncertainCreateError."""
        caller = asyncio.current_task()  # an on_receipt may be what closes the client
        submissions = list(self.under_way.submissions.values())
        workers = [each.worker for each in submissions if each.worker is not None and each.worker is not caller]
        try:
            if workers:
                await self._finish(workers, grace)
        finally:
            try:
                await self.settlement.aclose()
            finally:
                await end_readers(self.under_way.balance_readers, self._clock, grace)

    async def _finish(self, workers: "list[asyncio.Task[None]]", grace: float) -> None:
        try:
            await within(self._clock, grace, lambda: asyncio.wait(workers))
        except TimeoutError:
            if unanswered := sum(not worker.done() for worker in workers):
                message = "closed with %(count)d orders unanswered"
                report(logger, logging.WARNING, Event.ORDERS_UNANSWERED, message, count=unanswered)
            await self._read_unanswered()
        finally:
            self.settlement.hurry()
            for worker in workers:
                worker.cancel()
            await wait_for_end(workers)  # a second cancellation would interrupt what they write after the first one

    async def _read_unanswered(self) -> None:
        """Read the orders that are not settled: other processes may have changed them."""
        for submission in list(self.under_way.submissions.values()):
            try:
                order = await self.settlement.read(submission.ref)
            except JournalError as error:
                message = "order %(order_id)r: the journal could not be read: %(error)s"
                fields = {"order_id": submission.ref.order_id, "error": self.settlement.describe(error)}
                report(logger, logging.WARNING, Event.ORDER_READ_FAILED, message, **fields)
            else:
                submission.order = order or submission.order


def _check_sendable(order: Order, resend: Resend | None) -> None:
    """Raise what an order that may not be sent stands for."""
    if resend is not None:
        check_attempt(order, resend.expect_attempt)
        if order.state is not OrderState.UNCERTAIN:
            raise wrong_state(order, "resent")
    elif order.state is OrderState.WITHDRAWN:
        raise conflict(order.order_id, "was withdrawn")
    elif order.state not in SENDABLE:
        raise uncertain(order)


def _raise_unless_retryable(order: Order, send: SendProgress, max_wait: float) -> tuple[float, RejectedError]:
    """Raise the outcome of a create, unless it is a 429 whose pause is at most ``max_wait``. Return the seconds of this
    pause, and the refusal."""
    error = send.service_error
    if order.state is not OrderState.REJECTED or error is None:
        raise uncertain(order, error) from error or send.failure
    pause = PAUSE_WITHOUT_RETRY_AFTER if error.retry_after is None else max(error.retry_after, SHORTEST_PAUSE)
    refusal = rejected_error(error, **facts(order))
    # A page that is not the service's own is no evidence of the rate: a proxy may answer every create with it.
    is_own = is_json_object(error.body)
    if not isinstance(error, RateLimitError) or not is_own or pause > max_wait:
        raise refusal
    return pause, refusal


def _report_wait(order: Order, until: datetime, now: datetime) -> None:
    message = (
        "order %(order_id)r is being sent elsewhere; waiting for its outcome for at most %(seconds)g s, until its "
        "deadline at %(until)s, because its sender may still receive the answer"
    )
    fields = {"seconds": round((until - now).total_seconds(), 1), "until": f"{until:%Y-%m-%d %H:%M:%S} UTC"}
    report(logger, logging.INFO, Event.ORDER_AWAITED, message, order_id=order.order_id, **fields)


def _report_duplicates(order: Order) -> None:
    if len(order.task_ids) > 1:
        message = "order %(order_id)r: the journal has more than one task for it, check all: %(task_ids)s"
        fields = {"order_id": order.order_id, "task_ids": order.task_ids}
        report(logger, logging.ERROR, Event.ORDER_DUPLICATED, message, **fields)

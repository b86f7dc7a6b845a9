"""One send of an order: the only code in the package that lets a POST /videos leave.

Two commits stand before the first byte. The order is on record as *queued*; a slot of the rolling limit is awaited;
the connection is made; then, in the gate, the attempt is written as *sending*, and only then a byte leaves. What is
learned afterwards only adds to that: a crash, a cancellation and a lost answer all leave *sending* on record, which
reads as *uncertain* once its deadline has passed.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from attrs import evolve, frozen

from vidgen_async.clock import Clock, within
from vidgen_async.errors import CassetteError, ReceiptNotStoredError, TransportError, UncertainCreateError
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal, Permission
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.exchange import Exchange
from vidgen_async.orders.gate import Once, Opening
from vidgen_async.orders.settlement import Settling
from vidgen_async.redaction.headers import visible_headers
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.candidates import find_candidates
from vidgen_async.service.codec import (
    Answer,
    describe_outcome,
    is_json_object,
    prompt_of,
    read_created_id,
    request_id_of,
)
from vidgen_async.service.endpoints import Endpoints, is_task_id
from vidgen_async.service.status_rules import outcome_of_answer, outcome_without_answer
from vidgen_async.transports.base import Transport, capabilities_of
from vidgen_async.types.http import LONGEST_ANSWER, BytesBody, Delivery, Probe
from vidgen_async.types.limits import Pacing, Turn
from vidgen_async.types.orders import SENDABLE, Attempt, AttemptOutcome, Evidence, Order, OrderRef, OrderState

logger = logging.getLogger(__name__)

#: Seconds between a create's own time limit and the moment from which others take it for uncertain.
DEADLINE_MARGIN = 10.0
#: For an attempt that is written after it may have left.
_UNLIMITED = Pacing(limit=sys.maxsize)
#: The deadline in seconds of a create without a time limit of its own.
DEADLINE_WITHOUT_LIMIT = 86400.0


@frozen(kw_only=True)
class Wish:
    """How an order is to be sent: as the create it is, or once more because a person says so."""

    kind: str = "create"
    states: frozenset[OrderState] = SENDABLE
    expect_attempt: int | None = None
    """For a resend: the number of the last attempt that the person knew of."""
    by: str = ""
    reason: str = ""


@frozen(kw_only=True)
class Sent:
    """What came of a send: the order as it is on record now, and the attempt that was made, if one was.

    Without an attempt nothing left: the order was not as expected, or (``failure``) no connection was to be had.
    """

    order: Order
    attempt: Attempt | None = None
    answer: Answer | None = None
    failure: Exception | None = None

    @property
    def was_taken(self) -> bool:
        """The order was not as expected: somebody else has done something to it."""
        return self.attempt is None and self.failure is None

    @property
    def is_proven_unsent(self) -> bool:
        """No byte left, for want of a connection."""
        return self.attempt is None or self.attempt.outcome is AttemptOutcome.NOT_SENT


class Creates:
    """Sends orders. ``known`` is what no message may show."""

    def __init__(
        self,
        transport: Transport,
        endpoints: Endpoints,
        journal: Journal,
        clock: Clock,
        *,
        pacing: Pacing,
        balances: Balances | None = None,
        known: tuple[str, ...] = (),
    ) -> None:
        self.balances = balances or Balances(None, journal, clock)
        self._transport = transport
        self._endpoints = endpoints
        self._journal = journal
        self._clock = clock
        self._pacing = pacing
        self._known = known
        self._limit = endpoints.timeouts.create
        self._queue = asyncio.Lock()
        self._reserved = 0
        self._released = asyncio.Event()
        self.settling = Settling(journal, clock, known)
        self._unrecorded: dict[OrderRef, UncertainCreateError] = {}
        """Orders that may have left without being on record as sent."""
        self.has_answer = False
        """The service has answered a create in its own form."""

    async def send(
        self, order: Order, wish: Wish, on_begin: Callable[[], None], on_settled: Callable[[Order], None]
    ) -> Sent:
        """Send the order once, as soon as the rolling limit has room. ``on_begin`` is called when the attempt is on
        record, before a byte leaves; ``on_settled`` with what was learned, also when the caller has been cancelled.

        What the service or the network did is in the result, never raised. JournalError: no POST was made.
        ReceiptNotStoredError: it was made and accepted. When the caller is cancelled, what was true stays on record.
        """
        if (failure := self._unrecorded.get(order.ref)) is not None:
            raise failure
        while True:
            release = await self._reserve(order)
            opening = Opening(partial(self._begin, order, wish, self._pacing), (release, on_begin))
            try:
                sent = await self._send_once(order, wish, opening, on_settled)
            finally:
                release()
                await opening.finished()
            if sent is not None:
                return sent

    async def _send_once(
        self, order: Order, wish: Wish, opening: Opening, on_settled: Callable[[Order], None]
    ) -> Sent | None:
        """None: somebody else on the journal took the last free slot meanwhile; nothing was sent."""
        probe = Probe(gate=lambda: self._pass(probe, opening))
        exchange = Exchange()
        failure: Exception | None = None
        try:
            await within(self._clock, self._limit, lambda: self._exchange(order, probe, exchange))
        except asyncio.CancelledError:
            attempt = await self._attempt_of(order, wish, probe, exchange, opening)
            # What is known by now is written down: that nothing left, or a whole answer.
            is_known = probe.delivery is Delivery.NOT_SENT or exchange.is_complete
            if is_known and isinstance(attempt, Attempt):
                await _to_the_end(
                    self.settling.own(self._settled(order, attempt, exchange, probe.delivery, None)), on_settled
                )
            raise
        except Exception as error:  # noqa: BLE001 - whatever a transport raises, the probe says how far it got
            failure = error
        if exchange.status is not None:
            probe.learn(Delivery.ANSWERED)
        attempt = await self._attempt_of(order, wish, probe, exchange, opening)
        if attempt is None:
            return Sent(order=order, failure=failure)
        if not isinstance(attempt, Attempt):
            return Sent(order=attempt) if isinstance(attempt, Order) else None
        sent = await _to_the_end(
            self.settling.own(self._settled(order, attempt, exchange, probe.delivery, failure)), on_settled
        )
        if isinstance(failure, CassetteError):
            raise failure
        return sent

    async def _attempt_of(
        self, order: Order, wish: Wish, probe: Probe, exchange: Exchange, opening: Opening
    ) -> Attempt | Order | Turn | None:
        """What the journal answered in the gate; None where the send provably ended before it.

        A transport that declares the gate and did not wait for it may have sent the request all the same: its attempt
        is written now, and is not retried. Raises what the journal raised where nothing left, whatever the transport
        made of it; where something may have left, an UncertainCreateError.
        """
        try:
            found = await opening.result()
        except Exception:
            if exchange.status is None:
                raise
            found = None  # the transport went on although the gate had not opened
        if not isinstance(found, Attempt) and exchange.is_handed_over and not probe.is_proven_not_sent:
            probe.learn(Delivery.MAYBE_SENT)
            message = "order %(order_id)r: the transport may have sent it without waiting for the gate"
            report(logger, logging.ERROR, Event.ORDER_UNGUARDED, message, order_id=order.order_id)
            try:
                await opening.force(partial(self._begin, order, wish, _UNLIMITED))
                found = await opening.result()
            except Exception as error:
                self._unrecorded[order.ref] = failure = self._not_recorded(order, exchange, error)
                raise failure from error
        return found

    def _not_recorded(self, order: Order, exchange: Exchange, error: Exception) -> UncertainCreateError:
        task_id, _ = read_created_id(bytes(exchange.body)) if exchange.is_complete else (None, {})
        came = f" The answer named task {task_id!r}." if task_id is not None else ""
        message = (
            f"order {order.order_id!r}: the transport may have sent it without waiting for the journal, which could "
            f"not be written ({self.settling.why(error)}).{came} It may have made, and charged, a task. It is not sent "
            "again while this client is open; the journal does not know of it."
        )
        return UncertainCreateError(message, order_id=order.order_id, idempotency_key=order.idempotency_key)

    async def _pass(self, probe: Probe, opening: Opening) -> None:
        if probe.is_replay and self._journal.durable:
            message = (
                "a played create was about to be written into a journal that lasts, where it would count as made; "
                "replay with a MemoryJournal"
            )
            raise CassetteError(message)
        await opening.gate()

    async def _exchange(self, order: Order, probe: Probe, exchange: Exchange) -> None:
        request = self._endpoints.create_video(BytesBody(order.body), order.idempotency_key)
        if not capabilities_of(self._transport).honours_gate:
            await probe.pass_gate()
        exchange.is_handed_over = True
        async with await self._transport.send(request, probe=probe) as response:
            exchange.request, exchange.status, exchange.headers = request, response.status, response.headers
            async for piece in response.chunks():
                exchange.body += piece
                if len(exchange.body) > LONGEST_ANSWER:
                    return
            exchange.is_complete = True

    # -- before the first byte -----------------------------------------------------------------------------------------

    async def _reserve(self, order: Order) -> Callable[[], None]:
        """Wait, in line, until the rolling limit has a slot that no other send of this client is about to take. The
        slot is given back by the returned function, or by the attempt on record, which counts from then on."""
        ref = order.ref
        async with self._queue:
            while True:
                self._released.clear()
                turn = await self._journal.turn(ref.service, ref.account, self._pacing, self._clock.wall())
                if turn.free > self._reserved:
                    break
                if turn.free:
                    await self._released.wait()
                else:
                    message = "order %(order_id)r waits %(seconds).1f s for the submission limit"
                    report(logger, logging.INFO, Event.ORDER_PACED, message, order_id=ref.order_id, seconds=turn.wait)
                    await self._clock.sleep(turn.wait)
            self._reserved += 1
        return Once(self._release)

    def _release(self) -> None:
        self._reserved -= 1
        self._released.set()

    async def _begin(self, order: Order, wish: Wish, pacing: Pacing) -> Attempt | Order | Turn:
        now = self._clock.wall()
        limit = DEADLINE_WITHOUT_LIMIT if self._limit is None else self._limit + DEADLINE_MARGIN
        return await self._journal.begin(
            Permission(
                ref=order.ref,
                expect_attempt=len(order.attempts),
                states=wish.states,
                now=now,
                deadline_at=now + timedelta(seconds=limit),
                pacing=pacing,
                kind=wish.kind,
                by=wish.by,
                reason=wish.reason,
            )
        )

    # -- afterwards ----------------------------------------------------------------------------------------------------

    async def _settled(
        self, order: Order, attempt: Attempt, exchange: Exchange, delivery: Delivery, failure: Exception | None
    ) -> Sent:
        known = (*self._known, order.idempotency_key, prompt_of(order.body))
        now = self._clock.wall()
        answer = exchange.answer(known)
        if answer is None:
            outcome = outcome_without_answer(delivery)
            evidence = Evidence(outcome=outcome, at=now, cause=self._cause(failure, known))
        else:
            self.has_answer |= is_json_object(answer.body)
            task_id, extra = read_created_id(answer.body) if exchange.is_complete else (None, {})
            if task_id is not None and not is_task_id(task_id):
                task_id = None  # nobody could ask for it
            outcome = outcome_of_answer(answer.status, task_id)
            is_receipt_expected = (
                outcome is AttemptOutcome.UNCERTAIN and exchange.is_complete and 200 <= answer.status < 300
            )
            evidence = Evidence(
                outcome=outcome,
                at=now,
                status=answer.status,
                task_id=task_id if outcome is AttemptOutcome.ACCEPTED else None,
                cause=describe_outcome(answer, outcome, is_complete=exchange.is_complete),
                body=answer.body if outcome is AttemptOutcome.UNCERTAIN else b"",
                extra=extra if outcome is AttemptOutcome.ACCEPTED else {},
                answered=True,
                headers=visible_headers(answer.headers, known) if outcome is AttemptOutcome.UNCERTAIN else (),
                request_id=request_id_of(answer.headers),
                candidates=self._candidates(order, answer) if is_receipt_expected else (),
            )
        if outcome is AttemptOutcome.UNCERTAIN:
            evidence = evolve(evidence, balance_before=self.balances.before(attempt.sent_at))
        report(
            logger,
            logging.INFO,
            Event.ORDER_SETTLED,
            "order %(order_id)r: attempt %(attempt)d is %(outcome)s (status %(status)s, task %(task_id)s, "
            "request %(request_id)s)",
            order_id=order.order_id,
            attempt=attempt.n,
            outcome=str(outcome),
            status=evidence.status,
            task_id=evidence.task_id,
            request_id=evidence.request_id,
        )
        settled = await self.settling.write(order, attempt, evidence)
        if outcome is AttemptOutcome.UNCERTAIN:
            self.balances.read_after(order.ref, attempt.n, evidence)
        return Sent(order=settled, attempt=settled.attempts[attempt.n - 1], answer=answer, failure=failure)

    def _candidates(self, order: Order, answer: Answer) -> tuple[str, ...]:
        return find_candidates(answer, order.body, {*self._known, order.idempotency_key, order.order_id})

    def _cause(self, failure: Exception | None, known: tuple[str, ...]) -> str:
        if isinstance(failure, TransportError):
            return excerpt(failure.message, known)
        if isinstance(failure, TimeoutError):
            return f"no complete answer came within {self._limit:g} s"
        if failure is None:
            return "it was called off before the first byte"
        return f"{type(failure).__name__}: {excerpt(str(failure), known)}"


async def _to_the_end(settling: "asyncio.Task[Sent]", on_settled: Callable[[Order], None]) -> Sent:
    """What settling gives, told to ``on_settled`` too. When the caller is cancelled it goes on, and is waited for: a
    receipt in hand is not thrown away, and one that could not be written is what the caller is told of."""
    try:
        return await asyncio.shield(settling)
    finally:
        await asyncio.wait({settling})
        error = None if settling.cancelled() else settling.exception()
        if isinstance(error, ReceiptNotStoredError):
            raise error
        if error is None and not settling.cancelled():
            on_settled(settling.result().order)

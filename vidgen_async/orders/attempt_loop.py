"""An order on its way to an outcome: sent when it may be, awaited while somebody else sends it."""

import logging

from attrs import evolve, frozen

from vidgen_async.clock import Clock
from vidgen_async.errors import CassetteError, CreateError, RateLimitError
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal
from vidgen_async.orders.confirmation import Confirmation
from vidgen_async.orders.error_messages import check_sendable, facts, not_sent, uncertain
from vidgen_async.orders.sending import Creates, Sent, Wish
from vidgen_async.orders.submission import Submission
from vidgen_async.service.codec import is_json_object, recorded_refusal, rejected_error, service_error
from vidgen_async.types.limits import Pacing, backoff
from vidgen_async.types.orders import AttemptOutcome, Order, OrderState
from vidgen_async.types.resources import Receipt

logger = logging.getLogger(__name__)

#: How often a create for which no connection was to be had (proven: no byte left) is tried in all.
CONNECT_TRIES = 3
#: Seconds between a create that was answered with 429 and its next attempt, however short its Retry-After.
SHORTEST_PAUSE = 1.0


@frozen(kw_only=True)
class Carrier:
    """Carries orders out; at most one send of an order is ever unaccounted for. ``service`` is its origin."""

    creates: Creates
    confirmation: Confirmation
    journal: Journal
    clock: Clock
    pacing: Pacing
    service: str

    async def carry_out(self, submission: Submission, order: Order, wish: Wish) -> Receipt:
        """Send the order as wished until there is an outcome. What another process or client makes of it meanwhile is
        the outcome here too: its receipt, and also its refusal."""
        unconnected = 0
        patience = self.pacing.patience
        known = _attempts_over(order)
        await self.creates.settling.catch_up(order.ref)
        while True:
            order = await self._outcome_elsewhere(submission, order)
            if order.state is OrderState.UNCERTAIN:
                order = submission.order = await self.confirmation.confirm(order)
            if (receipt := order.receipt) is not None:
                _report_duplicates(order)
                return receipt
            if order.state is OrderState.REJECTED and len(order.attempts) > known and wish.expect_attempt is None:
                last = order.attempts[-1]
                raise recorded_refusal(last, origin=self.service, wall=self.clock.wall(), **facts(order))
            check_sendable(order, wish)
            sent = await self.creates.send(order, wish, submission.mark_begun, submission.saw)
            order = submission.order = sent.order
            if wish.expect_attempt is not None and sent.attempt is not None:
                wish = evolve(wish, expect_attempt=sent.attempt.n)
            if order.state is OrderState.UNCERTAIN and sent.attempt is not None:
                order = submission.order = await self.confirmation.confirm(order)
            if sent.was_taken or order.receipt is not None:
                continue  # somebody else was faster, or this send was: look at what the order is now
            known = len(order.attempts)
            if sent.is_proven_unsent:
                unconnected += 1
                if unconnected == CONNECT_TRIES or isinstance(sent.failure, CassetteError):
                    raise not_sent(order, sent) from sent.failure
                submission.is_begun = False
                await self.clock.sleep(backoff(unconnected, 1.0))
            else:
                pause, submission.refusal = self._pause_after_refusal(order, sent, patience)
                submission.is_begun = False
                patience -= pause
                await self.clock.sleep(pause)

    def _pause_after_refusal(self, order: Order, sent: Sent, patience: float) -> tuple[float, CreateError]:
        """Seconds until a create that was answered with 429 may go again, and its refusal; raises for every other
        outcome, and when the patience does not last."""
        if order.state is not OrderState.REJECTED or sent.answer is None:
            raise uncertain(order) from sent.failure
        error = service_error(sent.answer, origin=self.service, wall=self.clock.wall())
        pause = backoff(1, 1.0, first=10.0) if error.retry_after is None else max(error.retry_after, SHORTEST_PAUSE)
        refusal = rejected_error(error, **facts(order))
        # A page that is not the service's own is no evidence of the rate: a proxy may answer every create with it.
        is_own = is_json_object(sent.answer.body)
        if not isinstance(error, RateLimitError) or not is_own or pause > patience:
            raise refusal
        return pause, refusal

    async def _outcome_elsewhere(self, submission: Submission, order: Order) -> Order:
        """The order once no other process or client is sending it; what has changed in it since it was read, the
        journal says when it is to be sent."""
        if order.state is OrderState.SENDING and order.sending_until is not None:
            message = (
                "order %(order_id)r is being sent by somebody else; its outcome is awaited until %(until)s at most"
            )
            until = f"{order.sending_until:%Y-%m-%d %H:%M:%S} UTC"
            report(logger, logging.INFO, Event.ORDER_AWAITED, message, order_id=order.order_id, until=until)
        pause = 0.05
        while order.state is OrderState.SENDING:
            await self.clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)
            order = submission.order = await self.journal.get(order.ref, self.clock.wall()) or order
        return order


def _attempts_over(order: Order) -> int:
    """How many attempts had an outcome when this began: what they came to is no news."""
    return sum(attempt.outcome is not AttemptOutcome.SENDING for attempt in order.attempts)


def _report_duplicates(order: Order) -> None:
    if len(order.task_ids) > 1:
        message = "order %(order_id)r: more than one task is on record for it, look at all: %(task_ids)s"
        fields = {"order_id": order.order_id, "task_ids": order.task_ids}
        report(logger, logging.ERROR, Event.ORDER_DUPLICATED, message, **fields)

"""What is logged about orders."""

import logging
from datetime import datetime

from vidgen_async.events import Event, report
from vidgen_async.service.endpoints import model_of
from vidgen_async.types.orders import AttemptOutcome, Evidence, Order

logger = logging.getLogger(__name__)


def report_outcome(order: Order, n: int, evidence: Evidence) -> None:
    """Log the outcome of an attempt: a warning if an operator must decide."""
    report(
        logger,
        logging.WARNING if evidence.outcome is AttemptOutcome.UNCERTAIN else logging.INFO,
        Event(f"order.{evidence.outcome}"),
        "order %(order_id)r: attempt %(attempt)d is %(outcome)s (status %(status)s, task %(task_id)s, "
        "request %(request_id)s, cause %(cause)s)",
        order_id=order.order_id,
        attempt=n,
        outcome=str(evidence.outcome),
        status=evidence.status,
        task_id=evidence.task_id,
        request_id=evidence.request_id,
        cause=evidence.cause or None,
        model=model_of(order.body),
    )


def report_found_uncertain(order: Order, now: datetime) -> None:
    """Log the attempts that a read of the journal at ``now`` made uncertain: their sender may not exist any more."""
    for n, evidence in order.found_uncertain(now):
        report_outcome(order, n, evidence)


def report_wait(order: Order, until: datetime, now: datetime) -> None:
    """Log that the create waits for the outcome of another one."""
    message = (
        "order %(order_id)r is being sent by another process or client; waiting for its outcome for at most "
        "%(seconds)g s, until its deadline at %(until)s, because its sender may still receive the answer"
    )
    fields = {"seconds": round((until - now).total_seconds(), 1), "until": f"{until:%Y-%m-%d %H:%M:%S} UTC"}
    report(logger, logging.INFO, Event.ORDER_AWAITED, message, order_id=order.order_id, **fields)


def report_duplicates(order: Order) -> None:
    """Log an order that has several tasks."""
    if len(order.task_ids) > 1:
        message = "order %(order_id)r: the journal has more than one task for it, check all: %(task_ids)s"
        fields = {"order_id": order.order_id, "task_ids": order.task_ids}
        report(logger, logging.ERROR, Event.ORDER_DUPLICATED, message, **fields)

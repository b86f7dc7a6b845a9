"""What is logged about orders."""

import logging
from datetime import datetime

from vidgen_async.events import Event
from vidgen_async.service.endpoints import model_of
from vidgen_async.types.orders import Evidence, Order

logger = logging.getLogger(__name__)


def report_outcome(order: Order, n: int, evidence: Evidence) -> None:
    """Log the outcome of an attempt."""
    Event[f"ORDER_{evidence.outcome.name}"].log(
        logger,
        order_id=order.order_id,
        attempt=n,
        outcome=str(evidence.outcome),
        status=evidence.status,
        task_id=evidence.task_id,
        request_id=evidence.request_id,
        cause=evidence.cause or None,
        model=order.model or model_of(order.body),
    )


def report_found_uncertain(order: Order, now: datetime) -> None:
    """Log the attempts that a read of the journal at ``now`` made uncertain: their sender may not exist any more."""
    for n, evidence in order.found_uncertain(now):
        report_outcome(order, n, evidence)


def report_wait(order: Order, until: datetime, now: datetime) -> None:
    """Log that the create waits for the outcome of another one."""
    seconds = round((until - now).total_seconds(), 1)
    Event.ORDER_AWAITED.log(logger, order_id=order.order_id, seconds=seconds, until=f"{until:%Y-%m-%d %H:%M:%S} UTC")


def report_duplicates(order: Order) -> None:
    """Log an order that has several tasks."""
    if len(order.task_ids) > 1:
        Event.ORDER_DUPLICATED.log(logger, order_id=order.order_id, task_ids=order.task_ids)

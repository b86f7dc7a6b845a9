"""What a run does for a row, by the state of its order and its file."""

from typing import Literal, cast

from attrs import frozen

from vidgen_async.batch.outcomes import BatchState
from vidgen_async.media.download import FileProblem
from vidgen_async.orders import Orders
from vidgen_async.types.orders import AttemptOutcome, OrderState, OrderSummary


@frozen
class Step:
    """``create``: order it. ``save``: wait for its task, and save the video. ``defer``: take it up again at the end,
    since its sender may be dead. ``list``: do nothing."""

    do: Literal["create", "save", "defer", "list"]
    why: str = ""
    """Of what is done."""
    state: BatchState = "not_sent"
    """Of what is listed."""


def end_of(order: OrderSummary | None) -> str | None:
    """How the task of an order ended that the service has accepted: ``completed`` or ``failed``, if it is known."""
    return order.task_status if order is not None and order.state is OrderState.ACCEPTED else None


def plan(
    order: OrderSummary | None, file_problem: FileProblem | None, *, is_bad_request: bool, retry_failed: bool
) -> Step:
    """Return what to do for a row with this order, that of :func:`find_current`; ``file_problem`` is that of the file
    of a completed order, ``is_bad_request`` whether it was rejected with 400, which would happen again."""
    if order is None or order.state is OrderState.QUEUED:
        return Step("create", "new")
    if order.state is OrderState.SENDING:
        return Step("defer", "new")
    if order.state is OrderState.REJECTED:
        is_listed = is_bad_request and not retry_failed
        return Step("list", state="rejected") if is_listed else Step("create", "rejected before")
    if order.state is not OrderState.ACCEPTED:
        return Step("list", state=cast("BatchState", str(order.state)))
    if end_of(order) == "failed":
        return Step("create", "failed before") if retry_failed else Step("list", state="failed")
    if end_of(order) != "completed":
        return Step("save", "running")
    return Step("list", state="saved") if file_problem is None else Step("save", f"file {file_problem}")


async def is_bad_request(orders: Orders, order: OrderSummary | None) -> bool:
    """Whether the order was rejected with 400."""
    known = await orders.find(order.order_id) if order is not None and order.state is OrderState.REJECTED else None
    refused = [] if known is None else [one for one in known.attempts if one.outcome is AttemptOutcome.REJECTED]
    return bool(refused) and refused[-1].evidence is not None and refused[-1].evidence.status == 400


async def find_current(
    orders: Orders, order_id: str, order: OrderSummary | None
) -> tuple[OrderSummary | None, str, tuple[OrderSummary, ...]]:
    """Return the state of the order that a row has now, the id of the next one if this one has failed, and the failed
    ones before; ``order`` is the one with the id of the row."""
    earlier: tuple[OrderSummary, ...] = ()
    while True:
        next_id = f"{order_id}~{len(earlier) + 2}"
        following = (await orders.states([next_id])).get(next_id) if end_of(order) == "failed" else None
        if order is None or following is None:
            return order, next_id, earlier
        earlier, order = (*earlier, order), following

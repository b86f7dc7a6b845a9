"""The tasks that a command names, by their own ids or by those of their orders."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from vidgen_async import errors
from vidgen_async.cli.run_state import Stage
from vidgen_async.types import Order, OrderState

if TYPE_CHECKING:
    from vidgen_async.cli.run import Run


async def find_tasks(run: "Run", names: Sequence[str]) -> dict[str, str | None]:
    """Return the ids of tasks with those of their orders; an error for an order without one, or a name of both."""
    stage, run.stage = run.stage, Stage.JOURNAL
    tasks: dict[str, str | None] = {}
    for name in names:
        order = None
        with suppress(errors.InvalidRequestError):  # no order has such an id
            order = await run.client.orders.find(name)
        tasks[name if order is None else await _task_of(run, order)] = None if order is None else name
    run.stage = stage
    return tasks


async def find_task(run: "Run", name: str) -> str:
    """Return the id of the one task that this run is about, as :func:`find_tasks` does."""
    ((task_id, run.order_id),) = (await find_tasks(run, [name])).items()
    if run.order_id is not None:
        run.screen.print_fact("task", task_id)
    run.task_id = task_id
    return task_id


async def _task_of(run: "Run", order: Order) -> str:
    order_id, receipt = order.order_id, order.receipt
    if receipt is None:
        run.note_order(order)
        run.order_id, run.is_durable = order_id, True
        if order.state in (OrderState.UNCERTAIN, OrderState.ABANDONED):
            message = f"it is unknown whether the service accepted order {order_id!r}, which is {order.state}"
            raise errors.UncertainCreateError(message, order_id=order_id)
        message = f"order {order_id!r} cannot be used in place of its task: it is {order.state}"
        raise errors.OrderStateError(message, order_id=order_id, state=order.state)
    if order_id == receipt.task_id:
        return order_id
    try:
        await run.client.videos.get(order_id)
    except (errors.NotFoundError, errors.BadRequestError, errors.InvalidRequestError):
        return receipt.task_id
    raise errors.InvalidRequestError(
        f"{order_id!r} is an order in the journal, with the task {receipt.task_id!r}, and also a task of the service: "
        f"use {receipt.task_id!r} for the task of the order; add --journal memory: for the other one"
    )

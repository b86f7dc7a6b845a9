"""What has become of the one order of a test, whichever queue ran its job."""

from tests.engines.processes import Worker
from tests.stopped_sandbox import Service
from vidgen_async import Client


async def check_video(service: Service, operator: Client, video: bytes) -> None:
    """The service has received one create; the order has its receipt, and its video was saved."""
    (create,) = service.creates
    order = await operator.orders.get("order-1")
    assert order.receipt is not None
    assert order.receipt.task_id == create.task_id
    assert video[4:8] == b"ftyp"


async def answer_stopped_worker(service: Service, operator: Client, stopped: Worker) -> None:
    """The service answers the create of a worker that is stopping, which stores the receipt and ends. Then the task is
    completed."""
    assert await state_of(operator) == "sending"
    service.sandbox.clock.advance(1)
    assert await stopped.wait() == 0
    assert await state_of(operator) == "accepted"
    service.sandbox.clock.advance(4)


async def state_of(operator: Client) -> str | None:
    order = await operator.orders.find("order-1")
    return None if order is None else order.state

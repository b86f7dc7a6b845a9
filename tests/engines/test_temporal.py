"""Videos as workflows of Temporal."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as Temporal
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

from tests.engines.outcomes import answer_stopped_worker, check_video
from tests.engines.processes import QUEUES, Worker, Workers, is_answering, until
from tests.free_ports import find_port
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server. One for each test: polls of a killed worker would take the tasks of the next."""
    program = Path(sys.executable).with_name("temporal-test-server")
    while True:
        port = find_port()
        with subprocess.Popen([program, str(port)], stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own command
            try:
                if is_answering(server, port):
                    yield f"127.0.0.1:{port}"
                    return
            finally:
                server.terminate()


@pytest.fixture
def environment(environment: dict[str, str], address: str) -> dict[str, str]:
    return environment | {"TEMPORAL_ADDRESS": address}


@pytest.fixture
def recipe(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("temporal_worker")


@pytest.fixture
async def temporal(address: str) -> Temporal:
    return await Temporal.connect(address)


@pytest.fixture
def start(workers: Workers) -> Callable[[], Any]:
    """Start a worker."""

    async def start_worker(**settings: str) -> Worker:
        return await workers.start(str(QUEUES / "temporal_worker.py"), **settings)

    return start_worker


async def attempts_of(temporal: Temporal, order_id: str) -> list[int]:
    """The number of the last attempt of each activity of a workflow that has ended."""
    return [
        event.activity_task_started_event_attributes.attempt
        async for event in temporal.get_workflow_handle(order_id).fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]


async def result_of(temporal: Temporal, order_id: str) -> Any:
    """What the workflow returns when it ends. The test server itself reports an end within 20 seconds only."""
    workflow = temporal.get_workflow_handle(order_id)

    async def has_ended() -> bool:
        return (await workflow.describe()).status != WorkflowExecutionStatus.RUNNING

    await until(has_ended)
    return await workflow.result()


async def until_returned(temporal: Temporal, order_id: str) -> None:
    """Wait until a worker has given the activity back, for another attempt."""

    async def is_returned() -> bool:
        described = await temporal.get_workflow_handle(order_id).describe()
        return [one.attempt for one in described.raw_description.pending_activities] == [2]

    await until(is_returned)


async def test_a_worker_killed_in_the_middle_of_a_create_leaves_one_post_and_a_failed_workflow(
    recipe, temporal, start, service: Service, operator: Client, workers: Workers
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    await recipe.order_video(temporal, "order-1", "a boat")
    killed = await start(CREATE_LIMIT="1")
    await service.until_create()
    await killed.kill()

    await start(CREATE_LIMIT="1")

    with pytest.raises(WorkflowFailureError) as failure:
        await result_of(temporal, "order-1")
    assert failure.value.cause.cause.type == "UncertainCreateError"
    assert len(service.creates) == 1
    (order,) = await operator.orders.list(["uncertain"])
    assert order.order_id == "order-1"

    # The operator decides, and the product orders the video again.
    await operator.orders.adopt("order-1", str(service.creates[0].task_id))
    service.sandbox.clock.advance(4)
    await recipe.order_video(temporal, "order-1", "a boat")
    assert await result_of(temporal, "order-1") == "order-1.mp4"
    assert len(service.creates) == 1
    assert (workers.directory / "order-1.mp4").read_bytes()[4:8] == b"ftyp"


async def test_a_worker_killed_after_the_receipt_is_replaced_by_one_that_gets_the_same(
    recipe, temporal, start, service: Service, operator: Client, workers: Workers
):
    await recipe.order_video(temporal, "order-1", "a boat")
    killed = await start()
    await service.until(lambda request: request.op == "videos.get")
    await killed.kill()
    service.sandbox.clock.advance(4)

    await start()

    assert await result_of(temporal, "order-1") == "order-1.mp4"
    await check_video(service, operator, (workers.directory / "order-1.mp4").read_bytes())


async def test_a_worker_that_is_stopped_during_a_create_stores_its_receipt_and_returns_the_activity(
    recipe, temporal, start, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    await recipe.order_video(temporal, "order-1", "a boat")
    stopped = await start()
    await service.until_create()
    stopped.send(signal.SIGTERM)
    await until_returned(temporal, "order-1")
    await answer_stopped_worker(service, operator, stopped)
    await start()
    assert await result_of(temporal, "order-1") == "order-1.mp4"
    assert len(service.creates) == 1


async def test_a_retryable_error_is_retried_and_a_final_one_is_not(recipe, temporal, start, service: Service):
    await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await recipe.order_video(temporal, "order-1", "a boat")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    assert await result_of(temporal, "order-1") == "order-1.mp4"
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await recipe.order_video(temporal, "order-2", "a boat")
    with pytest.raises(WorkflowFailureError):
        await result_of(temporal, "order-2")

    assert [create.status for create in service.creates] == [429, 202, 402]
    assert await attempts_of(temporal, "order-1") == [2]
    assert await attempts_of(temporal, "order-2") == [1]


async def test_the_program_of_the_product_starts_a_workflow(temporal, workers: Workers):
    program = await workers.start(str(QUEUES / "temporal_order.py"), "order-1", "a boat")

    assert await program.wait() == 0
    described = await temporal.get_workflow_handle("order-1").describe()
    assert (described.workflow_type, described.task_queue) == ("video", "videos")


async def test_the_workflow_of_an_order_is_started_once(recipe, temporal, service: Service):
    for _ in range(2):
        await recipe.order_video(temporal, "order-1", "a boat")
    described = await temporal.get_workflow_handle("order-1").describe()
    assert described.status == WorkflowExecutionStatus.RUNNING


async def test_a_cancelled_workflow_cancels_no_order_that_is_being_sent(
    recipe, temporal, start, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    await start()
    await recipe.order_video(temporal, "order-1", "a boat")
    await service.until_create()
    await temporal.get_workflow_handle("order-1").cancel()
    with pytest.raises(WorkflowFailureError):
        await result_of(temporal, "order-1")
    service.sandbox.clock.advance(1)

    async def is_accepted() -> bool:
        return (await operator.orders.get("order-1")).state == "accepted"

    await until(is_accepted)
    service.sandbox.clock.advance(4)
    await recipe.order_video(temporal, "order-1", "a boat")
    assert await result_of(temporal, "order-1") == "order-1.mp4"
    assert len(service.creates) == 1

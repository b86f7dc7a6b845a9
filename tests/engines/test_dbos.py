"""Videos as workflows of DBOS."""

import signal
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

import pytest
from dbos import DBOSClient, WorkflowStatus

from tests.engines.outcomes import answer_stopped_worker, check_video
from tests.engines.processes import QUEUES, Worker, Workers, until
from tests.stopped_sandbox import Service
from vidgen_async import Client, InsufficientCreditsError, UncertainCreateError
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


@pytest.fixture
def recipe(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("dbos_worker")


@pytest.fixture
def start(workers: Workers) -> Callable[..., Any]:
    """Start a worker, which is ready when it has created the tables."""

    async def start_worker(executor: str = "videos-0", **settings: str) -> Worker:
        worker = await workers.start(str(QUEUES / "dbos_worker.py"), EXECUTOR_ID=executor, **settings)
        await worker.until_logged("DBOS launched")
        return worker

    return start_worker


@pytest.fixture
async def dbos(database: str) -> AsyncIterator[DBOSClient]:
    client = DBOSClient(system_database_url=database)
    yield client
    client.destroy()


async def until_status(dbos: DBOSClient, order_id: str, status: str) -> WorkflowStatus:
    """Wait until the workflow of an order has this status."""
    found: list[WorkflowStatus] = []

    async def has_it() -> bool:
        found[:] = await dbos.list_workflows_async(workflow_ids=[order_id], status=status)
        return bool(found)

    await until(has_it)
    return found[0]


async def test_a_worker_killed_in_the_middle_of_a_create_leaves_one_post_and_a_failed_workflow(
    recipe, dbos, start, service: Service, operator: Client, workers: Workers
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    killed = await start(CREATE_LIMIT="1")
    await recipe.order_video(dbos, "order-1", "a boat")
    await service.until_create()
    await killed.kill()

    await start(CREATE_LIMIT="1")

    failed = await until_status(dbos, "order-1", "ERROR")
    assert isinstance(failed.error, UncertainCreateError)
    assert failed.error.order_id == "order-1"
    assert len(service.creates) == 1
    (order,) = await operator.orders.list(["uncertain"])
    assert order.order_id == "order-1"

    # The operator decides, and runs the workflow again.
    await operator.orders.adopt("order-1", str(service.creates[0].task_id))
    service.sandbox.clock.advance(4)
    await dbos.rewind_workflow_async("order-1")
    assert (await until_status(dbos, "order-1", "SUCCESS")).output == "order-1.mp4"
    assert len(service.creates) == 1
    assert (workers.directory / "order-1.mp4").read_bytes()[4:8] == b"ftyp"


async def test_a_worker_killed_after_the_receipt_is_replaced_by_one_that_gets_the_same(
    recipe, dbos, start, service: Service, operator: Client, workers: Workers
):
    killed = await start()
    await recipe.order_video(dbos, "order-1", "a boat")
    await service.until(lambda request: request.op == "videos.get")
    await killed.kill()
    service.sandbox.clock.advance(4)

    await start()

    assert (await until_status(dbos, "order-1", "SUCCESS")).output == "order-1.mp4"
    await check_video(service, operator, (workers.directory / "order-1.mp4").read_bytes())


async def test_a_worker_that_is_stopped_during_a_create_stores_its_receipt_and_its_successor_continues(
    recipe, dbos, start, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    stopped = await start()
    await recipe.order_video(dbos, "order-1", "a boat")
    await service.until_create()
    stopped.send(signal.SIGTERM)
    await stopped.until_logged("DBOS successfully shut down")
    await answer_stopped_worker(service, operator, stopped)
    await until_status(dbos, "order-1", "PENDING")
    await start()
    await until_status(dbos, "order-1", "SUCCESS")
    assert len(service.creates) == 1


async def test_the_program_of_the_product_queues_a_workflow(dbos, start, service: Service, workers: Workers):
    await start()
    program = await workers.start(str(QUEUES / "dbos_order.py"), "order-1", "a boat")

    assert await program.wait() == 0
    await service.until(lambda request: request.op == "videos.get")
    service.sandbox.clock.advance(4)
    assert (await until_status(dbos, "order-1", "SUCCESS")).output == "order-1.mp4"
    assert [create.body["prompt"] for create in service.creates] == ["a boat"]


async def test_a_retryable_error_is_retried_and_a_final_one_is_not(recipe, dbos, start, service: Service):
    await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await recipe.order_video(dbos, "order-1", "a boat")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    await until_status(dbos, "order-1", "SUCCESS")
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await recipe.order_video(dbos, "order-2", "a boat")
    failed = await until_status(dbos, "order-2", "ERROR")

    assert isinstance(failed.error, InsufficientCreditsError)
    assert [create.status for create in service.creates] == [429, 202, 402]


async def test_a_worker_of_another_executor_continues_a_workflow_only_if_an_operator_resumes_it(
    recipe, dbos, start, service: Service
):
    killed = await start("videos-0")
    await recipe.order_video(dbos, "order-1", "a boat")
    await service.until(lambda request: request.op == "videos.get")
    await killed.kill()
    await start("videos-1")
    await recipe.order_video(dbos, "order-2", "another boat")
    service.sandbox.clock.advance(4)
    await service.until(lambda _: len(service.creates) == 2)
    service.sandbox.clock.advance(4)
    await until_status(dbos, "order-2", "SUCCESS")
    assert (await until_status(dbos, "order-1", "PENDING")).executor_id == "videos-0"

    await recipe.take_over(dbos, "videos-0")

    assert (await until_status(dbos, "order-1", "SUCCESS")).executor_id == "videos-1"
    assert len(service.creates) == 2

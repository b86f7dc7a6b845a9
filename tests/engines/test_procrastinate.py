"""Videos as jobs of Procrastinate."""

import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.engines.outcomes import answer_stopped_worker, check_video
from tests.engines.processes import QUEUES, Worker, Workers, until
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


@pytest.fixture
async def app(load: Callable[[str], Any]) -> AsyncIterator["App"]:
    """The app of the recipe, in this process, which runs no jobs."""
    app: App = load("procrastinate_worker").app
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield app


@pytest.fixture
def start(app: "App", workers: Workers) -> Callable[[], Any]:
    """Start a worker."""

    async def start_worker(**settings: str) -> Worker:
        return await workers.start(str(QUEUES / "procrastinate_worker.py"), **settings)

    return start_worker


async def defer(app: "App", *order_ids: str) -> None:
    """Queue a job for each order."""
    for order_id in order_ids:
        await app.configure_task("video").defer_async(order_id=order_id, prompt="a boat")


async def jobs_of(app: "App") -> "list[Job]":
    """The jobs for videos, the oldest first."""
    return list(await app.job_manager.list_jobs_async(task="video"))


async def until_status(app: "App", *statuses: str) -> None:
    """Wait until the jobs have these statuses."""

    async def have_it() -> bool:
        return [job.status for job in await jobs_of(app)] == list(statuses)

    await until(have_it)


async def test_a_worker_killed_in_the_middle_of_a_create_leaves_one_post_and_a_failed_job(
    app, start, service: Service, operator: Client, workers
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    await defer(app, "order-1")
    killed = await start()
    await service.until_create()
    await killed.kill()

    await start()

    await until_status(app, "failed")
    assert len(service.creates) == 1
    (order,) = await operator.orders.list(["uncertain"])
    assert order.order_id == "order-1"

    # The operator decides, and the product queues the video again.
    await operator.orders.adopt("order-1", str(service.creates[0].task_id))
    service.sandbox.clock.advance(4)
    product = await workers.start(str(QUEUES / "procrastinate_order.py"), "order-1", "a boat")
    assert await product.wait() == 0
    await until_status(app, "failed", "succeeded")
    assert len(service.creates) == 1
    assert (workers.directory / "order-1.mp4").read_bytes()[4:8] == b"ftyp"


async def test_a_worker_killed_after_the_receipt_is_replaced_by_one_that_gets_the_same(
    app, start, service: Service, operator: Client, workers
):
    await defer(app, "order-1")
    killed = await start(VIDGEN_LOG="info")
    await service.until(lambda request: request.op == "videos.get")
    await killed.until_logged("order 'order-1': attempt 1 is accepted")
    await killed.kill()
    service.sandbox.clock.advance(4)

    await start()

    await until_status(app, "succeeded")
    await check_video(service, operator, (workers.directory / "order-1.mp4").read_bytes())


async def test_a_worker_that_is_stopped_during_a_create_stores_its_receipt_and_returns_the_job(
    app, start, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    await defer(app, "order-1")
    stopped = await start()
    await service.until_create()
    stopped.send(signal.SIGTERM)
    await until_status(app, "todo")
    await answer_stopped_worker(service, operator, stopped)
    await start()
    await until_status(app, "succeeded")
    assert len(service.creates) == 1


async def test_the_program_of_the_product_queues_a_job(app, workers):
    program = await workers.start(str(QUEUES / "procrastinate_order.py"), "order-1", "a boat")

    assert await program.wait() == 0
    (job,) = await jobs_of(app)
    assert (job.status, job.task_kwargs) == ("todo", {"order_id": "order-1", "prompt": "a boat"})


async def test_a_retryable_error_is_retried_and_a_final_one_is_not(app, start, service: Service):
    await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await defer(app, "order-1")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    await until_status(app, "succeeded")
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await defer(app, "order-2")
    await until_status(app, "succeeded", "failed")

    assert [create.status for create in service.creates] == [429, 202, 402]
    assert [job.attempts for job in await jobs_of(app)] == [2, 1]

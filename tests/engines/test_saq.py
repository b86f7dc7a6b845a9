"""Videos as jobs of SAQ."""

import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.engines.outcomes import answer_stopped_worker, check_video
from tests.engines.processes import QUEUES, Worker, Workers, until
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

if TYPE_CHECKING:
    from saq import Job

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


@pytest.fixture
def environment(environment: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """The jobs are in the database, or in Redis."""
    if getattr(request, "param", "PostgreSQL") == "PostgreSQL":
        return environment
    return environment | {"SAQ_URL": request.getfixturevalue("redis")}


@pytest.fixture
async def recipe(load: Callable[[str], Any]) -> AsyncIterator[Any]:
    """The module of the recipe, in this process, which runs no jobs."""
    recipe = load("saq_worker")
    await recipe.queue.connect()
    yield recipe
    await recipe.queue.disconnect()


@pytest.fixture
def start(recipe: Any, workers: Workers) -> Callable[[], Any]:
    """Start a worker."""

    async def start_worker(**settings: str) -> Worker:
        return await workers.start("-m", "saq", "-v", "saq_worker.settings", **settings)

    return start_worker


async def until_status(recipe: Any, status: str, order_id: str = "order-1") -> "Job":
    """The job of an order, once it has this status."""

    async def has_it() -> bool:
        job = await recipe.queue.job(order_id)
        return job is not None and job.status == status

    await until(has_it)
    return await recipe.queue.job(order_id)


async def test_a_worker_killed_in_the_middle_of_a_create_leaves_one_post_and_a_failed_job(
    recipe, start, service: Service, operator: Client, workers
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    await recipe.order_video("order-1", "a boat")
    killed = await start()
    await service.until_create()
    await killed.kill()

    await start()

    job = await until_status(recipe, "failed")
    assert "UncertainCreateError" in job.error
    assert len(service.creates) == 1
    (order,) = await operator.orders.list(["uncertain"])
    assert order.order_id == "order-1"

    # The operator decides, and the product queues the video again.
    await operator.orders.adopt("order-1", str(service.creates[0].task_id))
    service.sandbox.clock.advance(4)
    await until(lambda: recipe.order_video("order-1", "a boat"))
    await until_status(recipe, "complete")
    assert len(service.creates) == 1
    assert (workers.directory / "order-1.mp4").read_bytes()[4:8] == b"ftyp"


async def test_a_worker_killed_after_the_receipt_is_replaced_by_one_that_gets_the_same(
    recipe, start, service: Service, operator: Client, workers
):
    await recipe.order_video("order-1", "a boat")
    killed = await start()
    await service.until(lambda request: request.op == "videos.get")
    await killed.kill()
    service.sandbox.clock.advance(4)

    await start()

    job = await until_status(recipe, "complete")
    await check_video(service, operator, (workers.directory / job.result).read_bytes())


async def test_a_job_whose_heartbeat_failed_once_sends_the_next_ones(recipe, start, service: Service, database: str):
    await recipe.order_video("order-1", "a boat")
    await start()
    await service.until(lambda request: request.op == "videos.get")
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("SELECT FROM saq_jobs WHERE key = 'order-1' FOR UPDATE")  # the heartbeat waits
        await until(lambda: terminate_waiting(connection))
    failed = await recipe.queue.job("order-1")

    async def is_newer() -> bool:
        return (await recipe.queue.job("order-1")).touched > failed.touched

    await until(is_newer)
    job = await recipe.queue.job("order-1")
    assert (job.status, job.attempts) == ("active", 1)


async def terminate_waiting(connection: psycopg.AsyncConnection) -> bool:
    """End the sessions that wait for a lock; False if there are none yet."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE pg_blocking_pids(pid) <> '{}' AND datname = current_database()"
    ended = await connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({waiting}) AS waiting")  # noqa: S608
    return bool(await ended.fetchall())


async def test_a_worker_that_is_stopped_during_a_create_stores_its_receipt_and_returns_the_job(
    recipe, start, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    await recipe.order_video("order-1", "a boat")
    stopped = await start()
    await service.until_create()
    stopped.send(signal.SIGTERM)
    await until_status(recipe, "queued")
    await answer_stopped_worker(service, operator, stopped)
    await start()
    await until_status(recipe, "complete")
    assert len(service.creates) == 1


@pytest.mark.parametrize("environment", ["PostgreSQL", "Redis"], indirect=True)
async def test_the_program_of_the_product_queues_a_job(recipe, workers):
    program = await workers.start(str(QUEUES / "saq_order.py"), "order-1", "a boat")

    assert await program.wait() == 0
    job = await recipe.queue.job("order-1")
    assert (job.status, job.kwargs) == ("queued", {"order_id": "order-1", "prompt": "a boat"})


async def test_a_retryable_error_is_retried_and_a_final_one_is_not(recipe, start, service: Service):
    await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await recipe.order_video("order-1", "a boat")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    retried = await until_status(recipe, "complete")
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await recipe.order_video("order-2", "a boat")
    final = await until_status(recipe, "failed", "order-2")

    assert [create.status for create in service.creates] == [429, 202, 402]
    assert [retried.attempts, final.attempts] == [2, 1]


@pytest.mark.parametrize("environment", ["Redis"], indirect=True)
async def test_a_job_in_redis_leads_to_one_order(recipe, start, service: Service):
    """It may be run more often than it has to, since a sweep takes a job for dead that has just been taken."""
    await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await recipe.order_video("order-1", "a boat")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    await until_status(recipe, "complete")

    assert [create.status for create in service.creates] == [429, 202]

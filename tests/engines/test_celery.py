"""Videos as jobs of Celery, in an environment of its own: its redis package is not that of SAQ."""

import fcntl
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.engines.outcomes import answer_stopped_worker, check_video
from tests.engines.processes import QUEUES, Worker, Workers, until
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]

WORKER = ("-m", "celery", "--app", "celery_worker", "worker", "--concurrency", "1", "--loglevel", "INFO")


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The Python of an environment with Celery; everything else is that of this one."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    python = shared / "celery" / "bin" / "python"
    with (shared / "celery.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes with tests, one makes the environment
        if not list(shared.glob("celery/lib/*/site-packages/others.pth")):
            run("-m", "venv", "--without-pip", str(shared / "celery"))
            run("-m", "pip", "--quiet", "--python", str(python), "install", "celery[redis]>=5.7")
            (packages,) = shared.glob("celery/lib/*/site-packages")
            (packages / "others.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


def run(*arguments: str) -> None:
    """Run Python with these arguments."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own commands


@pytest.fixture
def environment(environment: dict[str, str], redis: str) -> dict[str, str]:
    return environment | {"REDIS_URL": redis, "VISIBILITY_TIMEOUT": "2"}


@pytest.fixture
async def broker(redis: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis) as broker:
        await broker.flushall()
        yield broker


@pytest.fixture
def start(python: Path, workers: Workers, broker: Redis) -> Callable[..., Awaitable[Worker]]:
    """Start a worker with one process for jobs."""

    async def start_worker(**settings: str) -> Worker:
        return await workers.start(*WORKER, python=str(python), **settings)

    return start_worker


@pytest.fixture
def order(python: Path, workers: Workers) -> Callable[[str], Awaitable[None]]:
    """Queue a job, as the product does."""

    async def order_video(order_id: str) -> None:
        program = await workers.start(str(QUEUES / "celery_order.py"), order_id, "a boat", python=str(python))
        assert await program.wait() == 0

    return order_video


def child_of(worker: Worker) -> int:
    """The process id of the one process that runs jobs."""
    (child,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return int(child)


async def until_no_jobs(broker: Redis) -> None:
    """Wait until no job waits or runs."""

    async def are_none() -> bool:
        return not await broker.llen("celery") and not await broker.hlen("unacked")

    await until(are_none)


async def test_a_worker_killed_in_the_middle_of_a_create_leaves_one_post_and_a_failed_job(
    start, order, broker, service: Service, operator: Client, workers: Workers
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    killed = await start(CREATE_LIMIT="1")
    await order("order-1")
    await service.until_create()
    await killed.kill()

    successor = await start(CREATE_LIMIT="1")

    await successor.until_logged("Task video[order-1] raised unexpected: UncertainCreateError")
    await until_no_jobs(broker)
    assert len(service.creates) == 1
    (order,) = await operator.orders.list(["uncertain"])
    assert order.order_id == "order-1"


async def test_a_worker_killed_after_the_receipt_is_replaced_by_one_that_gets_the_same(
    start, order, broker, service: Service, operator: Client, workers: Workers
):
    service.sandbox.faults.add("videos.get", Fault.stall())
    killed = await start()
    await order("order-1")
    await service.until(lambda request: request.op == "videos.get")
    await killed.kill()
    service.sandbox.clock.advance(4)

    successor = await start()

    await successor.until_logged("Task video[order-1] succeeded")
    await until_no_jobs(broker)
    await check_video(service, operator, (workers.directory / "order-1.mp4").read_bytes())


async def test_the_job_of_a_killed_process_is_run_again_at_once(start, order, broker, service: Service):
    service.sandbox.faults.add("videos.get", Fault.stall())
    worker = await start(VISIBILITY_TIMEOUT="600")
    await order("order-1")
    await service.until(lambda request: request.op == "videos.get")
    os.kill(child_of(worker), signal.SIGKILL)
    service.sandbox.clock.advance(4)

    await worker.until_logged("Task video[order-1] succeeded")
    assert len(service.creates) == 1


async def test_a_worker_that_is_stopped_during_a_create_stores_its_receipt_and_returns_the_job(
    start, order, broker, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    stopped = await start(VISIBILITY_TIMEOUT="600")  # the job is returned, not found later
    await order("order-1")
    await service.until_create()
    stopped.send(signal.SIGTERM)
    await stopped.until_logged("Warm shutdown")
    await answer_stopped_worker(service, operator, stopped)
    successor = await start(VISIBILITY_TIMEOUT="600")
    await successor.until_logged("Task video[order-1] succeeded")
    assert len(service.creates) == 1


async def test_a_retryable_error_is_retried_and_a_final_one_is_not(start, order, broker, service: Service):
    worker = await start()
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    await order("order-1")
    await service.until(lambda request: request.op == "videos.create" and request.status == 202)
    service.sandbox.clock.advance(4)
    await worker.until_logged("Task video[order-1] succeeded")
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await order("order-2")
    await worker.until_logged("Task video[order-2] raised unexpected: RejectedInsufficientCreditsError")
    await until_no_jobs(broker)

    assert [create.status for create in service.creates] == [429, 202, 402]


async def test_a_failed_task_is_a_failed_job(start, order, broker, service: Service):
    service.sandbox.fail_next_task("too blue")
    worker = await start()
    await order("order-1")
    await service.until(lambda request: request.op == "videos.get")
    service.sandbox.clock.advance(4)
    await worker.until_logged("Task video[order-1] raised unexpected: TaskFailedError")
    await until_no_jobs(broker)


async def test_a_worker_without_a_key_does_not_start(start):
    assert await (await start(VIDGEN_API_KEY="")).wait() == 1

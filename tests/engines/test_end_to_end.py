"""Several workers on one account, of which one is killed and one is suspended."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.engines.processes import QUEUES, Worker, Workers, until
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault, Sandbox

if TYPE_CHECKING:
    from procrastinate import App

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]

VIDEOS = 120
#: Of the sandbox's clock, so that the rolling limit of 60 seconds is one of 3.
SPEED = 20
SUBMISSIONS = 20
#: In real seconds. Of the creates, so that several are under way at any time; and of the tasks.
LATENCY, DURATION = 1, 4


@pytest.fixture
async def service(small_videos: None) -> AsyncIterator[Service]:
    times = {"speed": SPEED, "running_for": DURATION * SPEED, "submission_limit": SUBMISSIONS}
    async with Sandbox(**times) as sandbox:
        sandbox.faults.add("videos.create", Fault.stall(LATENCY * SPEED), times=None)
        yield Service(sandbox, asyncio.Event())


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    pacing = {"SUBMISSION_LIMIT": str(SUBMISSIONS), "SUBMISSION_WINDOW": str(60 / SPEED)}
    return environment | pacing | {"POLL_INTERVAL": "0.5"}


@pytest.fixture
async def app(load: Any) -> "AsyncIterator[App]":
    app = load("procrastinate_worker").app
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield app


async def test_workers_that_die_or_stop_lose_and_repeat_nothing(
    app: "App", service: Service, workers: Workers, operator: Client, database: str
):
    ids = [f"order-{number}" for number in range(VIDEOS)]
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        (killed, its_number), (suspended, number), _ = [await start(workers, connection) for _ in range(3)]
        await app.configure_task("video").batch_defer_async(*({"order_id": name, "prompt": name} for name in ids))
        await until_sending(service, connection, its_number)
        await killed.kill()
        await start(workers, connection)
        await until_sending(service, connection, number)
        suspended.send(signal.SIGSTOP)
        await until_jobs_are_taken_over(connection, number)
        suspended.send(signal.SIGCONT)
        await until_jobs_are_over(connection)

    # The service has received each order once at most, and never too many at a time.
    sent = Counter(create.body["prompt"] for create in service.creates)
    assert set(sent.values()) == {1}
    assert {create.status for create in service.creates} <= {202, None}
    # An order is uncertain if its create was cut off; all others are handled.
    uncertain = {order.order_id for order in await operator.orders.list(["uncertain"])}
    cut_off = {create.body["prompt"] for create in service.creates if create.status is None}
    assert cut_off
    assert cut_off <= uncertain
    assert set(ids) - set(sent) <= uncertain  # cut off before the first byte
    assert len(uncertain) <= SUBMISSIONS
    for order in await operator.orders.list(["accepted"]):
        async with operator.videos.stream(order.receipt) as video:
            whole = b"".join([chunk async for chunk in video.chunks()])
        assert (workers.directory / f"{order.order_id}.mp4").read_bytes() == whole, order.order_id
    assert len(uncertain) + len(await operator.orders.list(["accepted"])) == VIDEOS


async def start(workers: Workers, connection: psycopg.AsyncConnection) -> tuple[Worker, int]:
    """A worker, and its number in the queue."""
    query = "SELECT coalesce(max(id), 0) FROM procrastinate_workers"
    (before,) = await (await connection.execute(query)).fetchone()
    worker = await workers.start(str(QUEUES / "procrastinate_worker.py"))

    async def has_number() -> int | None:
        (number,) = await (await connection.execute(query)).fetchone()
        return number if number > before else None

    await until(has_number)
    return worker, await has_number()


async def until_sending(service: Service, connection: psycopg.AsyncConnection, number: int) -> None:
    """Wait until the service has read a create of this worker, and has just begun to handle it."""

    async def is_sending() -> bool:
        now = service.sandbox.clock.now()
        under_way = [
            request.create.body["prompt"]
            for request in service.sandbox.requests
            if request.create
            and request.create.body
            and not request.is_over
            and request.create.received_at > now - LATENCY * SPEED / 2
        ]
        query = "SELECT 1 FROM procrastinate_jobs WHERE worker_id = %s AND args->>'order_id' = ANY(%s)"
        return bool(await (await connection.execute(query, (number, under_way))).fetchone())

    await until(is_sending, limit=200)


async def until_jobs_are_taken_over(connection: psycopg.AsyncConnection, number: int) -> None:
    """Wait until no job belongs to this worker."""

    async def has_none() -> bool:
        query = "SELECT 1 FROM procrastinate_jobs WHERE worker_id = %s AND status = 'doing'"
        return await (await connection.execute(query, (number,))).fetchone() is None

    await until(has_none, limit=200)


async def until_jobs_are_over(connection: psycopg.AsyncConnection) -> None:
    """Wait until no job is waiting or running."""

    async def are_over() -> bool:
        query = "SELECT 1 FROM procrastinate_jobs WHERE task_name = 'video' AND status NOT IN ('succeeded', 'failed')"
        return await (await connection.execute(query)).fetchone() is None

    await until(are_over, limit=200)

"""What jobs cost that wait for their tasks in two workers of Procrastinate: memory and CPU of each worker.

Each job waits for one task with ``client.videos.wait``, or polls it with aiohttp; or it only sleeps, which is what the
queue itself costs. The memory before the first job is reported too.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any, TypeAlias

import procrastinate
import psycopg

from benchmarks.children import result_of, started
from benchmarks.get_peers import KEY, OURS, PEERS, RAW, task_ids
from benchmarks.load_service import running_service
from benchmarks.measure import resident_bytes
from benchmarks.results import Figure, Scale, with_ratio
from tests.postgres import running_server
from vidgen_async import Client

WORKERS = 2
#: Seconds until all jobs wait, at most.
_PATIENCE = 300.0
#: Seconds between the start of the last job and the measurement.
_SETTLING = 5.0


Wait: TypeAlias = Callable[[str], Awaitable[object]]
"""What a job does with the id of its task; it never returns, because no task ends."""
SLEEP = "jobs that only sleep"


@asynccontextmanager
async def _watched(url: str, interval: float) -> AsyncIterator[Wait]:
    async with Client(KEY, base_url=f"{url}/openapi/v1", poll_interval=interval) as client:
        yield lambda task_id: client.videos.wait(task_id, timeout=None)


@asynccontextmanager
async def _polled(url: str, interval: float) -> AsyncIterator[Wait]:
    async with PEERS[RAW].connect(url) as get:

        async def wait(task_id: str) -> None:
            await asyncio.sleep(random.uniform(0, interval))  # noqa: S311 - so that polls are spread, as ours are
            while True:
                await get(task_id)
                await asyncio.sleep(interval)

        yield wait


@asynccontextmanager
async def _slept(url: str, interval: float) -> AsyncIterator[Wait]:
    yield lambda task_id: asyncio.Future()


WAYS: Mapping[str, Callable[[str, float], AbstractAsyncContextManager[Wait]]] = {
    OURS: _watched,
    RAW: _polled,
    SLEEP: _slept,
}


def run(scale: Scale) -> list[Figure]:
    return [*figures(scale.jobs, {way: _measure(way, scale) for way in WAYS})]


def _measure(way: str, scale: Scale) -> Mapping[str, float]:
    """The mean of the workers, all of whose jobs wait in this way."""
    with running_server() as server, running_service() as service, ExitStack() as stack:
        asyncio.run(_defer(server.dsn, scale.jobs))
        arguments = (way, server.dsn, service.url, scale.jobs, scale.interval, scale.sample_seconds)
        workers = [stack.enter_context(started("benchmarks.waiting_jobs", *arguments)) for _ in range(WORKERS)]
        found = [result_of(worker) for worker in workers]
        return {name: sum(each[name] for each in found) / len(found) for name in found[0]}


def figures(jobs: int, found: Mapping[str, Mapping[str, float]]) -> Iterator[Figure]:
    benchmark = f"{jobs:,} waiting jobs in {WORKERS} workers of Procrastinate"
    for way, mean in found.items():
        note = f"{mean['idle'] / 2**20:.0f} MiB before its first job"
        yield Figure(benchmark, f"{way}: memory of a worker", mean["memory"] / 2**20, "MiB", note=note)
    shares = {way: mean["cpu"] / mean["wall"] * 100 for way, mean in found.items()}
    for way, share in shares.items():
        figure = Figure(benchmark, f"{way}: share of a core of a worker", share, "%")
        yield figure if way == RAW else with_ratio(figure, RAW, [share / shares[RAW]])


# -- the queue ---------------------------------------------------------------------------------------------------------


def make_app(dsn: str) -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))


async def _defer(dsn: str, jobs: int) -> None:
    app = make_app(dsn)
    arguments: list[dict[str, Any]] = [{"task_id": task_id} for task_id in task_ids(jobs)]
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.configure_task("wait").batch_defer_async(*arguments)


# -- in the process of a worker ----------------------------------------------------------------------------------------


async def work(way: str, dsn: str, url: str, jobs: int, interval: float, seconds: float) -> None:
    """Start an equal share of the jobs; when those of all workers wait, measure for ``seconds``, and print it."""
    app = make_app(dsn)
    async with WAYS[way](url, interval) as wait_for, app.open_async():

        @app.task(name="wait")
        async def wait(task_id: str) -> None:
            await wait_for(task_id)

        idle = resident_bytes()
        worker = asyncio.ensure_future(app.run_worker_async(concurrency=jobs // WORKERS))
        if not await _all_run(dsn, jobs):
            print(f"not all of {jobs} jobs were started within {_PATIENCE:.0f} seconds", file=sys.stderr, flush=True)
            os._exit(1)
        await asyncio.sleep(min(interval, _SETTLING))
        started_at, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        found = {
            "idle": float(idle),
            "cpu": time.process_time() - cpu,
            "wall": time.monotonic() - started_at,
            "memory": float(resident_bytes()),
        }
        print(json.dumps(found), flush=True)
        os._exit(int(worker.done()))  # a worker that stops waits for its jobs


async def _all_run(dsn: str, jobs: int) -> bool:
    """Return when all jobs were started, or False if that takes too long."""
    give_up_at = time.monotonic() + _PATIENCE
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        while time.monotonic() < give_up_at:
            cursor = await connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'")
            if await cursor.fetchone() == (jobs,):
                return True
            await asyncio.sleep(0.5)
    return False


if __name__ == "__main__":
    way, dsn, url, jobs, interval, seconds = sys.argv[1:]
    asyncio.run(work(way, dsn, url, int(jobs), float(interval), float(seconds)))

"""What jobs cost that wait for their tasks in two workers of Procrastinate: memory and CPU of each worker.

Each job waits for one task with ``client.videos.wait``. The memory before the first job is reported too.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import procrastinate
import psycopg

from benchmarks.children import result_of, started
from benchmarks.get_peers import KEY, task_ids
from benchmarks.load_service import running_service
from benchmarks.measure import resident_bytes
from benchmarks.results import Figure, Scale
from tests.postgres import running_server
from vidgen_async import Client

WORKERS = 2
#: Seconds until all jobs wait, at most.
_PATIENCE = 300.0
#: Seconds between the start of the last job and the measurement.
_SETTLING = 5.0


def run(scale: Scale) -> list[Figure]:
    with running_server() as server, running_service() as service:
        asyncio.run(_defer(server.dsn, scale.jobs))
        with ExitStack() as stack:
            arguments = (server.dsn, service.url, scale.jobs, scale.interval, scale.sample_seconds)
            workers = [stack.enter_context(started("benchmarks.waiting_jobs", *arguments)) for _ in range(WORKERS)]
            return [*figures(scale.jobs, [result_of(worker) for worker in workers])]


def figures(jobs: int, found: Sequence[Mapping[str, float]]) -> Iterator[Figure]:
    """The mean of the workers."""
    benchmark = f"{jobs:,} waiting jobs in {len(found)} workers of Procrastinate"
    mean = {name: sum(each[name] for each in found) / len(found) for name in found[0]}
    note = f"{mean['idle'] / 2**20:.0f} MiB before its first job"
    yield Figure(benchmark, "memory of a worker", mean["memory"] / 2**20, "MiB", note=note)
    cpu, polls = mean["cpu"] / mean["wall"] * 100, mean["polls"] / mean["wall"]
    yield Figure(benchmark, "share of a core of a worker", cpu, "%", note=f"{polls:.0f} polls a second")


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


async def work(dsn: str, url: str, jobs: int, interval: float, seconds: float) -> None:
    """Start an equal share of the jobs; when those of all workers wait, measure for ``seconds``, and print it."""
    app = make_app(dsn)
    async with Client(KEY, base_url=f"{url}/openapi/v1", poll_interval=interval) as client, app.open_async():

        @app.task(name="wait")
        async def wait(task_id: str) -> None:
            await client.videos.wait(task_id, timeout=None)

        idle = resident_bytes()
        worker = asyncio.ensure_future(app.run_worker_async(concurrency=jobs // WORKERS))
        if not await _all_run(dsn, jobs):
            print(f"not all of {jobs} jobs were started within {_PATIENCE:.0f} seconds", file=sys.stderr, flush=True)
            os._exit(1)
        await asyncio.sleep(min(interval, _SETTLING))
        before, started_at, cpu = client.watcher.stats.polls, time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        found = {
            "idle": float(idle),
            "cpu": time.process_time() - cpu,
            "wall": time.monotonic() - started_at,
            "polls": float(client.watcher.stats.polls - before),
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
    dsn, url, jobs, interval, seconds = sys.argv[1:]
    asyncio.run(work(dsn, url, int(jobs), float(interval), float(seconds)))

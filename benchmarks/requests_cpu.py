"""What one ``videos.get`` costs: CPU time of the client's process, one look at a time, and fifty at a time."""

import asyncio
import gc
import json
import sys
import time
from functools import partial

from attrs import frozen

from benchmarks.children import Found, child, interleaved, run_on_loop
from benchmarks.get_peers import (
    OPENAI,
    OURS,
    OURS_ON_UVLOOP,
    PEERS,
    RAW,
    RAW_ON_UVLOOP,
    Get,
    present,
    task_ids,
)
from benchmarks.load_service import LoadService, running_service
from benchmarks.results import Figure, Scale, at_least, at_most, compared

CONCURRENCIES = {"one at a time": 1, "50 at a time": 50}
#: Ours may cost so many times as much as plain aiohttp, and openai must cost so many times as much as ours.
MOST_OF_RAW, LEAST_OF_OPENAI = 1.3, 7.0

#: So many looks are taken before the clock starts: connections are open, and everything was done once.
_WARM_UP = 200


@frozen
class Cost:
    """Of one look."""

    seconds: float
    """CPU time of the process that looked."""
    connections: int
    """Opened for all the looks of the round."""


def run(scale: Scale) -> list[Figure]:
    found = []
    with running_service() as service:
        for label, concurrency in CONCURRENCIES.items():
            take = partial(cost, service, scale.gets, concurrency)
            taken = interleaved(present(scale.peers), scale.rounds, take)
            found += figures(f"CPU per videos.get, {label}", taken, concurrency)
    return found


def cost(service: LoadService, gets: int, concurrency: int, name: str) -> Cost:
    """In a new process. RuntimeError when not as many looks arrived as were asked for."""
    gets = max(int(gets * PEERS[name].share), 1)
    service.reset()
    found = child("benchmarks.requests_cpu", name, service.url, gets, concurrency)
    arrived = service.counts()
    if arrived.tasks != gets + _WARM_UP:
        message = f"{name} was to look {gets + _WARM_UP} times: {arrived}"
        raise RuntimeError(message)
    return Cost(found["seconds"] / gets, arrived.connections - 1)  # one asked for the counts


def figures(benchmark: str, taken: dict[str, list[Cost]], concurrency: int) -> list[Figure]:
    """A row for each: ours beside plain aiohttp on the same loop, peers as multiples of ours."""
    seconds = {name: [cost.seconds for cost in costs] for name, costs in taken.items()}
    found = []
    for name, costs in taken.items():
        base, target = {
            OURS: (RAW, partial(at_most, MOST_OF_RAW)),
            OURS_ON_UVLOOP: (RAW_ON_UVLOOP, partial(at_most, MOST_OF_RAW)),
            OPENAI: (OURS, partial(at_least, LEAST_OF_OPENAI)),
        }.get(name, (OURS, None))
        opened = max(cost.connections for cost in costs)
        note = f"its pool opened {opened:,} connections, for {concurrency} at a time" if opened > concurrency else ""
        found.append(compared(benchmark, name, seconds, base, target, note))
    return found


# -- in the child ------------------------------------------------------------------------------------------------------


async def _measured(name: str, url: str, gets: int, concurrency: int) -> Found:
    async with PEERS[name].connect(url, 60.0) as connected:
        await _look(connected.get, _WARM_UP, concurrency)
        gc.collect()
        begun_at = time.process_time()
        await _look(connected.get, gets, concurrency)
        return {"seconds": time.process_time() - begun_at}


async def _look(get: Get, count: int, concurrency: int) -> None:
    ids = iter(task_ids(count))

    async def worker() -> None:
        for task_id in ids:
            await get(task_id)

    if concurrency == 1:
        await worker()
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


def main(name: str, url: str, gets: str, concurrency: str) -> None:
    work = _measured(name, url, int(gets), int(concurrency))
    print(json.dumps(run_on_loop(work, is_uvloop=PEERS[name].is_on_uvloop)))


if __name__ == "__main__":
    main(*sys.argv[1:])

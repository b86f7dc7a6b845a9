"""What one ``videos.get`` costs: CPU time of the process, one request at a time and 50 concurrent ones.

All competitors take turns in one process, in blocks of a few hundred requests: what slows the machine down slows down
all of them, and each ratio is one of neighbouring blocks. Each event loop, with TLS and without, has a process of its
own.
"""

import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import count, islice
from typing import Any, TypeAlias

from attrs import asdict, evolve, frozen

from benchmarks.children import child, run_on_loop
from benchmarks.get_peers import BARE, EARLIER, OPENAI, OURS, PEERS, RAW, Get, event_loops, present
from benchmarks.load_service import count_at, running_service
from benchmarks.results import Figure, Scale, at_least, at_most, compared

#: By the number of concurrent requests, the most that ours may cost as a multiple of plain aiohttp: on asyncio without
#: TLS, and otherwise, where more of the cost is common to both.
MOST_OF_RAW, MOST_OTHERWISE = {1: 0.8, 50: 0.75}, {1: 1.0, 50: 0.9}
#: What openai must cost at least with 50 concurrent requests, as a multiple of ours.
LEAST_OF_OPENAI = 10.0

_OWN = (BARE, RAW, OURS, EARLIER)
#: The SDKs of other services take so much longer that fewer blocks suffice.
_FEWER = 5
#: Requests of each competitor before the first block.
_WARM_UP = 100

#: Seconds of CPU time per request, by competitor and block.
Costs: TypeAlias = Mapping[str, Sequence[float]]


@frozen
class Plan:
    """What one process measures."""

    names: Sequence[str]
    url: str
    count_url: str
    """The service without TLS."""
    blocks: int
    gets: int
    """In one block."""
    is_uvloop: bool


def run(scale: Scale) -> list[Figure]:
    found: dict[int, list[Figure]] = {concurrency: [] for concurrency in MOST_OF_RAW}
    with running_service() as service:
        measure = partial(_costs, environment=service.environment)
        for loop, is_uvloop in event_loops().items():
            for suffix, url in (("", service.url), (", TLS", service.tls_url)):
                label = suffix if loop == "asyncio" else f", {loop}{suffix}"
                names = [name for name in _OWN if not PEERS[name].missing]
                plan = Plan(names, url, service.url, scale.blocks, scale.gets, is_uvloop)
                for concurrency, costs in measure(plan).items():
                    found[concurrency] += figures(concurrency, label, costs)
        plan = Plan(
            [name for name in present(scale.peers) if name == OURS or name not in _OWN],
            service.url,
            service.url,
            max(scale.blocks // _FEWER, 1),
            scale.gets,
            is_uvloop=False,
        )
        for concurrency, costs in measure(plan).items():
            found[concurrency] += peer_figures(concurrency, costs)
    return [figure for figures in found.values() for figure in figures]


def _costs(plan: Plan, environment: Mapping[str, str]) -> dict[int, Costs]:
    found = child("benchmarks.gets", json.dumps(asdict(plan)), environment=environment)
    return {int(concurrency): costs for concurrency, costs in found.items()}


def figures(concurrency: int, label: str, costs: Costs) -> Iterator[Figure]:
    """Ours as a multiple of plain aiohttp, and that of an older commit, where it was measured, of ours."""
    judge = partial(at_most, (MOST_OTHERWISE if label else MOST_OF_RAW)[concurrency])
    for name, other in ((OURS, RAW), (RAW, None), (EARLIER, OURS)):
        if name in costs:
            is_judged = judge if name == OURS else None
            figure = compared(_benchmark(concurrency), name, costs, other, is_judged, limit=BARE)
            yield evolve(figure, name=f"{name}{label}")


def peer_figures(concurrency: int, costs: Costs) -> Iterator[Figure]:
    """The SDKs of other services as multiples of ours."""
    for name in costs:
        if name != OURS:
            has_target = (name, concurrency) == (OPENAI, max(MOST_OF_RAW))
            judge = partial(at_least, LEAST_OF_OPENAI) if has_target else None
            yield compared(_benchmark(concurrency), name, costs, OURS, judge)


def _benchmark(concurrency: int) -> str:
    return f"CPU of a get, {concurrency} at a time"


# -- in the child ------------------------------------------------------------------------------------------------------


async def measure(plan: Plan) -> Mapping[int, Costs]:
    """By the number of concurrent requests. RuntimeError if the service did not receive each request once."""
    ids = (f"vt-{number:016x}" for number in count())
    before = count_at(plan.count_url)
    async with AsyncExitStack() as stack:
        gets = {name: await stack.enter_async_context(PEERS[name].connect(plan.url)) for name in plan.names}
        costs = {concurrency: await _take_turns(plan, gets, ids, concurrency) for concurrency in MOST_OF_RAW}
    requests = len(costs) * len(gets) * (_WARM_UP + plan.blocks * plan.gets)
    if (received := count_at(plan.count_url) - before) != requests:
        message = f"{requests} requests were made, and the service received {received}"
        raise RuntimeError(message)
    return costs


async def _take_turns(plan: Plan, gets: Mapping[str, Get], ids: Iterator[str], concurrency: int) -> Costs:
    costs: dict[str, list[float]] = {name: [] for name in gets}
    for get in gets.values():
        await _request(get, islice(ids, _WARM_UP), concurrency)
    # The collector does not traverse the modules of all competitors during the blocks of one of them.
    gc.collect()
    gc.freeze()
    order = deque(gets)
    for _ in range(plan.blocks):
        for name in order:
            start = time.process_time()
            await _request(gets[name], islice(ids, plan.gets), concurrency)
            costs[name].append((time.process_time() - start) / plan.gets)
        order.rotate(-1)
    return costs


async def _request(get: Get, ids: Iterator[str], concurrency: int) -> None:
    async def worker() -> None:
        for task_id in ids:
            await get(task_id)

    if concurrency == 1:
        await worker()
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


def main(argument: str) -> None:
    fields: dict[str, Any] = json.loads(argument)
    plan = Plan(**fields)
    print(json.dumps(run_on_loop(measure(plan), is_uvloop=plan.is_uvloop)))


if __name__ == "__main__":
    main(sys.argv[1])

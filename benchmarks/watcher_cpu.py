"""What one poll costs inside the watcher: CPU time of the whole process, over the polls that arrived at the service.

Like beside like, twice: tasks polled once a second or so, beside the usual way, a coroutine for each task that looks
and sleeps; and polls that are never on time, so that there is nothing to wait for, beside 50 plain gets at a time. Who
looks when it is due wakes up for one or two answers at a time, whoever it is, and pays about twice as much for each.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial

from attrs import frozen

from benchmarks.children import Found, child, interleaved, run_on_loop
from benchmarks.get_peers import (
    OPENAI,
    OPENAI_ON_AIOHTTP,
    OURS,
    OURS_ON_UVLOOP,
    PEERS,
    RAW,
    RAW_ON_UVLOOP,
    present,
    task_ids,
)
from benchmarks.load_service import LoadService, running_service
from benchmarks.measure import median
from benchmarks.requests_cpu import cost
from benchmarks.results import Figure, Scale, at_most, compared, shown
from benchmarks.waiting import waiting

MOST_OF_RAW = 1.4
BENCHMARK = "CPU per poll while waiting"
#: The naive loops are named after what they use.
LOOP, LOOP_ON_UVLOOP = f"{RAW}, a coroutine per task", f"{RAW_ON_UVLOOP}, a coroutine per task"
FLAT_OUT, FLAT_OUT_ON_UVLOOP = f"{OURS}, as fast as it goes", f"{OURS_ON_UVLOOP}, as fast as it goes"
BARE, BARE_ON_UVLOOP = f"{RAW}, 50 gets at a time", f"{RAW_ON_UVLOOP}, 50 gets at a time"

#: Of an SDK that needs much CPU for a poll only so many times fewer tasks are waited for.
_FEWER = 30


@frozen
class Way:
    """One way to wait for many tasks."""

    peer: str
    interval: float
    """Seconds between two polls of one task."""
    share: float = 1.0
    """Of the tasks that ours watches."""


WAYS: Mapping[str, Way] = {
    OURS: Way(OURS, 1.0),
    LOOP: Way(RAW, 1.0),
    OURS_ON_UVLOOP: Way(OURS_ON_UVLOOP, 1.0),
    LOOP_ON_UVLOOP: Way(RAW_ON_UVLOOP, 1.0),
    FLAT_OUT: Way(OURS, 0.05),
    FLAT_OUT_ON_UVLOOP: Way(OURS_ON_UVLOOP, 0.05),
    OPENAI: Way(OPENAI, 1.0, 1 / _FEWER),
    OPENAI_ON_AIOHTTP: Way(OPENAI_ON_AIOHTTP, 1.0, 1 / _FEWER),
    "runwayml": Way("runwayml", 6.0, 6 / _FEWER),
    "replicate": Way("replicate", 1.0, 1 / _FEWER),
}
#: What is judged, beside plain aiohttp that does the same.
JUDGED: Mapping[str, str] = {
    OURS: LOOP,
    OURS_ON_UVLOOP: LOOP_ON_UVLOOP,
    FLAT_OUT: BARE,
    FLAT_OUT_ON_UVLOOP: BARE_ON_UVLOOP,
}
#: Plain looks, without any waiting.
BARE_GETS: Mapping[str, str] = {BARE: RAW, BARE_ON_UVLOOP: RAW_ON_UVLOOP}


@frozen
class Cost:
    """Of one poll, or of one plain look."""

    seconds: float
    """CPU time of the process."""
    rate: float | None = None
    """Polls per second that arrived."""


def run(scale: Scale) -> list[Figure]:
    with running_service() as service:
        peers = present(scale.peers)
        names = [name for name, peer in BARE_GETS.items() if peer in peers]
        names += [name for name, way in WAYS.items() if way.peer in peers]
        return figures(interleaved(names, scale.rounds, partial(_cost, service, scale)))


def _cost(service: LoadService, scale: Scale, name: str) -> Cost:
    if name in BARE_GETS:
        return Cost(cost(service, scale.gets, 50, BARE_GETS[name]).seconds)
    found = child("benchmarks.watcher_cpu", name, service.url, scale.polls_per_second, scale.sample_seconds)
    if not found["polls"]:
        message = f"{name}: no poll within {scale.sample_seconds:g} s; this machine is too slow or too busy for it"
        raise RuntimeError(message)
    return Cost(found["seconds"] / found["polls"], found["polls"] / scale.sample_seconds)


def figures(taken: dict[str, list[Cost]]) -> list[Figure]:
    """A row for each: ours beside plain aiohttp that does the same on the same loop, all others as multiples of
    ours."""
    judge = partial(at_most, MOST_OF_RAW)
    seconds = {name: [cost.seconds for cost in costs] for name, costs in taken.items()}
    return [
        compared(
            BENCHMARK, name, seconds, JUDGED.get(name, OURS), judge if name in JUDGED else None, _note(taken[name])
        )
        for name in taken
    ]


def _note(costs: Sequence[Cost]) -> str:
    rates = [cost.rate for cost in costs if cost.rate is not None]
    return f"{shown(median(rates))} polls a second" if rates else ""


# -- in the child ------------------------------------------------------------------------------------------------------


async def _measured(name: str, url: str, polls_per_second: int, seconds: float) -> Found:
    way, service = WAYS[name], LoadService(url)
    ids = task_ids(max(int(polls_per_second * way.share), 1))
    async with PEERS[way.peer].connect(url, way.interval) as connected, waiting(connected, ids, way.interval):
        # Each was looked at, twice by most; a smoke run has no time for that.
        await asyncio.sleep(max(way.interval * min(2.5, seconds / 4), 0.2))
        gc.collect()
        before, begun_at = service.counts().tasks, time.process_time()
        await asyncio.sleep(seconds)
        cpu = time.process_time() - begun_at
        return {"seconds": cpu, "polls": service.counts().tasks - before}


def main(name: str, url: str, polls_per_second: str, seconds: str) -> None:
    work = _measured(name, url, int(polls_per_second), float(seconds))
    print(json.dumps(run_on_loop(work, is_uvloop=PEERS[WAYS[name].peer].is_on_uvloop)))


if __name__ == "__main__":
    main(*sys.argv[1:])

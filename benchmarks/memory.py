"""What a task that is waited for costs in memory: by how much the process grows, over the number of tasks.

Their ids count, each a string of its own. What comes with the first looks (modules, connections, buffers) does not.
"""

import asyncio
import gc
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from benchmarks.children import Found, child, interleaved, run_on_loop
from benchmarks.get_peers import OPENAI, OURS, PEERS, RAW, Get, present, task_ids
from benchmarks.load_service import LoadService, running_service
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, at_least, at_most
from benchmarks.waiting import waiting

BENCHMARK = "memory per watched task"
MOST_BYTES, LEAST_OF_LOOP, LEAST_OF_OPENAI = 260, 12, 40
WAITS, LOOP = f"{OURS}, a videos.wait per task", f"{RAW}, a coroutine per task"
OPENAI_AT_ONCE = f"{OPENAI}, all begun at once"
#: A task costs the same in each round.
ROUNDS = 1

#: So many looks at once before anything is measured: as many connections as ever are used.
_WARM_UP = 100
#: After so many intervals it is no longer waited for the first look at each.
_PATIENCE = 5
_MEMORY = Path("/proc/self/statm")


@frozen
class Way:
    """One way to wait for many tasks."""

    peer: str
    share: float
    """Of the tasks that ours watches; 0: as many as a peer that needs much for each."""
    is_gathered: bool = True
    """Whether in one coroutine, where there is a way."""
    is_in_turn: bool = True
    """Whether coroutines begin one after the other, over an interval."""


WAYS: Mapping[str, Way] = {
    OURS: Way(OURS, 1.0),
    WAITS: Way(OURS, 0.1, is_gathered=False, is_in_turn=False),
    LOOP: Way(RAW, 1.0),
    OPENAI: Way(OPENAI, 0.0),
    OPENAI_AT_ONCE: Way(OPENAI, 0.0, is_in_turn=False),
}


def run(scale: Scale) -> list[Figure]:
    """Nothing where the system does not tell how large a process is."""
    if not _MEMORY.exists():
        return []
    with running_service() as service:
        names = [name for name, way in WAYS.items() if way.peer in present(scale.peers)]
        return figures(interleaved(names, ROUNDS, partial(_grown, service, scale)))


def _grown(service: LoadService, scale: Scale, name: str) -> Found:
    tasks = int(scale.tasks * WAYS[name].share) or scale.peer_tasks
    service.reset()
    return child("benchmarks.memory", name, service.url, tasks, scale.interval)


def figures(taken: dict[str, list[Found]]) -> list[Figure]:
    """Two rows for ours, before and after each task was polled; one for each other way."""
    found = [_figure(name, "polled", taken) for name in taken]
    if OURS in taken:
        added = median(one["added"] for one in taken[OURS])
        found.insert(1, Figure(BENCHMARK, f"{OURS}, right after all were added", added, "bytes"))
    return found


def _figure(name: str, moment: str, taken: dict[str, list[Found]]) -> Figure:
    size = median(one[moment] for one in taken[name])
    tasks, polls = (median(one[key] for one in taken[name]) for key in ("tasks", "polls"))
    note = f"{tasks:,.0f} tasks, each polled at least once"
    if polls < tasks:
        note = f"{tasks:,.0f} tasks, and {polls:,.0f} polls: the machine was too slow for one each"
    if name == OURS:
        target, is_met = at_most(MOST_BYTES, size)
        return Figure(BENCHMARK, name, size, "bytes", target=f"{target} bytes", is_met=is_met, note=note)
    ratio = size / median(one[moment] for one in taken[OURS])
    if (limit := {LOOP: LEAST_OF_LOOP, OPENAI: LEAST_OF_OPENAI}.get(name)) is None:
        return Figure(BENCHMARK, name, size, "bytes", OURS, ratio, note=note)
    target, is_met = at_least(limit, ratio)
    return Figure(BENCHMARK, name, size, "bytes", OURS, ratio, target, is_met, note)


# -- in the child ------------------------------------------------------------------------------------------------------


async def _measured(name: str, url: str, tasks: int, interval: float) -> Found:
    """Bytes per task: right after all were added, and when each was polled."""
    way, service = WAYS[name], LoadService(url)
    async with PEERS[way.peer].connect(url, interval) as found:
        connected = found if way.is_gathered else evolve(found, gather=None)
        await _warm_up(connected.get)
        service.reset()
        before = _resident()
        ids = task_ids(tasks)
        async with waiting(connected, ids, interval if way.is_in_turn else 0.0):
            while connected.watched and connected.watched() < tasks:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            added = _resident()
            for _ in range(_PATIENCE * 10):
                if service.counts().tasks >= tasks:
                    break
                await asyncio.sleep(interval / 10)
            await asyncio.sleep(interval / 10)  # what was asked last is answered
            polled = _resident()
            polls = service.counts().tasks
    return {
        "added": _each(before, added, tasks),
        "polled": _each(before, polled, tasks),
        "polls": polls,
        "tasks": tasks,
    }


async def _warm_up(get: Get) -> None:
    for _ in range(2):
        async with asyncio.TaskGroup() as group:
            for task_id in task_ids(_WARM_UP):
                group.create_task(_look(get, task_id))


async def _look(get: Get, task_id: str) -> None:
    await get(task_id)


def _resident() -> int:
    """Pages of this process that are in memory."""
    gc.collect()
    return int(_MEMORY.read_text().split()[1])


def _each(before: int, after: int, tasks: int) -> float:
    """Bytes for each task; less than a page in all cannot be seen."""
    return max(after - before, 1) * os.sysconf("SC_PAGE_SIZE") / tasks


def main(name: str, url: str, tasks: str, interval: str) -> None:
    print(json.dumps(run_on_loop(_measured(name, url, int(tasks), float(interval)), is_uvloop=False)))


if __name__ == "__main__":
    main(*sys.argv[1:])

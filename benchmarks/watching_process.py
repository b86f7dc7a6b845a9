"""One client that watches many tasks: a process of its own, which prints what it measured as one line of JSON.

The event loop has nothing to do but to poll. A thread measures, so that an event loop that is overloaded delays neither
the measurement nor its end.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
import traceback
from array import array
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from attrs import asdict, frozen

from benchmarks.children import run_on_loop
from benchmarks.get_peers import BARE, KEY, OURS, PEERS, Get, task_ids
from benchmarks.load_service import count_at
from benchmarks.measure import percentile, resident_bytes
from benchmarks.paced import TICK, at_rate
from vidgen_async import Client
from vidgen_async.watcher.stats import Lateness

#: Requests before the memory is measured: they open the connections.
_WARM_UP = 100
_CREATED_AT_ONCE = 1000
#: The measurement starts at the latest after so many times the settling, however busy the event loop is.
_PATIENCE = 10


@frozen
class Plan:
    """What the process does."""

    peer: str
    is_uvloop: bool
    url: str
    tasks: int
    interval: float
    settling: float
    """Seconds between the start of the polls and the measurement."""
    seconds: float
    """For which it is measured."""


@frozen
class Watched:
    """What one process, or several at the same time, measured. Times are in seconds."""

    cpu: float
    wall: float
    polls: float
    """Those that the service received."""
    due: float
    p50: float
    """Of the lateness, like the next two."""
    p99: float
    longest: float
    memory: float
    """Bytes per task; 0 where the system does not report it."""
    collection: float
    """CPU time of the longest full garbage collection."""


class Record:
    """What the event loop reports to the thread."""

    def __init__(self) -> None:
        self.memory = 0
        """The memory of the process in bytes, before there were tasks."""
        self.is_ready = threading.Event()
        """All tasks were added."""
        self.is_on = False
        """The rest is recorded while this is set."""
        self.latenesses = array("d")
        """Of each poll, in seconds."""
        self.collection = 0.0
        self._collection_started_at = 0.0
        gc.callbacks.append(self._note_collection)

    def note(self, late: float) -> None:
        if self.is_on:
            self.latenesses.append(late)

    def _note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if not self.is_on or info["generation"] < 2:
            return
        if phase == "start":
            self._collection_started_at = time.thread_time()
        else:
            self.collection = max(self.collection, time.thread_time() - self._collection_started_at)


class RecordedLateness(Lateness):
    """Takes the place of a schedule's own, so that ours reports each poll."""

    def __init__(self, interval: float, note: Callable[[float], None]) -> None:
        super().__init__(interval)
        self._note = note

    def note(self, late: float, now: float) -> None:
        super().note(late, now)
        self._note(late)


# -- in the thread -----------------------------------------------------------------------------------------------------


def measure(plan: Plan, record: Record) -> Watched:
    record.is_ready.wait(_PATIENCE * plan.settling)
    time.sleep(plan.settling)
    polls, start, cpu = count_at(plan.url), time.perf_counter(), time.process_time()
    record.is_on = True
    time.sleep(plan.seconds)
    record.is_on = False
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    polls = count_at(plan.url) - polls
    grown = resident_bytes() - record.memory - sys.getsizeof(record.latenesses)
    late = sorted(record.latenesses) or [0.0]
    return Watched(
        cpu=cpu,
        wall=wall,
        polls=polls,
        due=plan.tasks / plan.interval * wall,
        p50=percentile(late, 0.5),
        p99=percentile(late, 0.99),
        longest=late[-1],
        memory=max(grown, 0) / plan.tasks,
        collection=record.collection,
    )


def _measure_and_exit(plan: Plan, record: Record) -> None:
    status = 1
    try:
        print(json.dumps(asdict(measure(plan, record))), flush=True)
        status = 0
    except Exception:  # noqa: BLE001 - the process must end in any case
        traceback.print_exc()
    os._exit(status)  # to cancel 100,000 coroutines may take minutes


# -- on the event loop -------------------------------------------------------------------------------------------------


async def watch(plan: Plan, record: Record) -> None:
    """Poll until the process ends."""
    if plan.peer == OURS:
        await _watch(plan, record)
        return
    async with PEERS[plan.peer].connect(plan.url) as get:
        await asyncio.gather(*map(get, task_ids(_WARM_UP)))
        record.memory = resident_bytes()
        if plan.peer == BARE:
            record.is_ready.set()
            await at_rate(get, plan.tasks / plan.interval, tick=TICK, note=record.note)
        else:
            await _poll_all(get, plan, record)


async def _watch(plan: Plan, record: Record) -> None:
    """All tasks in one ``as_completed``."""
    async with Client(KEY, base_url=f"{plan.url}/openapi/v1", poll_interval=plan.interval) as client:
        client.watcher._schedule.lateness = RecordedLateness(plan.interval, record.note)
        with suppress(TimeoutError):
            await asyncio.wait_for(_drain(client, _WARM_UP), plan.settling)
        record.memory = resident_bytes()
        async with asyncio.TaskGroup() as group:
            group.create_task(_drain(client, plan.tasks))
            while client.watcher.stats.tasks < plan.tasks:  # noqa: ASYNC110 - a watcher has no event for it
                await asyncio.sleep(0.01)
            record.is_ready.set()


async def _drain(client: Client, tasks: int) -> None:
    async with aclosing(client.videos.as_completed(task_ids(tasks), timeout=None)) as outcomes:
        async for outcome in outcomes:
            outcome.unwrap()


async def _poll_all(get: Get, plan: Plan, record: Record) -> None:
    """Each task in a coroutine of its own. The first polls are when all were created."""
    start = asyncio.get_running_loop().time() + plan.settling
    async with asyncio.TaskGroup() as group:
        for number, task_id in enumerate(task_ids(plan.tasks)):
            due = start + plan.interval * number / plan.tasks
            group.create_task(_poll_one(get, task_id, due, plan.interval, record.note))
            if number % _CREATED_AT_ONCE == 0:
                await asyncio.sleep(0)
        record.is_ready.set()


async def _poll_one(get: Get, task_id: str, due: float, interval: float, note: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    task: object = task_id
    while task:  # a real one would check its state, and holds it until the next poll
        await asyncio.sleep(due - loop.time())
        start = loop.time()
        note(start - due)
        task = await get(task_id)
        due = start + interval


def main(argument: str) -> None:
    fields: dict[str, Any] = json.loads(argument)
    plan, record = Plan(**fields), Record()
    threading.Thread(target=_measure_and_exit, args=(plan, record), daemon=True).start()
    run_on_loop(watch(plan, record), is_uvloop=plan.is_uvloop)


if __name__ == "__main__":
    main(sys.argv[1])

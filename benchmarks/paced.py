"""What one poll costs at the recommended interval: CPU time of a process that watches 100,000 tasks at 60 s.

It is compared with plain aiohttp *back to back*: 50 concurrent requests as fast as possible, which wakes up for many
responses at once. All competitors have a process of their own; all but one are stopped (SIGSTOP), in turn, in slices of
a second. After a stop ours makes late polls at 1.1 times the usual rate; the others that are paced always have this
rate.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen

from benchmarks.children import interleaved, run_on_loop, started
from benchmarks.get_peers import BARE, KEY, OURS, PEERS, RAW, Get, event_loops, task_ids
from benchmarks.load_service import LoadService, running_service
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, Verdict, at_most, compared
from vidgen_async import Client

if TYPE_CHECKING:
    import subprocess

BENCHMARK = "CPU of a poll, paced"
#: A poll may cost at most so many times as much as a request of plain aiohttp back to back.
MOST_OF_RAW = 1.1
BACK_TO_BACK = f"{RAW} back to back"
SAME_RATE = f"{RAW} at the same rate"

#: The rate at which ours makes late polls, as a multiple of the usual one.
_CATCH_UP = 1.1
#: The part of a slice before the clock starts: what became due during the stop is sent, and caches are warm.
_SETTLING = 1 / 3
#: Slices are short, and need more rounds than what takes longer.
_MORE_ROUNDS = 2
#: So many slices may pass until a process makes a request.
_PATIENCE = 20
#: Seconds between two groups of requests of the bare protocol, as in ours.
TICK = 0.016
_CONCURRENCY = 50
#: As in ours.
_MOST_RUNNING = 100
#: Seconds.
_LONGEST_DELAY = 0.1


@frozen
class Plan:
    """What one process does until it is killed."""

    name: str
    url: str
    tasks: int
    interval: float
    is_uvloop: bool

    @property
    def rate(self) -> float:
        return _CATCH_UP * self.tasks / self.interval


@frozen
class Slice:
    """What one process did while the others were stopped."""

    cpu: float
    """Seconds per request."""
    rate: float
    """Requests per second."""


def run(scale: Scale) -> list[Figure]:
    """Nothing where Linux does not report the CPU time of other processes."""
    if not Path("/proc/self/schedstat").exists():
        return []
    found: list[Figure] = []
    with running_service() as service:
        for loop, is_uvloop in event_loops().items():
            for suffix, url in (("", service.url), (", TLS", service.tls_url)):
                label = suffix if loop == "asyncio" else f", {loop}{suffix}"
                if label.count(",") < 2:
                    found += figures(label, _costs(service, url, scale, is_uvloop=is_uvloop))
    return found


def _costs(service: LoadService, url: str, scale: Scale, *, is_uvloop: bool) -> Mapping[str, list[Slice]]:
    with ExitStack() as stack:
        processes = {}
        for name in (BACK_TO_BACK, BARE, SAME_RATE, OURS):
            plan = json.dumps(asdict(Plan(name, url, scale.tasks, scale.interval, is_uvloop)))
            process = stack.enter_context(started("benchmarks.paced", plan, environment=service.environment))
            if process.stdout is None or not process.stdout.readline():
                message = f"{name} failed:\n{process.communicate()[1]}"
                raise RuntimeError(message)
            process.send_signal(signal.SIGSTOP)
            processes[name] = process
        take = partial(_slice, service, processes, scale.slice_seconds)
        interleaved(processes, 1, take)  # opens the connections
        return interleaved(processes, scale.rounds + _MORE_ROUNDS, take)


def _slice(service: LoadService, processes: "Mapping[str, subprocess.Popen[str]]", seconds: float, name: str) -> Slice:
    """Let one process run, for longer only if it makes no request."""
    process = processes[name]
    process.send_signal(signal.SIGCONT)
    try:
        time.sleep(seconds * _SETTLING)
        start, cpu, requests = time.monotonic(), _cpu_time(process.pid), service.count()
        for _ in range(_PATIENCE):
            time.sleep(seconds * (1 - _SETTLING))
            if made := service.count() - requests:
                return Slice((_cpu_time(process.pid) - cpu) / made, made / (time.monotonic() - start))
    finally:
        process.send_signal(signal.SIGSTOP)
    message = f"{name} made no request within {_PATIENCE * seconds:g} s"
    raise RuntimeError(message)


def _cpu_time(pid: int) -> float:
    """Seconds of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def figures(label: str, slices: Mapping[str, Sequence[Slice]]) -> Iterator[Figure]:
    """All as multiples of plain aiohttp back to back."""
    costs = {name: [one.cpu for one in taken] for name, taken in slices.items()}
    for name in (OURS, SAME_RATE, BACK_TO_BACK):
        judge: Callable[[float], Verdict] | None = partial(at_most, MOST_OF_RAW) if name == OURS else None
        base = None if name == BACK_TO_BACK else BACK_TO_BACK
        figure = compared(BENCHMARK, name, costs, base, judge, limit=BARE)
        rate = median(one.rate for one in slices[name])
        yield evolve(figure, name=f"{name}{label}", facts={"requests_per_second": rate})


# -- in the child ------------------------------------------------------------------------------------------------------


async def poll(plan: Plan) -> None:
    """For ever."""
    if plan.name == OURS:
        await _watch(plan)
        return
    async with PEERS[BARE if plan.name == BARE else RAW].connect(plan.url) as get:
        if plan.name == BACK_TO_BACK:
            await _back_to_back(get)
        else:
            _report_ready()
            await at_rate(get, plan.rate, tick=TICK if plan.name == BARE else 0.0)


async def _watch(plan: Plan) -> None:
    async with (
        Client(KEY, base_url=f"{plan.url}/openapi/v1", poll_interval=plan.interval) as client,
        aclosing(client.videos.as_completed(task_ids(plan.tasks), timeout=None)) as outcomes,
    ):
        waiter = asyncio.ensure_future(anext(outcomes))
        while client.watcher.stats.tasks < plan.tasks:  # noqa: ASYNC110 - a watcher has no event for it
            await asyncio.sleep(0.01)
        _report_ready()
        await waiter


async def _back_to_back(get: Get) -> None:
    numbers = count()

    async def worker() -> None:
        for number in numbers:
            await get(f"vt-{number:016x}")

    _report_ready()
    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENCY):
            group.create_task(worker())


async def at_rate(
    get: Get, rate: float, *, tick: float = 0.0, note: Callable[[float], object] = lambda _: None
) -> None:
    """Requests that are each started when they are due, or in groups. What a stop delays is left out, and so is what
    too many requests in progress delay. ``note`` gets the seconds by which each starts too late."""
    loop, running = asyncio.get_running_loop(), set[asyncio.Future[object]]()
    due = loop.time()
    for number in count():
        if (now := loop.time()) < due:
            await asyncio.sleep(max(due - now, tick))
        elif now - due > _LONGEST_DELAY or len(running) >= _MOST_RUNNING:
            await asyncio.sleep(tick)
            due = loop.time()
        note(max(loop.time() - due, 0.0))
        request = asyncio.ensure_future(get(f"vt-{number:016x}"))
        running.add(request)
        request.add_done_callback(running.discard)
        due += 1.0 / rate


def _report_ready() -> None:
    print("ready", flush=True)


def main(argument: str) -> None:
    fields: dict[str, Any] = json.loads(argument)
    plan = Plan(**fields)
    run_on_loop(poll(plan), is_uvloop=plan.is_uvloop)


if __name__ == "__main__":
    main(sys.argv[1])

"""Whether another HTTP client behind the seam pays: a transport on pyreqwest, which is written in Rust, beside ours.

Measured is the CPU time of the client's process, all its threads counted: pyreqwest works in a thread of its own.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.util import find_spec

from attrs import frozen

from benchmarks.children import Found, child, interleaved, run_on_loop
from benchmarks.get_peers import KEY, OURS, OURS_ON_UVLOOP, task_ids
from benchmarks.load_service import LoadService, running_service
from benchmarks.results import Figure, Scale, at_most, compared
from vidgen_async import Client
from vidgen_async.transports import DirectTransport, Transport

SECOND = f"{OURS} on pyreqwest"
SECOND_ON_UVLOOP = f"{SECOND} + uvloop"
BENCHMARK = "second transport"
CONCURRENCIES = {"one get at a time": 1, "50 gets at a time": 50}
#: A second transport is kept when a read costs at most so many times as much as with ours.
WORTH_IT = 0.75

_WARM_UP = 300


def _pyreqwest() -> Transport:
    from benchmarks.pyreqwest_transport import PyreqwestTransport  # noqa: PLC0415 - it is optional

    return PyreqwestTransport()


@frozen
class Way:
    """A transport on an event loop."""

    transport: Callable[[], Transport]
    needs: tuple[str, ...] = ()
    is_on_uvloop: bool = False

    @property
    def is_there(self) -> bool:
        return all(find_spec(package) for package in self.needs)


WAYS: Mapping[str, Way] = {
    OURS: Way(DirectTransport),
    SECOND: Way(_pyreqwest, ("pyreqwest",)),
    OURS_ON_UVLOOP: Way(DirectTransport, ("uvloop",), is_on_uvloop=True),
    SECOND_ON_UVLOOP: Way(_pyreqwest, ("pyreqwest", "uvloop"), is_on_uvloop=True),
}


def run(scale: Scale) -> list[Figure]:
    """Nothing without pyreqwest: ours alone is measured elsewhere."""
    asked = (OURS, SECOND, *scale.peers) if scale.peers else WAYS
    names = [name for name, way in WAYS.items() if name in asked and way.is_there]
    if SECOND not in names:
        return []
    with running_service() as service:
        found = []
        for label, concurrency in CONCURRENCIES.items():
            take = partial(_seconds, service, "gets", scale.gets, concurrency)
            found += _figures(label, interleaved(names, scale.rounds, take))
        take = partial(_seconds, service, "polls", scale.polls_per_second, scale.sample_seconds)
        return found + _figures(f"{scale.polls_per_second:,} polls a second", interleaved(names, scale.rounds, take))


def _seconds(service: LoadService, what: str, count: int, most: float, name: str) -> float:
    """CPU time of one read, in a new process. RuntimeError when other reads arrived than were counted."""
    service.reset()
    found = child("benchmarks.second_transport", what, name, service.url, count, most)
    arrived = service.counts().tasks
    if what == "gets" and arrived != count + _WARM_UP:
        message = f"{name} was to look {count + _WARM_UP} times, not {arrived}"
        raise RuntimeError(message)
    return found["seconds"] / found["reads"]


def _figures(label: str, seconds: dict[str, list[float]]) -> list[Figure]:
    base = {SECOND: OURS, SECOND_ON_UVLOOP: OURS_ON_UVLOOP}
    return [
        compared(
            f"{BENCHMARK}, {label}",
            name,
            seconds,
            base.get(name, OURS),
            partial(at_most, WORTH_IT) if name in base else None,
        )
        for name in seconds
    ]


# -- in the child ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _client(name: str, url: str) -> AsyncIterator[Client]:
    base_url, transport = f"{url}/openapi/v1", WAYS[name].transport()
    async with Client(KEY, base_url=base_url, transport=transport, poll_interval=1.0) as client:
        yield client


async def _gets(name: str, url: str, count: int, concurrency: float) -> Found:
    async with _client(name, url) as client:
        await _look(client, _WARM_UP, int(concurrency))
        gc.collect()
        begun_at = time.process_time()
        await _look(client, count, int(concurrency))
        return {"seconds": time.process_time() - begun_at, "reads": count}


async def _look(client: Client, count: int, concurrency: int) -> None:
    ids = iter(task_ids(count))

    async def worker() -> None:
        for task_id in ids:
            await client.videos.get(task_id)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


async def _polls(name: str, url: str, count: int, seconds: float) -> Found:
    """Each of so many tasks is polled once a second."""
    async with _client(name, url) as client, aclosing(client.videos.as_completed(task_ids(count))) as outcomes:
        waiting = asyncio.ensure_future(anext(outcomes))
        await asyncio.sleep(1.5)  # each was looked at
        gc.collect()
        before, begun_at = client.watcher.stats.polls, time.process_time()
        await asyncio.sleep(seconds)
        found = {"seconds": time.process_time() - begun_at, "reads": client.watcher.stats.polls - before}
        waiting.cancel()
        await asyncio.wait({waiting})
        return found


def main(what: str, name: str, url: str, count: str, most: str) -> None:
    work = _polls if what == "polls" else _gets
    found = run_on_loop(work(name, url, int(count), float(most)), is_uvloop=WAYS[name].is_on_uvloop)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

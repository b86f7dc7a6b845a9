"""What a row costs in a journal of a million running tasks, beside one of ten thousand, and the start of a watcher.

``python -m benchmarks.rows KIND PLACE TASKS`` watches the tasks of a journal again, in a process of its own.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from benchmarks.children import Found, child, interleaved
from benchmarks.get_peers import KEY, task_ids
from benchmarks.lists import FILL, POSTGRES, SERVICE, SQLITE, analyze, fill
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_ratio
from benchmarks.scheduler import JumpingClock
from benchmarks.transfers import memory
from tests.postgres import running_server
from vidgen_async import Client
from vidgen_async.journal import PostgresJournal, SqliteJournal
from vidgen_async.journal.sql.journal import SqlJournal
from vidgen_async.transports import FakeTransport
from vidgen_async.types.http import Request
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

#: A row of the largest journal may cost so many times as much as one of the smallest.
MOST_GROWTH = 1.3
#: The sizes, as fractions of the largest, and the number of rows that are listed.
_PARTS, _LISTED = (100, 10, 1), 200
_PAGE = 1000
#: All orders are accepted, and their tasks run.
_FILL = (*FILL[:3], "UPDATE orders SET stage = 'accepted' WHERE :many > 0")

Read: TypeAlias = Callable[[Client, int, int], Awaitable[int]]
"""Reads so many rows of a journal of a size, and returns how many it has found."""


def run(scale: Scale) -> list[Figure]:
    """Nothing unless it is requested: more than a million orders are stored twice."""
    if not scale.has_stretch:
        return []
    sizes = {f"{scale.most_scheduled // part:,}": scale.most_scheduled // part for part in _PARTS}
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as directory, running_server() as server:
        for kind, place in ((SQLITE, directory), (POSTGRES, server.dsn)):
            for many in sizes.values():
                asyncio.run(fill(_open(kind, place, many), _FILL, many, every=1))
            analyze(server)
            for title, read in READS.items():
                take = partial(_take, kind, place, sizes, read, scale.most_scheduled // _LISTED)
                found += figures(f"a row of {title}, {kind}", interleaved(sizes, scale.rounds, take))
            starts = interleaved(sizes, 1, partial(_start, kind, place, sizes))
            found += start_figures(f"start of a watcher, {kind}", starts)
            seconds = {name: [one["seconds"] / sizes[name] for one in rounds] for name, rounds in starts.items()}
            found += figures(f"a task of rewatch, {kind}", seconds)
    ended = interleaved(sizes, 1, lambda name: asyncio.run(seconds_of_outcomes(sizes[name])) / sizes[name])
    return [*found, *figures("an outcome of as_completed", ended)]


def figures(benchmark: str, seconds: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    """Microseconds of a row, by the size; the largest is judged by its ratio to the smallest."""
    smallest, *_, largest = seconds
    for name, found in seconds.items():
        figure = Figure(benchmark, f"of {name}", median(found) * 1e6, "us")
        if name != smallest:
            judge = partial(at_most, MOST_GROWTH) if name == largest else None
            figure = with_ratio(figure, f"of {smallest}", ratios_of(found, seconds[smallest]), judge)
        yield figure


def start_figures(benchmark: str, starts: Mapping[str, Sequence[Found]]) -> Iterator[Figure]:
    for name, (found, *_) in starts.items():
        note = f"and {found['grown'] / 1e6:.3g} MB at most"
        yield Figure(benchmark, f"{name} running tasks", found["seconds"], "s", note=note)


# -- the journals ------------------------------------------------------------------------------------------------------


def _open(kind: str, place: str, many: int) -> SqlJournal[Any]:
    if kind == SQLITE:
        return SqliteJournal(Path(place) / f"{many}-running.db")
    return PostgresJournal(place, schema=f"running_{many}", time_limit=1200)


def _client(journal: SqlJournal[Any]) -> Client:
    async def handle(request: Request) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    return Client(KEY, base_url=f"{SERVICE}/openapi/v1", transport=FakeTransport(handle), journal=journal)


async def _list(client: Client, many: int, rows: int) -> int:
    """From the middle, in pages."""
    found, after = 0, f"order-{many // 2}"
    while found < rows and (page := await client.orders.list(limit=min(_PAGE, rows - found), after=after)):
        found, after = found + len(page), page[-1].order_id
    return found


async def _states(client: Client, many: int, rows: int) -> int:
    """Those of orders that were created one after the other, as a batch creates its own."""
    first = many // 2
    return len(await client.orders.states(f"order-{first + n}" for n in range(rows)))


READS: Mapping[str, Read] = {"orders.list": _list, "orders.states": _states}


def _take(kind: str, place: str, sizes: Mapping[str, int], read: Read, rows: int, name: str) -> float:
    """The seconds of a row."""

    async def measure() -> float:
        async with _client(_open(kind, place, sizes[name])) as client:
            begun_at = time.perf_counter()
            found = await read(client, sizes[name], rows)
            seconds = time.perf_counter() - begun_at
        if found != rows:
            message = f"{name}: found {found} instead of {rows}"
            raise ValueError(message)
        return seconds / rows

    return asyncio.run(measure())


# -- the watcher -------------------------------------------------------------------------------------------------------


def _start(kind: str, place: str, sizes: Mapping[str, int], name: str) -> Found:
    found: Found = child("benchmarks.rows", kind, place, sizes[name])
    return found


async def start(kind: str, place: str, many: int) -> Found:
    """The seconds until all tasks are watched again, and the bytes by which the memory has grown at most."""
    async with _client(_open(kind, place, many)) as client:
        await client.orders.list(limit=1)
        before, begun_at = memory("VmRSS", is_reset=True), time.perf_counter()
        async with aclosing(client.videos.rewatch(timeout=None)) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            while client.watcher.stats.tasks < many and not waiter.done():  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.01)
            found = {"seconds": time.perf_counter() - begun_at, "grown": memory("VmHWM") - before}
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
    return found


async def seconds_of_outcomes(tasks: int) -> float:
    """The CPU time of an ``as_completed`` whose tasks have all ended at their first poll."""

    async def poll(task_id: str, mark: int | None, *, is_task_needed: bool) -> tuple[VideoTask, None]:
        return VideoTask(id=task_id, status="completed"), None

    clock = JumpingClock()
    clock.is_stopped = False
    watcher = Watcher(poll, clock=clock, is_origin_known=bool)
    ids, begun_at = task_ids(tasks), time.process_time()
    count = 0
    async for _ in watcher.as_completed(ids, timeout=None):
        count += 1
    seconds = time.process_time() - begun_at
    await watcher.aclose()
    if count != tasks:
        raise ValueError(count)
    return seconds


if __name__ == "__main__":
    _, kind, place, many = sys.argv
    print(json.dumps(asyncio.run(start(kind, place, int(many)))))

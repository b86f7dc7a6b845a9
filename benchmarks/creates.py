"""What a create costs beside a POST of the same body with aiohttp, with and without a journal on disk.

The service answers at once, and the submission limit is raised: both would otherwise be all that is measured. The
competitors take turns in one process. A create uses a connection of its own, so that nothing is resent on a lost one:
hence the row of aiohttp with a connection for each request.
"""

import asyncio
import gc
import json
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

import aiohttp
from attrs import frozen

from benchmarks.children import interleaved
from benchmarks.measure import machine, median, percentile
from benchmarks.media_service import KEY, running_media_service
from benchmarks.results import Figure, Scale, with_ratio
from vidgen_async import Client, Pacing, VideoFields
from vidgen_async.journal import Journal, MemoryJournal, SqliteJournal

RAW, RAW_NEW, MEMORY, SQLITE = (
    "aiohttp",
    "aiohttp, a connection each",
    "vidgen_async, in memory",
    "vidgen_async, SQLite",
)
CONCURRENCIES = (1, 100, 1000)
#: In one block, if no more are concurrent.
_CREATES = 200
_MOST_ROUNDS = 3
#: Descriptors that the connections need here, and in the process of the service.
_FILES = 4096
_VIDEO: VideoFields = {"duration": 5, "model": "gen-2.0", "prompt": "A paper boat sails at dawn. " * 15}

Create: TypeAlias = Callable[[], Awaitable[object]]
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Create]]


@frozen
class Block:
    """Seconds of one block of creates, and of each of them."""

    seconds: float
    latencies: Sequence[float]


def run(scale: Scale) -> list[Figure]:
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(_FILES, most_files)), most_files))
    found: list[Figure] = []
    with running_media_service() as url, tempfile.TemporaryDirectory() as directory:
        ways, note = competitors(url, Path(directory)), machine(Path(directory))
        for concurrency in dict.fromkeys(min(most, 5 * scale.gets) for most in CONCURRENCIES):
            creates = max(concurrency, min(scale.gets, _CREATES))
            take = partial(_take, ways, creates, concurrency)
            rounds = 1 if creates > _CREATES else min(scale.rounds, _MOST_ROUNDS)
            blocks = interleaved(ways, rounds, take)
            found += figures(concurrency, blocks, note)
    return found


def figures(concurrency: int, blocks: Mapping[str, Sequence[Block]], note: str) -> Iterator[Figure]:
    """Creates per second as multiples of aiohttp's, and what a create takes longer."""
    benchmark = f"creates, {concurrency:,} at a time"
    pairs = {name: list(zip(found, blocks[RAW], strict=True)) for name, found in blocks.items()}
    for name, found in blocks.items():
        rate = median(len(block.latencies) / block.seconds for block in found)
        figure = Figure(benchmark, name, rate, "per s", note=note if name == SQLITE else "")
        yield (
            figure if name == RAW else with_ratio(figure, RAW, [raw.seconds / own.seconds for own, raw in pairs[name]])
        )
    for name in (RAW_NEW, MEMORY, SQLITE):
        added = [
            median(
                1e3 * (percentile(own.latencies, part) - percentile(raw.latencies, part)) for own, raw in pairs[name]
            )
            for part in (0.5, 0.99)
        ]
        yield Figure(benchmark, f"{name}: added latency", added[0], "ms", note=f"p50; p99 {added[1]:.3g} ms")


def competitors(url: str, directory: Path) -> Mapping[str, Connect]:
    paths = (directory / f"{number}.db" for number in count())
    return {
        RAW: partial(_aiohttp, url, force_close=False),
        RAW_NEW: partial(_aiohttp, url, force_close=True),
        MEMORY: lambda: ours(url, MemoryJournal()),
        SQLITE: lambda: ours(url, SqliteJournal(next(paths))),
    }


@asynccontextmanager
async def _aiohttp(url: str, *, force_close: bool) -> AsyncIterator[Create]:
    connector = aiohttp.TCPConnector(limit=0, force_close=force_close)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = json.dumps(_VIDEO, separators=(",", ":")).encode()
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def create() -> str:
            async with session.post(f"{url}/videos", data=body) as response:
                response.raise_for_status()
                return str((await response.json())["id"])

        yield create


@asynccontextmanager
async def ours(url: str, journal: Journal) -> AsyncIterator[Create]:
    async with Client(KEY, base_url=url, journal=journal, pacing=Pacing(limit=10**9)) as client:
        yield partial(client.videos.create, **_VIDEO, validate=False)


def _take(ways: Mapping[str, Connect], creates: int, concurrency: int, name: str) -> Block:
    gc.collect()
    return asyncio.run(measure_creates(ways[name], creates, concurrency))


async def measure_creates(connect: Connect, creates: int, concurrency: int) -> Block:
    latencies: list[float] = []
    async with connect() as create:
        await create()  # opens everything
        numbers = iter(range(creates))

        async def worker() -> None:
            for _ in numbers:
                begun_at = time.perf_counter()
                await create()
                latencies.append(time.perf_counter() - begun_at)

        begun_at = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
        return Block(time.perf_counter() - begun_at, latencies)

"""A long video, saved to a file that survives a loss of power: ours beside aiohttp, httpx and curl.

Each competitor is a process of its own in each round, because its memory is measured. It first downloads a short video,
so that all modules are loaded.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import aiohttp

from benchmarks.before import BEFORE, NAME
from benchmarks.measure import file_system, median
from benchmarks.media_service import KEY, MEGABYTE, running_media_service
from benchmarks.results import Figure, Scale, at_least, ratios_of, with_limit, with_ratio
from benchmarks.transfers import CURL, EARLIER, HTTPX, OURS, RAW, Rounds, Way, compare, measure, stalls, values_of

ON_THE_LOOP = "aiohttp, written on the loop"

_LEAST_THROUGHPUT = 1.0
_MOST_MEMORY = 8.0
_LONGEST_STALL = 5.0
_CHUNK = 1 << 20
_HEADERS = {"Authorization": f"Bearer {KEY}"}


def run(scale: Scale) -> list[Figure]:
    with running_media_service() as url, tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{scale.megabytes}-video.mp4"
        rounds = compare("benchmarks.downloads", list(WAYS), scale.rounds, url, path)
        note = f"on {file_system(path.parent)}, with an fsync"
    return list(figures(rounds, scale.megabytes, note))


def figures(rounds: Rounds, megabytes: int, note: str) -> Iterator[Figure]:
    """Throughput as a multiple of aiohttp, memory, and stalls of the event loop."""
    benchmark = f"download of {megabytes} MB"
    speeds = {
        name: [megabytes * MEGABYTE / 1e6 / seconds for seconds in found]
        for name, found in values_of(rounds, "seconds").items()
    }
    for name, found in speeds.items():
        figure = Figure(benchmark, name, median(found), "MB/s", note=note)
        judge = partial(at_least, _LEAST_THROUGHPUT) if name == OURS else None
        yield figure if name == RAW else with_ratio(figure, RAW, ratios_of(found, speeds[RAW]), judge)
    for name, found in values_of(rounds, "grown").items():
        if name != CURL:
            figure = Figure(benchmark, f"{name}: memory", median(found) / 1e6, "MB")
            yield with_limit(figure, _MOST_MEMORY) if name == OURS else figure
    yield from stalls(benchmark, rounds, _LONGEST_STALL)


# -- in the child ------------------------------------------------------------------------------------------------------


async def _ours(url: str, to: Path, *, package: str = NAME) -> None:
    async with import_module(package).Client(KEY, base_url=url) as client:
        await client.videos.download(to.stem, to)


async def _save(chunks: AsyncIterable[bytes], to: Path) -> None:
    with to.open("wb", buffering=0) as file:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(os.fsync, file.fileno())


async def _aiohttp(url: str, to: Path, *, is_on_loop: bool = False) -> None:
    async with (
        aiohttp.ClientSession(headers=_HEADERS, timeout=aiohttp.ClientTimeout(total=None)) as session,
        session.get(f"{url}/videos/{to.stem}/content") as response,
    ):
        if not is_on_loop:
            await _save(response.content.iter_chunked(_CHUNK), to)
            return
        with to.open("wb") as file:
            async for chunk in response.content.iter_chunked(_CHUNK):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())


async def _aiohttp_on_the_loop(url: str, to: Path) -> None:
    await _aiohttp(url, to, is_on_loop=True)


async def _httpx(url: str, to: Path) -> None:
    import httpx  # noqa: PLC0415 - it is optional

    async with (
        httpx.AsyncClient(headers=_HEADERS, trust_env=False, timeout=60.0) as client,
        client.stream("GET", f"{url}/videos/{to.stem}/content") as response,
    ):
        await _save(response.aiter_bytes(_CHUNK), to)


async def _curl(url: str, to: Path) -> None:
    arguments = ("-sSf", "-o", str(to), "-H", f"Authorization: Bearer {KEY}", f"{url}/videos/{to.stem}/content")
    process = await asyncio.create_subprocess_exec("curl", *arguments)
    if await process.wait():
        raise ChildProcessError
    with to.open("rb") as file:
        os.fsync(file.fileno())


#: aiohttp with a thread for each write comes first: it stalls the event loop as little as ours.
WAYS: Mapping[str, Way] = {
    OURS: _ours,
    EARLIER: partial(_ours, package=BEFORE),
    RAW: _aiohttp,
    ON_THE_LOOP: _aiohttp_on_the_loop,
    HTTPX: _httpx,
    CURL: _curl,
}


def main(name: str, url: str, path: str) -> None:
    way, to = WAYS[name], Path(path)
    to.unlink(missing_ok=True)  # truncating a long file would be measured
    asyncio.run(way(url, to.with_name("1-short.mp4")))
    measure(way, url, to)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A large picture, uploaded from a file: ours beside aiohttp and httpx with ``json=``, and curl.

Each competitor is a process of its own in each round, because its memory is measured. It first uploads a small picture,
so that all modules are loaded.
"""

import asyncio
import base64
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import aiohttp

from benchmarks.measure import median
from benchmarks.media_service import KEY, MEGABYTE, running_media_service
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_ratio
from benchmarks.transfers import CURL, HTTPX, OURS, RAW, Rounds, Way, compare, measure, stalls, values_of
from vidgen_async import Client

_MOST_MEGABYTES = 50
_MOST_MEMORY_OF_RAW = 0.5
_LONGEST_STALL = 10.0
_HEADERS = {"Authorization": f"Bearer {KEY}"}
_PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
_SHELL = """
{ printf '{"image_b64":"data:image/png;base64,'; base64 -w 0 "$1"; printf '"}'; } |
curl -sSf -o /dev/null -H 'Content-Type: application/json' -H "Authorization: Bearer $2" -H Expect: \\
    --data-binary @- "$3"
"""


def run(scale: Scale) -> list[Figure]:
    megabytes = min(scale.megabytes, _MOST_MEGABYTES)
    with running_media_service() as url, tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "picture.png"
        path.write_bytes(_PICTURE.ljust(megabytes * MEGABYTE, b"\x5a"))
        _small(path).write_bytes(_PICTURE)
        rounds = compare("benchmarks.uploads", list(WAYS), scale.rounds, url, path)
    return list(figures(rounds, megabytes))


def figures(rounds: Rounds, megabytes: int) -> Iterator[Figure]:
    """Seconds and memory as multiples of aiohttp, and stalls of the event loop."""
    benchmark = f"upload of a picture of {megabytes} MB"
    for name, found in (seconds := values_of(rounds, "seconds")).items():
        figure = Figure(benchmark, name, median(found), "s")
        yield figure if name == RAW else with_ratio(figure, RAW, ratios_of(found, seconds[RAW]))
    for name, found in (memory := values_of(rounds, "grown")).items():
        figure = Figure(benchmark, f"{name}: memory", median(found) / 1e6, "MB")
        if name not in (RAW, CURL) and all(memory[RAW]):  # Linux
            judge = partial(at_most, _MOST_MEMORY_OF_RAW) if name == OURS else None
            figure = with_ratio(figure, RAW, ratios_of(found, memory[RAW]), judge)
        if name != CURL:
            yield figure
    yield from stalls(benchmark, rounds, _LONGEST_STALL)


# -- in the child ------------------------------------------------------------------------------------------------------


async def _ours(url: str, picture: Path) -> None:
    async with Client(KEY, base_url=url) as client:
        await client.files.upload(picture)


def _body_of(picture: Path) -> dict[str, str]:
    return {"image_b64": "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()}


async def _aiohttp(url: str, picture: Path) -> None:
    async with (
        aiohttp.ClientSession(headers=_HEADERS) as session,
        session.post(f"{url}/files", json=_body_of(picture)) as response,
    ):
        await response.json()


async def _httpx(url: str, picture: Path) -> None:
    import httpx  # noqa: PLC0415 - it is optional

    async with httpx.AsyncClient(headers=_HEADERS, trust_env=False, timeout=60.0) as client:
        (await client.post(f"{url}/files", json=_body_of(picture))).json()


async def _curl(url: str, picture: Path) -> None:
    process = await asyncio.create_subprocess_exec("sh", "-ec", _SHELL, "sh", str(picture), KEY, f"{url}/files")
    if await process.wait():
        raise ChildProcessError


WAYS: Mapping[str, Way] = {OURS: _ours, RAW: _aiohttp, HTTPX: _httpx, CURL: _curl}


def _small(picture: Path) -> Path:
    return picture.with_name("small.png")


def main(name: str, url: str, path: str) -> None:
    asyncio.run(WAYS[name](url, _small(Path(path))))
    measure(WAYS[name], url, Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])

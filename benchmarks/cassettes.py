"""What recording and replaying costs, beside vcrpy and cassetter: CPU time, memory, and secrets on disk.

Every recorder makes its own cassettes of the same service, in turn.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from benchmarks.cassette_recorders import (
    BASES,
    CASSETTER,
    DIRECT,
    OURS,
    RAW,
    RECORDERS,
    SECRETS,
    VCRPY,
    Carry,
    Recorder,
)
from benchmarks.children import child, interleaved
from benchmarks.measure import median
from benchmarks.media_service import MEGABYTE, running_media_service, statuses
from benchmarks.results import Figure, Scale, ratios_of, with_limit, with_ratio
from benchmarks.transfers import measured
from vidgen_async import Client
from vidgen_async.transports import ReplayTransport

CLIENT, EQUAL = f"{OURS}, client.videos.get", f"{OURS}, equal responses"
#: Polls of each task on the cassette that is only loaded.
_POLLS = 10
_MOST_INTERACTIONS = 1000
#: A recorder that holds a stream in memory gets a shorter one, of so many megabytes.
_SHORT_STREAM = 50

#: Measures the seconds of CPU time of one round.
Way = Callable[[], Awaitable[float]]


@frozen
class Bench:
    """The service, where new cassettes go, and how much is measured."""

    base_url: str
    directory: Path
    interactions: int
    rounds: int

    def polls(self, name: str, tasks: int, polls: int) -> list[str]:
        """The URLs of all polls of so many new tasks, task by task."""
        return [f"{self.base_url}/videos/{polls}-{name}{task}" for task in range(tasks) for _ in range(polls)]

    def new_path(self) -> Path:
        """A cassette in a directory of its own."""
        return Path(tempfile.mkdtemp(dir=self.directory)) / "cassette"

    def record(self, recorder: Recorder, urls: Sequence[str]) -> Path:
        async def record() -> None:
            async with recorder.record(path) as carrier:
                for url in urls:
                    await carrier.get(url)

        path = self.new_path()
        asyncio.run(record())
        return path


def run(scale: Scale) -> list[Figure]:
    with running_media_service() as base_url, tempfile.TemporaryDirectory() as directory:
        interactions = min(5 * scale.gets, _MOST_INTERACTIONS)
        bench = Bench(base_url, Path(directory), interactions, scale.rounds)
        parts = (replays(bench), loads(bench), recordings(bench), streams(bench, scale.megabytes // 4), secrets(bench))
        return [figure for part in parts for figure in part]


def _in_turns(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    def take(name: str) -> float:
        async def measure() -> float:
            return await ways[name]()

        gc.collect()
        return asyncio.run(measure())

    return interleaved(ways, rounds, take)


def _compared(benchmark: str, found: Mapping[str, Sequence[float]], count: int) -> Iterator[Figure]:
    """CPU time per interaction, as a multiple of ours."""
    for name, seconds in found.items():
        figure = Figure(benchmark, name, median(seconds) / count * 1e6, "us")
        yield figure if name == OURS else with_ratio(figure, OURS, ratios_of(seconds, found[OURS][: len(seconds)]))


# -- replay and load ---------------------------------------------------------------------------------------------------


def replays(bench: Bench) -> Iterator[Figure]:
    """Polls of one task, each with its own response, without loading the file."""
    ways: dict[str, Way] = {}
    for name, recorder in RECORDERS.items():
        urls = bench.polls(f"replay-{name}", 1, bench.interactions)
        path = bench.record(recorder, urls)
        ways[name] = partial(_replay, recorder, path, urls)
        if name == OURS:
            ways[CLIENT] = partial(_replay_to_client, path, urls)
    # The time of vcrpy grows with the square of the polls, so one round must do.
    quadratic = {VCRPY: ways.pop(VCRPY)}
    found = _in_turns(ways, bench.rounds) | _in_turns(quadratic, 1)
    yield from _compared(f"replay of {bench.interactions:,} polls", found, bench.interactions)


async def _replay(recorder: Recorder, path: Path, urls: Sequence[str]) -> float:
    async with recorder.replay(path) as carrier:
        begun_at = time.process_time()
        found = [(await carrier.get(url))["status"] for url in urls]
        seconds = time.process_time() - begun_at
    check(found, len(urls))
    return seconds


async def _replay_to_client(path: Path, urls: Sequence[str]) -> float:
    transport = ReplayTransport(path)
    task_ids = [url.rpartition("/")[2] for url in urls]
    async with Client("any-key", base_url=str(transport.base_url), transport=transport) as client:
        begun_at = time.process_time()
        found = [str((await client.videos.get(task_id)).status) for task_id in task_ids]
        seconds = time.process_time() - begun_at
    check(found, len(urls))
    return seconds


def check(found: Sequence[str], polls: int) -> None:
    """Raise ValueError unless these are the statuses of one task, in their order."""
    if list(found) != statuses(polls):
        message = "a replay gave other responses than were recorded, or in another order"
        raise ValueError(message)


def loads(bench: Bench) -> Iterator[Figure]:
    """A file is read and verified; ours also returns its first response."""
    ways: dict[str, Way] = {}
    for name, recorder in RECORDERS.items():
        urls = bench.polls(f"load-{name}", bench.interactions // _POLLS, _POLLS)
        ways[name] = partial(_load, recorder, bench.record(recorder, urls), urls[0])
    yield from _compared("load of a cassette, per interaction", _in_turns(ways, bench.rounds), bench.interactions)


async def _load(recorder: Recorder, path: Path, url: str) -> float:
    begun_at = time.process_time()
    await recorder.load(path, url)
    return time.process_time() - begun_at


# -- recording ---------------------------------------------------------------------------------------------------------


def recordings(bench: Bench) -> Iterator[Figure]:
    """Requests that are recorded, with saving the cassette, as multiples of those that are not."""
    count = bench.interactions // _POLLS
    carries: dict[str, Carry] = {**BASES, **{name: recorder.record for name, recorder in RECORDERS.items()}}
    carries[EQUAL] = RECORDERS[OURS].record
    ways = {
        name: partial(_record, carry, bench, f"{10**9}-{'same' if name == EQUAL else 'cost'}", count)
        for name, carry in carries.items()
    }
    found = _in_turns(ways, bench.rounds)
    for name, seconds in found.items():
        figure = Figure("a recorded request, with saving", name, median(seconds) / count * 1e6, "us")
        base = RAW if name in (VCRPY, CASSETTER) else DIRECT
        yield figure if name in BASES else with_ratio(figure, base, ratios_of(seconds, found[base]))


async def _record(carry: Carry, bench: Bench, task_id: str, count: int) -> float:
    url = f"{bench.base_url}/videos/{task_id}"
    async with carry(bench.new_path()) as carrier:
        await carrier.get(url)  # opens everything
        begun_at = time.process_time()
        for _ in range(count):
            await carrier.get(url)
    return time.process_time() - begun_at


def streams(bench: Bench, megabytes: int) -> Iterator[Figure]:
    """The memory that one stream needs in a process of its own, and what its caller received."""
    for name in RECORDERS:
        size = max(megabytes if name == OURS else min(megabytes, _SHORT_STREAM), 1)
        path, url = bench.new_path(), f"{bench.base_url}/videos/{size}-stream/content"
        for mode in ("record", "replay"):
            found = child("benchmarks.cassettes", name, mode, path, url)
            received = "all" if found["received"] == size * MEGABYTE else f"{found['received'] / MEGABYTE:.0f} MB"
            on_disk = sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file()) / 1e6
            note = f"{size} MB, {received} received, {on_disk:.3g} on disk"
            yield Figure("memory of a stream", f"{name}: {mode}", found["grown"] / 1e6, "MB", note=note)


def secrets(bench: Bench) -> Iterator[Figure]:
    """How many of the planted secrets are in a file afterwards."""
    for name, recorder in RECORDERS.items():
        path = bench.record(recorder, bench.polls(f"secret-{name}", 1, 1))
        figure = Figure("planted secrets on disk", name, len(leaked(path.parent)), f"of {len(SECRETS)}")
        yield with_limit(figure, 0) if name == OURS else figure


def leaked(directory: Path) -> list[str]:
    """The secrets that are in a file below ``directory``, also across its line breaks."""
    text = "".join(path.read_text(errors="replace") for path in directory.rglob("*") if path.is_file())
    text = "".join(text.replace("\\", "").split())
    return [secret for secret in SECRETS if secret in text]


# -- in the child ------------------------------------------------------------------------------------------------------


async def carry_stream(name: str, mode: str, path: Path, url: str) -> dict[str, float]:
    received = 0

    async def carry(url: str, path: Path) -> None:
        nonlocal received
        recorder = RECORDERS[name]
        try:
            async with recorder.record(path) if mode == "record" else recorder.replay(path) as carrier:
                received = await carrier.drain(url)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its result
            print(f"{name} failed: {error!r}", file=sys.stderr)

    return await measured(carry, url, path) | {"received": received}


def main(name: str, mode: str, path: str, url: str) -> None:
    print(json.dumps(asyncio.run(carry_stream(name, mode, Path(path), url))))


if __name__ == "__main__":
    main(*sys.argv[1:])

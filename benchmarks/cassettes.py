"""What recording and replaying costs, beside vcrpy and cassetter: ``python -m benchmarks.cassettes``.

Five tables, each with all recorders side by side in one run, their rounds interleaved. Every recorder makes its
cassettes itself, of one service in a process of its own. Only the ratios mean something on another machine.
"""

import argparse
import asyncio
import gc
import os
import platform
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias, TypeVar

from attrs import frozen
from vcr.serializers import yamlserializer  # type: ignore[import-untyped]

from benchmarks.cassette_peers import RECORDERS, Carrier, Recorder, carried_by, plain_aiohttp
from benchmarks.cassette_secrets import EXCHANGES, PLANTED, leaked
from benchmarks.cassette_service import MEGABYTE, running_service, statuses
from benchmarks.cassette_stream import STREAM_RECORDERS, Stream, carry, processes
from benchmarks.measure import file_system, median, table
from vidgen_async import Client, __version__
from vidgen_async.transports import DirectTransport, ReplayTransport

T = TypeVar("T")
Carried: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Carrier]]

#: Of one task, on the cassette that is only loaded.
POLLS = 10
#: So many times as many rounds for what is short, or a difference of two times.
MORE = 3
#: The row of a task of which every answer is the same.
EQUAL = "ours, equal answers"
#: Who keeps a whole stream has it in memory, and gets a shorter one, of so many megabytes.
WHOLE_STREAM = 50


@frozen
class Bench:
    """The service, where new cassettes go, and how much is asked for."""

    base_url: str
    directory: Path
    interactions: int
    rounds: int
    stream_mb: int

    def polls(self, name: str, tasks: int, polls: int) -> list[str]:
        """The URLs of all polls of so many new tasks, one task's after the other's."""
        return [f"{self.base_url}/videos/{polls}-{name}{task}" for task in range(tasks) for _ in range(polls)]

    def new_path(self) -> Path:
        """For a cassette, in a directory of its own."""
        return Path(tempfile.mkdtemp(dir=self.directory)) / "cassette"

    def compare(
        self, ways: Mapping[str, Callable[[], Awaitable[T]]], *, once: str | None = None, times: int = 1
    ) -> dict[str, list[T]]:
        """All in turn, several rounds (or ``times`` as many), another one first each time; ``once`` takes part in the
        first round alone."""
        found: dict[str, list[T]] = {name: [] for name in ways}
        for turn in range(self.rounds * times):
            names = deque(ways)
            names.rotate(-turn)
            for name in names:
                if name != once or turn == 0:
                    gc.collect()
                    found[name].append(asyncio.run(_result_of(ways[name])))
        return found


async def _result_of(way: Callable[[], Awaitable[T]]) -> T:
    return await way()


async def recorded(recorder: Recorder, path: Path, urls: Sequence[str]) -> None:
    async with recorder.record(path) as carrier:
        for url in urls:
            await carrier.get(url)


# -- replay and load ---------------------------------------------------------------------------------------------------


def replay(bench: Bench) -> str:
    ways: dict[str, Callable[[], Awaitable[float]]] = {}
    for name, recorder in RECORDERS.items():
        path, urls = bench.new_path(), bench.polls(f"replay-{name}", 1, bench.interactions)
        asyncio.run(recorded(recorder, path, urls))
        ways[name] = partial(_replay, recorder, path, urls)
        if name == "ours":
            ways["ours, client.videos.get"] = partial(_replay_to_client, path, urls)
    # Its time grows with the square of the polls: 2,000 take half a minute.
    return _compared(bench.compare(ways, once="vcrpy"), bench.interactions)


async def _replay(recorder: Recorder, path: Path, urls: Sequence[str]) -> float:
    async with recorder.replay(path) as carrier:
        begun_at = time.process_time()
        said = [(await carrier.get(url))["status"] for url in urls]
        seconds = time.process_time() - begun_at
    check(said, len(urls))
    return seconds


async def _replay_to_client(path: Path, urls: Sequence[str]) -> float:
    transport = ReplayTransport(path)
    task_ids = [url.rpartition("/")[2] for url in urls]
    async with Client("any-key", base_url=str(transport.base_url), transport=transport) as client:
        begun_at = time.process_time()
        said = [str((await client.videos.get(task_id)).status) for task_id in task_ids]
        seconds = time.process_time() - begun_at
    check(said, len(urls))
    return seconds


def check(said: Sequence[str], polls: int) -> None:
    """ValueError unless these are the statuses of one task, in their order."""
    if list(said) != statuses(polls):
        message = "a replay gave other answers than were recorded, or in another order"
        raise ValueError(message)


def load(bench: Bench) -> str:
    ways: dict[str, Callable[[], Awaitable[float]]] = {}
    for name, recorder in RECORDERS.items():
        path, urls = bench.new_path(), bench.polls(f"load-{name}", bench.interactions // POLLS, POLLS)
        asyncio.run(recorded(recorder, path, urls))
        ways[name] = partial(_load, recorder, path, urls[0])
    return _compared(bench.compare(ways, times=MORE), bench.interactions)


async def _load(recorder: Recorder, path: Path, url: str) -> float:
    begun_at = time.process_time()
    await recorder.load(path, url)
    return time.process_time() - begun_at


def _compared(found: Mapping[str, Sequence[float]], count: int) -> str:
    """How many times as much CPU time as ours each takes: the median of the rounds, each by itself."""
    ours = found["ours"]
    return table(
        ("recorder", "to ours", "CPU ms", "us each", "rounds"),
        (
            (
                name,
                f"{median(theirs / own for theirs, own in zip(seconds, ours, strict=False)):.2f}",
                f"{median(seconds) * 1e3:.1f}",
                f"{median(seconds) / count * 1e6:.1f}",
                str(len(seconds)),
            )
            for name, seconds in found.items()
        ),
    )


# -- what recording adds -----------------------------------------------------------------------------------------------


@frozen
class Cost:
    """Seconds of this process' CPU: for the requests, and with the saving of the cassette."""

    requests: float
    saved: float


def recording(bench: Bench) -> str:
    requests = max(bench.interactions // 5, 1)
    ways: dict[str, Carried] = {
        "DirectTransport": lambda _: carried_by(DirectTransport()),
        "ours": RECORDERS["ours"].record,
        EQUAL: RECORDERS["ours"].record,
        "aiohttp": lambda _: plain_aiohttp(),
        "vcrpy": RECORDERS["vcrpy"].record,
        "cassetter": RECORDERS["cassetter"].record,
    }
    urls = {name: f"{bench.base_url}/videos/{10**9}-{'same' if name == EQUAL else 'cost'}" for name in ways}
    costs = {name: partial(_cost, carried, bench.new_path, urls[name], requests) for name, carried in ways.items()}
    found = bench.compare(costs, times=MORE)
    bases = {"ours": "DirectTransport", EQUAL: "DirectTransport", "vcrpy": "aiohttp", "cassetter": "aiohttp"}

    def added(name: str, cost: Callable[[Cost], float]) -> str:
        pairs = zip(found[name], found[bases.get(name, name)], strict=True)
        return f"{median(cost(own) / cost(base) - 1 for own, base in pairs):+.0%}"

    def each(name: str, cost: Callable[[Cost], float]) -> str:
        return f"{median(map(cost, found[name])) / requests * 1e6:.0f}"

    return table(
        ("recorder", "added", "saving too", "us each", "saving too", "over"),
        (
            (
                name,
                added(name, lambda cost: cost.requests),
                added(name, lambda cost: cost.saved),
                each(name, lambda cost: cost.requests),
                each(name, lambda cost: cost.saved),
                bases.get(name, ""),
            )
            for name in ways
        ),
    )


async def _cost(carried: Carried, new_path: Callable[[], Path], url: str, requests: int) -> Cost:
    async with carried(new_path()) as carrier:
        await carrier.get(url)  # opens everything
        begun_at = time.process_time()
        for _ in range(requests):
            await carrier.get(url)
        ended_at = time.process_time()
    return Cost(ended_at - begun_at, time.process_time() - begun_at)


# -- streams and secrets -----------------------------------------------------------------------------------------------


def streams(bench: Bench) -> str:
    rows = []
    with processes() as fresh:
        for name in STREAM_RECORDERS:
            megabytes = bench.stream_mb if name == "ours" else min(bench.stream_mb, WHOLE_STREAM)
            path, url = bench.new_path(), f"{bench.base_url}/videos/{megabytes}-stream/content"
            for mode in ("record", "replay"):
                stream = fresh.submit(carry, name, mode, path, url).result()
                rows.append((f"{name}: {mode}", *_stream_columns(stream, megabytes, path.parent)))
    return table(("recorder", "MB grown", "per MB", "received", "of MB", "on disk MB", "seconds"), rows)


def _stream_columns(stream: Stream, megabytes: int, place: Path) -> tuple[str, ...]:
    grown, per_megabyte = "unknown", "unknown"
    if stream.grown is not None:
        grown, per_megabyte = f"{stream.grown / MEGABYTE:.1f}", f"{stream.grown / megabytes / MEGABYTE:.2f}"
    is_whole = stream.received == megabytes * MEGABYTE
    received = stream.raised or ("all" if is_whole else f"{stream.received / MEGABYTE:.1f} MB")
    on_disk = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / MEGABYTE
    return (grown, per_megabyte, received, str(megabytes), f"{on_disk:.2f}", f"{stream.seconds:.2f}")


def secrets(bench: Bench) -> str:
    found = {}
    for name, recorder in RECORDERS.items():
        path = bench.new_path()
        asyncio.run(_exchanges(bench, recorder, path))
        found[name] = leaked(path.parent)
    rows = [(place, *("leaked" if place in places else "-" for places in found.values())) for place in PLANTED]
    return table(("secret", *found), [*rows, ("leaked", *(str(len(places)) for places in found.values()))])


async def _exchanges(bench: Bench, recorder: Recorder, path: Path) -> None:
    async with recorder.record(path) as carrier:
        for exchange in EXCHANGES:
            await carrier.exchange(bench.base_url, exchange)


# -- the program -------------------------------------------------------------------------------------------------------


def machine(directory: Path) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "vcrpy", "cassetter"))
    loader = yamlserializer._CassetteLoader.__mro__[1].__name__
    return (
        f"Python {platform.python_version()}, vidgen_async {__version__}, {versions} (vcrpy reads YAML with {loader}), "
        f"{os.cpu_count()} cores, file system {file_system(directory)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=2000, help="on a cassette, at least 10 (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="of each; vcrpy replays in the first alone (5)")
    parser.add_argument("--stream-mb", type=int, default=500, help="of our stream; peers have at most 50 (500)")
    parser.add_argument("--directory", type=Path, default=None, help="for the cassettes (the system's temporary one)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as place, running_service() as base_url:
        bench = Bench(base_url, Path(place), asked.interactions, asked.rounds, asked.stream_mb)
        print(machine(bench.directory))
        print(f"\nReplay of {bench.interactions} polls of one task\n{replay(bench)}")
        print(f"\nLoad of a cassette with {bench.interactions} interactions\n{load(bench)}")
        print(f"\nCPU time that recording adds to a request\n{recording(bench)}")
        print(f"\nMemory for one stream\n{streams(bench)}")
        print(f"\nPlanted secrets that are on the disk afterwards\n{secrets(bench)}")


if __name__ == "__main__":
    main()

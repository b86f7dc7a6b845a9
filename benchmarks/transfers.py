"""One transfer of many bytes in a process of its own: its duration, its memory, and the stalls of its event loop."""

import asyncio
import gc
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve

from benchmarks.before import BEFORE, NAME
from benchmarks.children import Found, child, interleaved
from benchmarks.results import Figure, with_limit

OURS, EARLIER, RAW, HTTPX, CURL = NAME, f"{NAME}, before", "aiohttp", "httpx", "curl"
#: Seconds between two ticks of the loop.
_TICK = 0.001

Way: TypeAlias = Callable[[str, Path], Coroutine[Any, Any, None]]
"""Called with the base URL of the service and the path of a file; it opens and closes what it needs."""


def measure(way: Way, url: str, path: Path) -> None:
    """Print what the transfer took: the body of a child process."""
    print(json.dumps(asyncio.run(measured(way, url, path))))


async def measured(way: Way, url: str, path: Path) -> Found:
    """Its seconds, the bytes by which the memory grew, and the longest stall of the event loop in seconds."""
    gc.collect()
    before = memory("VmRSS", is_reset=True)
    async with ticking() as lateness:
        begun_at = time.perf_counter()
        await way(url, path)
        seconds = time.perf_counter() - begun_at
    return {"seconds": seconds, "grown": memory("VmHWM") - before, "stall": max(lateness)}


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """The seconds by which each tick of the running event loop is late."""
    lateness = [0.0]

    async def tick() -> None:
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            lateness.append(time.perf_counter() - due)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    try:
        yield lateness
        await asyncio.sleep(2 * _TICK)  # a stall at the end counts
    finally:
        ticker.cancel()


def memory(name: str, *, is_reset: bool = False) -> int:
    """The bytes of this process that are resident (VmRSS), or the most that were (VmHWM) since the last reset; 0 where
    the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    if is_reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


Rounds: TypeAlias = Mapping[str, Sequence[Found]]
"""What each competitor measured in each round."""


def compare(module: str, names: Sequence[str], rounds: int, url: str, path: Path) -> Rounds:
    """Let the competitors take turns; ``idle`` is the longest stall of a thread that only sleeps meanwhile."""

    def take(name: str) -> Found:
        with _idle() as stalls:
            found: Found = child(module, name, url, path)
        return found | {"idle": max(stalls)}

    return interleaved([name for name in names if _is_there(name)], rounds, take)


def _is_there(name: str) -> bool:
    needs = {EARLIER: find_spec(BEFORE), HTTPX: find_spec("httpx"), CURL: shutil.which("curl")}
    return needs.get(name, name) is not None


@contextmanager
def _idle() -> Iterator[list[float]]:
    stalls, is_over = [0.0], threading.Event()

    def run() -> None:
        while not is_over.is_set():
            due = time.perf_counter() + _TICK
            time.sleep(_TICK)
            stalls.append(time.perf_counter() - due)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield stalls
    finally:
        is_over.set()
        thread.join()


def values_of(rounds: Rounds, key: str) -> dict[str, list[float]]:
    return {name: [one[key] for one in found] for name, found in rounds.items()}


def stalls(benchmark: str, rounds: Rounds, limit: float) -> Iterator[Figure]:
    """The longest stall of the event loop, in the round with the least: other programs only add to it. One above
    ``limit`` is not judged if an idle thread of another process was as late."""
    for name, found in rounds.items():
        if name != CURL:
            least = min(found, key=lambda one: one["stall"])
            note = f"{least['idle'] * 1e3:.3g} ms in an idle thread"
            figure = Figure(benchmark, f"{name}: longest stall", least["stall"] * 1e3, "ms", note=note)
            if name == OURS:
                figure = with_limit(figure, limit)
                is_disturbed = not figure.is_met and least["stall"] <= least["idle"]
                figure = evolve(figure, is_met=None) if is_disturbed else figure
            yield figure

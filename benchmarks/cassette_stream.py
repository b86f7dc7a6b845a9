"""One stream through one recorder, and how much memory that takes: each in a process of its own."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from attrs import frozen

from benchmarks.cassette_peers import RECORDERS, Ours, Recorder

STREAM_RECORDERS: Mapping[str, Recorder] = {
    "ours": RECORDERS["ours"],
    "ours, all bytes kept": Ours(largest_blob=1 << 40),
    "vcrpy": RECORDERS["vcrpy"],
    "cassetter": RECORDERS["cassetter"],
}


@frozen
class Stream:
    """What became of one: the bytes that came, seconds, bytes by which the memory grew, and what was raised."""

    received: int
    seconds: float
    grown: int | None
    raised: str | None


def processes() -> ProcessPoolExecutor:
    """Each task in a new process, which has imported everything and done nothing yet."""
    fresh = get_context("forkserver")
    fresh.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1)


def carry(name: str, mode: str, path: Path, url: str) -> Stream:
    """Record or replay one stream in this process."""
    return asyncio.run(_carry(STREAM_RECORDERS[name], mode, path, url))


async def _carry(recorder: Recorder, mode: str, path: Path, url: str) -> Stream:
    received, raised = 0, None
    before, begun_at = _memory("VmRSS"), time.perf_counter()
    try:
        async with recorder.record(path) if mode == "record" else recorder.replay(path) as carrier:
            received = await carrier.drain(url)
    except Exception as error:  # noqa: BLE001 - whatever a peer raises is its result
        raised = type(error).__name__
    seconds, most = time.perf_counter() - begun_at, _memory("VmHWM")
    grown = None if before is None or most is None else most - before
    return Stream(received, seconds, grown, raised)


def _memory(name: str) -> int | None:
    """In bytes, where Linux tells it: what is resident now (VmRSS), or the most that ever was (VmHWM)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024

"""What the benchmarks share: percentiles, tables, and facts about the machine."""

import gc
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path


def percentile(values: Iterable[float], part: float) -> float:
    """The value below which ``part`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Columns as wide as they need to be, right-aligned except those in ``left``."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def resident_bytes() -> int:
    """The memory of this process after a garbage collection; 0 where the system does not report it."""
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def machine(directory: Path) -> str:
    """Python, SQLite, cores, file system, and what one fsync costs on this disk."""
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores, "
        f"file system {file_system(directory)}, one fsync of 4 kB {milliseconds(_fsync_cost(directory))} ms "
        "(median of 50)"
    )


def file_system(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Its type, on Linux."""
    if not mounts.exists():
        return "unknown"
    place = directory.resolve()
    fields = [line.split(" ") for line in mounts.read_text(errors="surrogateescape").splitlines()]
    # The deepest mount holds it; of two at one point the later one.
    depth, kind = -1, "unknown"
    for _, point, system, *_ in fields:
        if place.is_relative_to(point) and len(Path(point).parts) >= depth:
            depth, kind = len(Path(point).parts), system
    return kind


def _fsync_cost(directory: Path) -> float:
    costs = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(50):
            begun_at = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            costs.append(time.perf_counter() - begun_at)
    return median(costs)

"""What the benchmarks share: percentiles, tables, and what a reader must know about the machine."""

import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path


def percentile(values: Iterable[float], part: float) -> float:
    """The value below which ``part`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they need to be; all but the first are right-aligned."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def ratio(own: float, base: float) -> str:
    return f"{own / base:.2f}" if base else "-"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def machine(directory: Path) -> str:
    """Python, SQLite, cores, and what one commit costs on this disk."""
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores, "
        f"one fsync of 4 kB {milliseconds(_fsync_cost(directory))} ms (median of 50)"
    )


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

"""What a budget adds to the four commits of a create and its end in SQLite: intend, begin, settle and record.

The journals have attempts in all minutes of the last 24 hours and all of 30 days. The windows take turns.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.children import interleaved
from benchmarks.journal import store_order
from benchmarks.lists import ACCOUNT, FEW, FILL, SERVICE, fill
from benchmarks.measure import machine, median
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_ratio
from vidgen_async.journal import SqliteJournal
from vidgen_async.journal.sql.queries import Database
from vidgen_async.types.limits import DAY, SpendingLimit
from vidgen_async.types.orders import TaskResult

NONE = "no budget"
_WINDOWS: Mapping[str, float | None] = {"24 h": DAY, "30 days": 30 * DAY, "all time": None}
LIMITS: Mapping[str, Sequence[SpendingLimit]] = {NONE: ()} | {
    f"budget for {name}": [SpendingLimit(points=10**9, window=window, unknown=20)] for name, window in _WINDOWS.items()
}
#: With a budget, an order may take so many times as long.
MOST = 1.15
_ORDERS = 3
_SPREAD = "UPDATE attempts SET sent_at = sent_at - CAST(substr(order_id, 7) AS INTEGER) * :gap"


def run(scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as directory:
        note = machine(Path(directory))
        for many in (scale.orders // 100, scale.orders):
            journal = SqliteJournal(Path(directory) / f"{many}.db")
            asyncio.run(_fill(journal, many))
            blocks = interleaved(LIMITS, scale.blocks, partial(_take, journal, itertools.count()))
            found += figures(many, blocks, note)
            asyncio.run(journal.aclose())
    return found


def figures(many: int, seconds: Mapping[str, Sequence[float]], note: str) -> Iterator[Figure]:
    """Milliseconds of an order, and the ratio to one without a budget."""
    for name, found in seconds.items():
        figure = Figure(f"an order, {many:,} attempts in 30 days", name, median(found) * 1e3, "ms", note=note)
        ratios = ratios_of(found, seconds[NONE])
        yield figure if name == NONE else with_ratio(figure, NONE, ratios, partial(at_most, MOST))


async def _fill(journal: SqliteJournal, many: int) -> None:
    def spread(db: Database) -> None:
        db.execute(_SPREAD, {"gap": 30 * DAY * 10**6 // many})

    await fill(journal, FILL, many, every=many // FEW)
    await journal._write(spread)
    await journal.verify_spending(SERVICE, ACCOUNT)


def _take(journal: SqliteJournal, numbers: Iterator[int], name: str) -> float:
    """The seconds of one order."""

    async def measure() -> float:
        begun_at = time.perf_counter()
        for number in itertools.islice(numbers, _ORDERS):
            await complete_order(journal, f"new-{number}", LIMITS[name])
        return (time.perf_counter() - begun_at) / _ORDERS

    return asyncio.run(measure())


async def complete_order(journal: SqliteJournal, name: str, limits: Sequence[SpendingLimit]) -> None:
    """The commits of one order, and of the end of its task."""
    await store_order(journal, name, reserved=20, limits=limits)
    ended = TaskResult(task_id=f"task-{name}", status="completed", at=datetime.now(UTC), points=20)
    await journal.record(SERVICE, [ended])

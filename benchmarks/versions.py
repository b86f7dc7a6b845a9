"""Creates per second of this version beside the commit that ``--before COMMIT`` names.

Both are imported in processes of their own, which take turns; the service and the database server are the same.
"""

import asyncio
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])  # before the package is imported from this checkout

from benchmarks.children import child, interleaved
from benchmarks.creates import measure_creates, ours
from benchmarks.measure import machine, median
from benchmarks.media_service import running_media_service
from benchmarks.postgres import DURABLE
from benchmarks.results import Figure, Scale, Verdict, at_least, ratios_of, with_ratio
from tests.postgres import running_server
from vidgen_async.journal import Journal, MemoryJournal, PostgresJournal, SqliteJournal

AFTER, BEFORE = "this version", "the earlier version"
CONCURRENCIES = (1, 10, 100, 1000)
MEMORY, SQLITE, POSTGRES = "memory", "SQLite", "PostgreSQL"
#: The least ratio, where more than a few creates are concurrent.
TARGETS: Final[Mapping[str, float]] = {MEMORY: 1.6, SQLITE: 2.5, POSTGRES: 3.0}
_LEAST_CONCURRENCY = 100
_ROOT = Path(__file__).resolve().parent.parent


def run(scale: Scale) -> list[Figure]:
    if scale.before is None:
        return []
    found: list[Figure] = []
    with (
        tempfile.TemporaryDirectory() as directory,
        running_media_service() as url,
        running_server(*DURABLE) as server,
    ):
        names, note = count(), machine(Path(directory))
        places: dict[str, Callable[[], str]] = {
            MEMORY: lambda: "",
            SQLITE: lambda: f"{directory}/{next(names)}.db",
            POSTGRES: lambda: server.dsn,
        }
        concurrencies = dict.fromkeys(min(most, 5 * scale.gets) for most in CONCURRENCIES)
        for kind, concurrency in product(places, concurrencies):
            creates = max(concurrency, min(scale.gets, max(50, 10 * concurrency)))

            def take(name: str, kind: str = kind, size: Sequence[int] = (creates, concurrency)) -> Mapping[str, float]:
                root = _ROOT if name == AFTER else scale.before
                arguments = root, url, kind, places[kind](), f"block_{next(names)}", *size
                return dict(child("benchmarks.versions", *arguments))

            blocks = interleaved((AFTER, BEFORE), scale.rounds, take)
            found += figures(kind, concurrency, blocks, note)
    return found


def figures(
    kind: str, concurrency: int, blocks: Mapping[str, Sequence[Mapping[str, float]]], note: str
) -> Iterator[Figure]:
    """Creates per second of both versions, and their ratio."""
    benchmark = f"creates, {kind}, {concurrency:,} at a time"
    rates = {name: [block["rate"] for block in found] for name, found in blocks.items()}
    judge = partial(_judge, kind, concurrency)
    for name, found in blocks.items():
        cpu = f"{median(block['cpu'] for block in found):.2f} ms of CPU"
        figure = Figure(benchmark, name, median(rates[name]), "per s", note=f"{cpu}; {note}" if name == AFTER else cpu)
        yield with_ratio(figure, BEFORE, ratios_of(rates[AFTER], rates[BEFORE]), judge) if name == AFTER else figure


def _judge(kind: str, concurrency: int, ratio: float) -> Verdict:
    return at_least(TARGETS[kind] if concurrency >= _LEAST_CONCURRENCY else 1.0, ratio)


async def _measure(url: str, kind: str, place: str, schema: str, creates: int, concurrency: int) -> dict[str, float]:
    journals: dict[str, Any] = {
        MEMORY: MemoryJournal,
        SQLITE: partial(SqliteJournal, place),
        POSTGRES: partial(PostgresJournal, place, schema=schema),
    }
    journal: Journal = journals[kind]()
    begun = resource.getrusage(resource.RUSAGE_SELF)
    block = await measure_creates(partial(ours, url, journal), creates, concurrency)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime
    return {"rate": creates / block.seconds, "cpu": 1e3 * cpu / creates}


if __name__ == "__main__":
    address, kind, place, schema, *size = sys.argv[2:]
    creates, concurrency = map(int, size)
    print(json.dumps(asyncio.run(_measure(address, kind, place, schema, creates, concurrency))))

"""What a journal on disk costs: the three commits of an order (queued, sending, accepted), and stalls of the loop.

The journals take turns, each time with a new file, so that a slower disk affects all of them.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.children import interleaved
from benchmarks.journal_peers import NONE, OURS, PEERS, OrderJournal
from benchmarks.measure import machine, median, percentile
from benchmarks.results import Figure, Scale, with_ratio
from benchmarks.transfers import ticking
from vidgen_async import Pacing
from vidgen_async.journal import Permission
from vidgen_async.types.orders import SENDABLE, AttemptOutcome, Evidence, Order, OrderRef

CONCURRENCIES = (1, 50)
_MOST_ORDERS = 50
_BODY = b'{"model": "vendorh3", "prompt": "' + b"A paper boat sails at dawn. " * 15 + b'", "duration": 5}'
#: The service's own limit would be all that is measured.
_PACING = Pacing(limit=10**9)


@frozen
class Block:
    """Seconds of all orders, and by which each tick of the event loop was late."""

    seconds: float
    lateness: Sequence[float]


def run(scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as directory:
        note = machine(Path(directory))
        for concurrency in CONCURRENCIES:
            orders = min(scale.gets, _MOST_ORDERS)
            take = partial(_take, Path(directory), orders, concurrency)
            found += figures(concurrency, orders, interleaved(PEERS, scale.rounds, take), note)
    return found


def figures(concurrency: int, orders: int, blocks: Mapping[str, Sequence[Block]], note: str) -> Iterator[Figure]:
    """Orders per second as multiples of ours, and the lateness of ticks with many concurrent orders."""
    benchmark = f"journal, {concurrency} orders at a time"
    for name, found in blocks.items():
        rate = median(orders / block.seconds for block in found)
        ratios = [own.seconds / block.seconds for block, own in zip(found, blocks[OURS], strict=True)]
        figure = Figure(benchmark, name, rate, "orders/s", note=note if name == OURS else "")
        yield figure if name == OURS else with_ratio(figure, OURS, ratios)
    if concurrency == 1:
        return
    for name, found in blocks.items():
        if name != NONE:
            late = median(percentile(block.lateness, 0.99) for block in found)
            yield Figure(benchmark, f"{name}: lateness of the event loop, p99", late * 1e3, "ms")


def _take(directory: Path, orders: int, concurrency: int, name: str) -> Block:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        return asyncio.run(measure_orders(PEERS[name](Path(place) / "orders.db"), orders, concurrency))


async def measure_orders(journal: OrderJournal, orders: int, concurrency: int) -> Block:
    """Store so many orders, that many at a time, and close the journal."""
    numbers = iter(range(orders))

    async def worker() -> None:
        for number in numbers:
            await store_order(journal, number)

    try:
        await journal.namespace("word")  # opens it
        async with ticking() as lateness:
            begun_at = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(worker())
            seconds = time.perf_counter() - begun_at
    finally:
        await journal.aclose()
    return Block(seconds, lateness)


async def store_order(journal: OrderJournal, number: int | str, **budget: Any) -> None:
    """The three commits of one order, with what its permission has for a budget."""
    now = datetime.now(UTC)
    ref = OrderRef(service="https://service.test", account="default", order_id=f"order-{number}")
    await journal.intend(Order(ref=ref, idempotency_key=f"vg1-{number:0>40}", body=_BODY, created_at=now))
    permission = Permission(
        ref=ref,
        expect_attempt=0,
        states=SENDABLE,
        now=now,
        deadline_at=now + timedelta(seconds=130),
        pacing=_PACING,
        **budget,
    )
    await journal.begin(permission)
    evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=now, status=202, task_id=f"task-{number}", answered=True)
    await journal.settle(ref, 1, evidence)

"""What a journal on disk costs: ``python -m benchmarks.journal``.

Three tables, each with all journals side by side in one run, their rounds interleaved so that a disk that gets slower
hits all alike: what an order's three commits take; what they add to a create; and how long the event loop stands still
meanwhile. Only the ratios mean something on another machine.
"""

import argparse
import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from attrs import Factory, define

from benchmarks.measure import machine, median, milliseconds, percentile, table
from benchmarks.peers import PEERS, MakeJournal
from vidgen_async import Client, Pacing, VideoFields
from vidgen_async.journal import Journal, Permission
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Request
from vidgen_async.types.orders import SENDABLE, Attempt, AttemptOutcome, Evidence, Order, OrderRef

#: The service's own limit would be the only thing measured.
PACING = Pacing(limit=10**9)
BODY = b'{"model": "vendorh3", "prompt": "' + b"A paper boat sails at dawn. " * 15 + b'", "duration": 5}'
VIDEO: VideoFields = {"model": "gen-2.0", "prompt": "A paper boat sails at dawn", "duration": 5}
#: Of one order: it is on record, it is being sent, it was accepted.
COMMITS = 3
#: Seconds between two looks at the clock of the loop.
TICK = 0.001


@define
class Figures:
    """What the rounds of one journal brought."""

    rates: list[float] = Factory(list)
    took: list[float] = Factory(list)
    """Seconds of each operation, create, or tick too late."""


Work: TypeAlias = Callable[[int], Awaitable[None]]


async def spread(count: int, concurrency: int, work: Work) -> float:
    """Seconds that ``count`` pieces of work take, ``concurrency`` of them at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    begun_at = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    return time.perf_counter() - begun_at


async def carry_order(journal: Journal, number: int, took: list[float]) -> None:
    """The three commits of one order."""

    async def timed(operation: Awaitable[object]) -> object:
        begun_at = time.perf_counter()
        found = await operation
        took.append(time.perf_counter() - begun_at)
        return found

    now = datetime.now(UTC)
    ref = OrderRef(service="https://service.test", account="default", order_id=f"order-{number}")
    await timed(journal.intend(Order(ref=ref, idempotency_key=f"vg1-{number:040}", body=BODY, created_at=now)))
    permission = Permission(
        ref=ref,
        expect_attempt=0,
        states=SENDABLE,
        now=now,
        deadline_at=now + timedelta(seconds=130),
        pacing=PACING,
    )
    begun = await timed(journal.begin(permission))
    if not isinstance(begun, Attempt):
        message = f"order {number} could not begin: {begun}"
        raise TypeError(message)
    evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=now, status=202, task_id=f"task-{number}", answered=True)
    await timed(journal.settle(ref, 1, evidence))


async def operations(journal: Journal, orders: int, concurrency: int, figures: Figures) -> None:
    await journal.namespace("word")  # opens it
    seconds = await spread(orders, concurrency, lambda number: carry_order(journal, number, figures.took))
    figures.rates.append(orders / seconds)


async def creates(journal: Journal, orders: int, concurrency: int, figures: Figures) -> None:
    async with client_on(journal) as client:
        await client.videos.create(**VIDEO, order_id="first", validate=False)  # opens everything

        async def create(number: int) -> None:
            begun_at = time.perf_counter()
            await client.videos.create(**VIDEO, order_id=f"order-{number}", validate=False)
            figures.took.append(time.perf_counter() - begun_at)

        figures.rates.append(orders / await spread(orders, concurrency, create))


async def stalls(journal: Journal, orders: int, concurrency: int, figures: Figures) -> None:
    """How much too late a tick of the loop comes while creates run."""

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            figures.took.append(time.perf_counter() - due)

    async with client_on(journal) as client:
        await client.videos.create(**VIDEO, order_id="first", validate=False)

        async def create(number: int) -> None:
            await client.videos.create(**VIDEO, order_id=f"order-{number}", validate=False)

        ticker = asyncio.ensure_future(tick())
        try:
            figures.rates.append(orders / await spread(orders, concurrency, create))
        finally:
            ticker.cancel()
            await asyncio.wait({ticker})


def client_on(journal: Journal) -> Client:
    """A client of a service that answers at once, so that the rest is ours."""
    accepted = 0

    async def answer(_: Request) -> BufferedResponse:
        nonlocal accepted
        accepted += 1
        return BufferedResponse(202, b'{"id": "task-%d"}' % accepted)

    return Client(
        "key",
        base_url="https://service.test/openapi/v1",
        journal=journal,
        transport=FakeTransport(answer),
        pacing=PACING,
    )


Measured: TypeAlias = Callable[[Journal, int, int, Figures], Awaitable[None]]


def compare(measured: Measured, orders: int, concurrency: int, rounds: int, directory: Path) -> dict[str, Figures]:
    """All journals in turn, ``rounds`` times, each time on a new file, and another one first."""
    figures = {name: Figures() for name in PEERS}
    for turn in range(rounds):
        names = deque(PEERS)
        names.rotate(-turn)
        for name in names:
            asyncio.run(_one(measured, PEERS[name], (orders, concurrency), figures[name], directory))
    return figures


async def _one(measured: Measured, make: MakeJournal, size: tuple[int, int], figures: Figures, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        journal = make(Path(place) / "orders.db")
        try:
            await measured(journal, *size, figures)
        finally:
            await journal.aclose()


def shown(figures: dict[str, Figures], unit: str) -> str:
    """Rates and times, and how many times as fast as ours each is: the median over the rounds, each by itself."""
    own = next(iter(figures.values())).rates
    return table(
        ("journal", "to ours", f"{unit}/s", "commits/s", "p50 ms", "p99 ms", "max ms"),
        (
            (
                name,
                f"{median(theirs / ours for theirs, ours in zip(found.rates, own, strict=True)):.2f}",
                f"{median(found.rates):.0f}",
                f"{median(found.rates) * COMMITS:.0f}",
                milliseconds(percentile(found.took, 0.5)),
                milliseconds(percentile(found.took, 0.99)),
                milliseconds(max(found.took)),
            )
            for name, found in figures.items()
        ),
    )


def added(figures: dict[str, Figures]) -> str:
    """What each adds to a create, over no journal."""
    base = figures["no journal (memory)"].took
    return table(
        ("journal", "added p50 ms", "added p99 ms", "creates/s"),
        (
            (
                name,
                milliseconds(percentile(found.took, 0.5) - percentile(base, 0.5)),
                milliseconds(percentile(found.took, 0.99) - percentile(base, 0.99)),
                f"{median(found.rates):.0f}",
            )
            for name, found in figures.items()
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=100, help="in each round (100)")
    parser.add_argument("--rounds", type=int, default=3, help="of each journal (3)")
    parser.add_argument("--concurrency", default="1,10,100", help="orders at a time (1,10,100)")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk to measure (the working directory)")
    asked = parser.parse_args()
    print(machine(asked.directory))
    for concurrency in map(int, asked.concurrency.split(",")):
        size = (max(asked.orders, concurrency), concurrency, asked.rounds, asked.directory)
        print(f"\nThe three commits of an order, {concurrency} orders at a time")
        print(shown(compare(operations, *size), "orders"))
        print(f"\nWhat a journal adds to a create, {concurrency} creates at a time")
        print(added(compare(creates, *size)))
    print("\nHow late a tick of the event loop comes while 50 creates run at a time")
    print(shown(compare(stalls, max(asked.orders, 50), 50, asked.rounds, asked.directory), "creates"))


if __name__ == "__main__":
    main()

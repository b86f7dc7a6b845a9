"""A restart with very many orders on record: all of them are watched, evenly, and creates go on meanwhile."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import aclosing, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attrs import Factory, define

from vidgen_async import Client, ClientStateError, Pacing
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import RunningPage, SqliteJournal
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Request
from vidgen_async.types.orders import Shard

ORIGIN = "https://h"
MANY = 1_000
#: Where they are read in many pages.
VERY_MANY = 20_000
INTERVAL = 60.0
#: The number of new tasks that are polled at once, and per second.
FIRST_POLLS = 32
#: The journal's operations for one create, and one page that may be under way before each.
FEW = 10


class HeldJournal(SqliteJournal):
    """No virtual time passes while its thread works. Its pages are counted."""

    def __init__(self, path: Path, clock: VirtualClock) -> None:
        super().__init__(path)
        self.pages = 0
        self.has_read = asyncio.Event()
        """The first page."""
        self._clock = clock

    async def running(self, service: str, account: str, *, after: int = 0, shard: Shard | None = None) -> RunningPage:
        page = await super().running(service, account, after=after, shard=shard)
        self.pages += 1
        self.has_read.set()
        return page

    async def _run(self, *operation: Any) -> Any:
        with self._clock.hold():
            return await super()._run(*operation)


@define
class FakeService:
    """Takes longer than an interval for each look at one task in a hundred."""

    clock: VirtualClock
    creates: int = 0
    looks: list[tuple[float, str]] = Factory(list)
    under_way: Counter[str] = Factory(Counter)
    looked_at_twice_at_once: set[str] = Factory(set)
    ended: Container[str] = ()

    async def answer(self, request: Request) -> BufferedResponse:
        if request.op == "videos.create":
            self.creates += 1
            return BufferedResponse(202, json.dumps({"id": f"new-{self.creates}", "status": "queued"}).encode())
        task_id = request.url.name
        self.looks.append((self.clock.now(), task_id))
        self.under_way[task_id] += 1
        if self.under_way[task_id] > 1:
            self.looked_at_twice_at_once.add(task_id)
        await self.clock.sleep(0 if int(task_id[5:]) % 100 else 1.5 * INTERVAL)
        self.under_way[task_id] -= 1
        status = "completed" if task_id in self.ended else "running"
        return BufferedResponse(200, json.dumps({"id": task_id, "status": status}).encode())


def ended(many: int) -> range:
    """Every tenth of them has ended, and was seen to."""
    return range(3, many, 10)


def name(number: int) -> str:
    return f"task-{number}"


def write_orders(path: Path, many: int) -> None:
    """What a process that died had on record."""
    whose = [(ORIGIN, "default", f"order-{number}") for number in range(many)]
    body = b'{"model": "m", "prompt": "' + b"a paper boat " * 20 + b'"}'
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO orders (service, account, order_id, idempotency_key, body, created_at) VALUES (?,?,?,?,?,0)",
            ((*ref, f"key-{ref[2]}", body) for ref in whose),
        )
        db.executemany(
            'INSERT INTO attempts (service, account, order_id, n, sent_at, deadline_at, kind, "by", reason) '
            "VALUES (?,?,?,1,0,130000000,'create','','')",
            whose,
        )
        db.executemany(
            "INSERT INTO evidence (service, account, order_id, n, outcome, at, status, task_id, cause, body, extra, "
            "answered) VALUES (?,?,?,1,'accepted',1000000,202,?,'',x'','{}',1)",
            ((*ref, name(number)) for number, ref in enumerate(whose)),
        )
        db.executemany(
            "INSERT INTO results (service, task_id, status, at) VALUES (?,?,'completed',2000000)",
            ((ORIGIN, name(number)) for number in ended(many)),
        )


@pytest.fixture
def path(request, tmp_path) -> Path:
    """Of a journal with so many orders."""
    path = tmp_path / "orders.db"

    async def make() -> None:
        journal = SqliteJournal(path)
        await journal.namespace("word")
        await journal.aclose()

    asyncio.run(make())
    write_orders(path, getattr(request, "param", MANY))
    return path


very_many = pytest.mark.parametrize("path", [VERY_MANY], indirect=True)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(quiet_passes=5)


@pytest.fixture
def service(clock) -> FakeService:
    return FakeService(clock)


@pytest.fixture
def restarted(service, clock, path) -> Callable[[], Client]:
    """The client of the next process."""

    def make() -> Client:
        return Client(
            "key",
            base_url=f"{ORIGIN}/openapi/v1",
            transport=FakeTransport(service.answer),
            journal=HeldJournal(path, clock),
            clock=clock,
            poll_interval=INTERVAL,
            max_connections=2000,
            pacing=Pacing(limit=10**6),
        )

    return make


async def drain(client: Client, told: list[str]) -> None:
    async with aclosing(client.videos.rewatch(timeout=None)) as outcomes:
        async for outcome in outcomes:
            told.append(outcome.task_id)  # noqa: PERF401 - the next outcome is asked for when this one was handled


def per_second(moments: list[float]) -> Iterator[int]:
    counts = Counter(int(moment) for moment in moments)
    return (counts[second] for second in range(int(min(moments)), int(max(moments)) + 1))


@pytest.mark.slow
async def test_all_that_runs_is_looked_at_evenly_once_per_interval_and_each_end_is_told_once(restarted, service, clock):
    running = {name(number) for number in set(range(MANY)) - set(ended(MANY))}
    told: list[str] = []
    async with restarted() as client:
        draining = asyncio.ensure_future(drain(client, told))
        while not service.looks:
            await clock.sleep(0.1)
        begun_at = service.looks[0][0]
        await clock.sleep(begun_at + INTERVAL - clock.now())
        service.ended = ending = {name(number) for number in range(1, MANY, 20)}
        await clock.sleep(1.1 * INTERVAL)
        draining.cancel()
        await asyncio.wait({draining})

    first = [moment for moment, _ in service.looks if moment < begun_at + INTERVAL]
    assert {task_id for _, task_id in service.looks} == running
    assert service.looked_at_twice_at_once == set()
    assert max(per_second(first)) <= FIRST_POLLS + 1.25 * len(running) / INTERVAL
    looked_at: dict[str, list[float]] = {}
    for moment, task_id in service.looks:
        looked_at.setdefault(task_id, []).append(moment)
    gaps = [after - before for moments in looked_at.values() for before, after in pairwise(moments)]
    assert min(gaps) >= INTERVAL - 0.01
    assert sorted(told) == sorted(ending)


@pytest.mark.slow
@very_many
async def test_creates_get_through_while_the_orders_on_record_are_read(restarted, service):
    async with restarted() as client:
        await client.videos.create(model="m", prompt="p", validate=False)
        journal = client._view.shared.journal
        draining = asyncio.ensure_future(drain(client, []))
        await journal.has_read.wait()

        await client.videos.create(model="m", prompt="p", order_id="meanwhile", validate=False)

        assert journal.pages <= FEW < VERY_MANY // 1000
        assert service.looks == []
        draining.cancel()
        await asyncio.wait({draining})


@pytest.mark.slow
@very_many
async def test_a_client_that_is_closed_while_the_orders_on_record_are_read_reads_no_further(restarted, service):
    async with restarted() as client:
        journal = client._view.shared.journal
        draining = asyncio.ensure_future(drain(client, []))
        await journal.has_read.wait()
    with pytest.raises(ClientStateError):
        await draining
    assert journal.pages < FEW
    assert service.looks == []


@pytest.mark.slow
async def test_a_process_that_ends_while_it_handles_an_outcome_leaves_it_and_the_others_to_the_next(restarted, service):
    service.ended = {name(number) for number in range(MANY)}
    handled: list[str] = []
    async with restarted() as client, aclosing(client.videos.rewatch()) as outcomes:
        async for outcome in outcomes:
            handled.append(outcome.task_id)
            if len(handled) == 601:  # more than are written in one commit
                break
    *seen, cut_off = handled

    async with restarted() as client:
        left = [task.task_id async for task in client.orders.running()]

    assert len(left) == MANY - len(ended(MANY)) - len(seen)
    assert cut_off in left
    assert not set(seen) & set(left)

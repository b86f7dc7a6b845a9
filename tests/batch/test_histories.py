"""Random histories of a batch: faults of creates and downloads, runs that are stopped or cancelled, damaged files."""

import asyncio
import random
from collections import Counter

import pytest

from tests.batch.conftest import FIELDS, Batches
from vidgen_async.batch import BatchOutcome
from vidgen_async.media.download import check_file
from vidgen_async.sandbox import Fault

CREATE_FAULTS = (
    Fault.status(400),
    Fault.status(403),
    Fault.status(429, headers={"Retry-After": "0"}),
    Fault.status(503, made=True),
    Fault.status(503, made=False),
    Fault.reset_before_body(),
    Fault.reset_after_body(),
    Fault.html(502),
)
CONTENT_FAULTS = (Fault.html(), Fault.cut(0.5), Fault.status(404))


async def run_partly(batches: Batches, rows: list[dict[str, object]], chance: random.Random) -> None:
    """Stop a run, or cancel it, after some outcomes."""
    most, how = chance.randrange(len(rows)), chance.choice(("stop", "leave", "cancel"))
    async with batches.client() as client:

        async def run() -> None:
            number = 0
            async with client.videos.batch(rows, to=batches.to, retry_failed=chance.random() < 0.3) as batch:
                async for _ in batch:
                    number += 1
                    if number == most and how == "leave":
                        return
                    if number == most and how == "stop":
                        batch.stop()

        running = asyncio.ensure_future(run())
        if how == "cancel":
            await asyncio.wait([running], timeout=chance.random() * 0.3)
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled() or running.exception() is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_no_history_of_a_batch_orders_twice_or_leaves_an_incomplete_file(batches, seed):
    chance = random.Random(seed)  # noqa: S311 - a repeatable choice
    service = batches.service
    rows = [
        {**FIELDS, "order_id": f"o{n}", "prompt": "x [fail: no]" if chance.random() < 0.15 else f"boat {n}"}
        for n in range(30)
    ]
    for _ in range(4):
        for _ in range(6):
            service.faults.add("videos.create", chance.choice(CREATE_FAULTS), after=chance.randrange(6))
            service.faults.add("videos.content", chance.choice(CONTENT_FAULTS), after=chance.randrange(6))
        await run_partly(batches, rows, chance)
        for name in batches.files():
            if chance.random() < 0.2:
                path = batches.to / name
                path.unlink() if chance.random() < 0.5 else path.write_bytes(path.read_bytes()[:-50])
    service.faults.clear()

    outcomes = await batches.run(rows)

    check(batches, outcomes)
    before = len(service.creates)
    again = await batches.run(rows)
    assert {order_id: each.state for order_id, each in again.items()} == {
        order_id: each.state for order_id, each in outcomes.items()
    }
    assert {each.reason for each in again.values()} == {""}
    assert len(service.creates) == before


def check(batches: Batches, outcomes: dict[str, BatchOutcome]) -> None:
    creates = batches.service.creates
    refused = Counter(each.idempotency_key for each in creates if each.status in (400, 403, 429))
    assert max((batches.posts() - refused).values()) == 1
    assert len(outcomes) == 30
    assert {each.state for each in outcomes.values()} <= {"saved", "failed", "rejected", "uncertain"}
    saved = {each.task_id: each for each in outcomes.values() if each.state == "saved"}
    assert {check_file(each.path) for each in saved.values()} <= {None}
    assert batches.files() == {each.path.name for each in saved.values()}
    charges = {entry.task_id: -entry.points for entry in batches.service.ledger if entry.kind == "charge"}
    assert {task_id: each.points for task_id, each in saved.items()} == {task_id: charges[task_id] for task_id in saved}
    tasks = [each.task_id for each in outcomes.values() if each.task_id]
    assert len(tasks) == len(set(tasks))

"""A batch whose process is killed often, also inside of creates, ends with every video and without a second charge."""

import asyncio
import csv
import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batch.conftest import FIELDS, Batches
from vidgen_async.batch.run import ROWS_AHEAD
from vidgen_async.media.download import check_file
from vidgen_async.sandbox import Fault

ORDERS = 100
KILLS_IN_SENDS = 4


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - another process causes it
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_batch_that_is_killed_often_saves_every_accepted_video_and_sends_nothing_twice(
    slow_batches, start_batch, tmp_path
):
    batches, service = slow_batches, slow_batches.service
    manifest, report = tmp_path / "jobs.jsonl", tmp_path / "report.csv"
    rows = [{"order_id": f"o{n}", **FIELDS, "prompt": "x [fail: no]" if n % 10 == 7 else "x"} for n in range(ORDERS)]
    manifest.write_text("\n".join(map(json.dumps, rows)))

    async def start() -> asyncio.subprocess.Process:
        settings = {
            "VIDGEN_API_KEY": service.api_key,
            "VIDGEN_BASE_URL": str(service.base_url),
            "VIDGEN_JOURNAL": batches.journal,
        }
        return await start_batch(settings, manifest, batches.to, report)

    async def kill(process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGKILL)
        await process.communicate()

    # Inside of a create, whose answer does not come: some of these tasks were made, and some were not.
    for n in range(KILLS_IN_SENDS):
        before = len(service.creates)
        service.faults.add("videos.create", Fault.stall(made=n % 2 == 0), after=n)
        process = await start()
        await wait_for(lambda at=before: any(each.fault and each.body_arrived for each in service.creates[at:]))
        await kill(process)
        service.faults.clear()
    # While tasks run, and while their videos are saved.
    process = await start()
    await wait_for(lambda: all(request.op == "videos.get" for request in service.requests[-50:]))
    await kill(process)
    service.faults.add("videos.content", Fault.drip(20_000), times=6, after=5)
    service.clock.advance(2000)
    process = await start()
    await wait_for(lambda: len(batches.files()) >= 8)
    await kill(process)

    process = await start()
    ended = asyncio.ensure_future(process.communicate())
    while not ended.done():  # also the tasks of the orders that this run makes
        service.clock.advance(2000)
        await asyncio.wait([ended], timeout=0.2)
    out, err = await ended
    assert process.returncode == 0, err.decode()
    states = dict(line.split() for line in out.decode().splitlines())
    check(batches, states, report)


def check(batches: Batches, states: dict[str, str], report: Path) -> None:
    service = batches.service
    refused = Counter(each.idempotency_key for each in service.creates if each.status and each.status >= 400)
    posts = batches.posts()
    assert max((posts - refused).values()) == 1
    assert len(posts) > ORDERS - KILLS_IN_SENDS * ROWS_AHEAD
    count = Counter(states.values())
    assert count["uncertain"] >= KILLS_IN_SENDS
    assert count["saved"] > 10
    assert count["saved"] + count["failed"] + count["uncertain"] == ORDERS
    files = {f"{order_id}.mp4" for order_id, state in states.items() if state == "saved"}
    assert batches.files() == files
    assert {check_file(batches.to / name) for name in files} == {None}
    with report.open() as file:
        lines = {line["order_id"]: line for line in csv.DictReader(file)}
    assert {order_id: line["state"] for order_id, line in lines.items()} == states
    known = {line["task_id"] for line in lines.values() if line["task_id"]}
    charges = {entry.task_id: -entry.points for entry in service.ledger if entry.kind == "charge"}
    assert known <= charges.keys()
    assert {line["task_id"]: int(line["points"]) for line in lines.values() if line["points"]} == {
        task_id: charges[task_id] for task_id in known
    }

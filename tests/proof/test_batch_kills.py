"""Processes that run batches are killed at random, also inside of sends, while the service fails in each phase.

The oracle reads what the sandbox received and charged, the reports, and the files. What a budget has reserved is read
from the journal, at each attempt.
"""

import asyncio
import csv
import json
import os
import random
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attrs import define, field

from tests.batch.conftest import FIELDS
from tests.proof.processes import REFUSALS, ROOT, on_each_journal
from tests.proof.test_budget_races import Oracle, read_log, start_log
from vidgen_async.media.download import check_file
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.sandbox.request_log import ReceivedRequest

#: Rows, kills, and those of them that must fall inside a send: BATCH_KILLS="1000 50 10" is the full size.
ROWS, KILLS, IN_SENDS = (int(part) for part in os.environ.get("BATCH_KILLS", "160 12 3").split())
#: What a task costs, and how many the budget is for.
POINTS, AFFORDABLE = 20, ROWS * 6 // 10
#: Some of them precede each kill.
FAULTS = (
    ("models.list", Fault.status(503)),
    ("files.create", Fault.status(503)),
    ("files.create", Fault.close_after_body()),
    ("videos.create", Fault.status(400)),
    ("videos.create", Fault.status(429)),
    ("videos.create", Fault.status(503)),
    ("videos.create", Fault.close_before_body()),
    ("videos.create", Fault.close_after_body()),
    ("videos.create", Fault.reset_after_body(made=False)),
    ("videos.create", Fault.without_id()),
    ("videos.get", Fault.status(500)),
    ("videos.get", Fault.close_after_body()),
    ("videos.get", Fault.garble()),
    ("videos.content", Fault.status(503)),
    ("videos.content", Fault.cut()),
    ("videos.content", Fault.cut(0.9)),
    ("videos.content", Fault.drip(2000)),
)

StartBatch: TypeAlias = Callable[..., Awaitable[Process]]


@define
class Storm:
    """Processes with a directory each, which run batches of the same rows on one journal."""

    service: Sandbox
    received: Counter[str]
    """The number of requests by their operations."""
    folder: Path
    settings: dict[str, str]
    start_batch: StartBatch
    rows: list[list[str]]
    """The order ids of each process."""
    rng: random.Random = field(factory=lambda: random.Random(31))  # noqa: S311 - a repeatable choice, not a secret
    running: dict[int, Process] = field(factory=dict)
    kills: int = 0

    def __attrs_post_init__(self) -> None:
        for digit in range(5):
            (self.folder / f"{digit}.png").write_bytes((ROOT / "examples" / "boat.png").read_bytes() + bytes([digit]))
        for n, order_ids in enumerate(self.rows):
            rows = map(self._row, order_ids)
            (self.folder / f"{n}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def _row(self, order_id: str) -> dict[str, Any]:
        """Some tasks fail, and some rows have a picture that others have too."""
        row = {"order_id": order_id, **FIELDS, "prompt": f"{order_id} [fail: no]" if order_id[-1] == "7" else order_id}
        return row | ({"local_images": [f"{order_id[-1]}.png"]} if order_id[-1] in "01234" else {})

    async def start(self, *numbers: int) -> None:
        """Start those that do not run."""
        for n in numbers:
            if n not in self.running or self.running[n].returncode is not None:
                arguments = (f"{self.folder}/{n}.jsonl", f"{self.folder}/{n}", f"{self.folder}/{n}.csv")
                self.running[n] = await self.start_batch(self.settings, *arguments)

    async def kill(self, *victims: int) -> None:
        for n in victims:
            if self.running[n].returncode is None:
                self.running[n].kill()
                self.kills += 1
            await self.running[n].communicate()

    async def wait(self, is_so: Callable[[], bool]) -> None:
        """Return when it is so, or when all processes have ended, or at the latest after some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(8):
                while not is_so() and any(each.returncode is None for each in self.running.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.002)

    def stalled(self) -> int:
        """How many creates have arrived that were never answered."""
        return sum(each.fault == "stall" and each.body_arrived for each in self.service.creates)

    async def run(self) -> None:
        """Kill all of them inside a send, then one of them at another moment, and so on. Then let each end."""
        for turn in range(4 * KILLS):
            if self.kills >= KILLS and self.stalled() >= IN_SENDS:
                break
            self.service.faults.clear()
            stalled, is_in_send = self.stalled(), turn % 3 == 0 and self.stalled() < IN_SENDS
            if is_in_send:
                stall = Fault.stall(made=self.rng.random() < 0.5)
                self.service.faults.add("videos.create", stall, after=self.rng.randrange(5))
            # Credits for some more tasks only, so that there is something to do until the last kill.
            self.service.balance = self.rng.randint(1, ROWS // KILLS) * POINTS
            for op, fault in self.rng.sample(FAULTS, 3):
                self.service.faults.add(op, fault, times=self.rng.randint(1, 3), after=self.rng.randrange(5))
            await self.start(*range(len(self.rows)))
            if is_in_send:
                await self.wait(lambda stalled=stalled: self.stalled() > stalled)
                await self.kill(*self.running)
            else:
                op = self.rng.choice(["models.list", "videos.create", "videos.create", "videos.get", "videos.content"])
                reached = self.received[op] + self.rng.randint(1, ROWS // KILLS)
                await self.wait(lambda op=op, reached=reached: self.received[op] >= reached)
                await self.kill(self.rng.choice(list(self.running)))
        self.service.faults.clear()
        self.service.balance = 10**9
        await self.kill(*self.running)
        for n in range(len(self.rows)):
            await self.start(n)
            _, err = await self.running[n].communicate()
            assert self.running[n].returncode == 0, err.decode()

    def lines(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """The lines of the reports, each with the path of the video."""
        for n, order_ids in enumerate(self.rows):
            with (self.folder / f"{n}.csv").open() as file:
                lines = list(csv.DictReader(file))
            assert sorted(line["order_id"] for line in lines) == sorted(order_ids)
            for line in lines:
                yield self.folder / str(n) / f"{line['order_id']}.mp4", line

    def check(self) -> Counter[str]:
        """Compare the reports with what the sandbox has received and charged. Return the number of lines by state."""
        posts = Counter(create.idempotency_key for create in self.service.creates if create.status not in REFUSALS)
        assert max(posts.values()) == 1
        made = defaultdict[str, set[str]](set)
        for create in self.service.creates:
            if create.body_arrived:
                made[create.body["prompt"].split()[0]] |= {create.task_id} - {None}
        assert max(map(len, made.values())) == 1
        assert len({create.idempotency_key for create in self.service.creates}) >= len(made)
        charges = {each.task_id: -each.points for each in self.service.ledger if each.kind == "charge"}
        refunded = {each.task_id for each in self.service.ledger if each.kind == "refund"}
        assert set().union(*made.values()) == charges.keys()
        states = Counter[str]()
        for path, line in self.lines():
            state, tasks = line["state"], made[line["order_id"]]
            states[state] += 1
            assert (check_file(path) is None, path.exists()) == ((state == "saved"),) * 2, line
            if state == "uncertain":
                continue
            assert tasks == ({line["task_id"]} if state in {"saved", "failed"} else set()), line
            assert {line["points"]} == ({str(charges[task]) for task in tasks} or {""})
            assert (tasks <= refunded) == (state != "saved"), line
        assert states.keys() <= {"saved", "failed", "rejected", "not_sent", "uncertain"}
        return states


@pytest.fixture
async def start_batch() -> AsyncIterator[StartBatch]:
    """Starts processes, which end with the test, or with this process: ``await start_batch(settings, *arguments)``."""
    stdin, ours = os.pipe()
    started: list[Process] = []

    async def start(settings: Mapping[str, str], *arguments: object) -> Process:
        command = (sys.executable, "-m", "tests.proof.batch_child", *map(str, arguments))
        env = os.environ | settings
        started.append(await create_subprocess_exec(*command, cwd=ROOT, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE))
        return started[-1]

    yield start
    os.close(ours)
    for process in started:
        await process.communicate()
    os.close(stdin)


@pytest.mark.slow
@pytest.mark.timeout(300 + 2 * ROWS)
@pytest.mark.parametrize("count", [1, 4])
@on_each_journal
async def test_killed_batches_send_no_order_twice_and_save_each_completed_video(
    small_videos, start_batch, tmp_path, journal, count
):
    received = Counter[str]()

    def note(request: ReceivedRequest) -> None:
        received[request.op] += not request.is_over

    async with Sandbox(queued_for=0, running_for=1, submission_limit=10**6, on_request=note) as service:
        settings = {"VIDGEN_API_KEY": service.api_key, "VIDGEN_BASE_URL": service.base_url, "VIDGEN_JOURNAL": journal}
        rows = [f"o{n}" for n in range(ROWS)]
        if count > 1:
            settings |= {"VIDGEN_BUDGET": f"{AFFORDABLE * POINTS}/24h", "VIDGEN_PRICE": "points"}
        await start_log(journal)
        # Each row but the first and the last eighths belongs to several processes.
        shares = [rows[n * ROWS // 8 : (n + 5) * ROWS // 8] for n in range(count)] if count > 1 else [rows]
        storm = Storm(service, received, tmp_path, settings, start_batch, shares)
        await storm.run()
        states = storm.check()

    assert storm.kills >= KILLS
    assert storm.stalled() >= IN_SENDS
    assert states["uncertain"] >= IN_SENDS
    assert states["saved"] > sum(map(len, shares)) // 4
    oracle, reserved = Oracle(), 0.0
    for name, facts in read_log(journal):
        oracle.add(name, facts)
        if name == "attempts":
            reserved = max(reserved, oracle.count(0))
    if count > 1:
        assert POINTS * AFFORDABLE // 2 < reserved <= POINTS * AFFORDABLE
        assert states["not_sent"] > 0

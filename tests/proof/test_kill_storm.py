"""Processes are killed at random, again and again, while others have the same orders made."""

import random
from collections import Counter, defaultdict

import pytest

from tests.proof.processes import LATER, REFUSALS, Processes, Worker, check, on_disk, on_each_journal

ORDERS, KILLS, SIDE_BY_SIDE = 210, 12, 6
#: How the first and the second POST of an order fare, and how many of a hundred orders fare so.
PLANS = {
    "ok": 50,
    "late=0.05": 14,
    "status=402 ok": 5,
    "status=429 late=0.02": 5,
    "status=400 status=503": 3,
    "status=503": 6,
    "status=500": 3,
    "nameless": 4,
    "half": 4,
    "reset": 6,
    "hang": 4,
}


def creates(chance: random.Random, orders: int) -> dict[str, list[object]]:
    """The create of each order."""
    plans = chance.choices(list(PLANS), list(PLANS.values()), k=orders)
    names = [f"order-{n}" for n in range(orders)]
    return {name: ["create", name, f"{name}: {plan}"] for name, plan in zip(names, plans, strict=True)}


class Storm:
    """Two processes at a time, each of which creates all orders whose outcome is unknown, one after the other as
    it pleases. An order that is being sent keeps them waiting for a moment only: the sender may be dead."""

    def __init__(self, processes: Processes, *, orders: int = ORDERS, **options: object) -> None:
        self._processes = processes
        self._chance = random.Random(4)  # noqa: S311 - a repeatable choice, not a secret
        self._options = {"time_limit": 0.3, "create_timeout": 1.0, **options}
        self.creates = creates(self._chance, orders)
        self.told: list[dict[str, str]] = []
        self.kills = 0
        self.states_at_kills: Counter[str] = Counter()

    async def start(self) -> Worker | None:
        told = Counter(word["order"] for word in self.told if word.get("error") != "TimeoutError")
        orders = on_disk(self._processes.journal)
        waiting = {name for name, order in orders.items() if order.state == "sending"}
        left = [create for name, create in self.creates.items() if told[name] < 2 and name not in waiting]
        self._chance.shuffle(left)
        lanes = [left[n::SIDE_BY_SIDE] for n in range(SIDE_BY_SIDE)]
        return await self._processes.start(*lanes, **self._options) if left else None

    async def run(self) -> None:
        workers = [await self.start(), await self.start()]
        while self.kills < KILLS and None not in workers:
            victim = self._chance.randrange(2)
            worker = workers[victim]
            await self._busy(worker, self._chance.randint(8, 40))
            self.kills += not worker.is_over
            self.told += await worker.kill()
            self.states_at_kills.update(order.state for order in on_disk(self._processes.journal).values())
            workers[victim] = await self.start()
        for worker in filter(None, workers):
            self.told += await worker.kill()

    async def _busy(self, worker: Worker, events: int) -> None:
        """Wait until the service has written down so many more, or the worker has ended."""
        reached = len(self._processes.record.events()) + events
        await self._processes.record.until(lambda record: worker.is_over or len(record.events()) >= reached)

    async def settle(self, *steps: list[object]) -> list[dict[str, str]]:
        """What a new process comes to, for which all deadlines have passed."""
        told = await self._processes.run(*([step] for step in steps), ahead=LATER, create_timeout=1.0)
        self.told += told
        return told

    async def check(self) -> None:
        """Assert that new processes receive the stored receipts and send nothing that may have been sent."""
        outcomes = {word["order"]: word for word in await self.settle(*self.creates.values())}
        before = check(self._processes.record, self._processes.journal, told=self.told)
        receipts = self.tasks_told()
        orders = on_disk(self._processes.journal)
        unclear = {name: len(order.attempts) for name, order in orders.items() if order.state == "uncertain"}
        resends = dict(list(unclear.items())[::2])
        await self.settle(*(["resend", name, "nobody saw a task", n] for name, n in resends.items()))
        await self.settle(*self.creates.values())
        posts = check(self._processes.record, self._processes.journal, told=self.told, resends=resends)

        assert {order: len(ids) for order, ids in receipts.items() if len(ids) > 1} == {}
        assert {order: ids for order, ids in receipts.items() if not ids <= self.tasks_told()[order]} == {}
        # It was a storm: without these there would be little to prove.
        assert set(outcomes) == set(self.creates)
        assert len(receipts) > len(self.creates) // 3
        assert len(unclear) > len(self.creates) // 30
        assert any(post.status in REFUSALS for sent in before.values() for post in sent)
        assert any(post.sha256 is None for sent in before.values() for post in sent), "reset before its body was read"
        assert sum(map(len, posts.values())) > sum(map(len, before.values()))

    def tasks_told(self) -> dict[str, set[str]]:
        """The task ids that callers received, by order."""
        told: dict[str, set[str]] = defaultdict(set)
        for word in self.told:
            if "task" in word:
                told[word["order"]].add(word["task"])
        return told


@pytest.mark.slow
@on_each_journal
async def test_repeated_kills_duplicate_no_order_and_lose_no_receipt(processes):
    await processes.start_service(unread=0.1, latency=0.02, seed=4)
    storm = Storm(processes)

    await storm.run()
    await storm.check()

    assert storm.kills > KILLS // 2  # a slow machine may run out of orders before
    assert storm.states_at_kills["sending"] > storm.kills

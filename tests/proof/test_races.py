"""Many processes and coroutines want the same at the same moment."""

import random
from collections import defaultdict
from pathlib import Path

import pytest

from tests.proof.processes import LATER, Processes, check, on_disk, on_each_journal

pytestmark = [pytest.mark.slow, on_each_journal]

PROCESSES, COROUTINES, ORDERS = 8, 3, 20
#: Of each ten orders: most are taken, soon or late, and some are never answered with a task.
BEHAVIOURS = ("ok", "ok", "late=0.05", "ok", "status=503", "ok", "late=0.2", "ok", "nameless", "half")


@pytest.fixture
def tmp_path(tmp_path_factory) -> Path:
    """On a disk: the longer a commit takes, the more of the others come in between."""
    return tmp_path_factory.mktemp("races")


async def test_all_callers_of_an_order_receive_the_response_to_its_one_post(on_service):
    names = [f"order-{n}" for n in range(ORDERS)]
    chance = random.Random(1187)  # noqa: S311 - a repeatable choice, not a secret
    several = [
        [
            [["create", name, f"{name}: {BEHAVIOURS[int(name[6:]) % 10]}"] for name in chance.sample(names, ORDERS)]
            for _ in range(COROUTINES)
        ]
        for _ in range(PROCESSES)
    ]

    workers = await on_service.start_together(several)
    told = [word for worker in workers for word in await worker.ended()]

    posts = check(on_service.record, on_service.journal, told=told)
    assert {order: len(sent) for order, sent in posts.items()} == dict.fromkeys(names, 1)
    answers = defaultdict(list)
    for word in told:
        answers[word["order"]].append(word.get("task") or word["error"])
    for name, given in answers.items():
        behaviour = BEHAVIOURS[int(name[6:]) % 10]
        expected = posts[name][0].task_id if behaviour[:2] in {"ok", "la"} else "UncertainCreateError"
        assert given == [expected] * (PROCESSES * COROUTINES), name


async def uncertain(processes: Processes, *plans: str) -> None:
    """Orders ``order-0``, ``order-1`` …, each with an attempt that is uncertain."""
    lanes = [[["create", f"order-{n}", f"order-{n}: {plan}"]] for n, plan in enumerate(plans)]
    told = await processes.run(*lanes)
    assert [word["error"] for word in told] == ["UncertainCreateError"] * len(plans)


@pytest.mark.parametrize(("plan", "outcome"), [("status=503", "UncertainCreateError"), ("late=0.1", "task-2")])
async def test_only_one_of_three_concurrent_resends_sends_and_all_return_one_receipt(on_service, plan, outcome):
    await uncertain(on_service, f"status=503 {plan}")
    resend = ["resend", "order-0", "nobody saw a task", 1]

    workers = await on_service.start_together([[[resend]]] * 3)
    told = [word for worker in workers for word in await worker.ended()]

    outcomes = [word.get("task") or word["error"] for word in told]
    assert {outcome} <= set(outcomes) <= {outcome, "OrderStateError"}
    assert outcomes.count("UncertainCreateError") <= 1
    assert len(on_service.record.posts()) == 2
    check(on_service.record, on_service.journal, told=told, resends={"order-0": 1})


async def test_a_resend_concurrent_with_a_late_receipt_is_at_most_one_more_post_and_the_receipt_is_stored(on_service):
    names = [f"order-{n}" for n in range(12)]
    creates = [[["create", name, f"{name}: late={0.02 * n:.2f} late=0.1"]] for n, name in enumerate(names)]
    owner = await on_service.start(*creates)
    await on_service.record.until(lambda record: record.count("body") >= len(names))

    resends = [[["resend", name, "it takes too long", 1]] for name in names]
    operator = await on_service.start(*resends, ahead=LATER)
    told = [*await owner.ended(), *await operator.ended()]

    posts = check(on_service.record, on_service.journal, told=told, resends=dict.fromkeys(names, 1))
    orders = on_disk(on_service.journal)
    for name in names:
        assert {post.task_id for post in posts[name]} == orders[name].task_ids, name
        assert orders[name].state == "accepted"


@pytest.mark.parametrize("orders", [2, 5])
async def test_only_one_of_several_processes_adopts_a_task_for_its_order(on_service, orders):
    await uncertain(on_service, *["status=503"] * orders)

    several = [[[["adopt", f"order-{n}", "task-found"]]] for n in range(orders)]
    workers = await on_service.start_together(several)
    told = [word for worker in workers for word in await worker.ended()]

    assert sorted(word.get("task") or word["error"] for word in told) == ["OrderStateError"] * (orders - 1) + [
        "task-found"
    ]
    found = [order for order in on_disk(on_service.journal).values() if order.task_ids]
    assert [order.task_ids for order in found] == [{"task-found"}]
    assert len(on_service.record.posts()) == orders

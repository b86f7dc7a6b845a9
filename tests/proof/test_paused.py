"""A process that is stopped in the middle of a create, given up by others, and wakes up again."""

import asyncio
import signal

import pytest

from tests.proof.points import CONNECTED
from tests.proof.processes import LATER, check, on_disk, on_each_journal

pytestmark = [pytest.mark.slow, on_each_journal]

ORDER = "order-1187"
BEFORE_THE_FIRST_BYTE = "after the commit of the attempt"


async def test_a_process_suspended_before_its_first_byte_and_continued_after_a_resend_sends_its_one_post(on_service):
    owner = await on_service.start([["create", ORDER, f"{ORDER}: ok"]], at=BEFORE_THE_FIRST_BYTE, signal="SIGSTOP")
    assert await owner.next() == {"halted": True}
    seen = await on_service.run([["create", ORDER, f"{ORDER}: ok"]], ahead=LATER)
    resent = await on_service.run([["resend", ORDER, "its process is stuck", 1]], ahead=LATER)

    await owner.resume()
    told = (await owner.ended())[1:]

    assert seen[0]["error"] == "UncertainCreateError"
    posts = check(on_service.record, on_service.journal, told=[*resent, *told], resends={ORDER: 1})
    assert [post.task_id for post in posts[ORDER]] == ["task-1", "task-2"]
    assert on_disk(on_service.journal)[ORDER].task_ids == {"task-1", "task-2"}
    assert answers([*resent, *told]) == ["task-1", "task-1"], "a receipt never changes"


async def test_a_process_suspended_beyond_its_time_limit_reports_truly_whether_it_sent(on_service):
    limit = 1.0
    more = {"at": BEFORE_THE_FIRST_BYTE, "signal": "SIGSTOP", "create_timeout": limit}
    owner = await on_service.start([["create", ORDER, f"{ORDER}: ok"]], **more)
    assert await owner.next() == {"halted": True}
    resent = await on_service.run([["create", ORDER, f"{ORDER}: ok"], ["resend", ORDER, "it is stuck", 1]], ahead=LATER)
    await asyncio.sleep(limit)  # the limit is one of real time

    await owner.resume()
    told = (await owner.ended())[1:]

    posts = check(on_service.record, on_service.journal, told=[*resent, *told], resends={ORDER: 1})
    outcome = on_disk(on_service.journal)[ORDER].attempts[0][1]
    assert (len(posts[ORDER]), outcome) in {(1, "not_sent"), (1, "uncertain"), (2, "accepted"), (2, "uncertain")}
    assert answers([*resent[1:], *told]) == ["task-1", "task-1"]


async def test_the_late_receipt_of_a_process_suspended_after_its_first_byte_is_stored(on_service):
    owner = await on_service.start([["create", ORDER, f"{ORDER}: last ok"]])
    await on_service.record.until(lambda record: record.count("body") == 1)
    owner.send(signal.SIGSTOP)
    seen = await on_service.run([["create", ORDER, f"{ORDER}: last ok"]], ahead=LATER)
    resent = await on_service.run([["resend", ORDER, "its process is stuck", 1]], ahead=LATER)
    await on_service.record.until(lambda record: record.count("answer") == 2)
    before = on_disk(on_service.journal)[ORDER].task_ids

    await owner.resume()
    told = await owner.ended()

    assert seen[0]["error"] == "UncertainCreateError"
    posts = check(on_service.record, on_service.journal, told=[*resent, *told], resends={ORDER: 1})
    assert [post.task_id for post in posts[ORDER]] == ["task-1", "task-2"]
    assert (before, on_disk(on_service.journal)[ORDER].task_ids) == ({"task-2"}, {"task-1", "task-2"})


async def test_a_resend_suspended_at_the_gate_sends_nothing_after_another_resend(on_service):
    await on_service.run([["create", ORDER, f"{ORDER}: status=503"]])
    resend = ["resend", ORDER, "nobody saw a task", 1]
    stopped = await on_service.start([resend], at=CONNECTED, signal="SIGSTOP")
    assert await stopped.next() == {"halted": True}
    faster = await on_service.run([resend])

    await stopped.resume()
    told = (await stopped.ended())[1:]

    assert [word["error"] for word in (*faster, *told)] == ["UncertainCreateError", "OrderStateError"]
    assert len(check(on_service.record, on_service.journal, resends={ORDER: 1})[ORDER]) == 2


@pytest.mark.parametrize("behaviour", ["status=402", "status=503", "ok"])
async def test_a_create_suspended_at_the_gate_returns_the_receipt_of_another_one(on_service, behaviour):
    create = ["create", ORDER, f"{ORDER}: {behaviour}"]
    stopped = await on_service.start([create], at=CONNECTED, signal="SIGSTOP")
    assert await stopped.next() == {"halted": True}
    faster = await on_service.run([create])

    await stopped.resume()
    told = (await stopped.ended())[1:]

    assert answers(told) == answers(faster)
    assert len(check(on_service.record, on_service.journal, told=[*faster, *told])[ORDER]) == 1


def answers(told: list[dict[str, str]]) -> list[str]:
    return [word.get("task") or word["error"] for word in told]


@pytest.mark.parametrize("point", ["before the commit of the attempt", "before the commit of the outcome"])
async def test_a_process_suspended_in_a_transaction_only_delays_the_others(on_service, point):
    create = ["create", ORDER, f"{ORDER}: ok"]
    owner = await on_service.start([create], at=point, signal="SIGSTOP")
    assert await owner.next() == {"halted": True}
    other = await on_service.start([create])

    await owner.resume()
    told = [*(await owner.ended())[1:], *await other.ended()]

    assert [word["task"] for word in told] == ["task-1", "task-1"]
    assert len(check(on_service.record, on_service.journal, told=told)[ORDER]) == 1

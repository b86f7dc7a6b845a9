"""SIGKILL at each instant of a create and of a resend: what is on disk, what was sent, and how it is resumed."""

import pytest
from attrs import frozen

from tests.media.test_upload import PNG
from tests.proof.points import ANSWER_READ, BEFORE_RETURN, CONNECTED
from tests.proof.processes import LATER, Processes, check, on_disk, on_each_journal
from tests.transports.sending import until
from vidgen_async.sandbox import Fault, Sandbox

pytestmark = [pytest.mark.slow, on_each_journal]

ORDER = "order-1187"
#: More than the buffers between two processes hold.
LONG = 8 << 20


@frozen
class Row:
    """A row of the table of the design."""

    point: str
    state: str | None
    """On disk after the kill."""
    posts: int
    then: str
    """What the next process that creates the order comes to: the receipt in the journal, a new one, or uncertain."""
    behaviour: str = "ok"
    door: str = ""
    padding: int = 0


HEADERS_SENT, BODY_SENT = "headers sent", "body sent"
AFTER_THE_ATTEMPT = (
    Row("after the commit of the attempt", "sending", 0, "uncertain"),
    Row(HEADERS_SENT, "sending", 1, "uncertain", door="/headers-only", padding=LONG),
    Row(BODY_SENT, "sending", 1, "uncertain", behaviour="hang"),
    Row(ANSWER_READ, "sending", 1, "uncertain"),
    Row("before the commit of the outcome", "sending", 1, "uncertain"),
    Row("after the commit of the outcome", "accepted", 1, "in the journal"),
    Row(BEFORE_RETURN, "accepted", 1, "in the journal"),
)
CREATE = (
    Row("before the commit of the intent", None, 0, "sent"),
    Row("after the commit of the intent", "queued", 0, "sent"),
    Row(CONNECTED, "queued", 0, "sent"),
    Row("before the commit of the attempt", "queued", 0, "sent"),
    *AFTER_THE_ATTEMPT,
)
RESEND = (
    Row(CONNECTED, "uncertain", 0, "uncertain"),
    Row("before the commit of the attempt", "uncertain", 0, "uncertain"),
    *AFTER_THE_ATTEMPT,
)
NAMES = {"ids": lambda row: row.point}


async def killed(processes: Processes, row: Row, step: list[object], posts_before: int = 0) -> None:
    """Have a worker carry out the step until it dies at the point."""
    worker = await processes.start([step], at=row.point, door=row.door)
    if row.point == HEADERS_SENT:
        await processes.record.until(lambda record: record.count("head") > posts_before)
        await worker.kill()
    elif row.point == BODY_SENT:
        await processes.record.until(lambda record: record.count("body") > posts_before)
        await worker.kill()
    else:
        assert await worker.ended() == [{"halted": True}]


def posts(processes: Processes) -> int:
    return processes.record.count("head")


@pytest.mark.parametrize("row", CREATE, **NAMES)
async def test_a_create_killed_at_any_point_is_not_sent_twice_and_is_resumed_as_designed(on_service, row):
    create = ["create", ORDER, f"{ORDER}: {row.behaviour}", row.padding]
    await killed(on_service, row, create)
    found = on_disk(on_service.journal).get(ORDER)
    seen = posts(on_service)

    told = await on_service.run([create], ahead=LATER)

    assert (found and found.state, seen) == (row.state, row.posts)
    assert outcome(told[0], found and found.task_ids) == row.then
    assert posts(on_service) == row.posts + (row.then == "sent")
    check(on_service.record, on_service.journal, told=told)


@pytest.mark.parametrize("row", RESEND, **NAMES)
async def test_a_resend_killed_at_any_point_is_at_most_one_more_post_and_is_resumed_as_designed(on_service, row):
    create = ["create", ORDER, f"{ORDER}: status=503 {row.behaviour}", row.padding]
    first = await on_service.run([create])
    await killed(on_service, row, ["resend", ORDER, "nobody saw a task", 1], posts_before=1)
    found = on_disk(on_service.journal)[ORDER]
    seen = posts(on_service)

    told = await on_service.run([create], ahead=LATER)

    assert first[0]["error"] == "UncertainCreateError"
    assert (found.state, seen) == (row.state, 1 + row.posts)
    assert len(found.attempts) == (1 if row.state == "uncertain" else 2)
    assert outcome(told[0], found.task_ids) == row.then
    assert posts(on_service) == seen
    check(on_service.record, on_service.journal, told=told, resends={ORDER: 1})


async def test_a_create_killed_while_its_image_is_uploaded_leaves_no_order_and_is_sent_once_by_the_next(
    processes, tmp_path
):
    image = tmp_path / "hero.png"
    image.write_bytes(PNG)
    animate = ["animate", ORDER, str(image)]
    async with Sandbox() as service:
        processes.base_url = service.base_url
        service.faults.add("files.create", Fault.stall())
        worker = await processes.start([animate], key=service.api_key)
        await until(lambda: service.faults.planned == [])
        assert await worker.kill() == []

        assert on_disk(processes.journal) == {}
        assert service.creates == []

        [told] = await processes.run([animate], key=service.api_key)
        [again] = await processes.run([animate], key=service.api_key)
        [create] = service.creates
    assert told == again == {"order": ORDER, "verb": "animate", "task": create.task_id}
    assert on_disk(processes.journal)[ORDER].state == "accepted"


def outcome(told: dict[str, str], stored_ids: set[str] | None) -> str:
    if told.get("error") == "UncertainCreateError":
        return "uncertain"
    return "in the journal" if told["task"] in (stored_ids or ()) else "sent"

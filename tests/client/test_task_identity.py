"""An answer is believed only where it is about the task that was asked for (4.5): in ``id`` or in ``task_id`` (2.5)."""

import pytest

from vidgen_async import Client, UncertainCreateError
from vidgen_async.errors import UnexpectedResponseError
from vidgen_async.sandbox import Fault

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}

OTHERS = {
    "another id": {"id": "other"},
    "another id and no task_id": {"id": "other", "task_id": None},
    "two other ids": {"id": "other", "task_id": "another"},
    "another task_id": {"task_id": "other"},
    "a number": {"id": 7},
}
ANOTHER_TASK = pytest.mark.parametrize("ids", OTHERS.values(), ids=OTHERS)


def answer(ids: dict[str, object], **more: object) -> Fault:
    return Fault.status(200, {**ids, "status": "completed", "video_url": "https://h/other.mp4", **more})


@ANOTHER_TASK
async def test_a_wait_polls_on_after_an_answer_about_another_task(client, service, ids):
    receipt = await client.videos.create(**VIDEO)
    service.faults.add("videos.get", answer(ids), times=2)

    task = await client.videos.wait(receipt, timeout=60)

    assert (task.id, task.video_url) == (receipt.task_id, (await client.videos.get(receipt)).video_url)


@pytest.mark.slow
@ANOTHER_TASK
async def test_a_get_reads_again_and_never_returns_another_task(client, service, ids):
    receipt = await client.videos.create(**VIDEO)
    service.faults.add("videos.get", answer(ids))

    assert (await client.videos.get(receipt)).id == receipt.task_id


@ANOTHER_TASK
async def test_no_other_task_is_adopted(service, ids):
    service.faults.add("videos.create", Fault.close_after_body())
    service.faults.add("videos.get", answer(ids))
    async with Client(service.api_key, base_url=service.base_url, retry_reads_for=0) as client:
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**VIDEO, order_id="o")
        (made,) = service.tasks
        with pytest.raises(UnexpectedResponseError, match="another task"):
            await client.orders.adopt("o", made)
        assert (await client.orders.get("o")).receipt is None


@pytest.mark.parametrize(
    ("ids", "extra"),
    [({"id": "up_9", "task_id": "T"}, {"id": "up_9"}), ({"id": "T", "task_id": "up_9"}, {"task_id": "up_9"})],
    ids=["in task_id", "in id"],
)
async def test_the_id_that_was_asked_for_stays_the_id(client, service, ids, extra):
    receipt = await client.videos.create(**VIDEO)
    given = {name: receipt.task_id if value == "T" else value for name, value in ids.items()}
    service.faults.add("videos.get", answer(given), times=2)

    for task in (await client.videos.get(receipt.task_id), await client.videos.wait(receipt, timeout=60)):
        assert (task.id, task.extra) == (receipt.task_id, extra)

"""What a client returns and raises can be pickled and copied, and returned as JSON by a web application."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from vidgen_async import (
    NotFoundError,
    RejectedError,
    TaskFailedError,
    UncertainCreateError,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.sandbox import Fault

VIDEO = {"model": "gen-2.0", "prompt": "A paper boat", "duration": 5}
PICTURE = Path(__file__).parents[2] / "examples/boat.png"


async def test_all_that_a_client_returns_can_be_pickled_copied_and_returned_as_json(client, service):
    receipt = await client.videos.create(order_id="order-1187", **VIDEO)
    task = await client.videos.wait(receipt)
    outcomes = [outcome async for outcome in client.videos.as_completed([receipt, "task_unknown"])]
    order = await client.orders.get("order-1187")
    values = [
        receipt,
        task,
        order,
        order.receipt,
        *order.attempts,
        *outcomes,
        await client.models.list(),
        await client.account.get(),
        await client.files.upload(PICTURE),
        await client.videos.check(**VIDEO),
        client.watcher.stats,
    ]
    for value in values:
        for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):  # noqa: S301 - our own
            assert twin.to_dict(include_secrets=True) == value.to_dict(include_secrets=True)
        text = json.dumps(value.to_dict(), allow_nan=False)
        assert (service.api_key in text, receipt.idempotency_key in text, "paper boat" in text) == (False, False, False)
    assert task.to_dict()["video_url"] == task.video_url
    errors = {outcome.task_id: outcome.to_dict()["error"] for outcome in outcomes}
    assert (errors[task.id], errors["task_unknown"]["kind"]) == (None, "not_found")


async def test_all_that_a_client_raises_can_be_pickled_and_copied(client, service):
    raised: list[VidgenError] = []

    async def expect(kind, call):
        with pytest.raises(kind) as caught:
            await call
        raised.append(caught.value)

    service.faults.add("videos.create", Fault.close_after_body())
    await expect(UncertainCreateError, client.videos.create(order_id="order-1", **VIDEO))
    service.faults.add("videos.create", Fault.status(402))
    await expect(RejectedError, client.videos.create(order_id="order-2", **VIDEO))
    await expect(NotFoundError, client.videos.get("task_unknown"))
    receipt = await client.videos.create(order_id="order-3", **VIDEO | {"prompt": "[fail: rule 7]"})
    await expect(TaskFailedError, client.videos.wait(receipt))
    await expect(WaitTimeoutError, client.videos.wait(receipt, timeout=0))
    for error in raised:
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
            assert (type(twin), str(twin), repr(vars(twin))) == (type(error), str(error), repr(vars(error)))

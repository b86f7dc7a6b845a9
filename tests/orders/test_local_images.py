"""What other calls do while the local images of an order are uploaded."""

import asyncio
import json

import pytest
from attrs import Factory, define

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import InvalidRequestError, OrderConflictError, RejectedError
from vidgen_async.types.resources import VideoRequest


@define
class Images:
    """Local images whose upload ends when it is released."""

    keys: tuple[str, ...] = ("digest-1",)
    ids: tuple[str, ...] = ("image-1",)
    uploads: int = 0
    begun: asyncio.Event = Factory(asyncio.Event)
    released: asyncio.Event = Factory(asyncio.Event)

    async def upload(self) -> tuple[str, ...]:
        self.uploads += 1
        self.begun.set()
        await self.released.wait()
        return self.ids


async def uploading(orders, images: Images, **options) -> asyncio.Task:
    """A call whose upload has begun."""
    call = asyncio.ensure_future(orders.create(REQUEST, order_id="o", images=images, **options))
    await images.begun.wait()
    return call


async def test_another_request_that_is_sent_during_the_upload_owns_the_order_id(orders, service):
    images = Images()
    call = await uploading(orders, images)
    await orders.create(VideoRequest(model="m", prompt="another"), order_id="o")
    images.released.set()
    with pytest.raises(OrderConflictError):
        await call
    assert [json.loads(post.body)["prompt"] for post in service.posts] == ["another"]


async def test_a_call_with_other_images_waits_for_the_upload_and_is_a_conflict(orders, service):
    images, others = Images(), Images(keys=("digest-2",))
    first = await uploading(orders, images)
    second = asyncio.ensure_future(orders.create(REQUEST, order_id="o", images=others))
    await asyncio.sleep(0)
    images.released.set()
    with pytest.raises(OrderConflictError, match="was already used with other images"):
        await second
    assert (await first).task_id == "task-1"
    assert (images.uploads, others.uploads, len(service.posts)) == (1, 0, 1)


async def test_concurrent_calls_have_the_same_outcome_also_if_it_is_a_refusal(orders, service):
    service.answers(lambda: refused(402), accepted)
    images, same = Images(), Images()
    first = await uploading(orders, images)
    second = asyncio.ensure_future(orders.create(REQUEST, order_id="o", images=same))
    await asyncio.sleep(0)
    images.released.set()
    for call in (first, second):
        with pytest.raises(RejectedError):
            await call
    assert (same.uploads, len(service.posts)) == (0, 1)


async def test_a_call_whose_predecessor_was_refused_by_the_check_stores_the_images_all_the_same(make_orders, service):
    checks = []

    async def check(_: VideoRequest) -> None:
        checks.append(1)
        if len(checks) == 2:  # after the upload
            await asyncio.sleep(0)
            problem = "the model is in maintenance now"
            raise InvalidRequestError(problem, problems=[problem])

    orders = make_orders(check=check)
    images, same = Images(), Images()
    first = await uploading(orders, images)
    second = asyncio.ensure_future(orders.create(REQUEST, order_id="o", images=same, validate=False))
    await asyncio.sleep(0)
    images.released.set()
    with pytest.raises(InvalidRequestError):
        await first
    assert (await second).task_id == "task-1"
    assert (await orders.get("o")).local_images == {"image-1": "digest-1"}
    assert same.uploads == 0

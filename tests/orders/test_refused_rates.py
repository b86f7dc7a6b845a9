"""A create that is answered with 429 is sent again only where ``Pacing.max_wait`` allows it, and never in a hurry."""

from itertools import pairwise

import pytest

from tests.orders.conftest import accepted, refused
from vidgen_async.errors import RateLimitError, RejectedError
from vidgen_async.transports import BufferedResponse
from vidgen_async.types.http import make_headers
from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import VideoRequest

VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)

AT_ONCE = {
    "zero": "0",
    "zero with decimals": "0.0",
    "negative": "-5",
    "a past date": "Wed, 21 Oct 2015 07:28:00 GMT",
    "a fraction of a second": "0.001",
}
AT_ONCE_VALUES = pytest.mark.parametrize("value", AT_ONCE.values(), ids=AT_ONCE)


@AT_ONCE_VALUES
async def test_the_first_refusal_is_raised_with_default_settings(make_orders, service, value):
    service.answers(lambda: refused(429, Retry_After=value))

    with pytest.raises(RateLimitError):
        await make_orders().create(VIDEO, order_id="o")

    assert len(service.posts) == 1


@AT_ONCE_VALUES
async def test_with_max_wait_attempts_are_a_second_apart_and_each_counts_towards_it(make_orders, service, clock, value):
    service.answers(lambda: refused(429, Retry_After=value))

    with pytest.raises(RateLimitError):
        await make_orders(pacing=Pacing(max_wait=5)).create(VIDEO, order_id="o")

    moments = [post.at for post in service.posts]
    assert len(moments) == 6
    assert all(later - earlier >= 1 for earlier, later in pairwise(moments))
    assert len({post.key for post in service.posts}) == 1


async def test_other_orders_are_sent_while_one_is_refused(make_orders, service, clock):
    service.answers(*[lambda: refused(429, Retry_After="0")] * 3, accepted)
    orders = make_orders(pacing=Pacing(max_wait=10, limit=100))

    assert (await orders.create(VIDEO, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 4
    assert (await orders.create(VIDEO, order_id="p")).task_id == "task-1"


BODIES = {
    "a page": b"<html><h1>429 Too Many Requests</h1></html>",
    "nothing": b"",
    "a JSON string": b'"slow down"',
    "a JSON array": b"[]",
    "a cut object": b'{"error": {"code": "LIM',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_refusal_that_is_not_the_services_own_is_rejected_and_never_sent_again_by_pacing(
    make_orders, service, body
):
    headers = make_headers({"Retry-After": "1"})
    service.answers(lambda: BufferedResponse(429, body, headers=headers))

    with pytest.raises(RejectedError):
        await make_orders(pacing=Pacing(max_wait=1000)).create(VIDEO, order_id="o")

    assert len(service.posts) == 1


async def test_a_proxy_that_wants_a_password_has_rejected_the_create(make_orders, service):
    service.answers(lambda: refused(407), accepted)
    orders = make_orders()

    with pytest.raises(RejectedError):
        await orders.create(VIDEO, order_id="o")
    assert (await orders.create(VIDEO, order_id="o")).task_id == "task-1"
    assert len({post.key for post in service.posts}) == 1

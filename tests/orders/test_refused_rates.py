"""A create that is answered with 429 is sent again only where ``Pacing.max_wait`` allows it, and never in a hurry. No
other create of the account starts before its Retry-After."""

import asyncio
from itertools import pairwise

import pytest

from tests.orders.conftest import accepted, refused
from vidgen_async.errors import RateLimitError, RejectedError
from vidgen_async.transports import BufferedResponse, FakeTransport
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
async def test_with_max_wait_attempts_are_a_second_apart_and_each_counts_towards_it(make_orders, service, clock, value):
    service.answers(lambda: refused(429, Retry_After=value))

    with pytest.raises(RateLimitError):
        await make_orders(pacing=Pacing(max_wait=5)).create(VIDEO, order_id="o")

    moments = [post.at for post in service.posts]
    assert len(moments) == 6
    assert all(later - earlier >= 1 for earlier, later in pairwise(moments))
    assert len({post.key for post in service.posts}) == 1


PAUSES = {
    None: 10,
    "7": 7,
    "0": 0,
    "-5": 0,
    "86400000": 3600,
    "inf": 10,
    "soon": 10,
    "Tue, 01 Jan 2030 00:00:30 GMT": 30,
    "Wed, 21 Oct 2015 07:28:00 GMT": 0,
    "Sat, 01 Jan 2050 00:00:00 GMT": 3600,
}


@pytest.mark.parametrize(("value", "seconds"), PAUSES.items())
async def test_no_client_of_the_account_sends_a_create_before_the_retry_after_of_a_429(
    make_orders, service, value, seconds
):
    service.answers(lambda: refused(429, **({} if value is None else {"Retry_After": value})), accepted)
    with pytest.raises(RateLimitError):
        await make_orders().create(VIDEO, order_id="o")

    await asyncio.gather(*(make_orders().create(VIDEO, order_id=order_id) for order_id in "opq"))

    assert [post.at for post in service.posts[1:]] == [pytest.approx(seconds + 0.1)] * 3


async def test_a_create_that_is_connecting_when_another_is_refused_is_held_back(make_orders, service, clock):
    async def connect(_):
        await clock.sleep(2)

    service.answers(lambda: refused(429, Retry_After="20"), accepted)
    connecting = make_orders(transport=FakeTransport(service.transport._handler, on_connect=connect))
    waiting = asyncio.ensure_future(connecting.create(VIDEO, order_id="o"))
    await clock.sleep(1)
    with pytest.raises(RateLimitError):
        await make_orders().create(VIDEO, order_id="p")

    await waiting
    assert [post.at for post in service.posts] == [1, pytest.approx(1 + 20 + 0.1 + 2)]


async def test_the_log_says_why_a_create_waits(make_orders, service, caplog):
    caplog.set_level("INFO")
    service.answers(lambda: refused(429), accepted)
    with pytest.raises(RateLimitError):
        await make_orders().create(VIDEO, order_id="o")
    await make_orders(pacing=Pacing(limit=2)).create(VIDEO, order_id="o")
    await make_orders(pacing=Pacing(limit=2)).create(VIDEO, order_id="p")

    waits = [record.getMessage() for record in caplog.records if getattr(record, "event_name", "") == "order.paced"]
    assert waits == [
        "order 'o' waits 10.1 s: the service answered a create of the account with 429",
        "order 'p' waits 50.0 s: the submission limit is reached",
    ]


async def test_the_log_has_no_wait_that_it_would_round_to_zero(make_orders, service, clock, caplog):
    caplog.set_level("INFO")
    service.answers(lambda: refused(429), accepted)
    with pytest.raises(RateLimitError):
        await make_orders().create(VIDEO, order_id="o")
    await clock.sleep(10.06)
    await make_orders().create(VIDEO, order_id="o")

    assert [post.at for post in service.posts] == [0, pytest.approx(10.1)]
    assert [record for record in caplog.records if getattr(record, "event_name", "") == "order.paced"] == []


@pytest.mark.parametrize(("value", "rest"), [("20", ["19.1"]), (None, ["9.1"]), ("0", [])])
async def test_the_log_has_the_pause_of_a_create_that_max_wait_retries(
    make_orders, service, clock, caplog, value, rest
):
    caplog.set_level("INFO")
    service.answers(lambda: refused(429, **({} if value is None else {"Retry_After": value})), accepted)

    await make_orders(pacing=Pacing(max_wait=60)).create(VIDEO, order_id="o")

    waits = [record.getMessage() for record in caplog.records if getattr(record, "event_name", "") == "order.paced"]
    reason = "the service answered a create of the account with 429"
    assert waits == [f"order 'o' waits {seconds} s: {reason}" for seconds in rest]


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


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_refusal_that_is_not_the_services_own_does_not_pause_the_account(make_orders, service, clock, body):
    service.answers(lambda: BufferedResponse(429, body), accepted)
    with pytest.raises(RejectedError):
        await make_orders().create(VIDEO, order_id="o")

    await make_orders().create(VIDEO, order_id="p")

    assert clock.now() == 0

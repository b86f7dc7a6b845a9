"""An order on record can be gone on with by whoever knows its id, without the request."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.orders.conftest import accepted, refused
from vidgen_async.attempts import Order, OrderRef, OrderState
from vidgen_async.errors import (
    InvalidRequestError,
    OrderConflictError,
    OrderStateError,
    RejectedError,
    UncertainCreateError,
)
from vidgen_async.resources import VideoRequest

REQUEST = VideoRequest(model="vendorh3", prompt="a paper boat", duration=8)
QUEUED = Order(
    ref=OrderRef(service="https://h", account="default", order_id="o"),
    idempotency_key="vg1-stored",
    body=b'{"stored": true}',
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
)


async def test_an_accepted_order_gives_its_receipt_and_sends_nothing(orders, make_orders, service):
    receipt = await orders.create(REQUEST, order_id="o")

    assert await make_orders().resume("o") == receipt
    assert len(service.posts) == 1


async def test_a_queued_order_is_sent_with_the_stored_bytes_under_the_stored_key(orders, journal, service):
    await journal.intend(QUEUED)
    heard = []

    receipt = await orders.resume("o", on_receipt=heard.append)

    assert heard == [receipt]
    assert [(post.key, post.body) for post in service.posts] == [("vg1-stored", b'{"stored": true}')]


async def test_a_rejected_order_goes_again_with_the_same_bytes(orders, service):
    service.answers(lambda: refused(402), accepted)
    with pytest.raises(RejectedError):
        await orders.create(REQUEST, order_id="o")

    await orders.resume("o")

    first, second = service.posts
    assert (first.key, first.body) == (second.key, second.body)


async def test_an_uncertain_order_stays_unsent(orders, service):
    service.answers(lambda: refused(503), accepted)
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")

    with pytest.raises(UncertainCreateError):
        await orders.resume("o")
    assert len(service.posts) == 1


async def test_a_send_under_way_is_joined(orders, service):
    first, second = await asyncio.gather(orders.create(REQUEST, order_id="o"), _later(orders))

    assert first == second
    assert len(service.posts) == 1


async def _later(orders):
    while await orders.get("o") is None:  # noqa: ASYNC110 - nothing says when an order is on record
        await asyncio.sleep(0)
    return await orders.resume("o")


async def test_a_withdrawn_order_is_not_sent(orders, journal, service):
    await journal.intend(QUEUED)
    await orders.withdraw("o")

    with pytest.raises(OrderStateError, match="cannot be resumed: it is withdrawn"):
        await orders.resume("o")
    assert service.posts == []


async def test_an_order_that_is_not_on_record_is_said_to_be_unknown(orders, service):
    with pytest.raises(OrderStateError, match="there is no order 'o'"):
        await orders.resume("o")
    assert service.posts == []


async def test_an_unknown_state_is_named_with_those_there_are(orders):
    with pytest.raises(InvalidRequestError, match="no such state: 'lost'; there are: queued, sending, uncertain"):
        await orders.list(["lost", OrderState.QUEUED])


class TestCheck:
    """A check comes before anything is on record, and never again for what the service may have taken."""

    async def test_an_order_that_does_not_pass_is_neither_sent_nor_on_record(self, orders, service):
        async def fails():
            raise InvalidRequestError(problems=["duration: 7"])

        with pytest.raises(InvalidRequestError):
            await orders.create(REQUEST, order_id="o", check=fails)
        assert service.posts == []
        assert await orders.get("o") is None

    async def test_a_taken_order_gives_its_receipt_although_it_would_not_pass_today(self, orders, service):
        receipt = await orders.create(REQUEST, order_id="o")

        async def fails():
            raise AssertionError("it was checked")

        assert await orders.create(REQUEST, order_id="o", check=fails) == receipt

    async def test_a_rejected_order_is_checked_again_before_it_goes_again(self, orders, service):
        service.answers(lambda: refused(402))
        with pytest.raises(RejectedError):
            await orders.create(REQUEST, order_id="o")

        async def fails():
            raise InvalidRequestError(problems=["model: in maintenance"])

        with pytest.raises(InvalidRequestError):
            await orders.create(REQUEST, order_id="o", check=fails)
        assert len(service.posts) == 1

    async def test_another_request_conflicts_before_it_is_checked(self, orders):
        await orders.create(REQUEST, order_id="o")

        async def fails():
            raise AssertionError("it was checked")

        with pytest.raises(OrderConflictError):
            await orders.create(VideoRequest(model="m", prompt="p"), order_id="o", check=fails)

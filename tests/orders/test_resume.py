"""An order on record can be gone on with by whoever knows its id, without the request."""

import asyncio
from datetime import UTC, datetime

import pytest
from attrs import evolve

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import (
    InvalidRequestError,
    OrderConflictError,
    OrderStateError,
    RejectedError,
    UncertainCreateError,
)
from vidgen_async.service.endpoints import create_body
from vidgen_async.types.orders import Order, OrderRef, OrderState
from vidgen_async.types.resources import VideoRequest

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
    while await orders.find("o") is None:  # noqa: ASYNC110 - nothing reports when an order is stored
        await asyncio.sleep(0)
    return await orders.resume("o")


async def test_a_withdrawn_order_is_not_sent(orders, journal, service):
    await journal.intend(QUEUED)
    await orders.withdraw("o")

    with pytest.raises(OrderStateError, match="cannot be resumed: it is withdrawn"):
        await orders.resume("o")
    assert service.posts == []


@pytest.mark.parametrize("look_up", ["resume", "get"])
async def test_an_order_that_is_not_in_the_journal_raises_an_error_that_names_where_it_was_looked_up(orders, look_up):
    named = r"no order 'o' of account 'default' at https://.* in the journal"
    with pytest.raises(OrderStateError, match=named) as caught:
        await getattr(orders, look_up)("o")
    assert (caught.value.order_id, caught.value.state) == ("o", None)
    assert await orders.find("o") is None


async def test_an_unknown_state_is_named_with_those_there_are(orders):
    with pytest.raises(InvalidRequestError, match="no such state: 'lost'; there are: queued, sending, uncertain"):
        await orders.list(["lost", OrderState.QUEUED])


class TestCheck:
    """A check comes before anything is on record, and never again for what the service may have taken."""

    @pytest.fixture
    def checked(self):
        return Checked()

    @pytest.fixture
    def orders(self, make_orders, checked):
        return make_orders(check=checked)

    async def test_a_taken_order_gives_its_receipt_although_it_would_not_pass_today(self, orders, checked):
        receipt = await orders.create(REQUEST, order_id="o")
        checked.problem = "model: in maintenance"
        assert await orders.create(REQUEST, order_id="o") == receipt

    async def test_a_rejected_order_is_checked_again_before_it_goes_again(self, orders, checked, service):
        service.answers(lambda: refused(402))
        with pytest.raises(RejectedError):
            await orders.create(REQUEST, order_id="o")
        checked.problem = "model: in maintenance"

        for again in (lambda: orders.create(REQUEST, order_id="o"), lambda: orders.resume("o")):
            with pytest.raises(InvalidRequestError):
                await again()
        assert len(service.posts) == 1

    async def test_a_resumed_order_is_checked_as_it_was_asked_for(self, orders, checked, journal, service):
        await journal.intend(evolve(QUEUED, body=create_body(FULL)))
        await orders.resume("o")
        assert checked.requests == [FULL]
        assert len(service.posts) == 1

    async def test_a_resumed_order_need_not_be_checked(self, orders, checked, journal, service):
        checked.problem = "model: in maintenance"
        await journal.intend(QUEUED)
        await orders.resume("o", validate=False)
        assert len(service.posts) == 1

    async def test_another_request_conflicts_before_it_is_checked(self, orders, checked):
        await orders.create(REQUEST, order_id="o")
        checked.problem = "never asked"
        with pytest.raises(OrderConflictError):
            await orders.create(VideoRequest(model="m", prompt="p"), order_id="o")

    async def test_a_mended_request_gets_the_order_id_that_the_refused_one_leaves_free(self, orders, checked, service):
        checked.problems_of[REQUEST] = "duration: 8"
        mended = evolve(REQUEST, duration=5)

        refused_one, receipt = await asyncio.gather(
            orders.create(REQUEST, order_id="o"), orders.create(mended, order_id="o"), return_exceptions=True
        )

        assert isinstance(refused_one, InvalidRequestError)
        assert receipt.task_id == "task-1"
        assert [post.body for post in service.posts] == [create_body(mended)]

    async def test_another_request_need_not_wait_for_what_becomes_of_the_first_one(self, orders, service, clock):
        service.answers(accepted, after=60)
        first = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
        await clock.sleep(1)
        with pytest.raises(OrderConflictError):
            await orders.create(evolve(REQUEST, duration=5), order_id="o")
        assert clock.now() == 1
        await first

    async def test_who_wants_no_check_is_not_refused_by_the_check_of_another(self, orders, checked, service):
        checked.problem = "duration: 8"
        refused_one, receipt = await asyncio.gather(
            orders.create(REQUEST, order_id="o"),
            orders.create(REQUEST, order_id="o", validate=False),
            return_exceptions=True,
        )
        assert isinstance(refused_one, InvalidRequestError)
        assert receipt.task_id == "task-1"
        assert len(service.posts) == 1


FULL = VideoRequest(model="m", prompt="p", duration=5, image_urls=["https://pics.net/a.png"], extra={"seed": 7})


class Checked:
    """A check that finds what it is told to find, one pass of the loop later."""

    def __init__(self) -> None:
        self.problem = ""
        self.problems_of: dict[VideoRequest, str] = {}
        self.requests: list[VideoRequest] = []

    async def __call__(self, request: VideoRequest) -> None:
        self.requests.append(request)
        await asyncio.sleep(0)
        problem = self.problem or self.problems_of.get(request)
        if problem:
            raise InvalidRequestError(problems=[problem])

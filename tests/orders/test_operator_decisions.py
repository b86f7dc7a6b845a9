"""What a person can do about an order: always on record, never twice by accident."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import (
    AuthenticationError,
    ConnectError,
    InsufficientCreditsError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    OrderConflictError,
    OrderStateError,
    RateLimitError,
    UncertainCreateError,
)
from vidgen_async.transports import FakeTransport
from vidgen_async.types.http import Delivery
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import AttemptOutcome, Evidence, OrderState
from vidgen_async.types.resources import VideoTask


@pytest.fixture
async def uncertain(orders, service):
    service.answers(lambda: refused(503), accepted)
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")
    return orders


async def test_a_resend_sends_the_stored_bytes_under_the_stored_key_and_is_on_record(uncertain, service):
    receipt = await uncertain.resend("o", expect_attempt=1, reason="the account shows no charge", by="ann")

    assert receipt.task_id == "task-1"
    assert len(service.posts) == 2
    assert service.posts[0].body == service.posts[1].body
    assert service.posts[0].key == service.posts[1].key
    attempt = (await uncertain.get("o")).attempts[1]
    assert (attempt.kind, attempt.by, attempt.reason) == ("resend", "ann", "the account shows no charge")


@pytest.mark.parametrize("call", ["create", "resume"])
async def test_a_create_that_joins_a_resend_which_comes_too_late_still_gets_the_outcome_of_the_order(
    uncertain, make_orders, service, call
):
    service.answers(lambda: refused(503))

    async def join():
        for _ in range(3):
            await asyncio.sleep(0)
        return await (uncertain.create(REQUEST, order_id="o") if call == "create" else uncertain.resume("o"))

    results = await asyncio.gather(
        make_orders().resend("o", expect_attempt=1, reason="again"),
        uncertain.resend("o", expect_attempt=1, reason="again"),
        join(),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [UncertainCreateError, OrderStateError, UncertainCreateError]
    assert len(service.posts) == 2


async def test_a_resend_on_the_wrong_attempt_or_without_a_reason_sends_nothing(uncertain, service):
    with pytest.raises(OrderStateError, match="its last attempt is 1, not 2"):
        await uncertain.resend("o", expect_attempt=2, reason="again")
    with pytest.raises(InvalidRequestError, match="reason"):
        await uncertain.resend("o", expect_attempt=1, reason="  ")
    assert len(service.posts) == 1


async def test_the_check_of_a_resend_raises_what_it_would_raise_and_sends_nothing(uncertain, service):
    with pytest.raises(OrderStateError, match="its last attempt is 1, not 2"):
        await uncertain.check_resend("o", expect_attempt=2, reason="again")
    order = await uncertain.check_resend("o", expect_attempt=1, reason="again")
    assert (order.order_id, len(order.attempts), len(service.posts)) == ("o", 1, 1)


async def test_a_resend_of_an_order_older_than_the_lifetime_of_its_key_needs_an_explicit_yes(
    uncertain, make_orders, service, clock
):
    await clock.sleep(3601)
    with pytest.raises(OrderStateError, match=r"was first sent 1\.0 h ago.*accept_duplicate_risk=True") as caught:
        await uncertain.resend("o", expect_attempt=1, reason="again")
    assert caught.value.state is OrderState.UNCERTAIN
    with pytest.raises(OrderStateError, match="was not resent"):
        await make_orders(key_lifetime=3500).resend("o", expect_attempt=1, reason="again")
    assert len(service.posts) == 1

    receipt = await uncertain.resend("o", expect_attempt=1, reason="again", accept_duplicate_risk=True)

    assert receipt.task_id == "task-1"
    assert len(service.posts) == 2


async def test_where_the_clock_was_set_back_nobody_knows_how_old_a_key_is(uncertain, service, clock, monkeypatch):
    before = (await uncertain.get("o")).attempts[0].sent_at - timedelta(days=1)
    monkeypatch.setattr(clock, "wall", lambda: before)
    with pytest.raises(OrderStateError, match="was first sent at a time that has not come yet"):
        await uncertain.resend("o", expect_attempt=1, reason="again")
    assert len(service.posts) == 1


async def test_the_lifetime_of_a_key_counts_from_its_first_send(uncertain, make_orders, service, clock):
    service.answers(lambda: refused(503))
    await clock.sleep(3000)
    with pytest.raises(UncertainCreateError):
        await uncertain.resend("o", expect_attempt=1, reason="again")
    await clock.sleep(3000)
    with pytest.raises(OrderStateError, match="was first sent"):
        await uncertain.resend("o", expect_attempt=2, reason="again")
    with pytest.raises(UncertainCreateError):
        await make_orders(key_lifetime=7200).resend("o", expect_attempt=2, reason="again")
    assert len(service.posts) == 3


async def test_who_decided_what_when_and_why_is_on_record(uncertain, service, clock):
    service.answers(lambda: refused(503))
    with pytest.raises(UncertainCreateError):
        await uncertain.resend("o", expect_attempt=1, reason="no task yet", by="ann")
    await clock.sleep(60)
    await uncertain.abandon("o", "nothing in the account", by="ben")
    await clock.sleep(60)
    service.tasks.add("found")
    await uncertain.adopt("o", "found", reason="same minute", by="cat")

    order = await uncertain.get("o")
    assert [(decision.what, decision.by, decision.reason) for decision in order.decisions] == [
        ("resend", "ann", "no task yet"),
        ("abandoned", "ben", "nothing in the account"),
        ("adopt", "cat", "same minute"),
    ]
    moments = [decision.at for decision in order.decisions]
    assert moments == sorted(moments)
    assert [attempt.n for attempt in order.unclear] == [1, 2]


async def test_of_two_operators_who_adopt_different_tasks_one_gets_the_receipt(uncertain, make_orders, clock):
    async def slowly(task_id):
        await clock.sleep(1)
        return VideoTask(id=task_id)

    adoptions = [make_orders(get_task=slowly).adopt("o", task_id) for task_id in ("found", "mistaken")]
    outcomes = await asyncio.gather(*adoptions, return_exceptions=True)
    assert outcomes[0].task_id == "found"
    assert isinstance(outcomes[1], OrderStateError)
    assert (await uncertain.get("o")).task_ids == ("found",)


async def test_an_adoption_of_the_task_that_a_late_receipt_names_gives_that_receipt(
    uncertain, service, journal, clock, monkeypatch
):
    async def late(task_id):
        order = await uncertain.get("o")
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=clock.wall(), task_id=task_id)
        await journal.settle(order.ref, 1, evidence)
        return VideoTask(id=task_id)

    monkeypatch.setattr(uncertain, "_get_task", late)
    assert (await uncertain.adopt("o", "found")).task_id == "found"
    assert len((await uncertain.get("o")).attempts) == 1


async def test_adopting_the_task_that_an_order_has_already_gives_its_receipt(orders, service):
    receipt = await orders.create(REQUEST, order_id="o")
    assert await orders.adopt("o", receipt.task_id) == receipt
    assert len((await orders.get("o")).attempts) == 1


@pytest.mark.parametrize(
    ("status", "cause", "advice"),
    [(401, AuthenticationError, "VIDGEN_API_KEY"), (402, InsufficientCreditsError, ""), (429, RateLimitError, "")],
)
async def test_a_resend_that_is_refused_leaves_the_order_uncertain_and_its_error_has_the_refusal(
    uncertain, service, status, cause, advice
):
    service.answers(lambda: refused(status, X_Request_Id="req-7"))
    with pytest.raises(UncertainCreateError) as caught:
        await uncertain.resend("o", expect_attempt=1, reason="again")
    assert (await uncertain.get("o")).state is OrderState.UNCERTAIN
    assert len(service.posts) == 2
    assert "attempt 1 began" in caught.value.summary
    assert re.search(
        f"attempt 2, a resend, began at .* status {status} was received .*, request req-7", caught.value.summary
    )
    assert "was not sent" not in str(caught.value)
    assert isinstance(caught.value.__cause__, cause)
    assert advice in caught.value.advice
    with pytest.raises(UncertainCreateError, match="attempt 2, a resend, began"):
        await uncertain.create(REQUEST, order_id="o")


@pytest.mark.parametrize("outcome", [AttemptOutcome.REJECTED, AttemptOutcome.NOT_SENT])
async def test_a_resend_of_an_order_that_became_certain_meanwhile_sends_nothing_and_names_its_state(
    uncertain, make_orders, service, journal, clock, outcome
):
    async def late(_):
        order = await uncertain.get("o")
        await journal.settle(order.ref, 1, Evidence(outcome=outcome, at=clock.wall(), status=402))

    orders = make_orders(transport=FakeTransport(service.transport._handler, on_connect=late))
    with pytest.raises(OrderStateError, match=r"cannot be resent: it is (rejected|queued)"):
        await orders.resend("o", expect_attempt=1, reason="again")
    assert len(service.posts) == 1


async def test_a_close_before_a_resend_is_sent_does_not_report_a_send(make_orders, service, clock):
    service.answers(lambda: refused(503))
    orders = make_orders(pacing=Pacing(limit=1))
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")
    resending = asyncio.ensure_future(orders.resend("o", expect_attempt=1, reason="again"))
    await clock.sleep(1)
    await orders.aclose(grace=0.1)
    with pytest.raises(UncertainCreateError) as caught:
        await resending
    assert len(service.posts) == 1
    assert "answer" not in caught.value.summary
    assert "a resend, began" not in caught.value.summary


async def test_a_resend_under_way_does_not_hide_a_late_receipt_of_the_first_attempt(uncertain, service, journal, clock):
    async def late(_):
        order = await uncertain.get("o")
        await journal.settle(
            order.ref, 1, Evidence(outcome=AttemptOutcome.ACCEPTED, at=clock.wall(), task_id="the first")
        )
        return refused(429)

    service.script[:] = [late]
    assert (await uncertain.resend("o", expect_attempt=1, reason="again")).task_id == "the first"


@pytest.mark.parametrize(
    "act",
    [
        lambda orders: orders.resend("o", expect_attempt=1, reason="again"),
        lambda orders: orders.adopt("o", "t"),
        lambda orders: orders.abandon("o", "enough"),
        lambda orders: orders.withdraw("o"),
    ],
    ids=["resend", "adopt", "abandon", "withdraw"],
)
async def test_nothing_can_be_done_to_an_accepted_or_an_unknown_order(orders, service, act):
    with pytest.raises(OrderStateError, match="no order 'o'"):
        await act(orders)
    await orders.create(REQUEST, order_id="o")
    with pytest.raises(OrderStateError, match="it is accepted"):
        await act(orders)
    assert len(service.posts) == 1


async def test_adopting_a_task_that_exists_gives_the_receipt(uncertain, service):
    service.tasks.add("found")
    receipt = await uncertain.adopt("o", "found", reason="seen in the account", by="ann")
    assert receipt.task_id == "found"
    assert await uncertain.create(REQUEST, order_id="o") == receipt
    assert len(service.posts) == 1


async def test_a_receipt_that_comes_after_an_adoption_is_kept_beside_it_and_reported(
    make_orders, service, clock, caplog
):
    service.answers(lambda: accepted("the real one"), after=60)
    service.tasks.add("mistaken")
    sender, person = make_orders(), make_orders()
    sending = asyncio.ensure_future(sender.create(REQUEST, order_id="o"))
    await clock.sleep(1)

    adopted = await person.adopt("o", "mistaken", reason="same minute", by="ann")
    receipt = await sending

    assert adopted.task_id == receipt.task_id == "mistaken"  # a receipt never changes
    order = await person.get("o")
    assert set(order.task_ids) == {"mistaken", "the real one"}
    assert "has several tasks" in caplog.text
    assert [(attempt.kind, attempt.by, attempt.reason) for attempt in order.attempts][1:] == [
        ("adopt", "ann", "same minute")
    ]
    assert len(service.posts) == 1


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (VideoTask(id="t", model="another"), "it uses model 'another', but the order asked for 'vendorh3'"),
        (
            VideoTask(id="t", created_at=datetime(2029, 12, 31, 22, tzinfo=UTC)),
            "2029-12-31 22:00:00 UTC, before the order",
        ),
    ],
)
async def test_a_task_that_cannot_have_come_of_the_order_is_not_adopted(uncertain, service, task, why):
    service.found["t"] = task
    with pytest.raises(OrderStateError, match=why):
        await uncertain.adopt("o", "t")
    assert (await uncertain.get("o")).state is OrderState.UNCERTAIN


async def test_an_adoption_takes_no_slot_of_the_submission_limit(make_orders, service, clock):
    service.answers(lambda: refused(503), lambda: accepted("second"))
    orders = make_orders(pacing=Pacing(limit=2))
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")
    service.tasks.add("found")
    await orders.adopt("o", "found")
    began_at = clock.now()
    await orders.create(REQUEST, order_id="p")
    assert clock.now() == began_at


async def test_a_task_of_another_order_is_not_adopted(uncertain, service):
    service.answers(lambda: accepted("taken"))
    await uncertain.create(REQUEST, order_id="another")
    service.tasks.add("taken")
    with pytest.raises(OrderStateError, match="belongs to order 'another'"):
        await uncertain.adopt("o", "taken")
    assert (await uncertain.get("o")).state is OrderState.UNCERTAIN


async def test_a_task_that_the_service_does_not_know_is_not_adopted(uncertain):
    with pytest.raises(NotFoundError):
        await uncertain.adopt("o", "made up")
    with pytest.raises(InvalidRequestError):
        await uncertain.adopt("o", " ")
    assert (await uncertain.get("o")).state is OrderState.UNCERTAIN


async def test_an_abandoned_order_is_not_sent_again_and_may_still_be_adopted(uncertain, service):
    order = await uncertain.abandon("o", "not worth it", by="ann")
    assert (order.state, order.closing.reason, order.closing.by) == (OrderState.ABANDONED, "not worth it", "ann")
    with pytest.raises(UncertainCreateError, match="abandoned"):
        await uncertain.create(REQUEST, order_id="o")
    assert len(service.posts) == 1

    service.tasks.add("found")
    assert (await uncertain.adopt("o", "found")).task_id == "found"


async def test_an_order_that_is_being_sent_says_until_when_nobody_can_decide_about_it(orders, service, clock):
    service.answers(accepted, after=60)
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    await clock.sleep(10)
    with pytest.raises(OrderStateError, match="treated as still being sent until 2030-01-01 00:02:10 UTC"):
        await orders.abandon("o", "given up")
    await caller


async def test_a_queued_order_can_be_withdrawn_also_while_it_waits_for_its_slot(make_orders, service):
    orders = make_orders(pacing=Pacing(limit=1))
    await orders.create(REQUEST, order_id="first")
    waiting = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    for _ in range(20):
        await asyncio.sleep(0)

    order = await orders.withdraw("o", "changed our mind")

    assert order.state is OrderState.WITHDRAWN
    with pytest.raises(OrderConflictError, match="withdrawn"):
        await waiting
    with pytest.raises(OrderConflictError, match="withdrawn"):
        await orders.create(REQUEST, order_id="o")
    assert len(service.posts) == 1


async def test_orders_are_listed_by_state(uncertain, service):
    service.answers(accepted)
    await uncertain.create(REQUEST, order_id="p")
    assert [order.order_id for order in await uncertain.list()] == ["o", "p"]
    assert [order.order_id for order in await uncertain.list({OrderState.UNCERTAIN})] == ["o"]
    assert [order.order_id for order in await uncertain.list(["accepted"])] == ["p"]
    assert [order.order_id for order in await uncertain.list("accepted")] == ["p"]


async def test_orders_are_listed_in_pages(make_orders, clock):
    orders = make_orders()
    for order_id in ("a", "b", "c"):
        await orders.create(REQUEST, order_id=order_id)
        await clock.sleep(10)

    async def listed(**which) -> list[str]:
        return [order.order_id for order in await orders.list(**which)]

    assert await listed(limit=2) == ["a", "b"]
    assert await listed(limit=2, after="b") == ["c"]
    assert await listed(limit=2, newest_first=True) == ["c", "b"]
    assert await listed(since=clock.wall() - timedelta(seconds=20)) == ["b", "c"]
    with pytest.raises(JournalError, match="no order 'd'"):
        await listed(after="d")
    with pytest.raises(InvalidRequestError) as caught:
        await listed(limit=-1, since=datetime(2030, 1, 1))  # noqa: DTZ001 - without a time zone
    assert caught.value.problems == ("since: needs a time zone: 2030-01-01 00:00:00", "limit: must be 0 or more: -1")


async def test_a_resend_that_finds_no_connection_does_not_call_the_order_not_sent(uncertain, make_orders, service):
    async def down(_):
        raise ConnectError("refused", delivery=Delivery.NOT_SENT)

    offline = make_orders(transport=FakeTransport(service.transport._handler, on_connect=down))
    with pytest.raises(UncertainCreateError, match="earlier attempt"):
        await offline.resend("o", expect_attempt=1, reason="again")
    assert len(service.posts) == 1


async def test_a_client_closed_while_another_client_sends_its_order_does_not_call_it_not_sent(
    make_orders, service, clock
):
    service.answers(accepted, after=60)
    sender, joined = make_orders(), make_orders()
    sending = asyncio.ensure_future(sender.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    waiting = asyncio.ensure_future(joined.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    await joined.aclose(grace=0.1)
    with pytest.raises(UncertainCreateError):
        await waiting
    assert (await sending).task_id == "task-1"

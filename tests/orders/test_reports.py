"""What is said of an uncertain create: all that is known, and what can be done; never "try again"."""

import asyncio

import pytest

from tests.orders.conftest import refused
from vidgen_async.errors import UncertainCreateError
from vidgen_async.types.orders import AttemptOutcome
from vidgen_async.types.resources import VideoRequest

REQUEST = VideoRequest(model="vendorh3", prompt="a secret boat", duration=8)


async def told(orders, *, resend: bool = False) -> UncertainCreateError:
    send = (
        orders.resend("o", expect_attempt=1, reason="no task yet") if resend else orders.create(REQUEST, order_id="o")
    )
    with pytest.raises(UncertainCreateError) as caught:
        await send
    text = str(caught.value).lower()
    assert "try again" not in text
    assert "retry" not in text
    assert "secret boat" not in text
    for verb in ("adopt", "abandon", "resend"):
        assert f"orders.{verb}(" in caught.value.advice
    return caught.value


async def test_an_answer_that_settles_nothing_is_told_with_when_it_was_sent_and_how_long_it_took(
    orders, service, clock
):
    service.answers(lambda: refused(503), after=7)
    error = await told(orders)
    assert "attempt 1 began at 2030-01-01 00:00:00 UTC; after 7.0 s status 503 was received" in error.summary
    (attempt,) = error.attempts
    assert (attempt.evidence.status, (attempt.evidence.at - attempt.sent_at).total_seconds()) == (503, 7.0)


async def test_silence_is_told_with_how_long_it_was_waited(orders, service):
    service.hangs()
    error = await told(orders)
    assert (
        "after 120.0 s no complete answer was received (no complete answer came within 120 s (Timeouts.create))"
        in error.summary
    )


async def leave_unanswered(make_orders, service, clock) -> None:
    """Let the sender of order "o" end in the middle of a create."""

    service.hangs()
    owner = asyncio.ensure_future(make_orders().create(REQUEST, order_id="o"))
    await clock.sleep(1)
    gone = next(worker for worker in asyncio.all_tasks() if worker.get_name() == "order o")
    gone.cancel()
    await asyncio.gather(owner, return_exceptions=True)


async def test_an_order_whose_sender_is_gone_is_told_as_such_however_late_it_is_looked_at(
    make_orders, service, journal, clock
):
    await leave_unanswered(make_orders, service, clock)
    await clock.sleep(86400)

    error = await told(make_orders())

    assert "the process that began it may have exited" in error.summary
    assert "86" not in error.summary
    assert [attempt.outcome for attempt in error.attempts] == [AttemptOutcome.UNCERTAIN]
    assert len(service.posts) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda orders: orders.get("o"),
        lambda orders: orders.list(),
        lambda orders: orders.list("uncertain"),
        lambda orders: orders.create(REQUEST, order_id="o"),
        lambda orders: orders.resend("o", expect_attempt=1, reason="no task yet"),
        lambda orders: orders.abandon("o", reason="no task"),
    ],
    ids=["get", "list", "list uncertain", "create", "resend", "abandon"],
)
async def test_the_first_client_that_finds_an_order_uncertain_logs_it_since_its_sender_is_gone(
    make_orders, service, clock, caplog, read
):
    await leave_unanswered(make_orders, service, clock)
    await clock.sleep(86400)
    service.script[:] = [lambda _: refused(503)]

    with caplog.at_level("INFO"):
        await asyncio.gather(read(make_orders()), return_exceptions=True)
        await clock.sleep(1)
        await make_orders().list()

    found = [record for record in caplog.records if record.event_name == "order.uncertain" and record.attempt == 1]
    assert [(record.order_id, record.status) for record in found] == [("o", None)]
    assert "the process that began it may have exited" in found[0].getMessage()


async def test_a_create_that_awaits_a_sender_that_is_gone_logs_that_the_order_has_become_uncertain(
    make_orders, service, clock, caplog
):
    await leave_unanswered(make_orders, service, clock)
    with caplog.at_level("INFO"):
        await told(make_orders())
    assert [record.event_name for record in caplog.records] == ["order.awaited", "order.uncertain"]

"""An order that another client is sending: what becomes of that is the outcome here too, and nothing is sent."""

import asyncio

import pytest

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import (
    AuthenticationError,
    BadRequestError,
    InsufficientCreditsError,
    RateLimitError,
    RejectedError,
    UnexpectedResponseError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import AttemptOutcome


def slowly(clock, *responses):
    """A script of answers that take a minute each; the last one is repeated."""

    async def answer(post):
        await clock.sleep(60)
        return responses[min(post.n, len(responses)) - 1]()

    return [answer]


async def both(make_orders, clock, **options):
    """The outcomes of one client that sends an order, and of another that asks for it meanwhile."""
    sender, joined = make_orders(**options), make_orders(**options)
    sending = asyncio.ensure_future(sender.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    return await asyncio.gather(sending, joined.create(REQUEST, order_id="o"), return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (402, InsufficientCreditsError),
        (403, UnexpectedResponseError),
        (429, RateLimitError),
    ],
)
async def test_a_refusal_is_the_outcome_for_both_and_nothing_is_bought_behind_anybodys_back(
    make_orders, service, clock, status, kind
):
    service.script[:] = slowly(clock, lambda: refused(status), accepted)

    outcomes = await both(make_orders, clock)

    assert [isinstance(outcome, RejectedError) and isinstance(outcome, kind) for outcome in outcomes] == [True, True]
    assert "rejected when another process sent it, and nothing was charged" in str(outcomes[1])
    assert outcomes[1].order_id == "o"
    assert len(service.posts) == 1


async def test_who_waits_for_somebody_elses_send_says_so_and_until_when(make_orders, service, clock, caplog):
    service.script[:] = slowly(clock, accepted)
    with caplog.at_level("INFO"):
        await both(make_orders, clock)
    (told,) = [record for record in caplog.records if record.event_name == "order.awaited"]
    assert (told.order_id, told.seconds, told.until) == ("o", 129.0, "2030-01-01 00:02:10 UTC")
    assert "for 129 s, until 2030-01-01 00:02:10 UTC" in told.getMessage()


async def test_an_order_retried_after_a_429_is_still_sent_only_once_at_a_time(make_orders, service, clock):
    service.script[:] = slowly(clock, lambda: refused(429, Retry_After="5"), accepted)

    sender, joined = await both(make_orders, clock, pacing=Pacing(max_wait=600))

    assert sender.task_id == "task-1"
    assert isinstance(joined, RateLimitError)
    assert joined.may_retry
    assert len(service.posts) == 2


async def test_a_send_elsewhere_that_was_stopped_before_the_first_byte_is_not_taken_for_a_refusal(
    make_orders, service, clock
):
    class SlowJournal(MemoryJournal):
        async def begin(self, permission):
            begun = await super().begin(permission)
            await clock.sleep(5)
            return begun

    journal = SlowJournal()
    first, stopped, waiting = (make_orders(on=journal) for _ in range(3))
    service.answers(lambda: refused(402), accepted)
    with pytest.raises(RejectedError):
        await first.create(REQUEST, order_id="o")
    sending = asyncio.ensure_future(stopped.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    joined = asyncio.ensure_future(waiting.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    await stopped.aclose(grace=0.1)

    assert (await joined).task_id == "task-1"
    await asyncio.gather(sending, return_exceptions=True)
    outcomes = [attempt.outcome for attempt in (await first.get("o")).attempts]
    assert outcomes == [AttemptOutcome.REJECTED, AttemptOutcome.NOT_SENT, AttemptOutcome.ACCEPTED]
    assert len(service.posts) == 2

"""What ends a batch early: refusals that concern all rows, a caller that leaves or is cancelled, and its journal."""

import asyncio
from collections import Counter

import pytest

from tests.batch.conftest import make_rows
from tests.transports.sending import until
from vidgen_async import AuthenticationError, Pacing
from vidgen_async.batch.run import ROWS_AHEAD
from vidgen_async.errors import InsufficientCreditsError
from vidgen_async.sandbox import Fault


@pytest.mark.parametrize(("status", "kind"), [(401, AuthenticationError), (402, InsufficientCreditsError)])
async def test_a_refusal_that_concerns_all_stops_the_creates_and_what_was_ordered_is_saved(batches, status, kind):
    batches.service.faults.add("videos.create", Fault.status(status), times=None, after=10)

    outcomes = await batches.run(make_rows(60))

    states = Counter(each.state for each in outcomes.values())
    assert (len(outcomes), states["saved"]) == (60, 10)
    assert 1 <= states["rejected"] <= ROWS_AHEAD
    assert len(batches.service.creates) == 10 + states["rejected"]
    assert all(isinstance(each.error, kind) for each in outcomes.values() if each.state == "rejected")
    failures = [each.failure for each in outcomes.values() if each.state == "not_sent"]
    assert all("no more creates after a refusal that concerns all: " in failure for failure in failures)

    batches.service.faults.clear()
    assert {each.state for each in (await batches.run(make_rows(60))).values()} == {"saved"}
    assert max(batches.posts().values()) <= 2


async def test_a_key_that_is_refused_for_the_catalog_is_raised_before_anything_is_sent(batches):
    batches.service.faults.add("models.list", Fault.status(401), times=None)
    with pytest.raises(AuthenticationError):
        await batches.run(make_rows(3))
    assert batches.service.creates == []


async def test_equal_failures_in_a_row_stop_the_creates(batches):
    batches.service.faults.add("videos.create", Fault.status(403), times=4)
    batches.service.faults.add("videos.create", Fault.status(400), times=None, after=1)

    outcomes = await batches.run(make_rows(100), stop_after_failures=5)

    states = Counter(each.state for each in outcomes.values())
    assert states["saved"] == 1
    assert 4 + 5 <= states["rejected"] <= 4 + 5 + ROWS_AHEAD
    assert states["not_sent"] == 100 - 1 - states["rejected"]
    assert "equal failures in a row: " in outcomes["order-99"].failure


async def test_after_a_stop_no_row_is_sent_that_waited_for_the_submission_limit(batches):
    batches.options["pacing"] = Pacing(limit=3, window=60)
    async with batches.client() as client, client.videos.batch(make_rows(40), to=batches.to) as batch:
        outcomes = {}
        async for outcome in batch:
            outcomes[outcome.order_id] = outcome
            if len(outcomes) == 3:
                batch.stop()
    assert Counter(each.state for each in outcomes.values()) == {"saved": 3, "not_sent": 37}
    assert {each.failure for each in outcomes.values() if each.state == "not_sent"} == {"the batch was stopped"}
    assert len(batches.service.creates) == 3


async def test_a_cancelled_caller_waits_for_the_create_that_is_being_sent_and_no_other_is_sent(batches, tmp_path):
    batches.options["pacing"] = Pacing(limit=1, window=60)
    batches.service.faults.add("videos.create", Fault.stall(0.3))
    report = tmp_path / "report.csv"
    async with batches.client() as client:

        async def run() -> None:
            async for _ in client.videos.batch(make_rows(5), to=batches.to, report=report):
                pass

        running = asyncio.ensure_future(run())
        await until(lambda: batches.service.creates and batches.service.creates[0].body_arrived)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        states = await client.orders.states(f"order-{n}" for n in range(5))
    assert Counter(str(each.state) for each in states.values())["accepted"] == 1
    assert len(batches.service.creates) == 1
    lines = report.read_text().splitlines()[1:]
    assert Counter(line.split(",")[2] for line in lines) == {"running": 1, "not_sent": 4}


async def test_a_second_cancellation_ends_it_at_once(batches):
    batches.service.faults.add("videos.create", Fault.stall(), times=None)
    async with batches.client() as client:

        async def run() -> None:
            async with client.videos.batch(make_rows(5), to=batches.to) as batch:
                async for _ in batch:
                    pass

        running = asyncio.ensure_future(run())
        await until(lambda: len(batches.service.creates) == 5)
        running.cancel()
        await asyncio.sleep(0.05)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await client.aclose(grace=0)
    assert max(batches.posts().values()) == 1


async def test_a_slow_create_holds_up_no_other_row(batches):
    batches.service.faults.add("videos.create", Fault.stall(1.5), times=ROWS_AHEAD)

    async with batches.client() as client, client.videos.batch(make_rows(ROWS_AHEAD + 5), to=batches.to) as batch:
        first = {(await anext(aiter(batch))).order_id for _ in range(5)}
        assert first == {f"order-{n}" for n in range(ROWS_AHEAD, ROWS_AHEAD + 5)}
        assert {each.state async for each in batch} == {"saved"}


async def test_a_row_that_another_process_is_sending_is_looked_at_again_at_the_end(batches):
    async with batches.client() as other:
        batches.service.faults.add("videos.create", Fault.stall(0.5))
        sending = asyncio.ensure_future(other.videos.create(**make_rows(1)[0]))
        await until(lambda: batches.service.creates and batches.service.creates[0].body_arrived)
        outcomes = await batches.run(make_rows(4))
        await sending
    assert {each.state for each in outcomes.values()} == {"saved"}
    assert list(outcomes)[-1] == "order-0"
    assert max(batches.posts().values()) == 1

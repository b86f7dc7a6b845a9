"""What ends a batch early: refusals that concern all rows, a caller that leaves or is cancelled, and its journal."""

import asyncio
from collections import Counter

import pytest

from tests.batch.conftest import make_rows
from tests.transports.sending import until
from tests.watcher.conftest import settle
from vidgen_async import AuthenticationError, Budget, Pacing
from vidgen_async.batch import Batch, BatchOutcome, run
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
    assert all(failure.startswith("stopped: order ") for failure in failures)

    batches.service.faults.clear()
    assert {each.state for each in (await batches.run(make_rows(60))).values()} == {"saved"}
    assert max(batches.posts().values()) <= 2


async def test_over_the_budget_what_was_ordered_is_saved_and_the_rest_is_listed(batches):
    batches.options["budget"] = Budget(points=100, price="points")
    outcomes = await batches.run(make_rows(40))
    assert Counter(each.state for each in outcomes.values()) == {"saved": 5, "not_sent": 35}
    assert len(batches.service.creates) == 5
    assert any("of the budget of 100 points" in each.failure for each in outcomes.values())

    batches.options["budget"] = Budget(points=200, price="points")
    outcomes = await batches.run(make_rows(40))
    assert Counter(each.state for each in outcomes.values()) == {"saved": 10, "not_sent": 30}
    assert len(batches.service.creates) == 10


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
    assert 4 + 5 <= states["rejected"] <= 4 + 5 + 2 * ROWS_AHEAD
    assert states["not_sent"] == 100 - 1 - states["rejected"]
    assert "equal failures in a row: " in outcomes["order-99"].failure


@pytest.mark.parametrize("refusals", [[403, 400] * 4, [403, 403, None] * 3])
async def test_failures_that_differ_or_are_not_in_a_row_stop_nothing(batches, refusals):
    batches.options["pacing"] = Pacing(limit=1, window=0.01)  # one after the other
    for n, status in enumerate(refusals):
        if status is not None:
            batches.service.faults.add("videos.create", Fault.status(status), after=refusals[:n].count(None))
    rows = make_rows(len(refusals))

    outcomes = await batches.run(rows, stop_after_failures=3)

    assert Counter(each.state for each in outcomes.values())["not_sent"] == 0
    assert len(batches.service.creates) == len(refusals)


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
            async with client.videos.batch(make_rows(ROWS_AHEAD), to=batches.to) as batch:
                async for _ in batch:
                    pass

        running = asyncio.ensure_future(run())
        await until(lambda: len(batches.service.creates) == ROWS_AHEAD)
        running.cancel()
        await settle(100)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await client.aclose(grace=0)
    assert max(batches.posts().values()) == 1


async def test_a_slow_create_holds_up_no_other_row(batches, monkeypatch):
    monkeypatch.setattr(run, "_SLOW_AFTER", 0.2)
    batches.service.faults.add("videos.create", Fault.stall(1.5), times=ROWS_AHEAD)

    async with batches.client() as client, client.videos.batch(make_rows(ROWS_AHEAD + 5), to=batches.to) as batch:
        assert {(await anext(aiter(batch))).state for _ in range(5)} == {"saved"}
        assert sum(create.status is None for create in batches.service.creates) == ROWS_AHEAD
        assert {each.state async for each in batch} == {"saved"}


async def test_rows_that_another_process_is_sending_hold_up_no_other_row_and_are_taken_up_at_the_end(batches):
    rows = make_rows(ROWS_AHEAD + 3)
    async with batches.client() as other:
        batches.service.faults.add("videos.create", Fault.stall(1.5), times=ROWS_AHEAD)
        sending = [asyncio.ensure_future(other.videos.create(**row)) for row in rows[:ROWS_AHEAD]]
        await until(lambda: sum(create.body_arrived for create in batches.service.creates) == ROWS_AHEAD)
        outcomes = await batches.run(rows)
        await asyncio.gather(*sending)
    assert {each.state for each in outcomes.values()} == {"saved"}
    assert set(list(outcomes)[:3]) == {f"order-{n}" for n in range(ROWS_AHEAD, ROWS_AHEAD + 3)}
    assert len(outcomes) == len(rows)
    assert max(batches.posts().values()) == 1


async def test_a_row_whose_images_are_being_uploaded_is_not_sent_after_a_stop(batches, tmp_path, picture):
    (tmp_path / "a.png").write_bytes(picture)
    batches.service.faults.add("files.create", Fault.stall(0.3))
    async with batches.client() as client:
        rows = make_rows(1, local_images=[tmp_path / "a.png"])
        async with client.videos.batch(rows, to=batches.to) as batch:
            running = asyncio.ensure_future(anext(aiter(batch)))
            await until(lambda: batches.count("files.create") == 1)
            batch.stop()
            outcome = await running
    assert (outcome.state, outcome.failure) == ("not_sent", "the batch was stopped")
    assert batches.service.creates == []


async def test_no_more_tasks_than_the_limit_run_at_once_and_a_stop_ends_the_wait_for_others(slow_batches, monkeypatch):
    monkeypatch.setattr(run, "MOST_RUNNING", 3)
    batches = slow_batches
    async with batches.client() as client, client.videos.batch(make_rows(8), to=batches.to) as batch:
        listing = asyncio.ensure_future(list_all(batch))
        await until(lambda: client.watcher.stats.tasks == 3)
        await settle(100)
        assert len(batches.service.creates) == 3
        batch.stop()
        assert Counter(each.state for each in await listing) == {"running": 3, "not_sent": 5}
    monkeypatch.setattr(run, "MOST_RUNNING", 2)
    async with batches.client() as client, client.videos.batch(make_rows(3), to=batches.to) as batch:
        listing = asyncio.ensure_future(list_all(batch))
        await until(lambda: client.watcher.stats.tasks == 2)
        batch.stop()
        assert [each.state for each in await listing] == ["running"] * 3


async def list_all(batch: Batch) -> list[BatchOutcome]:
    return [outcome async for outcome in batch]

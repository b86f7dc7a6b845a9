"""A run: each row is ordered once, watched, and saved; and what a second run does, by the state of each order."""

import asyncio
import json
from collections import Counter

import pytest

from tests.batch.conftest import FIELDS, make_rows, states
from tests.transports.sending import until
from vidgen_async import Budget, InvalidRequestError, Pacing, VideoRequest
from vidgen_async.batch.run import ROWS_AHEAD
from vidgen_async.errors import DownloadError
from vidgen_async.journal import SqliteJournal
from vidgen_async.sandbox import Fault


async def test_each_row_is_ordered_once_and_its_video_saved(batches):
    outcomes = await batches.run(make_rows(5))

    assert states(outcomes) == {f"order-{n}": ("saved", "new") for n in range(5)}
    assert batches.files() == {f"order-{n}.mp4" for n in range(5)}
    assert list(batches.posts().values()) == [1] * 5
    first = outcomes["order-0"]
    assert (first.line, first.ordered_as, first.attempts, first.points_basis) == (1, "order-0", 1, "charged")
    assert first.path == batches.to / "order-0.mp4"
    assert first.task_id in {create.task_id for create in batches.service.creates}

    again = await batches.run(make_rows(5))

    assert states(again) == {f"order-{n}": ("saved", "") for n in range(5)}
    assert (again["order-0"].points, again["order-0"].task_id) == (first.points, first.task_id)
    assert len(batches.service.creates) == batches.count("videos.content") == 5


async def test_rows_may_be_mappings_and_requests_of_any_iterable(batches):
    async def rows():
        yield {"order_id": "a", **FIELDS, "ratio": None, "output": "first/a.mp4"}
        yield "b", VideoRequest(**FIELDS, extra={"seed": 7})
        yield "c", FIELDS

    outcomes = await batches.run(rows())

    assert {each.state for each in outcomes.values()} == {"saved"}, outcomes
    assert batches.files() == {"first/a.mp4", "b.mp4", "c.mp4"}
    assert [create.body.get("seed") for create in batches.service.creates].count(7) == 1


async def test_a_file_that_is_missing_or_incomplete_is_saved_again_and_nothing_is_ordered(batches):
    await batches.run(make_rows(3))
    (batches.to / "order-0.mp4").unlink()
    video = (batches.to / "order-1.mp4").read_bytes()
    (batches.to / "order-1.mp4").write_bytes(video[:-100])

    outcomes = await batches.run(make_rows(3))

    assert states(outcomes) == {
        "order-0": ("saved", "file missing"),
        "order-1": ("saved", "file incomplete"),
        "order-2": ("saved", ""),
    }
    assert (batches.to / "order-1.mp4").stat().st_size == len(video)
    assert len(batches.service.creates) == 3
    assert batches.count("videos.content") == 5


async def test_a_failed_order_is_listed_and_ordered_again_under_another_id_only_if_asked(batches):
    rows = make_rows(1, prompt="a boat [fail: too dark]")
    first = await batches.run(rows)
    assert states(first) == {"order-0": ("failed", "new")}
    assert "too dark" in first["order-0"].failure
    assert first["order-0"].points_basis == "charged, may be refunded"

    listed = await batches.run(rows)
    assert states(listed) == {"order-0": ("failed", "")}
    assert "too dark" in listed["order-0"].failure
    assert len(batches.service.creates) == 1

    second = (await batches.run(rows, retry_failed=True))["order-0"]
    assert (second.state, second.reason, second.ordered_as) == ("failed", "failed before", "order-0~2")
    third = (await batches.run(rows, retry_failed=True))["order-0"]
    assert (third.ordered_as, third.order_id) == ("order-0~3", "order-0")
    assert len(batches.posts()) == 3

    listed = (await batches.run(rows))["order-0"]
    assert (listed.state, listed.ordered_as) == ("failed", "order-0~3")
    earlier = [(each.earlier_failed, each.earlier_points) for each in (first["order-0"], second, third, listed)]
    assert earlier == [(0, 0), (1, 20), (2, 40), (2, 40)]


async def test_a_row_whose_second_order_was_not_sent_says_that_the_first_one_failed(batches):
    rows = make_rows(1, prompt="a boat [fail]")
    await batches.run(rows)
    batches.options["budget"] = Budget(points=20, price="points")
    for _ in range(2):  # the order is unknown, then queued
        outcome = (await batches.run(rows, retry_failed=True))["order-0"]
        assert (outcome.state, outcome.ordered_as, outcome.points) == ("not_sent", "order-0~2", None)
        assert (outcome.earlier_failed, outcome.earlier_points) == (1, 20)


async def test_a_refused_order_is_ordered_again_under_its_id_and_one_that_was_invalid_only_if_asked(batches):
    batches.service.faults.add("videos.create", Fault.status(403))
    batches.service.faults.add("videos.create", Fault.status(400))
    rows = make_rows(2)
    first = await batches.run(rows)
    assert {each.state for each in first.values()} == {"rejected"}
    assert {each.points_basis for each in first.values()} == {"nothing ordered"}

    batches.service.faults.add("videos.create", Fault.status(400))
    for reasons in (["", "rejected before"], ["", ""]):  # the last refusal counts
        again = await batches.run(rows)
        assert {each.state for each in again.values()} == {"rejected"}
        assert sorted(each.reason for each in again.values()) == reasons
    last = await batches.run(rows, retry_failed=True)
    assert {(each.state, each.reason) for each in last.values()} == {("saved", "rejected before")}
    assert sorted(batches.posts().values()) == [2, 3]


async def test_rows_that_are_refused_with_429_are_ordered_again_in_the_same_run_after_the_others(batches):
    batches.options["pacing"] = Pacing(limit=1, window=0.01)  # one after the other
    batches.service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "0"}), times=2)
    outcomes = await batches.run(make_rows(4))
    assert states(outcomes) == {f"order-{n}": ("saved", "new") for n in range(4)}
    assert sorted(batches.posts().values()) == [1, 1, 2, 2]
    assert list(batches.posts())[:2] == [str(each.idempotency_key) for each in batches.service.creates[-2:]]
    assert {each.attempts for each in outcomes.values()} == {1, 2}


async def test_a_429_that_does_not_end_stops_the_creates_after_equal_failures_in_a_row(batches):
    batches.service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "0"}), times=None, after=1)
    outcomes = await batches.run(make_rows(9), stop_after_failures=7)
    assert Counter(each.state for each in outcomes.values())["saved"] == 1
    assert {each.state for each in outcomes.values()} <= {"saved", "rejected", "not_sent"}
    assert 1 + 7 <= len(batches.service.creates) <= 1 + 7 + ROWS_AHEAD
    assert any("stopped after 7 equal failures in a row" in each.failure for each in outcomes.values())


async def test_a_stop_ends_the_wait_of_a_row_that_was_refused_with_429(batches):
    batches.service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "600"}), times=None, after=1)
    async with batches.client() as client, client.videos.batch(make_rows(3), to=batches.to) as batch:
        outcomes = {}
        async for outcome in batch:
            outcomes[outcome.order_id] = outcome
            await until(lambda: len(batches.service.creates) > 1)
            batch.stop()
    assert sorted(each.state for each in outcomes.values()) == ["not_sent", "not_sent", "saved"]


async def test_an_uncertain_order_is_listed_and_never_sent_again(batches):
    batches.service.faults.add("videos.create", Fault.status(503, made=True))
    for reason in ("new", ""):
        outcome = (await batches.run(make_rows(1), retry_failed=True))["order-0"]
        assert (outcome.state, outcome.reason, outcome.points_basis) == ("uncertain", reason, "unknown")
        assert outcome.failure.startswith(
            "it is unknown whether the service accepted order 'order-0'. Known: attempt 1"
        )
        assert "orders." not in outcome.failure  # the advice for a program is in the error
    async with batches.client() as client:
        await client.orders.abandon("order-0", "nobody needs it")
    outcome = (await batches.run(make_rows(1), retry_failed=True))["order-0"]
    assert (outcome.state, "nobody needs it" in outcome.failure) == ("abandoned", True)
    assert len(batches.service.creates) == 1


async def test_a_withdrawn_order_is_listed(batches):
    batches.options["pacing"] = Pacing(limit=1)
    async with batches.client() as client, client.videos.batch(make_rows(2), to=batches.to) as batch:
        saved = await anext(aiter(batch))
        batch.stop()
        [left] = [outcome async for outcome in batch]
    assert (saved.state, left.state, left.points_basis) == ("saved", "not_sent", "nothing ordered")
    async with batches.client() as client:
        await client.orders.withdraw(left.order_id, "too late")

    outcome = (await batches.run(make_rows(2)))[left.order_id]

    assert (outcome.state, outcome.failure) == ("withdrawn", "it was withdrawn: too late")
    assert len(batches.service.creates) == 1


async def test_a_row_with_other_values_than_its_order_is_refused_by_the_names_of_the_fields(batches):
    await batches.run(make_rows(2))
    rows = [*make_rows(1, prompt="secret", ratio="9:16"), *make_rows(3)[1:]]

    with pytest.raises(InvalidRequestError) as refused:
        await batches.run(rows)

    assert refused.value.problems == ("line 1: order_id: 'order-0' was ordered before; changed: prompt, ratio",)
    assert len(batches.service.creates) == 2


async def test_a_new_order_whose_file_exists_is_refused_since_another_journal_may_have_it(batches, tmp_path):
    await batches.run(make_rows(1))
    batches.journal = f"sqlite:///{tmp_path / 'other.db'}"
    with pytest.raises(InvalidRequestError, match=r"output: 'order-0.mp4' exists, .* is it another journal\?"):
        await batches.run(make_rows(1))
    assert len(batches.service.creates) == 1


async def test_tasks_that_run_when_a_batch_is_stopped_are_saved_by_the_next_run(slow_batches):
    batches, service = slow_batches, slow_batches.service
    async with batches.client() as client, client.videos.batch(make_rows(3), to=batches.to) as batch:

        async def run():
            return {outcome.order_id: outcome async for outcome in batch}

        running = asyncio.ensure_future(run())
        await until(lambda: client.watcher.stats.tasks == 3)
        batch.stop()
        await asyncio.wait([running], timeout=20)
        service.clock.advance(2000)
        assert states(await running) == {f"order-{n}": ("running", "new") for n in range(3)}

    assert states(await batches.run(make_rows(3))) == {f"order-{n}": ("saved", "running") for n in range(3)}
    assert batches.files() == {f"order-{n}.mp4" for n in range(3)}
    assert len(service.creates) == 3


async def test_two_batches_on_one_directory_exclude_each_other(slow_batches):
    batches = slow_batches
    async with batches.client() as client, client.videos.batch(make_rows(1), to=batches.to) as first:
        running = asyncio.ensure_future(anext(aiter(first)))
        await until(lambda: client.watcher.stats.tasks == 1)
        batches.service.faults.add("videos.create", Fault.status(403))  # without the lock it would end at once
        with pytest.raises(DownloadError, match="another batch is saving videos in"):
            await batches.run(make_rows(2)[1:])
        first.stop()
        await running
    assert len(batches.service.creates) == 1


async def test_local_images_are_uploaded_once_per_content_and_compared_by_it(batches, tmp_path, picture):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(picture)
    manifest = tmp_path / "jobs.jsonl"
    rows = [{**row, "local_images": [f"{'ab'[n % 2]}.png"]} for n, row in enumerate(make_rows(20))]
    manifest.write_text("\n".join(map(json.dumps, rows)))

    first = await batches.run(manifest)
    again = await batches.run(manifest)

    assert {each.state for each in (*first.values(), *again.values())} == {"saved"}
    assert batches.count("files.create") == 1
    (tmp_path / "a.png").write_bytes(picture + b"\0")
    with pytest.raises(InvalidRequestError, match="line 1: order_id: 'order-0' was ordered before; changed: image_ids"):
        await batches.run(manifest)
    (tmp_path / "a.png").unlink()
    with pytest.raises(InvalidRequestError, match=r"line 1: local_images\[0\]: "):
        await batches.run(manifest)


async def test_a_local_image_that_changes_after_the_check_is_not_sent(batches, tmp_path, picture):
    (tmp_path / "a.png").write_bytes(picture)
    rows = make_rows(1, local_images=[tmp_path / "a.png"])
    async with batches.client() as client, client.videos.batch(rows, to=batches.to) as batch:
        await batch.check()
        (tmp_path / "a.png").write_bytes(picture + b"\0")
        [outcome] = [outcome async for outcome in batch]
    assert outcome.state == "not_sent"
    assert "a file was changed since the check" in outcome.failure
    assert batches.count("files.create") == 0


async def test_a_video_that_was_saved_before_the_end_of_its_task_was_recorded_is_not_saved_again(batches, tmp_path):
    class Forgetful(SqliteJournal):
        async def record(self, service, results):
            """Forget them, as if the process were killed before."""

    path = tmp_path / "orders.db"
    async with (
        batches.client(journal=Forgetful(path)) as client,
        client.videos.batch(make_rows(1), to=batches.to) as batch,
    ):
        assert [outcome.state async for outcome in batch] == ["saved"]
    assert states(await batches.run(make_rows(1))) == {"order-0": ("saved", "running")}
    assert batches.count("videos.content") == 1


async def test_two_orders_with_one_task_do_not_keep_the_batch_waiting(slow_batches):
    batches = slow_batches
    async with batches.client() as client, client.videos.batch(make_rows(1), to=batches.to) as batch:
        running = asyncio.ensure_future(anext(aiter(batch)))
        await until(lambda: client.watcher.stats.tasks == 1)
        batch.stop()
        first = (await running).task_id
    batches.service.faults.add("videos.create", Fault.edit(lambda answer: {**answer, "id": first, "task_id": first}))
    async with batches.client() as client, client.videos.batch(make_rows(2), to=batches.to) as batch:
        async with asyncio.timeout(20):
            outcome = await anext(aiter(batch))
        assert (outcome.order_id, outcome.state) == ("order-1", "not_saved")
        assert outcome.failure == f"task {first!r} is that of order 'order-0', too"


async def test_a_video_that_cannot_be_saved_is_listed_and_saved_by_the_next_run(batches):
    batches.service.faults.add("videos.content", Fault.html())
    outcome = (await batches.run(make_rows(1)))["order-0"]
    assert (outcome.state, outcome.path, outcome.points_basis) == ("not_saved", None, "charged")
    assert "is not a video" in outcome.failure
    outcome = (await batches.run(make_rows(1)))["order-0"]
    assert outcome.state == "saved"
    assert len(batches.service.creates) == 1

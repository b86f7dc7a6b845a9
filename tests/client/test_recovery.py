"""A process that died: the next one opens the journal, sends nothing, and goes on."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from itertools import chain

import pytest

from vidgen_async import Client, ConfigurationError, InvalidRequestError, NotFoundError
from vidgen_async.clock import LoopClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import BufferedResponse, FakeTransport

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


class Later(LoopClock):
    """The clock of somebody who looks when an hour has passed."""

    def wall(self):
        return super().wall() + timedelta(hours=1)


def polled(service: Sandbox) -> list[str]:
    return [request.path.rpartition("/")[2] for request in service.requests if request.op == "videos.get"]


async def test_all_tasks_that_were_not_seen_to_end_are_watched_again_with_one_call(restarted, service):
    async with restarted() as client:
        receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(3)]
        await client.videos.wait(receipts[0])
    service.requests.clear()

    async with restarted() as client:
        outcomes = [outcome async for outcome in client.videos.rewatch(timeout=60)]
        assert {(outcome.order_id, outcome.unwrap().id) for outcome in outcomes} == {
            (receipt.order_id, receipt.task_id) for receipt in receipts[1:]
        }
    assert receipts[0].task_id not in polled(service)
    service.requests.clear()

    async with restarted() as client:
        assert [outcome async for outcome in client.videos.rewatch(timeout=60)] == []
        assert len(await client.orders.list(is_terminal=True)) == 3
    assert service.requests == []
    assert len(service.creates) == 3


async def test_an_outcome_that_was_not_handled_to_its_end_comes_again(restarted, service):
    async with restarted() as client:
        receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(2)]

    async def handled(*, fails_at: int) -> list[str]:
        """The outcomes up to the one whose handling fails, by their task ids."""
        given: list[str] = []
        async with restarted() as client, aclosing(client.videos.rewatch(timeout=60)) as outcomes:
            async for outcome in outcomes:
                given.append(outcome.task_id)
                if len(given) == fails_at:
                    break
        return given

    first, second = await handled(fails_at=2)
    assert await handled(fails_at=9) == [second]
    assert {first, second} == {receipt.task_id for receipt in receipts}
    assert await handled(fails_at=9) == []


async def test_a_task_that_failed_is_not_watched_again(restarted, service):
    service.fail_next_task("out of paper")
    async with restarted() as client:
        failed = await client.videos.create(**FIELDS, order_id="failed")
        outcomes = [outcome async for outcome in client.videos.as_completed([failed])]
        assert [outcome.order_id for outcome in outcomes] == ["failed"]
    async with restarted() as client:
        assert await client.orders.list(is_terminal=False) == []
        (result,) = (await client.orders.get("failed")).results
        assert (result.status, result.failure_reason) == ("failed", "out of paper")


async def test_an_end_that_was_waited_for_counts_as_seen_once_it_was_handled(restarted, service, tmp_path):
    async with restarted() as client:
        receipt = await client.videos.create(**FIELDS, order_id="o")
        with pytest.raises(IsADirectoryError), client.orders.handling(receipt):  # noqa: PT012 - a wait, then the saving
            task = await client.videos.wait(receipt)
            tmp_path.write_text(task.id)

    async with restarted() as client:
        (outcome,) = [outcome async for outcome in client.videos.rewatch(timeout=60)]
        assert (outcome.order_id, outcome.task_id) == ("o", receipt.task_id)
    async with restarted() as client:
        assert [task.task_id async for task in client.orders.running()] == []
    assert len(service.creates) == 1


async def test_each_of_two_loops_on_one_journal_is_told_every_outcome(restarted, service):
    async with restarted() as client:
        receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(3)]

    async with restarted() as slow, restarted() as fast, aclosing(slow.videos.rewatch(timeout=60)) as outcomes:
        told_slow = [(await anext(outcomes)).task_id]
        told_fast = [outcome.task_id async for outcome in fast.videos.rewatch(timeout=60)]
        told_slow += [outcome.task_id async for outcome in outcomes]

    assert sorted(told_slow) == sorted(told_fast) == sorted(receipt.task_id for receipt in receipts)
    async with restarted() as client:
        assert [outcome async for outcome in client.videos.rewatch(timeout=60)] == []


async def test_each_task_is_yielded_by_one_of_three_clients_that_share_the_tasks(restarted, service):
    async with restarted() as client:
        receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(12)]

    async def watch(index: int) -> list[str]:
        async with restarted() as client:
            return [outcome.task_id async for outcome in client.videos.rewatch(timeout=60, shard=(index, 3))]

    shares = await asyncio.gather(*map(watch, range(3)))
    assert sorted(chain(*shares)) == sorted(receipt.task_id for receipt in receipts)


@pytest.mark.parametrize("shard", [(3, 3), (-1, 3), (0, 0), (0,), 1, ("0", 3), "01"])
async def test_a_shard_that_cannot_exist_is_refused(restarted, shard):
    async with restarted() as client:
        with pytest.raises(InvalidRequestError, match=r"shard: must be \(i, n\) with 0 <= i < n"):
            await anext(client.videos.rewatch(shard=shard))


@pytest.mark.parametrize("clock", [LoopClock(), Later()], ids=["new", "an hour old"])
async def test_a_404_is_not_believed_of_a_receipt_that_is_new_also_after_a_restart(restarted, service, clock):
    async with restarted() as client:
        await client.videos.create(**FIELDS, order_id="o")
    service.faults.add("videos.get", Fault.status(404), times=2)
    async with restarted(clock=clock) as client:
        (outcome,) = [outcome async for outcome in client.videos.rewatch(timeout=60)]
    assert isinstance(outcome.error, NotFoundError) is isinstance(clock, Later)


async def test_a_get_takes_no_outcome_from_who_goes_on(restarted, service):
    async with restarted() as client:
        receipt = await client.videos.create(**FIELDS, order_id="order-1187")
        service.clock.advance(60)
        assert (await client.videos.get(receipt)).is_terminal
    async with restarted() as client:
        assert [outcome.task_id async for outcome in client.videos.rewatch()] == [receipt.task_id]


async def test_a_video_whose_saving_by_generate_was_cut_off_is_found_again(restarted, service, tmp_path):
    service.faults.add("videos.content", Fault.stall())
    async with restarted() as client:
        generating = asyncio.ensure_future(client.videos.generate(**FIELDS, order_id="o", to=tmp_path / "boat.mp4"))
        while "videos.content" not in [request.op for request in service.requests]:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        generating.cancel()
        await asyncio.wait({generating})
    async with restarted() as client:
        assert [order.order_id for order in await client.orders.list(is_terminal=False)] == ["o"]
        await client.videos.generate(**FIELDS, order_id="o", to=tmp_path / "boat.mp4")
    async with restarted() as client:
        assert await client.orders.list(is_terminal=False) == []
    assert len(service.creates) == 1


class Replay(FakeTransport):
    is_replay = True


async def test_a_replay_writes_into_no_journal_that_lasts(monkeypatch, tmp_path):
    async def answer(_) -> BufferedResponse:
        return BufferedResponse(202, b'{"id": "task-1"}')

    named = f"sqlite:///{tmp_path / 'orders.db'}"

    def make(**options: object) -> Client:
        return Client("key", base_url="https://h/openapi/v1", transport=Replay(answer), **options)

    with pytest.raises(ConfigurationError, match="replay must not write into a durable journal"):
        make(journal=named)
    monkeypatch.setenv("VIDGEN_JOURNAL", named)
    for options in ({}, {"journal": MemoryJournal()}, {"journal": "memory:"}):
        async with make(**options) as client:
            receipt = await client.videos.create(**FIELDS, order_id="order-1187", validate=False)
            assert receipt.task_id == "task-1"
    assert not (tmp_path / "orders.db").exists()

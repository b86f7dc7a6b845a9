"""Callers come and go; the order does not notice."""

import asyncio
import gc
import warnings

import pytest
from attrs import evolve

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.client.views import Lifetime
from vidgen_async.errors import ClientStateError, OrderConflictError, RejectedError, UncertainCreateError
from vidgen_async.types.limits import Pacing


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", range(2))
def test_an_order_that_the_end_of_the_event_loop_cancels_at_once_leaves_no_coroutine(make_orders, service, count):
    async def leave() -> None:
        creating = asyncio.create_task(make_orders().create(REQUEST, order_id="o"))
        await passes(count)
        assert not creating.done()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(leave())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert service.posts == []


async def test_many_callers_of_one_order_are_one_post_and_one_answer(orders, service, clock):
    service.answers(accepted, after=5)
    receipts = await asyncio.gather(*(orders.create(REQUEST, order_id="o") for _ in range(50)))
    assert len(service.posts) == 1
    assert len({receipt.task_id for receipt in receipts}) == 1


async def test_many_clients_on_one_journal_are_one_post_and_one_answer(make_orders, service, clock):
    service.answers(accepted, after=5)
    receipts = await asyncio.gather(*(make_orders().create(REQUEST, order_id="o") for _ in range(20)))
    assert len(service.posts) == 1
    assert {receipt.task_id for receipt in receipts} == {"task-1"}


async def test_all_clients_waiting_for_an_order_learn_that_it_is_uncertain(make_orders, service, clock):
    service.answers(lambda: refused(503), after=5)
    results = await asyncio.gather(
        *(make_orders().create(REQUEST, order_id="o") for _ in range(5)), return_exceptions=True
    )
    assert {type(result) for result in results} == {UncertainCreateError}
    assert len(service.posts) == 1


async def test_a_closed_client_takes_no_orders(make_orders, service):
    orders = make_orders()
    lifetime = Lifetime()
    lifetime.is_closed = True
    orders._shared.check_usable = lifetime.check
    with pytest.raises(ClientStateError, match="closed"):
        await orders.create(REQUEST, order_id="o")
    assert service.posts == []


async def test_every_caller_hears_of_the_receipt_and_a_faulty_hook_hides_nothing(orders, service, clock, caplog):
    async def heard_async(receipt):
        heard.append(("async", receipt.task_id))

    def faulty(_):
        raise RuntimeError("the hook is broken")

    heard = []
    service.answers(accepted, after=1)
    await asyncio.gather(
        orders.create(REQUEST, order_id="o", on_receipt=heard_async),
        orders.create(REQUEST, order_id="o", on_receipt=faulty),
        orders.create(REQUEST, order_id="o", on_receipt=lambda receipt: heard.append(("sync", receipt.task_id))),
    )
    await orders.create(REQUEST, order_id="o", on_receipt=lambda receipt: heard.append(("later", receipt.task_id)))

    assert sorted(heard) == [("async", "task-1"), ("later", "task-1"), ("sync", "task-1")]
    assert "the hook is broken" in caplog.text


async def test_a_hook_may_ask_for_the_very_order_and_may_close_the_client(make_orders, service):
    async def hook(receipt):
        again = await asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
        assert again == receipt
        await orders.aclose(grace=0)
        heard.append(receipt.task_id)

    heard = []
    orders = make_orders()
    assert (await orders.create(REQUEST, order_id="o", on_receipt=hook)).task_id == "task-1"
    assert heard == ["task-1"]
    assert len(service.posts) == 1


async def test_a_receipt_is_told_although_the_client_is_closed_while_a_hook_runs(make_orders, service, clock):
    async def hook(_):
        await clock.sleep(1000)

    orders = make_orders()
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o", on_receipt=hook))
    await clock.sleep(1)
    await orders.aclose(grace=2)
    assert (await caller).task_id == "task-1"


async def test_nobody_hears_of_a_receipt_that_there_is_not(orders, service):
    service.answers(lambda: refused(402))
    heard = []
    with pytest.raises(RejectedError):
        await orders.create(REQUEST, order_id="o", on_receipt=heard.append)
    assert heard == []


async def test_a_client_closed_while_it_waits_asks_the_journal_what_became_of_its_order(make_orders, service, clock):
    service.answers(lambda: refused(429, Retry_After="0"))
    patient, other = make_orders(pacing=Pacing(max_wait=100)), make_orders()
    waiting = asyncio.ensure_future(patient.create(REQUEST, order_id="o"))
    await clock.sleep(0.5)
    service.hangs()
    sending = asyncio.ensure_future(other.create(REQUEST, order_id="o"))
    await clock.sleep(0.2)

    await patient.aclose(grace=0.1)

    with pytest.raises(UncertainCreateError):
        await waiting
    await other.aclose(grace=0)
    await asyncio.gather(sending, return_exceptions=True)
    assert len(service.posts) == 2


async def test_an_id_that_is_made_here_is_not_looked_up_and_storing_it_still_refuses_one_that_is_used(
    make_orders, journal, service, monkeypatch
):
    looked_up = []
    get = journal.get

    async def counted(ref, now):
        looked_up.append(ref.order_id)
        return await get(ref, now)

    monkeypatch.setattr(journal, "get", counted)
    orders = make_orders()
    receipt = await orders.create(REQUEST)
    assert looked_up == []
    await orders.create(REQUEST, order_id="named")
    assert looked_up == ["named"]

    monkeypatch.setattr("uuid.uuid4", lambda: receipt.order_id)
    assert await orders.create(REQUEST) == receipt
    with pytest.raises(OrderConflictError):
        await orders.create(evolve(REQUEST, prompt="another boat"))
    assert len(service.posts) == 2

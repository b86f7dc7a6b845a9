"""The balance before and after an uncertain create: evidence for a person, which decides nothing."""

import asyncio
from datetime import timedelta

import pytest

from vidgen_async import Client, UncertainCreateError
from vidgen_async.cli.terminal.order_views import order_facts
from vidgen_async.clock import VirtualClock
from vidgen_async.orders.balances import Balances
from vidgen_async.sandbox import Fault
from vidgen_async.transports import DirectTransport, RecordingTransport, ReplayTransport
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import Account

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5, "validate": False}


def ops(service) -> list[str]:
    return [request.op for request in service.requests]


async def lose(client: Client, service, order_id: str = "order-1", *, made: bool = True) -> None:
    service.faults.add("videos.create", Fault.close_after_body(made=made))
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**FIELDS, order_id=order_id)


async def balance_of(service) -> float | None:
    async with Client(service.api_key, base_url=service.base_url) as client:
        return (await client.account.get()).balance


def shown(order) -> str:
    return " ".join(str(value) for _, value in order_facts(order, with_request=False).pairs)


async def test_both_are_on_record_with_their_times_and_shown_with_what_they_prove(service, tmp_path):
    journal = f"sqlite:///{tmp_path / 'orders.db'}"
    async with Client(service.api_key, base_url=service.base_url, journal=journal) as client:
        before = await client.account.get()
        await lose(client, service)
    async with Client(service.api_key, base_url=service.base_url, journal=journal) as client:
        order = await client.orders.get("order-1")

    (attempt,) = order.unclear
    held, holds = attempt.evidence.balance_before, attempt.evidence.balance_after
    assert held.numbers["credits"] == before.balance
    assert holds.numbers["credits"] == (await balance_of(service)) < before.balance
    assert held.at <= attempt.sent_at <= attempt.evidence.at <= holds.at
    assert f"credits {held.numbers['credits']:g} -> {holds.numbers['credits']:g}" in shown(order)
    assert "this proves no task" in shown(order)
    assert (order.state, len(service.creates)) == (OrderState.UNCERTAIN, 1)
    assert ops(service)[:3] == ["account.get", "videos.create", "account.get"]


async def test_one_that_did_not_change_proves_nothing_either(client, service):
    await client.account.get()
    await lose(client, service, made=False)
    await client.orders.aclose()
    order = await client.orders.get("order-1")

    assert "unchanged from" in shown(order)
    assert "this does not prove that none exists" in shown(order)
    assert order.state is OrderState.UNCERTAIN


async def test_what_was_read_after_one_is_what_was_known_before_the_next(client, service):
    await lose(client, service)
    await client.orders.aclose()
    await lose(client, service, "order-2")
    await client.orders.aclose()

    first, second = [(await client.orders.get(f"order-{n}")).unclear[0].evidence for n in (1, 2)]
    assert first.balance_before is None
    assert "the balance before the create is unknown" in shown(await client.orders.get("order-1"))
    assert second.balance_before == first.balance_after


async def test_no_create_waits_for_it_and_a_silent_service_does_not_hold_up_the_end(service, caplog):
    service.faults.add("account.get", Fault.stall())
    async with Client(service.api_key, base_url=service.base_url) as client:
        await lose(client, service)
        receipt = await client.videos.create(**FIELDS, order_id="order-2")
        assert receipt.task_id == service.creates[1].task_id
        async with asyncio.timeout(5):  # half of what the read itself may take
            await client.orders.aclose(grace=0.0)
        assert (await client.orders.get("order-1")).unclear[0].evidence.balance_after is None


@pytest.mark.parametrize("fault", [Fault.status(500), Fault.status(401), Fault.close_after_body()])
async def test_one_that_cannot_be_read_changes_nothing(client, service, fault):
    service.faults.add("account.get", fault)
    await lose(client, service)
    await client.orders.aclose()

    order = await client.orders.get("order-1")
    assert (order.state, order.unclear[0].evidence.balance_after) == (OrderState.UNCERTAIN, None)
    assert ops(service) == ["videos.create", "account.get"]


async def test_one_read_serves_many_uncertain_creates(client, service):
    service.faults.add("videos.create", Fault.close_after_body(), times=20)
    service.faults.add("account.get", Fault.stall(0.05))
    creates = [client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(20)]
    await asyncio.gather(*creates, return_exceptions=True)
    await client.orders.aclose()

    after = [(await client.orders.get(f"order-{n}")).unclear[0].evidence.balance_after for n in range(20)]
    assert None not in after
    assert 1 <= ops(service).count("account.get") < 20


async def test_a_cassette_holds_nothing_that_the_caller_did_not_ask_for(service, tmp_path):
    path = tmp_path / "lost.json"
    async with Client(
        service.api_key, base_url=service.base_url, transport=RecordingTransport(DirectTransport(), path)
    ) as client:
        await lose(client, service)
    assert ops(service) == ["videos.create"]
    async with Client(service.api_key, base_url=service.base_url, transport=ReplayTransport(path)) as client:
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**FIELDS, order_id="order-1")


async def test_what_was_read_while_an_order_was_under_way_was_not_known_before_it():
    clock = VirtualClock()
    balances = Balances(None, clock, None)
    for _ in range(3):
        balances.remember(Account(extra={"credits": clock.now()}))
        await clock.sleep(10.0)

    moments = [clock.wall() - timedelta(seconds=ago) for ago in (0, 11, 29, 31)]
    held = [balances.before(moment) for moment in moments]
    assert [None if balance is None else balance.numbers["credits"] for balance in held] == [20.0, 10.0, 0.0, None]


def test_the_numbers_of_an_account_are_named_by_their_paths():
    account = Account(extra={"wallet": {"credits": 12.5, "on": True}, "name": "ann", "limits": [3], "level": 2})
    assert account.numbers == {"wallet.credits": 12.5, "level": 2}
    assert Account(extra={"balance": "120.5"}).numbers == {"balance": 120.5}
    assert len(Account(extra={str(n): n for n in range(1000)}).numbers) == 100

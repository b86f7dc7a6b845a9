"""A budget refuses what it does not allow before anything is sent, and the bill is that of the service's ledger."""

import asyncio
import random
from contextlib import aclosing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.loop_holds import until
from vidgen_async import (
    Budget,
    BudgetExceededError,
    CatalogModel,
    Client,
    ConfigurationError,
    NotSentError,
    UncertainCreateError,
    VidgenError,
)
from vidgen_async.errors import StillSendingError
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault
from vidgen_async.types import BudgetState, OrderState, Pacing

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
#: Of gen-2.0, in the catalog of the sandbox.
POINTS = 20


@pytest.fixture
def make(restarted):
    """The client of another process, with a budget for so many videos."""

    def make(videos: float, **options) -> Client:
        budget = {"points": int(videos * POINTS), "price": "points", **options}
        return restarted(budget=Budget(**budget), pacing=Pacing(limit=1000))

    return make


async def order(client: Client, number: int, **more) -> str:
    return (await client.videos.create(**FIELDS | more, order_id=f"order-{number}")).task_id


# -- before anything is sent -------------------------------------------------------------------------------------------


async def test_several_clients_share_a_budget_and_its_error_states_what_counts(service, make):
    async with make(3) as first, make(3) as second:
        creates = (order(client, n) for n in range(6) for client in (first, second))
        results = await asyncio.gather(*creates, return_exceptions=True)
        assert len(service.creates) == 3
        errors = [result for result in results if isinstance(result, BudgetExceededError)]
        assert len(errors) == 6
        assert (errors[-1].spent, errors[-1].reserved, errors[-1].asked, errors[-1].limit) == (0, 60, 20, 60)
        assert "may cost 20 points, and of the budget of 60 points 0 are spent and 60 are reserved" in str(errors[-1])
        assert (await first.orders.get(errors[-1].order_id)).state is OrderState.QUEUED
        assert not errors[-1].may_retry
        assert len([request for request in service.requests if request.op == "videos.create"]) == 3


async def test_the_same_call_succeeds_when_there_is_room(service, make):
    async with make(1) as client:
        await order(client, 1)
        with pytest.raises(NotSentError, match="order-2"):
            await order(client, 2)
    async with make(2) as client:
        await order(client, 2)
        assert await order(client, 1) == service.creates[0].task_id
    assert len(service.creates) == 2


async def test_an_error_states_when_room_comes_free(service, make):
    async with make(1, window=86400) as client:
        await order(client, 1)
        with pytest.raises(BudgetExceededError, match="There is room from") as caught:
            await order(client, 2)
    assert caught.value.may_retry
    assert timedelta(hours=23, minutes=59) < caught.value.room_at - datetime.now(UTC) < timedelta(hours=24, minutes=2)


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ("credits", "its price is 'credits', which the catalog entry of 'gen-2.0' does not have"),
        (lambda model, request: None, "the price function does not know it"),
        (lambda model, request: -1, "the price function raised ValueError"),
        (lambda model, request: 1 / 0, "the price function raised ZeroDivisionError"),
    ],
)
async def test_an_order_of_unknown_price_is_not_even_stored(service, make, price, problem):
    async with make(100, price=price) as client:
        with pytest.raises(BudgetExceededError, match=problem):
            await order(client, 1)
        assert await client.orders.find("order-1") is None
    assert service.creates == []


async def test_an_unknown_price_counts_for_what_the_budget_states(service, make):
    async with make(2, price="credits", unknown=POINTS) as client:
        for number in range(2):
            await order(client, number)
        with pytest.raises(BudgetExceededError, match="unknown what it may cost"):
            await order(client, 3)
    assert len(service.creates) == 2


async def test_a_price_is_a_function_of_the_entry_and_the_request(make):
    def price(model: CatalogModel, request) -> float:
        return model.extra["points"] / 8 * request.duration

    async with make(1, price=price) as client:
        await order(client, 1)
        assert (await client.orders.budget()).reserved == 13  # rounded up


async def test_the_budget_of_a_view_applies_in_addition(service, make):
    async with make(2) as client:
        view = client.with_options(budget=Budget(points=POINTS, price="points"))
        await order(view, 1)
        with pytest.raises(BudgetExceededError) as caught:
            await order(view, 2)
        assert caught.value.limit == POINTS
        await order(client, 2)
        with pytest.raises(BudgetExceededError):
            await order(client, 3)
    assert len(service.creates) == 2


async def test_a_resend_is_reserved_again_and_an_uncertain_order_counts(service, make):
    service.faults.add("videos.create", Fault.close_after_body())
    async with make(1) as client:
        with pytest.raises(VidgenError):
            await order(client, 1)
        with pytest.raises(BudgetExceededError):
            await client.orders.resend("order-1", expect_attempt=1, reason="it was not charged")
    async with make(2) as client:
        await client.orders.resend("order-1", expect_attempt=1, reason="it was not charged")
        assert (await client.orders.budget()).reserved == 2 * POINTS
    assert len(service.creates) == 2


async def test_a_refused_create_leaves_its_room_to_the_next_one(service, make):
    async with make(1) as client:
        service.faults.add("videos.create", Fault.status(402))
        with pytest.raises(VidgenError):
            await order(client, 1)
        await order(client, 2)
        assert await client.orders.budget() == BudgetState(
            limit=POINTS, window=None, spent=0, reserved=POINTS, unknown=0, free=0, room_at=None
        )


async def test_a_task_that_costs_more_than_its_estimate_stops_further_orders_of_the_client(service, make, caplog):
    async with make(100, price=lambda model, request: 10 if service.creates else POINTS) as client:
        for number in (0, 1):
            await client.videos.wait(await order(client, number))
        for _ in range(2):
            with pytest.raises(BudgetExceededError, match="cost 20 points, and 10 were estimated"):
                await order(client, 2)
        assert (await client.orders.budget()).spent == 2 * POINTS
    assert [record.levelname for record in caplog.records if record.event_name == "budget.underestimated"] == ["ERROR"]
    assert len(service.creates) == 2


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        (Budget(points=-1, price="points"), "Budget.points"),
        (Budget(points=1.5, price="points"), "Budget.points"),
        (Budget(points=1, price=""), "Budget.price"),
        (Budget(points=1, price="points", window=0), "Budget.window"),
        (Budget(points=1, price="points", window=float("nan")), "Budget.window"),
        (Budget(points=1, price="points", unknown=-1), "Budget.unknown"),
        (500, r"budget must be a Budget\(points=…, price=…\), not int"),
    ],
)
def test_a_budget_that_is_not_valid_is_refused_where_the_client_is_made(restarted, budget, problem):
    with pytest.raises(ConfigurationError, match=problem):
        restarted(budget=budget)


@pytest.mark.parametrize(
    ("text", "price", "problem"),
    [("500/24h", None, "needs VIDGEN_PRICE"), ("500 a day", "points", "VIDGEN_BUDGET: a budget is a number of points")],
)
def test_a_budget_of_the_environment_that_is_not_valid_is_refused(restarted, monkeypatch, text, price, problem):
    monkeypatch.setenv("VIDGEN_BUDGET", text)
    if price is not None:
        monkeypatch.setenv("VIDGEN_PRICE", price)
    with pytest.raises(ConfigurationError, match=problem):
        restarted()


async def test_a_budget_of_the_environment_holds(service, restarted, monkeypatch):
    monkeypatch.setenv("VIDGEN_BUDGET", "30/24h")
    monkeypatch.setenv("VIDGEN_PRICE", "points")
    async with restarted() as client:
        await order(client, 1)
        with pytest.raises(BudgetExceededError, match="of the budget of 30 points in 86400 s"):
            await order(client, 2)


def test_a_journal_that_cannot_add_up_costs_is_refused_with_a_budget(service):
    class Own:
        durable = False

    own = Own()
    for name in ("check", "namespace", "intend", "turn", "begin", "settle", "settle_mark", "confirm", "close_order"):
        setattr(own, name, getattr(MemoryJournal(), name))
    with pytest.raises(ConfigurationError, match="the journal Own cannot enforce a budget"):
        Client(service.api_key, base_url=service.base_url, journal=own, budget=Budget(points=1, price="points"))


# -- the bill ----------------------------------------------------------------------------------------------------------


async def test_the_bill_is_that_of_the_ledger(service, restarted):
    rng = random.Random(7)  # noqa: S311 - a repeatable history
    service.balance = 10**6
    faults = [None, None, None, Fault.status(402), Fault.close_after_body(made=True), Fault.close_after_body()]
    async with restarted(pacing=Pacing(limit=1000)) as client:
        tasks = []
        for number in range(40):
            if (fault := rng.choice(faults)) is not None:
                service.faults.add("videos.create", fault)
            try:
                tasks.append(await order(client, number))
            except VidgenError:
                state = (await client.orders.get(f"order-{number}")).state
                if state is OrderState.UNCERTAIN and rng.random() < 0.5:
                    reason = "it may not be charged"
                    tasks.append(
                        (await client.orders.resend(f"order-{number}", expect_attempt=1, reason=reason)).task_id
                    )
        for task_id in tasks:
            await client.videos.wait(task_id)
        charged = {entry.task_id for entry in service.ledger if entry.kind == "charge"}
        known = [row for row in await client.orders.spend("state") if row.key == "completed"]
        assert [(row.videos, row.spent) for row in known] == [(len(tasks), POINTS * len(tasks))]
        assert set(tasks) <= charged
        total = await client.orders.spend("model")
        assert sum(row.videos for row in total) == len(tasks)
        assert sum(row.unknown for row in total) + len(tasks) >= len(charged)
        (day,) = await client.orders.spend("day", since=datetime.now(UTC) - timedelta(hours=1))
        assert day.spent == POINTS * len(tasks)
        assert day.points == f"≥ {day.spent:,}"
        far = timezone(timedelta(hours=14))
        (shifted,) = await client.orders.spend("day", tz=far)
        assert shifted.key == f"{datetime.now(far):%Y-%m-%d}"
        with pytest.raises(ValueError, match="by: must be one of day, model, state: 'hour'"):
            await client.orders.spend("hour")


async def each_outcome(outcomes) -> None:
    async with aclosing(outcomes):
        async for _ in outcomes:
            pass


async def run_batch(client: Client, task_id: str, to: Path) -> None:
    async with client.videos.batch([{"order_id": "order-1", **FIELDS}], to=to) as batch:
        assert [outcome.state async for outcome in batch] == ["saved"]


WAYS = {
    "wait": lambda client, task_id, to: client.videos.wait(task_id),
    "watch": lambda client, task_id, to: each_outcome(client.videos.watch(task_id)),
    "as_completed": lambda client, task_id, to: each_outcome(client.videos.as_completed([task_id])),
    "rewatch": lambda client, task_id, to: each_outcome(client.videos.rewatch()),
    "generate": lambda client, task_id, to: client.videos.generate(**FIELDS, order_id="order-1", to=to / "boat.mp4"),
    "download_many": lambda client, task_id, to: each_outcome(
        client.videos.download_many(client.videos.as_completed([task_id]), to=to)
    ),
}


@pytest.mark.parametrize("is_adopted", [False, True])
@pytest.mark.parametrize(
    ("way", "journal"), [("batch", "sqlite"), *((way, kind) for way in WAYS for kind in ("memory", "sqlite"))]
)
async def test_each_way_of_waiting_leads_to_one_counted_task(service, tmp_path, way, journal, is_adopted):
    client = Client(
        service.api_key,
        base_url=service.base_url,
        journal="memory:" if journal == "memory" else f"sqlite:///{tmp_path / 'orders.db'}",
        poll_interval=0.05,
        budget=Budget(points=60, price=lambda model, request: 2 * POINTS),
    )
    async with client:
        if is_adopted:
            service.faults.add("videos.create", Fault.close_after_body(made=True))
            with pytest.raises(UncertainCreateError):
                await order(client, 1)
            await client.orders.adopt("order-1", service.creates[0].task_id)
        else:
            await order(client, 1)
        assert await counted(client) == [("accepted", 1, 0, 2 * POINTS)]
        assert (await client.orders.budget()).free == 60 - 2 * POINTS
        await (WAYS | {"batch": run_batch})[way](client, service.creates[0].task_id, tmp_path)
        assert await counted(client) == [("completed", 1, POINTS, 0)]
        assert (await client.orders.budget()).free == 60 - POINTS
    assert len(service.creates) == 1


async def counted(client: Client) -> list[tuple[str, int, int, int]]:
    rows = await client.orders.spend("state")
    return [(row.key, row.videos, row.spent, row.estimated) for row in rows]


async def test_the_states_of_many_orders_are_read_without_their_bodies(service, restarted):
    async with restarted() as client:
        task_id = await order(client, 1)
        await client.videos.wait(task_id)
        found = await client.orders.states(f"order-{number}" for number in range(3))
    assert [*found] == ["order-1"]
    summary = found["order-1"]
    assert (summary.model, summary.task_ids, summary.task_status) == ("gen-2.0", (task_id,), "completed")
    assert (summary.state, summary.points, summary.attempts) == (OrderState.ACCEPTED, POINTS, 1)


# -- a bounded wait ----------------------------------------------------------------------------------------------------


async def test_a_bounded_wait_ends_and_the_order_goes_on(service, restarted):
    service.faults.add("videos.create", Fault.stall(0.6))
    async with restarted() as client, restarted() as other:
        sending = asyncio.create_task(client.videos.create(**FIELDS, order_id="order-1"))
        await until(lambda: len(service.creates) == 1)
        with pytest.raises(StillSendingError, match=r"no outcome after 0\.01 s") as caught:
            await client.videos.create(**FIELDS, order_id="order-1", wait_for_sender=0.01)
        assert caught.value.may_retry
        assert caught.value.deadline_at > datetime.now(UTC)
        with pytest.raises(StillSendingError):
            await other.videos.create(**FIELDS, order_id="order-1", wait_for_sender=0.01)
        receipt = await other.videos.create(**FIELDS, order_id="order-1", wait_for_sender=30)
        assert receipt == await sending == await client.videos.create(**FIELDS, order_id="order-1")
    assert len(service.creates) == 1


@pytest.mark.parametrize("seconds", [0, -1, True, "1"])
async def test_a_bound_that_is_no_time_is_refused(client, seconds):
    with pytest.raises(ValueError, match="wait_for_sender"):
        await client.videos.create(**FIELDS, wait_for_sender=seconds)

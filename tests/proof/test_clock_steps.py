"""The calendar is set, by minutes or by days, forwards or back, at any moment: no order is ever sent twice for it.

What is lost is only liveness, and each test says how much. Waiting goes by the clock that only grows; the calendar
decides about deadlines, about the slots of the rolling limit, and about the age of a key.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.journal.conftest import ACCOUNT, SERVICE, after, ref_of, rejected, sending, uncertain
from tests.proof.broken import HeldJournal
from tests.proof.cancelling import (
    FIELDS,
    NAMESPACE,
    Moments,
    Shifted,
    comes_true,
    posts_of,
    stored_order,
)
from vidgen_async import Client, UncertainCreateError
from vidgen_async.clock import Clock, VirtualClock
from vidgen_async.errors import OrderStateError
from vidgen_async.journal import Journal, MemoryJournal, SqliteJournal
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import BufferedResponse, DirectTransport, WrappingTransport
from vidgen_async.types.http import Request
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import Receipt

pytestmark = pytest.mark.slow

HOUR, DAY = 3600.0, 86400.0
STEPS = (HOUR, -HOUR, DAY, -DAY)
#: With each step, where the moments begin at which it happens: all steps together come to every one that is sampled.
BEGINNINGS = {step: 1 + 3 * number for number, step in enumerate(STEPS)}


class Calendar(VirtualClock):
    """Virtual time with a calendar that can be set. A negative wait is a mistake."""

    seconds = 0.0

    def wall(self):
        return super().wall() + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        await super().sleep(seconds)


class HeldTransport(WrappingTransport):
    """The real network; no virtual time passes while it is waited for."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(DirectTransport())
        self._clock = clock

    async def send(self, request: Request) -> BufferedResponse:
        with self._clock.hold():
            async with await self.inner.send(request) as response:
                return BufferedResponse(response.status, await response.read(), headers=response.headers)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "orders.db"


@pytest.fixture
async def make_client(service, path) -> AsyncIterator[Callable[..., Client]]:
    """The client of another process, with a clock of its own."""
    made: list[Client] = []

    def make(clock: Clock, *, journal: Journal | None = None, **options: object) -> Client:
        options = {"journal": journal or SqliteJournal(path), "namespace": NAMESPACE, "poll_interval": 0.01} | options
        made.append(Client(service.api_key, base_url=service.base_url, clock=clock, **options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


async def create(client: Client, order_id: str = "o") -> Receipt:
    return await client.videos.create(**FIELDS, order_id=order_id)


# -- in the middle of a create -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "first"), BEGINNINGS.items())
async def test_setting_the_clock_at_any_moment_of_a_create_causes_no_second_post_and_loses_no_receipt(
    make_client, service, path, step, first
):
    """Nothing is lost: the client that sends it has its receipt, whatever the calendar says."""
    for moment in count(first, 12):
        order_id = f"order-{moment}"
        clock, moments = Shifted(), Moments(moment)
        client = make_client(clock)
        moments.happens = lambda clock=clock: setattr(clock, "seconds", step)
        task = await moments.start(client.videos.generate(**FIELDS, order_id=order_id, timeout=60))
        (post,) = posts_of(service, order_id)
        assert task.id == post.task_id
        order = await stored_order(path, service, order_id)
        assert (order.state, order.task_ids, len(order.attempts)) == (OrderState.ACCEPTED, (post.task_id,), 1)
        assert (await create(make_client(Shifted()), order_id)).task_id == post.task_id
        assert len(posts_of(service, order_id)) == 1
        await client.aclose()
        if moments.seen < moment:
            break
    assert moment > 40


@pytest.mark.parametrize(("step", "first"), BEGINNINGS.items())
async def test_two_processes_whose_clocks_diverge_at_any_moment_send_an_order_once(
    make_client, service, path, step, first
):
    """Limitation: the process that only waits may see *uncertain* too early, until the receipt is recorded."""
    for moment in range(first, 40, 12):
        order_id = f"order-{moment}"
        clock, moments = Shifted(), Moments(moment)
        clients = [make_client(clock), make_client(Shifted())]
        moments.happens = lambda clock=clock: setattr(clock, "seconds", step)
        results = await asyncio.gather(
            moments.start(create(clients[0], order_id)), create(clients[1], order_id), return_exceptions=True
        )
        (post,) = posts_of(service, order_id)
        assert {type(result) for result in results} in ({Receipt}, {Receipt, UncertainCreateError})
        assert {(await create(client, order_id)).task_id for client in clients} == {post.task_id}
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize(("sender", "other"), [(0, DAY), (0, HOUR), (-HOUR, 0), (-DAY, DAY)])
async def test_an_early_deadline_makes_the_order_uncertain_until_its_late_receipt(
    make_client, service, path, sender, other
):
    """Limitation: the process with the later clock sees *uncertain* before the answer arrives. Nothing is sent."""
    service.faults.add("videos.create", Fault.stall(1.0))
    first, second = make_client(Shifted(sender)), make_client(Shifted(other))
    sending = asyncio.ensure_future(create(first))
    await comes_true(lambda: bool(posts_of(service, "o")))
    with pytest.raises(UncertainCreateError):
        await create(second)
    assert (await stored_order(path, service, "o")).state is OrderState.UNCERTAIN

    service.clock.advance(1)

    receipt = await sending
    assert await create(second) == receipt
    assert (await stored_order(path, service, "o")).state is OrderState.ACCEPTED
    assert len(service.creates) == 1


# -- between processes -------------------------------------------------------------------------------------------------


async def left_behind(service: Sandbox, client: Client) -> None:
    """Its process ended between the POST and the answer."""
    service.faults.add("videos.create", Fault.stall(None))
    sending = asyncio.ensure_future(create(client))
    await comes_true(lambda: bool(posts_of(service, "o")))
    await client.aclose(grace=0)
    with pytest.raises(UncertainCreateError):
        await sending


async def test_a_late_deadline_only_makes_the_next_process_wait_until_the_clock_is_correct(make_client, service, path):
    """Lost: while the calendar is some minutes behind, the next process waits for an outcome that will not come."""
    clock = Calendar()
    with clock.hold():
        await left_behind(service, make_client(clock, journal=HeldJournal(path, clock)))
    clock.seconds = -240
    client = make_client(clock, journal=HeldJournal(path, clock), transport=HeldTransport(clock))
    waiting = asyncio.ensure_future(create(client))
    await clock.sleep(300)
    assert not waiting.done()

    clock.seconds = 0

    with pytest.raises(UncertainCreateError, match="may have exited"):
        await waiting
    assert len(service.creates) == 1


@pytest.mark.parametrize("step", [-HOUR, -DAY])
async def test_a_send_in_the_future_is_uncertain_at_once(make_client, service, step):
    """Lost: a process whose calendar is far behind takes a send for uncertain while it might still be answered."""
    await left_behind(service, make_client(Shifted()))
    with pytest.raises(UncertainCreateError, match="set back"):
        await create(make_client(Shifted(step)))
    assert len(service.creates) == 1


@pytest.mark.parametrize("first", STEPS)
async def test_an_uncertain_order_remains_uncertain_whatever_the_clock_shows_when_the_journal_is_reopened(
    make_client, service, first
):
    """Lost: the first calendar that is far off takes the send for uncertain while it might still be answered."""
    await left_behind(service, make_client(Shifted()))
    states = []
    others = [*STEPS, 0.0]
    random.Random(first).shuffle(others)  # noqa: S311 - repeatable, not secret
    calendars = [0.0, first, *others]
    for seconds in calendars:
        client = make_client(Shifted(seconds))
        states.append((await client.orders.get("o")).state)
        assert [order.state for order in await client.orders.list()] == states[-1:]
        if states[-1] is OrderState.UNCERTAIN:
            with pytest.raises(UncertainCreateError):
                await create(client)
        await client.aclose()
    assert states == [OrderState.SENDING] + [OrderState.UNCERTAIN] * (len(calendars) - 1)
    assert len(service.creates) == 1


@pytest.mark.parametrize(("sender", "person"), [(0, HOUR / 2), (0, DAY), (-DAY, 0)])
async def test_the_first_stored_receipt_remains_the_receipt_whatever_the_clocks_show_and_none_is_lost(
    make_client, service, path, sender, person, caplog
):
    """Lost: a key that only seems old needs the person's explicit word."""
    service.faults.add("videos.create", Fault.stall(1.0))
    service.faults.add("videos.create", Fault.edit(lambda body: body | {"id": "task_two", "task_id": "task_two"}))
    first, second = make_client(Shifted(sender)), make_client(Shifted(person))
    sending = asyncio.ensure_future(create(first))
    await comes_true(lambda: bool(posts_of(service, "o")))
    with pytest.raises(UncertainCreateError):
        await create(second)
    resend = {"expect_attempt": 1, "reason": "it seems lost"}
    if abs(sender - person) > HOUR:
        with pytest.raises(OrderStateError, match="may have forgotten it"):
            await second.orders.resend("o", **resend)
    resent = await second.orders.resend("o", **resend, accept_duplicate_risk=True)
    assert resent.task_id == "task_two"

    service.clock.advance(1)

    assert await sending == resent
    for client in (first, second):
        assert await create(client) == resent
    assert "order.duplicated" in [record.event_name for record in caplog.records]
    late = posts_of(service, "o")[0].task_id
    assert set((await stored_order(path, service, "o")).task_ids) == {late, "task_two"}
    assert len(posts_of(service, "o")) == 2  # one of them is the person's


# -- the rolling limit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "longest"), [(HOUR, 0.0), (DAY, 0.0), (-10, 71.0), (-240, 301.0), (-HOUR, 61.0), (-DAY, 61.0)]
)
async def test_setting_the_clock_between_two_creates_only_changes_how_long_the_second_waits(
    make_client, service, path, step, longest
):
    """Lost: set back by some minutes, the slots that are held count as held for so much longer; set forwards, they are
    free too early, and the service may answer 429."""
    clock = Calendar()
    client = make_client(
        clock, journal=HeldJournal(path, clock), transport=HeldTransport(clock), pacing=Pacing(limit=1)
    )
    await create(client, "a")
    clock.seconds = step
    begun_at = clock.now()
    await create(client, "b")
    assert longest - 2 <= clock.now() - begun_at <= longest
    assert [len(posts_of(service, order_id)) for order_id in "ab"] == [1, 1]


@pytest.mark.parametrize("step", STEPS)
async def test_setting_the_clock_while_a_create_waits_for_a_slot_causes_no_failure(make_client, service, path, step):
    """Lost: set back, the wait begins again when it was over; set forwards, it is not shortened."""
    clock = Calendar()
    client = make_client(
        clock, journal=HeldJournal(path, clock), transport=HeldTransport(clock), pacing=Pacing(limit=1)
    )
    await create(client, "a")
    waiting = asyncio.ensure_future(create(client, "b"))
    await clock.sleep(30)
    clock.seconds = step
    await waiting
    assert 60 <= clock.now() <= 122
    assert [len(posts_of(service, order_id)) for order_id in "ab"] == [1, 1]


async def test_no_clock_setting_makes_a_wait_negative_or_endless():
    for seed in range(20):
        seeded = random.Random(seed)  # noqa: S311 - repeatable, not secret
        journal = MemoryJournal()
        for n in range(8):
            sent_at, answered_at = (after(seeded.uniform(-DAY, DAY)) for _ in range(2))
            await sending(journal, f"order-{n}", now=sent_at)
            retry_at = answered_at + timedelta(seconds=seeded.choice([0, 10, 3600]))
            answers = [None, uncertain(answered_at), rejected(answered_at), rejected(answered_at, retry_at=retry_at)]
            if news := seeded.choice(answers):
                await journal.settle(ref_of(f"order-{n}"), 1, news)
        for _ in range(20):
            found = await journal.turn(SERVICE, ACCOUNT, Pacing(limit=2), after(seeded.uniform(-2 * DAY, 2 * DAY)))
            assert (found.free > 0) == (found.wait == 0), seed
            assert 0 <= found.wait <= (4000 if found.is_paused else 600), seed

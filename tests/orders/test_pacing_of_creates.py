"""The service never has to answer 429 for our own rate (section 8)."""

import asyncio
import random
from collections import deque

import pytest

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import ConnectError, NotSentError
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import FakeTransport
from vidgen_async.types.http import Delivery
from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import VideoRequest


class RollingLimit:
    """The service's rule, at the moment of its own choosing between a create's arrival and its answer."""

    def __init__(self, clock, *, limit: int, latency) -> None:
        self.clock, self.limit, self.latency = clock, limit, latency
        self.counted: deque[float] = deque()
        self.refusals = 0

    async def __call__(self, post):
        before, after = self.latency(), self.latency()
        await self.clock.sleep(before)
        now = self.clock.now()
        while self.counted and self.counted[0] <= now - 60:
            self.counted.popleft()
        over = len(self.counted) >= self.limit
        if over:
            self.refusals += 1
        else:
            self.counted.append(now)
        await self.clock.sleep(after)
        return refused(429) if over else accepted(f"task-{post.n}")


@pytest.mark.rule("8 limit submissions", side="sdk")
@pytest.mark.parametrize("seed", range(3))
async def test_no_429_comes_from_our_own_rate_whatever_the_latency(make_orders, service, clock, seed):
    chance = random.Random(seed)  # noqa: S311 - repeatable latencies, not secrets
    rule = RollingLimit(clock, limit=10, latency=lambda: chance.choice([0.01, 0.3, 2.0, 9.0]))
    service.script[:] = [rule]
    clients = [make_orders(pacing=Pacing(limit=10)) for _ in range(3)]

    await asyncio.gather(*(clients[n % 3].create(REQUEST, order_id=f"order-{n}") for n in range(60)))

    assert rule.refusals == 0
    assert len(service.posts) == 60
    assert clock.now() < 60 * 60 / 10 * 1.5


async def test_orders_go_out_in_the_order_in_which_they_came(make_orders, service):
    orders = make_orders(pacing=Pacing(limit=2))
    await asyncio.gather(*(orders.create(REQUEST, order_id=f"order-{n}") for n in range(6)))
    keys = [post.key for post in service.posts]
    records = {order.idempotency_key: order.order_id for order in await orders.list()}
    assert [records[key] for key in keys] == [f"order-{n}" for n in range(6)]


async def test_a_create_without_an_answer_holds_its_slot_a_window_beyond_its_deadline(make_orders, service, clock):
    async def hang(_):
        await asyncio.Event().wait()

    async def answer(_):
        return accepted()

    service.script[:] = [hang, answer]
    orders = make_orders(pacing=Pacing(limit=1))
    await asyncio.gather(*(orders.create(REQUEST, order_id=f"order-{n}") for n in range(2)), return_exceptions=True)
    assert service.posts[1].at == pytest.approx(120 + 10 + 60 + 0.1)


async def test_what_was_never_sent_holds_no_slot(make_orders, service, clock):
    async def down(_):
        if clock.now() < 10:
            raise ConnectError("refused", delivery=Delivery.NOT_SENT)

    orders = make_orders(pacing=Pacing(limit=1), transport=FakeTransport(service.transport._handler, on_connect=down))
    with pytest.raises(NotSentError):
        await orders.create(REQUEST, order_id="a")
    await clock.sleep(10)
    await orders.create(REQUEST, order_id="b")
    assert service.posts[0].at < 13


async def test_no_connection_is_made_for_an_order_that_must_wait_for_its_slot(make_orders, service, clock):
    async def connecting(_):
        connections.append(clock.now())
        await clock.sleep(2)

    connections: list[float] = []
    transport = FakeTransport(service.transport._handler, on_connect=connecting)
    orders = make_orders(pacing=Pacing(limit=2), transport=transport)
    await asyncio.gather(*(orders.create(REQUEST, order_id=f"order-{n}") for n in range(6)))
    assert len(connections) == len(service.posts) == 6


async def test_sends_that_are_stuck_while_they_connect_do_not_hold_up_those_for_which_slots_become_free(
    make_orders, service, clock
):
    async def connect(request):
        if b"stuck" in b"".join([piece async for piece in request.body.open()]):
            await clock.sleep(110)

    stuck = VideoRequest(model="vendorh3", prompt="stuck", duration=8)
    transport = FakeTransport(service.transport._handler, on_connect=connect)
    orders = make_orders(pacing=Pacing(limit=3), transport=transport)
    for order_id in ("a", "b"):
        await orders.create(REQUEST, order_id=order_id)
    connecting = asyncio.ensure_future(orders.create(stuck, order_id="stuck"))
    await clock.sleep(1)
    await orders.create(REQUEST, order_id="c")
    assert service.posts[2].at == pytest.approx(61, abs=1)
    await connecting
    assert service.posts[3].at == pytest.approx(110)


async def test_a_released_slot_is_used_at_once(make_orders, service, clock):
    async def connect(request):
        if b"stuck" in b"".join([piece async for piece in request.body.open()]):
            await clock.sleep(0.3)
            raise ConnectError("refused", delivery=Delivery.NOT_SENT)

    transport = FakeTransport(service.transport._handler, on_connect=connect)
    orders = make_orders(pacing=Pacing(limit=1), transport=transport)
    stuck = VideoRequest(model="vendorh3", prompt="stuck", duration=8)
    connecting = asyncio.ensure_future(orders.create(stuck, order_id="stuck"))
    await clock.sleep(0.1)
    await orders.create(REQUEST, order_id="o")
    assert service.posts[0].at == pytest.approx(0.3)
    await asyncio.gather(connecting, return_exceptions=True)


async def test_only_the_first_in_line_reads_the_limit(make_orders, clock):
    class Counting(MemoryJournal):
        reads = 0

        async def turn(self, *arguments):
            self.reads += 1
            return await super().turn(*arguments)

    orders = make_orders(on=(journal := Counting()), pacing=Pacing(limit=1))
    await orders.create(REQUEST, order_id="first")
    waiting = [asyncio.ensure_future(orders.create(REQUEST, order_id=f"order-{n}")) for n in range(20)]
    await clock.sleep(30)
    assert journal.reads == 2
    await orders.aclose(grace=0.1)
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("limit", [3, 100])
async def test_one_read_of_the_limit_serves_many_creates_in_line_and_none_more_than_there_are_slots(
    make_orders, service, clock, limit
):
    class Slow(MemoryJournal):
        reads = 0

        async def turn(self, *arguments):
            self.reads += 1
            found = await super().turn(*arguments)
            await clock.sleep(1)
            return found

    async def connecting(_):
        connections.append(clock.now())
        await clock.sleep(10)

    connections: list[float] = []
    transport = FakeTransport(service.transport._handler, on_connect=connecting)
    orders = make_orders(on=(journal := Slow()), pacing=Pacing(limit=limit), transport=transport)
    creates = [asyncio.ensure_future(orders.create(REQUEST, order_id=f"order-{n}")) for n in range(20)]
    await clock.sleep(5)
    assert len(connections) == min(limit, 20)
    if limit == 100:
        assert journal.reads == 2  # one read leaves most slots to other processes
        connections.clear()
        assert (await orders.create(REQUEST, order_id="later")).order_id == "later"
        assert connections == [6]  # nothing that an earlier read has found is used
    await orders.aclose(grace=0.1)
    await asyncio.gather(*creates, return_exceptions=True)


async def test_a_slot_that_was_found_for_a_create_which_ends_in_line_is_not_kept(make_orders, service, clock):
    class Cancelling(MemoryJournal):
        reads = 0

        async def turn(self, *arguments):
            self.reads += 1
            if self.reads == 1:
                await clock.sleep(1)  # the others line up
                asyncio.get_running_loop().call_soon(orders.cancel_unsent, "b")
            return await super().turn(*arguments)

    orders = make_orders(on=(journal := Cancelling()), pacing=Pacing())
    found = await asyncio.gather(*(orders.create(REQUEST, order_id=name) for name in "abc"), return_exceptions=True)
    assert isinstance(found[1], NotSentError)
    assert (len(service.posts), journal.reads) == (2, 1)
    await orders.create(REQUEST, order_id="later")
    assert journal.reads == 2


async def test_a_slot_that_another_client_took_in_between_is_waited_for(make_orders, service, clock):
    class Contended(MemoryJournal):
        async def turn(self, *arguments):
            found = await super().turn(*arguments)
            for _ in range(3):
                await asyncio.sleep(0)
            return found

    journal = Contended()
    clients = [make_orders(on=journal, pacing=Pacing(limit=1)) for _ in range(3)]
    await asyncio.gather(*(client.create(REQUEST, order_id=f"order-{n}") for n, client in enumerate(clients)))
    assert [round(post.at) for post in service.posts] == [0, 60, 120]

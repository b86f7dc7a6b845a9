"""An order in the hands of a random player, who plays callers, people, the network and the clock."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis import target
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.proof.model import GROWS_TO, MISTAKEN
from tests.proof.model_service import Fate, Service
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import OrderConflictError, VidgenError
from vidgen_async.journal import Journal, MemoryJournal
from vidgen_async.orders import Orders
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef, OrderState
from vidgen_async.types.resources import Receipt, VideoRequest

REQUEST = VideoRequest(model="vendorh3", prompt="a paper boat", duration=8)
REF = OrderRef(service="https://h", account="default", order_id="o")
#: Passes of the event loop after which everything waits for the player.
PASSES = 30

which = st.integers(0, 1)
cut = st.sampled_from([Fate.ANSWER_LOST, Fate.REQUEST_LOST])


class OrderMachine(RuleBasedStateMachine):
    """Two clients on one journal. Each post is held until the player chooses its outcome; no time passes unless
    the player lets it. The oracle is what the service got, and what was returned to callers."""

    make_journal: Callable[[], Journal] = MemoryJournal

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(debug=False)  # its records would take most of the time
        self.until_done = self.runner.get_loop().run_until_complete  # many short runs: without its signal handlers
        self.clock = VirtualClock(quiet_passes=3)
        self.journal = type(self).make_journal()
        self.service = Service(self.hold)
        self.clients = [self.new_client(), self.new_client()]
        self.held: list[asyncio.Future[Fate]] = []
        self.cut = Fate.REQUEST_LOST
        self.unheard: list[tuple[int, str]] = []
        """Attempts that made a task whose receipt did not arrive."""
        self.calls: list[asyncio.Task[Receipt]] = []
        self.told: set[str] = set()
        self.decided: set[int] = set()
        self.known: tuple[Attempt, ...] = ()

    def new_client(self) -> Orders:
        return self.service.client(self.journal, self.clock)

    async def hold(self) -> Fate:
        """The service has a post and has not decided; one that is cut off it may have taken."""
        order = await self.order()
        n = next(attempt.n for attempt in reversed(order.attempts) if attempt.kind != "adopt")
        fate: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self.held.append(fate)
        try:
            await fate
        except asyncio.CancelledError:
            if self.cut is Fate.ANSWER_LOST:
                self.service.tasks.append(f"task-{len(self.service.tasks) + 1}")
                self.unheard.append((n, self.service.tasks[-1]))
            raise
        finally:
            self.held.remove(fate)
        if fate.result() is Fate.ANSWER_LOST:
            self.unheard.append((n, f"task-{len(self.service.tasks) + 1}"))
        return fate.result()

    async def order(self) -> Order | None:
        return await self.journal.get(REF, self.clock.wall())

    def now(self) -> Order | None:
        """The same; a journal in memory never waits."""
        with pytest.raises(StopIteration) as end:
            self.order().send(None)
        return end.value.value

    # -- how the player plays ------------------------------------------------------------------------------------------

    def play(self, *works: Coroutine[Any, Any, Any], seconds: float = 0.0) -> list[Any]:
        """Start these, and wait until everybody waits; no longer than ``seconds`` of the clock. What was done."""

        async def whole() -> list[Any]:
            started = [asyncio.ensure_future(work) for work in works]
            with self.clock.hold():
                for _ in range(PASSES):
                    await asyncio.sleep(0)
            if seconds:
                await self.clock.sleep(seconds)
                with self.clock.hold():
                    for _ in range(PASSES):
                        await asyncio.sleep(0)
            return started

        return self.until_done(whole())

    def call(self, *works: Coroutine[Any, Any, Receipt]) -> None:
        self.calls += self.play(*works)
        for call in [call for call in self.calls if call.done()]:
            self.calls.remove(call)
            if call.exception() is None:
                self.told.add(call.result().task_id)
            else:
                assert isinstance(call.exception(), VidgenError)

    def done(self, work: Coroutine[Any, Any, Any]) -> BaseException | None:
        """What went wrong with something that waits for nobody."""
        (call,) = self.play(work)
        assert call.done()
        return call.exception()

    def is_in(self, *states: OrderState) -> bool:
        order = self.now()
        return order is not None and order.state in states

    # -- the rules -----------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.create(0)

    @rule(client=which)
    def create(self, client: int) -> None:
        self.call(self.clients[client].create(REQUEST, order_id="o"))

    @rule(client=which)
    def create_something_else(self, client: int) -> None:
        posts = len(self.service.posts)
        other = VideoRequest(model="vendorh3", prompt="another boat", duration=8)
        assert isinstance(self.done(self.clients[client].create(other, order_id="o")), OrderConflictError)
        assert len(self.service.posts) == posts

    @precondition(lambda self: self.held)
    @rule(fate=st.sampled_from(Fate))
    def answer(self, fate: Fate) -> None:
        self.held[0].set_result(fate)
        self.call()

    @rule(fate=cut)
    def expire(self, fate: Fate) -> None:
        """Every deadline passes."""
        self.cut = fate
        self.play(seconds=140.0)
        self.call()

    @rule(client=which, fate=cut)
    def crash(self, client: int, fate: Fate) -> None:
        """The process is gone with all that it knew; another one takes its place."""
        self.cut = fate
        self.play(self.clients[client].aclose(0.0))
        self.clients[client] = self.new_client()
        self.call()

    @precondition(lambda self: self.is_in(OrderState.UNCERTAIN))
    @rule(people=st.sampled_from([(0,), (1,), (0, 1)]))
    def resend(self, people: tuple[int, ...]) -> None:
        seen = len(self.now().attempts)
        self.decided.add(seen)
        self.call(*(self.clients[one].resend("o", expect_attempt=seen, reason="again") for one in people))

    @rule(fate=cut, people=st.sampled_from([(0,), (0, 1)]))
    def expire_and_resend(self, fate: Fate, people: tuple[int, ...]) -> None:
        """In one step, since the deep states are many steps away."""
        self.expire(fate)
        if self.is_in(OrderState.UNCERTAIN):
            self.resend(people)

    @rule(client=which)
    def resend_knowing_less(self, client: int) -> None:
        seen = len(self.now().attempts) - 1
        posts = len(self.service.posts)
        assert self.done(self.clients[client].resend("o", expect_attempt=seen, reason="again")) is not None
        assert len(self.service.posts) == posts

    @precondition(lambda self: self.unheard)
    @rule()
    def hear_late(self) -> None:
        """A sender who had been thought dead writes down the receipt."""
        n, task = self.unheard.pop(0)
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=self.clock.wall(), task_id=task, answered=True)
        assert self.done(self.journal.settle(REF, n, evidence)) is None
        self.told.add(task)

    @rule(client=which, data=st.data())
    def adopt(self, client: int, data: st.DataObject) -> None:
        may = self.is_in(OrderState.UNCERTAIN, OrderState.ABANDONED, OrderState.SENDING)
        task = data.draw(st.sampled_from([MISTAKEN, *self.service.tasks]))
        known = set(self.now().task_ids)
        problem = self.done(self.clients[client].adopt("o", task))
        assert (problem is None) is (may or (self.now().receipt is not None and self.now().receipt.task_id == task))
        if problem is None:
            self.told.add(task)
        assert known <= set(self.now().task_ids)

    @rule(client=which)
    def abandon(self, client: int) -> None:
        may = self.is_in(OrderState.UNCERTAIN)
        assert (self.done(self.clients[client].abandon("o", "lost")) is None) is may

    @rule(client=which)
    def withdraw(self, client: int) -> None:
        may = self.is_in(OrderState.QUEUED)
        assert (self.done(self.clients[client].withdraw("o")) is None) is may

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def no_more_posts_than_were_decided(self) -> None:
        assert self.service.unaccounted <= 1 + len(self.decided), "I1"

    @invariant()
    def every_post_is_the_same(self) -> None:
        assert len(set(self.service.posts)) <= 1, "I2"

    @invariant()
    def every_returned_outcome_is_stored(self) -> None:
        if self.told:
            assert self.is_in(OrderState.ACCEPTED), "I3"
            assert self.told <= set(self.now().task_ids), "I3"

    @invariant()
    def a_task_is_never_taken_for_none(self) -> None:
        nothing_of_it = (OrderState.QUEUED, OrderState.REJECTED, OrderState.WITHDRAWN)
        assert not (self.service.tasks and self.is_in(*nothing_of_it)), "I4"

    @invariant()
    def knowledge_never_shrinks(self) -> None:
        order = self.now()
        before, self.known = self.known, order.attempts if order else ()
        assert len(before) <= len(self.known), "I7"
        for old, new in zip(before, self.known, strict=False):
            assert old == new or new.outcome in GROWS_TO[old.outcome], "I7"

    def teardown(self) -> None:
        target(float(len(self.known)))
        try:
            for held in self.held:
                held.set_result(Fate.REQUEST_LOST)
            self.call()
            self.play(*(client.aclose(0.0) for client in self.clients), seconds=1.0)
            self.call()
        finally:
            self.runner.close()

"""Schedules drawn from a seed: which of the ready callbacks run next, how long a journal takes, what the network does.

The same seed gives the same schedule, so a schedule that breaks a promise can be looked at again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from attrs import Factory, define

from tests.proof.model import MISTAKEN
from tests.proof.model_service import Fate, Service
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConnectError, CreateError, OrderStateError
from vidgen_async.journal import Journal, MemoryJournal
from vidgen_async.orders import Orders
from vidgen_async.types.http import Delivery, Request
from vidgen_async.types.orders import Order, OrderState
from vidgen_async.types.resources import Receipt, VideoRequest

REQUEST = VideoRequest(model="vendorh3", prompt="a paper boat", duration=8)
#: Longer than a create may take.
EVER = 1000.0


class SeededLoop(asyncio.SelectorEventLoop):
    """In each pass it runs some of what is ready, in any order: a loop that owes nothing to who came first."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.set_debug(False)  # its records would take most of the time
        self.passes: list[int] = []
        """How many callbacks ran in each pass."""
        self._random = random

    def _run_once(self) -> None:
        ready = list(self._ready)
        self._random.shuffle(ready)
        chosen = ready[: self._random.randint(1, len(ready))] if ready else []
        self.passes.append(len(chosen))
        self._ready.clear()
        self._ready.extend(chosen)
        super()._run_once()
        self._ready.extend(ready[len(chosen) :])


class SlowJournal:
    """Takes its time before and after each operation, during which others go on."""

    def __init__(self, inner: Journal, pause: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._pause = pause

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._inner, name)

        async def slow(*given: object, **named: object) -> Any:
            await self._pause()
            result = await operation(*given, **named)
            await self._pause()
            return result

        return slow


@define
class Play:
    """Two clients on one journal, and the result of one schedule."""

    random: Random
    clock: VirtualClock
    journal: Journal
    service: Service
    fates: tuple[Fate, ...] = tuple(Fate)
    """What may become of a create."""
    delays: tuple[float, ...] = (0, 1, 30, EVER)
    """How long the service may take for it."""
    may_be_down: bool = True
    """Whether a connection may fail."""
    clients: tuple[Orders, ...] = ()
    callers: int = 0
    """Who called, also those who went away."""
    ends: list[Receipt | BaseException] = Factory(list)
    """What the callers got who stayed."""
    lost: int = 0
    """How many stayed and got nothing of the kind."""
    decided: set[int] = Factory(set)
    """The attempts after which a resend was decided."""
    told: set[str] = Factory(set)
    order: Order | None = None
    """As it is in the journal at the end."""
    passes: list[int] = Factory(list)

    @property
    def trace(self) -> tuple[object, ...]:
        """All that can be seen of it."""
        ends = [end.task_id if isinstance(end, Receipt) else repr(end) for end in self.ends]
        return self.passes, self.service.posts, self.service.fates, ends, self.order

    @property
    def kinds(self) -> set[type[object]]:
        """Of what the callers got."""
        return {type(end) for end in self.ends}

    async def fate(self) -> Fate:
        await self.clock.sleep(self.random.choice(self.delays))
        return self.random.choice(self.fates)

    async def connect(self, request: Request) -> None:
        await self.clock.sleep(self.random.choice((0, 0.1, 3, 40)))
        if self.may_be_down and self.random.random() < 0.15:
            raise ConnectError(delivery=Delivery.NOT_SENT, op=request.op)

    async def pause(self) -> None:
        for _ in range(self.random.choice((0, 0, 1, 3))):
            await self.clock.sleep(0)

    async def call(self, client: Orders) -> None:
        """A caller of the order, who comes at any time."""
        await self.clock.sleep(self.random.choice((0, 0, 0.1, 5, 60)))
        self.callers += 1
        try:
            receipt = await client.create(REQUEST, order_id="o")
        except CreateError as error:
            self.ends.append(error)
        else:
            self.ends.append(receipt)
            self.told.add(receipt.task_id)

    async def go_away(self, caller: "asyncio.Task[None]") -> bool:
        """A caller who may not wait for the outcome; whether they went."""
        if self.random.random() < 0.5:
            return False
        await self.clock.sleep(self.random.choice((0, 0.1, 5, 60)))
        await self.pause()
        return caller.cancel()

    async def decide(self) -> None:
        """Two people look at an order, and do something about it at the same time if it is uncertain."""
        order = await self.clients[0].find("o")
        if order is None or order.state is not OrderState.UNCERTAIN:
            if order is not None and self.random.random() < 0.25:
                await self.adopt(self.clients[0], order)
            await self.clock.sleep(60)
            return
        acts = [self.resend, self.resend, self.resend, self.resend, self.adopt, self.abandon]
        chosen = (self.random.choice(acts) for _ in range(2))
        await asyncio.gather(*(act(client, order) for act, client in zip(chosen, self.clients, strict=True)))

    async def resend(self, client: Orders, order: Order) -> None:
        await self.clock.sleep(self.random.choice((0, 0, 5)))
        self.decided.add(len(order.attempts))
        try:
            receipt = await client.resend("o", expect_attempt=len(order.attempts), reason="again")
        except (CreateError, OrderStateError):
            return
        self.told.add(receipt.task_id)

    async def adopt(self, client: Orders, _: Order) -> None:
        try:
            receipt = await client.adopt("o", self.random.choice([MISTAKEN, *self.service.tasks]))
        except OrderStateError:
            return
        self.told.add(receipt.task_id)

    async def abandon(self, client: Orders, _: Order) -> None:
        try:
            await client.abandon("o", "lost")
        except OrderStateError:
            return


def play(
    seed: int,
    scene: Callable[[Play], Coroutine[Any, Any, None]],
    make_journal: Callable[[], Journal] = MemoryJournal,
) -> Play:
    """One schedule of a scene, from its beginning until nothing is under way any more."""
    random = Random(seed)  # noqa: S311 - the same one each time is what is wanted
    clock = VirtualClock(quiet_passes=10)

    async def whole() -> Play:
        journal = SlowJournal(make_journal(), lambda: one.pause())  # noqa: PLW0108 - there is none yet
        service = Service(lambda: one.fate(), lambda request: one.connect(request))  # noqa: PLW0108 - as above
        one = Play(random, clock, journal, service)
        one.clients = tuple(service.client(journal, clock) for _ in range(2))
        await scene(one)
        for client in one.clients:
            await client.aclose(EVER)
        one.order = await one.clients[0].find("o")
        return one

    loop = SeededLoop(random)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        one = runner.run(whole())
    one.passes = loop.passes
    return one

"""A caller, or the whole client, goes away at each moment that there is: the order does not notice, or the record is
true. Real sockets, a journal in a file or in PostgreSQL; what the sandbox received is the oracle."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attrs import frozen

from tests.proof.cancelling import (
    FIELDS,
    NAMESPACE,
    WAYS,
    Alarm,
    Moments,
    Pause,
    Shifted,
    Way,
    by_anyio_scope,
    by_cancel,
    comes_true,
    gist,
    open_files,
    origin_of,
    posts_of,
    stored_order,
    threads,
)
from tests.proof.processes import on_each_journal
from vidgen_async import Client, NotSentError, UncertainCreateError
from vidgen_async.journal.opening import journal_from
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.service.endpoints import create_body
from vidgen_async.types.http import Timeouts
from vidgen_async.types.orders import Order, OrderRef, OrderState, idempotency_key
from vidgen_async.types.resources import Receipt, VideoRequest

HOUR = 3600.0
#: A moment that no call lasts to see.
NEVER = 10**6

MakeClient: TypeAlias = Callable[..., Client]


@pytest.fixture
def make_client(service, journal) -> MakeClient:
    """Another client on the journal."""

    def make(**options: object) -> Client:
        named = {"journal": journal, "namespace": NAMESPACE, "poll_interval": 0.01}
        return Client(service.api_key, base_url=service.base_url, **(named | options))

    return make


@pytest.fixture
def make_scene(service, make_client, tmp_path, journal) -> Callable[[str], "Scene"]:
    """With an order of this id."""
    return lambda order_id: Scene(service, make_client, tmp_path, journal, order_id)


@frozen
class Scene:
    """One run: an order of its own in the journal, and a directory for its video."""

    service: Sandbox
    make_client: MakeClient
    place: Path
    journal: str
    order_id: str

    async def order(self) -> Order | None:
        """What is in the journal."""
        return await stored_order(self.journal, self.service, self.order_id)

    async def found(self) -> object:
        return gist(await self.order())

    @property
    def posts(self) -> int:
        return len(posts_of(self.service, self.order_id))


# -- what is cancelled -------------------------------------------------------------------------------------------------


async def nothing(_: Scene) -> None:
    """The order id is new."""


async def queued(scene: Scene) -> None:
    """In the journal; its process ended before it was sent."""
    ref = OrderRef(service=origin_of(scene.service), account="default", order_id=scene.order_id)
    key = idempotency_key(NAMESPACE, ref.account, ref.order_id)
    body = create_body(VideoRequest(**FIELDS))
    journal = journal_from(scene.journal)
    await journal.intend(Order(ref=ref, idempotency_key=key, body=body, created_at=datetime.now(UTC)))
    await journal.aclose()


async def lost(scene: Scene) -> None:
    """The service made a task of it, and its answer was lost."""
    scene.service.faults.add("videos.create", Fault.close_after_body(made=True))
    async with scene.make_client() as client:
        with pytest.raises(UncertainCreateError):
            await create(client, scene)


def create(client: Client, scene: Scene) -> Coroutine[Any, Any, object]:
    return client.videos.create(**FIELDS, order_id=scene.order_id)


def generate(client: Client, scene: Scene) -> Coroutine[Any, Any, object]:
    return client.videos.generate(**FIELDS, order_id=scene.order_id, to=scene.place / f"{scene.order_id}.mp4")


def resume(client: Client, scene: Scene) -> Coroutine[Any, Any, object]:
    return client.orders.resume(scene.order_id)


def resend(client: Client, scene: Scene) -> Coroutine[Any, Any, object]:
    return client.orders.resend(scene.order_id, expect_attempt=1, reason="no task is known")


def adopt(client: Client, scene: Scene) -> Coroutine[Any, Any, object]:
    return client.orders.adopt(scene.order_id, posts_of(scene.service, scene.order_id)[0].task_id)


@frozen
class Case:
    """A call, what comes before it, how many POSTs both make, and how many moments the call has at least."""

    call: Callable[[Client, Scene], Coroutine[Any, Any, object]]
    before: Callable[[Scene], Awaitable[None]]
    posts: int
    moments: int

    def __str__(self) -> str:
        return self.call.__name__


CASES = (
    Case(create, nothing, 1, 30),
    Case(resume, queued, 1, 30),
    Case(resend, lost, 2, 25),
    Case(adopt, lost, 1, 10),
    Case(generate, nothing, 1, 55),
)


@frozen(kw_only=True)
class Outcome:
    is_cancelled: bool
    found: object
    """What is in the journal once the client has been closed."""
    posts: int


async def outcome_of(case: Case, way: Way, scene: Scene, moment: int, another: Client) -> Outcome:
    """The result of the call that was cancelled at this moment. The client that it was made on is closed when what was
    under way has ended; then the next caller has the receipt, and no POST is received beside those of the call."""
    await case.before(scene)
    others = threads()
    client = scene.make_client()
    is_cancelled = await way(Moments(moment), lambda: case.call(client, scene))
    await client.aclose()
    assert threads() == others
    outcome = Outcome(is_cancelled=is_cancelled, found=await scene.found(), posts=scene.posts)

    if outcome.posts < case.posts or case.call is adopt:
        await case.call(another, scene)
    receipt = await another.videos.create(**FIELDS, order_id=scene.order_id)
    assert receipt.task_id == posts_of(scene.service, scene.order_id)[0].task_id
    assert scene.posts == case.posts
    return outcome


#: At which moments each call is cancelled in each way: the first one, and how many are between two. ``task.cancel()``
#: comes at every moment of a create, whose worker the other calls share, and of an adoption, which has none. A scope
#: of anyio cancels the same caller; only an adoption and a generate have something of their own to do then.
SAMPLES = {
    by_cancel: {create: (1, 1), resume: (2, 6), resend: (1, 3), adopt: (1, 1), generate: (1, 4)},
    by_anyio_scope: {create: (1, 5), adopt: (1, 3), generate: (2, 9)},
}


#: In PostgreSQL, where a moment takes longer, only one of the two moments of each wait of a create or of an adoption.
SAMPLES_IN_POSTGRES = {create: (1, 2), resume: (2, 12), resend: (1, 5), adopt: (1, 2), generate: (1, 12)}


def moments_of(case: Case, way: Way, journal: str) -> Iterator[int]:
    return count(*(SAMPLES[way] if is_file(journal) else SAMPLES_IN_POSTGRES)[case.call])


def is_file(journal: str) -> bool:
    return journal.startswith("sqlite:")


#: Each way on a file, the first one in PostgreSQL too: how a caller goes away is nothing that a journal knows.
RUNS = [
    *(
        pytest.param("sqlite", case, way, id=f"{case}-{way.__name__}")
        for way in WAYS
        for case in CASES
        if case.call in SAMPLES[way]
    ),
    *(
        pytest.param("postgres", case, by_cancel, id=f"{case}-postgres", marks=pytest.mark.needs_engines)
        for case in CASES
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "case", "way"), RUNS, indirect=["journal"])
async def test_cancelling_the_caller_at_any_moment_does_not_change_the_order(
    journal, case, way, make_client, make_scene
):
    workers, files = asyncio.all_tasks(), open_files()
    async with make_client() as another:
        undisturbed = await outcome_of(case, way, make_scene("undisturbed"), NEVER, another)
        not_begun = make_scene("not begun")
        await case.before(not_begun)
        carried_out = (undisturbed.found, undisturbed.posts)
        allowed = [(await not_begun.found(), not_begun.posts), carried_out]

        for moment in moments_of(case, way, journal):
            outcome = await outcome_of(case, way, make_scene(f"order-{moment}"), moment, another)
            assert (outcome.found, outcome.posts) in allowed
            if not outcome.is_cancelled:
                break
            if moment > 6:  # it has begun for certain
                assert case.call is adopt or (outcome.found, outcome.posts) == carried_out

    assert moment > case.moments
    await comes_true(lambda: asyncio.all_tasks() == workers and open_files() <= files)


@on_each_journal
@pytest.mark.parametrize("moment", range(1, 35, 6))
async def test_cancelling_a_caller_at_any_moment_does_not_affect_other_callers(
    service, make_client, make_scene, moment
):
    moments = Moments(moment)
    async with make_client() as client:
        scene = make_scene("o")
        gone = moments.start(create(client, scene))
        moments.happens = gone.cancel
        stays = asyncio.ensure_future(create(client, scene))
        await asyncio.wait({gone, stays})
        assert gone.cancelled()
        assert [post.task_id for post in posts_of(service, "o")] == [stays.result().task_id]


# -- the client is closed without grace --------------------------------------------------------------------------------


@pytest.mark.slow
@on_each_journal
@pytest.mark.parametrize("case", [case for case in CASES if case.call in (create, resend)], ids=str)
async def test_closing_the_client_at_any_moment_records_and_raises_the_true_outcome(case, journal, make_scene):
    workers, files = asyncio.all_tasks(), open_files()
    told = set()
    # In PostgreSQL the lock of an attempt without an outcome is released when its journal is gone.
    unanswered = {OrderState.SENDING} if is_file(journal) else {OrderState.SENDING, OrderState.UNCERTAIN}
    for moment in moments_of(case, by_cancel, journal):
        scene = make_scene(f"order-{moment}")
        await case.before(scene)
        posts_before = scene.posts
        is_over, result = await closed_at(moment, case, scene)
        order = await scene.order()
        told.add(type(result))

        # An order that may have a task is never recorded as not sent, and no caller was given a NotSentError.
        if scene.posts > posts_before:
            assert order.state in {*unanswered, OrderState.ACCEPTED}
            assert type(result) in (UncertainCreateError, Receipt)
        assert (type(result) is Receipt) <= (order is not None and order.state is OrderState.ACCEPTED)
        await the_next_client_keeps_the_promise(case, scene, order)
        if is_over:
            break

    assert moment > case.moments
    assert {UncertainCreateError, Receipt} <= told
    assert (NotSentError in told) == (case.call is create)
    del scene, result
    gc.collect()  # the connection of an unanswered attempt's lock belongs to its journal
    await comes_true(lambda: asyncio.all_tasks() == workers and open_files() <= files)


async def closed_at(moment: int, case: Case, scene: Scene) -> tuple[bool, object]:
    """Whether the call had ended by then, and what it gave. The service answers when the client only waits for that."""
    scene.service.faults.clear()
    scene.service.faults.add("videos.create", Fault.stall(1.0))
    client = scene.make_client()
    moments = Moments(moment)
    closing: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    moments.happens = lambda: closing.append(loop.create_task(client.aclose(grace=0), context=Context()))
    caller = moments.start(case.call(client, scene))
    while not caller.done() and not closing:
        seen = moments.seen
        for _ in range(100):
            await asyncio.sleep(0)
        if moments.seen == seen:
            scene.service.clock.advance(1)
    (result,) = await asyncio.gather(caller, return_exceptions=True)
    is_over = not closing
    await client.aclose(grace=0)
    await asyncio.gather(*closing)
    assert threads() == set()
    scene.service.faults.clear()
    return is_over, result


async def the_next_client_keeps_the_promise(case: Case, scene: Scene, order: Order | None) -> None:
    """An hour later, when each deadline has passed."""
    posts = scene.posts
    async with scene.make_client(clock=Shifted(HOUR)) as client:
        if order is None or order.state in (OrderState.QUEUED, OrderState.ACCEPTED):
            receipt = await create(client, scene)
            assert receipt.task_id == posts_of(scene.service, scene.order_id)[0].task_id
            posts = max(posts, 1)
        else:
            with pytest.raises(UncertainCreateError):
                await create(client, scene)
    assert scene.posts == posts <= case.posts


@frozen(kw_only=True)
class Stopped:
    """A create that stands still, since its journal does."""

    scene: Scene
    client: Client
    alarm: Alarm
    caller: "asyncio.Task[Receipt]"
    pause: Pause

    async def torn_down(self) -> None:
        """The client is closed by a caller that does not wait for it, while the journal is blocked."""
        closing = asyncio.ensure_future(self.client.aclose(grace=0))
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.sleep(0.01)
        self.pause.go_on.set()
        await asyncio.wait({closing})


@pytest.fixture
async def stopped(request, make_client, make_scene, journal, monkeypatch) -> AsyncIterator[Stopped]:
    """At the statement that holds the words of the parameter."""
    scene, pause, alarm = make_scene("o"), Pause(word=request.param), Alarm()
    opened = journal_from(journal)
    await pause.apply_to(opened, monkeypatch)
    client = make_client(journal=opened, clock=alarm, timeouts=Timeouts(create=Alarm.LIMIT))
    caller = asyncio.ensure_future(create(client, scene))
    await comes_true(pause.is_reached.is_set)
    yield Stopped(scene=scene, client=client, alarm=alarm, caller=caller, pause=pause)
    pause.go_on.set()
    await client.aclose()


#: The connection is up, and no byte has left.
in_the_gate = pytest.mark.parametrize("stopped", ["INSERT INTO attempts (\n"], indirect=True)
#: The answer is there.
in_the_end = pytest.mark.parametrize("stopped", ["INSERT INTO evidence (\n"], indirect=True)


@on_each_journal
@in_the_gate
async def test_a_send_that_times_out_while_its_attempt_is_recorded_is_proven_not_sent_and_is_retried(stopped):
    stopped.alarm.ring()
    await asyncio.sleep(0.01)
    assert not stopped.caller.done()
    stopped.pause.go_on.set()

    receipt = await stopped.caller

    assert [post.task_id for post in posts_of(stopped.scene.service, "o")] == [receipt.task_id]
    assert [attempt.outcome for attempt in (await stopped.scene.order()).attempts] == ["not_sent", "accepted"]


@on_each_journal
@in_the_gate
async def test_a_client_that_is_closed_while_an_attempt_is_recorded_records_that_nothing_was_sent(stopped):
    await stopped.torn_down()
    with pytest.raises(NotSentError):
        await stopped.caller
    assert stopped.scene.posts == 0
    order = await stopped.scene.order()
    assert (order.state, [attempt.outcome for attempt in order.attempts]) == (OrderState.QUEUED, ["not_sent"])


@on_each_journal
@in_the_end
async def test_a_client_that_is_closed_while_a_receipt_is_stored_returns_and_stores_it(stopped):
    await stopped.torn_down()
    receipt = await stopped.caller
    assert [post.task_id for post in posts_of(stopped.scene.service, "o")] == [receipt.task_id]
    assert (await stopped.scene.order()).receipt == receipt


@on_each_journal
@in_the_end
async def test_a_client_that_is_closed_twice_while_a_receipt_is_stored_returns_and_stores_it(stopped):
    closings = [asyncio.ensure_future(stopped.client.aclose(grace=0)) for _ in range(2)]
    await asyncio.sleep(0.05)
    stopped.pause.go_on.set()
    await asyncio.gather(*closings)
    assert (await stopped.scene.order()).receipt == await stopped.caller

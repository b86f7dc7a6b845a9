"""No schedule of callers, people, faults makes the service get an order twice: hundreds of them, each from a seed."""

import asyncio

import pytest

from tests.proof.model_journals import ExpectedAttemptIgnored, StatesIgnored
from tests.proof.model_service import Fate
from tests.proof.schedules import Play, play
from vidgen_async.errors import RejectedInsufficientCreditsError, UncertainCreateError
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import Receipt

CALLERS = 5
#: Each is a schedule.
SEEDS = range(60)
MORE_SEEDS = range(60, 500)
seeds = pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MORE_SEEDS, marks=pytest.mark.needs_dev)], ids=str)

#: What every caller gets, and what is in the journal, when this becomes of each create.
ENDS = {
    Fate.TAKEN: (Receipt, OrderState.ACCEPTED),
    Fate.ANSWER_LOST: (UncertainCreateError, OrderState.UNCERTAIN),
    Fate.REQUEST_LOST: (UncertainCreateError, OrderState.UNCERTAIN),
    Fate.REFUSED: (RejectedInsufficientCreditsError, OrderState.REJECTED),
}


async def callers_come_and_go(one: Play) -> None:
    """Some wait for the outcome, some go away, some when nothing has been sent yet."""
    one.fates, one.delays, one.may_be_down = (one.random.choice(tuple(Fate)),), (0, 1, 30), False
    callers = [asyncio.ensure_future(one.call(one.clients[n % 2])) for n in range(CALLERS)]
    went = await asyncio.gather(*map(one.go_away, callers))
    ends = await asyncio.gather(*callers, return_exceptions=True)
    one.lost = sum(end is not None for end, has_gone in zip(ends, went, strict=True) if not has_gone)


async def people_decide(one: Play) -> None:
    """Callers, and two people who look at an uncertain order at the same moment."""
    one.fates = (*Fate, Fate.TAKEN, Fate.ANSWER_LOST, Fate.REQUEST_LOST)
    callers = [asyncio.ensure_future(one.call(client)) for client in one.clients]
    for _ in range(5):
        await one.decide()
    await asyncio.gather(*callers)


def problems(one: Play) -> list[str]:
    """What was promised and is not so, by what the service got."""
    service, order = one.service, one.order
    found = []
    if service.unaccounted > 1 + len(one.decided):
        found.append(f"I1: {service.unaccounted} posts, {len(one.decided)} resends were decided")
    if len(set(service.posts)) > 1:
        found.append("I2: another key or another body")
    if one.told and (order is None or not one.told <= set(order.task_ids)):
        found.append("I3: a returned receipt is not in the journal")
    nothing_of_it = {OrderState.QUEUED, OrderState.REJECTED, OrderState.WITHDRAWN}
    if service.tasks and (order is None or order.state in nothing_of_it):
        found.append(f"I4: there is a task, in the journal is {order and order.state}")
    return found


def problems_of_callers(one: Play) -> list[str]:
    """Besides: every caller who stayed got the one outcome, and it is what it would be if nobody had gone."""
    kind, state = ENDS[one.fates[0]]
    found = problems(one)
    if one.kinds - {kind} or len(one.told) > 1:
        found.append(f"I9: the callers got {one.kinds}, of tasks {one.told}")
    if one.lost:
        found.append(f"I12: {one.lost} callers lost the outcome because others went away")
    if one.callers and (one.order is None or one.order.state is not state):
        found.append(f"I12: in the journal is {one.order and one.order.state}, not {state}")
    return found


@pytest.mark.slow
@seeds
def test_callers_that_join_and_leave_share_one_create_with_one_outcome(seeds):
    assert {seed: found for seed in seeds if (found := problems_of_callers(play(seed, callers_come_and_go)))} == {}


@pytest.mark.slow
@seeds
def test_concurrent_decisions_of_operators_send_no_more_than_was_decided(seeds):
    plays = {seed: play(seed, people_decide) for seed in seeds}

    assert {seed: found for seed, one in plays.items() if (found := problems(one))} == {}
    # They come through what can go wrong.
    assert {fate for one in plays.values() for fate in one.service.fates} == set(Fate)
    assert max(len(one.service.posts) for one in plays.values()) >= 3
    assert max(len(one.decided) for one in plays.values()) >= 2
    states = {one.order.state for one in plays.values()}
    assert states >= {OrderState.ACCEPTED, OrderState.UNCERTAIN, OrderState.ABANDONED}


@pytest.mark.slow
@pytest.mark.parametrize("scene", [callers_come_and_go, people_decide])
def test_the_same_seed_gives_the_same_schedule(scene):
    # As text, which leaves the random marks of attempts out.
    traces = [[str(play(seed, scene).trace) for seed in range(4)] for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(set(traces[0])) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "scene"), [(ExpectedAttemptIgnored, people_decide), (StatesIgnored, callers_come_and_go)]
)
def test_a_journal_that_lets_two_senders_send_is_detected(broken, scene):
    plays = (play(seed, scene, broken) for seed in range(50, 250))  # of which an early one is such a schedule
    assert any(problem.startswith("I1") for one in plays for problem in problems(one))

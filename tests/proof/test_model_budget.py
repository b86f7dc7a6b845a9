"""A budget holds for every schedule of the model, and the journals do what the model says."""

from contextlib import nullcontext
from functools import cache

import pytest
from attrs import evolve

from tests.journal.conftest import NOW, SERVICE, accepted, evidence, order_of, permission, ref_of
from tests.proof.model import search
from tests.proof.model_budget import MUTANTS, Design, Move, OneMore, World
from tests.proof.model_journals import REPLAYED, use_journal
from vidgen_async.journal import Journal
from vidgen_async.journal.base import OverBudget
from vidgen_async.types.limits import DAY, SpendingLimit
from vidgen_async.types.orders import Attempt, AttemptOutcome, OrderState

ANY = frozenset(OrderState)
#: The two times of the model.
TIMES = (NOW, NOW.replace(day=3))
DESIGN = Design()
search_once = cache(search)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "worlds"),
    [
        pytest.param(DESIGN, 70_000, id="a window"),
        pytest.param(Design(has_window=False), 9000, id="all time"),
        pytest.param(Design(has_window=False, dedup=True), 8000, id="all time, the key is known"),
        pytest.param(OneMore(), 180_000, id="all time, one attempt more"),
    ],
)
def test_no_schedule_begins_an_attempt_above_its_limit(design, worlds):
    found = search_once(design)
    assert (found.broken, found.path) == (None, ())
    assert len(found.came_from) > worlds


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_design_that_breaks_one_rule_is_detected(mutant):
    assert search(mutant()).broken == "over the limit"


class Replay:
    """A path of the model, carried out on a journal as an account of its own."""

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self.account = f"account-{number}"
        self.places: list[tuple[str, int]] = []
        """The order and the number of each attempt of the model."""

    async def step(self, move: Move, before: World, after: World) -> None:
        now = TIMES[before.clock]
        if move.rule == "begin":
            await self.begin(move, before)
        elif move.rule in {"settle", "expire"}:
            order_id, n = self.places[move.n - 1]
            facts = {"task_id": self.task(after.attempts[move.n - 1].task)} if move.what == "accepted" else {}
            outcome = AttemptOutcome(move.what or "uncertain")
            await self.journal.settle(ref_of(order_id, account=self.account), n, evidence(outcome, now, **facts))
        elif move.rule == "adopt":
            order_id, _ = self.places[move.n - 1]
            task = accepted(self.task(after.attempts[-1].task), now)
            attempt = Attempt(n=0, sent_at=now, deadline_at=now, kind="adopt", evidence=task)
            await self.journal.adopt(ref_of(order_id, account=self.account), attempt, ANY)
            self.add(order_id)

    async def begin(self, move: Move, world: World) -> None:
        order_id = f"order-{move.n or len(self.places) + 1}"
        limit = SpendingLimit(points=move.limit, window=float(DAY), unknown=1)
        has_budget = move.what != "without budget"
        wish = permission(
            order_id,
            account=self.account,
            now=TIMES[world.clock],
            states=ANY,
            expect_attempt=sum(name == order_id for name, _ in self.places),
        )
        wish = evolve(wish, limits=[limit] if has_budget else [], reserved=1 if has_budget else None)
        await self.journal.intend(order_of(order_id, account=self.account))
        await self.journal.begin(wish)
        self.add(order_id)

    def add(self, order_id: str) -> None:
        self.places.append((order_id, 1 + sum(name == order_id for name, _ in self.places)))

    def task(self, number: int) -> str:
        return f"{self.account}-task-{number}"

    async def sums(self) -> list[int]:
        """What counts at the two times."""
        limit = SpendingLimit(points=9, window=float(DAY), unknown=1)
        found = []
        for now in TIMES:
            (state,) = await self.journal.spending(SERVICE, self.account, [limit], 1, now)
            found.append(limit.count(state.spending))
        return found


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
async def test_a_journal_counts_and_refuses_exactly_what_the_model_does(name):
    found = search_once(DESIGN)
    refused = 0
    async with use_journal(name) as journal:
        for number, world in enumerate(list(found.came_from)[:: 101 if name == "memory" else 1201]):
            worlds = [world]
            while (came_from := found.came_from[worlds[0]]) is not None:
                worlds.insert(0, came_from[0])
            replay = Replay(journal, number)
            for move, before, after in zip(found.path_to(world), worlds, worlds[1:], strict=False):
                await replay.step(move, before, after)
            assert await replay.sums() == [sum(world.sums), world.sums[1]], found.path_to(world)
            for limit in sorted(DESIGN.limits):
                is_allowed = DESIGN.allows(world, limit)
                with nullcontext() if is_allowed else pytest.raises(OverBudget):
                    await replay.begin(Move("begin", limit=limit), world)
                refused += not is_allowed
                if is_allowed:
                    break
    assert refused > 40

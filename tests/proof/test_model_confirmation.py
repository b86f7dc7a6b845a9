"""Receipts by confirmation: the design holds for every schedule of the model, and journals and the code that asks do
what the model says."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

import pytest
from attrs import define, field

from tests.proof import model_confirmation as model
from tests.proof.model import Search, search
from tests.proof.model_confirmation import MUTANTS, OLD, OWN, Design, Move, Worker, World
from tests.proof.model_journals import JOURNALS, use_journal
from tests.proof.model_replay import Path, Step, longest, shortest
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import NotFoundError
from vidgen_async.journal import Journal, MemoryJournal, Permission
from vidgen_async.orders.confirmation import confirm
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import SENDABLE, AttemptOutcome, Evidence, Order, OrderRef
from vidgen_async.types.resources import VideoTask

#: The rules by which nothing but GETs go out.
BY_GETS_ALONE = frozenset({"ask", "receive", "unknown", "decide", "confirm", "appear"})
MODEL = "gen-2.0"


@pytest.fixture(scope="module")
def whole() -> Search:
    return search(Design())


# -- the model ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "worlds"), [(2, 12_000), pytest.param(3, 30_000, marks=pytest.mark.needs_dev)], ids=str
)
def test_no_schedule_breaks_an_invariant_of_the_design(workers, worlds):
    found = search(Design(workers=workers))
    assert (found.broken, found.path) == (None, ())
    assert len(found.came_from) > worlds


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_design_that_breaks_one_rule_is_detected(mutant):
    assert search(mutant()).broken == mutant.dies_by


def test_each_invariant_detects_a_mutant():
    assert {mutant.dies_by for mutant in MUTANTS} == {"C1", "C2", "C3", "C4", "C5"}


@pytest.mark.slow
def test_an_order_with_a_recorded_answer_can_be_confirmed_by_gets_alone(whole):
    """Whichever worker ended, and whenever."""
    tried = 0
    for world in whole.came_from:
        for n, order in enumerate(world.orders):
            is_plain = order.outcome == "uncertain" and set(order.candidates) == {OWN[n]}
            if is_plain and not Design().is_claimed(world.orders[1 - n], OWN[n]) and world.workers == (Worker(),):
                tried += 1
                assert any(end[n].receipt == OWN[n] for end in ends(world, n))
    assert tried > 50


def ends(world: World, n: int) -> set[tuple[model.Order, ...]]:
    """All that can be in the journal once all candidates of order ``n`` were queried."""
    found, todo = set(), [(world, False)]
    while todo:
        world, has_asked = todo.pop()
        if has_asked and world.workers == (Worker(),):
            found.add(world.orders)
            continue
        moves = [
            (after, has_asked or move.rule == "ask")
            for move, after in Design().moves(world)
            if move.rule in BY_GETS_ALONE and (move.rule == "appear" or move.n == n)
        ]
        assert all(after.posts == world.posts for after, _ in moves)
        todo += moves
    return found


# -- journals ----------------------------------------------------------------------------------------------------------


class View(NamedTuple):
    outcome: str
    candidates: tuple[str, ...]
    receipt: str


@define
class Replay:
    """Two orders of an account of their own, on one journal."""

    journal: Journal
    name: str
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    deadlines: dict[int, datetime] = field(factory=dict)

    def ref(self, n: int) -> OrderRef:
        return OrderRef(service="https://h", account=self.name, order_id=f"o-{n}")

    def named(self, task: str) -> str:
        """A task is one of the whole service."""
        return f"{self.name}-{task}"

    async def walk(self, path: Path) -> list[str]:
        """What is not as the model says, up to the first step that went wrong: what comes back from each step, and what
        is in the journal at the end."""
        for length, (move, orders) in enumerate(path, start=1):
            self.now += timedelta(seconds=1)
            came_back = await getattr(self, f"_{move.rule}")(move)
            known = {} if came_back is None else {move.n: came_back}
            if length == len(path):
                known = {n: await self.get(n) for n, order in enumerate(orders) if order.outcome}
            problems = [
                f"order {n} is {view(order)}, not {self.expected_view(orders[n])}"
                for n, order in known.items()
                if view(order) != self.expected_view(orders[n])
            ]
            if problems:
                return [f"{[step.move for step in path[:length]]}: {problems}"]
        return []

    def expected_view(self, order: model.Order) -> View:
        candidates = () if order.receipt else tuple(map(self.named, order.candidates))
        return View(order.outcome, candidates, order.receipt and self.named(order.receipt))

    async def get(self, n: int) -> Order:
        # No deadline passes unless the model has such a move.
        return await self.journal.get(self.ref(n), min(self.now, self.deadlines.get(n, self.now)))

    async def _begin(self, move: Move) -> None:
        self.deadlines[move.n] = self.now + timedelta(hours=1)
        body = json.dumps({"model": MODEL}).encode()
        await self.journal.intend(Order(ref=self.ref(move.n), idempotency_key="key", body=body, created_at=self.now))
        await self.journal.begin(
            Permission(
                ref=self.ref(move.n),
                expect_attempt=0,
                states=SENDABLE,
                now=self.now,
                deadline_at=self.deadlines[move.n],
                pacing=Pacing(),
            )
        )

    async def _expire(self, move: Move) -> Order:
        return await self.journal.get(self.ref(move.n), self.deadlines[move.n] + timedelta(microseconds=1))

    async def _settle(self, move: Move) -> Order:
        is_answered = bool(move.names or move.task)
        evidence = Evidence(
            outcome=AttemptOutcome.ACCEPTED if move.task else AttemptOutcome.UNCERTAIN,
            at=self.now,
            task_id=self.named(move.task) if move.task else None,
            answered=is_answered,
            headers=(("Date", format_datetime(self.now)),) if is_answered else (),
            candidates=tuple(map(self.named, move.names)),
        )
        return await self.journal.settle(self.ref(move.n), 1, evidence)

    async def _confirm(self, move: Move) -> Order:
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=self.now, task_id=self.named(move.task), answered=True)
        return await self.journal.confirm(self.ref(move.n), 1, evidence)


def view(order: Order) -> View:
    (attempt,) = order.attempts
    evidence = attempt.evidence
    candidates = evidence.candidates if evidence and attempt.outcome is AttemptOutcome.UNCERTAIN else ()
    return View(attempt.outcome.value, candidates, order.receipt.task_id if order.receipt else "")


async def mismatches(journal: Journal, paths: list[Path]) -> list[str]:
    walks = [Replay(journal, f"p{i}").walk(path) for i, path in enumerate(paths)]
    return [problem for problems in await asyncio.gather(*walks) for problem in problems]


@pytest.fixture(scope="module")
def paths(whole) -> list[Path]:
    """To each record, and the same with answers after the deadline; there each confirmation is tried that must change
    nothing."""
    found = []
    for orders, path in shortest(whole).items():
        unchanged = [
            Step(Move("confirm", n, task=task), orders)
            for n, order in enumerate(orders)
            for task in OWN
            if order.candidates and Design().confirmed(orders, n, task) == orders
        ]
        found += [(*path, *unchanged), late(path)]
    return longest(found)


def late(path: Path) -> Path:
    """A deadline is noticed before each answer."""
    before, steps = World().orders, []
    for step in path:
        if step.move.rule == "settle" and before[step.move.n].outcome == "sending":
            ((move, world),) = [
                (move, world) for move, world in Design().expire(World(before)) if move.n == step.move.n
            ]
            steps.append(Step(move, world.orders))
        steps.append(step)
        before = step.order
    return tuple(steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOURNALS)
async def test_a_journal_stores_what_the_model_predicts_on_every_path(name, paths):
    assert len(paths) > 50
    async with use_journal(name) as journal:
        assert await mismatches(journal, paths) == []


class ClaimsIgnored(MemoryJournal):
    """Wrong: the first order to confirm has the task."""

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        return await self.settle(ref, n, evidence)


class CandidatesIgnored(MemoryJournal):
    """Wrong: what another order's answer names is free until it is a receipt."""

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        if await self.owner(ref, evidence.task_id) is not None:
            return self._require(ref)
        return await self.settle(ref, n, evidence)


class LateAnswerDropped(MemoryJournal):
    """Wrong: after its deadline nothing but a receipt is news."""

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        order = self._require(ref)
        is_late = order.attempts[n - 1].outcome is AttemptOutcome.UNCERTAIN is evidence.outcome
        return order if is_late else await super().settle(ref, n, evidence)


@pytest.mark.parametrize("broken", [ClaimsIgnored, CandidatesIgnored, LateAnswerDropped])
async def test_a_journal_that_breaks_a_rule_is_detected_on_some_path(broken, paths):
    assert await mismatches(broken(), paths) != []


# -- the code that asks ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_confirming_code_decides_as_the_model_in_every_world(whole):
    """A GET is answered as the service of that world would; who died before makes no difference."""
    steps = shortest(whole)
    situations = {
        (world.orders, world.tasks, world.made, n)
        for world in whole.came_from
        for n, order in enumerate(world.orders)
        if order.outcome == "uncertain" and order.candidates
    }
    decided: Counter[str] = Counter()
    for i, (orders, tasks, made, n) in enumerate(sorted(situations, key=repr)):
        (expected,) = ends(World(orders, (Worker(),), tasks, made), n)
        replay = Replay(MemoryJournal(), f"p{i}")
        assert await replay.walk(steps[orders]) == []
        order = await replay.get(n)
        clock = VirtualClock(replay.now, quiet_passes=2)
        get_task = Service(replay, clock, tasks, made).get_task
        confirmed = await confirm(order, replay.journal, clock, get_task)
        assert view(confirmed) == replay.expected_view(expected[n]), (orders, tasks, made, n)
        decided[confirmed.state.value] += 1
    assert min(decided["accepted"], decided["uncertain"]) > 20


@define
class Service:
    """Knows tasks, some of them (``made``) after a while."""

    replay: Replay
    clock: VirtualClock
    tasks: frozenset[str]
    made: frozenset[str]

    async def get_task(self, task_id: str) -> VideoTask:
        task = task_id.rsplit("-", 1)[1]
        if task not in self.tasks and not (task in self.made and self.clock.now() > 8):
            raise NotFoundError("no such task", status=404, body=b"{}")
        age = timedelta(days=1) if task == OLD else timedelta()
        return VideoTask(id=task_id, status="queued", model=MODEL, created_at=self.clock.wall() - age)

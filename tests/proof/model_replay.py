"""Paths of the model carried out on a journal, and what of it is not as the model says."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

from attrs import define

from tests.proof import model
from tests.proof.model import Design, Move, Search
from vidgen_async.journal import Journal, OrderChanged, Permission
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, AttemptOutcome, Closing, Evidence, Order, OrderRef, OrderState

START = datetime(2030, 1, 1, tzinfo=UTC)
STEP = timedelta(seconds=1)
PATIENCE = timedelta(hours=1)
#: The rules of the model that read or write the record.
ON_RECORD = frozenset({"intend", "begin", "force", "settle", "expire", "adopt", "close", "confirm"})


class Step(NamedTuple):
    """A move, and the order as it has to be afterwards."""

    move: Move
    order: model.Order


Path = tuple[Step, ...]


def shortest(found: Search) -> dict[model.Order, Path]:
    """For each record that can be, a shortest path to it."""
    paths: dict[model.World, Path] = {}
    first: dict[model.Order, Path] = {}
    for world, came_from in found.came_from.items():  # breadth first: the world before is known
        if came_from is None or world.order is None:
            paths[world] = ()
            continue
        before, move = came_from
        paths[world] = paths[before] + ((Step(move, world.order),) if move.rule in ON_RECORD else ())
        known = first.setdefault(world.order, paths[world])
        if len(known) > len(paths[world]):
            first[world.order] = paths[world]
    return first


def longest(paths: Iterable[Path]) -> list[Path]:
    """Those that are not the beginning of another one."""
    distinct = dict.fromkeys(paths)
    beginnings = {path[:length] for path in distinct for length in range(len(path))}
    return [path for path in distinct if path not in beginnings]


async def mismatches(
    journal: Journal, design: Design, paths: Iterable[Path], *, unseen_deadlines: bool = False, together: int = 50
) -> list[str]:
    """What the journal does otherwise than the model, on all these paths; each on an order of its own, ``together`` of
    them at once. The returned value and the stored order are compared after every step: once for each beginning that
    paths share, and once for all the steps in a row that change nothing.

    ``unseen_deadlines``  nobody looks when a deadline has passed: the next operation has to notice it.
    """
    found: list[str] = []
    walked: set[Path] = set()
    numbered = enumerate(paths)
    while batch := list(islice(numbered, together)):
        replays = [Replay(journal, design, f"path-{number}", walked, unseen_deadlines) for number, _ in batch]
        walks = (replay.walk(path) for replay, (_, path) in zip(replays, batch, strict=True))
        for problems in await asyncio.gather(*walks):
            found += problems
    return found


class View(NamedTuple):
    """What is compared."""

    state: str
    attempts: tuple[tuple[int, str, str, str], ...]
    """Number, kind, outcome, task id."""
    closing: str
    task_ids: tuple[str, ...]
    receipt: str
    """The task of the receipt that comes back."""


@define
class Replay:
    """One order of the journal that is led along a path; ``name`` is its own, and that of its tasks."""

    journal: Journal
    design: Design
    name: str
    walked: set[Path]
    """The beginnings of paths after which the record was read."""
    unseen_deadlines: bool
    now: datetime = START
    deadline: datetime = START
    """Of the last attempt: the only one that can be sending."""
    receipt: str = ""
    """The first that was recorded: it never changes."""

    @property
    def ref(self) -> OrderRef:
        return OrderRef(service="https://h", account=self.name, order_id="o")

    async def walk(self, path: Path) -> list[str]:
        """What is not as the model says, up to the first step that went wrong."""
        for length, step in enumerate(path, start=1):
            self.now += STEP
            if self.unseen_deadlines and step.move.rule == "expire" and length < len(path):
                self.now = self.deadline + STEP
                continue
            told = await self.carry_out(step.move)
            problems = self.compare(step.order, told)
            has_more_to_refuse = length < len(path) and path[length].order == step.order
            if path[:length] not in self.walked and not has_more_to_refuse:
                self.walked.add(path[:length])
                problems += self.compare(step.order, read := await self.journal.get(self.ref, self.now))
                if isinstance(told, Order) and told != read:
                    problems.append("the returned order is not what is in the journal")
            if problems:
                moves = " > ".join(f"{move.rule} {move.n} {move.what}".strip() for move, _ in path[:length])
                return [f"{moves}: {problem}" for problem in problems]
        return []

    def compare(self, expected: model.Order, told: Order | Attempt | None) -> list[str]:
        wanted = self.expected_view(expected)
        if isinstance(told, Attempt):
            found = (told.n, told.kind, told.outcome.value, "")
            return [] if (found,) == wanted.attempts[-1:] else [f"{found!r} may be sent, not {wanted.attempts[-1:]!r}"]
        if not isinstance(told, Order):
            return [f"{told!r} came back"]
        return [
            f"{name} is {is_!r}, not {should!r}"
            for name, is_, should in zip(View._fields, view(told), wanted, strict=True)
            if is_ != should
        ]

    def expected_view(self, order: model.Order) -> View:
        attempts = tuple(
            (n, attempt.kind, attempt.outcome, self.task(attempt.task))
            for n, attempt in enumerate(order.attempts, start=1)
        )
        task_ids = tuple(dict.fromkeys(task for *_, task in attempts if task))
        if not self.receipt and task_ids:
            (self.receipt,) = task_ids  # no step gives two
        return View(self.design.state(order), attempts, order.closing, task_ids, self.receipt)

    def task(self, task: str) -> str:
        """A task is the receipt of one order alone."""
        return f"{self.name}/{task}" if task else ""

    # -- the moves -----------------------------------------------------------------------------------------------------

    async def carry_out(self, move: Move) -> Order | Attempt | None:
        return await getattr(self, f"_{move.rule}")(move)

    async def _intend(self, _: Move) -> Order:
        return await self.journal.intend(Order(ref=self.ref, idempotency_key="key", body=b"{}", created_at=self.now))

    async def _begin(self, move: Move) -> Order | Attempt:
        states = self.design.sendable if move.what == "create" else self.design.resendable
        return await self._begin_in(move, _states(states), move.n, Pacing())

    async def _force(self, move: Move) -> Order | Attempt:
        known = await self.journal.get(self.ref, self.now)
        return await self._begin_in(move, frozenset(OrderState), len(known.attempts), None)

    async def _begin_in(
        self, move: Move, states: frozenset[OrderState], attempts: int, pacing: Pacing | None
    ) -> Order | Attempt:
        deadline_at = self.now + PATIENCE
        permission = Permission(
            ref=self.ref,
            expect_attempt=attempts,
            states=states,
            now=self.now,
            deadline_at=deadline_at,
            pacing=pacing,
            kind=move.what,
        )
        try:
            attempt = await self.journal.begin(permission)
        except OrderChanged as answer:
            return answer.order
        self.deadline = deadline_at
        return attempt

    async def _settle(self, move: Move) -> Order:
        return await self.journal.settle(self.ref, move.n, self._evidence(move.what, move.task))

    async def _expire(self, _: Move) -> Order | None:
        self.now = self.deadline + timedelta(microseconds=1)
        return await self.journal.get(self.ref, self.now)

    async def _adopt(self, move: Move) -> Order:
        receipt = self._evidence("accepted", move.task)
        word = Attempt(n=0, sent_at=self.now, deadline_at=self.now, kind="adopt", by="Ann", evidence=receipt)
        return await self.journal.adopt(self.ref, word, _states(self.design.adoptable))

    async def _close(self, move: Move) -> Order:
        closing = Closing(state=OrderState(move.what), at=self.now, reason="enough", by="Ann")
        abandons = closing.state is OrderState.ABANDONED
        states = self.design.abandonable if abandons else self.design.withdrawable
        return await self.journal.close_order(self.ref, closing, _states(states))

    def _evidence(self, outcome: str, task: str) -> Evidence:
        answered = outcome in {"accepted", "rejected"}
        task_id = self.task(task) or None
        return Evidence(outcome=AttemptOutcome(outcome), at=self.now, task_id=task_id, answered=answered)


def view(order: Order) -> View:
    attempts = tuple(
        (attempt.n, attempt.kind, attempt.outcome.value, (attempt.evidence and attempt.evidence.task_id) or "")
        for attempt in order.attempts
    )
    closing = order.closing.state.value if order.closing else ""
    receipt = order.receipt.task_id if order.receipt else ""
    return View(order.state.value, attempts, closing, order.task_ids, receipt)


def refusals(design: Design, order: model.Order) -> Iterator[Move]:
    """Every operation that must not change an order in the journal: it is in another state, or was read by a caller who
    knows other attempts, or the news are none."""
    for kind in ("create", "resend"):
        for knew in range(len(order.attempts) + 2):
            if not design.matches(order, model.Worker("looked", knew, kind)):
                yield Move("begin", knew, kind)
    for n in range(1, len(order.attempts) + 1):
        for outcome, task in (("not_sent", ""), ("uncertain", ""), ("rejected", ""), ("accepted", "another")):
            if design.with_evidence(order, n, outcome, task) == order:
                yield Move("settle", n, outcome, task)
    state = design.state(order)
    if state not in design.adoptable:
        yield Move("adopt", task="another")
    if state not in design.abandonable:
        yield Move("close", what="abandoned")
    if state not in design.withdrawable:
        yield Move("close", what="withdrawn")


def _states(names: frozenset[str]) -> frozenset[OrderState]:
    return frozenset(map(OrderState, names))

"""A budget as a model of its own: processes that begin attempts, on one journal with sums by minute.

The orders are many and the limit is a few videos, so a world has no order to follow, as ``model`` has: what counts is
which attempts the service may charge. The clock has two times, of which the first has left the window at the second; it
is set forward and back at any moment. One attempt may be that of an earlier release, which knows of no budget.
"""

from collections.abc import Iterator
from typing import NamedTuple

FREE = {"not_sent", "rejected"}
OPEN = {"sending", "uncertain"}


class Attempt(NamedTuple):
    order: int
    created: int
    """When its order was stored."""
    sent: int
    outcome: str = "sending"
    reserved: bool = True
    """False: by an earlier release, or by an operator who adopted a task."""
    task: int = 0
    """As the journal knows it."""
    made: int = 0
    """As the service knows it."""
    adopted: bool = False
    """An operator's decision about ``task``: nothing was sent."""


class Worker(NamedTuple):
    """One that is idle, has stored or read an order (``asked``), has begun attempt ``n``, or knows its outcome."""

    step: str = "idle"
    order: int = 0
    created: int = 0
    n: int = 0
    outcome: str = ""


class World(NamedTuple):
    workers: tuple[Worker, ...]
    """Sorted: which is which makes no difference."""
    attempts: tuple[Attempt, ...] = ()
    sums: tuple[int, ...] = (0, 0)
    """What counts, by the time at which it was sent."""
    clock: int = 0


class Move(NamedTuple):
    rule: str
    n: int = 0
    """The attempt, or the order of one that is to begin."""
    what: str = ""
    limit: int = 0


Moves = Iterator[tuple[Move, World]]


class Design:
    """The rules that the package promises to keep."""

    def __init__(self, *, limits: tuple[int, ...] = (2, 1), has_window: bool = True, dedup: bool = False) -> None:
        self.limits = limits
        """In videos; a limit may be lowered at any moment."""
        self.has_window = has_window
        self.dedup = dedup
        """The service knows a repeated key. (Not with a window: a task counts from the attempt whose receipt is stored
        first, and another one has made it if the sender of the first was suspended until it was sent again.)"""
        self.most = max(limits) + 1

    def start(self) -> World:
        return World((Worker(), Worker()))

    def moves(self, world: World) -> Moves:
        if len(world.attempts) == self.most:
            return  # none can begin, so nothing more can be broken
        rules = {
            "idle": (self.ask,),
            "asked": (self.begin, self.begin_without_budget),
            "checked": (self.reserve,),
            "begun": (self.send, self.stay, self.crash),
            "answered": (self.settle, self.crash),
        }
        for i, worker in enumerate(world.workers):
            if i == 0 or worker != world.workers[i - 1]:
                for rule in rules[worker.step]:
                    yield from rule(world, worker)
        for rule in (self.expire, self.adopt, self.abandon):
            yield from rule(world)
        if self.has_window:
            yield Move("set the clock"), world._replace(clock=1 - world.clock)

    # -- what counts ---------------------------------------------------------------------------------------------------

    def cost(self, attempt: Attempt) -> int:
        """Nothing only if that is certain."""
        return int(attempt.outcome not in FREE)

    def created(self, world: World) -> int:
        """When an order was stored does not matter."""
        return 0

    def minute(self, attempt: Attempt) -> int:
        return attempt.sent

    def store(self, world: World, n: int, attempt: Attempt) -> World:
        """Write an attempt. A trigger changes the sums, whichever release writes; a task counts once."""
        before, after = world.attempts[: n - 1], world.attempts[n:]
        is_known = attempt.task in {other.task for other in before + after} - {0}
        sums = list(world.sums)
        sums[self.minute(attempt)] += 0 if is_known else self.cost(attempt)
        sums[self.minute(attempt)] -= sum(map(self.cost, world.attempts[n - 1 : n]))
        for sign, attempts in ((1, world.attempts), (-1, (*before, attempt, *after))):
            for released in self.released(attempts):
                sums[self.minute(released)] += sign * self.cost(released)
        return world._replace(attempts=(*before, attempt, *after), sums=tuple(sums))

    def released(self, attempts: tuple[Attempt, ...]) -> Iterator[Attempt]:
        """The latest attempts of an order without outcome, one for each adopted task that no send has as a receipt."""
        for n, attempt in enumerate(attempts, 1):
            later = [other for other in attempts[n:] if other.order == attempt.order]
            adopted = {other.task for other in later if other.adopted}
            adopted -= {other.task for other in attempts if other.order == attempt.order and not other.adopted}
            if attempt.outcome in OPEN and len(adopted) > sum(other.outcome in OPEN for other in later):
                yield attempt

    def allows(self, world: World, limit: int) -> bool:
        counted = sum(sums for time, sums in enumerate(world.sums) if self.is_in_window(time, world.clock))
        return counted + 1 <= limit

    def is_in_window(self, time: int, now: int) -> bool:
        """An attempt in the future counts."""
        return not self.has_window or time >= now

    # -- what may happen -----------------------------------------------------------------------------------------------

    def ask(self, world: World, worker: Worker) -> Moves:
        """A caller stores a new order, or an operator asks that an uncertain one be sent again."""
        yield Move("ask"), moved(world, worker, Worker("asked", created=self.created(world)))
        for order, created in {
            (known.order, known.created) for known in world.attempts if known.outcome == "uncertain"
        }:
            yield Move("ask", order), moved(world, worker, Worker("asked", order, created))

    def begin(self, world: World, worker: Worker) -> Moves:
        for limit in self.limits:
            move = Move("begin", worker.order, limit=limit)
            if not self.allows(world, limit):
                yield move._replace(what="refused"), moved(world, worker, Worker())
            else:
                yield move, self.insert(world, worker, Attempt(worker.order, worker.created, world.clock))

    def begin_without_budget(self, world: World, worker: Worker) -> Moves:
        if all(attempt.reserved for attempt in world.attempts):
            attempt = Attempt(worker.order, worker.created, world.clock, reserved=False)
            yield Move("begin", worker.order, "without budget"), self.insert(world, worker, attempt)

    def insert(self, world: World, worker: Worker, attempt: Attempt) -> World:
        n = len(world.attempts) + 1
        attempt = attempt._replace(order=attempt.order or n)
        return moved(self.store(world, n, attempt), worker, Worker("begun", attempt.order, n=n))

    def reserve(self, world: World, worker: Worker) -> Moves:
        """Only a broken design has this step."""
        yield from ()

    def send(self, world: World, worker: Worker) -> Moves:
        """The service makes a task or refuses; the request, or the answer, may be lost."""
        attempt = world.attempts[worker.n - 1]
        known = max((other.made for other in world.attempts if self.dedup and other.order == attempt.order), default=0)
        made = known or 1 + max(other.made for other in world.attempts)
        taken = (*world.attempts[: worker.n - 1], attempt._replace(made=made), *world.attempts[worker.n :])
        fates = ((taken, "accepted"), (taken, "uncertain"), (world.attempts, "uncertain"), (world.attempts, "rejected"))
        for attempts, outcome in fates:
            answered = worker._replace(step="answered", outcome=outcome)
            yield Move("send", worker.n, outcome), moved(world, worker, answered, attempts=attempts)

    def settle(self, world: World, worker: Worker) -> Moves:
        """However late."""
        attempt = world.attempts[worker.n - 1]
        task = attempt.made if worker.outcome == "accepted" else 0
        after = self.store(world, worker.n, attempt._replace(outcome=worker.outcome, task=task))
        yield Move("settle", worker.n, worker.outcome), moved(after, worker, Worker())

    def stay(self, world: World, worker: Worker) -> Moves:
        after = self.store(world, worker.n, world.attempts[worker.n - 1]._replace(outcome="not_sent"))
        yield Move("settle", worker.n, "not_sent"), moved(after, worker, Worker())

    def crash(self, world: World, worker: Worker) -> Moves:
        yield Move("crash"), moved(world, worker, Worker())

    def expire(self, world: World) -> Moves:
        for n, attempt in enumerate(world.attempts, 1):
            if attempt.outcome == "sending":
                yield Move("expire", n), self.store(world, n, attempt._replace(outcome="uncertain"))

    def adopt(self, world: World) -> Moves:
        """An operator has found the task of an uncertain attempt: after it, by the clock of the journal."""
        for n, attempt in enumerate(world.attempts, 1):
            if attempt.outcome == "uncertain" and attempt.made and world.clock >= attempt.sent:
                adopted = attempt._replace(
                    sent=world.clock, outcome="accepted", reserved=False, task=attempt.made, adopted=True
                )
                yield Move("adopt", n), self.store(world, len(world.attempts) + 1, adopted)

    def abandon(self, world: World) -> Moves:
        """That changes nothing of what an attempt may cost."""
        yield from ()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def broken_in(self, world: World) -> str | None:
        return None

    def broken_by(self, before: World, move: Move, after: World) -> str | None:
        """What the service has charged or may charge, the new attempt included, is within the limit of each begin."""
        if move.limit and len(after.attempts) > len(before.attempts):
            at_risk = {worker.n for worker in after.workers if worker.step == "begun"}
            tasks = {
                attempt.made or -n
                for n, attempt in enumerate(after.attempts, 1)
                if ((attempt.made and not attempt.adopted) or n in at_risk)
                and (attempt.sent >= after.clock or not self.has_window)
            }
            if len(tasks) > move.limit:
                return "over the limit"
        return None


def moved(world: World, worker: Worker, after: Worker, **changes: object) -> World:
    """The world once this worker has moved on."""
    workers = list(world.workers)
    workers[workers.index(worker)] = after
    return world._replace(workers=tuple(sorted(workers)), **changes)


# -- designs with one rule broken --------------------------------------------------------------------------------------


class ReservedAfterTheCommit(Design):
    """The limit is checked in one transaction, and the attempt written in the next."""

    def begin(self, world: World, worker: Worker) -> Moves:
        for limit in self.limits:
            if self.allows(world, limit):
                yield Move("check"), moved(world, worker, worker._replace(step="checked", n=limit))

    def reserve(self, world: World, worker: Worker) -> Moves:
        attempt = Attempt(worker.order, worker.created, world.clock)
        yield Move("begin", worker.order, limit=worker.n), self.insert(world, worker, attempt)


class ReleasedWhenUncertain(Design):
    """No answer, no cost."""

    def cost(self, attempt: Attempt) -> int:
        return 0 if attempt.outcome == "uncertain" else super().cost(attempt)


class ReleasedWhenAbandoned(Design):
    """What an operator has given up costs nothing."""

    def cost(self, attempt: Attempt) -> int:
        return 0 if attempt.outcome == "abandoned" else super().cost(attempt)

    def abandon(self, world: World) -> Moves:
        for n, attempt in enumerate(world.attempts, 1):
            if attempt.outcome == "uncertain":
                yield Move("abandon", n), self.store(world, n, attempt._replace(outcome="abandoned"))


class WindowFromCreation(Design):
    """An attempt counts from the creation of its order on."""

    def created(self, world: World) -> int:
        return world.clock

    def minute(self, attempt: Attempt) -> int:
        return attempt.created


class FutureForgotten(Design):
    """Nothing was sent in the future."""

    def is_in_window(self, time: int, now: int) -> bool:
        return time == now


class ResendForgotten(Design):
    """An order is reserved for once."""

    def insert(self, world: World, worker: Worker, attempt: Attempt) -> World:
        after = super().insert(world, worker, attempt)
        return after._replace(sums=world.sums) if attempt.order else after


class UnknownForgotten(Design):
    """The sum leaves out what is NULL."""

    def cost(self, attempt: Attempt) -> int:
        return super().cost(attempt) if attempt.reserved else 0


class SumsWithoutTriggers(Design):
    """Each release maintains the sums itself, or does not."""

    def begin_without_budget(self, world: World, worker: Worker) -> Moves:
        for move, after in super().begin_without_budget(world, worker):
            yield move, after._replace(sums=world.sums)


class OneMore(Design):
    """The same rules, with an attempt that can begin after two sends and an adoption."""

    def __init__(self) -> None:
        super().__init__(limits=(2,), has_window=False)
        self.most += 1


class ReleasesAll(OneMore):
    """One adoption stands for every open attempt."""

    def released(self, attempts: tuple[Attempt, ...]) -> Iterator[Attempt]:
        for n, attempt in enumerate(attempts, 1):
            if attempt.outcome in OPEN and any(one.adopted and one.order == attempt.order for one in attempts[n:]):
                yield attempt


MUTANTS = (
    ReleasesAll,
    ReservedAfterTheCommit,
    ReleasedWhenUncertain,
    ReleasedWhenAbandoned,
    WindowFromCreation,
    FutureForgotten,
    ResendForgotten,
    UnknownForgotten,
    SumsWithoutTriggers,
)

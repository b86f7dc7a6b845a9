"""The life of an order as a model small enough to be searched whole.

Two or three workers (coroutines, processes, people) share one order on one journal. Anything may happen between two
steps: a worker dies or pauses, the network loses a request or an answer, a deadline passes (at any time, which covers
each error of a clock), a person says a word. The service makes a task of each create that it takes; with ``dedup`` it
knows a repeated key.

A rule is a method that yields what may happen next; a mutant (``model_mutants``) is a subclass with one rule broken.
Receipts by confirmation and the locks of a file have models of their own (``model_confirmation``, ``model_locks``):
joined with this one, each would multiply its worlds. The model is written from the design and knows nothing of
the package, so that each can be held against the other.
"""

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

#: A task that a person takes for the order's, and is not.
MISTAKEN = "mistaken"
#: What may be true of an order with several attempts, the most dangerous first.
DANGERS = ("accepted", "sending", "uncertain", "rejected")
GROWS_TO = {
    "sending": {"not_sent", "uncertain", "rejected", "accepted"},
    "uncertain": {"not_sent", "rejected", "accepted"},
}


class Attempt(NamedTuple):
    kind: str
    outcome: str
    task: str = ""
    knew: int = 0
    """The number of attempts that its author had read."""


class Order(NamedTuple):
    attempts: tuple[Attempt, ...] = ()
    closing: str = ""

    def receipts(self) -> set[str]:
        return {attempt.task for attempt in self.attempts if attempt.outcome == "accepted"}

    def with_attempt(self, attempt: Attempt) -> "Order":
        return self._replace(attempts=(*self.attempts, attempt))


class Worker(NamedTuple):
    """One that creates or resends: idle, looked (``n`` attempts; ``what`` it wants), claimed (attempt ``n`` is on
    record), written (bytes have left), answered (``what`` came of it). Ungated: as looked, and its transport has sent
    the request without waiting for the gate (``fate`` came of it)."""

    step: str = "idle"
    n: int = 0
    what: str = ""
    fate: str = ""


class World(NamedTuple):
    order: Order | None
    workers: tuple[Worker, ...]
    """Sorted: which is which makes no difference."""
    posts: int = 0
    rejections: int = 0
    """Refusals whose answer arrived."""
    tasks: int = 0
    told: frozenset[str] = frozenset()
    """The tasks whose receipts were returned to a caller."""
    excess: int = 0
    """Requests that left without the gate, of an order that another worker changed meanwhile: only the gate can hold
    those back."""


class Move(NamedTuple):
    """What happened: the rule, the attempt that it is about (or, for *begin*, how many were known), and more."""

    rule: str
    n: int = 0
    what: str = ""
    task: str = ""


Moves = Iterator[tuple[Move, World]]


class Design:
    """The rules that the package promises to keep."""

    sendable = frozenset({"queued", "rejected"})
    resendable = frozenset({"uncertain"})
    adoptable = frozenset({"uncertain", "abandoned", "sending"})
    abandonable = frozenset({"uncertain"})
    withdrawable = frozenset({"queued"})

    def __init__(
        self, *, workers: int = 2, resends: int = 2, attempts: int = 4, dedup: bool = False, gated: bool = True
    ) -> None:
        self.workers = workers
        self.resends = resends
        self.attempts = attempts
        """No search goes beyond so many, adoptions included."""
        self.dedup = dedup
        self.gated = gated
        """False: any transport may send without waiting for the gate that it declares, and claim that it did not."""
        self._states: dict[Order, str] = {}

    # -- the journal ---------------------------------------------------------------------------------------------------

    def state(self, order: Order) -> str:
        if order not in self._states:
            self._states[order] = self.state_of(order)
        return self._states[order]

    def state_of(self, order: Order) -> str:
        """The most dangerous thing that may be true; a person's word where it leaves room for one."""
        seen = outcomes(order)
        stronger = {"accepted", "sending"} if order.closing == "abandoned" else {"accepted", "sending", "uncertain"}
        if order.closing and not seen & stronger:
            return order.closing
        return next((outcome for outcome in DANGERS if outcome in seen), "queued")

    def with_evidence(self, order: Order, n: int, outcome: str, task: str = "") -> Order:
        """Knowledge of an attempt only grows."""
        known = order.attempts[n - 1]
        if outcome not in GROWS_TO.get(known.outcome, ()):
            return order
        news = known._replace(outcome=outcome, task=task)
        return order._replace(attempts=(*order.attempts[: n - 1], news, *order.attempts[n:]))

    # -- what may happen -----------------------------------------------------------------------------------------------

    def start(self) -> World:
        return World(None, (Worker(),) * self.workers)

    def moves(self, world: World) -> Moves:
        if world.order is None:
            yield Move("intend"), world._replace(order=Order())
            return
        rules = {
            "idle": (self.look,),
            # One that dies here has done nothing.
            "looked": (self.begin,) if self.gated else (self.begin, self.leave),
            # One that dies here leaves nothing in the journal: that is what the gate is for.
            "ungated": (self.force,),
            "claimed": (self.write, self.stay, self.crash),
            "written": (self.answer, self.crash),
            "answered": (self.settle, self.crash),
        }
        for i, worker in enumerate(world.workers):
            if i == 0 or worker != world.workers[i - 1]:
                for rule in rules[worker.step]:
                    yield from rule(world, world.order, worker)
        for rule in (self.expire, self.adopt, self.close):
            yield from rule(world, world.order)

    def look(self, world: World, order: Order, worker: Worker) -> Moves:
        """A caller reads the order, and wants it sent if it may be; a person reads it, and wants it sent again."""
        seen, state = len(order.attempts), self.state(order)
        if state in self.sendable:
            yield Move("look"), moved(world, worker, Worker("looked", seen, "create"))
        if state in self.resendable:
            yield Move("look"), moved(world, worker, Worker("looked", seen, "resend"))

    def matches(self, order: Order, worker: Worker) -> bool:
        states = self.sendable if worker.what == "create" else self.resendable
        return self.state(order) in states and len(order.attempts) == worker.n

    def begin(self, world: World, order: Order, worker: Worker) -> Moves:
        """The connection is ready. The attempt is recorded, if the order is as the worker saw it."""
        move = Move("begin", worker.n, worker.what)
        if not self.matches(order, worker):
            yield move, moved(world, worker, Worker())
        elif len(order.attempts) < self.attempts and (worker.what == "create" or resends(order) < self.resends):
            after = order.with_attempt(Attempt(worker.what, "sending", knew=worker.n))
            yield move, moved(world, worker, Worker("claimed", len(after.attempts)), order=after)

    def write(self, world: World, _: Order, worker: Worker) -> Moves:
        """The first byte leaves, however long after the attempt was recorded."""
        yield Move("write"), moved(world, worker, Worker("written", worker.n), posts=world.posts + 1)

    def stay(self, world: World, order: Order, worker: Worker) -> Moves:
        """It is proven that no byte left."""
        after = self.with_evidence(order, worker.n, "not_sent")
        yield Move("settle", worker.n, "not_sent"), moved(world, worker, Worker(), order=after)

    def leave(self, world: World, order: Order, worker: Worker) -> Moves:
        """A transport sends the request without waiting for the gate that it declares."""
        if len(order.attempts) < self.attempts:
            for fate, tasks, refusals in self.fates(world):
                after = worker._replace(step="ungated", fate=fate)
                changes = {"posts": world.posts + 1, "tasks": tasks, "rejections": world.rejections + refusals}
                yield Move("leave", what=fate), moved(world, worker, after, **changes)

    def force(self, world: World, order: Order, worker: Worker) -> Moves:
        """Whatever the transport raises or claims: there is no proof, so the attempt is recorded, also when the
        order is no more as the worker saw it."""
        if len(order.attempts) < self.attempts:
            after = order.with_attempt(Attempt(worker.what, "sending", knew=worker.n))
            excess = world.excess + (not self.matches(order, worker))
            answered = Worker("answered", len(after.attempts), worker.fate)
            yield Move("force", worker.n, worker.what), moved(world, worker, answered, order=after, excess=excess)

    def answer(self, world: World, _: Order, worker: Worker) -> Moves:
        """The service takes it or refuses it; the request, or the answer, may be lost."""
        for fate, tasks, refusals in self.fates(world):
            after = Worker("answered", worker.n, fate)
            yield (
                Move("answer", worker.n, fate),
                moved(world, worker, after, tasks=tasks, rejections=world.rejections + refusals),
            )

    def fates(self, world: World) -> Iterator[tuple[str, int, int]]:
        """What may come of a request: what the worker learns, the service's tasks, and whether it was refused."""
        knows_key = self.dedup and world.tasks > 0
        tasks = world.tasks if knows_key else world.tasks + 1
        yield f"task-{tasks}", tasks, 0
        yield "lost", tasks, 0
        yield "lost", world.tasks, 0
        if not knows_key:
            yield "rejected", world.tasks, 1

    def settle(self, world: World, order: Order, worker: Worker) -> Moves:
        """What the worker knows is recorded, however late, and returned to those who wait."""
        outcome = {"lost": "uncertain", "rejected": "rejected"}.get(worker.what, "accepted")
        task = worker.what if outcome == "accepted" else ""
        after = self.with_evidence(order, worker.n, outcome, task)
        told = world.told | {task} if task else world.told
        yield Move("settle", worker.n, outcome, task), moved(world, worker, Worker(), order=after, told=told)

    def crash(self, world: World, _: Order, worker: Worker) -> Moves:
        """A worker that dies leaves what is in the journal; another one may call at any time."""
        yield Move("crash"), moved(world, worker, Worker())

    def expire(self, world: World, order: Order) -> Moves:
        """The order is read after a deadline."""
        for n, attempt in enumerate(order.attempts, start=1):
            if attempt.outcome == "sending":
                yield Move("expire", n), world._replace(order=self.with_evidence(order, n, "uncertain"))

    def adopt(self, world: World, order: Order) -> Moves:
        """A person says which task it is: one that the service made of the order, or another by mistake."""
        is_room = len(order.attempts) < self.attempts and all(attempt.kind != "adopt" for attempt in order.attempts)
        if is_room and self.state(order) in self.adoptable:
            for task in (MISTAKEN, *(f"task-{n}" for n in range(1, world.tasks + 1))):
                after = order.with_attempt(Attempt("adopt", "accepted", task, knew=len(order.attempts)))
                yield Move("adopt", task=task), world._replace(order=after, told=world.told | {task})

    def close(self, world: World, order: Order) -> Moves:
        """A person gives up an uncertain order, or takes back one that was not sent."""
        if self.state(order) in self.abandonable:
            yield Move("close", what="abandoned"), world._replace(order=order._replace(closing="abandoned"))
        if self.state(order) in self.withdrawable:
            yield Move("close", what="withdrawn"), world._replace(order=order._replace(closing="withdrawn"))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def broken_in(self, world: World) -> str | None:
        """Which invariant does not hold in this world."""
        order = world.order or Order()
        state = self.state(order)
        asked_for = 1 + resends(order) + world.excess
        ungated = sum(worker.step == "ungated" for worker in world.workers)
        if world.posts - ungated - world.rejections > asked_for:
            return "I1"  # money: posts whose outcome is unknown
        if world.tasks - ungated > (1 if self.dedup else asked_for):
            return "I2"  # tasks: as many as were asked for
        if world.told and (state != "accepted" or not world.told <= order.receipts()):
            return "I3"  # a receipt that was returned stays in the journal
        if world.tasks and not ungated and state not in {"sending", "uncertain", "accepted", "abandoned"}:
            return "I4"  # a task exists: the record does not say that it cannot
        if any(worker.step == "written" and worker.n > len(order.attempts) for worker in world.workers):
            return "I5"  # bytes have left: the attempt is in the journal
        return None

    def broken_by(self, before: World, move: Move, after: World) -> str | None:
        """Which invariant does not hold for this step."""
        old, new = before.order, after.order
        if old is new or old is None or new is None:
            return None
        for was, becomes in zip(old.attempts, new.attempts, strict=False):
            if was != becomes and becomes.outcome not in GROWS_TO.get(was.outcome, ()):
                return "I7"  # knowledge never shrinks
        if move.rule == "begin" and move.what == "create" and old.closing:
            return "I6"  # no call sends an order that a person has closed
        if move == Move("close", what="withdrawn") and outcomes(old) & {"sending", "uncertain", "accepted"}:
            return "I6"  # what may have been sent is not withdrawn
        if self.state(old) == "uncertain" != self.state(new):
            added = new.attempts[len(old.attempts) :]
            is_word = new.closing != old.closing or any(attempt.kind != "create" for attempt in added)
            if not is_word and move.rule not in {"settle", "force"}:
                return "I8"  # uncertain ends by evidence, or by a person's word in the journal
        return None


def outcomes(order: Order) -> set[str]:
    return {attempt.outcome for attempt in order.attempts}


def resends(order: Order) -> int:
    """How often a person decided on a resend: two who had seen the same attempts decided the same."""
    return len({attempt.knew for attempt in order.attempts if attempt.kind == "resend"})


def moved(world: World, worker: Worker, after: Worker, **changes: object) -> World:
    """The world once this worker has moved on."""
    workers = list(world.workers)
    workers[workers.index(worker)] = after
    return world._replace(workers=tuple(sorted(workers)), **changes)


class Search(NamedTuple):
    """All that can happen: every world that can be reached, with a step that leads there first."""

    came_from: dict[World, tuple[World, Move] | None]
    broken: str | None = None
    """The first invariant that was found broken, by the shortest path."""
    path: tuple[Move, ...] = ()

    def path_to(self, world: World) -> tuple[Move, ...]:
        """The shortest one."""
        moves = []
        while (step := self.came_from[world]) is not None:
            world, move = step
            moves.append(move)
        return tuple(reversed(moves))


def search(design: Design) -> Search:
    """Breadth first, until everything was seen or an invariant is broken."""
    start = design.start()
    found = Search({start: None})
    todo = deque([start])
    while todo:
        world = todo.popleft()
        for move, after in design.moves(world):
            broken = design.broken_by(world, move, after)
            is_new = after not in found.came_from
            if is_new:
                found.came_from[after] = (world, move)
                todo.append(after)
                broken = broken or design.broken_in(after)
            if broken is not None:
                return found._replace(broken=broken, path=(*found.path_to(world), move))
    return found


@cache
def search_all(*, workers: int, resends: int, attempts: int) -> Search:
    """The search of the design itself, once for all who ask."""
    return search(Design(workers=workers, resends=resends, attempts=attempts))

"""Receipt by confirmation as a model of its own: two orders of one account, answered without a task id where it should
be, and workers that send them, die, or ask for what the answers name.

The service makes task ``a`` of order 0 and ``b`` of order 1; ``old`` is a task from before. An answer may name any of
them, also of the other order, which no one order can see. A task that was made can be asked for some time later, and
sooner than those who ask give up. An attempt and its order are one here: what a person may do is in ``model``.
"""

from collections.abc import Iterator
from typing import NamedTuple

OWN = ("a", "b")
OLD = "old"


class Order(NamedTuple):
    outcome: str = ""
    """Nothing was sent; else *sending*, *uncertain* or *accepted*."""
    candidates: tuple[str, ...] = ()
    receipt: str = ""


class Worker(NamedTuple):
    """One that is idle; has written (the request of an order has left); was answered (with these names); is asking (for
    these names, of which one was found); or has found the only one that there is."""

    step: str = "idle"
    n: int = 0
    names: tuple[str, ...] = ()
    found: str = ""


class World(NamedTuple):
    orders: tuple[Order, ...] = (Order(), Order())
    workers: tuple[Worker, ...] = ()
    """Sorted: which is which makes no difference."""
    tasks: frozenset[str] = frozenset({OLD})
    """Those that can be asked for."""
    made: frozenset[str] = frozenset()
    """Those that cannot be asked for yet."""
    posts: tuple[int, ...] = (0, 0)

    @property
    def order(self) -> tuple[Order, ...]:
        """All that is in the journal."""
        return self.orders


class Move(NamedTuple):
    """What happened: the rule, the order that it is about, and the names of an answer or the task of a receipt."""

    rule: str
    n: int = 0
    names: tuple[str, ...] = ()
    task: str = ""


Moves = Iterator[tuple[Move, World]]


class Design:
    """The rules that the package promises to keep."""

    workers = 1

    def __init__(self, *, workers: int | None = None) -> None:
        self.workers = workers or self.workers

    def start(self) -> World:
        return World(workers=(Worker(),) * self.workers)

    def moves(self, world: World) -> Moves:
        rules = {
            "idle": (self.begin, self.ask),
            "written": (self.answer, self.crash),
            "answered": (self.settle, self.crash),
            "asking": (
                self.receive,
                self.crash,
            ),  # also ended by a network fault, or any answer but a task and 404
            "found": (self.confirm, self.crash),
        }
        for i, worker in enumerate(world.workers):
            if i == 0 or worker != world.workers[i - 1]:
                for rule in rules[worker.step]:
                    yield from rule(world, worker)
        yield from self.expire(world)
        for task in world.made:
            yield Move("appear", task=task), world._replace(tasks=world.tasks | {task}, made=world.made - {task})

    # -- one create ----------------------------------------------------------------------------------------------------

    def begin(self, world: World, worker: Worker) -> Moves:
        """The attempt is recorded, and the request leaves."""
        for n, order in enumerate(world.orders):
            if not order.outcome:
                posts = tuple(count + (i == n) for i, count in enumerate(world.posts))
                after = recorded(world, n, order._replace(outcome="sending"))._replace(posts=posts)
                yield Move("begin", n), moved(after, worker, Worker("written", n))

    def answer(self, world: World, worker: Worker) -> Moves:
        """The service makes a task or does not, and its answer names what it names; or the answer is lost."""
        own, other = OWN[worker.n], OWN[1 - worker.n]
        made = world._replace(made=world.made | {own})
        for names in ((), (own,), (own, other), (own, OLD), (other,), (OLD,)):
            yield Move("answer", worker.n, names), moved(made, worker, Worker("answered", worker.n, names))
        yield Move("answer", worker.n, task=own), moved(made, worker, Worker("answered", worker.n, found=own))
        for names in ((), (other,), (OLD,)):
            yield Move("answer", worker.n, names), moved(world, worker, Worker("answered", worker.n, names))

    def settle(self, world: World, worker: Worker) -> Moves:
        """The answer is recorded before any GET is sent: a receipt, or its candidates."""
        after = self.with_evidence(world.orders[worker.n], worker.names, worker.found)
        move = Move("settle", worker.n, worker.names, worker.found)
        yield move, moved(recorded(world, worker.n, after), worker, Worker())

    def with_evidence(self, order: Order, candidates: tuple[str, ...], receipt: str = "") -> Order:
        """Knowledge of an attempt only grows; that there was an answer is knowledge too."""
        if order.outcome == "accepted":
            return order
        if receipt:
            return order._replace(outcome="accepted", receipt=receipt)
        return order._replace(outcome="uncertain", candidates=order.candidates or candidates)

    def crash(self, world: World, worker: Worker) -> Moves:
        yield Move("crash"), moved(world, worker, Worker())

    def expire(self, world: World) -> Moves:
        """The order is read after its deadline."""
        for n, order in enumerate(world.orders):
            if order.outcome == "sending":
                yield Move("expire", n), recorded(world, n, self.with_evidence(order, ()))

    # -- confirmation --------------------------------------------------------------------------------------------------

    def ask(self, world: World, worker: Worker) -> Moves:
        """A worker that reads an uncertain order with candidates queries them."""
        for n, order in enumerate(world.orders):
            if order.outcome == "uncertain" and order.candidates:
                yield Move("ask", n), moved(world, worker, Worker("asking", n, order.candidates))

    def receive(self, world: World, worker: Worker) -> Moves:
        """The service knows a name, or not until the end; two that it knows prove nothing."""
        for name in worker.names:
            rest = tuple(other for other in worker.names if other != name)
            if name in world.tasks:
                after = Worker() if worker.found else worker._replace(names=rest, found=name)
                yield Move("receive", worker.n, task=name), moved(world, worker, after)
            elif self.is_unknown(world, name):
                yield Move("unknown", worker.n, task=name), moved(world, worker, worker._replace(names=rest))
        if not worker.names:
            yield from self.decide(world, worker)

    def is_unknown(self, world: World, name: str) -> bool:
        """404 until those who ask give up."""
        return name not in world.tasks | world.made

    def decide(self, world: World, worker: Worker) -> Moves:
        """Exactly one was found; it must be of this order's time."""
        is_receipt = worker.found not in {"", OLD}
        yield Move("decide", worker.n), moved(world, worker, worker._replace(step="found") if is_receipt else Worker())

    def confirm(self, world: World, worker: Worker) -> Moves:
        """In one transaction: unless the other order has the task, it is the receipt."""
        after = self.confirmed(world.orders, worker.n, worker.found)
        yield Move("confirm", worker.n, task=worker.found), moved(world._replace(orders=after), worker, Worker())

    def confirmed(self, orders: tuple[Order, ...], n: int, task: str) -> tuple[Order, ...]:
        if self.is_claimed(orders[1 - n], task):
            return orders
        after = self.with_evidence(orders[n], (), task)
        return tuple(after if i == n else order for i, order in enumerate(orders))

    def is_claimed(self, other: Order, task: str) -> bool:
        return task in {*other.candidates, other.receipt}

    # -- what must hold ------------------------------------------------------------------------------------------------

    def broken_in(self, world: World) -> str | None:
        if max(world.posts) > 1:
            return "C1"  # no path of a confirmation sends anything
        for worker in world.workers:
            if worker.step == "asking" and not set(worker.names) <= set(world.orders[worker.n].candidates):
                return "C2"  # the queried candidates are in the journal: a crash here loses nothing
        return None

    def broken_by(self, before: World, move: Move, after: World) -> str | None:
        for was, becomes in zip(before.orders, after.orders, strict=True):
            if (was.candidates and was.candidates != becomes.candidates) or (was.receipt not in {"", becomes.receipt}):
                return "C3"  # knowledge never shrinks
        order = after.orders[move.n]
        if move.rule == "settle" and move.names and not (order.candidates or order.receipt):
            return "C4"  # an answer that came is in the journal, however late
        if move.rule == "confirm" and before.orders != after.orders and is_avoidable(before.orders, move):
            return "C5"  # nobody gets a task of which it can be known that it is another's
        return None


def is_avoidable(orders: tuple[Order, ...], move: Move) -> bool:
    """Whether it can be known that the task is not this order's: its own is in the same answer, or is an older one, or
    the answer to the other order is in the journal and names it."""
    own, other = orders[move.n], orders[1 - move.n]
    is_wrong = move.task != OWN[move.n]
    return is_wrong and (OWN[move.n] in own.candidates or move.task in {OLD, *other.candidates, other.receipt})


def recorded(world: World, n: int, order: Order) -> World:
    return world._replace(orders=tuple(order if i == n else known for i, known in enumerate(world.orders)))


def moved(world: World, worker: Worker, after: Worker) -> World:
    """The world once this worker has moved on."""
    workers = list(world.workers)
    workers[workers.index(worker)] = after
    return world._replace(workers=tuple(sorted(workers)))


# -- designs with one rule broken --------------------------------------------------------------------------------------


class FirstFoundIsBelieved(Design):
    dies_by = "C5"

    def receive(self, world: World, worker: Worker) -> Moves:
        yield from super().receive(world, worker)
        if worker.found and worker.names:
            yield from self.decide(world, worker)


class FaultTakenForUnknown(Design):
    """A timeout, or a 502, is as good as a 404."""

    dies_by = "C5"

    def is_unknown(self, world: World, name: str) -> bool:
        return True


class UnknownAtOnce(Design):
    """A 404 is believed at once."""

    dies_by = "C5"

    def is_unknown(self, world: World, name: str) -> bool:
        return name not in world.tasks


class OldTasksCount(Design):
    """When a task was created is not looked at."""

    dies_by = "C5"

    def decide(self, world: World, worker: Worker) -> Moves:
        yield (
            Move("decide", worker.n),
            moved(world, worker, worker._replace(step="found") if worker.found else Worker()),
        )


class CandidatesOfOthersIgnored(Design):
    dies_by = "C5"

    def is_claimed(self, other: Order, task: str) -> bool:
        return task == other.receipt


class ReceiptsOfOthersIgnored(Design):
    dies_by = "C5"

    def is_claimed(self, other: Order, task: str) -> bool:
        return task in other.candidates


class CheckedBeforeTheTransaction(Design):
    """Another order's answer is recorded between the check and the write."""

    dies_by = "C5"
    workers = 2

    def decide(self, world: World, worker: Worker) -> Moves:
        if not super().is_claimed(world.orders[1 - worker.n], worker.found):
            yield from super().decide(world, worker)

    def is_claimed(self, other: Order, task: str) -> bool:
        return False


class AsksBeforeItSettles(Design):
    """The attempt is settled once, with the outcome of the confirmation."""

    dies_by = "C2"

    def settle(self, world: World, worker: Worker) -> Moves:
        if worker.names:
            yield Move("ask", worker.n), moved(world, worker, worker._replace(step="asking"))
        else:
            yield from super().settle(world, worker)


class ConfirmationSends(Design):
    """None of the candidates is known: so the create is sent again."""

    dies_by = "C1"

    def decide(self, world: World, worker: Worker) -> Moves:
        if worker.found:
            yield from super().decide(world, worker)
        else:
            posts = tuple(count + (i == worker.n) for i, count in enumerate(world.posts))
            yield Move("resend", worker.n), moved(world._replace(posts=posts), worker, Worker("written", worker.n))


class NothingFoundIsNotSent(Design):
    """None of the candidates is known: so the service has nothing of it."""

    dies_by = "C1"

    def decide(self, world: World, worker: Worker) -> Moves:
        after = world if worker.found else recorded(world, worker.n, world.orders[worker.n]._replace(outcome=""))
        yield from super().decide(after, worker)


class LateAnswerDropped(Design):
    """After its deadline an attempt is uncertain, and that is all."""

    dies_by = "C4"

    def with_evidence(self, order: Order, candidates: tuple[str, ...], receipt: str = "") -> Order:
        if order.outcome == "uncertain" and not receipt:
            return order
        return super().with_evidence(order, candidates, receipt)


class CandidatesForgotten(Design):
    """A deadline that is noticed late overwrites the answer."""

    dies_by = "C3"

    def expire(self, world: World) -> Moves:
        for n, order in enumerate(world.orders):
            if order.outcome in {"sending", "uncertain"}:
                yield Move("expire", n), recorded(world, n, Order("uncertain"))


MUTANTS = tuple(Design.__subclasses__())

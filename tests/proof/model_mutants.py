"""Designs with one rule broken, as people have shipped them. Each names the invariant that finds it out first."""

from collections.abc import Iterator

from tests.proof.model import Attempt, Design, Move, Moves, Order, Worker, World, moved


class AutoRetry(Design):
    """An answer that was lost is asked for again."""

    dies_by = "I1"

    def settle(self, world: World, order: Order, worker: Worker) -> Moves:
        if worker.what == "lost":
            yield Move("retry"), moved(world, worker, Worker("claimed", worker.n))
        else:
            yield from super().settle(world, order, worker)


class ReclaimAfterDeadline(Design):
    """A lock that is old is taken over."""

    dies_by = "I1"

    def look(self, world: World, order: Order, worker: Worker) -> Moves:
        yield from super().look(world, order, worker)
        for n, attempt in enumerate(order.attempts, start=1):
            if attempt.outcome == "sending":
                yield Move("reclaim", n), moved(world, worker, Worker("claimed", n))


class IntentAfterSend(Design):
    """The attempt is recorded with its outcome."""

    dies_by = "I5"

    def begin(self, world: World, order: Order, worker: Worker) -> Moves:
        if self.matches(order, worker) and worker.n < self.attempts:
            yield Move("connect"), moved(world, worker, Worker("claimed", worker.n + 1))

    def with_evidence(self, order: Order, n: int, outcome: str, task: str = "") -> Order:
        if n > len(order.attempts):
            return order.with_attempt(Attempt("create", outcome, task, knew=len(order.attempts)))
        return super().with_evidence(order, n, outcome, task)


class RecoveryAssumesNotSent(Design):
    """What a dead worker had begun is taken for not sent."""

    dies_by = "I1"

    def crash(self, world: World, order: Order, worker: Worker) -> Moves:
        after = order
        if worker.step in {"claimed", "written"} and order.attempts[worker.n - 1].outcome == "sending":
            after = self.with_evidence(order, worker.n, "not_sent")
        yield Move("recover"), moved(world, worker, Worker(), order=after)


class UncertainTakenForRejected(Design):
    """A lost answer is a failure like any other."""

    dies_by = "I4"

    def with_evidence(self, order: Order, n: int, outcome: str, task: str = "") -> Order:
        return super().with_evidence(order, n, "rejected" if outcome == "uncertain" else outcome, task)


class NewKeyForEachSend(Design):
    """A resend is a new request to the service, which would have known the key."""

    dies_by = "I2"

    def answer(self, world: World, order: Order, worker: Worker) -> Moves:
        yield from Design(dedup=False).answer(world, order, worker)


class LateReceiptDropped(Design):
    """After its deadline an attempt is over."""

    dies_by = "I3"

    def with_evidence(self, order: Order, n: int, outcome: str, task: str = "") -> Order:
        is_late = order.attempts[n - 1].outcome != "sending"
        return order if is_late else super().with_evidence(order, n, outcome, task)


class LastAttemptWins(Design):
    """The state is a field that the last writer sets."""

    dies_by = "I6"

    def state_of(self, order: Order) -> str:
        return super().state_of(order._replace(attempts=order.attempts[-1:]))


class LatestNewsWin(Design):
    """An attempt may also lose knowledge: a deadline that fires late hides a receipt."""

    dies_by = "I7"

    def expire(self, world: World, order: Order) -> Moves:
        for n, attempt in enumerate(order.attempts, start=1):
            after = attempt._replace(outcome="uncertain", task="")
            attempts = (*order.attempts[: n - 1], after, *order.attempts[n:])
            yield Move("expire", n), world._replace(order=order._replace(attempts=attempts))


class UncertainTimesOut(Design):
    """After long enough an uncertain order is taken for one that was never made."""

    dies_by = "I8"

    def expire(self, world: World, order: Order) -> Moves:
        yield from super().expire(world, order)
        for n, attempt in enumerate(order.attempts, start=1):
            if attempt.outcome == "uncertain":
                yield Move("expire", n), world._replace(order=self.with_evidence(order, n, "not_sent"))


class UncertainIsSentAgain(Design):
    """A second call takes up an uncertain order, since the key is the same."""

    dies_by = "I8"

    sendable = Design.sendable | {"uncertain"}


class AbandonHidesReceipt(Design):
    """A person's word is the last one."""

    dies_by = "I3"

    def state_of(self, order: Order) -> str:
        return order.closing or super().state_of(order)


class AdoptDropsLateReceipt(Design):
    """Once a task was adopted, nothing more is learned."""

    dies_by = "I3"

    def with_evidence(self, order: Order, n: int, outcome: str, task: str = "") -> Order:
        is_adopted = any(attempt.kind == "adopt" for attempt in order.attempts)
        return order if is_adopted else super().with_evidence(order, n, outcome, task)


class ResendWithoutExpectedAttempt(Design):
    """Of two people who decide on the same resend both send."""

    dies_by = "I1"

    def matches(self, order: Order, worker: Worker) -> bool:
        if worker.what == "resend":
            return self.state(order) in self.resendable
        return super().matches(order, worker)


class WithdrawWhileSending(Design):
    """An order that is being sent can be taken back."""

    dies_by = "I6"

    withdrawable = Design.withdrawable | {"sending"}


class WithdrawnIsSent(Design):
    """A worker that read the order before the decision sends nevertheless: it uses the earlier record."""

    dies_by = "I6"

    def matches(self, order: Order, worker: Worker) -> bool:
        return super().matches(order._replace(closing=""), worker)


class ClaimAfterTheGateBelieved(Design):
    """What a transport says of an answer that did not come counts, although its request had left."""

    dies_by = "I4"

    def settle(self, world: World, order: Order, worker: Worker) -> Moves:
        yield from super().settle(world, order, worker)
        if worker.what == "lost":
            yield from self.stay(world, order, worker)


MUTANTS = tuple(Design.__subclasses__())


# -- of a design whose transports need not wait for the gate -----------------------------------------------------------


class WithdrawnHidesUncertain(Design):
    """Only what has not left can be withdrawn, so nothing of it can be uncertain."""

    dies_by = "I4"

    def state_of(self, order: Order) -> str:
        state = super().state_of(order)
        return order.closing if order.closing and state == "uncertain" else state


class ClaimBelieved(Design):
    """An error of a transport that did not wait for the gate says that nothing left."""

    dies_by = "I4"

    def force(self, world: World, order: Order, worker: Worker) -> Moves:
        yield Move("believe"), moved(world, worker, Worker())


class ClaimsSentAgain(ClaimBelieved):
    """The same, and the service has lost each of the requests."""

    dies_by = "I1"

    def fates(self, world: World) -> Iterator[tuple[str, int, int]]:
        yield "lost", world.tasks, 0


class UngatedOnlyWhereItSuits(Design):
    """Its attempt is recorded as every other: if nobody was faster."""

    dies_by = "I4"

    def force(self, world: World, order: Order, worker: Worker) -> Moves:
        if self.matches(order, worker):
            yield from super().force(world, order, worker)
        else:
            yield Move("give up"), moved(world, worker, Worker())


UNGATED_MUTANTS = (WithdrawnHidesUncertain, ClaimBelieved, ClaimsSentAgain, UngatedOnlyWhereItSuits)

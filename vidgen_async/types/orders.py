"""An order is a fold over its attempts.

An attempt is one permission to send one POST. What is known of it only grows::

    sending ──► not sent | uncertain | rejected | accepted
    uncertain ──► uncertain, with an answer | not sent | rejected | accepted          (a late receipt always wins)

The order's state is computed from its attempts and is never a field that the last writer sets: a resend that is
refused does not hide that the first attempt, still uncertain, may have made a task.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import evolve, field, frozen

from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import Extra, Receipt


class AttemptOutcome(StrEnum):
    """What is known of one attempt."""

    SENDING = "sending"
    """A byte may have left; no outcome is known yet. Past its deadline it reads as uncertain."""
    NOT_SENT = "not_sent"
    UNCERTAIN = "uncertain"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


class OrderState(StrEnum):
    """The state of an order: see :func:`fold`."""

    QUEUED = "queued"
    """On record; no byte has left."""
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    REJECTED = "rejected"
    ACCEPTED = "accepted"
    ABANDONED = "abandoned"
    """A person gave up an uncertain order: it is never sent again, whatever is learned of it. A late receipt still
    wins."""
    WITHDRAWN = "withdrawn"
    """A person took back an order that had not been sent."""


#: A time that lies so far ahead is no slow caller's: the clock was set back.
SET_BACK = timedelta(minutes=5)

_INSTANT = timedelta(microseconds=1)

#: It is proven that the service has nothing of such an order: an explicit call may send it.
SENDABLE = frozenset({OrderState.QUEUED, OrderState.REJECTED})

_GROWS_TO = {
    AttemptOutcome.SENDING: frozenset(AttemptOutcome) - {AttemptOutcome.SENDING},
    AttemptOutcome.UNCERTAIN: frozenset({AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED, AttemptOutcome.ACCEPTED}),
}


def may_become(known: AttemptOutcome, news: AttemptOutcome) -> bool:
    """Whether ``news`` adds knowledge about an attempt of which ``known`` is known."""
    return news in _GROWS_TO.get(known, ())


def fold(outcomes: Iterable[AttemptOutcome]) -> OrderState:
    """The state of an order with these attempts, in any order: the most dangerous thing that may be true."""
    seen = set(outcomes)
    for outcome, state in (
        (AttemptOutcome.ACCEPTED, OrderState.ACCEPTED),
        (AttemptOutcome.SENDING, OrderState.SENDING),
        (AttemptOutcome.UNCERTAIN, OrderState.UNCERTAIN),
        (AttemptOutcome.REJECTED, OrderState.REJECTED),
    ):
        if outcome in seen:
            return state
    return OrderState.QUEUED


@frozen(kw_only=True)
class Balance:
    """What the account held at one moment: all numbers in an answer of GET /account (4.2), whose field names are not
    documented, by their paths in it."""

    at: datetime
    numbers: Mapping[str, float] = field(hash=False)


@frozen(kw_only=True)
class Evidence:
    """What became of an attempt: written once something is known."""

    outcome: AttemptOutcome
    at: datetime
    status: int | None = None
    """HTTP status of the answer, if one came."""
    task_id: str | None = None
    cause: str = ""
    """One sentence, without secrets."""
    body: bytes = field(default=b"", repr=False)
    """The answer's body as far as it came, for outcomes that only a person can judge."""
    extra: Extra = field(factory=dict, hash=False, repr=False)
    """What the answer held beside the task id."""
    answered: bool = False
    """An answer came, so the service has counted this create by now."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Of the answer to an uncertain create, without secrets."""
    request_id: str | None = None
    """The service's own id of the request, if the answer gave one."""
    candidates: tuple[str, ...] = ()
    """Values in the answer to an uncertain create that may be the id of its task."""
    balance_before: Balance | None = None
    """The last one that was known when an uncertain create was sent."""
    balance_after: Balance | None = None
    """Read soon after an uncertain create. Other orders of the account, refunds and late charges count in it too: it
    proves nothing, and nothing is decided by it."""


@frozen(kw_only=True)
class Attempt:
    """One permission to send the order's POST once; or a person's word that a task is the order's (kind ``adopt``),
    with which nothing is sent and which takes nothing from what is known of the sends."""

    n: int
    """1, 2, 3 …"""
    sent_at: datetime
    """When it was written down, just before the first byte."""
    deadline_at: datetime
    """From then on, without an outcome, it is uncertain."""
    kind: str = "create"
    """``create``; ``resend`` or ``adopt`` by a person."""
    by: str = ""
    """Who asked for a resend, or adopted a task."""
    reason: str = ""
    evidence: Evidence | None = None

    @property
    def outcome(self) -> AttemptOutcome:
        """What is known of it; *sending* while nothing is."""
        return AttemptOutcome.SENDING if self.evidence is None else self.evidence.outcome

    @property
    def waited(self) -> float | None:
        """For how many seconds an answer was awaited; None while it is, for an adoption, and where whoever waited is
        gone or the clock was set."""
        evidence = self.evidence
        if evidence is None or self.kind == "adopt":
            return None
        if evidence.status is None and not self.sent_at <= evidence.at <= self.deadline_at:
            return None
        return max((evidence.at - self.sent_at).total_seconds(), 0.0)

    @property
    def counted_at(self) -> datetime | None:
        """The latest moment at which the service can have counted it for the rolling limit: its answer, else its
        deadline; None when nothing of it was sent."""
        evidence = self.evidence
        if evidence is None:
            return self.deadline_at
        if evidence.outcome is AttemptOutcome.NOT_SENT or self.kind == "adopt":
            return None
        return evidence.at if evidence.answered else self.deadline_at

    def correct_count(self, counted_at: datetime, now: datetime) -> datetime:
        """The stored ``counted_at``, corrected if it lies too far ahead: the clock was set back, and nobody should
        wait for a day that has not come yet. What was answered was counted by ``now``; what was not, within its
        deadline."""
        is_answered = self.evidence is not None and self.evidence.answered
        latest = now if is_answered else now + (self.deadline_at - self.sent_at)
        return latest if counted_at > latest + SET_BACK else counted_at

    def learned(self, evidence: Evidence) -> "Attempt":
        """This attempt with the evidence, if it adds knowledge; else this attempt as it is. To an uncertain attempt an
        answer adds, even if it is still uncertain with it, and so does the balance."""
        if may_become(self.outcome, evidence.outcome):
            return evolve(self, evidence=evidence)
        known = self.evidence
        if known is None or not known.outcome is evidence.outcome is AttemptOutcome.UNCERTAIN:
            return self
        if evidence.answered and not known.answered:
            return evolve(self, evidence=evidence)
        if known.balance_after is None and evidence.balance_after is not None:
            return evolve(self, evidence=evolve(known, balance_after=evidence.balance_after))
        return self


@frozen(kw_only=True)
class OrderRef:
    """The name of an order: unique for ever."""

    service: str
    """The origin of the service, ``https://host[:port]``."""
    account: str
    order_id: str


@frozen(kw_only=True)
class Closing:
    """A person's word about an order: abandoned or withdrawn."""

    state: OrderState
    at: datetime
    reason: str
    by: str = ""


@frozen(kw_only=True)
class Decision:
    """What a person decided about an order, as it is on record."""

    what: str
    """``resend``, ``adopt``, ``abandoned`` or ``withdrawn``."""
    at: datetime
    by: str
    reason: str


@frozen(kw_only=True)
class TaskResult:
    """How a task ended, as it was seen first."""

    task_id: str
    status: str
    """``completed`` or ``failed``."""
    at: datetime
    """When it was seen."""
    points: int | None = None
    failure_reason: str | None = field(default=None, repr=False)


@frozen(kw_only=True)
class RunningTask:
    """A task that an order has, and that was not seen to end."""

    task_id: str
    order_id: str
    accepted_at: datetime
    """When the receipt that names it was learned."""


@frozen(kw_only=True)
class Order:
    """One order = one Idempotency-Key = one body, for ever."""

    ref: OrderRef
    idempotency_key: str = field(repr=False)
    body: bytes = field(repr=False)
    """The exact bytes of every send."""
    created_at: datetime
    attempts: tuple[Attempt, ...] = ()
    closing: Closing | None = None
    results: tuple[TaskResult, ...] = ()
    """How its tasks ended, of those that were seen to end."""

    @property
    def order_id(self) -> str:
        """The caller's own name for it."""
        return self.ref.order_id

    @property
    def body_sha256(self) -> str:
        """Of the bytes of every send, in hex."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def state(self) -> OrderState:
        """The fold over its attempts, or an operator's decision where they leave room for one. A transport that did not
        wait for the gate may have sent an order that was withdrawn meanwhile."""
        state = fold(attempt.outcome for attempt in self.attempts)
        if self.closing is None or state in (OrderState.ACCEPTED, OrderState.SENDING):
            return state
        if self.closing.state is OrderState.WITHDRAWN and state is OrderState.UNCERTAIN:
            return state
        return self.closing.state

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The distinct task ids of all receipts: more than one means that the service made the order twice."""
        return tuple(dict.fromkeys(str(evidence.task_id) for evidence in self._receipts))

    @property
    def receipt(self) -> Receipt | None:
        """The receipt that was learned first, so that it never changes; None while there is none."""
        if not (receipts := self._receipts):
            return None
        first = min(receipts, key=lambda evidence: evidence.at)
        return Receipt(
            order_id=self.order_id,
            idempotency_key=self.idempotency_key,
            task_id=str(first.task_id),
            accepted_at=first.at,
            request_id=first.request_id,
            extra=first.extra,
        )

    @property
    def is_terminal(self) -> bool:
        """It has a task, and all its tasks were seen to end."""
        return bool(self.task_ids) and not self.running_task_ids

    @property
    def running_task_ids(self) -> tuple[str, ...]:
        """Its tasks that were not seen to end."""
        ended = {result.task_id for result in self.results}
        return tuple(task_id for task_id in self.task_ids if task_id not in ended)

    @property
    def unclear(self) -> tuple[Attempt, ...]:
        """The attempts of which nobody knows whether the service took them: each with when it was sent, and its
        evidence (when it was given up, the status and body that came, the cause)."""
        return tuple(attempt for attempt in self.attempts if attempt.outcome is AttemptOutcome.UNCERTAIN)

    @property
    def sending_until(self) -> datetime | None:
        """When it becomes uncertain for want of an outcome, if it is being sent."""
        return sending_until(self.attempts)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Who decided what about it, when and why; oldest first."""
        found = [
            Decision(what=attempt.kind, at=attempt.sent_at, by=attempt.by, reason=attempt.reason)
            for attempt in self.attempts
            if attempt.kind != "create"
        ]
        if (closing := self.closing) is not None:
            found.append(Decision(what=closing.state, at=closing.at, by=closing.by, reason=closing.reason))
        return tuple(sorted(found, key=lambda decision: decision.at))

    @property
    def _receipts(self) -> list[Evidence]:
        known = [attempt.evidence for attempt in self.attempts if attempt.outcome is AttemptOutcome.ACCEPTED]
        return [evidence for evidence in known if evidence is not None and evidence.task_id]

    def with_attempt(self, attempt: Attempt) -> "Order":
        """This order with one more attempt."""
        return evolve(self, attempts=(*self.attempts, attempt))

    def learned(self, n: int, evidence: Evidence) -> "Order":
        """This order with the evidence about attempt ``n``: idempotent, and in any order it gives the same state.

        Of two receipts the one that is learned first stays the receipt, whatever the clocks said: somebody may have
        been told of it. The other counts as having come just after it.
        """
        if evidence.outcome is AttemptOutcome.ACCEPTED and (receipts := self._receipts):
            evidence = evolve(evidence, at=max(evidence.at, *(known.at + _INSTANT for known in receipts)))
        return evolve(
            self,
            attempts=tuple(attempt.learned(evidence) if attempt.n == n else attempt for attempt in self.attempts),
        )

    def expired(self, now: datetime) -> "Order":
        """This order with every *sending* attempt past its deadline as *uncertain*; and one that was sent in days that
        have not come yet, since nobody knows how long ago that was."""
        order = self
        for attempt in self.attempts:
            if attempt.outcome is not AttemptOutcome.SENDING:
                continue
            if now > attempt.deadline_at:
                cause = "no outcome was written before the deadline: the process that sent it is gone or stuck"
            elif now < attempt.sent_at - SET_BACK:
                cause = "the clock was set back since it was sent, and no outcome was written"
            else:
                continue
            order = order.learned(attempt.n, Evidence(outcome=AttemptOutcome.UNCERTAIN, at=now, cause=cause))
        return order


def sending_until(attempts: Iterable[Attempt]) -> datetime | None:
    """When the last of those that are being sent becomes uncertain; None when none is."""
    deadlines = [attempt.deadline_at for attempt in attempts if attempt.outcome is AttemptOutcome.SENDING]
    return max(deadlines, default=None)


def idempotency_key(namespace: str, account: str, order_id: str) -> str:
    """The key of an order: derived, so that it is the same after a crash and even after the journal was lost.

    44 characters (section 8 allows 8 to 100). The namespace is the deployment's own random word; without it two
    deployments on one account could meet in one key.
    """
    digest = hashlib.sha256("\0".join((namespace, account, order_id)).encode()).digest()
    return "vg1-" + base64.b32encode(digest).decode().lower()[:40]


@frozen(kw_only=True)
class Permission:
    """What is asked of :meth:`Journal.begin`: to write attempt ``expect_attempt + 1`` of an order as *sending*."""

    ref: OrderRef
    expect_attempt: int
    """How many attempts the caller has seen; another number means that somebody else was faster."""
    states: Collection[OrderState]
    """The states in which the order may be sent."""
    now: datetime
    deadline_at: datetime
    pacing: Pacing
    kind: str = "create"
    by: str = ""
    reason: str = ""

    def suits(self, order: Order) -> bool:
        """Whether the order is as the caller saw it."""
        return order.state in self.states and len(order.attempts) == self.expect_attempt

    def attempt(self) -> Attempt:
        """The attempt that is asked for."""
        return Attempt(
            n=self.expect_attempt + 1,
            sent_at=self.now,
            deadline_at=self.deadline_at,
            kind=self.kind,
            by=self.by,
            reason=self.reason,
        )

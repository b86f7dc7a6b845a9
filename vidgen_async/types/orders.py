"""An order and its attempts.

An attempt is one permission to send one POST. Information about it is only added::

    sending ──► not sent | uncertain | rejected | accepted
    uncertain ──► uncertain, with a response | not sent | rejected | accepted     (a late receipt has precedence)

The state of an order is computed from its attempts. It is not a field that the last writer sets: a rejected resend
does not hide that the first attempt, still uncertain, may have created a task.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias, cast

from attrs import evolve, field, frozen

from vidgen_async.types.limits import MOST_POINTS, Pacing, Spending, SpendingLimit
from vidgen_async.types.resources import Extra, Receipt, TaskStatus, VideoTask
from vidgen_async.types.serialization import MAY_CONTAIN_SECRETS, SECRET, Serializable


class AttemptOutcome(StrEnum):
    """What is known about one attempt."""

    SENDING = "sending"
    """A byte may have been sent; the outcome is not known yet. After its deadline the attempt is uncertain; with some
    journals also when its sender has ended."""
    NOT_SENT = "not_sent"
    UNCERTAIN = "uncertain"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


class OrderState(StrEnum):
    """The state of an order: see :func:`state_of`."""

    QUEUED = "queued"
    """In the journal; no byte has been sent."""
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    REJECTED = "rejected"
    ACCEPTED = "accepted"
    ABANDONED = "abandoned"
    """An operator gave up an uncertain order: it is never sent again. A late receipt still has precedence."""
    WITHDRAWN = "withdrawn"
    """An operator withdrew an order that had not been sent."""

    @property
    def is_sendable(self) -> bool:
        """Whether ``orders.resume`` sends such an order: for certain, the service created nothing for it."""
        return self in SENDABLE


OrderStateName: TypeAlias = Literal["queued", "sending", "uncertain", "rejected", "accepted", "abandoned", "withdrawn"]
"""The values of :class:`OrderState`, for calls that accept a state by its name."""
OrderStates: TypeAlias = OrderState | OrderStateName | Collection[OrderState | OrderStateName]
"""A state or several, as members or by name."""

Shard: TypeAlias = tuple[int, int]
"""``(i, n)``: the share ``i``, from 0, of ``n`` shares of all tasks."""

AttemptKind: TypeAlias = Literal["create", "resend", "adopt"]
"""What an attempt is: the first send of an order, or an operator's resend or adoption."""
DecisionKind: TypeAlias = Literal["resend", "adopt", "abandoned", "withdrawn"]
"""What an operator decided about an order."""

#: A time that is further in the future than this means that the clock was set back.
SET_BACK = timedelta(minutes=5)

#: The causes of attempts whose outcome was not recorded.
DEADLINE_PASSED = (
    "no outcome was recorded before the deadline: the process that began it may have exited, be stuck, or be unable to "
    "reach the journal"
)
CLOCK_SET_BACK = "the clock was set back since it began, and no outcome was recorded"
SENDER_ENDED = (
    "no outcome was recorded, and the process that began it has ended or has lost its connection to the journal"
)
_NOT_RECORDED = frozenset({DEADLINE_PASSED, CLOCK_SET_BACK, SENDER_ENDED})

#: The states in which the service provably has nothing of the order: an explicit call may send it.
SENDABLE = frozenset({OrderState.QUEUED, OrderState.REJECTED})

_NEXT_OUTCOMES = {
    AttemptOutcome.SENDING: frozenset(AttemptOutcome) - {AttemptOutcome.SENDING},
    AttemptOutcome.UNCERTAIN: frozenset({AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED, AttemptOutcome.ACCEPTED}),
}


def may_become(known: AttemptOutcome, update: AttemptOutcome) -> bool:
    """Return whether ``update`` adds knowledge about an attempt whose outcome is ``known`` so far."""
    return update in _NEXT_OUTCOMES.get(known, ())


def state_of(outcomes: Iterable[AttemptOutcome]) -> OrderState:
    """Return the worst state in which an order whose attempts have these outcomes may be."""
    present = set(outcomes)
    for state in (OrderState.ACCEPTED, OrderState.SENDING, OrderState.UNCERTAIN, OrderState.REJECTED):
        if AttemptOutcome(state) in present:
            return state
    return OrderState.QUEUED


@frozen(kw_only=True)
class Balance(Serializable):
    """The balance of the account at one moment: all numbers in a response of GET /account (4.2), by their paths. The
    names of its fields are not documented."""

    at: datetime
    numbers: Mapping[str, float] = field(hash=False)


@frozen(kw_only=True)
class Evidence(Serializable):
    """What is known about the outcome of an attempt, recorded as soon as anything is known."""

    outcome: AttemptOutcome
    at: datetime
    status: int | None = None
    """HTTP status of the response, if one was received."""
    task_id: str | None = None
    cause: str = ""
    """One sentence, without secrets."""
    body: bytes = field(default=b"", repr=False, metadata=SECRET)
    """The received part of the response body, for outcomes that only an operator can judge."""
    extra: Extra = field(factory=dict, hash=False, repr=False, metadata=MAY_CONTAIN_SECRETS)
    """The fields of the response other than the task id."""
    answered: bool = False
    """Whether a response was received, so that the service has counted this create."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The headers of the response to an uncertain create, without secrets."""
    request_id: str | None = None
    """The service's own id of the request, if the response contains one."""
    candidates: tuple[str, ...] = ()
    """Values in the response to an uncertain create that may be the id of its task."""
    balance_before: Balance | None = None
    """The latest balance that was known when an uncertain create was sent."""
    balance_after: Balance | None = None
    """The balance soon after an uncertain create. Other orders of the account, refunds and late charges change it too:
    it proves nothing, and no decision depends on it."""
    retry_at: datetime | None = None
    """After a 429 in the service's own form: no create of the account starts before this time."""


@frozen(kw_only=True)
class Attempt(Serializable):
    """One permission to send the POST of an order once, or an operator's decision that a task belongs to the order.

    In the latter case (kind ``adopt``) nothing is sent, and what is known about the sends does not change.
    """

    _computed: ClassVar = ("outcome", "wait_time")

    n: int
    """Number of the attempt: 1, 2, 3 …"""
    sent_at: datetime
    """When it was recorded, just before the first byte."""
    deadline_at: datetime
    """After this time it is uncertain, if it has no outcome."""
    kind: AttemptKind = "create"
    """``create``, or an operator's ``resend`` or ``adopt``."""
    by: str = ""
    """Who requested the resend or adopted the task."""
    reason: str = ""
    mark: str = field(default="", repr=False, metadata=SECRET)
    """A random text with which the process that began it recognises it. Its number may be that of another one, if the
    journal lost it."""
    reserved: int | None = None
    """The points that it may cost, as the budget of its client has estimated; None if that is unknown."""
    evidence: Evidence | None = None

    @property
    def outcome(self) -> AttemptOutcome:
        """What is known about it; *sending* while nothing is known."""
        return AttemptOutcome.SENDING if self.evidence is None else self.evidence.outcome

    @property
    def wait_time(self) -> float | None:
        """Seconds from the send until the response arrived or the caller gave up waiting.

        None while the caller waits, for an adoption, and if the waiting process ended or the clock was set.
        """
        evidence = self.evidence
        if evidence is None or self.kind == "adopt" or evidence.cause == SENDER_ENDED:
            return None
        if evidence.status is None and not self.sent_at <= evidence.at <= self.deadline_at:
            return None
        return max((evidence.at - self.sent_at).total_seconds(), 0.0)

    @property
    def counted_at(self) -> datetime | None:
        """The latest time at which the service can have counted it for the rolling limit: the time of the response, or
        else the deadline. None if nothing was sent."""
        evidence = self.evidence
        if evidence is None:
            return self.deadline_at
        if evidence.outcome is AttemptOutcome.NOT_SENT or self.kind == "adopt":
            return None
        return evidence.at if evidence.answered else self.deadline_at

    def correct_counted_at(self, counted_at: datetime, now: datetime) -> datetime:
        """Return the stored ``counted_at``, not in the future even if the clock was set back since."""
        is_answered = self.evidence is not None and self.evidence.answered
        latest = now if is_answered else now + (self.deadline_at - self.sent_at)
        return latest if counted_at > latest + SET_BACK else counted_at

    def compute_cost(self, results: "Iterable[TaskResult]") -> Spending | None:
        """Return what the attempt counts for in a budget, given the known results of tasks; None if it does not."""
        if self.outcome in (AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED):
            return None
        task_id = self.evidence.task_id if self.evidence is not None else None
        points = next((result.points for result in results if result.task_id == task_id), None)
        if points is not None and 0 <= points <= MOST_POINTS:
            return Spending(spent=points)
        return Spending(unknown=1) if self.reserved is None else Spending(reserved=self.reserved)

    def with_evidence(self, evidence: Evidence) -> "Attempt":
        """Return this attempt with the evidence if it adds knowledge, else this attempt unchanged. A response and a
        balance add knowledge to an uncertain attempt, even if it stays uncertain."""
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
class OrderRef(Serializable):
    """The unique name of an order, which is never reused."""

    service: str
    """The origin of the service, ``https://host[:port]``."""
    account: str
    order_id: str


@frozen(kw_only=True)
class Closing(Serializable):
    """An operator's decision that an order is abandoned or withdrawn."""

    state: OrderState
    at: datetime
    reason: str
    by: str = ""


@frozen(kw_only=True)
class Decision(Serializable):
    """An operator's decision about an order, as recorded in the journal."""

    what: DecisionKind
    """``resend``, ``adopt``, ``abandoned`` or ``withdrawn``."""
    at: datetime
    by: str
    reason: str


@frozen(kw_only=True)
class TaskResult(Serializable):
    """The terminal state of a task, as first observed."""

    task_id: str
    status: TaskStatus
    """``completed`` or ``failed``."""
    at: datetime
    """When it was observed."""
    points: int | None = None
    failure_reason: str | None = field(default=None, repr=False, metadata=MAY_CONTAIN_SECRETS)

    @classmethod
    def of(cls, task_id: str, task: VideoTask, at: datetime) -> "TaskResult | None":
        """Return the end of a task that was observed; None if it has not ended."""
        if not task.is_terminal or task.status is None:
            return None
        return cls(task_id=task_id, status=task.status, at=at, points=task.points, failure_reason=task.failure_reason)


@frozen(kw_only=True)
class RunningTask(Serializable):
    """A task of an order whose terminal state has not been observed."""

    task_id: str
    order_id: str
    accepted_at: datetime
    """When the receipt that names it was recorded."""


@frozen(kw_only=True)
class OrderContent(Serializable):
    """What an order asks for."""

    body: bytes = field(repr=False, metadata=SECRET)
    """The exact bytes of the request body, the same in every send."""
    local_images: Mapping[str, str] = field(factory=dict, hash=False)
    """The SHA-256 of each local image that was uploaded for the order, in hexadecimal, by its image id in the body."""


@frozen(kw_only=True)
class Order(OrderContent):
    """One order: one Idempotency-Key and one body, which never change."""

    _computed: ClassVar = ("order_id", "state", "is_terminal", "task_ids", "body_sha256")

    ref: OrderRef
    idempotency_key: str = field(repr=False, metadata=SECRET)
    created_at: datetime
    model: str = ""
    """The model of the request; empty in journals of earlier releases."""
    attempts: tuple[Attempt, ...] = ()
    closing: Closing | None = None
    results: tuple[TaskResult, ...] = ()
    """The terminal states of its tasks, as far as they were observed."""

    @property
    def order_id(self) -> str:
        """The name that the caller chose for the order."""
        return self.ref.order_id

    @property
    def body_sha256(self) -> str:
        """SHA-256 of the request body, in hexadecimal."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def state(self) -> OrderState:
        """The state of its attempts, or an operator's decision unless it is accepted or being sent. (An order that
        is withdrawn while a transport connects is uncertain if it cannot be proven that the transport sent nothing.)"""
        state = state_of(attempt.outcome for attempt in self.attempts)
        if self.closing is None or state in (OrderState.ACCEPTED, OrderState.SENDING):
            return state
        if self.closing.state is OrderState.WITHDRAWN and state is OrderState.UNCERTAIN:
            return state
        return self.closing.state

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The distinct task ids of all receipts. More than one means that the service carried out the order twice."""
        return tuple(dict.fromkeys(str(evidence.task_id) for evidence in self._receipts))

    @property
    def receipt(self) -> Receipt | None:
        """The receipt that was recorded first, so that it never changes; None while there is none."""
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
        """Whether it has a task, and all its tasks are known to be terminal."""
        return bool(self.task_ids) and not self.running_task_ids

    @property
    def running_task_ids(self) -> tuple[str, ...]:
        """The ids of its tasks that are not known to be terminal."""
        terminal = {result.task_id for result in self.results}
        return tuple(task_id for task_id in self.task_ids if task_id not in terminal)

    @property
    def unclear(self) -> tuple[Attempt, ...]:
        """The uncertain attempts: the service may have accepted them. Each has the time of its send, and its evidence
        (when the caller gave up waiting, the status and body that were received, the cause)."""
        return tuple(attempt for attempt in self.attempts if attempt.outcome is AttemptOutcome.UNCERTAIN)

    @property
    def sending_until(self) -> datetime | None:
        """When it becomes uncertain unless its outcome is recorded before; None if it is not being sent."""
        deadlines = [one.deadline_at for one in self.attempts if one.outcome is AttemptOutcome.SENDING]
        return max(deadlines, default=None)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The operators' decisions about it, oldest first."""
        decisions = [
            Decision(what=attempt.kind, at=attempt.sent_at, by=attempt.by, reason=attempt.reason)
            for attempt in self.attempts
            if attempt.kind != "create"
        ]
        if (closing := self.closing) is not None:
            what = cast("DecisionKind", closing.state)
            decisions.append(Decision(what=what, at=closing.at, by=closing.by, reason=closing.reason))
        return tuple(sorted(decisions, key=lambda decision: decision.at))

    @property
    def _receipts(self) -> list[Evidence]:
        accepted = [attempt.evidence for attempt in self.attempts if attempt.outcome is AttemptOutcome.ACCEPTED]
        return [evidence for evidence in accepted if evidence is not None and evidence.task_id]

    def find(self, mark: str) -> Attempt | None:
        """Return the attempt with this mark."""
        return next((attempt for attempt in self.attempts if attempt.mark == mark), None)

    def with_attempt(self, attempt: Attempt) -> "Order":
        """Return this order with one more attempt."""
        return evolve(self, attempts=(*self.attempts, attempt))

    def with_evidence(self, n: int, evidence: Evidence) -> "Order":
        """Return this order with the evidence about attempt ``n``. It is idempotent, and the sequence of calls does not
        change the resulting state.

        Of two receipts the one recorded first remains the receipt, even if the clocks disagree, because a caller may
        already have it. The other one is dated just after it.
        """
        if evidence.outcome is AttemptOutcome.ACCEPTED and (receipts := self._receipts):
            soonest = max(known.at for known in receipts) + timedelta(microseconds=1)
            evidence = evolve(evidence, at=max(evidence.at, soonest))
        attempts = [attempt.with_evidence(evidence) if attempt.n == n else attempt for attempt in self.attempts]
        return evolve(self, attempts=tuple(attempts))

    def as_of(self, now: datetime, ended: Collection[int] = ()) -> "Order":
        """Return this order as it is at ``now``: a *sending* attempt after its deadline is *uncertain*. So is one whose
        ``sent_at`` is in the future, because the time since then is unknown, and one of the numbers ``ended``, whose
        senders have ended."""
        order = self
        for attempt in self.attempts:
            if attempt.outcome is not AttemptOutcome.SENDING:
                continue
            if now > attempt.deadline_at:
                cause = DEADLINE_PASSED
            elif now < attempt.sent_at - SET_BACK:
                cause = CLOCK_SET_BACK
            elif attempt.n in ended:
                cause = SENDER_ENDED
            else:
                continue
            order = order.with_evidence(attempt.n, Evidence(outcome=AttemptOutcome.UNCERTAIN, at=now, cause=cause))
        return order

    def found_uncertain(self, now: datetime) -> Iterator[tuple[int, Evidence]]:
        """Yield the number and the evidence of each attempt that became uncertain by :meth:`as_of` at ``now``."""
        for attempt in self.attempts:
            if attempt.evidence is not None and attempt.evidence.at == now and attempt.evidence.cause in _NOT_RECORDED:
                yield attempt.n, attempt.evidence


@frozen(kw_only=True)
class OrderSummary(Serializable):
    """The state of an order, without what it asks for."""

    order_id: str
    model: str
    """The model of the request; empty in journals of earlier releases."""
    created_at: datetime
    state: OrderState
    attempts: int
    """Number of attempts."""
    task_ids: tuple[str, ...]
    task_status: TaskStatus | None
    """``completed`` or ``failed``: of the task that was seen to end last. None if none was."""
    points: int | None
    """The points of its tasks, as far as the service has stated them; None if it has stated none."""

    @classmethod
    def of(cls, order: Order) -> "OrderSummary":
        """Return the summary of an order."""
        points = [result.points for result in order.results if result.points is not None]
        return cls(
            order_id=order.order_id,
            model=order.model,
            created_at=order.created_at,
            state=order.state,
            attempts=len(order.attempts),
            task_ids=order.task_ids,
            task_status=max(order.results, key=lambda result: result.at).status if order.results else None,
            points=sum(points) if points else None,
        )


@frozen(kw_only=True)
class Spend:
    """What attempts of one model have cost that were sent in the same quarter of an hour, and are in the same state."""

    model: str
    state: str
    """``completed`` or ``failed`` where the task has ended; else the outcome of the attempt where the order has a task;
    else the state of the order."""
    start: datetime
    attempts: int
    """Number of attempts that count: not those of which it is certain that they cost nothing."""
    tasks: int
    """Number of those that the service has accepted; each task once."""
    spending: Spending


def idempotency_key(namespace: str, account: str, order_id: str) -> str:
    """Return the Idempotency-Key of an order (section 8: 8 to 100 characters), the same after a crash.

    The namespace is random for each deployment: without it, two that use one account could derive the same key.
    """
    digest = hashlib.sha256("\0".join((namespace, account, order_id)).encode()).digest()
    return "vg1-" + base64.b32encode(digest).decode().lower()[:40]


@frozen(kw_only=True)
class Permission:
    """A request to :meth:`Journal.begin`: record attempt ``expect_attempt + 1`` of an order as *sending*."""

    ref: OrderRef
    expect_attempt: int
    """The number of attempts that the caller has read. If the order has more, another caller was faster."""
    states: Collection[OrderState]
    """The states in which the order may be sent."""
    now: datetime
    deadline_at: datetime
    pacing: Pacing | None
    """None if the attempt is recorded whatever the limit is, because it may have been sent already."""
    kind: AttemptKind = "create"
    by: str = ""
    reason: str = ""
    mark: str = ""
    reserved: int | None = None
    """The points that the attempt may cost; None if that is unknown."""
    limits: Collection[SpendingLimit] = ()
    """The limits of points that must allow the attempt."""

    def matches(self, order: Order) -> bool:
        """Return whether the order is as the caller has read it."""
        return order.state in self.states and len(order.attempts) == self.expect_attempt

    def make_attempt(self) -> Attempt:
        """Return the attempt to record."""
        return Attempt(
            n=self.expect_attempt + 1,
            sent_at=self.now,
            deadline_at=self.deadline_at,
            kind=self.kind,
            by=self.by,
            reason=self.reason,
            mark=self.mark,
            reserved=self.reserved,
        )

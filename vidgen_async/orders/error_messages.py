"""The messages of errors about orders: what is known, and what to do next. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from vidgen_async.errors import (
    CreateError,
    InvalidRequestError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    ServiceError,
    StillSendingError,
    UncertainCreateError,
)
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.service.error_responses import rejected_error
from vidgen_async.types.orders import SET_BACK, Attempt, AttemptOutcome, Order, OrderState, OrderStates, Shard, state_of
from vidgen_async.types.resources import VideoRequest, VideoTask

#: By how much the service's clock and this one may differ.
CLOCKS_APART = timedelta(hours=1)
WHAT_TO_DO = "Check the account, then call orders.adopt(…), orders.abandon(…) or an explicit orders.resend(…)."
NOT_AUTOMATIC = "The order is not sent again without your decision."
CALL_AGAIN = "Calling again with the same order id is safe."


def facts(order: Order) -> dict[str, Any]:
    """What every CreateError knows."""
    return {"order_id": order.order_id, "idempotency_key": order.idempotency_key, "attempts": order.attempts}


def uncertain(order: Order, refusal: ServiceError | None = None) -> UncertainCreateError:
    """Whether the service accepted the order is unknown. ``refusal`` is that of the last attempt."""
    if order.state is OrderState.ABANDONED and order.closing is not None:
        return UncertainCreateError(
            f"order {order.order_id!r} was abandoned ({order.closing.reason}) and is not sent again; a new video needs "
            "a new order id.",
            **facts(order),
            advice="If its task is found, record it with orders.adopt(…).",
        )
    known = "; ".join(
        _what_is_known(attempt)
        for attempt in order.attempts
        if attempt.outcome is AttemptOutcome.UNCERTAIN
        or (attempt.kind == "resend" and attempt.outcome is AttemptOutcome.REJECTED)
    )
    message = (
        f"it is unknown whether the service accepted order {order.order_id!r}. Known: {known}. A task may exist and be "
        f"charged. {NOT_AUTOMATIC}"
    )
    advice = f"{refusal.advice if refusal else ''} {WHAT_TO_DO}".strip()
    return UncertainCreateError(message, **facts(order), advice=advice)


def _what_is_known(attempt: Attempt) -> str:
    """What was sent and when, how long the client waited, and what it received."""
    who = "" if attempt.kind == "create" else f", a {attempt.kind},"
    left = f"attempt {attempt.n}{who} began at {attempt.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    evidence = attempt.evidence
    if evidence is None:
        return f"{left} and has no outcome yet"
    if attempt.wait_time is None:
        return f"{left}; {evidence.cause}"
    request = f", request {evidence.request_id}" if evidence.request_id else ""
    task = f"; its task may be {' or '.join(evidence.candidates)}" if evidence.candidates else ""
    came = f"status {evidence.status} was received" if evidence.status else "no complete answer was received"
    return f"{left}; after {attempt.wait_time:.1f} s {came} ({evidence.cause}{request}){task}"


def not_sent(order: Order, failure: BaseException | None, known: Iterable[str]) -> CreateError:
    """This send could not connect; an earlier attempt may be unclear all the same. ``known`` values are hidden."""
    cause = hide_secrets(str(failure), known) or type(failure).__name__
    if is_unaccounted(order):
        message = (
            f"order {order.order_id!r} was not sent again: {cause}. The outcome of an earlier attempt is still "
            "unknown; it may have created a task, which is charged."
        )
        return UncertainCreateError(message, **facts(order), advice=WHAT_TO_DO)
    return NotSentError(f"order {order.order_id!r} was not sent: {cause}.", **facts(order), advice=CALL_AGAIN)


def not_recorded(order: Order, cause: str) -> UncertainCreateError:
    """A transport failed in a way that proves nothing, and the journal could not be written."""
    message = (
        f"order {order.order_id!r} may have been sent, but this could not be stored in the journal ({cause}). A task "
        "may exist and be charged. Another create with this order id would send it again."
    )
    return UncertainCreateError(message, **facts(order), advice="Check the account before you create it again.")


def interrupted(
    order_id: str, order: Order | None, refusal: ServiceError | None, *, why: str, may_have_been_sent: bool
) -> CreateError:
    """The create ended before there was an outcome. ``may_have_been_sent``: by this create; an unknown outcome of
    another send is found in ``order``. ``why`` is a sentence."""
    known = {"order_id": order_id} if order is None else facts(order)
    if may_have_been_sent or (order is not None and is_unaccounted(order)):
        message = (
            f"order {order_id!r}: {why} before the outcome was known. A task may exist and be charged. {NOT_AUTOMATIC}"
        )
        return UncertainCreateError(message, **known, advice=WHAT_TO_DO)
    if refusal is not None:
        return rejected_error(refusal, **known)
    return NotSentError(f"order {order_id!r} was not sent: {why} first.", **known, advice=CALL_AGAIN)


def is_unaccounted(order: Order) -> bool:
    """Whether the service may have accepted an attempt whose outcome is unknown."""
    return state_of(attempt.outcome for attempt in order.attempts) in (OrderState.SENDING, OrderState.UNCERTAIN)


def conflict(order_id: str, why: str) -> OrderConflictError:
    """The order id cannot be used for this; nothing was sent."""
    message = f"order id {order_id!r} {why}; nothing was sent. To order another video, use a new order id."
    return OrderConflictError(message, order_id=order_id)


def unreadable(order_id: str, state: OrderState, problems: Iterable[str]) -> OrderStateError:
    """The order is known, but its local images cannot be read, so that they cannot be compared."""
    message = (
        f"order {order_id!r} is known: it is {state}. It was left as it is, since its local images cannot be read now "
        f"and compared ({'; '.join(problems)})."
    )
    advice = (
        "orders.resume(…) returns its receipt or continues with it, without the images; orders.get(…) shows it. "
        "Another order id would be another order, which is charged too."
    )
    return OrderStateError(message, order_id=order_id, state=state, advice=advice)


def wrong_state(order: Order, done: str) -> OrderStateError:
    """The order is not in a state in which it can be ``done``, e.g. "resent"."""
    message = f"order {order.order_id!r} cannot be {done}: it is {order.state}"
    if order.state is OrderState.SENDING and order.sending_until is not None:
        message += f", and is treated as still being sent until {order.sending_until:%Y-%m-%d %H:%M:%S} UTC"
    return OrderStateError(message, order_id=order.order_id, state=order.state)


def check_adoptable(order: Order, request: VideoRequest, task: VideoTask) -> None:
    """Raise OrderStateError for a task that cannot have come of the order."""
    problem = None
    if task.model and request.model and task.model != request.model:
        problem = f"it uses model {task.model!r}, but the order asked for {request.model!r}"
    elif task.created_at is not None and task.created_at < order.created_at - CLOCKS_APART:
        problem = (
            f"it was created at {task.created_at:%Y-%m-%d %H:%M:%S} UTC, before the order ({order.created_at:%H:%M:%S})"
        )
    if problem:
        message = f"task {task.id!r} cannot be that of order {order.order_id!r}: {problem}"
        raise OrderStateError(message, order_id=order.order_id, state=order.state)


def check_attempt(order: Order, expected: int) -> None:
    """Raise OrderStateError when the order's last attempt is another than the one that the caller knows of."""
    last = len(order.attempts)
    if last != expected:
        why = " Another caller may have resent it: read it again with orders.get(…)." if last > expected else ""
        message = f"order {order.order_id!r} was not resent: its last attempt is {last}, not {expected}.{why}"
        raise OrderStateError(message, order_id=order.order_id, state=order.state)


def check_age(order: Order, now: datetime, key_lifetime: float) -> None:
    """Raise OrderStateError when the service may have forgotten the order's key."""
    age = now - min((attempt.sent_at for attempt in order.attempts if attempt.kind != "adopt"), default=now)
    if age < -SET_BACK or age.total_seconds() > key_lifetime:
        so_long_ago = (
            f"{age.total_seconds() / 3600:.1f} h ago" if age > timedelta(0) else "at a time that has not come yet"
        )
        message = (
            f"order {order.order_id!r} was not resent: its Idempotency-Key was first sent {so_long_ago}, and the "
            f"service may have forgotten it after {key_lifetime / 3600:.1f} h. If the first attempt created a task, a "
            "resend would then create a second one, which is charged too."
        )
        advice = "Check the account first; accept_duplicate_risk=True sends it anyway (see Client.key_lifetime)."
        raise OrderStateError(message, order_id=order.order_id, state=order.state, advice=advice)


def check_reason(what: str, reason: object) -> None:
    """Raise InvalidRequestError when an operator's decision has no reason."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidRequestError(f"orders.{what} needs a reason, which is recorded")


def check_page(since: datetime | None, limit: int | None) -> None:
    """Raise InvalidRequestError for a page that no list can have."""
    problems = []
    if since is not None and since.tzinfo is None:
        problems.append(f"since: needs a time zone: {since}")
    if limit is not None and limit < 0:
        problems.append(f"limit: must be 0 or more: {limit}")
    if problems:
        raise InvalidRequestError(problems=problems)


def check_shard(shard: Shard | None) -> None:
    """Raise InvalidRequestError for a shard that cannot exist."""
    match shard:
        case None:
            pass
        case (int(index), int(count)) if 0 <= index < count:
            pass
        case _:
            raise InvalidRequestError(f"shard: must be (i, n) with 0 <= i < n: {shard!r}")


def parse_states(states: OrderStates | None) -> frozenset[OrderState]:
    """The requested states, or all; InvalidRequestError lists the valid ones."""
    if states is None:
        return frozenset(OrderState)
    names = [states] if isinstance(states, str) else list(states)
    unknown = [state for state in names if state not in list(OrderState)]
    if unknown:
        known = ", ".join(OrderState)
        raise InvalidRequestError(f"states: no such state: {', '.join(map(repr, unknown))}; there are: {known}")
    return frozenset(map(OrderState, names))


def still_sending(order_id: str, order: Order | None, seconds: float) -> StillSendingError:
    """The order has no outcome yet."""
    until = None if order is None else order.sending_until
    state = (
        "no byte of it was sent" if until is None else f"it is uncertain at {until:%Y-%m-%d %H:%M:%S} UTC at the latest"
    )
    message = f"order {order_id!r} has no outcome after {seconds:g} s (wait_for_sender); {state}. {CALL_AGAIN}"
    return StillSendingError(message, deadline_at=until, **({"order_id": order_id} if order is None else facts(order)))

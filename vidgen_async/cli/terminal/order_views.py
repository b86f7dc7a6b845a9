"""Orders and their attempts, formatted for people."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from vidgen_async.cli.terminal.formatting import age, moment
from vidgen_async.cli.terminal.result_output import Facts, Table, facts_of
from vidgen_async.service.endpoints import read_request
from vidgen_async.types.orders import (
    CLOCK_SET_BACK,
    DEADLINE_PASSED,
    SENDER_ENDED,
    Attempt,
    Evidence,
    Order,
    OrderState,
    TaskResult,
    state_of,
)
from vidgen_async.watcher import failure_text

#: Long causes, as a list shows them.
_SHORT_CAUSES = {
    DEADLINE_PASSED: "no outcome by the deadline",
    CLOCK_SET_BACK: "the clock was set back",
    SENDER_ENDED: "the sender's session has ended",
}


def orders_table(
    found: Sequence[Order],
    now: datetime,
    journal_place: str,
    older: str = "",
    *,
    is_filtered: bool = False,
    others: str = "",
) -> Table:
    """A row for each order; ``journal_place`` is where they were looked up, ``older`` the command for older ones,
    ``others`` which accounts have orders if there are none."""
    return Table(
        names=("order", "state", "age", "model", "points", "attempts", "task", "cause"),
        numbers=("age", "points", "attempts"),
        long=("cause",),
        optional=("cause", "points", "model", "task", "attempts"),
        shows_omitted=True,
        rows=tuple(
            (
                order.order_id,
                str(order.state),
                age(order.created_at, now),
                read_request(order.body).model,
                _points(order),
                str(len(order.attempts)),
                _tasks(order) or "—",
                _cause(order),
            )
            for order in found
        ),
        empty=f"no {'matching ' if is_filtered else ''}orders {journal_place}"
        + (f"; it has orders of {others}" if others else ""),
        notes=("Older orders:",) if older else (),
        command=older,
    )


def _points(order: Order) -> str:
    """The cost of its tasks, as far as they were seen to end."""
    known = [result.points for result in order.results if result.points is not None]
    return str(sum(known)) if known else "—"


def _tasks(order: Order) -> str:
    """Its tasks; if there are none, those that the answer to an unclear attempt may name."""
    found = [f"{name}?" for attempt in order.unclear if attempt.evidence for name in attempt.evidence.candidates]
    return ", ".join(order.task_ids or dict.fromkeys(found))


def _cause(order: Order) -> str:
    """The reason for the state of the order, if it needs one, without what follows a semicolon."""
    if order.closing is not None and order.state is order.closing.state:
        return order.closing.reason
    if order.state is OrderState.ACCEPTED:
        return ""
    deciding = [attempt.evidence for attempt in order.attempts if state_of([attempt.outcome]) is order.state]
    evidence = deciding[-1] if deciding else None
    return "" if evidence is None else _SHORT_CAUSES.get(evidence.cause, evidence.cause.partition("; ")[0])


def order_facts(order: Order, *, with_request: bool) -> Facts:
    """Everything about one order. Its request with prompt and URLs is included only ``with_request``."""
    request = json.loads(order.body)
    closing = order.closing
    pairs: list[tuple[str, object]] = [
        ("order", order.order_id),
        ("state", order.state),
        ("task", ", ".join(order.task_ids)),
        ("account", f"{order.ref.account} at {order.ref.service}"),
        ("created", f"{moment(order.created_at)} ({age(order.created_at, datetime.now(UTC))} ago)"),
        ("model", request.get("model")),
        *((f"attempt {attempt.n}", _attempt(attempt)) for attempt in order.attempts),
    ]
    pairs += [(f"balance {attempt.n}", text) for attempt in order.unclear if (text := _balance(attempt.evidence))]
    pairs += [("result", _result(result)) for result in order.results]
    if closing is not None:
        by = f" by {closing.by}" if closing.by else ""
        pairs.append((str(closing.state), f"{moment(closing.at)}{by}: {closing.reason or 'no reason given'}"))
    if with_request:
        pairs += [("key", order.idempotency_key), ("request", json.dumps(request, ensure_ascii=False))]
        pairs += [
            (f"answer {attempt.n}", attempt.evidence.body.decode(errors="backslashreplace"))
            for attempt in order.unclear
            if attempt.evidence is not None and attempt.evidence.body
        ]
    return facts_of(pairs)


def _balance(evidence: Evidence | None) -> str:
    """The balance before and after an uncertain create, and what it proves."""
    after = None if evidence is None else evidence.balance_after
    if evidence is None or after is None:
        return ""
    before = evidence.balance_before
    if before is None:
        numbers = ", ".join(f"{name} {number:g}" for name, number in after.numbers.items()) or "no number"
        return f"{numbers} at {moment(after.at)}; the balance before the create is unknown, so this proves nothing"
    changed = [
        f"{name} {before.numbers[name]:g} -> {number:g}"
        for name, number in after.numbers.items()
        if before.numbers.get(name, number) != number
    ]
    span = f"from {moment(before.at)} to {moment(after.at)}"
    if changed:
        return f"{', '.join(changed)}, {span}; other orders and refunds change it too, so this proves no task"
    return f"unchanged {span}; a task may be charged later, so this does not prove that none exists"


def _result(result: TaskResult) -> str:
    cost = "" if result.points is None else f", {result.points} points"
    why = f": {failure_text(result.failure_reason)}" if result.status == "failed" else ""
    return f"{result.task_id} {result.status}{cost}, seen {moment(result.at)}{why}"


def _attempt(attempt: Attempt) -> str:
    kind = "sent" if attempt.kind == "create" else f"{attempt.kind} by {attempt.by or 'an operator'}"
    kind += f": {attempt.reason}," if attempt.reason else ""
    evidence = attempt.evidence
    # The cause of an adoption repeats who adopted the task, and the reason.
    cause = "" if evidence is None or not evidence.cause or attempt.kind == "adopt" else f": {evidence.cause}"
    if evidence is None:
        known = f", counts as being sent until {moment(attempt.deadline_at)}"
    else:
        known = "" if attempt.wait_time is None else f", after {attempt.wait_time:.1f} s"
        cause += f" (request {evidence.request_id})" if evidence.request_id else ""
        cause += f"; possible task: {', '.join(evidence.candidates)}" if evidence.candidates else ""
    return f"{attempt.outcome}, {kind} {moment(attempt.sent_at)}{known}{cause}"

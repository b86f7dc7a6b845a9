"""Orders and tasks: formatted for people, and as the documents of ``--json``: ``to_dict()`` of the values, and more."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from attrs import astuple

from vidgen_async.cli.terminal.formatting import Document, Facts, Table, age, moment
from vidgen_async.types import (
    CHECK_REFUND,
    Attempt,
    BudgetState,
    Evidence,
    Order,
    OrderState,
    SpendKey,
    SpendRow,
    TaskResult,
    VideoTask,
    csv_cell,
    failure_text,
    printable,
)

_SUMS = ("videos", "points", "stated", "estimated", "unknown cost", "uncertain")


def task_document(task: VideoTask) -> Document:
    """A task (2.5), and as ``advice`` what to check about a failed one. The ``video_url`` is signed."""
    return {"task_id": task.id, **task.to_dict(), "advice": _advice(task.status)}


def order_document(order: Order, *, with_request: bool = False) -> Document:
    """A stored order; its key, its request and the bodies of unclear responses only ``with_request``."""
    document = {**order.ref.to_dict(), **order.to_dict(include_secrets=with_request), "model": model_of(order)}
    document["results"] = [{**result.to_dict(), "advice": _advice(result.status)} for result in order.results]
    return {**document, "request": json.loads(order.body)} if with_request else document


def model_of(order: Order) -> str:
    """The model that the order asks for."""
    return str(json.loads(order.body).get("model", ""))


#: The columns of ``orders export --format csv``.
ORDER_COLUMNS = (
    *("order_id", "account", "service", "state", "task_ids", "created_at", "model", "body_sha256", "attempts"),
    *("last_sent_at", "last_outcome", "last_cause", "closed_by", "closed_reason"),
)


def orders_csv(orders: Sequence[Order]) -> str:
    """The orders as CSV with a header; task ids are separated by spaces."""
    return as_csv(ORDER_COLUMNS, map(_order_row, orders))


def _order_row(order: Order) -> Document:
    document = order_document(order)
    last, closing = (document["attempts"] or [{}])[-1], document["closing"] or {}
    return {
        **document,
        "task_ids": " ".join(order.task_ids),
        "attempts": len(order.attempts),
        "last_sent_at": last.get("sent_at"),
        "last_outcome": last.get("outcome"),
        "last_cause": (last.get("evidence") or {}).get("cause"),
        **{f"closed_{name}": closing.get(name) for name in ("by", "reason")},
    }


def as_csv(columns: Sequence[str], rows: Iterable[Document]) -> str:
    """The rows as CSV with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        texts = ((name, row[name]) for name in columns)
        writer.writerow({name: csv_cell(printable(cell)) if isinstance(cell, str) else cell for name, cell in texts})
    return file.getvalue()


def _advice(status: str | None) -> str | None:
    return CHECK_REFUND if status == "failed" else None


def orders_table(
    found: Sequence[Order], now: datetime, empty: str, older: str = "", budget: str | None = None
) -> Table:
    """A row for each order; ``older`` is the command for older ones, ``empty`` the text if there are none."""
    return Table(
        names=("order", "state", "age", "model", "points", "attempts", "task", "cause"),
        numbers=("age", "points", "attempts"),
        optional=("cause", "points", "model", "task", "attempts"),
        rows=tuple(
            (
                order.order_id,
                str(order.state),
                age(order.created_at, now),
                model_of(order),
                _points(order),
                str(len(order.attempts)),
                _tasks(order) or "—",
                _cause(order),
            )
            for order in found
        ),
        empty=empty,
        notes=(*((f"budget: {budget}",) if budget else ()), *(("Older orders:",) if older else ())),
        command=older,
    )


def budget_text(state: BudgetState | None) -> str | None:
    """The budget and what counts towards it, if there is one."""
    if state is None:
        return None
    window = "" if state.window is None else f" in {state.window / 3600:g} h"
    unknown = f", {state.unknown:,} creates of unknown cost" if state.unknown else ""
    counted = f"{state.spent:,} spent, {state.reserved:,} reserved{unknown}"
    return f"{state.limit:,} points{window}: {counted}, {state.free or 0:,} free"


def spend_table(rows: Sequence[SpendRow], by: SpendKey, empty: str) -> Table:
    """A row for each row of the bill, and their sum; ``empty`` is the text if there are none."""
    return Table(
        names=(by, *_SUMS),
        numbers=_SUMS,
        rows=tuple(
            (row.key or "—", f"{row.videos:,}", row.points, *(f"{count:,}" for count in astuple(row)[2:]))
            for row in rows
        ),
        empty=empty,
    )


def sum_of(rows: Sequence[SpendRow]) -> SpendRow:
    """The sum of all rows of a bill."""
    names = ("videos", "spent", "estimated", "unknown", "uncertain")
    return SpendRow(key="sum", **{name: sum(getattr(row, name) for row in rows) for name in names})


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
    outcome = "not_sent" if order.state is OrderState.QUEUED else str(order.state)
    causes = [one.evidence.cause for one in order.attempts if str(one.outcome) == outcome and one.evidence is not None]
    return causes[-1].partition("; ")[0] if causes else ""


def order_facts(order: Order, *, with_request: bool) -> Facts:
    """Everything about one order. Its request with prompt and URLs is included only ``with_request``."""
    closing = order.closing
    pairs: list[tuple[str, object]] = [
        ("order", order.order_id),
        ("state", order.state),
        ("task", ", ".join(order.task_ids)),
        ("account", f"{order.ref.account} at {order.ref.service}"),
        ("created", f"{moment(order.created_at)} ({age(order.created_at, datetime.now(UTC))} ago)"),
        ("model", model_of(order)),
        *((f"attempt {attempt.n}", _attempt(attempt)) for attempt in order.attempts),
    ]
    pairs += [(f"balance {attempt.n}", text) for attempt in order.unclear if (text := _balance(attempt.evidence))]
    pairs += [("result", _result(result)) for result in order.results]
    if closing is not None:
        by = f" by {closing.by}" if closing.by else ""
        pairs.append((str(closing.state), f"{moment(closing.at)}{by}: {closing.reason or 'no reason given'}"))
    if with_request:
        pairs += [("key", order.idempotency_key), ("request", json.dumps(json.loads(order.body), ensure_ascii=False))]
        pairs += [
            (f"answer {attempt.n}", attempt.evidence.body.decode(errors="backslashreplace"))
            for attempt in order.unclear
            if attempt.evidence is not None and attempt.evidence.body
        ]
    return Facts(pairs)


def _balance(evidence: Evidence | None) -> str:
    """The balance before and after an uncertain create, and what it proves."""
    if evidence is None or (after := evidence.balance_after) is None:
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

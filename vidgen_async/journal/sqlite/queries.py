"""Converts orders to rows and back. Every function must be called inside a transaction."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from attrs import asdict, evolve

from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn, compute_turn, make_hold
from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Balance,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    RunningTask,
    TaskResult,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ADD_ORDER = """
    INSERT INTO orders (service, account, order_id, idempotency_key, body, created_at)
    VALUES (:service, :account, :order_id, :idempotency_key, :body, :created_at)
    ON CONFLICT (service, account, order_id) DO NOTHING
"""
_ADD_ATTEMPT = """
    INSERT INTO attempts (service, account, order_id, n, sent_at, deadline_at, kind, "by", reason, counted_at)
    VALUES (:service, :account, :order_id, :n, :sent_at, :deadline_at, :kind, :by, :reason, :counted_at)
"""
_ADD_EVIDENCE = """
    INSERT INTO evidence (
        service, account, order_id, n, outcome, at, status, task_id, cause, body, extra, answered,
        headers, request_id, candidates, balance_before, balance_after
    ) VALUES (
        :service, :account, :order_id, :n, :outcome, :at, :status, :task_id, :cause, :body, :extra, :answered,
        :headers, :request_id, :candidates, :balance_before, :balance_after
    )
"""
_ADD_CANDIDATE = """
    INSERT INTO candidates (service, account, task_id, order_id)
    VALUES (:service, :account, :task_id, :order_id)
    ON CONFLICT DO NOTHING
"""
_IS_CANDIDATE = """
    SELECT 1 FROM candidates
    WHERE service = :service AND account = :account AND task_id = :task_id AND order_id <> :order_id LIMIT 1
"""
_COUNT = """
    UPDATE attempts SET counted_at = :counted_at
    WHERE service = :service AND account = :account AND order_id = :order_id AND n = :n
"""
_ADD_CLOSING = """
    INSERT INTO closings (service, account, order_id, state, at, reason, "by")
    VALUES (:service, :account, :order_id, :state, :at, :reason, :by)
"""

_ADD_RESULT = """
    INSERT INTO results (service, task_id, status, at, points, failure_reason)
    SELECT :service, :task_id, :status, :at, :points, :failure_reason
    WHERE EXISTS (SELECT 1 FROM evidence WHERE service = :service AND task_id = :task_id)
    ON CONFLICT (service, task_id) DO NOTHING
"""

# Evidence is written only if it adds knowledge, so the latest evidence is the one that counts.
_LATEST_EVIDENCE = """
    LEFT JOIN evidence ON evidence.id = (
        SELECT max(latest.id) FROM evidence AS latest
        WHERE latest.service = attempts.service AND latest.account = attempts.account
        AND latest.order_id = attempts.order_id AND latest.n = attempts.n
    )
"""
_OWNER = """
    SELECT account, order_id FROM evidence
    WHERE service = :service AND task_id = :task_id AND outcome = 'accepted'
    AND (account, order_id) <> (:account, :order_id)
    ORDER BY id LIMIT 1
"""
_ORDERS = "SELECT order_id, idempotency_key, body, created_at FROM orders"
_ATTEMPTS = f"""
    SELECT attempts.order_id, attempts.n, sent_at, deadline_at, kind, "by", reason,
    outcome, at, status, task_id, cause, body, extra, answered, headers, request_id, candidates,
    balance_before, balance_after
    FROM attempts {_LATEST_EVIDENCE}
"""  # noqa: S608 - made of constants
_CLOSINGS = 'SELECT order_id, state, at, reason, "by" FROM closings'
_RESULTS = """
    SELECT DISTINCT evidence.order_id, results.task_id, results.status, results.at, points, failure_reason
    FROM evidence JOIN results ON results.service = evidence.service AND results.task_id = evidence.task_id
"""
_OF_ACCOUNT = "WHERE {0}.service = :service AND {0}.account = :account"
_OF_ORDER = _OF_ACCOUNT + " AND {0}.order_id = :order_id"
_NOT_ENDED = "NOT EXISTS (SELECT 1 FROM results WHERE service = evidence.service AND task_id = evidence.task_id)"
# A page is a range of ids of a table, and reads only these rows, also if nearly all stored tasks are terminal. (With an
# index SQLite would go through all rows of the account.)
_END_OF_PAGE = "SELECT id FROM {0} WHERE id > :after ORDER BY id LIMIT 1 OFFSET :size - 1"
_PAGE = """
    SELECT order_id FROM orders AS page NOT INDEXED
    WHERE id > :after AND id <= :until AND service = :service AND account = :account
"""
_HAS_TASK = """
    SELECT 1 FROM evidence
    WHERE service = page.service AND account = page.account AND order_id = page.order_id AND outcome = 'accepted'
"""
_HAS_RUNNING_TASK = f"EXISTS ({_HAS_TASK} AND {_NOT_ENDED})"
_ORDERS_OF_PAGE = {
    is_terminal: f"{_OF_ACCOUNT} AND {{0}}.order_id IN ({_PAGE} {condition})"
    for is_terminal, condition in (
        (None, ""),
        (False, f"AND {_HAS_RUNNING_TASK}"),
        (True, f"AND EXISTS ({_HAS_TASK}) AND NOT {_HAS_RUNNING_TASK}"),
    )
}
_RUNNING = f"""
    SELECT order_id, task_id, at FROM evidence NOT INDEXED
    WHERE id > :after AND id <= :until AND service = :service AND account = :account
    AND outcome = 'accepted' AND task_id <> '' AND {_NOT_ENDED} ORDER BY id
"""  # noqa: S608 - made of constants
_LAST_ID = 2**63 - 1
_HELD = """
    SELECT count(*) FROM (
        SELECT 1 FROM attempts
        WHERE service = :service AND account = :account AND counted_at > :since LIMIT :limit
    )
"""
_MAY_HOLD_A_SLOT = f"""
    SELECT attempts.order_id, attempts.n, sent_at, deadline_at, outcome, at, answered, counted_at
    FROM attempts {_LATEST_EVIDENCE}
    WHERE attempts.service = :service AND attempts.account = :account AND counted_at > :since
"""  # noqa: S608 - made of constants


def read_order(db: sqlite3.Connection, ref: OrderRef) -> Order | None:
    """Return the stored order, or None."""
    orders = _read(db, _OF_ORDER, asdict(ref))
    return orders[0] if orders else None


def find_end_of_page(db: sqlite3.Connection, table: str, after: int, size: int) -> int | None:
    """Return the last id of the page of ``size`` rows that follow the id ``after``; None if fewer rows follow."""
    row = db.execute(_END_OF_PAGE.format(table), {"after": after, "size": size}).fetchone()
    return None if row is None else int(row["id"])


def read_orders(
    db: sqlite3.Connection, service: str, account: str, after: int, until: int | None, *, is_terminal: bool | None
) -> list[Order]:
    """Return the account's orders of the page, oldest first."""
    return _read(db, _ORDERS_OF_PAGE[is_terminal], _page_parameters(service, account, after, until))


def read_running(
    db: sqlite3.Connection, service: str, account: str, after: int, until: int | None
) -> list[RunningTask]:
    """Return the account's tasks of the page that are not known to be terminal."""
    return [
        RunningTask(task_id=row["task_id"], order_id=row["order_id"], accepted_at=_at(row["at"]))
        for row in db.execute(_RUNNING, _page_parameters(service, account, after, until))
    ]


def _page_parameters(service: str, account: str, after: int, until: int | None) -> dict[str, str | int]:
    return {"service": service, "account": account, "after": after, "until": _LAST_ID if until is None else until}


def read_owner(db: sqlite3.Connection, ref: OrderRef, task_id: str) -> OrderRef | None:
    """Return the name of another order, of any account of the service, whose receipt is this task."""
    row = db.execute(_OWNER, asdict(ref) | {"task_id": _text(task_id)}).fetchone()
    return None if row is None else OrderRef(service=ref.service, account=row["account"], order_id=row["order_id"])


def _read(db: sqlite3.Connection, where: str, parameters: Mapping[str, str | int]) -> list[Order]:
    service, account = str(parameters["service"]), str(parameters["account"])
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for row in db.execute(f"{_ATTEMPTS} {where.format('attempts')} ORDER BY attempts.n", parameters):
        attempts[row["order_id"]].append(_attempt(row))
    closings = {
        row["order_id"]: _closing(row)
        for row in db.execute(f"{_CLOSINGS} {where.format('closings')} ORDER BY id", parameters)
    }
    results: dict[str, list[TaskResult]] = defaultdict(list)
    for row in db.execute(f"{_RESULTS} {where.format('evidence')}", parameters):
        results[row["order_id"]].append(_result(row))
    orders = [
        Order(
            ref=OrderRef(service=service, account=account, order_id=row["order_id"]),
            idempotency_key=row["idempotency_key"],
            body=row["body"],
            created_at=_at(row["created_at"]),
            attempts=tuple(attempts[row["order_id"]]),
            closing=closings.get(row["order_id"]),
        )
        for row in db.execute(f"{_ORDERS} {where.format('orders')} ORDER BY id", parameters)
    ]
    return [_with_results(order, results[order.order_id]) if order.order_id in results else order for order in orders]


def _with_results(order: Order, results: list[TaskResult]) -> Order:
    return evolve(order, results=tuple(sorted(results, key=lambda result: order.task_ids.index(result.task_id))))


def read_turn(db: sqlite3.Connection, service: str, account: str, pacing: Pacing, now: datetime) -> Turn | None:
    """Return the turn. Only attempts that can hold a slot are read, and they are only counted while there are fewer
    than the limit. None if the clock was set back: call :func:`correct_counts` first."""
    since = now - timedelta(seconds=pacing.window) - SLOT_MARGIN
    parameters = {"service": service, "account": account, "since": _micros(since), "limit": pacing.limit}
    (used,) = db.execute(_HELD, parameters).fetchone()
    if used < pacing.limit:
        return Turn(pacing.limit - used, 0.0)
    holds = []
    for row in _read_holders(db, service, account, since):
        attempt, counted_at = _attempt_for_pacing(row), _at(row["counted_at"])
        if attempt.correct_counted_at(counted_at, now) != counted_at:
            return None
        holds.append(make_hold(counted_at, pacing, now, is_open=attempt.evidence is None))
    return compute_turn(holds, pacing, now)


def correct_counts(db: sqlite3.Connection, service: str, account: str, now: datetime) -> None:
    """Correct the ``counted_at`` of attempts that lie in the future because the clock was set back."""
    for row in _read_holders(db, service, account, now):
        counted_at = _attempt_for_pacing(row).correct_counted_at(_at(row["counted_at"]), now)
        parameters = {"service": service, "account": account, "order_id": row["order_id"], "n": row["n"]}
        db.execute(_COUNT, parameters | {"counted_at": _micros(counted_at)})


def _read_holders(db: sqlite3.Connection, service: str, account: str, since: datetime) -> list[sqlite3.Row]:
    parameters = {"service": service, "account": account, "since": _micros(since)}
    return db.execute(_MAY_HOLD_A_SLOT, parameters).fetchall()


def read_namespace(db: sqlite3.Connection) -> str | None:
    row = db.execute("SELECT word FROM namespace").fetchone()
    return None if row is None else str(row["word"])


def add_namespace(db: sqlite3.Connection, namespace: str) -> None:
    db.execute("INSERT INTO namespace (id, word) VALUES (1, ?)", (namespace,))


def add_order(db: sqlite3.Connection, order: Order) -> None:
    """Write a new order. An order that is stored already is not changed."""
    values = {
        "idempotency_key": order.idempotency_key,
        "body": order.body,
        "created_at": _micros(order.created_at),
    }
    db.execute(_ADD_ORDER, asdict(order.ref) | values)


def add_attempt(db: sqlite3.Connection, ref: OrderRef, attempt: Attempt) -> None:
    values = {
        "n": attempt.n,
        "sent_at": _micros(attempt.sent_at),
        "deadline_at": _micros(attempt.deadline_at),
        "kind": attempt.kind,
        "by": _text(attempt.by),
        "reason": _text(attempt.reason),
        "counted_at": _counted_at(attempt),
    }
    db.execute(_ADD_ATTEMPT, asdict(ref) | values)


def add_evidence(db: sqlite3.Connection, before: Order, after: Order) -> None:
    """Write the evidence that ``after`` has and ``before`` does not have."""
    for old, new in zip(before.attempts, after.attempts, strict=True):
        if new.evidence is not None and new.evidence is not old.evidence:
            attempt = asdict(after.ref) | {"n": new.n}
            db.execute(_ADD_EVIDENCE, attempt | _facts(new.evidence))
            db.execute(_COUNT, attempt | {"counted_at": _counted_at(new)})
            for candidate in new.evidence.candidates:
                db.execute(_ADD_CANDIDATE, asdict(after.ref) | {"task_id": _text(candidate)})


def add_closing(db: sqlite3.Connection, ref: OrderRef, closing: Closing) -> None:
    values = {
        "state": closing.state.value,
        "at": _micros(closing.at),
        "reason": _text(closing.reason),
        "by": _text(closing.by),
    }
    db.execute(_ADD_CLOSING, asdict(ref) | values)


def add_results(db: sqlite3.Connection, service: str, results: Iterable[TaskResult]) -> None:
    """Write the terminal states of tasks that have a receipt. States that are stored already are not changed."""
    rows = [
        {
            "service": service,
            "task_id": _text(result.task_id),
            "status": result.status,
            "at": _micros(result.at),
            "points": _integer(result.points),
            "failure_reason": None if result.failure_reason is None else _text(result.failure_reason),
        }
        for result in results
    ]
    db.executemany(_ADD_RESULT, rows)


def is_claimed(db: sqlite3.Connection, ref: OrderRef, task_id: str) -> bool:
    """Return whether the task is a candidate of another order of the account, or the receipt of another order."""
    parameters = asdict(ref) | {"task_id": _text(task_id)}
    return db.execute(_IS_CANDIDATE, parameters).fetchone() is not None or read_owner(db, ref, task_id) is not None


def _attempt(row: sqlite3.Row) -> Attempt:
    evidence = None
    if row["outcome"] is not None:
        evidence = Evidence(
            outcome=AttemptOutcome(row["outcome"]),
            at=_at(row["at"]),
            status=row["status"],
            task_id=row["task_id"],
            cause=row["cause"],
            body=row["body"],
            extra=json.loads(row["extra"]),
            answered=bool(row["answered"]),
            headers=tuple((name, value) for name, value in json.loads(row["headers"])),
            request_id=row["request_id"],
            candidates=tuple(json.loads(row["candidates"])),
            balance_before=_balance(row["balance_before"]),
            balance_after=_balance(row["balance_after"]),
        )
    return Attempt(
        n=row["n"],
        sent_at=_at(row["sent_at"]),
        deadline_at=_at(row["deadline_at"]),
        kind=row["kind"],
        by=row["by"],
        reason=row["reason"],
        evidence=evidence,
    )


def _attempt_for_pacing(row: sqlite3.Row) -> Attempt:
    """Return an attempt with only those fields that the rolling limit needs."""
    evidence = None
    if row["outcome"] is not None:
        evidence = Evidence(outcome=AttemptOutcome(row["outcome"]), at=_at(row["at"]), answered=bool(row["answered"]))
    return Attempt(n=row["n"], sent_at=_at(row["sent_at"]), deadline_at=_at(row["deadline_at"]), evidence=evidence)


def _closing(row: sqlite3.Row) -> Closing:
    return Closing(state=OrderState(row["state"]), at=_at(row["at"]), reason=row["reason"], by=row["by"])


def _result(row: sqlite3.Row) -> TaskResult:
    return TaskResult(
        task_id=row["task_id"],
        status=row["status"],
        at=_at(row["at"]),
        points=row["points"],
        failure_reason=row["failure_reason"],
    )


def _facts(evidence: Evidence) -> dict[str, str | bytes | int | None]:
    return {
        "outcome": evidence.outcome.value,
        "at": _micros(evidence.at),
        "status": evidence.status,
        "task_id": None if evidence.task_id is None else _text(evidence.task_id),
        "cause": _text(evidence.cause),
        "body": evidence.body,
        "extra": json.dumps(dict(evidence.extra)),
        "answered": int(evidence.answered),
        "headers": json.dumps(evidence.headers),
        "request_id": None if evidence.request_id is None else _text(evidence.request_id),
        "candidates": json.dumps(evidence.candidates),
        "balance_before": _balance_text(evidence.balance_before),
        "balance_after": _balance_text(evidence.balance_after),
    }


def _balance(text: str | None) -> Balance | None:
    if text is None:
        return None
    data = json.loads(text)
    return Balance(at=_at(data["at"]), numbers=data["numbers"])


def _balance_text(balance: Balance | None) -> str | None:
    return None if balance is None else json.dumps({"at": _micros(balance.at), "numbers": dict(balance.numbers)})


def _counted_at(attempt: Attempt) -> int | None:
    at = attempt.counted_at
    return None if at is None else _micros(at)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _at(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _integer(number: int | None) -> int | None:
    """Return the number, or None if it is too large for a column."""
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _text(text: str) -> str:
    """Return the text with lone surrogates escaped (``\\udc80``): JSON can contain them, but SQLite rejects them."""
    return text.encode("utf-8", "backslashreplace").decode()

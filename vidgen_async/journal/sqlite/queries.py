"""Orders to rows and back. Every function expects to be inside a transaction."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from attrs import asdict, evolve

from vidgen_async.types.limits import SLOT_MARGIN, Pacing, Turn, hold_of, turn
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

# Only what adds knowledge is written, so the latest evidence is what is known.
_LATEST_EVIDENCE = """
    LEFT JOIN evidence ON evidence.id = (
        SELECT max(news.id) FROM evidence AS news
        WHERE news.service = attempts.service AND news.account = attempts.account
        AND news.order_id = attempts.order_id AND news.n = attempts.n
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
# A page is a stretch of a table by its ids, and costs no more than that (an index would lead through all that the
# account has): so it is short work also where nearly all that is on record has ended long ago.
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
_WHICH = {
    which: f"{_OF_ACCOUNT} AND {{0}}.order_id IN ({_PAGE} {condition})"
    for which, condition in (
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
    """The order as it is on record; None when it is not."""
    orders = _read(db, _OF_ORDER, asdict(ref))
    return orders[0] if orders else None


def end_of_page(db: sqlite3.Connection, table: str, after: int, size: int) -> int | None:
    """The id with which a page of ``size`` rows after the given one ends; None when there are fewer."""
    row = db.execute(_END_OF_PAGE.format(table), {"after": after, "size": size}).fetchone()
    return None if row is None else int(row["id"])


def read_orders(
    db: sqlite3.Connection, service: str, account: str, after: int, until: int | None, *, is_terminal: bool | None
) -> list[Order]:
    """The orders of the account on that page, in the order in which they were written."""
    return _read(db, _WHICH[is_terminal], _of_page(service, account, after, until))


def read_running(
    db: sqlite3.Connection, service: str, account: str, after: int, until: int | None
) -> list[RunningTask]:
    """The tasks on that page of the evidence which were not seen to end."""
    return [
        RunningTask(task_id=row["task_id"], order_id=row["order_id"], accepted_at=_at(row["at"]))
        for row in db.execute(_RUNNING, _of_page(service, account, after, until))
    ]


def _of_page(service: str, account: str, after: int, until: int | None) -> dict[str, str | int]:
    return {"service": service, "account": account, "after": after, "until": _LAST_ID if until is None else until}


def read_owner(db: sqlite3.Connection, ref: OrderRef, task_id: str) -> OrderRef | None:
    """The name of another order, of any account of the service, whose receipt is this task."""
    row = db.execute(_OWNER, asdict(ref) | {"task_id": _text(task_id)}).fetchone()
    return None if row is None else OrderRef(service=ref.service, account=row["account"], order_id=row["order_id"])


def _read(db: sqlite3.Connection, where: str, whose: Mapping[str, str | int]) -> list[Order]:
    service, account = str(whose["service"]), str(whose["account"])
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for row in db.execute(f"{_ATTEMPTS} {where.format('attempts')} ORDER BY attempts.n", whose):
        attempts[row["order_id"]].append(_attempt(row))
    closings = {
        row["order_id"]: _closing(row)
        for row in db.execute(f"{_CLOSINGS} {where.format('closings')} ORDER BY id", whose)
    }
    results: dict[str, list[TaskResult]] = defaultdict(list)
    for row in db.execute(f"{_RESULTS} {where.format('evidence')}", whose):
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
        for row in db.execute(f"{_ORDERS} {where.format('orders')} ORDER BY id", whose)
    ]
    return [_with_results(order, results[order.order_id]) if order.order_id in results else order for order in orders]


def _with_results(order: Order, found: list[TaskResult]) -> Order:
    return evolve(order, results=tuple(sorted(found, key=lambda result: order.task_ids.index(result.task_id))))


def read_turn(db: sqlite3.Connection, service: str, account: str, pacing: Pacing, now: datetime) -> Turn | None:
    """The turn by the attempts on record; looks at no more of them than can hold a slot, and only counts them while
    they are fewer than the limit. None when the clock was set back: then :func:`count_anew` comes first."""
    since = now - timedelta(seconds=pacing.window) - SLOT_MARGIN
    whose = {"service": service, "account": account, "since": _micros(since), "limit": pacing.limit}
    (held,) = db.execute(_HELD, whose).fetchone()
    if held < pacing.limit:
        return Turn(pacing.limit - held, 0.0)
    holds = []
    for row in _may_hold(db, service, account, since):
        attempt, counted = _attempt_in_line(row), _at(row["counted_at"])
        if attempt.correct_count(counted, now) != counted:
            return None
        holds.append(hold_of(counted, pacing, now, is_open=attempt.evidence is None))
    return turn(holds, pacing, now)


def count_anew(db: sqlite3.Connection, service: str, account: str, now: datetime) -> None:
    """Bring what is counted in days that have not come yet back to now."""
    for row in _may_hold(db, service, account, now):
        counted = _attempt_in_line(row).correct_count(_at(row["counted_at"]), now)
        whose = {"service": service, "account": account, "order_id": row["order_id"], "n": row["n"]}
        db.execute(_COUNT, whose | {"counted_at": _micros(counted)})


def _may_hold(db: sqlite3.Connection, service: str, account: str, since: datetime) -> list[sqlite3.Row]:
    whose = {"service": service, "account": account, "since": _micros(since)}
    return db.execute(_MAY_HOLD_A_SLOT, whose).fetchall()


def read_namespace(db: sqlite3.Connection) -> str | None:
    row = db.execute("SELECT word FROM namespace").fetchone()
    return None if row is None else str(row["word"])


def add_namespace(db: sqlite3.Connection, word: str) -> None:
    db.execute("INSERT INTO namespace (id, word) VALUES (1, ?)", (word,))


def add_order(db: sqlite3.Connection, order: Order) -> None:
    """Write a new order; one that is on record stays as it is."""
    facts = {
        "idempotency_key": order.idempotency_key,
        "body": order.body,
        "created_at": _micros(order.created_at),
    }
    db.execute(_ADD_ORDER, asdict(order.ref) | facts)


def add_attempt(db: sqlite3.Connection, ref: OrderRef, attempt: Attempt) -> None:
    facts = {
        "n": attempt.n,
        "sent_at": _micros(attempt.sent_at),
        "deadline_at": _micros(attempt.deadline_at),
        "kind": attempt.kind,
        "by": _text(attempt.by),
        "reason": _text(attempt.reason),
        "counted_at": _counted_at(attempt),
    }
    db.execute(_ADD_ATTEMPT, asdict(ref) | facts)


def add_news(db: sqlite3.Connection, before: Order, after: Order) -> None:
    """Write the evidence by which ``after`` knows more than ``before``."""
    for old, new in zip(before.attempts, after.attempts, strict=True):
        if new.evidence is not None and new.evidence is not old.evidence:
            attempt = asdict(after.ref) | {"n": new.n}
            db.execute(_ADD_EVIDENCE, attempt | _facts(new.evidence))
            db.execute(_COUNT, attempt | {"counted_at": _counted_at(new)})
            for candidate in new.evidence.candidates:
                db.execute(_ADD_CANDIDATE, asdict(after.ref) | {"task_id": _text(candidate)})


def add_closing(db: sqlite3.Connection, ref: OrderRef, closing: Closing) -> None:
    facts = {
        "state": closing.state.value,
        "at": _micros(closing.at),
        "reason": _text(closing.reason),
        "by": _text(closing.by),
    }
    db.execute(_ADD_CLOSING, asdict(ref) | facts)


def add_results(db: sqlite3.Connection, service: str, results: Iterable[TaskResult]) -> None:
    """Write how tasks ended that are receipts; what is on record stays."""
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
    """Whether another order of the account has the task as a candidate, or one of the service as its receipt."""
    named = asdict(ref) | {"task_id": _text(task_id)}
    return db.execute(_IS_CANDIDATE, named).fetchone() is not None or read_owner(db, ref, task_id) is not None


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


def _attempt_in_line(row: sqlite3.Row) -> Attempt:
    """No more of an attempt than the rolling limit asks for."""
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
    """None also for one that is too large for a column."""
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _text(text: str) -> str:
    """A lone surrogate, which JSON of a confused service can hold, is no text to SQLite: written as ``\\udc80``."""
    return text.encode("utf-8", "backslashreplace").decode()

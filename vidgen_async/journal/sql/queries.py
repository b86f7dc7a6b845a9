"""The SQL statements of journals, which convert orders to rows and back.

SQLite and PostgreSQL execute the same statements. Every function must be called inside a transaction.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from attrs import evolve, fields, frozen

from vidgen_async.journal.base import escape_text
from vidgen_async.journal.sql.statements import COSTS, read_statements
from vidgen_async.types.limits import (
    SLOT_MARGIN,
    LimitState,
    Pacing,
    Spending,
    SpendingLimit,
    Turn,
    compute_turn,
    make_hold,
)
from vidgen_async.types.orders import (
    SET_BACK,
    Attempt,
    AttemptOutcome,
    Balance,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    RunningTask,
    Spend,
    TaskResult,
)

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
"""A row; only its columns are read, by name. (sqlite3.Row is not a Mapping, but has this operation.)"""


class Rows(Protocol):
    """The rows that a statement returns."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """An open connection, in a transaction. Parameters are written ``:name``."""

    def execute(self, statement: str, parameters: Mapping[str, object], /) -> Rows: ...

    def adjust(self, record: T) -> T:
        """Return a time, or a record with all its times, in the clock of the journal. A journal that several hosts
        share has a clock of its own; it converts the result of the transaction back."""
        ...

    def add_session(self, ref: OrderRef, n: int) -> None:
        """Record who sends the attempt, if other processes can detect that its sender has ended, and check that its
        outcome can be stored if another user may have changed the rights to the tables."""
        ...

    def lock_task(self, service: str, task_id: str) -> None:
        """Wait until no other transaction is storing a receipt of the task, of any account, where several can."""
        ...

    def find_orphaned(self, service: str, account: str, order_ids: Sequence[str]) -> Collection[tuple[str, int]]:
        """Return the attempts of these orders whose senders are known to have ended, as order ids and numbers."""
        ...


#: What reading a row raises if it is damaged, or if one that must exist is missing.
RECORD_ERRORS = (TypeError, ValueError, LookupError, ArithmeticError, RecursionError)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NOT_COLUMNS = {"attempts", "closing", "evidence", "ref", "results"}
#: The fields of records that have columns of the same names.
_COLUMNS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.name not in _NOT_COLUMNS)
    for kind in (Attempt, Closing, Evidence, Order, TaskResult)
}


_SQL = read_statements(Path(__file__).with_name("queries.sql"), COSTS)

_MAX_BIGINT = 2**63 - 1
#: The stage of an accepted order whose tasks are all terminal; the stage of any other order is its state.
_TERMINAL = "ended"
_STAGES = frozenset({*OrderState, _TERMINAL})


def name_of(ref: OrderRef) -> dict[str, Any]:
    """Return the parameters that name an order."""
    return {"service": ref.service, "account": ref.account, "order_id": ref.order_id}


def read_order(db: Database, ref: OrderRef) -> Order | None:
    """Return the stored order, or None."""
    orders = _read(db, "= :order_id", name_of(ref))
    return orders[0] if orders else None


def find_end_of_page(db: Database, service: str, account: str, after: int, size: int) -> int | None:
    """Return the id of the last of the ``size`` evidences of the account that follow the id ``after``; None if fewer
    follow."""
    parameters = {"service": service, "account": account, "after": after, "size": size}
    row = db.execute(_SQL["find_end_of_page"], parameters).fetchone()
    return None if row is None else int(row["id"])


@frozen(kw_only=True)
class OrderFilter:
    """Which orders of the account a list has. What SQL cannot decide, whether a deadline has passed, is left to the
    caller: the orders that are found include all that may be in one of ``states``."""

    service: str
    account: str
    states: Collection[OrderState] | None
    is_terminal: bool | None
    since: datetime | None
    newest_first: bool

    @property
    def stages(self) -> set[str]:
        """The stages that orders of the list may have."""
        stages: set[str] = set(_STAGES)
        if self.states is not None:
            # A deadline that has passed changes only the state of orders that are being sent.
            stages = {*self.states, OrderState.SENDING}
            stages |= {_TERMINAL} if OrderState.ACCEPTED in stages else set()
        if self.is_terminal is not None:
            stages &= {_TERMINAL if self.is_terminal else OrderState.ACCEPTED}
        return stages


def find_orders(db: Database, which: OrderFilter, after: int | None, size: int) -> list[int]:
    """Return the rows of the next ``size`` orders that follow the row ``after``, in the sequence of the list."""
    parameters = {
        "service": which.service,
        "account": which.account,
        "after": after if after is not None else _MAX_BIGINT if which.newest_first else 0,
        "since": _micros(which.since) if which.since is not None else -_MAX_BIGINT,
        "size": size,
    }
    query = _SQL["find_newest" if which.newest_first else "find_oldest"]
    # One statement for each stage: each reads just the first rows of a range of the index.
    found = [db.execute(query, parameters | {"stage": stage}) for stage in which.stages]
    return sorted((int(row["id"]) for rows in found for row in rows), reverse=which.newest_first)[:size]


def find_row(db: Database, ref: OrderRef) -> int | None:
    """Return the row of an order, or None."""
    row = db.execute(_SQL["find_row"], name_of(ref)).fetchone()
    return None if row is None else int(row["id"])


def read_accounts(db: Database, limit: int) -> list[tuple[str, str]]:
    """Return the first accounts that have orders, as services and accounts."""
    found = [("", "")]
    while len(found) <= limit:
        service, account = found[-1]
        row = db.execute(_SQL["find_next_account"], {"service": service, "account": account}).fetchone()
        if row is None:
            break
        found.append((row["service"], row["account"]))
    return found[1:]


def read_orders(db: Database, service: str, account: str, rows: Sequence[int]) -> list[Order]:
    """Return the account's orders in these rows, oldest first."""
    which = _SQL["of_rows"].replace("{rows}", ", ".join(map(str, rows)))
    return _read(db, which, {"service": service, "account": account}) if rows else []


def read_running(db: Database, service: str, account: str, after: int, until: int | None) -> list[RunningTask]:
    """Return the account's tasks of the page that are not known to be terminal."""
    last = _MAX_BIGINT if until is None else until
    parameters = {"service": service, "account": account, "after": after, "until": last}
    return [
        RunningTask(task_id=row["task_id"], order_id=row["order_id"], accepted_at=_at(row["at"]))
        for row in db.execute(_SQL["read_running"], parameters)
    ]


def read_owner(db: Database, ref: OrderRef, task_id: str) -> OrderRef | None:
    """Return the name of another order, of any account of the service, whose receipt is this task."""
    return find_owner(db, ref, task_id)()


def find_owner(db: Database, ref: OrderRef, task_id: str) -> Callable[[], OrderRef | None]:
    """Look for the owner, and return what reads the answer: PostgreSQL gives it together with that of the next query.
    It must be read before anything is written, as SQLite keeps a lock until then."""
    rows = db.execute(_SQL["find_owner"], name_of(ref) | {"task_id": escape_text(task_id)})

    def read() -> OrderRef | None:
        row = rows.fetchone()
        return None if row is None else OrderRef(service=ref.service, account=row["account"], order_id=row["order_id"])

    return read


def read_brief_orders(db: Database, service: str, account: str, order_ids: Sequence[str]) -> list[Order]:
    """Return the account's orders with these ids, without bodies and texts."""
    ids = {f"id{number}": order_id for number, order_id in enumerate(order_ids)}
    which = f"IN ({', '.join(f':{name}' for name in ids)})"
    return _read(db, which, {"service": service, "account": account} | ids, "brief_") if ids else []


def read_spend(
    db: Database, service: str, account: str, since: datetime | None, after: int, size: int
) -> tuple[list[Spend], int | None]:
    """Return what the account's orders of a page have cost, and the last row of the page; None if it is the last."""
    row = db.execute(_SQL["find_end_of_orders"], {"after": after, "size": size}).fetchone()
    until = None if row is None else int(row["id"])
    parameters = {
        "service": service,
        "account": account,
        "after": after,
        "until": _MAX_BIGINT if until is None else until,
        "since": -_MAX_BIGINT if since is None else _micros(since),
    }
    found = [
        Spend(
            model=row["model"],
            state=row["state"],
            start=_EPOCH + timedelta(seconds=row["start"]),
            attempts=row["attempts"],
            tasks=row["tasks"],
            spending=_spending(row),
        )
        for row in db.execute(_SQL["read_spend"], parameters)
    ]
    return found, until


def _read(db: Database, which: str, parameters: Mapping[str, str | int], kind: str = "") -> list[Order]:
    # Both statements are executed before rows are fetched, so that they can be sent to a server together.
    attempt_rows, order_rows = (
        db.execute(_SQL[f"read_{kind}{name}"].replace("{which}", which), parameters) for name in ("attempts", "orders")
    )

    service, account = str(parameters["service"]), str(parameters["account"])
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    results: dict[str, dict[str, TaskResult]] = defaultdict(dict)
    for row in attempt_rows:
        attempts[row["order_id"]].append(_attempt(row))
        if row["result"] is not None:
            results[row["order_id"]].setdefault(row["task_id"], _result(row))
    return [
        _from_row(
            Order,
            row,
            ref=OrderRef(service=service, account=account, order_id=row["order_id"]),
            attempts=tuple(attempts[row["order_id"]]),
            closing=None if row["state"] is None else _from_row(Closing, row),
            results=tuple(results[row["order_id"]].values()),
        )
        for row in order_rows
    ]


def read_turn(db: Database, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
    """Return the turn, in a transaction that writes. Only attempts that can hold a slot are read, and they are only
    counted while there are fewer than the limit. Times in the future, after the clock was set back, are corrected."""
    since = _micros(now - timedelta(seconds=pacing.window) - SLOT_MARGIN)
    parameters = {"service": service, "account": account, "since": since}
    newest_at = _micros(now + SET_BACK)
    row = db.execute(_SQL["count_held_slots"], parameters | {"newest_at": newest_at, "limit": pacing.limit}).fetchone()
    retry_at = _optional_at(row["retry_at"])
    if row["used"] < pacing.limit:
        return Turn(pacing.limit - row["used"], 0.0).with_pause(retry_at, now)
    holds = []
    for row in db.execute(_SQL["read_held_slots"], parameters).fetchall():
        attempt, stored_at = _attempt_for_pacing(row), _at(row["counted_at"])
        counted_at = attempt.correct_counted_at(stored_at, now)
        if counted_at != stored_at:
            name = {"service": service, "account": account, "order_id": row["order_id"], "n": attempt.n}
            db.execute(_SQL["set_counted_at"], name | {"counted_at": _micros(counted_at)})
        holds.append(make_hold(counted_at, pacing, now, is_open=attempt.evidence is None))
    return compute_turn(holds, pacing, now).with_pause(retry_at, now)


def read_limit(
    db: Database, service: str, account: str, limit: SpendingLimit, reserved: int | None, now: datetime
) -> LimitState:
    """Return what counts towards the limit, and when it allows one more attempt."""
    minute, day = limit.begins_at(now)
    parameters = {"service": service, "account": account, "minute": minute, "day": day}
    spending = _spending(db.execute(_SQL["read_spending"], parameters).fetchone())
    if limit.allows(spending, reserved):
        return LimitState(limit, spending, is_allowed=True)

    def read_sums(seconds: int, since: int, until: int) -> list[tuple[int, Spending]]:
        period = {"service": service, "account": account, "seconds": seconds, "since": since, "until": until}
        rows = db.execute(_SQL["read_sums"], period)
        return [(row["start"], _spending(row)) for row in rows.fetchall()]

    room_at = limit.find_room(spending, reserved, now, read_sums)
    return LimitState(limit, spending, is_allowed=False, room_at=room_at)


def verify_spending(db: Database, service: str, account: str) -> None:
    """Compare the stored sums with the attempts, and correct them."""
    for name in ("verify_costs", "verify_spending"):
        db.execute(_SQL[name], {"service": service, "account": account})


def read_namespace(db: Database, proposed: str) -> str:
    """Return the stored namespace; if there is none, ``proposed`` is stored."""
    db.execute(_SQL["add_namespace"], {"word": proposed})
    return str(db.execute(_SQL["read_namespace"], {}).fetchone()["word"])


def add_order(db: Database, order: Order) -> Order | None:
    """Write a new order, and return it as it is stored. One that is stored already is not changed; None then."""
    row = name_of(order.ref) | _to_row(order)
    if db.execute(_SQL["add_order"], row).fetchone() is None:
        return None
    return evolve(order, model=row["model"], idempotency_key=row["idempotency_key"])


def add_attempt(db: Database, ref: OrderRef, attempt: Attempt) -> None:
    """Write an attempt.

    Raises:
        LookupError: The database has left it out, as a trigger can.
    """
    row = name_of(ref) | _to_row(attempt) | {"counted_at": _to_column(attempt.counted_at)}
    if not db.execute(_SQL["add_attempt"], row).fetchall():
        raise LookupError


def add_evidence(db: Database, before: Order, after: Order) -> Order:
    """Write the evidence that ``after`` has and ``before`` does not have. Return ``after``."""
    for old, new in zip(before.attempts, after.attempts, strict=True):
        if new.evidence is not None and new.evidence is not old.evidence:
            attempt = name_of(after.ref) | {"n": new.n}
            db.execute(_SQL["add_evidence"], attempt | _to_row(new.evidence))
            db.execute(_SQL["set_counted_at"], attempt | {"counted_at": _to_column(new.counted_at)})
            for candidate in new.evidence.candidates:
                db.execute(_SQL["add_candidate"], attempt | {"task_id": escape_text(candidate)})
    if after is not before:
        # Also if a repeated settle adds nothing: only a commit that writes waits for a synchronous standby.
        store_stage(db, after)
    return after


def store_stage(db: Database, order: Order) -> None:
    """Store in which state the order is now, for lists."""
    db.execute(_SQL["set_stage_of_order"], name_of(order.ref) | {"state": order.state})


def add_closing(db: Database, ref: OrderRef, closing: Closing) -> None:
    db.execute(_SQL["add_closing"], name_of(ref) | _to_row(closing))


def add_results(db: Database, service: str, results: Iterable[TaskResult]) -> None:
    """Write the terminal states of tasks that have a receipt. States that are stored already are not changed."""
    for result in results:
        row = {"service": service} | _to_row(result)
        db.execute(_SQL["add_result"], row)
        name = {"service": service, "task_id": row["task_id"]}
        db.execute(_SQL["set_stage_of_task"], name | {"state": OrderState.ACCEPTED})


def is_claimed(db: Database, ref: OrderRef, task_id: str) -> bool:
    """Return whether the task is a candidate of another order of the account, or the receipt of another order."""
    parameters = name_of(ref) | {"task_id": escape_text(task_id)}
    candidate = db.execute(_SQL["find_other_candidate"], parameters).fetchone()
    return candidate is not None or read_owner(db, ref, task_id) is not None


def _attempt(row: Row) -> Attempt:
    evidence = None if row["outcome"] is None else _from_row(Evidence, row)
    return _from_row(Attempt, row, evidence=evidence)


def _result(row: Row) -> TaskResult:
    return TaskResult(
        task_id=row["task_id"],
        status=row["result"],
        at=_at(row["result_at"]),
        points=row["points"],
        failure_reason=row["failure_reason"],
    )


def _attempt_for_pacing(row: Row) -> Attempt:
    """Return an attempt with only those fields that the rolling limit needs."""
    evidence = None
    if row["outcome"] is not None:
        evidence = Evidence(outcome=AttemptOutcome(row["outcome"]), at=_at(row["at"]), answered=bool(row["answered"]))
    return Attempt(n=row["n"], sent_at=_at(row["sent_at"]), deadline_at=_at(row["deadline_at"]), evidence=evidence)


def _spending(row: Row) -> Spending:
    return Spending(spent=row["spent"], reserved=row["reserved"], unknown=row["unknown"])


def _to_row(record: Attempt | Closing | Evidence | Order | TaskResult) -> dict[str, Any]:
    """Return the values of the columns that are named after fields of the record."""
    return {name: _to_column(getattr(record, name)) for name in _COLUMNS[type(record)]}


def _to_column(value: object) -> object:
    match value:
        case str():
            return escape_text(value)
        case datetime():
            return _micros(value)
        case tuple():
            return json.dumps(value)
        case Mapping():
            return json.dumps(dict(value))
        case Balance():
            return json.dumps({"at": _micros(value.at), "numbers": dict(value.numbers)})
        case int() if not -(2**63) <= value < 2**63:
            return None  # too large for a column
        case _:
            return value


def _from_row(kind: type[T], row: Row, **others: object) -> T:
    """Return the record whose fields are in the columns of the same names, and in ``others``."""
    values = {name: row[name] if read is None else read(row[name]) for name, read in _READERS[kind]}
    return kind(**values, **others)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _at(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _optional_at(micros: int | None) -> datetime | None:
    return None if micros is None else _at(micros)


def _balance(text: str | None) -> Balance | None:
    if text is None:
        return None
    data = json.loads(text)
    return Balance(at=_at(data["at"]), numbers=data["numbers"])


#: How columns are read whose values are not those of the fields.
_FROM_COLUMN: Mapping[str, Callable[[Any], Any]] = {
    "answered": bool,
    "at": _at,
    "balance_after": _balance,
    "balance_before": _balance,
    "candidates": lambda text: tuple(json.loads(text)),
    "created_at": _at,
    "deadline_at": _at,
    "extra": json.loads,
    "headers": lambda text: tuple(map(tuple, json.loads(text))),
    "local_images": json.loads,
    "outcome": AttemptOutcome,
    "retry_at": _optional_at,
    "sent_at": _at,
    "state": OrderState,
}
_READERS = {kind: [(name, _FROM_COLUMN.get(name)) for name in columns] for kind, columns in _COLUMNS.items()}

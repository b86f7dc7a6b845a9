"""Operations that are committed together."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from attrs import Factory, frozen

D = TypeVar("D", bound="Savepoints")

#: The most operations of one commit. (PostgreSQL is slower with more than 64 savepoints that have written.)
MOST_OPERATIONS = 64
#: Seconds after which no further operation joins: other processes wait for the lock meanwhile.
LONGEST_GROUP = 0.05


class Savepoints(Protocol):
    """An open connection, in a transaction."""

    def finish(self) -> None:
        """Raise the errors of what was executed so far."""
        ...

    def savepoint(self) -> None: ...

    def release(self) -> None:
        """Raise the errors of what was executed since the savepoint, or release it."""
        ...

    def roll_back(self, error: BaseException) -> bool:
        """Undo what was executed since the savepoint, and release it; return False if the error, or what it has done,
        requires that the whole transaction is rolled back."""
        ...


@frozen(eq=False)
class Waiting(Generic[D]):
    """Operations that may share a transaction, in the order in which they are carried out."""

    lock: threading.Lock = Factory(threading.Lock)
    """Held by the thread that carries out a group of them."""
    _mutex: threading.Lock = Factory(threading.Lock)
    _operations: deque[tuple[Callable[[D], Any], Future[Any], float]] = Factory(deque)

    def add(self, operation: Callable[[D], Any], future: Future[Any]) -> None:
        self._operations.append((operation, future, monotonic()))

    def take(self, added_by: float) -> tuple[Callable[[D], Any], Future[Any]] | None:
        """Return the next operation, which is carried out from now on whatever its caller does; None if there is no
        other one, or it was added later."""
        with self._mutex:
            while self._operations and self._operations[0][2] <= added_by:
                operation, future, _ = self._operations.popleft()
                if not future.done() and future.set_running_or_notify_cancel():
                    return operation, future
        return None

    def __bool__(self) -> bool:
        return bool(self._operations)


def has_begun(future: Future[Any]) -> bool:
    """Return whether the operation is part of a group, or its caller was cancelled before."""
    return future.running() or future.done()


class Group(Generic[D]):
    """What one transaction carries out: the first of the operations that wait, and, within bounds, each that waits when
    the previous one has ended; if all read one snapshot, only those that were asked for before it. One that fails is
    undone alone. None is answered before the commit."""

    def __init__(self, waiting: Waiting[D], *, has_snapshot: bool = False) -> None:
        self._waiting = waiting
        self._added_by = monotonic() if has_snapshot else inf
        first = waiting.take(inf)
        self._operations = [] if first is None else [first]
        self._outcomes: list[tuple[Any, BaseException | None]] = []

    @property
    def errors(self) -> list[BaseException]:
        """Those of operations that were undone alone."""
        return [error for _, error in self._outcomes if error is not None]

    def execute(self, db: D) -> None:
        """Carry out the operations in a transaction that has begun. If this raises, the transaction must be rolled
        back; then all have failed, or it is called again."""
        self._outcomes.clear()
        ends_at = monotonic() + LONGEST_GROUP
        for operation, _ in self._operations:  # also those that join
            is_first = len(self._operations) == 1
            # If the first fails, nothing else needs to be kept.
            self._outcomes.append((operation(db), None) if is_first else _execute_alone(db, operation))
            is_last = len(self._outcomes) == len(self._operations)
            if is_last and self._waiting and len(self._operations) < MOST_OPERATIONS and monotonic() < ends_at:
                if is_first:
                    db.finish()
                joined = self._waiting.take(self._added_by)
                self._operations += [] if joined is None else [joined]

    def answer(self, explain: Callable[[BaseException], BaseException]) -> None:
        """Answer all callers: the transaction is committed."""
        for (_, future), (result, error) in zip(self._operations, self._outcomes, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(explain(error))

    def fail(self, error: BaseException) -> None:
        """Let all operations fail: the transaction was rolled back, or its commit was not confirmed."""
        for _, future in self._operations:
            future.set_exception(error)


def _execute_alone(db: D, operation: Callable[[D], Any]) -> tuple[Any, BaseException | None]:
    db.savepoint()
    try:
        result = operation(db)
        db.release()
    except BaseException as error:
        if not db.roll_back(error):
            raise
        return None, error
    return result, None

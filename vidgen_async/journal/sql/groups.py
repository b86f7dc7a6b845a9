"""Operations that are committed together."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from attrs import Factory, frozen

D = TypeVar("D", bound="Transaction")

#: The most operations of one commit.
MOST_OPERATIONS = 64
#: Seconds after which no further operation joins: other processes wait for the lock meanwhile.
LONGEST_GROUP = 0.05


class Transaction(Protocol):
    """An open connection, in a transaction."""

    def finish(self) -> None:
        """Raise the errors of what was executed so far."""
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

    def take(self, added_by: float = inf) -> list[tuple[Callable[[D], Any], Future[Any]]]:
        """Return the next operation, which is carried out from now on whatever its caller does; none if there is no
        other one, or it was added later."""
        with self._mutex:
            while self._operations and self._operations[0][2] <= added_by:
                operation, future, _ = self._operations.popleft()
                if not future.done() and future.set_running_or_notify_cancel():
                    return [(operation, future)]
        return []

    def next_group(self, *, has_snapshot: bool = False) -> "Group[D]":
        """Return the group of the next operation. Further ones join it; if all read one snapshot, only those that were
        added before."""
        added_by = monotonic() if has_snapshot else inf
        return Group(self.take(), lambda: self.take(added_by) if self else [])

    def __bool__(self) -> bool:
        return bool(self._operations)


def has_begun(future: Future[Any]) -> bool:
    """Return whether the operation is part of a group, or its caller was cancelled before."""
    return future.running() or future.done()


class Group(Generic[D]):
    """What one transaction carries out. None is answered before the commit. If one fails, the transaction is rolled
    back, and each is carried out alone.

    Args:
        operations: The first one.
        take: Returns, when the previous one has ended, the next that waits, if there is one.
    """

    def __init__(
        self,
        operations: list[tuple[Callable[[D], Any], Future[Any]]],
        take: Callable[[], list[tuple[Callable[[D], Any], Future[Any]]]] = list,
    ) -> None:
        self._operations = operations
        self._take = take
        self._results: list[Any] = []
        self._is_executed = False

    def execute(self, db: D) -> None:
        """Carry out the operations in a transaction that has begun. If this raises, the transaction must be rolled
        back; it may be called again."""
        self._results.clear()
        self._is_executed = False
        ends_at = monotonic() + LONGEST_GROUP
        for operation, _ in self._operations:  # also those that join
            self._results.append(operation(db))
            is_last = len(self._results) == len(self._operations)
            if is_last and len(self._operations) < MOST_OPERATIONS and monotonic() < ends_at:
                self._operations += self._take()
        if len(self._operations) > 1:
            db.finish()
        self._is_executed = True

    def split(self) -> "list[Group[D]]":
        """Return a group for each operation, after one has failed; none if there is only one, or the commit failed."""
        is_one = len(self._operations) < 2
        return [] if is_one or self._is_executed else [Group([operation]) for operation in self._operations]

    def answer(self) -> None:
        """Answer all callers: the transaction is committed."""
        for (_, future), result in zip(self._operations, self._results, strict=True):
            future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Let all operations fail: the transaction was rolled back, or its commit was not confirmed."""
        for _, future in self._operations:
            future.set_exception(error)

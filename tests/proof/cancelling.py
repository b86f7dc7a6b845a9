"""Something happens at the k-th moment at which a call, or a worker that it started, begins or ends to wait."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio
import psycopg
import pytest

from vidgen_async.clock import LoopClock
from vidgen_async.journal import PostgresJournal, SqliteJournal
from vidgen_async.journal.opening import journal_from
from vidgen_async.sandbox import Sandbox
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.types.orders import Order, OrderRef, idempotency_key

T = TypeVar("T")

NAMESPACE = "word"
FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}

_counting: ContextVar["Moments | None"] = ContextVar("counting", default=None)


class Moments:
    """Counts them; at number ``at``, ``happens`` is called. Each wait has two: before it is begun, and when what was
    waited for has come but the waiter does not know yet."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.happens: Callable[[], object] = lambda: None

    def start(self, call: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """A worker that is counted, with all the workers that come of it."""
        context = copy_context()
        context.run(_counting.set, self)
        return asyncio.get_running_loop().create_task(call, context=context)

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """``await call``, counted, with all the workers that come of it."""
        token = _counting.set(self)
        try:
            return await _Counted(call, self)
        finally:
            _counting.reset(token)

    def tick(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.happens()


class _Counted:
    """A coroutine that is stepped by hand."""

    def __init__(self, stepped: Coroutine[Any, Any, T], moments: Moments) -> None:
        self._stepped = stepped
        self._moments = moments

    def __await__(self) -> Generator[Any, Any, Any]:
        step, argument = self._stepped.send, None
        while True:
            try:
                awaited = step(argument)
            except StopIteration as end:
                return end.value
            if asyncio.isfuture(awaited):  # called before the waiter is: it was added first
                awaited.add_done_callback(lambda _: self._moments.tick(), context=Context())
            self._moments.tick()
            try:
                step, argument = self._stepped.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - a cancellation goes where it belongs
                step, argument = self._stepped.throw, error


def count_moments(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop's workers countable."""

    def make(
        loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, T], *, context: Context | None = None, **options: Any
    ) -> "asyncio.Task[T]":
        moments = _counting.get() if context is None else context.get(_counting)

        async def counted() -> T:
            return await _Counted(call, moments)

        if moments is None:
            return asyncio.Task(call, loop=loop, context=context, **options)
        worker = asyncio.Task(counted(), loop=loop, context=context, **options)
        worker.add_done_callback(lambda _: call.close())  # cancelled before its first step, it never gets there
        return worker

    loop.set_task_factory(make)


# -- how a caller goes away --------------------------------------------------------------------------------------------

#: Runs the call in the moments' count; whether it was cancelled.
Way = Callable[[Moments, Callable[[], Awaitable[object]]], Awaitable[bool]]


async def by_cancel(moments: Moments, call: Callable[[], Awaitable[object]]) -> bool:
    """``task.cancel()``."""
    caller = moments.start(call())
    moments.happens = caller.cancel
    await asyncio.wait({caller})
    if not caller.cancelled():
        caller.result()
    return caller.cancelled()


async def by_anyio_scope(moments: Moments, call: Callable[[], Awaitable[object]]) -> bool:
    """The cancel scope of an anyio task group."""

    async def scoped() -> bool:
        async with anyio.create_task_group() as group:
            moments.happens = group.cancel_scope.cancel
            group.start_soon(call)
        return group.cancel_scope.cancelled_caught

    return await moments.start(scoped())


WAYS: tuple[Way, ...] = (by_cancel, by_anyio_scope)


# -- what is looked at -------------------------------------------------------------------------------------------------


class Shifted(LoopClock):
    """Real time, with a calendar that may be set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.seconds)


class Alarm(LoopClock):
    """The time limit of a create is over when the alarm is rung; other waits are short."""

    LIMIT = 77.0

    def __init__(self) -> None:
        self._rings = asyncio.Event()

    def ring(self) -> None:
        self._rings.set()
        self._rings = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await (self._rings.wait() if seconds == self.LIMIT else super().sleep(min(seconds, 0.01)))


class Pause:
    """Stops a thread of the journal before its ``at``-th statement, of those that hold ``word``."""

    def __init__(self, at: int = 1, word: str = "") -> None:
        self._left = at
        self._word = word
        self.is_reached = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, statement: str) -> None:
        # A PRAGMA follows each operation in a file, whose result its caller has already.
        self._left -= self._word in statement and not statement.startswith("PRAGMA")
        if self._left == 0 and not self.is_reached.is_set():
            self.is_reached.set()
            self.go_on.wait(30)

    async def apply_to(self, journal: SqliteJournal | PostgresJournal, monkeypatch: pytest.MonkeyPatch) -> None:
        """Call this before each statement of the journal; in PostgreSQL, before those of any journal."""
        if isinstance(journal, SqliteJournal):
            await journal._run(lambda db: db.set_trace_callback(self))
            return
        execute = psycopg.Connection.execute

        def pause_and_execute(connection: psycopg.Connection, statement: str, *arguments: Any) -> psycopg.Cursor:
            self(statement)
            return execute(connection, statement, *arguments)

        monkeypatch.setattr(psycopg.Connection, "execute", pause_and_execute)


def origin_of(service: Sandbox) -> str:
    return service.base_url.removesuffix("/openapi/v1")


def posts_of(service: Sandbox, order_id: str) -> list[ReceivedCreate]:
    """What the service received of the order, whatever became of it."""
    key = idempotency_key(NAMESPACE, "default", order_id)
    return [create for create in service.creates if create.idempotency_key == key]


async def stored_order(place: Path | str, service: Sandbox, order_id: str) -> Order | None:
    """What another process reads now in the file, or in the journal of that name."""
    journal = journal_from(place) if isinstance(place, str) else SqliteJournal(place)
    try:
        ref = OrderRef(service=origin_of(service), account="default", order_id=order_id)
        return await journal.get(ref, datetime.now(UTC))
    finally:
        await journal.aclose()


def gist(order: Order | None) -> object:
    """What is the same in all runs that came to the same: the state, and each attempt with its outcome."""
    if order is None:
        return None
    return order.state, [(attempt.n, attempt.kind, attempt.outcome) for attempt in order.attempts], len(order.task_ids)


def threads() -> set[threading.Thread]:
    """The journals' threads."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("journal ")}


def open_files() -> int:
    """Files and sockets of this process; 0 where the system does not tell."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else 0


async def comes_true(what: Callable[[], bool]) -> None:
    """Return once it is so; some of it happens in the kernel and in threads."""
    async with asyncio.timeout(10):
        while not what():  # noqa: ASYNC110 - neither the kernel nor a thread tells
            await asyncio.sleep(0.001)

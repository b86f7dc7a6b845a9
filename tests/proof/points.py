"""Where a worker comes to a halt: it wraps objects around the package's own, which knows nothing of it."""

import os
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Self

import psycopg

from vidgen_async.journal.postgres import connection_string, time_limit
from vidgen_async.journal.sql.queries import _SQL
from vidgen_async.journal.sqlite import file
from vidgen_async.journal.sqlite.file_lock import FileLock, LockedConnection
from vidgen_async.transports.base import Connection, Response, WrappingTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Request

#: What is written in the transactions whose commits can be a point.
COMMITS = {
    name: _SQL[statement].partition("VALUES")[0]
    for name, statement in (("intent", "add_order"), ("attempt", "add_attempt"), ("outcome", "add_evidence"))
}
#: Just before and just after these commits.
COMMIT_POINTS = tuple(f"{when} the commit of the {what}" for what in COMMITS for when in ("before", "after"))
CONNECTED = "connected"
ANSWER_READ = "answer read"
BEFORE_RETURN = "before it returns"


class Halt:
    """Kills or suspends this process once, and reports it before."""

    def __init__(self, point: str, name: str) -> None:
        self.point = point
        self._signal = signal.Signals[name]
        self._is_over = False

    def at(self, point: str) -> None:
        if point == self.point and not self._is_over:
            self._is_over = True
            os.write(1, b'{"halted": true}\n')
            signal.pthread_kill(threading.get_ident(), self._signal)  # so that it is this thread that goes no further


def watch_commits(halt: Halt) -> None:
    """Every connection that is opened from now on comes to the points around its commits."""
    file.LockedConnection = partial(Watched, halt=halt)
    WatchedClientConnection.halt = halt
    connection_string.Connection = WatchedClientConnection


def written_by(statement: str) -> set[str]:
    return {what for what, inserting in COMMITS.items() if inserting in statement}


class WatchedClientConnection(time_limit.Connection):
    """A connection to PostgreSQL. The outer pipeline ends when the response to the commit has come."""

    halt: Halt
    _written: frozenset[str] = frozenset()

    def execute(self, query: Any, *args: Any, **more: Any) -> psycopg.Cursor:
        if str(query).startswith("BEGIN"):
            self._written = frozenset()
        for what in self._written if query == "COMMIT" else ():
            self.halt.at(f"before the commit of the {what}")
        self._written |= written_by(str(query))
        return super().execute(query, *args, **more)

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        is_outer = self._pipeline is None
        with super().pipeline() as pipeline:
            yield pipeline
        for what in self._written if is_outer else ():
            self.halt.at(f"after the commit of the {what}")


class Watched(LockedConnection):
    def __init__(self, *args: Any, halt: Halt, **more: Any) -> None:
        super().__init__(*args, **more)
        self._halt = halt
        self._written: set[str] = set()
        self._committed: set[str] = set()

    @property
    def lock(self) -> "WatchedLock | None":
        return self._lock

    @lock.setter
    def lock(self, lock: FileLock | None) -> None:
        self._lock = None if lock is None else WatchedLock(lock, self)

    def after_unlock(self) -> None:
        committed, self._committed = self._committed, set()
        for what in committed:
            self._halt.at(f"after the commit of the {what}")

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self._written = set()
        self._written |= written_by(sql)
        if sql != "COMMIT":
            return super().execute(sql, *args)
        for what in self._written:
            self._halt.at(f"before the commit of the {what}")
        self._committed = self._written
        return super().execute(sql, *args)


class WatchedLock:
    """The lock of a connection, which comes to a point once it is released."""

    def __init__(self, lock: FileLock, connection: Watched) -> None:
        self._lock = lock
        self._connection = connection

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        with self._lock.hold(exclusive=exclusive):
            yield
        self._connection.after_unlock()

    def close(self) -> None:
        self._lock.close()


class HaltingTransport(WrappingTransport):
    """The real network, with the points between the commits."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(DirectTransport())
        self._halt = halt

    async def send(self, request: Request) -> Response:
        return await self._send(partial(self.inner.send, request))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        async with self.inner.connect(request) as connection:
            self._halt.at(CONNECTED)
            yield connection.with_send(partial(self._send, connection.send))

    async def _send(self, send: Callable[[], Awaitable[Response]]) -> Response:
        return HaltingResponse(await send(), partial(self._halt.at, ANSWER_READ))


class HaltingResponse:
    def __init__(self, inner: Response, halt: Callable[[], None]) -> None:
        self._inner = inner
        self._halt = halt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def chunks(self) -> AsyncIterator[bytes]:
        async for piece in self._inner.chunks():
            yield piece
        self._halt()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *what: object) -> None:
        await self._inner.aclose()

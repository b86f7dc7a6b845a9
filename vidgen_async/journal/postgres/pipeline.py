"""Transactions of which PostgreSQL executes several statements without waiting for their results."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from attrs import asdict, evolve, fields, frozen, has
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import DictRow
from psycopg.waiting import Wait

from vidgen_async.journal.base import escape_text
from vidgen_async.journal.postgres.session_lock import ADD_SESSION, FIND_ORPHANED
from vidgen_async.journal.postgres.table_check import CHECK_RIGHTS
from vidgen_async.journal.postgres.time_limit import Connection
from vidgen_async.journal.sql.queries import Rows
from vidgen_async.types.orders import OrderRef

T = TypeVar("T")

_LOCK_TASK = "SELECT pg_advisory_xact_lock(hashtextextended(:task, 1))"


@frozen
class PipelinedDatabase:
    """Executes the statements that all SQL journals share."""

    _connection: Connection
    _pipeline: psycopg.Pipeline
    _shift: timedelta
    _session: int

    def finish(self) -> None:
        self._pipeline.sync()

    def call(self, operation: "Callable[[PipelinedDatabase], T]") -> T:
        """Return the result of an operation in the clock of its caller."""
        return shifted(operation(self), -self._shift)

    def adjust(self, record: T) -> T:
        return shifted(record, self._shift)

    def add_session(self, ref: OrderRef, n: int) -> None:
        self.execute(CHECK_RIGHTS, {})
        self.execute(ADD_SESSION, asdict(ref) | {"n": n, "session": self._session})

    def lock_task(self, service: str, task_id: str) -> None:
        self.execute(_LOCK_TASK, {"task": escape_text(f"{service} {task_id}")})

    def find_orphaned(self, service: str, account: str, order_ids: Sequence[str]) -> Collection[tuple[str, int]]:
        parameters = {"service": service, "account": account, "order_ids": order_ids, "session": self._session}
        return {(row["order_id"], row["n"]) for row in self.execute(FIND_ORPHANED, parameters)}

    def execute(self, statement: str, parameters: Mapping[str, object], /) -> Rows:
        cursor = self._connection.execute(_translate(statement), parameters)
        _flush(self._connection)
        return _PipelinedRows(cursor, self._pipeline)


@frozen
class _PipelinedRows:
    """The rows of a statement in a pipeline.

    Fetching synchronizes the pipeline: until then, the server regards the transaction as active, and would not end one
    whose process was stopped.
    """

    _cursor: psycopg.Cursor[DictRow]
    _pipeline: psycopg.Pipeline

    def fetchone(self) -> DictRow | None:
        self._synchronize()
        return self._cursor.fetchone()

    def fetchall(self) -> list[DictRow]:
        self._synchronize()
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[DictRow]:
        return iter(self.fetchall())

    def _synchronize(self) -> None:
        if self._cursor.pgresult is None:
            self._pipeline.sync()


def shifted(value: T, shift: timedelta) -> T:
    """Return a time, or records with all their times, moved by ``shift``."""
    return _move(value, shift) if shift else value


def _move(value: Any, shift: timedelta) -> Any:
    if isinstance(value, datetime):
        try:
            return value + shift
        except OverflowError:  # the first or the last date of the calendar, which stands for no limit
            return value
    if isinstance(value, list | tuple):
        return type(value)(_move(item, shift) for item in value)
    if not has(type(value)):
        return value
    return evolve(value, **{field.name: _move(getattr(value, field.name), shift) for field in fields(type(value))})


@lru_cache(maxsize=100)
def _translate(statement: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", statement)


@contextmanager
def pipeline_mode(connection: Connection) -> Iterator[psycopg.Pipeline]:
    """Use the pipeline mode, without the warning that psycopg logs in addition to an error."""
    failure: psycopg.Error | None = None
    try:
        with connection.pipeline() as pipeline:
            try:
                yield pipeline
            except psycopg.Error as error:
                failure = error
    finally:
        if failure is not None:
            raise failure


def _flush(connection: Connection) -> None:
    """Send everything that was executed. In a pipeline, psycopg waits for the response to a statement with a large
    parameter although it has not sent all of it."""
    if connection.pgconn.flush():
        connection.wait(_flush_all(connection.pgconn))


def _flush_all(pgconn: PGconn) -> PQGen[None]:
    while pgconn.flush():
        yield Wait.RW
        pgconn.consume_input()

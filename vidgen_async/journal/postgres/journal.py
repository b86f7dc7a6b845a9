"""A journal in a PostgreSQL database: all hosts that use one account can share it."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, cast

from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal.postgres.schema import quoted_schema
from vidgen_async.journal.sql.journal import SqlJournal, check_seconds
from vidgen_async.journal.sql.queries import Database

try:
    from psycopg.errors import InsufficientPrivilege

    from vidgen_async.journal.postgres.connection_string import describe, has_password
    from vidgen_async.journal.postgres.connections import Connections
    from vidgen_async.journal.postgres.session_lock import SessionLock
except ImportError as error:  # pragma: no cover - the tests have it
    message = f"a journal in PostgreSQL needs psycopg ({error}): pip install 'vidgen-async[postgres]'"
    raise ConfigurationError(message) from error

T = TypeVar("T")

#: Seconds. A limit of the server that is rounded to 0 milliseconds would be none.
_SHORTEST_TIME_LIMIT = 0.01


class PostgresJournal(SqlJournal[Connections]):
    """Orders in a PostgreSQL database, for several hosts that share one account.

    Nothing is opened before the first operation. Completed operations survive a killed process and a crash of the
    server. All stored times are those of the database's clock, so that hosts whose clocks differ count the same rolling
    limit: the difference to the clock of this machine is added to every time that is stored, and subtracted from every
    time that is returned. Clients, event loops and threads can share a journal; a forked child can use it only if it
    was not used before the fork. An operation that raises JournalError was not carried out, unless
    ``may_be_committed`` of the error is true; the client repeats it without harm.

    The first attempt opens one more connection, which must be a direct one, for a lock that the process holds until
    :meth:`aclose`, and as long as an attempt of this journal has no outcome, because another client sends it or its
    answer was not awaited. If the lock of an attempt is not held any more, the attempt is *uncertain* at once. Without
    a lock it is *sending* until its deadline. A user who may only read gets the same state, which is not recorded.

    Args:
        dsn: ``postgresql://user:password@host/database``, or any connection string of libpq, which also reads its
            environment variables, service file and password file. The password is never shown.
        schema: The PostgreSQL schema of the tables. The first operation creates it if the user may do so.
        max_connections: Maximum number of connections, without that of the lock.
        time_limit: Seconds after which an operation fails, also if the server does not respond; at most a day.
        read_time: The clock of the clients that use the journal, in seconds since 1970.

    Raises:
        ConfigurationError: The connection string or another argument is invalid.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "vidgen",
        max_connections: int = 4,
        time_limit: float = 30.0,
        read_time: Callable[[], float] = time.time,
    ) -> None:
        quoted_schema(schema)
        if not isinstance(max_connections, int) or isinstance(max_connections, bool) or max_connections < 1:
            message = f"max_connections must be 1 or more: {max_connections!r}"
            raise ConfigurationError(message)
        check_seconds("time_limit", time_limit, shortest=_SHORTEST_TIME_LIMIT)
        super().__init__(describe(dsn))
        self._dsn = dsn
        self.schema = schema
        self._connect = partial(
            Connections,
            dsn,
            name=self.name,
            schema=schema,
            max_connections=max_connections,
            time_limit=time_limit,
            read_time=read_time,
        )

    @property
    def has_password(self) -> bool:
        """Whether the connection string contains a password."""
        return has_password(self._dsn)

    async def check(self) -> None:
        await self._submit(Connections.check)

    def _open(self) -> Connections:
        return self._connect(cast("SessionLock", self._sender_lock))

    def _make_sender_lock(self) -> SessionLock:
        return SessionLock(self._dsn, name=self.name)

    async def _prepare_begin(self) -> None:
        lock = cast("SessionLock | None", self._sender_lock)
        if lock is None or lock.process != os.getpid() or not lock.is_held():
            await self._submit(Connections.hold_session_lock)

    async def _close(self, database: Connections) -> None:
        # Not in a thread of the event loop's default executor, which may be busy, or shut down already.
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"closing journal {self.name}")
        closing = thread.submit(database.close)
        thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closing))

    async def _read(self, operation: Callable[[Database], T]) -> T:
        return await self._submit(lambda connections: connections.submit(operation, None))

    async def _write(self, operation: Callable[[Database], T], *locked: str) -> T:
        return await self._submit(lambda connections: connections.submit(operation, locked))

    def _has_no_right(self, error: JournalError) -> bool:
        return isinstance(error.__cause__, InsufficientPrivilege)

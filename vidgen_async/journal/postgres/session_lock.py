"""A lock in the database by which other hosts know whether the sender of an attempt is still connected.

Each attempt is recorded with the session of its sender, a random number. The sender holds an advisory lock on that
number with a connection that is used for nothing else, and that the server closes when the process has ended. A lock
that is not held proves only that this connection is closed: the sender may have sent the order, and may still receive
the answer.
"""

import logging
import os
import secrets
import selectors
import threading
import time
import weakref

import psycopg

from vidgen_async.events import Event
from vidgen_async.journal.postgres.connection_string import connect, describe_error
from vidgen_async.journal.postgres.time_limit import Connection, limit_time

logger = logging.getLogger(__name__)

#: Seconds for which a create waits for the connection of the lock, for each host of the connection string; libpq allows
#: no less.
_TIME_LIMIT = 2.0
#: Seconds before a lock that could not be acquired is requested again.
_PAUSE = 10.0

#: Whether the lock on ``{session}`` is held.
_IS_HELD = """
    EXISTS (
        SELECT FROM pg_catalog.pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
        AND classid = CAST({session} >> 32 AS oid) AND objid = CAST({session} & 4294967295 AS oid)
    )
"""
#: The server is asked, because a sender may not know yet that its connection was closed.
ADD_SESSION = f"""
    UPDATE attempts SET session = :session
    WHERE service = :service AND account = :account AND order_id = :order_id AND n = :n
    AND {_IS_HELD.format(session="CAST(:session AS bigint)")}
"""  # noqa: S608 - made of constants
#: A journal makes no statement about its own attempts, nor about those without a session.
FIND_ORPHANED = f"""
    SELECT order_id, n FROM attempts
    WHERE service = :service AND account = :account AND order_id = ANY(:order_ids)
    AND session IS NOT NULL AND session <> :session AND NOT {_IS_HELD.format(session="attempts.session")}
"""  # noqa: S608 - made of constants

#: An administrator's limit for idle sessions does not apply to this one, and the session of a host that was switched
#: off ends after about half a minute. (Settings that this version of the server does not have are left out.)
_SET_UP = """
    SELECT set_config(name, value, false)
    FROM pg_catalog.pg_settings JOIN (VALUES
        ('idle_session_timeout', '0'),
        ('tcp_keepalives_idle', '15'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '30000')
    ) AS wanted (name, value) USING (name)
"""


class SessionLock:
    """The lock of one journal in one process. It is acquired when an attempt is about to be recorded, and held until
    :meth:`close`, or until this object or the process ends. After a loss the same lock is acquired again.
    """

    def __init__(self, dsn: str, *, name: str) -> None:
        self.session = secrets.randbits(63)
        self.process = os.getpid()
        self._dsn = dsn
        self._name = name
        self._mutex = threading.RLock()
        self._connection: Connection | None = None
        self._release: weakref.finalize[..., SessionLock] | None = None
        self._retry_at = 0.0
        self._last_problem = ""

    def hold(self) -> None:
        """Acquire the lock, unless it is held, or could not be acquired less than ten seconds ago.

        Without the lock, attempts are recorded without a session, so that nothing depends on it: this method raises no
        errors, and waits for two seconds at most for each host of the connection string.
        """
        with self._mutex:
            if self._connection is not None and _is_alive(self._connection):
                return
            self.close()
            if time.monotonic() < self._retry_at:
                return
            try:
                self._connection = self._connect_and_lock()
                self._release = weakref.finalize(self, _close, self._connection, self.process)
                self._last_problem = ""
            except (psycopg.Error, OSError, _UnusableError) as error:
                self._retry_at = time.monotonic() + _PAUSE
                self._report(describe_error(error))

    def is_held(self) -> bool:
        """Return whether the lock is certainly held. This waits for nothing, and does not ask the server."""
        if not self._mutex.acquire(blocking=False):
            return False
        try:
            return self._connection is not None and not _has_arrived(self._connection)
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Release the lock. It can be called several times."""
        with self._mutex:
            release, self._connection, self._release = self._release, None, None
            if release is not None:
                release()

    def _connect_and_lock(self) -> Connection:
        connection = connect(
            self._dsn,
            timeout=_TIME_LIMIT,
            application_name="vidgen session lock",
            connect_timeout=round(_TIME_LIMIT),  # whatever the connection string has
            # So that no network forgets the idle connection, and its loss is noticed here too.
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
        )
        try:
            with limit_time(connection, _TIME_LIMIT):
                row = connection.execute("SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS is_standby").fetchone()
                # Nothing of the session may be changed before this is known: other clients of a pooler would use it.
                if row != {"pid": connection.info.backend_pid, "is_standby": False}:
                    problem = "the connection is not a direct one to the primary, as behind a connection pooler"
                    raise _UnusableError(problem)
                connection.execute(_SET_UP)
                query = "SELECT pg_try_advisory_lock(%s::bigint) AS is_held"
                if connection.execute(query, (self.session,)).fetchone() != {"is_held": True}:
                    problem = "the server has not noticed yet that the previous connection was lost"
                    raise _UnusableError(problem)
        except BaseException:
            connection.close()
            raise
        return connection

    def _report(self, problem: str) -> None:
        if problem != self._last_problem:
            self._last_problem = problem
            Event.JOURNAL_SESSION_FAILED.log(logger, journal=self._name, error=problem)


class _UnusableError(Exception):
    """The lock cannot be held with this connection."""


def _close(connection: Connection, process: int) -> None:
    if process == os.getpid():  # a forked child would release the lock of its parent
        connection.close()


def _is_alive(connection: Connection) -> bool:
    """Return whether the server has not closed the connection. The server is asked only if data, or the end of the
    connection, has arrived."""
    try:
        if _has_arrived(connection):
            with limit_time(connection, _TIME_LIMIT):
                connection.execute("SELECT 1")
    except (psycopg.Error, OSError):
        return False
    return True


def _has_arrived(connection: Connection) -> bool:
    """Return whether data, or the end of the connection, has arrived."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            return bool(selector.select(timeout=0))
    except (psycopg.Error, OSError):
        return True

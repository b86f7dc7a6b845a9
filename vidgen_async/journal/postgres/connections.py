"""Transactions in PostgreSQL, executed in threads, so that all journals share their operations."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from vidgen_async.errors import JournalError
from vidgen_async.journal.postgres.connection_pool import ConnectionPool
from vidgen_async.journal.postgres.connection_string import cause_of, connect, describe_error
from vidgen_async.journal.postgres.database_clock import DatabaseClock
from vidgen_async.journal.postgres.faults import find_fault, is_of_statement
from vidgen_async.journal.postgres.pipeline import PipelinedDatabase, pipeline_mode
from vidgen_async.journal.postgres.schema import VERSION, quoted, upgrade_statements
from vidgen_async.journal.postgres.session_lock import SessionLock
from vidgen_async.journal.postgres.table_check import advance_identities
from vidgen_async.journal.postgres.time_limit import Connection, TimeLimitError, limit_time
from vidgen_async.journal.sql.groups import Group, Waiting, has_begun
from vidgen_async.journal.sql.queries import RECORD_ERRORS, Database

T = TypeVar("T")

#: The server's limits as parts of the time limit. The first that is exceeded has the most precise message.
_SERVER_LIMITS = {"lock_timeout": 0.7, "statement_timeout": 0.8, "transaction_timeout": 0.9}
#: Seconds after which the server ends a transaction whose process was stopped, so that it holds no lock for longer.
_IDLE_LIMIT = 10
#: The first version of PostgreSQL that limits the duration of transactions. In an older one, only the keepalives of TCP
#: end a transaction whose network was lost before a statement was sent completely.
_FIRST_WITH_TRANSACTION_TIMEOUT = 170000

#: Number of executions after which a statement is prepared, which saves the server half of its work. Behind a
#: connection pooler none is, because the next transaction may have another session.
_PREPARED_AFTER = 3

_BEGIN_TO_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: After it has waited for a lock, a transaction reads what others have committed meanwhile.
_BEGIN_TO_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"


class Connections:
    """Executes transactions, a bounded number at the same time. Operations that lock the same share them.

    An operation that has begun is completed; one whose caller is cancelled before never begins. The connections are not
    taken from a pool, whose errors do not say why the server could not be reached.

    Args:
        session_lock: The lock of the attempts that are recorded. It has a connection of its own, and is not released.
        name: The database, without its password, for messages.
        dsn, schema, max_connections, time_limit, read_time: Those of the journal.
    """

    def __init__(
        self,
        dsn: str,
        session_lock: SessionLock,
        *,
        name: str,
        schema: str,
        max_connections: int,
        time_limit: float,
        read_time: Callable[[], float],
    ) -> None:
        self._dsn = dsn
        self._name = name
        self._schema = schema
        self._time_limit = time_limit
        self._clock = DatabaseClock(read_time)
        self._local = threading.local()
        self._without_check: set[Connection] = set()
        """The connections that have written nothing, so that the identities were not checked."""
        self._is_schema_checked = False
        self._session_lock = session_lock
        self._pool = ConnectionPool(self._connect, release=session_lock.close, name=name)
        self._waiting: defaultdict[tuple[str, ...] | None, Waiting[PipelinedDatabase]] = defaultdict(Waiting)
        """Operations by what they lock; None for those that only read."""
        self._threads = ThreadPoolExecutor(max_connections, thread_name_prefix=f"journal {name}")

    def submit(self, operation: Callable[[Database], T], locked: tuple[str, ...] | None) -> Future[T]:
        """Queue an operation and return the future of its result, or of a JournalError.

        Args:
            operation: What is executed.
            locked: What nobody else writes to meanwhile; None if nothing is written.
        """
        future: Future[T] = Future()
        waiting = self._waiting[locked]
        waiting.add(lambda db: db.call(operation), future)
        self._threads.submit(self._carry_out, future, waiting, locked)
        return future

    def _carry_out(
        self, future: Future[Any], waiting: Waiting[PipelinedDatabase], locked: tuple[str, ...] | None
    ) -> None:
        """Carry out groups of operations until that of the future is part of one, if it is not yet."""
        if locked is None:  # reads do not wait for each other
            if waiting:  # if another thread has taken that of the future, its own may still wait
                self._carry_out_group(waiting.next_group(has_snapshot=True), locked)
        elif not has_begun(future):  # else without waiting for the end of that group
            with waiting.lock:
                while not has_begun(future):
                    self._carry_out_group(waiting.next_group(), locked)

    def _carry_out_group(self, group: Group[PipelinedDatabase], locked: tuple[str, ...] | None) -> None:
        try:
            self._execute(group, locked)
        except BaseException as error:  # noqa: BLE001 - any error must reach the waiting callers
            parts = group.split() if is_of_statement(error) else []
            for part in parts:
                self._carry_out_group(part, locked)
            if not parts:
                group.fail(self._explain(error))
        else:
            group.answer()

    def check(self) -> Future[None]:
        """Queue a check whether the server, the database and the version of the tables can be used. Nothing is
        written."""
        return self._threads.submit(self._check_explained)

    def _check_explained(self) -> None:
        try:
            return self._check()
        except Exception as error:  # noqa: BLE001 - not raised here, where the original one would be its context
            failure = self._explain(error)
        raise failure

    def _check(self) -> None:
        with closing(connect(self._dsn, timeout=self._time_limit)) as connection:
            connection.add_notice_handler(self._handle_notice)
            with limit_time(connection, self._time_limit):
                self._check_server(connection)
                with connection.transaction():
                    self._set_up(connection)
                    self._check_version(self._read_version(connection))

    def hold_session_lock(self) -> Future[None]:
        """Queue :meth:`SessionLock.hold`, which precedes every attempt."""
        return self._threads.submit(self._session_lock.hold)

    def close(self) -> None:
        """Wait until all queued transactions are completed, and close all connections but that of the session lock."""
        self._threads.shutdown()
        self._pool.close()

    def _execute(self, group: Group[PipelinedDatabase], locked: tuple[str, ...] | None) -> None:
        is_new = False
        while True:
            with suppress(_ReplaceableError):
                return self._use_connection(group, locked, is_new=is_new)
            # The server may have closed the old connection, or have changed, while nothing was executed.
            is_new = True

    def _use_connection(self, group: Group[PipelinedDatabase], locked: tuple[str, ...] | None, *, is_new: bool) -> None:
        """Execute one transaction.

        Raises:
            _ReplaceableError: It was rolled back, and may succeed with a new connection.
            psycopg.Error, JournalError: As from :meth:`_transact`.
        """
        connection, was_opened = self._pool.take(is_new=is_new)
        try:
            self._transact(connection, group, locked)
        except psycopg.Error as error:
            if not find_fault(error).closes:
                raise
            connection.close()
            if was_opened or isinstance(error, TimeLimitError | errors.TransactionTimeout):
                raise
            raise _ReplaceableError from error
        finally:
            self._pool.give_back(connection)
            if connection.closed:
                self._without_check.discard(connection)

    def _transact(
        self, connection: Connection, group: Group[PipelinedDatabase], locked: tuple[str, ...] | None
    ) -> None:
        """Execute one transaction.

        Raises:
            psycopg.Error: It was rolled back. A connection that was lost is broken.
            JournalError: The connection was lost during the commit, and the server did not report that it failed.
        """
        is_complete = False
        self._local.is_replicated = True
        try:
            with limit_time(connection, self._time_limit):
                shift = self._clock.read_shift(connection)
                with _rolled_back_on_error(connection), pipeline_mode(connection) as pipeline:
                    # In a pipeline, statements are sent without waiting for the results of the previous ones.
                    # (connection.transaction() would wait for those of BEGIN and of COMMIT, and before COMMIT.)
                    connection.execute(_BEGIN_TO_READ if locked is None else _BEGIN_TO_WRITE)
                    self._set_up(connection)
                    db = PipelinedDatabase(connection, pipeline, shift, self._session_lock.session)
                    if locked is not None and connection in self._without_check:
                        connection.execute("SAVEPOINT before_check")
                        advance_identities(db)
                        connection.execute("ROLLBACK TO SAVEPOINT before_check")
                    self._lock(connection, locked or ())
                    group.execute(db)
                    is_complete = True
                    connection.execute("COMMIT")
        except psycopg.Error as error:
            if locked is None or not is_complete or error.diag.severity_nonlocalized == "ERROR":
                raise
            # (After a crash, pg_xact_status() may answer for another transaction that was given the same id.)
            problem = (
                f"the connection was lost during a commit ({describe_error(error)}), which may have been carried out"
            )
            raise self._make_error(problem, may_be_temporary=True, may_be_committed=True) from error
        if locked is not None:
            self._without_check.discard(connection)
        if locked is not None and not self._local.is_replicated:
            problem = "a commit was cancelled while it waited for the standby: it is carried out, but may be lost"
            raise self._make_error(problem, may_be_temporary=True, may_be_committed=True)

    def _handle_notice(self, notice: errors.Diagnostic) -> None:
        # A commit that is cancelled while it waits for a synchronous standby succeeds, with a warning.
        if notice.source_function == "SyncRepWaitForLSN":
            self._local.is_replicated = False

    def _lock(self, connection: Connection, locked: tuple[str, ...]) -> None:
        """Wait until nobody else writes to what is locked, and lock it until the transaction ends."""
        if locked:
            service = f"vidgen {self._schema} {locked[0]}"
            kind = "" if len(locked) == 1 else "_shared"
            connection.execute(f"SELECT pg_advisory_xact_lock{kind}(hashtextextended(%s, 0))", (service,))
        if len(locked) > 1:
            account = "\n".join((service, *locked[1:]))
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (account,))

    def _set_up(self, connection: Connection) -> None:
        """Set what holds for the transaction only: behind a connection pooler the next one may use another session."""
        settings = {
            "search_path": quoted(self._schema),
            "synchronous_commit": "on",
            "idle_in_transaction_session_timeout": str(round(_IDLE_LIMIT * 1000)),
            "client_min_messages": "warning",
            "row_security": "off",  # rows that it would hide are an error
            "random_page_cost": "1.1",  # few rows are read; by default, whole tables of some thousand rows would be
        }
        limits = {name: str(round(self._time_limit * part * 1000)) for name, part in _SERVER_LIMITS.items()}
        if connection.info.server_version < _FIRST_WITH_TRANSACTION_TIMEOUT:
            # (A transaction that is cut off in the middle of a pipeline is not idle.)
            del limits["transaction_timeout"]
        settings |= limits
        calls = ", ".join(["set_config(%s, %s, true)"] * len(settings))
        connection.execute(f"SELECT {calls}", [text for setting in settings.items() for text in setting])

    def _connect(self) -> Connection:
        """Open a connection.

        Raises:
            psycopg.Error: The server cannot be reached.
            JournalError: The database cannot be used.
        """
        connection = connect(self._dsn, timeout=self._time_limit)
        connection.add_notice_handler(self._handle_notice)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # that of connection.transaction()
        try:
            with limit_time(connection, self._time_limit):
                if self._check_server(connection):
                    connection.prepare_threshold = _PREPARED_AFTER
                if not self._is_schema_checked:
                    self._check_schema(connection)
                    self._is_schema_checked = True
        except BaseException:
            connection.close()
            raise
        self._without_check.add(connection)
        self._clock.reset()  # after a failover, that of another server
        return connection

    def _check_server(self, connection: Connection) -> bool:
        """Return whether the connection is a direct one, without a connection pooler.

        Raises:
            JournalError: The database cannot be used.
        """
        query = """
            SELECT
                pg_is_in_recovery() AS is_standby, current_setting('server_encoding') AS encoding,
                pg_backend_pid() AS pid
        """
        row = connection.execute(query).fetchone()
        if row and row["is_standby"]:
            problem = "it is a standby, whose data may be old; connect to the primary (target_session_attrs=read-write)"
            raise self._make_error(f"{problem}. Nothing was written", may_be_temporary=True)
        if row and row["encoding"] != "UTF8":
            problem = (
                f"its encoding is {row['encoding']}, which cannot store every text; make a database with CREATE "
                "DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
            raise self._make_error(f"{problem}. Nothing was written")
        return row is not None and bool(row["pid"] == connection.info.backend_pid)

    def _check_schema(self, connection: Connection) -> None:
        """Create or upgrade the tables.

        Raises:
            JournalError: A newer version of this package has upgraded them.
        """
        with connection.transaction():
            self._set_up(connection)
            if self._read_version(connection) == VERSION:
                return
        with connection.transaction():
            self._set_up(connection)
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"vidgen {self._schema}",))
            version = self._read_version(connection)  # another process may have upgraded it meanwhile
            self._check_version(version)
            if version < VERSION:
                # (CREATE SCHEMA IF NOT EXISTS would need the right to create one, even if it exists.)
                exists = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
                if connection.execute(exists, (self._schema,)).fetchone() is None:
                    connection.execute(f"CREATE SCHEMA {quoted(self._schema)}")
                for statement in upgrade_statements(version):
                    connection.execute(statement)

    def _check_version(self, version: int) -> None:
        if version > VERSION:
            problem = (
                f"it was written by a newer vidgen_async (schema version {version}; this release supports {VERSION}): "
                "upgrade vidgen_async. Nothing was written"
            )
            raise self._make_error(problem)

    def _read_version(self, connection: Connection) -> int:
        # (to_regclass() does not see what was committed while this transaction waited for the lock.)
        exists = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'version'"
        if connection.execute(exists, (self._schema,)).fetchone() is None:
            return 0
        row = connection.execute(f"SELECT number FROM {quoted(self._schema)}.version").fetchone()  # noqa: S608
        if row is None:
            raise self._make_error("the row of its table version is missing; restore it. Nothing was written")
        return int(row["number"])

    def _explain(self, error: BaseException) -> BaseException:
        """Return the JournalError for an error of psycopg, of the system, or of a record, which states what happened
        and what to do; any other as it is."""
        if not isinstance(error, (psycopg.Error, OSError, *RECORD_ERRORS)):
            return error
        fault, text = find_fault(error), describe_error(error)
        if isinstance(error, RECORD_ERRORS):
            text = f"a row that this operation needs is missing or damaged ({type(error).__name__})"
        problem = f"{fault.meaning} ({text})" if fault.meaning else text
        failure = self._make_error(f"{problem}. Nothing was written", may_be_temporary=fault.may_be_temporary)
        failure.__cause__ = cause_of(error)
        return failure

    def _make_error(
        self, problem: str, *, may_be_temporary: bool = False, may_be_committed: bool = False
    ) -> JournalError:
        message = f"the journal {self._name} could not be used: {problem}."
        return JournalError(message, may_be_temporary=may_be_temporary, may_be_committed=may_be_committed)


class _ReplaceableError(Exception):
    """The transaction was rolled back, and the connection, which had been used before, is closed."""


@contextmanager
def _rolled_back_on_error(connection: Connection) -> Iterator[None]:
    """Roll back the transaction that the ``with`` block has begun, if it raises."""
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):  # the connection was lost
            connection.rollback()
        raise

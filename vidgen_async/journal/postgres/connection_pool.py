"""The connections of a journal, which its threads share."""

import logging
import threading
import time
from collections.abc import Callable

import psycopg

from vidgen_async.events import Event
from vidgen_async.journal.postgres.connection_string import describe_error
from vidgen_async.journal.postgres.faults import TOO_MANY, find_fault
from vidgen_async.journal.postgres.time_limit import Connection

logger = logging.getLogger(__name__)

#: Seconds before a further connection is requested again, after the server has refused one.
_PAUSE = 10.0
#: Seconds before the only connection is requested again: the server may still be closing the one that it replaces.
_SHORT_PAUSES = (0.05, 0.25)


class ConnectionPool:
    """Open connections, as many as are in use at the same time. If the server refuses a further one, a caller waits for
    one of the others.

    Args:
        connect: Opens a connection.
        release: Closes a connection that the process could do without, if the server refuses the only one.
        name: The database, for messages.
    """

    def __init__(self, connect: Callable[[], Connection], *, release: Callable[[], object], name: str) -> None:
        self._connect = connect
        self._release = release
        self._name = name
        self._changed = threading.Condition()
        self._idle: list[Connection] = []
        self._size = 0
        """Number of connections that are open, or are being opened."""
        self._limit = 0
        """Number of connections that the server has granted, until ``_limited_until``."""
        self._limited_until = 0.0
        self._was_reported = False

    def take(self, *, is_new: bool = False) -> tuple[Connection, bool]:
        """Return a connection for the caller alone, and whether it was opened for this call.

        Args:
            is_new: Whether it must be opened for this call, if the server allows that.

        Raises:
            psycopg.Error: The server cannot be reached, or refuses the only connection.
        """
        while (connection := self._take_idle(is_new=is_new)) is None:
            try:
                return self._open(), True
            except BaseException as error:
                with self._changed:
                    self._size -= 1
                    self._changed.notify_all()
                    if not _is_too_many(error) or not self._size:
                        raise
                    self._limit = self._size
                    self._limited_until = time.monotonic() + _PAUSE
                self._report(error)
            is_new = False
        return connection, False

    def give_back(self, connection: Connection) -> None:
        """Let others use the connection, unless it is closed or its transaction has not ended."""
        is_usable = connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        if not is_usable:
            connection.close()
        with self._changed:
            if is_usable:
                self._idle.append(connection)
            else:
                self._size -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Close all connections, none of which is in use any more."""
        for connection in self._idle:
            connection.close()

    def _take_idle(self, *, is_new: bool) -> Connection | None:
        """Return a connection that is not used, if necessary after waiting for it; None if one is to be opened."""
        with self._changed:
            while is_new or not self._idle:
                if not self._size or self._size < self._limit or time.monotonic() >= self._limited_until:
                    self._size += 1
                    return None
                is_new = False
                if not self._idle:
                    self._changed.wait()
            return self._idle.pop()

    def _open(self) -> Connection:
        for pause in _SHORT_PAUSES:
            try:
                return self._connect()
            except psycopg.Error as error:
                if not _is_too_many(error) or self._size > 1:
                    raise
            self._release()
            time.sleep(pause)
        return self._connect()

    def _report(self, error: BaseException) -> None:
        if not self._was_reported:
            self._was_reported = True
            Event.JOURNAL_CONNECTION_REFUSED.log(logger, journal=self._name, error=describe_error(error))


def _is_too_many(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and find_fault(error) is TOO_MANY

"""A time limit for what is done with a connection."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import DictRow

T = TypeVar("T")


class TimeLimitError(psycopg.OperationalError):
    """The time limit was exceeded, and the connection is closed."""


class Connection(psycopg.Connection[DictRow]):
    """A connection whose time can be limited."""

    seconds = inf
    ends_at = inf
    """When the time limit is exceeded, by ``time.monotonic()``."""

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        return super().wait(self._within_limit(gen), *args, **options)

    def _within_limit(self, gen: PQGen[T]) -> PQGen[T]:
        # (What waits resumes a generator every 0.1 seconds, also if nothing has arrived.)
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if time.monotonic() > self.ends_at:
                    self.close()
                    message = f"the server did not finish within {self.seconds:g} s (time_limit)"
                    raise TimeLimitError(message)
                awaited = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@contextmanager
def limit_time(connection: Connection, seconds: float) -> Iterator[None]:
    """Close the connection after ``seconds``, also if the network loses everything that is sent.

    Raises:
        TimeLimitError: The block took longer; the connection is closed.
    """
    connection.seconds, connection.ends_at = seconds, time.monotonic() + seconds
    try:
        yield
    finally:
        connection.ends_at = inf

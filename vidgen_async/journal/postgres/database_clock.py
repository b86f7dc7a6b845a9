"""The difference between the clock of the database and that of this machine."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
from attrs import frozen

from vidgen_async.types.limits import SLOT_MARGIN

#: Seconds after which the difference is measured again.
_LONGEST_AGE = 10.0
#: Seconds by which a measurement may be wrong, and of a difference that is ignored: for two hosts together, both are
#: within the margin of the rolling limit.
_TOLERANCE = SLOT_MARGIN.total_seconds() / 4
#: Maximum number of measurements, of which the most exact one is used.
_ATTEMPTS = 3
#: (How floating-point numbers are printed can be set for a user or a database.)
_READ_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros"


@frozen(kw_only=True)
class _Measurement:
    """How the clocks differ, in seconds."""

    difference: float
    """The database's clock less that of this machine."""
    error: float
    """By how much the difference may be wrong, because of the time that the query took."""
    wall: float
    """When it was measured, by the clock of this machine."""
    monotonic: float
    """The same by ``time.monotonic()``."""


class DatabaseClock:
    """Measures the difference between the clocks. Threads can share it.

    Args:
        read_time: The clock of this machine, in seconds since 1970.
    """

    def __init__(self, read_time: Callable[[], float]) -> None:
        self._read_time = read_time
        self._latest: _Measurement | None = None
        self._shift = 0.0
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Discard what was measured: the next connection may be to another server."""
        self._latest = None

    def read_shift(self, connection: psycopg.Connection[Any]) -> timedelta:
        """Return the database's clock less the clock of this machine; zero if they do not provably differ.

        It stays the same until it is provably wrong, so that times that are read several times are equal.
        """
        latest = self._latest
        measured = latest if latest is not None and self._is_valid(latest) else self._measure(connection)
        with self._lock:
            other = self._latest  # possibly of another thread, meanwhile
            if other is not None and other.error < measured.error and self._is_valid(other):
                measured = other
            self._latest = measured
            tolerance = max(_TOLERANCE, measured.error)
            known = (shift for shift in (self._shift, 0.0) if abs(measured.difference - shift) <= tolerance)
            self._shift = next(known, measured.difference)
            return timedelta(seconds=self._shift)

    def _is_valid(self, measured: _Measurement) -> bool:
        """Return whether it is recent, and the clock of this machine was not set since. While a machine is suspended,
        its monotonic clock may stand still."""
        age = time.monotonic() - measured.monotonic
        was_set = abs(self._read_time() - measured.wall - age) > _TOLERANCE
        return age <= _LONGEST_AGE and not was_set

    def _measure(self, connection: psycopg.Connection[Any]) -> _Measurement:
        measured = self._measure_once(connection)
        for _ in range(_ATTEMPTS - 1):
            if measured.error <= _TOLERANCE:
                break
            measured = min(measured, self._measure_once(connection), key=lambda one: one.error)
        return measured

    def _measure_once(self, connection: psycopg.Connection[Any]) -> _Measurement:
        before = self._read_time()
        row: Any = connection.execute(_READ_CLOCK).fetchone()
        after = self._read_time()
        return _Measurement(
            difference=row["micros"] / 1e6 - (before + after) / 2,
            error=abs(after - before) / 2 + 1e-5,  # of rounding
            wall=after,
            monotonic=time.monotonic(),
        )

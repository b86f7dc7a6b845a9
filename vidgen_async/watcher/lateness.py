"""How late things come, counted in buckets: a note costs the same however many there were, and so does reading."""

import math
from bisect import bisect_right
from itertools import accumulate

#: Anything less (seconds) counts as this much.
_LEAST = 1e-4
#: To the power of two: a bucket ends nine percent above its beginning.
_PER_OCTAVE = 8
#: The last bucket takes all that is above, some nine hours.
_BUCKETS = 28 * _PER_OCTAVE


class Lateness:
    """Of the polls within the last one to two windows of ``window`` seconds. The caller passes the time. Reading
    changes nothing, so any thread may do it."""

    __slots__ = ("_before", "_began_at", "_first_at", "_most", "_most_before", "_now", "_window")

    def __init__(self, window: float) -> None:
        self._window = window
        self._first_at: float | None = None
        self._began_at = 0.0
        self._now = [0] * _BUCKETS
        self._most = 0.0
        self._before = [0] * _BUCKETS
        self._most_before = 0.0

    def note(self, late: float, now: float) -> None:
        """Count a poll that started now, ``late`` seconds (0 or more) too late."""
        if self._first_at is None:
            self._first_at = self._began_at = now
        elif windows := self._windows_over(now):
            is_next = windows == 1
            self._before, self._most_before = (self._now, self._most) if is_next else ([0] * _BUCKETS, 0.0)
            self._now, self._most = [0] * _BUCKETS, 0.0
            self._began_at += windows * self._window
        bucket = 0 if late <= _LEAST else 1 + int(_PER_OCTAVE * math.log2(late / _LEAST))
        self._now[min(bucket, _BUCKETS - 1)] += 1
        if late > self._most:
            self._most = late

    def quantiles(self, now: float, *shares: float) -> tuple[float, ...]:
        """For shares from 0 to 1, in seconds: at most a tenth too much, and never more than the most; 0 for nothing."""
        kept = self._windows(now)
        most = max((most for _, most in kept), default=0.0)
        counts = [sum(both) for both in zip(*(counts for counts, _ in kept), strict=True)]
        total = sum(counts)
        return tuple(min(_bound(counts, int(share * total)), most) if total else 0.0 for share in shares)

    def _windows_over(self, now: float) -> int:
        """How many windows have ended since the last note's began."""
        return int((now - self._began_at) // self._window) if now - self._began_at >= self._window else 0

    def _windows(self, now: float) -> list[tuple[list[int], float]]:
        """The counts and the most of the window of now and the one before it."""
        windows = self._windows_over(now)
        both = [(self._now, self._most), (self._before, self._most_before)]
        return both[: max(2 - windows, 0)]


def _bound(counts: list[int], rank: int) -> float:
    """The end of the bucket that holds the one with this rank, counted from 0; of the last one for a rank too high."""
    bucket = bisect_right(list(accumulate(counts)), rank)
    return _LEAST * math.exp2(min(bucket, _BUCKETS - 1) / _PER_OCTAVE)

"""What a watcher reports about itself: its rate of polls, and how late they are.

The caller passes the time. Reading changes nothing, so that it may be done in any thread.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from itertools import accumulate

from attrs import frozen

from vidgen_async.types.serialization import Serializable

#: The shortest lateness in seconds that is distinguished; anything less counts as this much.
_LEAST = 1e-4
#: To the power of two: a bucket ends nine percent above its beginning.
_PER_OCTAVE = 8
#: The last bucket takes all that is above, some nine hours.
_BUCKETS = 28 * _PER_OCTAVE
#: The number of slots in which polls are counted for the rate, approximately.
_SLOTS = 64


@frozen(kw_only=True)
class WatcherStats(Serializable):
    """The state of a watcher at one moment, cheap enough to be read every second. Times are in seconds."""

    tasks: int
    """Watched tasks."""
    waiting: int
    """Calls of ``wait``, ``watch`` and ``as_completed`` in progress; the last counts once for all its tasks."""
    in_flight: int
    """Polls in progress."""
    polls: int
    """Polls since the watcher was made, including failed ones."""
    polls_per_second: float
    """On average over the last interval (or as many as make a second), or since the first poll if that is shorter."""
    errors: Mapping[str, int]
    """The number of failed polls by the class of the error."""
    lateness_last: float
    """By how much the last poll started later than it was due: one interval after the task's poll before it, or in its
    slot for a first poll. Pauses that the service requested do not count."""
    lateness_p50: float
    """Of the last one to two intervals, at most a tenth too much; so is ``lateness_p99``."""
    lateness_p99: float
    lateness_max: float
    """Since the watcher was made."""
    interval_now: float
    """The present interval between two polls of one task: the interval, and the lateness of the last poll."""
    paused_until: float | None
    """The clock's time at which a pause after a 429 ends; None without one."""


class Lateness:
    """How late the polls of the last one to two windows of ``window`` seconds were, counted in buckets."""

    def __init__(self, window: float) -> None:
        self.most = 0.0
        """Of all polls so far."""
        self._window = window
        self._began_at: float | None = None
        self._counts = [0] * _BUCKETS
        self._counts_before = [0] * _BUCKETS

    def note(self, late: float, now: float) -> None:
        """Count a poll that started now, ``late`` seconds (0 or more) too late."""
        if self._began_at is None:
            self._began_at = now
        elif ended := self._ended_windows(now):
            self._counts_before = self._counts if ended == 1 else [0] * _BUCKETS
            self._counts = [0] * _BUCKETS
            self._began_at += ended * self._window
        bucket = 0 if late <= _LEAST else 1 + int(_PER_OCTAVE * math.log2(late / _LEAST))
        self._counts[min(bucket, _BUCKETS - 1)] += 1
        if late > self.most:
            self.most = late

    def quantiles(self, now: float, *shares: float) -> tuple[float, ...]:
        """Return the quantiles for shares from 0 to 1, in seconds: at most a tenth too high; 0 without polls."""
        windows = (self._counts, self._counts_before)[: max(2 - self._ended_windows(now), 0)]
        sums = list(accumulate(map(sum, zip(*windows, strict=True))))
        if not sums or not sums[-1]:
            return (0.0,) * len(shares)
        buckets = [bisect_right(sums, min(int(share * sums[-1]), sums[-1] - 1)) for share in shares]
        return tuple(min(_LEAST * math.exp2(bucket / _PER_OCTAVE), self.most) for bucket in buckets)

    def _ended_windows(self, now: float) -> int:
        """Return how many windows have ended since the one of the last poll began."""
        return 0 if self._began_at is None else max(int((now - self._began_at) // self._window), 0)


class PollRate:
    """The average over a whole number of intervals, in which each task is polled equally often; at least a second."""

    def __init__(self, interval: float) -> None:
        intervals = math.ceil(1.0 / interval)
        self._span = intervals * interval
        self._slots = intervals * max(_SLOTS // intervals, 1)
        self._first_at: float | None = None
        self._counts: deque[list[int]] = deque(maxlen=self._slots + 1)
        """Number and polls of each slot in which there were polls."""

    def note(self, now: float) -> None:
        """Count a poll that starts now."""
        if self._first_at is None:
            self._first_at = now
        number = self._number(now)
        if not self._counts or self._counts[-1][0] < number:
            self._counts.append([number, 0])
        self._counts[-1][1] += 1

    def per_second(self, now: float) -> float:
        """Return the rate over the last span of whole slots; in the first one, since the first poll."""
        if self._first_at is None:
            return 0.0
        counts = list(self._counts)
        if now - self._first_at < self._span:
            return sum(count for _, count in counts) / max(now - self._first_at, 1.0)
        end = self._number(now)
        return sum(count for number, count in counts if end - self._slots <= number < end) / self._span

    def _number(self, now: float) -> int:
        # The first poll is in the middle of a slot, so that rounding moves none of its successors to another one.
        return int((now - (self._first_at or 0.0)) / self._span * self._slots + 0.5)

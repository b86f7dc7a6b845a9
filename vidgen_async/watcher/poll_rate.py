"""How many polls there are in a second."""

import math

#: Polls are counted in about so many slots.
_SLOTS = 64


class PollRate:
    """The average over the last whole interval, or over a few of them where they are shorter than a second.

    Over a whole number of intervals each task is polled equally often, so that it does not matter where in an interval
    most polls are. The time is handed in. Reading changes nothing, so that it may be done from any thread.
    """

    __slots__ = ("_counts", "_first_at", "_last", "_slot", "_span")

    def __init__(self, interval: float) -> None:
        intervals = math.ceil(1.0 / interval)
        self._span = intervals * interval
        slots = intervals * max(_SLOTS // intervals, 1)
        self._slot = self._span / slots
        self._counts = [0] * (slots + 1)
        """Of the slot of now, and of those in the span before it: each in the place of its number, again and again."""
        self._first_at: float | None = None
        self._last = 0
        """The number of the last slot that has a poll."""

    def note(self, now: float) -> None:
        """A poll begins now."""
        if self._first_at is None:
            self._first_at = now
        number = self._number(now)
        for skipped in range(max(self._last, number - len(self._counts)) + 1, number + 1):
            self._counts[skipped % len(self._counts)] = 0
        self._last = max(self._last, number)
        self._counts[self._last % len(self._counts)] += 1

    def per_second(self, now: float) -> float:
        """Over the last span, which ends with the last whole slot; over all time in the first span, but never less than
        a second."""
        if self._first_at is None:
            return 0.0
        number = self._number(now)
        if now - self._first_at < self._span:
            return sum(self._counts) / max(now - self._first_at, 1.0)
        numbers = range(max(number, self._last) - len(self._counts) + 1, min(number, self._last + 1))
        return sum(self._counts[one % len(self._counts)] for one in numbers) / self._span

    def _number(self, now: float) -> int:
        # The first poll is in the middle of a slot, so that rounding moves none of its successors to another one.
        return int((now - (self._first_at or 0.0)) / self._slot + 0.5)

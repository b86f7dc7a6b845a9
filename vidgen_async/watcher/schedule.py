"""When to poll which task. Pure functions of the time, which the caller passes in seconds of a monotonic clock.

Each item is due one interval after its last poll began. Whatever delays polls (a blocked event loop, a suspended
laptop, too little concurrency, slow responses) makes them late. Late polls are made in the order of their due times, at
a rate that is a tenth higher than usual: there is no burst, and no item is polled sooner than its interval. In a pause
that the service requests, the time of the schedule stands still, so that all polls are shifted by the same amount.

Nothing here traverses all items.
"""

import heapq
import math
from array import array
from bisect import bisect_left, insort

from vidgen_async.watcher.stats import Lateness, PollRate

#: The longest pause in seconds that a response may cause: an error of the service must not stop a watcher for ever.
LONGEST_PAUSE = 3600.0

#: Seconds until a poll that confirms a fault.
SOON = 5.0

#: Late polls are made at so many times the usual rate, but never at less than LEAST_RATE per second.
CATCH_UP = 1.1
LEAST_RATE = 32.0
#: Seconds: as many late polls may start at once as this rate allows in this time, but at least LEAST_RATE.
_AT_ONCE = 0.1

_BINS_PER_INTERVAL = 1024
_SPARE = 64
_NONE = 2**32 - 1
_NOT_IN_QUEUE = _NONE - 1
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Pauses are whole multiples of this, so that subtracting them from a time is exact in floating point.
_GRAIN = 1.0 / 1024.0


class Agenda:
    """A queue of numbers in the order of their due times; of equal ones the smaller comes first.

    The numbers start at 0 and are dense: arrays store their data without objects for the garbage collector to traverse.
    They are in bins by their due times. A bin is a linked list until it is the first one; then it is sorted. The cost
    of an operation grows with the size of a bin, not with the number of bins.
    """

    __slots__ = ("_after", "_before", "_bins", "_bins_per_second", "_order", "_sorted_bins", "dues")

    def __init__(self, bins_per_second: float = 16.0) -> None:
        self.dues = array("d")
        """The due time of each number; of those that are not in the queue, the last one."""
        self._bins_per_second = bins_per_second
        self._bins: dict[int, int] = {}
        """The last number that was added to each bin that is not sorted."""
        self._sorted_bins: dict[int, list[tuple[float, int]]] = {}
        """The due times and numbers of each bin that is sorted, negative: the first number is the last in the list."""
        self._order: list[int] = []
        """A heap of all bins, and of a limited number that no longer exist."""
        # For each number its neighbours in its bin.
        self._before = array("I")
        self._after = array("I")

    def __contains__(self, number: int) -> bool:
        return number < len(self.dues) and self._after[number] != _NOT_IN_QUEUE

    def put(self, due: float, number: int) -> None:
        """Add a number that is not in the queue."""
        while number >= len(self.dues):
            self.dues.append(0.0)
            self._before.append(_NONE)
            self._after.append(_NOT_IN_QUEUE)
        self.dues[number] = due
        place = math.floor(due * self._bins_per_second)
        after = _NONE
        if (slots := self._sorted_bins.get(place)) is not None:
            insort(slots, (-due, -number))
        else:
            if (after := self._bins.get(place, _NONE)) == _NONE:
                heapq.heappush(self._order, place)
            else:
                self._before[after] = number
            self._bins[place] = number
        self._before[number], self._after[number] = _NONE, after

    def remove(self, number: int) -> None:
        """Remove a number; it has no effect if it is not in the queue."""
        if number not in self:
            return
        before, after, self._after[number] = self._before[number], self._after[number], _NOT_IN_QUEUE
        due = self.dues[number]
        place = math.floor(due * self._bins_per_second)
        if (slots := self._sorted_bins.get(place)) is not None:
            del slots[bisect_left(slots, (-due, -number))]
            return
        if after != _NONE:
            self._before[after] = before
        if before != _NONE:
            self._after[before] = after
        elif after != _NONE:
            self._bins[place] = after
        else:
            del self._bins[place]
            if len(self._order) > 2 * (len(self._bins) + len(self._sorted_bins)) + _SPARE:
                self._order = [*self._bins, *self._sorted_bins]
                heapq.heapify(self._order)

    def first_due(self) -> float | None:
        """Return the due time of the first number; None if there is none."""
        slots = self._first_bin()
        return -slots[-1][0] if slots else None

    def pop(self) -> int:
        """Remove and return the first number; IndexError if there is none."""
        number = -self._first_bin().pop()[1]
        self._after[number] = _NOT_IN_QUEUE
        return number

    def _first_bin(self) -> list[tuple[float, int]]:
        """Return the slots of the first bin that has any; an empty list if there is none."""
        while self._order:
            place = self._order[0]
            if slots := self._sorted_bins.get(place):
                return slots
            if place in self._bins:
                slots, number = [], self._bins.pop(place)
                while number != _NONE:
                    slots.append((-self.dues[number], -number))
                    number = self._after[number]
                self._sorted_bins[place] = sorted(slots)
            else:
                self._sorted_bins.pop(place, None)
                heapq.heappop(self._order)
        return []


class Allowance:
    """Allows ``rate`` events per second, and ``at_once`` at once if there were fewer before."""

    __slots__ = ("_step", "next_at")

    def __init__(self) -> None:
        self._step = 0.0
        self.next_at = -math.inf
        """The time of the next event that is allowed."""

    def use(self, now: float, rate: float, at_once: float) -> None:
        self._step = 1.0 / rate
        # The half is for rounding errors: exactly ``at_once`` events are allowed now.
        self.next_at = max(self.next_at, now - (at_once - 0.5) / rate) + self._step

    def extend(self, events: float) -> None:
        """Allow some events more."""
        self.next_at -= events * self._step


class Schedule:
    """One poll per item in ``interval`` seconds, counted from the start of the last poll; never sooner.

    Items are dense numbers from 0, so that arrays can store their state. An item is either on the schedule
    (:meth:`add`, :meth:`reschedule`) or being polled (from :meth:`take` to :meth:`reschedule`), so it is never polled
    twice at once. The first ``first_polls`` new items per second are due immediately; the others get slots that are
    spread evenly over one interval, also across many calls. An item may have an interval of its own.
    """

    def __init__(self, interval: float, *, first_polls: float) -> None:
        self.interval = interval
        self.items = 0
        """How many are on the schedule or being polled."""
        self.polls = 0
        """How many have begun."""
        self.paused_at: float | None = None
        """When the present pause began, or one whose end was not reported yet."""
        self.paused_until = -math.inf
        self.is_behind = False
        self.lateness_last = 0.0
        self.lateness = Lateness(interval)
        self.rate = PollRate(interval)
        self._tolerance = max(1.0, interval / 10.0)
        self._late_at = -math.inf
        self._agenda = Agenda(_BINS_PER_INTERVAL / max(interval, 0.001))
        # In the schedule's own time: the planned poll of each item, and the start of its last one.
        self._dues = self._agenda.dues
        self._starts = array("d")
        self._delayed: set[int] = set()
        """Items whose next poll was planned with ``after``."""
        self._intervals: dict[int, float] = {}
        """Of the items that have another one than the usual one."""
        self._extra = 0.0
        """How many more polls that makes in one usual interval."""
        self._first_polls = first_polls
        self._least_rate = max(LEAST_RATE, first_polls)
        self._added = Allowance()
        self._polled = Allowance()
        self._slots_given = 0
        # How far the schedule's own time is behind the clock: all pauses.
        self._paused = 0.0

    @property
    def interval_now(self) -> float:
        """The present interval between two polls of one task in seconds, without pauses."""
        return self.interval + self.lateness_last

    def add(self, item: int, now: float, *, interval: float | None = None, after: float = 0.0) -> None:
        """Plan the first poll of a new item, no sooner than in ``after`` seconds."""
        due = self._time(now) + after
        while item >= len(self._starts):
            self._starts.append(-math.inf)
        self._starts[item] = -math.inf
        self.set_interval(item, interval)
        if self._first_polls >= 1.0 and self._added.next_at <= now:
            self._added.use(now, self._first_polls, self._first_polls)
            if not after:
                self._polled.extend(1.0)  # this poll is one more than the usual ones
                first = self._agenda.first_due()
                due = due if first is None else min(due, first)  # not after all polls that are late
        else:
            self._slots_given += 1
            self._polled.extend(0.5)  # on average, the slot is after half an interval
            # Slots are fixed moments of the interval, in the sequence of the golden ratio: any number of them is spread
            # almost evenly, whether they are assigned at once or over hours.
            due += (self._slots_given * _GOLDEN % 1.0 * self.interval - due) % self.interval
        self._enter(item, due, after)

    def resume(self, item: int, now: float, *, interval: float, after: float = 0.0) -> None:
        """Put a removed item back: as it was planned, or anew if it was delayed or now has another interval."""
        due = self._dues[item]
        if item in self._delayed or interval != self.interval_of(item):
            due = _later(self._starts[item], interval)
        self.set_interval(item, interval)
        self._enter(item, max(due, self._time(now) + after), after)

    def _enter(self, item: int, due: float, after: float) -> None:
        self.items += 1
        self._agenda.put(due, item)
        if after:
            self._delayed.add(item)
        else:
            self._delayed.discard(item)

    def reschedule(self, item: int, now: float, *, soon: bool = False, after: float = 0.0) -> None:
        """Plan the next poll of an item that was taken; ``soon``: in five seconds, if that is earlier."""
        time, interval = self._time(now), self._intervals.get(item)
        due = self._dues[item] if interval is None else _later(self._starts[item], interval)
        due = max(due, time + after)
        self._agenda.put(min(due, time + SOON) if soon else due, item)

    def bring_forward(self, item: int, now: float, *, interval: float, after: float = 0.0) -> None:
        """Plan an item anew that was delayed or now has a shorter interval, if that makes its next poll earlier."""
        usual = self.interval_of(item)
        if interval >= usual and item not in self._delayed:
            return
        self.set_interval(item, min(interval, usual))
        due = max(_later(self._starts[item], min(interval, usual)), self._time(now) + after)
        if item in self._agenda and due < self._dues[item]:
            self._agenda.remove(item)
            self._agenda.put(due, item)

    def interval_of(self, item: int) -> float:
        return self._intervals.get(item, self.interval)

    def set_interval(self, item: int, interval: float | None) -> None:
        """Set the interval of an item; None is the usual one."""
        if (old := self._intervals.pop(item, None)) is not None:
            self._extra = self._extra - (self.interval / old - 1.0) if self._intervals else 0.0
        if interval is not None and interval != self.interval:
            self._intervals[item] = interval
            self._extra += self.interval / interval - 1.0

    def is_waiting(self, item: int, now: float) -> bool:
        """Return whether the next poll of an item, as it was planned last, is later than now."""
        return self._dues[item] > self._time(now)

    def remove(self, item: int) -> None:
        """Remove an item, which may be being polled."""
        self.items -= 1
        self._agenda.remove(item)

    def take(self, now: float) -> int | None:
        """Return the item to poll now; None if nothing is due, or too many polls have just started."""
        if now < self.paused_until:
            return None
        time = now - self._paused
        due = self._agenda.first_due()
        if due is None or due > time or self._polled.next_at > time:
            return None
        self.polls += 1
        item = self._agenda.pop()
        self._delayed.discard(item)
        rate = max(self._least_rate, CATCH_UP * (self.items + self._extra) / self.interval)
        self._polled.use(time, rate, max(self._least_rate, _AT_ONCE * rate))
        self._note_lateness(time - due, time, now)
        self._starts[item], self._dues[item] = time, _later(time, self.interval)
        return item

    def wake_at(self) -> float | None:
        """Return the clock's time of the next poll; None if none is planned."""
        due = self._agenda.first_due()
        return None if due is None else max(max(due, self._polled.next_at) + self._paused, self.paused_until)

    def pause(self, now: float, seconds: float) -> bool:
        """Pause all polls for ``seconds`` (at most an hour). Return whether this extends the current pause."""
        held_until = max(now, self.paused_until)
        until = now + min(seconds, LONGEST_PAUSE)
        if not until > held_until:
            return False
        if now >= self.paused_until:
            self.paused_at = now
        self._paused += math.ceil((until - held_until) / _GRAIN) * _GRAIN
        self.paused_until = until
        return True

    def _time(self, now: float) -> float:
        """Return the schedule's own time."""
        return max(now, self.paused_until) - self._paused

    def _note_lateness(self, late: float, time: float, now: float) -> None:
        self.lateness_last = late
        self.lateness.note(late, now)
        self.rate.note(now)
        if late > self._tolerance:
            self._late_at = time
            self.is_behind = True
        elif self.is_behind and time - self._late_at > self.interval:
            self.is_behind = False


def _later(time: float, interval: float) -> float:
    """Return ``time + interval``, never earlier because of a rounding error."""
    due = time + interval
    return due if due - time >= interval else math.nextafter(due, math.inf)

"""When to poll which task. Pure functions of the time, which the caller passes in seconds of a monotonic clock.

The schedule has a time of its own, which never runs faster than the clock:

* in a pause it stands still, and
* it is never ahead of the first poll that is due and not yet taken by more than a small slack.

So whatever delays polls (a pause that the service requests, a blocked event loop, a suspended laptop, too little
concurrency, slow responses) shifts all of them by the same amount. They stay evenly spread: there is no burst, and the
interval of all tasks is longer by the same factor until it recovers. Nothing here scans all items.
"""

import heapq
import math
from array import array

from vidgen_async.watcher.stats import Lateness, PollRate

#: The longest pause in seconds that a response may cause: an error of the service must not stop a watcher for ever.
LONGEST_PAUSE = 3600.0

#: Seconds until a poll that confirms a fault.
SOON = 5.0

_LONGEST_SLACK = 0.1
_SPARE = 64
_MOVED_AT_ONCE = 8
_OFF = -math.inf
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Shifts are whole multiples of this, so that subtracting them from a time is exact in floating point.
_GRAIN = 1.0 / 1024.0


class Agenda:
    """A queue of numbers in the order of their due times; of equal ones the smaller comes first. All operations take
    O(log n).

    The numbers start at 0 and are dense: arrays store their data without objects for the garbage collector to traverse.
    A removed number leaves a stale slot in the heap; there are never more stale slots than live ones and a few spare.
    No call traverses the heap: if there are many stale slots, each call moves a few slots to a new heap.
    """

    __slots__ = ("_dues", "_heap", "_is_moved", "_live", "_old")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._old: list[tuple[float, int]] = []
        """A heap too; it remains one when its last slots are removed."""
        self._is_moved = bytearray()
        """For the numbers in the old heap: whether they were moved."""
        self._dues = array("d")
        self._live = 0

    def __len__(self) -> int:
        return self._live

    @property
    def slots(self) -> int:
        """The number of slots, live and stale."""
        return len(self._heap) + len(self._old)

    def put(self, due: float, number: int) -> None:
        """Add a number that is not in the queue."""
        while number >= len(self._dues):
            self._dues.append(_OFF)
        self._dues[number] = due
        heapq.heappush(self._heap, (due, number))
        self._live += 1
        if self._old:
            if number < len(self._is_moved):
                self._is_moved[number] = True
            self._move()

    def remove(self, number: int) -> None:
        """Remove a number; it has no effect if it is not in the queue."""
        if number >= len(self._dues) or self._dues[number] == _OFF:
            return
        self._dues[number] = _OFF
        self._live -= 1
        if not self._live:
            self._heap, self._old = [], []
        elif self._old:
            self._move()
        elif len(self._heap) > self._live + self._live // 2 + _SPARE:
            self._heap, self._old = [], self._heap
            self._is_moved = bytearray(len(self._dues))
            self._move()

    def first_due(self) -> float | None:
        """Return the due time of the first number; None if there is none."""
        heap = self._first_heap()
        return heap[0][0] if heap else None

    def pop(self) -> int:
        """Remove and return the first number; IndexError if there is none."""
        _, number = heapq.heappop(self._first_heap())
        self._dues[number] = _OFF
        self._live -= 1
        return number

    def _first_heap(self) -> list[tuple[float, int]]:
        """Return the heap that begins with the first number; an empty one if there is none."""
        heap, dues = self._heap, self._dues
        while heap and dues[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        old = self._old
        if not old:
            return heap
        while old and dues[old[0][1]] != old[0][0]:
            heapq.heappop(old)
        return old if old and (not heap or old[0] < heap[0]) else heap

    def _move(self) -> None:
        """Move a few live slots. Of two equal slots, for a number that was removed and added again, one is moved."""
        old, dues = self._old, self._dues
        for _ in range(min(_MOVED_AT_ONCE, len(old))):
            due, number = old.pop()
            if dues[number] == due and not self._is_moved[number]:
                self._is_moved[number] = True
                heapq.heappush(self._heap, (due, number))


class Allowance:
    """A token bucket: ``size`` tokens at first, refilled with ``size`` per second."""

    __slots__ = ("_at", "_left", "_size")

    def __init__(self, size: float) -> None:
        self._size = size
        self._left = size
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        if now > self._at:
            self._left = min(self._size, self._left + (now - self._at) * self._size)
            self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Schedule:
    """One poll per item in ``interval`` seconds, counted from the start of the last poll; never sooner.

    Items are dense numbers from 0, so that arrays can store their state. An item is either on the schedule
    (:meth:`add`, :meth:`reschedule`) or being polled (from :meth:`take` to :meth:`reschedule`), so it is never polled
    twice at once. The first ``first_polls`` new items per second are due immediately; the others get slots that are
    spread evenly over one interval, also across many calls.
    """

    def __init__(self, interval: float, *, first_polls: float) -> None:
        self.interval = interval
        self.paused_until = -math.inf
        self.is_behind = False
        self.lateness_last = 0.0
        self.lateness = Lateness(interval)
        self.rate = PollRate(interval)
        self._tolerance = max(1.0, interval / 10.0)
        self._late_at = -math.inf
        self._slack = min(_LONGEST_SLACK, interval / 10.0)
        self._agenda = Agenda()
        # For each item: its earliest next poll, in the schedule's own time, and the time that had been lost when that
        # poll was planned (time lost since makes it late).
        self._dues = array("d")
        self._losses = array("d")
        self._first_polls = Allowance(first_polls)
        self._slots_given = 0
        self._paused = 0.0
        # How far the schedule's own time is behind the clock: pauses, and time lost.
        self._shift = 0.0
        self._lost = 0.0

    @property
    def interval_now(self) -> float:
        """The present interval between two polls of one task in seconds, without pauses."""
        return self.interval + self.lateness_last

    def add(self, item: int, now: float) -> None:
        """Plan the first poll of a new item."""
        time = self._advance(now)
        due = time
        if not self._first_polls.take(now):
            self._slots_given += 1
            # Slots are fixed moments of the interval, in the sequence of the golden ratio: any number of them is spread
            # almost evenly, whether they are assigned at once or over hours.
            due += (self._slots_given * _GOLDEN % 1.0 * self.interval - time) % self.interval
        while item >= len(self._dues):
            self._dues.append(0.0)
            self._losses.append(0.0)
        self._plan(item, due)
        self._agenda.put(due, item)

    def reschedule(self, item: int, now: float, *, soon: bool = False) -> None:
        """Plan the next poll of an item that is not on the schedule: one interval after the start of its last poll, or
        now if that has passed; with ``soon`` in five seconds, if that is earlier."""
        if soon:
            due = self._advance(now) + SOON
            if self._dues[item] > due:
                self._plan(item, due)
        elif self._dues[item] <= max(now, self.paused_until) - self._shift:
            time = self._advance(now)
            if self._dues[item] <= time:
                # Its own poll took longer than the interval; this must not shift the others.
                self._plan(item, time)
        self._agenda.put(self._dues[item], item)

    def is_waiting(self, item: int, now: float) -> bool:
        """Return whether the interval since the last poll of the item has not passed."""
        return self._dues[item] > self._advance(now)

    def remove(self, item: int) -> None:
        """Remove an item; it has no effect if the item is being polled or unknown."""
        self._agenda.remove(item)

    def take(self, now: float) -> int | None:
        """Return the item to poll now; None if nothing is due."""
        if now < self.paused_until:
            return None
        due = self._agenda.first_due()
        if due is None or due > now - self._shift:
            return None
        time = self._advance(now)
        item = self._agenda.pop()
        late = time - self._dues[item] + (self._lost - self._losses[item])
        self._note_lateness(max(0.0, late), now - self._paused, now)
        self._plan(item, _later(time, self.interval))
        return item

    def wake_at(self) -> float | None:
        """Return the clock's time of the next poll; None if none is planned."""
        due = self._agenda.first_due()
        return None if due is None else max(due + self._shift, self.paused_until)

    def pause(self, now: float, seconds: float) -> bool:
        """Pause all polls for ``seconds`` (at most an hour). Return whether this extends the current pause."""
        held_until = max(now, self.paused_until)
        until = now + min(seconds, LONGEST_PAUSE)
        if not until > held_until:
            return False
        self._advance(now)
        pause = _grains(until - held_until)
        self._paused += pause
        self._shift += pause
        self.paused_until = until
        return True

    def _advance(self, now: float) -> float:
        """Return the schedule's own time. If the first due poll is later than the slack, the excess is lost for all."""
        time = max(now, self.paused_until) - self._shift
        due = self._agenda.first_due()
        if due is not None and time - due > self._slack:
            lost = _grains(time - due - self._slack)
            self._shift += lost
            self._lost += lost
            time -= lost
        return time

    def _plan(self, item: int, due: float) -> None:
        self._dues[item] = due
        self._losses[item] = self._lost

    def _note_lateness(self, late: float, unpaused: float, now: float) -> None:
        self.lateness_last = late
        self.lateness.note(late, now)
        self.rate.note(now)
        if late > self._tolerance:
            self._late_at = unpaused
            self.is_behind = True
        elif self.is_behind and unpaused - self._late_at > self.interval:
            self.is_behind = False


def deadline(now: float, timeout: float | None) -> float | None:
    """Return the time at which a timeout ends; None for never. NaN raises a ValueError."""
    if timeout is None or timeout == math.inf:
        return None
    if math.isnan(timeout):
        message = "a timeout is a number of seconds or None, not NaN"
        raise ValueError(message)
    return now + max(timeout, 0.0)


def _grains(seconds: float) -> float:
    return math.ceil(seconds / _GRAIN) * _GRAIN


def _later(time: float, interval: float) -> float:
    """Return ``time + interval``, never earlier because of a rounding error."""
    due = time + interval
    return due if due - time >= interval else math.nextafter(due, math.inf)

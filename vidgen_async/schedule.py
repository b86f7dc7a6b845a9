"""When to look at which task: pure, without await; the time is handed in as seconds of a clock that only grows.

The schedule has a time of its own, which never runs faster than the clock:

* in a pause it stands still, and
* it never runs further ahead of the first look that is due and not yet taken than a small slack.

So whatever holds looks up (a service that asks for a pause, a blocked loop, a sleeping laptop, too few polls at once,
an outage of slow answers) shifts all of them by the same amount. They stay as evenly spread as they were: nothing is
caught up in a burst, the interval of every task stretches alike, and recovers by itself. Nothing here scans all items.
"""

import heapq
import math
from typing import Generic, Protocol, TypeVar

from vidgen_async.lateness import Lateness

#: The longest pause that is believed, in seconds: a typing error of the service must not stop a watcher for good.
LONGEST_PAUSE = 3600.0

#: "Looks again soon", in seconds.
SOON = 5.0

_LONGEST_SLACK = 0.1
_SPARE = 64
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Shifts are whole multiples of this, so that subtracting them from a time is exact in floating point.
_GRAIN = 1.0 / 1024.0


class HasTicket(Protocol):
    """What an agenda holds."""

    ticket: int
    """0 while it is on no agenda."""


class Lookable(HasTicket, Protocol):
    """What a schedule holds. Only the schedule writes these."""

    due: float
    """The earliest next look, in the schedule's own time."""
    lost: float
    """The time that the schedule had lost when the look was planned: what was lost since makes it late."""


A = TypeVar("A", bound=HasTicket)
L = TypeVar("L", bound=Lookable)


class Agenda(Generic[A]):
    """Items in order of their due times; equal ones in order of arrival. O(log n) for everything.

    A removed item leaves a stale slot behind; there are never more stale slots than live ones and a few spare.
    """

    __slots__ = ("_heap", "_live", "_tickets")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, A]] = []
        self._live = 0
        self._tickets = 0

    def __len__(self) -> int:
        return self._live

    @property
    def slots(self) -> int:
        """Live and stale together."""
        return len(self._heap)

    def put(self, due: float, item: A) -> None:
        """Add an item that is on no agenda."""
        self._tickets += 1
        item.ticket = self._tickets
        heapq.heappush(self._heap, (due, self._tickets, item))
        self._live += 1

    def remove(self, item: A) -> None:
        """Take an item off; nothing happens when it is not on."""
        if not item.ticket:
            return
        item.ticket = 0
        self._live -= 1
        if len(self._heap) > 2 * self._live + _SPARE:
            self._heap = [slot for slot in self._heap if slot[2].ticket == slot[1]]
            heapq.heapify(self._heap)

    def first_due(self) -> float | None:
        """The due time of the first item."""
        heap = self._heap
        while heap and heap[0][2].ticket != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop(self) -> A:
        """Take the first item off; IndexError when there is none."""
        while True:
            _, ticket, item = heapq.heappop(self._heap)
            if item.ticket == ticket:
                item.ticket = 0
                self._live -= 1
                return item


class Allowance:
    """``size`` at once, and refilled evenly with ``size`` per second."""

    __slots__ = ("_at", "_left", "_size")

    def __init__(self, size: float) -> None:
        self._size = size
        self._left = size
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Whether one more is allowed now; if so it is used."""
        if now > self._at:
            self._left = min(self._size, self._left + (now - self._at) * self._size)
            self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Schedule(Generic[L]):
    """One look per item and ``interval`` seconds, counted from the start of the last look; never sooner.

    An item is either on the schedule (:meth:`add`, :meth:`again`) or under way (after :meth:`take`); it comes back
    with :meth:`again`, so it is never looked at twice at once. New items are due at once while ``first_looks`` (at a
    time, and per second) lasts; the others get slots spread evenly over one interval, also across many calls.
    """

    def __init__(self, interval: float, *, first_looks: float) -> None:
        self.interval = interval
        self.paused_until = -math.inf
        self.is_behind = False
        self.lateness_last = 0.0
        self.lateness_max = 0.0
        self.lateness = Lateness(interval)
        self._tolerance = max(1.0, interval / 10.0)
        self._late_at = -math.inf
        self._slack = min(_LONGEST_SLACK, interval / 10.0)
        self._agenda: Agenda[L] = Agenda()
        self._first_looks = Allowance(first_looks)
        self._slots_given = 0
        self._paused = 0.0
        # How far the schedule's own time is behind the clock: pauses, and time lost. All items share the number of what
        # was lost, so that it costs none of them memory.
        self._shift = 0.0
        self._lost = 0.0

    def __len__(self) -> int:
        """Items on the schedule; those under way are not counted."""
        return len(self._agenda)

    @property
    def slots(self) -> int:
        """What the agenda holds in memory, stale slots included."""
        return self._agenda.slots

    @property
    def interval_now(self) -> float:
        """Seconds between two looks at one task, as the last look saw it; pauses are not counted."""
        return self.interval + self.lateness_last

    def add(self, item: L, now: float) -> None:
        """Plan the first look at a new item."""
        time = self._advance(now)
        due = time
        if not self._first_looks.take(now):
            self._slots_given += 1
            # Slots are fixed places within the interval, taken in golden-ratio order: any number of them is spread
            # about evenly, whether they are given at once or over hours.
            due += (self._slots_given * _GOLDEN % 1.0 * self.interval - time) % self.interval
        item.due = due
        item.lost = self._lost
        self._agenda.put(due, item)

    def again(self, item: L, now: float, *, soon: bool = False) -> None:
        """Plan the next look at an item that is not on the schedule: one interval after the start of its last look,
        now if that is over, or (``soon``) after five seconds when those end earlier."""
        if soon:
            due = self._advance(now) + SOON
            if item.due > due:
                item.due = due
                item.lost = self._lost
        elif item.due <= max(now, self.paused_until) - self._shift:
            time = self._advance(now)
            if item.due <= time:
                # Its own look took longer than the interval; the others are not to be shifted for it.
                item.due = time
                item.lost = self._lost
        self._agenda.put(item.due, item)

    def is_waiting(self, item: L, now: float) -> bool:
        """Whether the interval since the last look at an item is still running."""
        return item.due > self._advance(now)

    def remove(self, item: L) -> None:
        """Take an item off; nothing happens when it is under way or unknown."""
        self._agenda.remove(item)

    def take(self, now: float) -> L | None:
        """The item to look at now: it is under way from here on. None when nothing is due."""
        if now < self.paused_until:
            return None
        due = self._agenda.first_due()
        if due is None or due > now - self._shift:
            return None
        time = self._advance(now)
        item = self._agenda.pop()
        late = time - item.due + (self._lost - item.lost)
        self._note_lateness(max(0.0, late), now - self._paused, now)
        item.due = _later(time, self.interval)
        item.lost = self._lost
        return item

    def wake_at(self) -> float | None:
        """The clock's time of the next look; None when there is none to come."""
        due = self._agenda.first_due()
        return None if due is None else max(due + self._shift, self.paused_until)

    def pause(self, now: float, seconds: float) -> bool:
        """No look for so many seconds (at most an hour); whether that makes the time of quiet longer."""
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
        """The schedule's own time. Time that the first due look has waited for longer than the slack is lost to all."""
        time = max(now, self.paused_until) - self._shift
        due = self._agenda.first_due()
        if due is not None and time - due > self._slack:
            lost = _grains(time - due - self._slack)
            self._shift += lost
            self._lost += lost
            time -= lost
        return time

    def _note_lateness(self, late: float, unpaused: float, now: float) -> None:
        self.lateness_last = late
        if late > self.lateness_max:
            self.lateness_max = late
        self.lateness.note(late, now)
        if late > self._tolerance:
            self._late_at = unpaused
            self.is_behind = True
        elif self.is_behind and unpaused - self._late_at > self.interval:
            self.is_behind = False


def deadline(now: float, timeout: float | None) -> float | None:
    """The moment at which a timeout ends; None for never. A timeout that is not a number is a ValueError."""
    if timeout is None or timeout == math.inf:
        return None
    if math.isnan(timeout):
        message = "a timeout is a number of seconds or None, not NaN"
        raise ValueError(message)
    return now + max(timeout, 0.0)


def _grains(seconds: float) -> float:
    return math.ceil(seconds / _GRAIN) * _GRAIN


def _later(time: float, interval: float) -> float:
    """``time + interval``, never a rounding error sooner."""
    due = time + interval
    return due if due - time >= interval else math.nextafter(due, math.inf)

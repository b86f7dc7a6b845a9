"""The default time limit of waits; the submission limit (section 8): which attempts hold a slot, how long to wait for
one, and the pause after a 429; and what a budget allows."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from attrs import field, frozen, validators

#: For how many seconds the service is assumed to remember an Idempotency-Key. Its description (section 8) does not say.
KEY_LIFETIME = 3600.0
#: Seconds for which a task is waited for, if nothing else is asked for.
ONE_DAY = 86400.0

#: Slots are held for slightly longer than the window, because the clocks of client and service differ slightly.
SLOT_MARGIN = timedelta(milliseconds=100)

#: Seconds for which no create of an account starts after a 429 without a Retry-After that can be parsed.
PAUSE_WITHOUT_RETRY_AFTER = 10.0


@frozen(kw_only=True)
class Pacing:
    """How creates respect the service's submission limit (section 8).

    A slot becomes free ``window`` seconds after the *response* to the create that used it, not after its send. The
    service counts a create at some moment between the two, so only then has the create certainly left its window.
    """

    limit: int = field(default=100, validator=validators.ge(1))
    """Maximum number of creates in any rolling window."""
    window: float = field(default=60.0, validator=validators.gt(0))
    """Length of the window in seconds."""
    max_wait: float = field(default=0.0, validator=validators.ge(0))
    """For how many seconds in total a create that was answered with 429 may wait for Retry-After and be retried, with
    the same key. With 0 the first 429 is raised."""


@frozen
class Hold:
    """One slot in use."""

    until: datetime
    """When it becomes free, as far as is known now."""
    soonest: datetime
    """When it could become free at the earliest, if the response arrived now."""


@frozen
class Turn:
    """Whether the limit permits a create now."""

    free: int
    """Number of free slots."""
    wait: float
    """Seconds until a create may start; 0 if a slot is free."""
    is_paused: bool = False
    """Whether the wait is for the end of the pause after a 429, not for a slot."""

    def with_pause(self, retry_at: datetime | None, now: datetime) -> "Turn":
        """Return the turn if no create may start before ``retry_at``, in addition to the limit."""
        if retry_at is None:
            return self
        wait = (retry_at + SLOT_MARGIN - now) / timedelta(seconds=1)
        return Turn(0, wait, is_paused=True) if wait > self.wait else self


def compute_turn(holds: Iterable[Hold], pacing: Pacing, now: datetime) -> Turn:
    """Return the turn while these slots are in use."""
    active = [hold for hold in holds if hold.until > now]
    excess = len(active) - pacing.limit
    if excess < 0:
        return Turn(-excess, 0.0)
    soonest = sorted(hold.soonest for hold in active)
    return Turn(0, (soonest[excess] - now) / timedelta(seconds=1))


def make_hold(counted_at: datetime, pacing: Pacing, now: datetime, *, is_open: bool) -> Hold:
    """Return the slot of an attempt counted by then; a response may free it sooner if its outcome ``is_open``."""
    window = timedelta(seconds=pacing.window) + SLOT_MARGIN
    until = counted_at + window
    return Hold(until, now + window if is_open else until)


def compute_retry_at(answered_at: datetime, retry_after: float | None) -> datetime:
    """Return when a create of the account may start again, after a 429. Each one pauses the account: a create starts
    only if the journal leaves a slot free, so another program uses the account, orders are missing in the journal,
    or the service is at another limit (section 7: channel capacity)."""
    return answered_at + timedelta(seconds=PAUSE_WITHOUT_RETRY_AFTER if retry_after is None else retry_after)


#: The lengths of the periods, in seconds, of which journals store the sums of points.
MINUTE, DAY = 60, 86400
#: Later than every period.
_END = 2**62
#: More points than this are those of no task: the charge counts as unknown.
MOST_POINTS = 10**12


@frozen
class Spending:
    """What creates have cost, or may cost."""

    spent: int = 0
    """Points that the service has stated."""
    reserved: int = 0
    """Points that were estimated, of tasks whose points the service has not stated."""
    unknown: int = 0
    """Number of creates whose points are neither stated nor estimated."""

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(self.spent + other.spent, self.reserved + other.reserved, self.unknown + other.unknown)

    def __sub__(self, other: "Spending") -> "Spending":
        return Spending(self.spent - other.spent, self.reserved - other.reserved, self.unknown - other.unknown)


@frozen(kw_only=True)
class SpendingLimit:
    """The points that the creates of an account may cost in a rolling window, as the journal enforces it."""

    points: int
    window: float | None
    """Seconds; None for all time."""
    unknown: int | None
    """The points that a create counts for whose points are unknown; None if there must be none."""

    def begins_at(self, now: datetime) -> tuple[int, int]:
        """Return the beginning of the first minute of the window, and of its first complete day, in seconds since 1970:
        the sums of the minutes up to that day, and of the days from it on, are those of the window. Both are the same
        if the window is all time."""
        if self.window is None:
            return -_END, -_END
        since = int((now - timedelta(seconds=self.window)).timestamp() // 1)
        return since // MINUTE * MINUTE, -(-since // DAY) * DAY

    def count(self, spending: Spending) -> int | None:
        """Return the points that count; None if there are creates that must not be."""
        if spending.unknown and self.unknown is None:
            return None
        return spending.spent + spending.reserved + spending.unknown * (self.unknown or 0)

    def allows(self, spending: Spending, reserved: int | None) -> bool:
        """Return whether one more create that may cost ``reserved`` points, None if unknown, is within the limit."""
        asked = Spending(reserved=reserved) if reserved is not None else Spending(unknown=1)
        counted = self.count(spending + asked)
        return counted is not None and counted <= self.points

    def find_room(
        self,
        spending: Spending,
        reserved: int | None,
        now: datetime,
        read: Callable[[int, int, int], Iterable[tuple[int, Spending]]],
    ) -> datetime | None:
        """Return when the create is within the limit, if there is no other one meanwhile; None if it never is.

        Args:
            spending: That of the window.
            reserved: The points that the create may cost, None if unknown.
            now: The current time.
            read: Returns the stored sums of the periods of a length, which begin in a range, with their beginnings, all
                in seconds.
        """
        if self.window is None or not self.allows(Spending(), reserved):
            return None
        minute, day = self.begins_at(now)
        days = list(read(DAY, day, _END))
        rest = spending - sum((sums for _, sums in days), Spending())
        for first, sums in ((minute, rest), *days):  # noqa: B007 - that of the last one is used
            if self.allows(spending - sums, reserved):
                break
            spending -= sums
        for start, sums in read(MINUTE, first, first + DAY):
            spending -= sums
            if self.allows(spending, reserved):
                return datetime.fromtimestamp(start + MINUTE + self.window, UTC)
        return None


@frozen
class LimitState:
    """A limit, and what counts towards it."""

    limit: SpendingLimit
    spending: Spending
    """That of the window; its first minute counts completely."""
    is_allowed: bool
    """Whether one more create is within the limit."""
    room_at: datetime | None = None
    """When it is within the limit; None if it is now, or never is."""

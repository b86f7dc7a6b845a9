"""The default time limit of waits; and the submission limit (section 8): which attempts hold a slot, how long to wait
for one, and the pause after a 429."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import field, frozen, validators

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
    """Return the slot of an attempt that the service has counted by ``counted_at``. ``is_open``: its outcome is not
    known yet, so that a response may free the slot sooner."""
    window = timedelta(seconds=pacing.window) + SLOT_MARGIN
    until = counted_at + window
    return Hold(until, now + window if is_open else until)


def compute_retry_at(answered_at: datetime, retry_after: float | None) -> datetime:
    """Return when a create of the account may start again, after one was answered with 429.

    Each 429 pauses the account, because the count of the journal explains none: a create starts only if that count
    leaves a slot free. So another program uses the account, orders are missing in the journal, or the service is at
    another limit (section 7: channel capacity).

    Args:
        answered_at: When the 429 was received.
        retry_after: Its Retry-After in seconds, at most an hour; None without one.
    """
    return answered_at + timedelta(seconds=PAUSE_WITHOUT_RETRY_AFTER if retry_after is None else retry_after)

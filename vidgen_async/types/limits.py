"""The rolling submission limit (section 8): what uses a slot, and how long to wait for one."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import field, frozen, validators

#: Slots are held a little longer than the window, for clocks that do not run quite alike.
SLOT_MARGIN = timedelta(milliseconds=100)


@frozen(kw_only=True)
class Pacing:
    """How creates keep to the service's submission limit (section 8).

    A slot is free again ``window`` seconds after the *answer* to the create that used it, not after its send: the
    service counts a create somewhere in between, so only then is it sure to have left the service's own window.
    """

    limit: int = field(default=100, validator=validators.ge(1))
    """Creates in any rolling window."""
    window: float = field(default=60.0, validator=validators.gt(0))
    """Seconds."""
    patience: float = field(default=0.0, validator=validators.ge(0))
    """For how many seconds in all a create that the service answered with 429 may wait for its Retry-After and go
    again, under the same key. 0: the first 429 is raised."""


@frozen
class Hold:
    """One slot in use."""

    until: datetime
    """When it is free again, by what is known now."""
    soonest: datetime
    """When it may be free again at the earliest, if an answer comes now."""


@frozen
class Turn:
    """Whether a create may go now."""

    free: int
    """Slots that are free."""
    wait: float
    """Seconds until it is worth asking again; 0 when a slot is free."""


def turn(holds: Iterable[Hold], pacing: Pacing, now: datetime) -> Turn:
    """The turn when these slots are held."""
    held = [hold for hold in holds if hold.until > now]
    free = pacing.limit - len(held)
    if free > 0:
        return Turn(free, 0.0)
    soonest = sorted(hold.soonest for hold in held)
    return Turn(0, (soonest[-free] - now) / timedelta(seconds=1))


def hold_of(counted_at: datetime, pacing: Pacing, now: datetime, *, is_open: bool) -> Hold:
    """The slot that an attempt holds which the service has counted by ``counted_at`` at the latest.

    It is held for a window after that: after the attempt's answer or, without one, its deadline. While nothing is known
    of the attempt (``is_open``) an answer may free it sooner.
    """
    window = timedelta(seconds=pacing.window) + SLOT_MARGIN
    until = counted_at + window
    return Hold(until, now + window if is_open else until)

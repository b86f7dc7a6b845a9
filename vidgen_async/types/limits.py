"""How long to wait: between tries of a read, after a Retry-After, for a slot of the rolling submission limit."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from attrs import field, frozen, validators

#: The longest Retry-After that is believed, in seconds: one wrong clock must not stop a client for good.
LONGEST_RETRY_AFTER = 3600.0


def retry_after(value: str | None, wall: datetime) -> float | None:
    """The seconds that a Retry-After header asks for: a number of seconds, or an HTTP date compared with ``wall``.

    None without a header that can be read; never negative, at most an hour.
    """
    if value is None:
        return None
    try:
        seconds = float(value.strip())
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - wall).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def backoff(tries: int, chance: float, *, first: float = 0.5, longest: float = 20.0) -> float:
    """Seconds before the next try after ``tries`` failed ones: doubling, and spread by ``chance`` (0 to 1) over the
    upper half, so that many clients do not come back together."""
    full = min(first * 2.0 ** min(tries - 1, 30), longest)
    return full * (0.5 + 0.5 * chance)


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

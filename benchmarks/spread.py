"""How evenly polls arrive after a restart, after a freeze, and (for information) after other troubles.

What counts is what the *service* received: the fullest window of one second, moved by a tenth of a second at a time,
over the mean of the interval that begins with the restart, or with the end of the trouble. The mean is all that arrived
in that interval over its seconds.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial

from attrs import evolve, frozen

from benchmarks.arithmetic import BUCKET, WIDTH, Rate, buckets, rate, windows
from benchmarks.curves import Curve
from benchmarks.load_service import LoadService, running_service
from benchmarks.results import Figure, Scale, at_most
from benchmarks.watching_process import Plan, Watching, running_client, sleep_until
from vidgen_async.types.http import Timeouts

BENCHMARK = "even spread"
RESTART, FREEZE, BLOCK = "after a restart", "after a freeze", "after a blocked event loop"
RESETS, SILENCE = "after an outage with resets", "after an outage without answers"
#: The fullest second may hold so many times the mean.
MOST_OF_MEAN = 1.25

#: Trouble begins when so many intervals are over.
_INTERVALS_BEFORE = 1.25
#: What is for information has so many times fewer tasks and as short an interval: polls per second are the same.
_PART = 5
#: An outage lasts so many times as long as a freeze.
_OUTAGE = 3.0
#: What is drawn of the time before the end of a trouble, in seconds beside the trouble's own.
_DRAWN_BEFORE = 5.0
#: When the service is silent, a read waits so many times as long as that lasts: as long as usual at full size.
_TIMEOUT = 2.0
#: A process watches on for so much longer, as a part of the interval, but at least for half a second.
_MARGIN = 1.0 / 30.0


@frozen
class Trouble:
    """What happens to the service, or to the client that is watching."""

    name: str
    seconds: float
    begin: Callable[[LoadService, Watching, float], None]
    """Makes it; it lasts so many seconds from then."""
    timeout: float | None = Timeouts().read
    """How long a read of the client waits."""
    blocks: bool = False
    """The client's own event loop, which it does itself."""


def run(scale: Scale) -> list[Figure]:
    small = evolve(scale, tasks=max(scale.tasks // _PART, 1), interval=scale.interval / _PART)
    freeze, block, *outages = troubles(scale)
    with running_service() as service:
        found: list[Figure] = [*measured(service, scale, freeze)]
        found += [measured(service, small, trouble)[1] for trouble in (block, *outages)]
    return found


def troubles(scale: Scale) -> list[Trouble]:
    """A freeze, a blocked event loop, and two outages."""
    outage = scale.freeze * _OUTAGE
    return [
        Trouble(FREEZE, scale.freeze, lambda _, client, seconds: client.freeze(seconds)),
        Trouble(BLOCK, scale.freeze, lambda _, __, seconds: time.sleep(seconds), blocks=True),
        Trouble(RESETS, outage, partial(_outage, "reset")),
        Trouble(SILENCE, outage, partial(_outage, "silent"), timeout=outage * _TIMEOUT),
    ]


def _outage(kind: str, service: LoadService, _: Watching, seconds: float) -> None:
    service.begin_outage(kind, seconds)
    time.sleep(seconds)


def measured(service: LoadService, scale: Scale, trouble: Trouble) -> tuple[Curve, Curve]:
    """The interval after the restart, and the one after the trouble."""
    before, seconds = scale.interval * _INTERVALS_BEFORE, trouble.seconds
    held_up = max(seconds, trouble.timeout or 0.0) if trouble.name == SILENCE else seconds
    plan = Plan(
        service.base_url,
        tasks=scale.tasks,
        interval=scale.interval,
        seconds=before + held_up + scale.interval + max(0.5, scale.interval * _MARGIN),
        blocked_after=before if trouble.blocks else None,
        blocked_for=seconds,
        read_timeout=trouble.timeout,
    )
    service.reset()
    with running_client(plan) as client:
        sleep_until(client.begun_at + before)
        trouble.begin(service, client, seconds)
        over_at = time.time()
        client.found()
    counts = service.counts().buckets
    resumed_at = first_arrival(counts, over_at)
    return (
        curve(counts, RESTART, client.begun_at, scale),
        curve(
            counts,
            f"{trouble.name} of {seconds:g} s",
            resumed_at,
            scale,
            drawn_before=seconds + _DRAWN_BEFORE + resumed_at - over_at,
            resumed_after=resumed_at - over_at,
        ),
    )


def first_arrival(counts: Mapping[int, int], at: float) -> float:
    """The beginning of the first bucket with an arrival from ``at`` on; ``at`` itself when there is none or it is in
    that bucket."""
    first = math.floor(at / BUCKET)
    return max(at, min((bucket for bucket, count in counts.items() if count and bucket >= first), default=0) * BUCKET)


def curve(
    counts: Mapping[int, int],
    name: str,
    begins_at: float,
    scale: Scale,
    *,
    drawn_before: float = 0.0,
    resumed_after: float = 0.0,
) -> Curve:
    """What arrived in the interval from ``begins_at`` on; the points are windows, by the middle of each."""
    found = rate(buckets(counts, begins_at, scale.interval))
    target, is_met = at_most(MOST_OF_MEAN, found.ratio)
    has_target = name.startswith((RESTART, FREEZE))
    return Curve(
        BENCHMARK,
        f"{name}: most polls in a second",
        float(found.peak),
        "polls",
        "the mean",
        found.ratio,
        target if has_target else None,
        is_met if has_target else None,
        note=_note(name, found, scale, resumed_after),
        points=_points(buckets(counts, begins_at - drawn_before, drawn_before + scale.interval), -drawn_before),
    )


def _note(name: str, found: Rate, scale: Scale, resumed_after: float) -> str:
    begins = "the first poll afterwards" if name != RESTART else "the restart"
    return (
        f"{scale.tasks:,} tasks, {scale.interval:g} s; the interval begins with {begins}"
        + (f", {resumed_after:.1f} s after the end" if resumed_after else "")
        + f"; its mean is {found.mean:,.1f} polls/s ({scale.tasks / scale.interval:,.1f} are due), its fullest second "
        f"begins {found.peak_at:.1f} s later"
    )


def _points(in_buckets: list[int], begins: float) -> tuple[tuple[float, float], ...]:
    middle = begins + WIDTH * BUCKET / 2.0
    return tuple((round(middle + place * BUCKET, 1), float(count)) for place, count in enumerate(windows(in_buckets)))

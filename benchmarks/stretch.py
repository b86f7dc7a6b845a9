"""What not every machine can do: five times as many tasks on uvloop, in one process and in two, for two minutes.

A bare protocol that makes as many polls shows what the machine can do: where it leaves too little of a core for ours,
no other target applies.
"""

from functools import partial

from benchmarks.get_peers import BARE, event_loops
from benchmarks.load_service import running_service
from benchmarks.results import Figure, Scale, at_most, with_ratio
from benchmarks.watching import (
    BARE_ON_UVLOOP,
    CPU,
    LATE,
    MADE,
    OURS_ON_UVLOOP,
    Row,
    figures,
    sweep_figures,
    watched,
)

TIMES = 5
COLLECTION = Row("longest GC", "ms", lambda found: found.collection * 1e3)
#: A poll may cost so many times as much CPU time as one of the bare protocol.
MOST_OF_BARE = 2.5
#: Of one process; two need a core each, and the service needs one, too.
TARGETS = {CPU: None, LATE: 250.0, MADE: 99.0, COLLECTION: 50.0}


def run(scale: Scale) -> list[Figure]:
    """Nothing unless it is requested."""
    if not scale.has_stretch or "uvloop" not in event_loops():
        return []
    tasks, found = TIMES * scale.tasks, list[Figure]()
    with running_service() as service:
        bare = watched(service, [BARE_ON_UVLOOP], tasks, scale.interval, scale.seconds)
        is_possible = MOST_OF_BARE * bare.cpu < bare.wall
        for count, label in ((1, ""), (2, ", 2 processes")):
            measured = watched(service, [OURS_ON_UVLOOP] * count, tasks, scale.interval, 2 * scale.seconds)
            heading = f"{count * tasks:,} tasks at {scale.interval:g} s{label}"
            targets = TARGETS if count == 1 and is_possible else dict.fromkeys(TARGETS)
            of_bare = {BARE: bare} if count == 1 else {}
            found += figures(heading, {OURS_ON_UVLOOP: measured, **of_bare}, targets)
            if count == 1:
                cost, least = (each.cpu / max(each.polls, 1.0) * 1e6 for each in (measured, bare))
                figure = Figure(heading, f"{OURS_ON_UVLOOP}: CPU of a poll", cost, "us", limit=least)
                judge = partial(at_most, MOST_OF_BARE)
                found.append(with_ratio(figure, BARE_ON_UVLOOP, [cost / max(least, 1e-9)], judge))
                found += sweep_figures({tasks: {OURS_ON_UVLOOP: measured, BARE_ON_UVLOOP: bare}})
    return found

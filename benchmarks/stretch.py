"""What not every machine can do: five times as many tasks on uvloop, in one process and in two, for two minutes."""

from benchmarks.get_peers import event_loops
from benchmarks.load_service import running_service
from benchmarks.results import Figure, Scale
from benchmarks.watching import CPU, LATE, MADE, OURS_ON_UVLOOP, Row, figures, sweep_figures, watched

TIMES = 5
COLLECTION = Row("longest GC", "ms", lambda found: found.collection * 1e3)
#: Of one process; two need a core each, and the service needs one, too.
TARGETS = {CPU: None, LATE: 250.0, MADE: 99.0, COLLECTION: 50.0}


def run(scale: Scale) -> list[Figure]:
    """Nothing unless it is requested."""
    if not scale.has_stretch or "uvloop" not in event_loops():
        return []
    tasks, found = TIMES * scale.tasks, list[Figure]()
    with running_service() as service:
        for count, label, targets in ((1, "", TARGETS), (2, ", 2 processes", dict.fromkeys(TARGETS))):
            measured = watched(service, [OURS_ON_UVLOOP] * count, tasks, scale.interval, 2 * scale.seconds)
            heading = f"{count * tasks:,} tasks at {scale.interval:g} s{label}"
            found += figures(heading, {OURS_ON_UVLOOP: measured}, targets)
            if count == 1:
                found += sweep_figures({tasks: {OURS_ON_UVLOOP: measured}})
    return found

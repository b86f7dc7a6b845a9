"""Watching many tasks, each once per 60 s: CPU time, how late the polls are, how many are made, and memory.

Ours is compared with the usual way, one coroutine per task that polls and sleeps. All poll at the same rate from the
start, and are late in the same sense: a poll is due one interval after the start of the task's last poll. *Quiet*: the
machine does nothing else. *All cores busy*: one more process for each core computes all the time, with the same
priority.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from attrs import asdict, evolve, frozen

from benchmarks.children import result_of, started
from benchmarks.get_peers import BARE, OPENAI, OURS, RAW, event_loops, present, task_ids
from benchmarks.load_service import LoadService, running_service
from benchmarks.results import Figure, Scale, Verdict, at_least, at_most, with_limit, with_ratio
from benchmarks.watching_process import Plan, Watched

SWEEP = "CPU of a poll by the number of tasks"
MEMORY = "memory of a watched task"
OURS_ON_UVLOOP, BARE_ON_UVLOOP = f"{OURS}, uvloop", f"{BARE}, uvloop"

#: The competitors: the client, and whether it is on uvloop.
WAYS: Mapping[str, tuple[str, bool]] = {
    OURS: (OURS, False),
    OURS_ON_UVLOOP: (OURS, True),
    RAW: (RAW, False),
    OPENAI: (OPENAI, False),
    BARE: (BARE, False),
    BARE_ON_UVLOOP: (BARE, True),
}


@frozen
class Row:
    """What is reported of each competitor."""

    what: str
    unit: str
    value: Callable[[Watched], float]
    judge: Callable[[float, float], Verdict] = at_most
    has_limit: bool = False
    """Whether the bare protocol is the limit."""


CPU = Row("share of a core", "%", lambda found: 100.0 * found.cpu / found.wall, has_limit=True)
LATE = Row("lateness, p99", "ms", lambda found: found.p99 * 1e3)
MADE = Row("polls made", "%", lambda found: 100.0 * found.polls / found.due, at_least)

#: The targets of ours; None: the row has none.
QUIET = {CPU: 30.0, LATE: 25.0, MADE: None}
BUSY = {CPU: None, LATE: None, MADE: 98.0}
MOST_BYTES = 260.0

_STEP = 10
#: The part of an interval between the start of the polls and the measurement.
_SETTLING = 1 / 30

#: By competitor.
Measured = Mapping[str, Watched]


def run(scale: Scale) -> list[Figure]:
    is_there = {name: peer in present(scale.peers) for name, (peer, _) in WAYS.items()}
    is_there |= {OURS_ON_UVLOOP: "uvloop" in event_loops(), BARE_ON_UVLOOP: False}
    names = [name for name in WAYS if is_there[name]]
    heading = f"{scale.tasks:,} tasks at {scale.interval:g} s"
    with running_service() as service:
        measure = partial(_measured, service, scale)
        quiet = {tasks: measure(names, tasks) for tasks in sizes(scale.fewest_tasks, scale.tasks)}
        found = [*figures(heading, quiet[scale.tasks], QUIET)]
        with busy_cores():
            busy = {
                name: watched(service, [name], scale.tasks, scale.interval, 2 * scale.sample_seconds)
                for name in (OURS, RAW)
            }
        found += figures(f"{heading}, all cores busy", busy, BUSY)
    return [*found, *memory_figures(quiet[scale.tasks], scale.tasks), *sweep_figures(quiet)]


def sizes(fewest: int, most: int) -> list[int]:
    """From the fewest, ten times as many each time, and the most."""
    steps = []
    while fewest < most:
        steps.append(fewest)
        fewest *= _STEP
    return [*steps, most]


def _measured(service: LoadService, scale: Scale, names: Iterable[str], tasks: int) -> Measured:
    """One after the other; for a whole interval where memory is reported, since each task must have been polled."""
    found = {}
    for name in names:
        has_memory = tasks == scale.tasks and name in (OURS, RAW)
        seconds = scale.seconds if has_memory else scale.sample_seconds
        found[name] = watched(service, [name], tasks, scale.interval, seconds)
    return found


def watched(service: LoadService, names: Sequence[str], tasks: int, interval: float, seconds: float) -> Watched:
    """What these competitors measure at the same time, each in a new process."""
    plans = [Plan(*WAYS[name], service.url, tasks, interval, interval * _SETTLING, seconds) for name in names]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started("benchmarks.watching_process", json.dumps(asdict(plan)))) for plan in plans
        ]
        found = [Watched(**result_of(process)) for process in processes]
    # Each process counts the requests of all.
    latest = max(found, key=lambda one: one.p99)
    cpu, due = sum(one.cpu for one in found), sum(one.due for one in found)
    return evolve(latest, cpu=cpu, due=due, collection=max(one.collection for one in found))


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each core that computes all the time."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.enter_context(process)
            stack.callback(process.kill)
        yield


# -- the figures -------------------------------------------------------------------------------------------------------


def figures(heading: str, measured: Measured, targets: Mapping[Row, float | None]) -> Iterator[Figure]:
    """The rows of each competitor."""
    for name, found in measured.items():
        for row, target in targets.items():
            if name != BARE:
                yield _figure(heading, name, found, row, target, measured.get(BARE))


def _figure(heading: str, name: str, found: Watched, row: Row, target: float | None, bare: Watched | None) -> Figure:
    value = row.value(found)
    is_judged = name in (OURS, OURS_ON_UVLOOP)
    text, is_met = row.judge(target, value) if is_judged and target is not None else (None, None)
    target_text = text and f"{text} {row.unit}"
    note = f"p50 {found.p50 * 1e3:,.1f} ms, longest {found.longest * 1e3:,.0f} ms" if row is LATE else ""
    limit = row.value(bare) if bare is not None and row.has_limit else None
    return Figure(heading, f"{name}: {row.what}", value, row.unit, None, None, target_text, is_met, note, limit=limit)


def memory_figures(measured: Measured, tasks: int) -> Iterator[Figure]:
    """A coroutine per task as a multiple of ours; nothing where the system does not report memory."""
    ours = measured[OURS].memory
    if not ours:
        return
    yield with_limit(Figure(MEMORY, OURS, ours, "bytes", limit=bytes_of_ids(tasks)), MOST_BYTES)
    size = measured[RAW].memory
    yield with_ratio(Figure(MEMORY, f"{RAW}, a coroutine per task", size, "bytes"), OURS, [size / ours])


def bytes_of_ids(tasks: int) -> float:
    """What the id of a task takes as a key of a dictionary, with a number for each."""
    numbers = {task_id: number for number, task_id in enumerate(task_ids(tasks))}
    objects = sum(sys.getsizeof(task_id) + sys.getsizeof(number) for task_id, number in numbers.items())
    return (objects + sys.getsizeof(numbers)) / tasks


def sweep_figures(by_tasks: Mapping[int, Measured]) -> Iterator[Figure]:
    """A row for each competitor and number of tasks, which are the points of the plot."""
    for name in WAYS:
        for tasks, measured in by_tasks.items():
            if found := measured.get(name):
                note = f"p99 {found.p99 * 1e3:,.1f} ms late, {MADE.value(found):.0f} % of due"
                facts = {"tasks": float(tasks), **asdict(found)}
                yield Figure(
                    SWEEP,
                    f"{name}, {tasks:,} tasks",
                    found.cpu / max(found.polls, 1.0) * 1e6,
                    "us",
                    note=note,
                    facts=facts,
                )

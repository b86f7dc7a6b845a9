"""The scheduler alone: a fake poll and virtual time, from a thousand to a million tasks.

Three curves of CPU time per poll over the number of tasks:

* the watcher, with as many polls per second at each size (the interval grows with the tasks): what changes is only the
  number of tasks that it holds;
* the watcher with every task polled once per 60 s, as in use: at few tasks each poll has a turn of the scheduler and an
  alarm of its own, at many tasks they share them;
* the pure schedule beneath it, again with as many looks per second at each size.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from benchmarks.arithmetic import fit_log, growth
from benchmarks.children import Found, child
from benchmarks.curves import Curve
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, shown

BENCHMARK = "scheduler alone"
WATCHER, IN_USE, SCHEDULE = "watcher", "watcher at 60 s", "pure schedule"

#: With the most tasks a poll costs at most so many times as much as with the fewest.
MOST_GROWTH = 1.25

#: As many polls per second as 100,000 tasks at 60 s make.
_RATE = 100_000 / 60.0
_SMALLEST = 1000
#: Up to this size the median of a few processes is taken.
_SMALL = 100_000
_MOST_ROUNDS = 3

#: Microseconds, or bytes, by size.
Points: TypeAlias = Mapping[int, float]

_WAYS: Mapping[str, tuple[str, Callable[[int], float]]] = {
    WATCHER: ("watcher", lambda tasks: tasks / _RATE),
    IN_USE: ("watcher", lambda _: 60.0),
    SCHEDULE: ("schedule", lambda tasks: tasks / _RATE),
}


def run(scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    for name in _WAYS:
        measured = {tasks: _measured(name, tasks, scale) for tasks in sizes(scale.most_scheduled)}
        found += figures(name, measured)
    return found


def sizes(most: int) -> list[int]:
    """1,000, 3,000, 10,000, … up to ``most``."""
    steps = (factor * _SMALLEST * 10**power for power in range(round(math.log10(most))) for factor in (1, 3))
    return [tasks for tasks in steps if tasks <= most]


def _measured(name: str, tasks: int, scale: Scale) -> Found:
    way, interval = _WAYS[name]
    polls = min(max(2 * tasks, 30 * scale.gets), 150 * scale.gets)
    rounds = min(scale.rounds, _MOST_ROUNDS) if tasks <= _SMALL else 1
    found = [child("benchmarks.scheduler_alone", way, tasks, interval(tasks), polls) for _ in range(rounds)]
    return {key: median(one[key] for one in found) for key in found[0]}


def figures(name: str, measured: Mapping[int, Found]) -> list[Figure]:
    """The growth of the cost, with its points; then the largest size's own numbers."""
    cost = {tasks: found["cpu_per_poll"] * 1e6 for tasks, found in measured.items()}
    smallest, largest = min(cost), max(cost)
    return [
        _curve(name, cost),
        *(
            Figure(BENCHMARK, f"{name}, {tasks:,} tasks: CPU per poll", cost[tasks], "us")
            for tasks in (smallest, largest)
        ),
        Figure(BENCHMARK, f"{name}, {largest:,} tasks: CPU per add", measured[largest]["cpu_per_add"] * 1e6, "us"),
        Figure(BENCHMARK, f"{name}, {largest:,} tasks: memory per task", measured[largest]["bytes_per_task"], "bytes"),
    ]


def _curve(name: str, cost: Points) -> Curve:
    """How many times as much a poll costs with the most tasks as with the fewest."""
    points = tuple(sorted(cost.items()))
    (smallest, first), (largest, last) = points[0], points[-1]
    line = fit_log(points)
    fitted = f"{line.a:.1f} + {line.b:.2f} log2(n) us, R2 {line.explained:.2f}; as a power of n: {growth(points):.2f}; "
    by_size = ", ".join(f"{size:,}: {shown(value)} us" for size, value in points)
    has_target = name == WATCHER
    return Curve(
        BENCHMARK,
        f"{name}: CPU per poll, {largest:,} to {smallest:,} tasks",
        last / first,
        "times",
        target=f"<= {MOST_GROWTH:.2f}" if has_target else None,
        is_met=last / first <= MOST_GROWTH if has_target else None,
        note=f"{name}: {fitted if name != IN_USE else ''}by size: {by_size}",
        points=points,
    )

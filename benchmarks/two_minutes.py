"""Very many tasks watched by one process for two minutes: its CPU time, and how late its polls are.

The CPU time is that of the whole process, with the start of the interpreter, all imports and the adding of the tasks.
What it is compared with is measured in the same run, before and after: plain aiohttp, one GET and its JSON after the
other in each of fifty workers, as fast as they go.
"""

from attrs import frozen

from benchmarks.children import Found
from benchmarks.gap_service import Gaps, GapService, running_gap_service
from benchmarks.get_peers import RAW, RAW_ON_UVLOOP, present
from benchmarks.measure import median
from benchmarks.requests_cpu import cost
from benchmarks.results import Figure, Scale, at_most
from benchmarks.watching_process import Plan, running_client

BENCHMARK = "two minutes"
#: The process may use so many times what plain aiohttp needs for as many GETs.
MOST_OF_RAW = 1.6

_STRETCH = 5
_CONCURRENCY = 50


@frozen
class Watched:
    """What one process did, and what the service saw of it."""

    tasks: int
    found: Found
    gaps: Gaps
    raw: float
    """Seconds of CPU for one GET of plain aiohttp on the same event loop."""

    @property
    def ratio(self) -> float:
        return self.found["cpu"] / (self.found["polls"] * self.raw)


def run(scale: Scale) -> list[Figure]:
    has_uvloop = RAW_ON_UVLOOP in present(scale.peers)
    found = []
    with running_gap_service() as service:
        found += figures("asyncio", _watched(service, scale, scale.tasks), scale, RAW)
        if has_uvloop:
            found += figures("uvloop", _watched(service, scale, scale.tasks, is_uvloop=True), scale, RAW_ON_UVLOOP)
        if has_uvloop and scale.has_stretch:
            stretch = _watched(service, scale, scale.tasks * _STRETCH, is_uvloop=True)
            found += figures("uvloop, stretch", stretch, scale, RAW_ON_UVLOOP)
    return found


def _watched(service: GapService, scale: Scale, tasks: int, *, is_uvloop: bool = False) -> Watched:
    name = RAW_ON_UVLOOP if is_uvloop else RAW
    raw = [cost(service, scale.gets, _CONCURRENCY, name).seconds for _ in range(scale.rounds)]
    service.reset()
    plan = Plan(service.base_url, tasks=tasks, interval=scale.interval, seconds=scale.seconds, is_uvloop=is_uvloop)
    with running_client(plan) as client:
        found = client.found()
    gaps = service.gaps()
    raw += [cost(service, scale.gets, _CONCURRENCY, name).seconds for _ in range(scale.rounds)]
    return Watched(tasks, found, gaps, median(raw))


def figures(label: str, watched: Watched, scale: Scale, raw_name: str) -> list[Figure]:
    """The one with a target is ours on the event loop that asyncio comes with."""
    found, gaps = watched.found, watched.gaps
    target, is_met = at_most(MOST_OF_RAW, watched.ratio)
    has_target = raw_name == RAW
    expected = watched.tasks * (found["wall"] / scale.interval)
    note = (
        f"{watched.tasks:,} tasks at {scale.interval:g} s for {found['wall']:.0f} s: {found['polls']:,.0f} polls of "
        f"{expected:,.0f} (every poll on time), {found['errors']:.0f} failed; {raw_name} took "
        f"{watched.raw * 1e6:.0f} us per GET"
    )

    def figure(name: str, value: float, unit: str) -> Figure:
        return Figure(BENCHMARK, f"{label}: {name}", value, unit)

    return [
        Figure(
            BENCHMARK,
            f"{label}: CPU of the process, per poll",
            found["cpu"] / found["polls"] * 1e6,
            "us",
            raw_name,
            watched.ratio,
            target if has_target else None,
            is_met if has_target else None,
            note,
        ),
        figure("share of one core", found["cpu"] / found["wall"] * 100.0, "%"),
        figure("memory of the process", found["memory"] / 1e6, "MB"),
        *(figure(f"lateness {name}", found[f"lateness_{name}"] * 1e3, "ms") for name in ("p50", "p99", "max")),
        *(
            figure(
                f"between polls of a task, {name} less the interval", (gap - scale.interval) * 1e3, "ms at the service"
            )
            for name, gap in (
                ("shortest", gaps.shortest),
                ("p50", gaps.p50),
                ("p99", gaps.p99),
                ("longest", gaps.longest),
            )
            if gaps.count
        ),
    ]

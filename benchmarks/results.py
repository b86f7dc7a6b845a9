"""What a benchmark brings, and how much of it is asked for; the table and the file that come of it."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

from attrs import asdict, evolve, frozen

from benchmarks.measure import median, percentile, table

#: Whose versions stand beside the figures, if they are installed.
PACKAGES = (
    "aiohttp",
    "uvloop",
    "attrs",
    "cattrs",
    "yarl",
    "openai",
    "runwayml",
    "replicate",
    "httpx",
    "httpx2",
    "pydantic",
    "matplotlib",
)
#: Quartiles of fewer rounds mean nothing.
_LEAST_ROUNDS = 4


@frozen
class Scale:
    """How much is asked for; each benchmark takes what it needs."""

    rounds: int
    """Of each competitor, where a round is short."""
    gets: int
    """In one round of one competitor."""
    tasks: int
    """Watched by one process."""
    interval: float
    """Seconds between two polls of one of them."""
    seconds: float
    """For which they are watched."""
    sample_seconds: float
    """For which the CPU time of fast polls is measured, in one round of one competitor."""
    polls_per_second: int
    """Of fast polls."""
    peer_tasks: int
    """Waited for by a peer that needs much for each."""
    most_scheduled: int
    """Tasks on a scheduler without a network."""
    megabytes: int
    """Size of a downloaded video."""
    freeze: float = 10.0
    """Seconds."""
    has_stretch: bool = False
    """Whether what not every machine can do is tried too."""
    peers: tuple[str, ...] = ()
    """Who is compared, beside ours and plain aiohttp; everybody when it is empty."""

    @classmethod
    def full(cls) -> "Scale":
        return cls(
            rounds=5,
            gets=2000,
            tasks=100_000,
            interval=60.0,
            seconds=120.0,
            sample_seconds=10.0,
            polls_per_second=1500,
            peer_tasks=2000,
            most_scheduled=1_000_000,
            megabytes=1024,
        )

    @classmethod
    def tiny(cls) -> "Scale":
        """All of it once and small, to see that it runs: what it measures means nothing."""
        return cls(
            rounds=1,
            gets=5,
            tasks=60,
            interval=0.5,
            seconds=1.2,
            sample_seconds=1.5,
            polls_per_second=40,
            peer_tasks=10,
            most_scheduled=3000,
            megabytes=2,
            freeze=0.3,
        )


@frozen
class Figure:
    """One number of one benchmark, and how it compares."""

    benchmark: str
    name: str
    value: float
    unit: str
    versus: str | None = None
    """What ``ratio`` is a multiple of."""
    ratio: float | None = None
    target: str | None = None
    is_met: bool | None = None
    note: str = ""
    quartiles: tuple[float, float] | None = None
    """The quartiles of the ratios of the rounds."""


#: What a ratio is to be, as it is written in a table, and whether it is.
Verdict: TypeAlias = tuple[str, bool]


def at_most(limit: float, ratio: float) -> Verdict:
    return f"<= {limit:g}", ratio <= limit


def at_least(limit: float, ratio: float) -> Verdict:
    return f">= {limit:g}", ratio >= limit


def ratio_of(values: Sequence[float], base: Sequence[float]) -> float:
    """The median of the rounds, each by itself: what disturbs one round disturbs both."""
    return median(value / other for value, other in zip(values, base, strict=True))


def ratios_of(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio of each round: what disturbs a round disturbs both."""
    return [value / other for value, other in zip(values, base, strict=True)]


def with_ratio(
    figure: Figure, versus: str, ratios: Sequence[float], judge: Callable[[float], Verdict] | None = None
) -> Figure:
    """The figure with the median of these ratios, and its target."""
    ratio = median(ratios)
    target, is_met = judge(ratio) if judge else (None, None)
    quartiles = (percentile(ratios, 0.25), percentile(ratios, 0.75)) if len(ratios) >= _LEAST_ROUNDS else None
    return evolve(figure, versus=versus, ratio=ratio, target=target, is_met=is_met, quartiles=quartiles)


def with_limit(figure: Figure, limit: float) -> Figure:
    """The figure with the target that its value is at most ``limit``."""
    target, is_met = at_most(limit, figure.value)
    return evolve(figure, target=f"{target} {figure.unit}", is_met=is_met)


def compared(
    benchmark: str,
    name: str,
    seconds: Mapping[str, Sequence[float]],
    versus: str,
    judge: Callable[[float], Verdict] | None = None,
    note: str = "",
) -> Figure:
    """The figure of one of several who were measured in the same rounds, in microseconds, as a multiple of another's.
    Without a ratio when the other one was left out."""
    microseconds = median(seconds[name]) * 1e6
    if versus not in seconds:
        return Figure(benchmark, name, microseconds, "us", note=note)
    ratio = ratio_of(seconds[name], seconds[versus])
    target, is_met = judge(ratio) if judge else (None, None)
    return Figure(benchmark, name, microseconds, "us", versus, ratio, target, is_met, note)


def shown(value: float) -> str:
    """Three figures are enough, and whole numbers are never cut."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def figures_table(figures: Sequence[Figure]) -> str:
    """One table of all; what is noted beside a figure stands below."""
    notes = list(dict.fromkeys(figure.note for figure in figures if figure.note))
    rows = [
        (
            f"{figure.benchmark}: {figure.name}",
            shown(figure.value),
            figure.unit,
            "" if figure.ratio is None else f"{shown(figure.ratio)} x",
            figure.versus or "",
            figure.target or "",
            {None: "", True: "met", False: "MISSED"}[figure.is_met],
            f"[{notes.index(figure.note) + 1}]" if figure.note else "",
        )
        for figure in figures
    ]
    lines = [table(("", "median", "unit", "ratio", "of", "target", "", "note"), rows)]
    return "\n".join([*lines, *(f"[{number}] {note}" for number, note in enumerate(notes, 1))])


def versions() -> dict[str, str]:
    """Of Python and of what is installed of :data:`PACKAGES`."""
    found = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    for package in ("vidgen-async", *PACKAGES):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, str]:
    """What is known of this machine."""
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "load before": load,
    }


def _cpu_model(path: Path) -> str:
    if path.exists():
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def described(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def write_json(path: Path, figures: Iterable[Figure], arguments: Mapping[str, object], left_out: Sequence[str]) -> None:
    """All figures, and what a reader must know about them."""
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": hardware(),
        "versions": versions(),
        "arguments": dict(arguments),
        "left_out": list(left_out),
        "figures": [asdict(figure) for figure in figures],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")

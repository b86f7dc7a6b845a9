"""What benchmarks measure: how much, and the figures with their ratios and targets."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, field, frozen

from benchmarks.measure import median, percentile

#: Quartiles of fewer rounds mean nothing.
_LEAST_ROUNDS = 4


@frozen
class Scale:
    """How much is measured. Each benchmark uses the fields that it needs."""

    rounds: int
    """Rounds in which all competitors take turns, where a round takes seconds."""
    blocks: int
    """The same, where a round takes a fraction of a second."""
    gets: int
    """Requests of one competitor in one block."""
    tasks: int
    """Tasks that one process watches."""
    fewest_tasks: int
    """Where the plot begins."""
    interval: float
    """Seconds between two polls of one task."""
    seconds: float
    """Seconds for which the watched tasks are observed."""
    sample_seconds: float
    """The same, where less is enough."""
    slice_seconds: float
    """Seconds for which one of several processes runs while the others are stopped."""
    most_scheduled: int
    """Tasks on a scheduler without a network."""
    scheduled_polls: int
    """Polls of it that are measured."""
    megabytes: int
    """The size of a downloaded video."""
    orders: int
    """Orders in the larger of two journals."""
    jobs: int
    """Jobs that wait in two workers of a job queue."""
    rows: int
    """Rows of the larger of two batches."""
    has_stretch: bool = False
    """Whether to measure what not every machine can do."""
    before: str | None = None
    """The directory of the package of an earlier commit, to compare with."""
    peers: tuple[str, ...] = ()
    """Peers to compare with, besides ours and plain aiohttp; all if empty."""

    @classmethod
    def full(cls) -> "Scale":
        return cls(
            rounds=5,
            blocks=30,
            gets=200,
            tasks=100_000,
            fewest_tasks=1000,
            interval=60.0,
            seconds=60.0,
            sample_seconds=8.0,
            slice_seconds=1.0,
            most_scheduled=1_000_000,
            scheduled_polls=100_000,
            megabytes=1024,
            orders=100_000,
            jobs=5000,
            rows=100_000,
        )

    @classmethod
    def tiny(cls) -> "Scale":
        """Everything, as small as possible: a test that it runs. The numbers are meaningless."""
        return cls(
            rounds=1,
            blocks=2,
            gets=5,
            tasks=40,
            fewest_tasks=40,
            interval=0.5,
            seconds=0.6,
            sample_seconds=0.6,
            slice_seconds=0.15,
            most_scheduled=2000,
            scheduled_polls=2000,
            megabytes=2,
            orders=5000,
            jobs=20,
            rows=20,
        )


@frozen
class Figure:
    """One measured number: a row of the table."""

    benchmark: str
    """The heading of its rows."""
    name: str
    value: float
    unit: str
    versus: str | None = None
    """What the value is compared with."""
    ratio: float | None = None
    """The value as a multiple of that: the median of the ratios of the rounds."""
    target: str | None = None
    is_met: bool | None = None
    note: str = ""
    quartiles: tuple[float, float] | None = None
    """The quartiles of the ratios of the rounds."""
    limit: float | None = None
    """The value that no client on this machine can beat, in the same unit."""
    facts: Mapping[str, float] = field(factory=dict)
    """What else was measured; not in the table."""


#: A target as it is written in the table, and whether it is met.
Verdict: TypeAlias = tuple[str, bool]


def at_most(limit: float, value: float) -> Verdict:
    return f"<= {limit:g}", value <= limit


def at_least(limit: float, value: float) -> Verdict:
    return f">= {limit:g}", value >= limit


def ratios_of(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio of each round: what disturbs a round disturbs both."""
    return [value / other for value, other in zip(values, base, strict=True)]


def compared(
    benchmark: str,
    name: str,
    seconds: Mapping[str, Sequence[float]],
    versus: str | None = None,
    judge: Callable[[float], Verdict] | None = None,
    *,
    limit: str | None = None,
    note: str = "",
) -> Figure:
    """The figure of one of several competitors that were measured in the same rounds, in microseconds, as a multiple of
    another one; without a ratio if that one was left out. ``limit`` names the one that is the physical limit."""
    figure = Figure(
        benchmark,
        name,
        median(seconds[name]) * 1e6,
        "us",
        note=note,
        limit=median(seconds[limit]) * 1e6 if limit else None,
    )
    if versus is None or versus not in seconds:
        return figure
    return with_ratio(figure, versus, ratios_of(seconds[name], seconds[versus]), judge)


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

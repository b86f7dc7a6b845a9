"""What was measured as pictures, PNG and SVG: who costs how much, how the scheduler grows, how even the polls are."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks import memory, scheduler, spread, watcher_cpu
from benchmarks.arithmetic import fit_log
from benchmarks.curves import Curve
from benchmarks.get_peers import OURS
from benchmarks.results import Figure, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

Draw: TypeAlias = Callable[[Sequence[Figure]], "Picture | None"]

_OURS, _OTHERS, _LIMIT, _TEXT = "#0b6e4f", "#9aa5b1", "#c1121f", "#333f48"
_LINES = ("#0b6e4f", "#e08e45", "#4a6fa5")
_LABELS = {
    scheduler.WATCHER: "watcher, as many polls per second at each size",
    scheduler.IN_USE: "watcher, each task once per 60 s",
    scheduler.SCHEDULE: "pure schedule, as many looks per second at each size",
}
_STYLE: Mapping[Any, object] = {
    "axes.edgecolor": _OTHERS,
    "axes.labelcolor": _TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "font.size": 9,
    "grid.color": "#e4e8ec",
    "svg.fonttype": "none",  # text stays text, and the file small
    "svg.hashsalt": "vidgen_async",  # the same figures, the same file
    "text.color": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}


def draw(figures: Sequence[Figure], directory: Path) -> list[Path]:
    """Each picture that these figures are enough for; returns the files, which are overwritten when they are there."""
    import matplotlib as mpl  # noqa: PLC0415 - only who draws needs it

    mpl.use("Agg")
    written = []
    with mpl.rc_context(dict(_STYLE)):
        for name, make in _PICTURES.items():
            picture = make(figures)
            if picture is None:
                continue
            for kind in ("png", "svg"):
                path = directory / f"{name}.{kind}"
                picture.savefig(path, metadata={"Date": None} if kind == "svg" else None)
                written.append(path)
    return written


def _picture(heights: Sequence[float], width: float) -> "tuple[Picture, list[Axes]]":
    """Panels below each other, in inches."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - only who draws needs it

    picture = Picture(figsize=(width, sum(heights)), layout="constrained")
    return picture, list(picture.subplots(len(heights), 1, squeeze=False, height_ratios=list(heights)).flat)


# -- who costs how much ------------------------------------------------------------------------------------------------


def _costs(figures: Sequence[Figure]) -> "Picture | None":
    cpu = _bars_of(figure for figure in figures if figure.benchmark == watcher_cpu.BENCHMARK and figure.unit == "us")
    size = _bars_of(figure for figure in figures if figure.benchmark == memory.BENCHMARK and figure.unit == "bytes")
    panels = [
        (bars, title) for bars, title in ((cpu, "µs of CPU time per poll"), (size, "Bytes per waiting task")) if bars
    ]
    if not panels:
        return None
    heights = [0.7 + 0.24 * len(bars) for bars, _ in panels]
    picture, places = _picture(heights, 8.0)
    for axes, (bars, title) in zip(places, panels, strict=True):
        _bars(axes, bars, title)
    return picture


def _bars_of(figures: Iterable[Figure]) -> dict[str, float]:
    """The longest at the bottom."""
    found = {figure.name: figure.value for figure in figures}
    return dict(sorted(found.items(), key=lambda bar: bar[1], reverse=True))


def _bars(axes: "Axes", bars: Mapping[str, float], title: str) -> None:
    names, values = list(bars), list(bars.values())
    drawn = axes.barh(names, values, color=[_OURS if name.startswith(OURS) else _OTHERS for name in names], height=0.66)
    axes.bar_label(drawn, [shown(value) for value in values], padding=4, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2.0, max(values) * 4.0)
    axes.set_title(title)
    axes.set_xlabel("logarithmic; less is better")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major")
    axes.set_axisbelow(True)


# -- how the scheduler grows -------------------------------------------------------------------------------------------


def _growth(figures: Sequence[Figure]) -> "Picture | None":
    curves = [figure for figure in figures if isinstance(figure, Curve) and figure.benchmark == scheduler.BENCHMARK]
    if not curves:
        return None
    picture, (axes,) = _picture([3.8], 7.0)
    for curve, colour in zip(curves, _LINES, strict=False):
        sizes, costs = [size for size, _ in curve.points], [cost for _, cost in curve.points]
        name = curve.name.partition(":")[0]
        axes.plot(sizes, costs, marker="o", markersize=4, color=colour, label=_LABELS.get(name, name))
        if name != scheduler.IN_USE:
            line = fit_log(curve.points)
            axes.plot(sizes, [line.at(math.log2(size)) for size in sizes], color=colour, linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("tasks on one scheduler (logarithmic); dashed: a + b log n")
    axes.set_ylabel("µs of CPU time per poll")
    axes.set_title("The scheduler alone, without network")
    axes.grid(which="major")
    picture.legend(loc="outside lower left", frameon=False)
    return picture


# -- how even the polls are --------------------------------------------------------------------------------------------


def _evenness(prefixes: tuple[str, ...], title: str) -> Draw:
    def make(figures: Sequence[Figure]) -> "Picture | None":
        curves = [
            figure
            for figure in figures
            if isinstance(figure, Curve) and figure.benchmark == spread.BENCHMARK and figure.name.startswith(prefixes)
        ]
        if not curves:
            return None
        picture, places = _picture([2.5] * len(curves), 8.0)
        for axes, curve in zip(places, curves, strict=True):
            _arrivals(axes, curve)
        picture.suptitle(title, x=0.01, ha="left", fontweight="bold")
        return picture

    return make


def _arrivals(axes: "Axes", curve: Curve) -> None:
    mean = curve.value / curve.ratio if curve.ratio else 0.0
    limit = spread.MOST_OF_MEAN * mean
    # Every second window is enough to see, and the fullest is one of them.
    fullest = max(range(len(curve.points)), key=lambda place: curve.points[place][1])
    seconds, counts = zip(*curve.points[fullest % 2 :: 2], strict=True)
    axes.fill_between(seconds, counts, color=_OURS, alpha=0.25, linewidth=0.0)
    axes.plot(seconds, counts, color=_OURS, linewidth=1.0)
    axes.axhline(limit, color=_LIMIT, linewidth=1.0, linestyle="--")
    axes.axhline(mean, color=_TEXT, linewidth=0.8, linestyle=":")
    for height, text, colour, place in (
        (limit, f"{spread.MOST_OF_MEAN:g} x the mean", _LIMIT, "bottom"),
        (mean, f"mean {mean:,.0f}/s", _TEXT, "top"),
    ):
        axes.annotate(
            text,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            color=colour,
            va=place,
            fontsize=8,
        )
    if seconds[0] < 0.0:
        axes.axvline(0.0, color=_OTHERS, linewidth=0.8)
    axes.margins(x=0.0)
    axes.set_ylim(0.0, max(limit * 1.2, max(counts) * 1.05))
    axes.set_title(curve.name.partition(":")[0].capitalize(), fontweight="normal")
    axes.set_xlabel("seconds from the restart" if seconds[0] > 0.0 else "seconds from the first poll afterwards")
    axes.set_ylabel("polls in one second")


_PICTURES: Mapping[str, Draw] = {
    "costs": _costs,
    "scheduler": _growth,
    "spread": _evenness((spread.RESTART, spread.FREEZE), "Polls that the service received in one second"),
    "troubles": _evenness(
        (spread.BLOCK, spread.RESETS, spread.SILENCE), "Polls that the service received in one second (for information)"
    ),
}

"""The plot: CPU time of a poll, and lateness, by the number of tasks. Its colours are legible on white and on black."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import watching
from benchmarks.get_peers import BARE, OPENAI, OURS, RAW
from benchmarks.results import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEXT, _GRID = "#78818c", "#78818c40"
#: Colour, marker and label of each competitor.
_LINES: Mapping[str, tuple[str, str, str]] = {
    OPENAI: ("#c9702a", "s", "openai, a coroutine per task"),
    RAW: ("#8a6fd1", "^", "aiohttp, a coroutine per task"),
    OURS: ("#0f9d6b", "o", OURS),
    watching.OURS_ON_UVLOOP: ("#2f8fd8", "D", f"{OURS} on uvloop"),
    BARE: (_TEXT, "_", "a bare protocol: write and read"),
}
_STYLE: Mapping[Any, object] = {
    "axes.edgecolor": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _TEXT,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": 110,
    "font.size": 9.5,
    "grid.color": _GRID,
    "lines.linewidth": 2.0,
    "savefig.transparent": True,
    "svg.fonttype": "none",  # text remains text, and the file is small
    "svg.hashsalt": "vidgen_async",  # equal figures make equal files
    "text.color": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}


def draw(figures: Sequence[Figure], directory: Path) -> list[Path]:
    """Write the plot as PNG and SVG, if the figures have its points; return the paths."""
    import matplotlib as mpl  # noqa: PLC0415 - it is optional

    points = [figure for figure in figures if figure.benchmark == watching.SWEEP]
    if not points:
        return []
    mpl.use("Agg")
    with mpl.rc_context(dict(_STYLE)):
        from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - it is optional

        picture = Picture(figsize=(8.6, 4.0), layout="constrained")
        cpu, late = picture.subplots(1, 2)
        _panel(cpu, points, _cpu, "CPU time of a poll", "µs")
        _panel(
            late,
            [point for point in points if not point.name.startswith(BARE)],
            lambda figure: max(figure.facts["p99"] * 1e3, 0.1),
            "99 % of the polls are less late than",
            "ms",
        )
        picture.legend(*cpu.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        paths = [directory / f"polls.{kind}" for kind in ("png", "svg")]
        for path in paths:
            picture.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _cpu(figure: Figure) -> float:
    """Not a number if most polls are not made: the time is then spent on the queue of the others."""
    return figure.value if figure.facts["polls"] >= figure.facts["due"] / 2 else math.nan


def _panel(axes: "Axes", points: Sequence[Figure], value: Callable[[Figure], float], title: str, unit: str) -> None:
    """Logarithmic on both axes."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 - it is optional

    for name, (colour, marker, label) in _LINES.items():
        line = [
            (figure.facts["tasks"], value(figure))
            for figure in points
            if figure.name == f"{name}, {figure.facts['tasks']:,.0f} tasks"
        ]
        if line:
            axes.plot(*zip(*sorted(line), strict=True), color=colour, marker=marker, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter(f"{{x:,.5g}} {unit}")
    axes.minorticks_off()
    axes.set_xlabel("tasks, each polled once per 60 s")
    axes.set_title(title)
    axes.grid(which="major")

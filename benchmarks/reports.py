"""The reports of the benchmarks: the table of all figures, and the files that they are stored in."""

import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import asdict, define

from benchmarks.measure import table
from benchmarks.results import Figure

#: Packages whose versions are stored with the figures, if they are installed.
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
    "aiosqlite",
    "psycopg",
    "procrastinate",
    "cassetter",
    "vcrpy",
)
#: A longer note is printed below the table.
_LONGEST_NOTE_IN_TABLE = 40

# -- the table ---------------------------------------------------------------------------------------------------------

_HEAD = ("", "measured", "compared with", "target", "", "limit")


def format_number(value: float) -> str:
    """Three digits are enough, and integers are complete."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def verdict(figures: Iterable[Figure]) -> str:
    """How many targets there are, and how many are met."""
    judged = [figure.is_met for figure in figures if figure.is_met is not None]
    return f"{sum(judged)} of {len(judged)} targets met"


def figures_table(figures: Sequence[Figure]) -> str:
    """One table for a terminal, with a heading for each benchmark and the longer notes below."""
    rows: list[tuple[str, ...]] = []
    notes = _long_notes(figures)
    for benchmark, members in groupby(figures, lambda figure: figure.benchmark):
        rows.append((benchmark, *[""] * (len(_HEAD) - 1)))
        rows += [(f"  {first}", *rest) for first, *rest in (_cells(figure, notes) for figure in members)]
    return "\n".join([table(_HEAD, rows, left=(0, 2, 3, 4)), *_lines(notes)])


def markdown_table(figures: Sequence[Figure]) -> str:
    """The same table in the Markdown of GitHub."""
    notes = _long_notes(figures)
    lines = ["| | measured | compared with | target | | limit |", "|---|---:|---|---|---|---:|"]
    for benchmark, members in groupby(figures, lambda figure: figure.benchmark):
        lines.append(f"| **{benchmark}** | | | | | |")
        lines += [f"| {' | '.join(_cells(figure, notes))} |" for figure in members]
    return "\n".join([*lines, "", *(f"- {line}" for line in _lines(notes))]).rstrip()


def _long_notes(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.note for figure in figures if figure.note and not _is_in_table(figure)))


def _is_in_table(figure: Figure) -> bool:
    """Whether its note is where others have a ratio."""
    return figure.ratio is None and len(figure.note) <= _LONGEST_NOTE_IN_TABLE


def _lines(notes: Iterable[str]) -> Iterator[str]:
    return (f"[{number}] {note}" for number, note in enumerate(notes, 1))


def _cells(figure: Figure, notes: Sequence[str]) -> tuple[str, ...]:
    comparison = figure.note if _is_in_table(figure) else ""
    if figure.ratio is not None:
        quartiles = "" if figure.quartiles is None else " [{:.2f}-{:.2f}]".format(*figure.quartiles)
        comparison = f"{format_number(figure.ratio)}{quartiles} x {figure.versus}"
    reference = f" [{notes.index(figure.note) + 1}]" if figure.note in notes else ""
    return (
        figure.name + reference,
        f"{format_number(figure.value)} {figure.unit}",
        comparison,
        figure.target or "",
        {None: "", True: "met", False: "MISSED"}[figure.is_met],
        "" if figure.limit is None else format_number(figure.limit),
    )


# -- the files ---------------------------------------------------------------------------------------------------------


@define
class Results:
    """What the benchmarks of one directory have measured so far: ``results.json``, and ``results.md`` with its table.

    Both are written after each benchmark. Measuring one again replaces its figures.
    """

    directory: Path
    document: dict[str, Any]

    @classmethod
    def load(cls, directory: Path) -> "Results":
        """The results that are in the directory; empty ones if there are none."""
        path = directory / "results.json"
        return cls(directory, json.loads(path.read_text()) if path.exists() else {"benchmarks": {}})

    def describe(self, arguments: Mapping[str, object], left_out: Sequence[str]) -> None:
        """Store what a reader must know about this run."""
        self.document |= {
            "machine": hardware(),
            "versions": versions(),
            "arguments": dict(arguments),
            "left_out": list(left_out),
        }

    def record(self, name: str, figures: Iterable[Figure], **facts: object) -> None:
        """Store the figures of a benchmark, and what is known about its run."""
        self.document["benchmarks"][name] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            **facts,
            "figures": [asdict(figure) for figure in figures],
        }

    def figures(self, order: Sequence[str]) -> list[Figure]:
        """All figures, by this order of the benchmarks."""
        stored = self.document["benchmarks"]
        return [
            Figure(**{**figure, "quartiles": figure["quartiles"] and tuple(figure["quartiles"])})
            for name in order
            if name in stored
            for figure in stored[name]["figures"]
        ]

    def write(self, order: Sequence[str]) -> None:
        figures = self.figures(order)
        (self.directory / "results.json").write_text(json.dumps(self.document, indent=2) + "\n")
        facts = [described(self.document[key]) for key in ("machine", "versions")]
        facts += [f"seconds and load before: {self._parts(order)}", verdict(figures)]
        lines = [*(f"- {fact}" for fact in facts), "", markdown_table(figures)]
        (self.directory / "results.md").write_text("\n".join(lines) + "\n")

    def _parts(self, order: Sequence[str]) -> str:
        stored = self.document["benchmarks"]
        parts = {name: stored[name] for name in order if name in stored}
        return described({name: f"{part.get('seconds')} at {part.get('load_before')}" for name, part in parts.items()})


def versions() -> dict[str, str]:
    """The versions of Python and of the installed :data:`PACKAGES`."""
    found = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    for package in ("vidgen-async", *PACKAGES):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, str]:
    """What is known about this machine."""
    return {
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }


def load_average() -> float | None:
    """The average number of processes that were running or waiting for a core in the last minute, where it is known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _cpu_model(path: Path) -> str:
    if path.exists():
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def described(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())

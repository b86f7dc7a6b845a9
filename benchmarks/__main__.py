"""Every benchmark on this machine, with the service in a process of its own: ``python -m benchmarks``.

Prints one table of medians and ratios, with what they were to be, and writes ``results.json`` and plots. What is missed
is said in the table, and is no error. A whole run takes about half an hour of a machine that has nothing else to do.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from attrs import asdict, evolve, frozen

from benchmarks.get_peers import PEERS, left_out
from benchmarks.results import Figure, Scale, described, figures_table, hardware, versions, write_json

#: Each has ``run(scale)``.
BENCHMARKS = (
    "requests_cpu",
    "watcher_cpu",
    "memory",
    "two_minutes",
    "spread",
    "scheduler",
    "imports",
    "loop_holds",
    "second_transport",
    "creates",
    "downloads",
    "uploads",
    "journal",
    "cassettes",
)


@frozen
class Asked:
    """What the command line says."""

    only: tuple[str, ...]
    scale: Scale
    is_tiny: bool
    output: Path


def asked_for(arguments: Sequence[str] | None = None) -> Asked:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="of each competitor, where a round is short (5)")
    parser.add_argument(
        "--only", action="append", default=[], choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        choices=PEERS,
        metavar="NAME",
        help=f"compare ours and plain aiohttp with this one, not with all: {', '.join(PEERS)}",
    )
    parser.add_argument("--tiny", action="store_true", help="all of it, so small that only its running means something")
    parser.add_argument("--stretch", action="store_true", help="also what not every machine can do")
    parser.add_argument("--output", type=Path, default=Path("benchmark-results"), help="a directory that is new")
    found = parser.parse_args(arguments)
    if found.output.exists() and any(found.output.iterdir()):
        parser.error(f"{found.output} is not empty; give --output DIRECTORY")
    scale = Scale.tiny() if found.tiny else Scale.full()
    return Asked(
        only=tuple(found.only or BENCHMARKS),
        scale=evolve(scale, rounds=found.rounds or scale.rounds, has_stretch=found.stretch, peers=tuple(found.peer)),
        is_tiny=found.tiny,
        output=found.output,
    )


def measured(only: Sequence[str], scale: Scale) -> list[Figure]:
    figures: list[Figure] = []
    for name in BENCHMARKS:
        if name in only:
            _progress(name)
            run: Callable[[Scale], list[Figure]] = import_module(f"benchmarks.{name}").run
            figures += run(scale)
    return figures


def verdict(figures: Sequence[Figure]) -> str:
    """How many targets there were, and how many were met."""
    judged = [figure.is_met for figure in figures if figure.is_met is not None]
    return f"{sum(judged)} of {len(judged)} targets were met"


def _progress(name: str) -> None:
    print(f"running {name} …", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for(arguments)
    asked.output.mkdir(parents=True, exist_ok=True)
    missing = left_out()
    print(described(hardware()))
    print(described(versions()))
    print(*missing, sep="\n")
    figures = measured(asked.only, asked.scale)
    print(figures_table(figures))
    print(verdict(figures))
    if asked.is_tiny:
        print("this was --tiny: that it runs is all that these numbers say")
    facts = {"only": list(asked.only), "tiny": asked.is_tiny, **asdict(asked.scale)}
    write_json(asked.output / "results.json", figures, facts, missing)
    if find_spec("matplotlib") is not None:
        from benchmarks import plots  # noqa: PLC0415 - only who draws needs it

        plots.draw(figures, asked.output)
    print(f"written to {asked.output}")


if __name__ == "__main__":
    main()

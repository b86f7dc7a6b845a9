"""Measure on this machine what the SDK costs, beside other clients in the same run: ``python -m benchmarks``.

Prints one table of all figures with their targets, and writes it to the output directory, with the plot. A missed
target is printed with its number and is not an error. A run takes about a quarter of an hour; the machine should do
nothing else.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from attrs import asdict, evolve, frozen

from benchmarks.before import installed
from benchmarks.get_peers import PEERS, left_out
from benchmarks.reports import Results, described, figures_table, load_average, verdict
from benchmarks.results import Figure, Scale

#: The modules, in the order of the table; each has ``run(scale: Scale) -> list[Figure]``.
BENCHMARKS = (
    "gets",
    "paced",
    "watching",
    "stretch",
    "scheduler",
    "creates",
    "versions",
    "downloads",
    "uploads",
    "imports",
    "journal",
    "postgres",
    "budgets",
    "lists",
    "rows",
    "waiting_jobs",
    "batches",
    "cassettes",
)


@frozen
class Arguments:
    """The command line."""

    only: tuple[str, ...]
    scale: Scale
    is_tiny: bool
    output: Path
    before: str | None


def parse(arguments: Sequence[str] | None = None) -> Arguments:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=BENCHMARKS,
        metavar="NAME",
        help=f"measure only this one, and keep the other results of the output directory: {', '.join(BENCHMARKS)}",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        choices=PEERS,
        metavar="NAME",
        help=f"compare with this one only, besides ours and plain aiohttp: {', '.join(PEERS)}",
    )
    parser.add_argument(
        "--rounds", type=int, help="rounds of each competitor, where a round takes seconds (default: 5)"
    )
    parser.add_argument("--before", metavar="COMMIT", help="also measure what is read and created at this commit")
    parser.add_argument("--stretch", action="store_true", help="also 500,000 and 1,000,000 tasks, in five minutes more")
    parser.add_argument("--tiny", action="store_true", help="test that everything runs; the numbers are meaningless")
    parser.add_argument("--output", type=Path, default=Path("benchmark-results"), help="the output directory")
    found = parser.parse_args(arguments)
    if not found.only and (found.output / "results.json").exists():
        parser.error(f"{found.output} has results; give another --output, or --only NAME to measure a part again")
    scale = Scale.tiny() if found.tiny else Scale.full()
    return Arguments(
        only=tuple(found.only or BENCHMARKS),
        scale=evolve(scale, rounds=found.rounds or scale.rounds, has_stretch=found.stretch, peers=tuple(found.peer)),
        before=found.before,
        is_tiny=found.tiny,
        output=found.output,
    )


def measure(name: str, scale: Scale, results: Results) -> bool:
    """Run one benchmark and store its figures; return whether it succeeded."""
    print(f"running {name} …", file=sys.stderr, flush=True)
    run: Callable[[Scale], list[Figure]] = import_module(f"benchmarks.{name}").run
    load, start = load_average(), time.monotonic()
    try:
        figures = run(scale)
    except Exception:  # noqa: BLE001 - one that fails must not lose the results of the others
        traceback.print_exc()
        return False
    results.record(name, figures, load_before=load, seconds=round(time.monotonic() - start, 1))
    results.write(BENCHMARKS)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    asked.output.mkdir(parents=True, exist_ok=True)
    results = Results.load(asked.output)
    results.describe({"tiny": asked.is_tiny, **asdict(asked.scale)}, left_out())
    print(described(results.document["machine"]))
    print(described(results.document["versions"]))
    print(*results.document["left_out"], sep="\n")
    with installed(asked.before) if asked.before else nullcontext() as before:
        scale = evolve(asked.scale, before=before)
        failed = [name for name in BENCHMARKS if name in asked.only and not measure(name, scale, results)]
    figures = results.figures(BENCHMARKS)
    print(figures_table(figures))
    print(verdict(figures))
    if find_spec("matplotlib") is not None:
        from benchmarks import plots  # noqa: PLC0415 - it is optional

        plots.draw(figures, asked.output)
    if asked.is_tiny:
        print("--tiny: these numbers are meaningless")
    if failed:
        print(f"failed: {', '.join(failed)}; measure again with --only", file=sys.stderr)
    print(f"written to {asked.output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

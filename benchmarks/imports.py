"""What imports and the start of the command cost: CPU time of fresh interpreters, minus one that imports nothing."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

from attrs import field, frozen

from benchmarks.before import BEFORE, NAME
from benchmarks.children import interleaved
from benchmarks.measure import median
from benchmarks.results import Figure, Scale, at_most, ratios_of, with_limit, with_ratio

CLIENT, RAW, COMMAND_LIBRARIES = "from vidgen_async import Client", "import aiohttp", "import click, rich"
EARLIER = CLIENT.replace(NAME, BEFORE)
_MADE = f"{CLIENT}; Client('sk-4fb1c2a09d7e', base_url='http://127.0.0.1/openapi/v1')"
_MOST_OF_RAW = 1.25
#: Milliseconds that the command may need besides click and rich.
_MOST_ADDED = 150.0
_PEERS = ("openai", "replicate", "runwayml")


@frozen
class Start:
    """One way to start an interpreter."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(factory=dict)


_COMMAND = "import sys; sys.argv[0] = 'vidgen'; from vidgen_async.cli import main; main()"
_NOTHING = "pass"
COMMANDS: Mapping[str, Start] = {
    "vidgen --version": Start(("-c", _COMMAND, "--version")),
    "vidgen --help": Start(("-c", _COMMAND, "--help")),
    "vidgen <TAB>": Start(
        ("-c", _COMMAND), {"_VIDGEN_COMPLETE": "bash_complete", "COMP_WORDS": "vidgen ", "COMP_CWORD": "1"}
    ),
}


def run(scale: Scale) -> list[Figure]:
    peers = [name for name in _PEERS if find_spec(name) and (not scale.peers or name in scale.peers)]
    before = [EARLIER] if find_spec(BEFORE) else []
    imports = [CLIENT, *before, _MADE, RAW, COMMAND_LIBRARIES, *(f"import {name}" for name in peers)]
    starts = {**{statement: Start(("-c", statement)) for statement in (_NOTHING, *imports)}, **COMMANDS}
    rounds = 2 * scale.rounds - 1
    return list(figures(interleaved(starts, rounds, lambda name: seconds_of(starts[name]))))


def figures(seconds: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    """Imports as multiples of aiohttp's, and what a command needs besides click and rich."""
    # A first round that has to compile modules counts little in a median.
    milliseconds = {
        name: [(own - nothing) * 1e3 for own, nothing in zip(found, seconds[_NOTHING], strict=True)]
        for name, found in seconds.items()
        if name != _NOTHING
    }
    for name, found in milliseconds.items():
        if name in COMMANDS:
            added = median(own - base for own, base in zip(found, milliseconds[COMMAND_LIBRARIES], strict=True))
            note = f"{median(found):.0f} ms in all"
            yield with_limit(
                Figure("start of the command, besides click and rich", name, added, "ms", note=note), _MOST_ADDED
            )
            continue
        figure = Figure("imports", "the first client" if name == _MADE else name, median(found), "ms")
        if name not in (RAW, COMMAND_LIBRARIES):
            judge = partial(at_most, _MOST_OF_RAW) if name == CLIENT else None
            figure = with_ratio(figure, RAW, ratios_of(found, milliseconds[RAW]), judge)
        yield figure


def seconds_of(start: Start) -> float:
    """The CPU time of one interpreter from its start to its end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - our own statements
        [sys.executable, *start.arguments], env={**environment, **start.environment}, stdout=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

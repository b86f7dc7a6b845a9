"""What an import costs: fresh interpreters, less one that imports nothing."""

import os
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec

from attrs import frozen

from benchmarks.get_peers import PEERS
from benchmarks.measure import median
from benchmarks.results import Figure, Scale

OURS = "import vidgen_async"
OUR_CLIENT = "from vidgen_async import Client"
RAW = "import aiohttp"
_NOTHING = "pass"
_TARGET = 1.25
_STATEMENTS = (OURS, OUR_CLIENT, RAW, "import openai", "import runwayml", "import replicate")


@frozen
class Cost:
    """Seconds of one interpreter from its start to its end."""

    cpu: float
    wall: float


def run(scale: Scale) -> list[Figure]:
    """CPU and wall time of each import, and their ratio to that of aiohttp."""
    packages = {package for peer in scale.peers for package in PEERS[peer].needs}
    asked = (OURS, OUR_CLIENT, RAW, *(f"import {package}" for package in packages)) if scale.peers else _STATEMENTS
    statements = [statement for statement in _STATEMENTS if statement in asked and _is_there(statement)]
    return figures(measured(statements, 2 * scale.rounds - 1))


def figures(costs: Mapping[str, Cost]) -> list[Figure]:
    """Ours has a target; a client brings what it needs with it."""
    found = []
    for statement, cost in costs.items():
        ratio = cost.cpu / costs[RAW].cpu
        has_target = statement == OURS
        found.append(
            Figure(
                benchmark="imports",
                name=statement,
                value=cost.cpu * 1e3,
                unit="ms CPU",
                versus=None if statement == RAW else RAW,
                ratio=None if statement == RAW else ratio,
                target=f"<= {_TARGET}" if has_target else None,
                is_met=ratio <= _TARGET if has_target else None,
                note=f"{cost.wall * 1e3:.0f} ms wall",
            )
        )
    return found


def measured(statements: list[str], rounds: int) -> dict[str, Cost]:
    """Medians of interleaved rounds, each less the interpreter's own in the same round. A first round that has to
    compile modules does not count for much in a median."""
    found: dict[str, list[Cost]] = {statement: [] for statement in statements}
    for turn in range(rounds):
        order = deque((_NOTHING, *statements))
        order.rotate(-turn)
        costs = {statement: _cost(statement) for statement in order}
        nothing = costs.pop(_NOTHING)
        for statement, cost in costs.items():
            found[statement].append(Cost(cost.cpu - nothing.cpu, cost.wall - nothing.wall))
    return {
        statement: Cost(median(cost.cpu for cost in costs), median(cost.wall for cost in costs))
        for statement, costs in found.items()
    }


def _is_there(statement: str) -> bool:
    return find_spec(statement.split()[1]) is not None


def _cost(statement: str) -> Cost:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_at = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=environment, check=True)  # noqa: S603 - statements of our own
    wall = time.perf_counter() - begun_at
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)

"""Each competitor in a fresh process of its own, in turn, another one first in each round."""

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
#: What a child measured.
Found: TypeAlias = dict[str, float]

_ROOT = Path(__file__).resolve().parent.parent


def child(module: str, *arguments: object) -> Found:
    """What ``python -m module ARGUMENTS…`` measured: the JSON object that is its last line.

    RuntimeError, with what it said, when it failed.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own modules
    if ended.returncode:
        message = f"{module} {' '.join(map(str, arguments))} failed:\n{ended.stderr}"
        raise RuntimeError(message)
    found: Found = json.loads(ended.stdout.splitlines()[-1])
    return found


def interleaved(names: Iterable[str], rounds: int, take: Callable[[str], T]) -> dict[str, list[T]]:
    """What ``take`` found for each name, so many times."""
    line = deque(names)
    found: dict[str, list[T]] = {name: [] for name in line}
    for _ in range(rounds):
        for name in line:
            found[name].append(take(name))
        line.rotate(-1)
    return found


def run_on_loop(work: Coroutine[Any, Any, T], *, is_uvloop: bool) -> T:
    """Run it to its end on an event loop of its own."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if is_uvloop:
        import uvloop  # noqa: PLC0415 - it is optional

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)

"""Competitors in processes of their own, and event loops."""

import asyncio
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
#: What one child measured.
Found: TypeAlias = dict[str, float]

_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def started(
    module: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """``python -m module ARGUMENTS…`` as a running process, which ends with the block."""
    with subprocess.Popen(  # noqa: S603 - our own modules
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=_ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(process: "subprocess.Popen[str]") -> Any:
    """The JSON document in the last line that it prints. RuntimeError, with its error output, if it fails."""
    output, errors = process.communicate()
    if process.returncode:
        message = f"{' '.join(map(str, process.args[2:]))} failed:\n{errors}"  # type: ignore[index]
        raise RuntimeError(message)
    return json.loads(output.splitlines()[-1])


def child(module: str, *arguments: object, environment: Mapping[str, str] | None = None) -> Any:
    """The result of ``python -m module ARGUMENTS…``."""
    with started(module, *arguments, environment=environment) as process:
        return result_of(process)


def interleaved(names: Iterable[str], rounds: int, take: Callable[[str], T]) -> dict[str, list[T]]:
    """What ``take`` returns for each name, in so many rounds, of which each begins with another name."""
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

"""The load service, which also notes when each task was asked for: ``GET /gaps`` tells what lay between.

It is told in seconds from one question for a task to the next one for the same task: how many such gaps there were, the
shortest, p50, p99 and the longest.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from attrs import asdict, frozen

from benchmarks.children import run_on_loop
from benchmarks.load_service import BACKLOG, Connection, LoadService, State
from benchmarks.measure import percentile


@frozen
class Gaps:
    """Between two questions for one task, in seconds."""

    count: int
    shortest: float
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: "array[float]") -> "Gaps":
        ordered = sorted(seconds) or [0.0]
        return cls(
            count=len(seconds),
            shortest=ordered[0],
            p50=percentile(ordered, 0.5),
            p99=percentile(ordered, 0.99),
            longest=ordered[-1],
        )


class GapService(LoadService):
    """The running service, seen from outside."""

    def gaps(self) -> Gaps:
        return Gaps(**json.loads(self._told("/gaps")))


@contextmanager
def running_gap_service() -> Iterator[GapService]:
    """It ends with the block, and with this process."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as door:
        command = [sys.executable, "-m", "benchmarks.gap_service", str(door.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door.fileno()]) as process:  # noqa: S603 - ours
            try:
                yield GapService(f"http://127.0.0.1:{door.getsockname()[1]}")
            finally:
                process.terminate()


class GapState(State):
    """Two numbers for each task, one for each gap."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[bytes, float] = {}
        self._gaps = array("d")

    def note(self, target: bytes) -> None:
        now = time.monotonic()
        last = self._last.get(target)
        if last is not None:
            self._gaps.append(now - last)
        self._last[target] = now

    def told(self, path: str) -> bytes:
        if path == "/gaps":
            return json.dumps(asdict(Gaps.of(self._gaps))).encode()
        if path == "/reset":
            self._last.clear()
            self._gaps = array("d")
        return super().told(path)


class GapConnection(Connection):
    def __init__(self, state: GapState) -> None:
        super().__init__(state)
        self._gap_state = state

    def _asked(self, target: bytes) -> None:
        if target.startswith(b"/openapi/"):
            self._gap_state.note(target)
        super()._asked(target)


async def _serve(door: socket.socket) -> None:
    """Until the process that started it is gone."""
    state, loop = GapState(), asyncio.get_running_loop()
    async with await loop.create_server(lambda: GapConnection(state), sock=door, backlog=BACKLOG):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run_on_loop(_serve(socket.socket(fileno=int(sys.argv[1]))), is_uvloop=find_spec("uvloop") is not None)

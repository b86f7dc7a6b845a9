"""The load service, which also notes when each task was asked for: ``GET /gaps`` tells what lay between.

It is told in seconds from one question for a task to the next one for the same task: how many such gaps there were, the
shortest, p50, p99 and the longest.
"""

import json
import socket
import sys
import time
from array import array
from contextlib import AbstractContextManager
from functools import partial

from attrs import asdict, frozen

from benchmarks.load_service import Connection, LoadService, State, running, serve
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


def running_gap_service() -> AbstractContextManager[GapService]:
    return running("benchmarks.gap_service", GapService)


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


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), partial(GapConnection, GapState()))

"""One client that watches very many tasks until it is told to end: a process of its own, which can be frozen.

It prints two JSON lines: when it began, and what it measured of itself.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from attrs import asdict, frozen

from benchmarks.children import Found, run_on_loop
from benchmarks.get_peers import KEY, task_ids
from benchmarks.measure import resident_bytes
from vidgen_async import Client
from vidgen_async.types.http import Timeouts

_ROOT = Path(__file__).resolve().parent.parent


@frozen
class Plan:
    """What the process does."""

    base_url: str
    tasks: int
    interval: float
    seconds: float
    """For which the tasks are watched."""
    is_uvloop: bool = False
    blocked_after: float | None = None
    """Seconds after which its event loop is blocked, for ``blocked_for``."""
    blocked_for: float = 0.0
    read_timeout: float | None = Timeouts().read


@frozen
class Watching:
    """The running process, seen from outside."""

    process: "subprocess.Popen[str]"
    begun_at: float
    """The time of day, in seconds since the epoch, at which it began to watch."""

    def freeze(self, seconds: float) -> None:
        """Stop the process for so long."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def found(self) -> Found:
        """What it measured, when it has ended."""
        told, complaint = self.process.communicate()
        if self.process.returncode:
            message = f"the watching process failed:\n{complaint}"
            raise RuntimeError(message)
        found: Found = json.loads(told.splitlines()[-1])
        return found


@contextmanager
def running_client(plan: Plan) -> Iterator[Watching]:
    """The process, which has begun to watch. It ends with the block."""
    command = [sys.executable, "-m", "benchmarks.watching_process", json.dumps(asdict(plan))]
    with subprocess.Popen(  # noqa: S603 - our own module
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            first = process.stdout.readline() if process.stdout is not None else ""
            if not first:
                message = f"the watching process failed:\n{process.communicate()[1]}"
                raise RuntimeError(message)
            yield Watching(process, json.loads(first)["begun_at"])
        finally:
            process.kill()


def sleep_until(wall: float) -> None:
    """Until this time of day, in seconds since the epoch."""
    time.sleep(max(wall - time.time(), 0.0))


# -- in the child ------------------------------------------------------------------------------------------------------


async def _watch(plan: Plan) -> Found:
    timeouts = Timeouts(read=plan.read_timeout)
    async with Client(KEY, base_url=plan.base_url, poll_interval=plan.interval, timeouts=timeouts) as client:
        ids = task_ids(plan.tasks)
        print(json.dumps({"begun_at": time.time()}), flush=True)
        begun = time.perf_counter()
        async with aclosing(client.videos.as_completed(ids, timeout=None)) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            if plan.blocked_after is not None:
                await asyncio.sleep(plan.blocked_after)
                time.sleep(plan.blocked_for)  # noqa: ASYNC251 - to block the loop is what it is for
            await asyncio.wait([waiter], timeout=plan.seconds - (time.perf_counter() - begun))
            cpu, wall = time.process_time(), time.perf_counter() - begun
            stats, memory = client.watcher.stats, resident_bytes()
            if waiter.done():
                message = f"no task was to end, but: {waiter.result()}"
                raise RuntimeError(message)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        return {
            "cpu": cpu,
            "wall": wall,
            "memory": memory,
            "tasks": stats.tasks,
            "polls": stats.polls,
            "errors": sum(stats.errors.values()),
            "lateness_p50": stats.lateness_p50,
            "lateness_p99": stats.lateness_p99,
            "lateness_max": stats.lateness_max,
        }


def main(asked: str) -> None:
    plan = Plan(**json.loads(asked))
    print(json.dumps(run_on_loop(_watch(plan), is_uvloop=plan.is_uvloop)))


if __name__ == "__main__":
    main(sys.argv[1])

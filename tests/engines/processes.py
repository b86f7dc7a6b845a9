"""The worker processes of examples/queues/, and the Redis that some of them need."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from attrs import field, frozen, mutable

from tests.free_ports import find_port
from tests.signals import accept_signals
from tests.stopped_sandbox import LIMIT

QUEUES = Path(__file__).resolve().parents[2] / "examples" / "queues"


async def until(condition: Callable[[], Awaitable[object]], *, limit: float = LIMIT) -> None:
    """Wait for a condition that other processes fulfil, and which is read again and again."""
    async with asyncio.timeout(limit):
        while not await condition():  # noqa: ASYNC110 - other processes have no event to wait for
            await asyncio.sleep(0.05)


@frozen
class Worker:
    """A process of its own, in a process group of its own."""

    process: asyncio.subprocess.Process
    log: Path
    """What it has written to stdout and stderr."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it and its own children at once, as a lost machine does."""
        os.killpg(self.pid, signal.SIGKILL)
        await self.process.wait()

    async def wait(self) -> int:
        """The exit code, when it has ended by itself."""
        async with asyncio.timeout(LIMIT):
            return await self.process.wait()

    async def until_logged(self, text: str) -> None:
        """Wait until the log contains this."""

        async def is_logged() -> bool:
            if self.process.returncode is not None:
                raise AssertionError(f"exit code {self.process.returncode}: {self.log.read_text()}")
            return text in self.log.read_text()

        await until(is_logged)


@mutable
class Workers:
    """Starts workers that share a directory and an environment."""

    directory: Path
    environment: Mapping[str, str]
    _started: list[Worker] = field(factory=list)

    async def start(self, *arguments: str, python: str = sys.executable, **settings: str) -> Worker:
        """Start Python with these arguments and further variables of the environment.

        The modules of examples/queues/ can be imported.
        """
        log = self.directory / f"worker-{len(self._started)}.log"
        environment = {
            "PYTHONPATH": os.pathsep.join([str(QUEUES), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONUNBUFFERED": "1",
        }
        with log.open("wb") as output, accept_signals(signal.SIGTERM, signal.SIGINT):
            process = await asyncio.create_subprocess_exec(
                python,
                *arguments,
                cwd=self.directory,
                env=os.environ | environment | self.environment | settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = Worker(process, log)
        self._started.append(worker)
        return worker

    @property
    def logs(self) -> str:
        """What all of them have written."""
        return "\n".join(f"-- {worker.log.name}\n{worker.log.read_text()}" for worker in self._started)

    async def aclose(self) -> None:
        for worker in self._started:
            if worker.process.returncode is None:
                await worker.kill()


@asynccontextmanager
async def open_workers(directory: Path, environment: Mapping[str, str]) -> AsyncIterator[Workers]:
    """Workers, which are killed at the end."""
    workers = Workers(directory, environment)
    try:
        yield workers
    finally:
        await workers.aclose()


@contextmanager
def running_redis() -> Iterator[str]:
    """The URL of a Redis server of the tests' own."""
    program = shutil.which("redis-server")
    assert program is not None, "Redis is not installed: apt-get install redis-server"
    while True:
        port = find_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own command
            try:
                if is_answering(server, port):
                    yield f"redis://127.0.0.1:{port}"
                    return
            finally:
                server.terminate()


def is_answering(server: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait until a server listens; False if it has ended, since another program took the port."""
    end = time.monotonic() + LIMIT
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.02)
        else:
            return server.poll() is None
    return False

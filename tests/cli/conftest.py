"""The command line: a sandbox in a thread, and the command as a process or in this one."""

import asyncio
import fcntl
import inspect
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from vidgen_async.cli.app import run_app
from vidgen_async.cli.terminal.exit_reports import Report
from vidgen_async.cli.terminal.result_output import Document, Shown, plain_lines
from vidgen_async.sandbox import Fault, ReceivedCreate, Sandbox

ROOT = Path(__file__).resolve().parents[2]
PICTURE = str(ROOT / "examples" / "boat.png")

#: No command of a test may find or leave orders in the user's own data directory.
NOWHERE = "/dev/null/data"

# Shells start background jobs with SIGINT ignored, and children inherit that.
LAUNCH = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'vidgen'; "
    "from vidgen_async.cli import main; main()"
)


class Service:
    """A sandbox on an event loop and a thread of its own, so that tests and commands may block. What a test changes is
    changed on that loop. Tasks are completed at once, unless :meth:`set_speed` lets time run slower."""

    def __init__(self, sandbox: Sandbox, loop: asyncio.AbstractEventLoop) -> None:
        self._sandbox = sandbox
        self._loop = loop
        self.base_url = sandbox.base_url
        self.api_key = sandbox.api_key

    @property
    def creates(self) -> list[ReceivedCreate]:
        return self._sandbox.creates

    def asked(self, op: str) -> int:
        """How many requests of this operation it has received."""
        return sum(request.op == op for request in self._sandbox.requests)

    def asset_ids(self) -> list[str]:
        """The ids of all uploads."""
        return [asset.id for asset in self._sandbox.assets]

    def set_speed(self, speed: float) -> None:
        """Seconds of the sandbox in a real second; with 0 a new task stays queued."""
        self._do(setattr, self._sandbox.clock, "speed", speed)

    def play(self, op: str, fault: Fault, *, times: int | None = 1) -> None:
        self._do(partial(self._sandbox.faults.add, times=times), op, fault)

    def behave(self) -> None:
        """As if nothing had been asked of it yet."""
        self._do(self._sandbox.faults.clear)
        self._do(self._sandbox.creates.clear)
        self._do(self._sandbox.requests.clear)
        self._do(self._sandbox.tasks.clear)
        self.set_speed(1000)

    def wait_for_create(self) -> None:
        """Until an order has arrived."""
        give_up = time.monotonic() + 20
        while not (self.creates and self.creates[0].body_arrived):
            assert time.monotonic() < give_up, "the order never arrived"
            time.sleep(0.01)

    def wait_for_task(self) -> str:
        """The id of the first task, as soon as there is one."""
        give_up = time.monotonic() + 20
        while not self._sandbox.tasks:
            assert time.monotonic() < give_up, "there never was a task"
            time.sleep(0.01)
        return next(iter(self._sandbox.tasks))

    def wait_for(self, op: str, count: int) -> None:
        """Until so many requests of this operation have come."""
        give_up = time.monotonic() + 20
        while self.asked(op) < count:
            assert time.monotonic() < give_up, f"{op} did not come {count} times"
            time.sleep(0.01)

    def refuse(self) -> None:
        """Refuse connections."""
        self._do(self._sandbox.refuse)

    def accept(self) -> None:
        """Take them again, on the same port."""
        self._do(self._sandbox.accept)

    def _do(self, function: Callable[..., object], *arguments: object) -> None:
        async def call() -> None:
            result = function(*arguments)
            if inspect.isawaitable(result):
                await result

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(20)


@pytest.fixture(scope="package")
def shared_service() -> Iterator[Service]:
    ready = threading.Event()
    made: list[Service] = []
    done = asyncio.Event()

    async def serve() -> None:
        async with Sandbox(queued_for=1, running_for=1) as sandbox:
            made.append(Service(sandbox, asyncio.get_running_loop()))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="sandbox", daemon=True)
    thread.start()
    assert ready.wait(20)
    yield made[0]
    made[0]._do(done.set)
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def service(shared_service: Service) -> Service:
    shared_service.behave()
    return shared_service


def environment(service: Service | None, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    mine = {} if service is None else {"VIDGEN_BASE_URL": service.base_url, "VIDGEN_API_KEY": service.api_key}
    python = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return {**kept, **python, "COLUMNS": "200", "XDG_DATA_HOME": NOWHERE, **mine, **more}


class Command:
    """``vidgen …`` as a process, and what it has shown so far."""

    def __init__(self, *arguments: str, env: dict[str, str], cwd: Path) -> None:
        self.shown = ""
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", LAUNCH, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
            text=True,
        )
        self._watchdog = threading.Timer(60, self.process.kill)
        self._watchdog.start()

    def until(self, text: str) -> str:
        """Read what it shows until there is a line with ``text``."""
        for line in self.process.stderr:
            self.shown += line
            if text in line:
                return line
        raise AssertionError(f"{text!r} was never shown:\n{self.shown}")

    def interrupt(self, which: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(which)

    def end(self) -> tuple[int, str, str]:
        """The exit code, all of stdout and all of stderr."""
        with self.process:
            out, err = self.process.communicate()
        self._watchdog.cancel()
        self.shown += err
        assert "Traceback" not in self.shown
        return self.process.returncode, out, self.shown


@pytest.fixture
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test's commands keep their orders."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def vidgen(service: Service, tmp_path: Path, data_home: Path) -> Iterator[Callable[..., Command]]:
    """Starts ``vidgen …`` in an empty folder, with the sandbox in the environment."""
    started = []

    def start(*arguments: str, **env: str) -> Command:
        env = environment(service, **{"XDG_DATA_HOME": str(data_home)} | env)
        started.append(Command(*arguments, env=env, cwd=tmp_path))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.end()


def on_a_terminal(*arguments: str, env: dict[str, str], cwd: Path, width: int = 80, typed: str = "") -> tuple[int, str]:
    """The exit code of ``vidgen …`` on a terminal of this width, and all that the terminal was sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    env = {"TERM": "xterm-256color", **env}
    env.pop("COLUMNS", None)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", LAUNCH, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
        code = process.wait(20)
        watchdog.cancel()
    return code, shown.decode()


def text_of(shown: str) -> list[str]:
    """The lines of what a terminal was sent, without the control sequences."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()]


@pytest.fixture
def terminal(service: Service, tmp_path: Path, data_home: Path) -> Callable[..., tuple[int, str]]:
    """Runs ``vidgen …`` on a terminal, in an empty folder, with the sandbox in the environment."""

    def run(*arguments: str, width: int = 80, typed: str = "", **env: str) -> tuple[int, str]:
        env = environment(service, **{"XDG_DATA_HOME": str(data_home)} | env)
        return on_a_terminal(*arguments, env=env, cwd=tmp_path, width=width, typed=typed)

    return run


@pytest.fixture
def here(service: Service, tmp_path: Path, data_home: Path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs ``vidgen …`` in this process: the exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_DATA_HOME", str(data_home))
    for name, value in environment(service).items():
        if name.startswith("VIDGEN_"):
            monkeypatch.setenv(name, value)
    for name in ("VIDGEN_DEBUG", "VIDGEN_JOURNAL", "VIDGEN_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vidgen", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run_app()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def vidgen_cassette(tmp_path: Path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs ``vidgen cassette …`` in this process, in an empty folder, without a key or a service."""
    for name in [name for name in os.environ if name.startswith("VIDGEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vidgen", "cassette", *arguments])
        code = run_app()
        return code, *capsys.readouterr()

    return run


class FakeScreen:
    """Keeps what it was told, as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.documents: list[Document] = []
        self.code: int | None = None
        self.report: Report | None = None

    def say(self, label: str, text: str) -> None:
        self.lines.append(f"{label}: {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"warning: {text}")

    def busy(self, text: str) -> None:
        self.lines.append(text)

    def state(self, state: str) -> None:
        self.lines.append(f"state: {state}")

    def received(self, received: int, total: int | None) -> None:
        pass

    def show(self, shown: Shown, *documents: Document) -> None:
        self.lines += [f"result: {line}" for line in plain_lines(shown)]
        self.documents += documents

    def trouble(self, report: Report, code: int) -> None:
        self.report, self.code = report, code

    def canvas(self) -> None:
        pass

    def close(self) -> None:
        pass

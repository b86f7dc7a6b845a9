"""Fixtures of the command line: a sandbox in a thread, and the command as a process or in this one."""

import asyncio
import fcntl
import inspect
import io
import os
import pty
import queue
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from tests.signals import accept_signals
from vidgen_async.cli.app import run_app
from vidgen_async.cli.command_runner import SIGNALS
from vidgen_async.cli.process import guarded_streams
from vidgen_async.cli.terminal.exit_reports import Report
from vidgen_async.cli.terminal.formatting import Document, View
from vidgen_async.cli.terminal.result_output import plain_lines
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.sandbox import Failure, Fault, ReceivedCreate, Sandbox, SandboxTask, media, outcome_by_prompt
from vidgen_async.sandbox.media import Film, render

ROOT = Path(__file__).resolve().parents[2]
PICTURE = str(ROOT / "examples" / "boat.png")

#: No command of a test may read or store orders in the user's own data directory.
NOWHERE = "/dev/null/data"

#: The command as a process.
VIDGEN = (sys.executable, "-m", "vidgen_async")

#: The arguments of a whole run.
BOAT = (
    "generate",
    "A paper boat",
    "--model",
    "gen-2.0",
    "--duration",
    "5",
    "--poll-interval",
    "0.05",
    "-o",
    "boat.mp4",
)


class Service:
    """A sandbox on its own event loop and thread, so that tests and commands may block; all changes are made on that
    loop. Tasks are completed at once, unless :meth:`set_speed` slows the clock down."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._sandbox = Sandbox(queued_for=1, running_for=1, outcome=self._made)
        self._made_tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.on_task: Callable[[], object] = lambda: None
        """Called on the sandbox's thread when a task was created and the response was not sent yet."""

    async def serve(self, ready: threading.Event, done: asyncio.Event) -> None:
        async with self._sandbox as sandbox:
            self.base_url = sandbox.base_url
            self.api_key = sandbox.api_key
            ready.set()
            await done.wait()

    def _made(self, task: SandboxTask) -> Failure | None:
        self._made_tasks.put(task.id)
        self.on_task()
        return outcome_by_prompt(task)

    @property
    def creates(self) -> list[ReceivedCreate]:
        return self._sandbox.creates

    def count_requests(self, op: str) -> int:
        """The number of received requests of this operation."""
        return sum(request.op == op for request in self._sandbox.requests)

    def asset_ids(self) -> list[str]:
        """The ids of all uploads."""
        return [asset.id for asset in self._sandbox.assets]

    def set_speed(self, speed: float) -> None:
        """Seconds of the sandbox in a real second; with 0 a new task stays queued."""
        self._do(setattr, self._sandbox.clock, "speed", speed)

    def add_fault(self, op: str, fault: Fault, *, times: int | None = 1) -> None:
        self._do(partial(self._sandbox.faults.add, times=times), op, fault)

    def behave(self) -> None:
        """Reset everything to the initial state."""
        self._do(self._sandbox.faults.clear)
        self._do(self._sandbox.creates.clear)
        self._do(self._sandbox.requests.clear)
        self._do(self._sandbox.tasks.clear)
        self._made_tasks = queue.SimpleQueue()
        self.on_task = lambda: None
        self.set_speed(1000)

    def wait_for_task(self) -> str:
        """Wait until an order arrives, and return the id of its task."""
        return self._made_tasks.get(timeout=20)

    def refuse(self) -> None:
        """Refuse connections."""
        self._do(self._sandbox.refuse)

    def accept(self) -> None:
        """Accept connections again, on the same port."""
        self._do(self._sandbox.accept)

    def _do(self, function: Callable[..., object], *arguments: object) -> None:
        async def call() -> None:
            result = function(*arguments)
            if inspect.isawaitable(result):
                await result

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(20)


@pytest.fixture(scope="package")
def shared_service() -> Iterator[Service]:
    ready, done = threading.Event(), asyncio.Event()
    made: list[Service] = []

    async def serve() -> None:
        made.append(Service())
        await made[0].serve(ready, done)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="sandbox", daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(media, "find_renderer", lambda: render_small)
        thread.start()
        assert ready.wait(20)
        yield made[0]
        made[0]._do(done.set)
        thread.join(20)
    assert not thread.is_alive()


def render_small(film: Film, stopped: Callable[[], bool]) -> bytes:
    """A short and small film: the content does not matter here."""
    return render(evolve(film, seconds=1, width=320, height=180), stopped)


@pytest.fixture
def service(shared_service: Service) -> Service:
    shared_service.behave()
    return shared_service


def environment(service: Service | None, **more: str) -> dict[str, str]:
    """The environment of a process: only PATH is inherited."""
    mine = {} if service is None else {"VIDGEN_BASE_URL": service.base_url, "VIDGEN_API_KEY": service.api_key}
    python = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}
    return {"PATH": os.environ["PATH"], **python, "COLUMNS": "200", "XDG_DATA_HOME": NOWHERE, **mine, **more}


class Command:
    """``vidgen …`` as a process, and its stderr so far."""

    def __init__(self, *arguments: str, env: dict[str, str], cwd: Path) -> None:
        self.shown = ""
        with accept_signals(*SIGNALS):
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*VIDGEN, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                env=env,
                cwd=cwd,
                encoding="utf-8",
            )
        self._watchdog = threading.Timer(50, self.process.kill)
        self._watchdog.start()

    def until(self, text: str) -> str:
        """Read its stderr until a line contains ``text``."""
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

    def kill(self) -> None:
        """Kill the process if it runs, and close its pipes."""
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a test's commands."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def vidgen(service: Service, tmp_path: Path, data_home: Path) -> Iterator[Callable[..., Command]]:
    """Starts ``vidgen …`` as a process in an empty directory, with the sandbox in the environment. Only for tests of
    the process itself: everything else runs ``here``."""
    started = []

    def start(*arguments: str, **env: str) -> Command:
        env = environment(service, **{"XDG_DATA_HOME": str(data_home)} | env)
        started.append(Command(*arguments, env=env, cwd=tmp_path))
        return started[-1]

    yield start
    for command in started:
        command.kill()


def run_on_a_terminal(*arguments: str, env: dict[str, str], cwd: Path, width: int = 80) -> tuple[int, str]:
    """Run ``vidgen …`` as a process on a real terminal; return the exit code and everything sent to the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    env = {"TERM": "xterm-256color", **env}
    env.pop("COLUMNS", None)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*VIDGEN, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd
    )
    os.close(theirs)
    watchdog = threading.Timer(50, process.kill)
    watchdog.start()
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
        process.kill()  # does nothing to one that has ended
        code = process.wait(20)
        watchdog.cancel()
    return code, shown.decode()


def text_of(shown: str) -> list[str]:
    """The lines sent to a terminal, without control sequences."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()]


When = Mapping[str, Callable[[], object]]


class Stream(io.TextIOWrapper):
    """The output of a command in this process. A function of ``when`` is called when its text is written for the first
    time, as a user would react to it."""

    def __init__(self, when: dict[str, Callable[[], object]], *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)
        self._when = when
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        for awaited in [awaited for awaited in self._when if awaited in text]:
            self._when.pop(awaited)()
        return written

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()


class Input(io.StringIO):
    """The input typed on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs ``vidgen …`` in this process, in an empty directory; it may be sent signals."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: io.StringIO, stdout: Stream, stderr: Stream) -> int:
        with monkeypatch.context() as patch, accept_signals(*SIGNALS):
            patch.setattr(sys, "argv", ["vidgen", *arguments])
            for name, stream in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
                patch.setattr(sys, name, stream)
            with guarded_streams():
                return run_app()

    return run


@pytest.fixture
def in_service(service: Service, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox is in the environment."""
    monkeypatch.setenv("XDG_DATA_HOME", str(data_home))
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)


@pytest.fixture
def here(run_here: Callable[..., int], in_service: None) -> Callable[..., tuple[int, str, str]]:
    """Runs ``vidgen …`` in this process without a terminal; returns the exit code, stdout and stderr."""

    def run(*arguments: str, stdin: str = "", when: When | None = None) -> tuple[int, str, str]:
        acts = dict(when or {})
        stdout, stderr = Stream(acts), Stream(acts)
        code = run_here(*arguments, stdin=io.StringIO(stdin), stdout=stdout, stderr=stderr)
        assert not acts, f"{[*acts]} was not shown: {stdout.text}{stderr.text}"
        return code, stdout.text, stderr.text

    return run


@pytest.fixture
def fails(here: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Runs ``vidgen …``, which must end with this exit code and print nothing; returns stderr."""

    def run(code: int, *arguments: str, **how: object) -> str:
        ended, out, err = here(*arguments, **how)
        assert (ended, out) == (code, ""), (arguments, err)
        return err

    return run


@pytest.fixture
def works(here: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[str, str]]:
    """Runs ``vidgen …``, which must succeed; returns stdout and stderr."""

    def run(*arguments: str, **how: object) -> tuple[str, str]:
        code, out, err = here(*arguments, **how)
        assert code == 0, (arguments, err)
        return out, err

    return run


@pytest.fixture
def saved(here: Callable[..., tuple[int, str, str]], service: Service, tmp_path: Path) -> Callable[[str], None]:
    """Runs the last command shown by an interrupted run; it must save the video of the only order."""

    def resume(shown: str) -> None:
        command = shlex.split(shown.splitlines()[-1], comments=True)
        assert command[:4] == ["vidgen", "generate", "--resume", "order-1187"]
        service.set_speed(1000)
        code, out, err = here(*command[1:])
        assert code == 0, err
        assert out.startswith("saved boat.mp4")
        assert (tmp_path / "boat.mp4").stat().st_size > 10_000
        assert len(service.creates) == 1
        assert service.creates[0].task_id in err

    return resume


@pytest.fixture
def on_a_terminal(run_here: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs ``vidgen …`` in this process on a simulated terminal; returns the exit code and everything sent to it."""

    def run(*arguments: str, width: int = 80, typed: str = "", when: When | None = None, **env: str) -> tuple[int, str]:
        acts = dict(when or {})
        screen = Stream(acts, is_terminal=True)
        with monkeypatch.context() as patch:
            for name, value in {"COLUMNS": str(width), "LINES": "30", **env}.items():
                patch.setenv(name, value)
            code = run_here(*arguments, stdin=Input(typed), stdout=screen, stderr=screen)
        assert not acts, f"{[*acts]} was not shown: {screen.text}"
        return code, screen.text

    return run


@pytest.fixture
def terminal(on_a_terminal: Callable[..., tuple[int, str]], in_service: None) -> Callable[..., tuple[int, str]]:
    """The same, with the sandbox in the environment."""
    return on_a_terminal


@pytest.fixture
def vidgen_cassette(run_here: Callable[..., int]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``vidgen cassette …`` in this process, without a key or a service."""

    def run(*arguments: str) -> tuple[int, str, str]:
        stdout, stderr = Stream({}), Stream({})
        code = run_here("cassette", *arguments, stdin=io.StringIO(), stdout=stdout, stderr=stderr)
        return code, stdout.text, stderr.text

    return run


class FakeScreen(Screen):
    """Collects everything as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.documents: list[Document] = []
        self.code: int | None = None
        self.report: Report | None = None

    def print_fact(self, label: str, text: str, value: object = None) -> None:
        self.lines.append(f"{label}: {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"warning: {text}")

    def start_step(self, text: str) -> None:
        self.lines.append(text)

    def show_state(self, state: str) -> None:
        self.lines.append(f"state: {state}")

    def show_received(self, received: int, total: int | None) -> None:
        pass

    def show(self, view: View, *documents: Document) -> None:
        self.lines += [f"result: {line}" for line in plain_lines(view)]
        self.documents += documents

    def show_error(self, report: Report, code: int) -> None:
        self.report, self.code = report, code

"""Output that cannot be written never changes the outcome of a paid order or its exit code."""

import errno
import io
import json
import os
import pty
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from tests.signals import accept_signals
from vidgen_async.cli.command_runner import SIGNALS
from vidgen_async.cli.process import GuardedStream, OutputError, guarded_streams
from vidgen_async.sandbox import Fault

from .conftest import BOAT, VIDGEN, Stream, environment

GONE = BrokenPipeError(errno.EPIPE, "Broken pipe")
FULL = OSError(errno.ENOSPC, "No space left on device")
HUNG_UP = OSError(errno.EIO, "Input/output error")
CLOSED = ValueError("I/O operation on closed file")


class Failing(Stream):
    """Fails from the first write of a text on."""

    def __init__(self, error: Exception, since: str = "", *, is_terminal: bool = False) -> None:
        super().__init__({}, is_terminal=is_terminal)
        self._error = error
        self._since = since
        self._is_failing = False

    def write(self, text: str) -> int:
        self._is_failing = self._is_failing or self._since in text  # TypeError for bytes, as of every text stream
        if self._is_failing:
            raise self._error
        return super().write(text)

    def flush(self) -> None:
        if self._is_failing:
            raise self._error
        super().flush()


@pytest.fixture
def failing(run_here, in_service):
    """Runs ``vidgen …`` in this process with two failing streams."""

    def run(*arguments: str, error: Exception, **how: object) -> int:
        streams = {name: Failing(error, **how) for name in ("stdout", "stderr")}
        return run_here(*arguments, stdin=io.StringIO(), **streams)

    return run


def states(here) -> list[str]:
    """The states of all stored orders."""
    return [json.loads(line)["state"] for line in here("orders", "ls", "--json")[1].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "since", "is_terminal", "options"),
    [
        (GONE, "", False, ()),
        (GONE, "task", False, ("--json",)),
        (FULL, "sending", False, ("--debug",)),
        (CLOSED, "downloading", False, ()),
        (HUNG_UP, "", True, ()),
        (HUNG_UP, "waiting", True, ()),
    ],
)
def test_a_video_is_saved_even_if_the_output_fails(
    failing, here, service, tmp_path, error, since, is_terminal, options
):
    assert failing(*BOAT, *options, error=error, since=since, is_terminal=is_terminal) == 0
    assert (tmp_path / "boat.mp4").stat().st_size > 10_000
    assert states(here) == ["accepted"]
    assert len(service.creates) == 1


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_order(failing, here, service):
    for fault, code in ((Fault.close_after_body(), 5), (Fault.status(402), 4), (Fault.close_before_body(), 5)):
        service.add_fault("videos.create", fault)
        assert failing(*BOAT, error=GONE) == code, fault
    assert states(here) == ["uncertain", "rejected", "uncertain"]


@pytest.mark.slow
def test_the_result_of_a_command_counts_even_if_it_cannot_be_printed(failing, here, service, tmp_path):
    assert failing("create", "x", "--model", "gen-2.0", "--order-id", "a", error=GONE) == 0
    task_id = service.creates[0].task_id
    assert failing("orders", "resume", "a", error=FULL) == 0
    assert failing("wait", task_id, "--poll-interval", "0.05", error=FULL) == 0
    assert failing("download", task_id, "-o", "one.mp4", error=GONE) == 0
    other = here("create", "y", "--model", "gen-2.0")[1].strip()
    (tmp_path / "films").mkdir()
    assert failing("wait", task_id, other, "-o", "films", "--poll-interval", "0.05", error=GONE) == 0
    assert {path.name for path in tmp_path.rglob("*.mp4")} == {"one.mp4", f"{task_id}.mp4", f"{other}.mp4"}
    service.add_fault("videos.create", Fault.close_after_body())
    assert failing("create", "z", "--model", "gen-2.0", "--order-id", "lost", error=FULL) == 5
    assert failing("orders", "abandon", "lost", "--reason", "none", error=GONE) == 0
    assert states(here) == ["accepted", "accepted", "abandoned"]


def test_a_result_that_cannot_be_printed_is_a_warning(run_here, in_service):
    stderr = Stream({})
    create = ("create", "x", "--model", "gen-2.0")
    assert run_here(*create, stdin=io.StringIO(), stdout=Failing(FULL), stderr=stderr) == 0
    assert stderr.text.splitlines()[-1] == (
        "warning: done, but some output could not be written to stdout: No space left on device"
    )
    stderr = Stream({})
    assert run_here(*create, stdin=io.StringIO(), stdout=Failing(GONE), stderr=stderr) == 0
    assert "warning" not in stderr.text


def test_a_command_that_only_prints_fails_if_the_output_fails(run_here, in_service):
    cannot = "error: cannot write the output: No space left on device"
    for arguments, code in {
        ("models",): 1,
        ("account", "--json"): 1,
        ("orders", "ls"): 1,
        ("orders", "ls", "--json"): 0,  # nothing to print
        ("orders", "export"): 0,  # nothing to print
        ("--help",): 1,
        ("completion", "bash"): 1,
    }.items():
        stderr = Stream({})
        assert run_here(*arguments, stdin=io.StringIO(), stdout=Failing(FULL), stderr=stderr) == code, arguments
        assert len(stderr.text.splitlines()) == bool(code)
        assert code == 0 or "--json" in arguments or stderr.text.startswith(cannot)


def test_characters_that_the_encoding_does_not_have_are_escaped(run_here, in_service, tmp_path):
    streams = []
    for _ in range(2):
        streams.append(Stream({}))
        streams[-1].reconfigure(encoding="latin-1", errors="strict")
    arguments = [argument.replace("boat.mp4", "łódź….mp4") for argument in BOAT]
    assert run_here(*arguments, stdin=io.StringIO(), stdout=streams[0], stderr=streams[1]) == 0
    assert (tmp_path / "łódź….mp4").stat().st_size > 10_000
    assert streams[0].buffer.getvalue().startswith(rb"saved \u0142" + "ód".encode("latin-1") + rb"\u017a\u2026.mp4 (")


def test_a_guarded_stream_raises_only_if_it_is_strict():
    dropping, strict = GuardedStream(Failing(FULL)), GuardedStream(Failing(FULL), is_strict=True)
    assert dropping.write("text") == 4
    dropping.flush()
    assert dropping.error is FULL
    with pytest.raises(OutputError, match="No space left on device"):
        strict.write("text")
    with pytest.raises(BrokenPipeError):
        GuardedStream(Failing(GONE), is_strict=True).write("text")
    with pytest.raises(TypeError):
        GuardedStream(Failing(FULL)).write(b"bytes")  # as any text stream


def test_the_streams_are_restored():
    before = sys.stdin, sys.stdout, sys.stderr
    with guarded_streams():
        assert isinstance(sys.stdout, GuardedStream)
    assert (sys.stdin, sys.stdout, sys.stderr) == before


#: Runs ``vidgen`` once for each of the JSON lists of a target for stdout, one for stderr, and the arguments; prints the
#: exit codes. The standard streams are created as Python creates them at its start.
LED_TO = """
    import json, os, signal, sys
    import aiohttp, vidgen_async.cli.app  # once, for all runs
    from vidgen_async.cli import main

    def lead(number, to):
        if to == "closed":
            os.close(number)
            return None
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer if to == "gone" else os.open(to, os.O_WRONLY | os.O_CREAT, 0o600), number)
        return open(number, "w", encoding="utf-8", buffering={1: -1, 2: 1}[number], closefd=False)

    for stdout, stderr, *arguments in json.loads(sys.argv[1]):
        pid = os.fork()
        if pid == 0:
            signal.alarm(40)  # ends a hanging process
            sys.stdout, sys.stderr = lead(1, stdout), lead(2, stderr)
            sys.argv = ["vidgen", *arguments]
            try:
                main()
            finally:
                os.fstat(1), os.fstat(2)  # neither became the number of a file or socket
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.needs_dev
@pytest.mark.slow
def test_a_process_with_failing_output_exits_with_its_own_exit_code(service, here, data_home, tmp_path):
    paid = ("create", "x", "--model", "gen-2.0", "--order-id")
    cases = {
        ("gone", "gone", *BOAT): 0,
        ("closed", "closed", *paid, "b"): 0,
        ("/dev/full", "/dev/full", *paid, "c"): 0,
        ("/dev/full", "1.txt", "orders", "ls"): 1,
        ("gone", "2.txt", "orders", "ls"): 1,
        ("gone", "3.txt", "--help"): 1,
        ("gone", "/dev/full", "fly"): 2,
    }
    command = [sys.executable, "-c", textwrap.dedent(LED_TO), json.dumps(list(cases))]
    env = environment(service, XDG_DATA_HOME=str(data_home))
    ran = subprocess.run(  # noqa: S603 - our own command
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50
    )
    assert ran.stdout.split() == [str(code) for code in cases.values()]
    assert ran.stderr == ""
    assert [(tmp_path / f"{n}.txt").read_text() for n in (1, 2, 3)] == [
        "error: cannot write the output: No space left on device.\n",
        "error: the output pipe was closed by its reader.\n",
        "",
    ]
    assert states(here) == ["accepted"] * 3


@pytest.mark.slow
def test_a_closed_terminal_leaves_no_order_in_the_state_sending(service, here, data_home, tmp_path):
    service.set_speed(0)
    service.add_fault("videos.create", Fault.stall(1))
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm-256color"} | environment(service, XDG_DATA_HOME=str(data_home), TTY=os.ttyname(theirs))
    command = ["/bin/sh", "-c", 'exec "$@" <"$TTY" >"$TTY" 2>&1', "sh", *VIDGEN, *BOAT]
    with accept_signals(*SIGNALS):
        process = subprocess.Popen(command, env=env, cwd=tmp_path, start_new_session=True)  # noqa: S603 - our own
    try:
        service.wait_for_task()
        os.close(theirs)
        os.close(ours)
        service.set_speed(1000)
        assert process.wait(20) == 129
    finally:
        process.kill()
        process.wait(20)
        for number in (ours, theirs):
            with suppress(OSError):
                os.close(number)
    assert states(here) == ["accepted"]

"""The command as a process: signals at every stage, and what a terminal and a pipe get to see."""

import re
import signal
import subprocess
import sys

import pytest

from vidgen_async.sandbox import Fault

from .conftest import LAUNCH, environment

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


def test_ctrl_c_while_the_order_is_sent_waits_for_its_task_id(vidgen, service):
    service.set_speed(1)
    service.play("videos.create", Fault.stall(0.7))
    command = vidgen(*BOAT, "--order-id", "order-1187")
    command.until("sending the order")
    service.wait_for_create()
    command.interrupt()
    code, out, err = command.end()

    task_id = service.creates[0].task_id
    assert (code, out) == (130, "")
    assert "order: order-1187" in err
    assert "waiting a few seconds for its answer" in err
    assert f"Task {task_id} still runs at the service and is charged. To go on:" in err
    assert err.splitlines()[-1] == "  vidgen generate --resume order-1187 -o boat.mp4 --poll-interval 0.05"
    assert len(service.creates) == 1


def test_a_second_ctrl_c_leaves_at_once_and_says_that_the_order_is_uncertain(vidgen, service):
    service.play("videos.create", Fault.stall())
    command = vidgen(*BOAT, "--order-id", "order-1187")
    command.until("sending the order")
    service.wait_for_create()
    command.interrupt()
    command.until("waiting a few seconds")
    command.interrupt()
    code, _, err = command.end()

    assert code == 130
    assert "Nobody knows whether the service took order order-1187" in err
    assert len(service.creates) == 1


def test_ctrl_c_while_waiting_tells_the_command_that_saves_the_video_later(vidgen, service, tmp_path):
    service.set_speed(0)
    command = vidgen(*BOAT)
    command.until("queued")
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    assert "Interrupted while waiting for the task." in err

    service.set_speed(1000)
    resume = err.splitlines()[-1].split()
    assert resume[:3] == ["vidgen", "generate", "--resume"]
    code, out, err = vidgen(*resume[1:]).end()
    assert code == 0, err
    assert out.startswith("saved boat.mp4")
    assert (tmp_path / "boat.mp4").exists()
    assert len(service.creates) == 1


def test_sigterm_while_waiting_is_143(vidgen, service):
    service.set_speed(0)
    command = vidgen(*BOAT)
    command.until("queued")
    command.interrupt(signal.SIGTERM)
    code, _, err = command.end()
    assert code == 143
    assert "Terminated while waiting for the task." in err
    assert "still runs at the service and is charged" in err


def test_ctrl_c_while_downloading_leaves_no_half_file(vidgen, service, tmp_path):
    service.play("videos.content", Fault.drip(2000))
    command = vidgen(*BOAT)
    command.until("the video has")
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    assert "Interrupted while downloading the video." in err
    assert "is completed and charged" in err
    assert list(tmp_path.iterdir()) == []


def test_in_a_pipe_there_are_plain_lines_and_the_result_is_alone_on_stdout(vidgen, service):
    code, out, err = vidgen(*BOAT).end()
    assert code == 0, err
    assert re.fullmatch(r"saved boat\.mp4: [\d.]+ kB, took [\d.]+ s, the task cost 20 points\n", out)
    assert "\x1b" not in err
    assert "\r" not in err


def test_on_a_terminal_there_is_motion_and_colour_unless_no_color_is_set(terminal):
    code, colourful = terminal(*BOAT, "--force")
    assert code == 0, colourful
    assert "\x1b[?25l" in colourful
    assert colourful.rindex("\x1b[?25h") > colourful.rindex("\x1b[?25l")
    assert "\x1b[32m" in colourful
    assert "saved boat.mp4" in colourful

    _, plain = terminal(*BOAT, "--force", NO_COLOR="1")
    assert not re.search(r"\x1b\[(?:\d;)*3\dm", plain)
    assert "saved boat.mp4" in plain

    _, dumb = terminal(*BOAT, "--force", TERM="dumb")
    assert "\x1b" not in dumb


def test_the_sandbox_tells_what_to_export_logs_what_it_is_asked_and_ends_cleanly(vidgen):
    sandbox = vidgen("sandbox", "--speed", "100")
    exported = dict(sandbox.process.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(2))
    assert set(exported) == {"VIDGEN_BASE_URL", "VIDGEN_API_KEY"}

    code, _, err = vidgen(*BOAT, **exported).end()
    assert code == 0, err
    line = sandbox.until("create 1")
    assert re.search(r"create 1: model gen-2\.0, answered 202, task task_\w+$", line)
    assert "A paper boat" not in sandbox.shown

    sandbox.interrupt()
    code, _, err = sandbox.end()
    assert code == 0
    assert err.splitlines()[-1] == "sandbox: ended"


def test_a_port_that_is_taken_is_one_sentence(vidgen, service):
    code, _, err = vidgen("sandbox", "--port", service.base_url.split(":")[2].split("/")[0]).end()
    assert code == 2
    assert "cannot listen on 127.0.0.1" in err


def test_it_runs_as_a_module(service, tmp_path):
    command = [sys.executable, "-m", "vidgen_async.cli", "--version"]
    ran = subprocess.run(command, env=environment(service), cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    assert ran.stdout.startswith("vidgen ")


def test_ctrl_c_while_modules_are_loaded_is_130_and_one_line(tmp_path):
    loads = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'rich.table':\n"
        "            try: os.kill(os.getpid(), signal.SIGINT)\n"
        "            except KeyboardInterrupt: raise RuntimeError('as out of the making of a class')\n"
        "sys.meta_path.insert(0, Interrupts())\n"
    )
    command = [sys.executable, "-c", loads + LAUNCH, "account"]
    ran = subprocess.run(command, env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "vidgen: interrupted\n")


def without(module: str, *arguments: str, cwd) -> tuple[int, str]:
    """The exit code and stderr of the command where a module is not installed."""
    launch = f"import sys; sys.modules[{module!r}] = None; {LAUNCH}"
    command = [sys.executable, "-c", launch, *arguments]
    ran = subprocess.run(command, env=environment(None), cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_the_extra_one_sentence_names_it(module, tmp_path):
    code, err = without(module, "--version", cwd=tmp_path)
    assert code == 2
    assert err == f'vidgen needs {module}, which is not installed: pip install "vidgen-async[cli]"\n'


@pytest.mark.parametrize("module", ["av", "PIL"])
@pytest.mark.parametrize("arguments", [("generate", "x", "--sandbox", "-o", "a.mp4"), ("sandbox",)])
def test_without_the_sandbox_extra_one_sentence_names_it(module, arguments, tmp_path):
    code, err = without(module, *arguments, cwd=tmp_path)
    assert code == 2
    assert "vidgen-async[sandbox]" in err
    assert len(err.splitlines()) == 1


def test_a_reader_that_goes_away_is_told_in_one_line(vidgen, service):
    service.set_speed(0)
    created = vidgen("create", "x", "--model", "gen-2.0").end()[1].strip()
    for arguments in (("watch", created, "--poll-interval", "0.05"), ("models",)):
        command = vidgen(*arguments)
        command.process.stdout.close()
        command.process.stdout = subprocess.DEVNULL
        code, err = command.process.wait(20), command.process.stderr.read()
        command.process.stderr.close()
        assert code == 1
        assert err == "vidgen: nobody reads the output any more.\n"

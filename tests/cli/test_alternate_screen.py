"""The picture of a whole terminal, when somebody suspends the program (Ctrl-Z) and lets it go on."""

import os
import pty
import signal
import subprocess
import sys
import threading

from tests.signals import accept_signals

from .conftest import environment

PROGRAM = """
import select
import sys
from rich.console import Console
from rich.text import Text
from vidgen_async.cli.terminal.alternate_screen import Canvas

with Canvas(Console(force_terminal=True, width=40, height=5)) as canvas:
    canvas.draw([Text("the picture")])
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass  # a signal just before one long wait would be handled only after it
    canvas.draw([Text("the picture")])
"""

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


def test_a_suspended_program_gives_the_terminal_back_and_paints_all_of_it_anew_when_it_goes_on():
    ours, theirs = pty.openpty()
    with accept_signals(signal.SIGTSTP):
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=theirs,
            process_group=0,
            env=environment(None),
        )
    os.close(theirs)
    watchdog = threading.Timer(50, process.kill)
    watchdog.start()
    try:
        _read_until(ours, b"the picture")

        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        while_stopped = _read_until(ours, LEFT)
        process.send_signal(signal.SIGCONT)
        process.communicate(b"\n", timeout=20)
        at_last = _read_until(ours, LEFT)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate(timeout=20)
        os.close(ours)

    assert os.WIFSTOPPED(status)
    assert b"\x1b[?25h" in while_stopped
    assert at_last.count(ENTERED) == 1
    assert at_last.index(ENTERED) < at_last.index(b"the picture")
    assert process.returncode == 0


def _read_until(terminal: int, end: bytes) -> bytes:
    read = b""
    while end not in read:
        read += os.read(terminal, 65536)
    return read

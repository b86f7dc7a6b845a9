"""The live view when the process is suspended (Ctrl-Z) and continued."""

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from tests.signals import accept_signals

from .conftest import environment

PROGRAM = """
import asyncio
import sys
from rich.console import Console
from rich.live import Live
from vidgen_async.cli.watch import suspendable

async def main():
    live = Live("the view", console=Console(force_terminal=True), transient=True, auto_refresh=False)
    with suspendable(live), live:
        live.refresh()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        live.refresh()

asyncio.run(main())
"""

CURSOR_HIDDEN, CURSOR_SHOWN = b"\x1b[?25l", b"\x1b[?25h"


@pytest.mark.slow
def test_a_suspended_process_restores_the_terminal_and_a_continued_one_draws_the_view_again():
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
        _read_until(ours, b"the view")

        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        _read_until(ours, CURSOR_SHOWN)
        process.send_signal(signal.SIGCONT)
        process.communicate(b"\n", timeout=20)
        at_last = _read_until(ours, CURSOR_SHOWN)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate(timeout=20)
        os.close(ours)

    assert os.WIFSTOPPED(status)
    assert at_last.index(CURSOR_HIDDEN) < at_last.index(b"the view")
    assert process.returncode == 0


def _read_until(terminal: int, end: bytes) -> bytes:
    read = b""
    while end not in read:
        read += os.read(terminal, 65536)
    return read

"""A process that leaves in the middle of a create and closes nothing: soon, without a noise, with the truth on disk."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.proof.processes import KEY, LATER, ROOT, Processes, check, on_disk
from tests.signals import accept_signals

ORDER = "order-1187"
#: How it leaves, and with which status.
WAYS = {
    "main returns": 0,
    "sys.exit in main": 3,
    "sys.exit in a handler": 3,
    "exception in main": 1,
    "SIGTERM": -signal.SIGTERM,
    "SIGINT": -signal.SIGINT,
}
#: Of a task that nobody waited for, and of a traceback that leads through the package.
NOISES = ("was destroyed", "never retrieved", "vidgen_async/")
#: Seconds in which it must have left; it takes a fraction of one on an idle machine, and a create may take 120.
SOON = 10.0
Start = Callable[[str], Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start(on_service: Processes) -> AsyncIterator[Start]:
    """A program that leaves so, whose create has reached the service."""
    started = []

    async def start(how: str) -> asyncio.subprocess.Process:
        arguments = (how, on_service.base_url, on_service.journal, KEY, ORDER)
        with accept_signals(signal.SIGINT, signal.SIGTERM):
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.proof.leaving", *arguments),
                **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
                cwd=ROOT,
            )
        started.append(program)
        await on_service.record.until(lambda record: record.count("body") == 1)
        return program

    yield start
    for program in started:
        if program.returncode is None:
            program.kill()
        await program.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), WAYS.items(), ids=WAYS)
async def test_a_process_that_exits_during_a_create_exits_soon_and_leaves_the_true_state_on_disk(
    start, on_service, how, status
):
    program = await start(how)

    began = time.monotonic()
    if how.startswith("SIG"):
        program.send_signal(signal.Signals[how])
    said, complaints = await program.communicate(b"\n")
    took = time.monotonic() - began
    left_as = on_disk(on_service.journal)[ORDER].state
    told = await on_service.run([["create", ORDER, f"{ORDER}: hang"]], ahead=LATER)

    assert (program.returncode, said) == (status, b"")
    assert took < SOON
    words = complaints.decode()
    assert [noise for noise in NOISES if noise in words] == [], words
    assert left_as == "sending"
    assert [word["error"] for word in told] == ["UncertainCreateError"]
    assert len(check(on_service.record, on_service.journal, told=told)[ORDER]) == 1

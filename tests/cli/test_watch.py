"""``vidgen watch`` without a network and in virtual time: what it costs, what it shows, and how it ends."""

import asyncio
import errno
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.console import Console

from vidgen_async.cli.process import GuardedStream
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Exit, Stage, TasksFailedError
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.terminal.exit_reports import interrupt_report
from vidgen_async.cli.terminal.result_output import show_on_terminal
from vidgen_async.cli.terminal.status_display import RichScreen
from vidgen_async.cli.watch import Updates, watch
from vidgen_async.client import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport

from .conftest import FakeScreen, text_of

#: Begins each refresh of the live view.
#: Where the live view begins to be drawn again.
HOME = "\r\x1b[2K"


class Service:
    """Tasks that go through ``states``, one with each poll; every tenth fails in place of being completed. First
    ``statuses`` are answered, one for each poll; ``names`` are the ids in answers, where they differ."""

    def __init__(self) -> None:
        self.states: tuple[str, ...] = ("queued", "running", "completed")
        self.statuses: list[int] = []
        self.names: dict[str, str] = {}
        self.polls: dict[str, int] = {}
        self.most_tasks = 0

    async def __call__(self, request) -> BufferedResponse:
        self.most_tasks = max(self.most_tasks, len(asyncio.all_tasks()))
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return BufferedResponse(status, b"{}", headers={"Retry-After": "30"} if status == 429 else {})
        task_id = request.url.path.rsplit("/", 1)[1]
        polls = self.polls[task_id] = self.polls.get(task_id, 0) + 1
        state = self.states[min(polls, len(self.states)) - 1]
        if state == "completed" and task_id.endswith("9"):
            state = "failed"
        answer = {
            "id": self.names.get(task_id, task_id),
            "task_id": task_id,
            "status": state,
            "failure_reason": "too dark" if state == "failed" else None,
        }
        return BufferedResponse(200, json.dumps(answer).encode())


class WatchSetup:
    """A watch, a fake service and a virtual clock; the default screen collects lines."""

    def __init__(self, screen=None, interval: float = 60) -> None:
        self.screen = screen or FakeScreen()
        self.service = Service()
        self.clock = VirtualClock(quiet_passes=5)
        self.interval = interval

    @asynccontextmanager
    async def open_run(self, updates: Updates, timeout: float) -> AsyncIterator[Run]:
        async with Client(
            "key",
            base_url="http://127.0.0.1:1/openapi/v1",
            transport=FakeTransport(self.service),
            journal=MemoryJournal(),
            clock=self.clock,
            poll_interval=self.interval,
            on_update=updates.put_nowait,
        ) as client:
            self.run = Run(settings=Settings(timeout=timeout), screen=self.screen)
            self.run.client = client
            yield self.run

    async def watch(self, count: int, *, is_live: bool = False, timeout: float = 3600) -> None:
        updates: Updates = asyncio.Queue()
        async with self.open_run(updates, timeout) as run:
            orders = {f"task_{n}": None for n in range(count)}
            await watch(run, orders, updates, is_live=is_live, clock=self.clock)


def on_a_terminal(width: int = 80, height: int = 24) -> tuple[RichScreen, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=width, height=height, markup=False, highlight=False, emoji=False
    )
    return RichScreen(show_on_terminal, console), file


def drawn_lines(file: io.StringIO) -> str:
    """All lines that were drawn at any time."""
    return "\n".join(text_of(file.getvalue().replace("\x1b[", "\n\x1b[")))


async def test_every_change_of_a_task_is_a_line_in_their_order():
    setup = WatchSetup()
    with pytest.raises(TasksFailedError):
        await setup.watch(10)
    lines = [line.split(" ", 2)[2] for line in setup.screen.lines if " task_9 " in line]
    assert lines == ["task_9 queued", "task_9 running", "task_9 failed too dark; check the refund in the credit ledger"]
    statuses = [document["status"] for document in setup.screen.documents if document["task_id"] == "task_0"]
    assert statuses == ["queued", "running", "completed"]


async def test_the_end_of_a_task_that_answers_with_another_id_is_shown():
    setup = WatchSetup()
    setup.service.names = {"task_0": "another"}
    await setup.watch(1)
    assert [line.split()[-2:] for line in setup.screen.lines] == [
        ["task_0", state] for state in ("queued", "running", "completed")
    ]


async def test_a_task_that_does_not_exist_is_shown_once():
    setup = WatchSetup()
    setup.service.statuses = [404, 404]
    with pytest.raises(TasksFailedError) as caught:
        await setup.watch(1)
    assert caught.value.code is Exit.FAILED
    (document,) = setup.screen.documents
    assert (document["status"], document["error"]["kind"]) == (None, "not_found")


async def test_a_closed_pipe_ends_the_watch():
    class ClosedPipe(FakeScreen):
        def show(self, shown, *documents) -> None:
            raise BrokenPipeError

    setup = WatchSetup(ClosedPipe())
    setup.service.states = ("queued", "running")
    with pytest.raises(BrokenPipeError):
        await setup.watch(100)
    assert sum(setup.service.polls.values()) < 200, "at the first line"


@pytest.mark.slow
async def test_the_live_view_is_drawn_a_few_times_a_second_at_most():
    screen, file = on_a_terminal()
    setup = WatchSetup(screen, interval=5)
    setup.service.states = ("completed",)
    with pytest.raises(TasksFailedError):
        await setup.watch(200, is_live=True)
    drawn = file.getvalue().count(HOME)
    assert 8 <= drawn <= 2 * setup.clock.now() + 4
    assert setup.service.most_tasks < 120


@pytest.mark.slow
async def test_after_the_live_view_the_count_and_the_failures_stay(capsys):
    screen, file = on_a_terminal()
    with pytest.raises(TasksFailedError):
        await WatchSetup(screen, interval=5).watch(40, is_live=True)
    assert file.getvalue().rpartition("\x1b[?25h")[2].lstrip("\n\r\x1b[12AK") == "", "the view is erased"
    out = capsys.readouterr().out
    assert "40 tasks: 36 completed, 4 failed; watched for" in out
    assert [line.split(maxsplit=2) for line in map(str.rstrip, out.splitlines()) if "too dark" in line] == [
        [f"task_{n}", "failed", "too dark; check the refund in the credit ledger"] for n in (9, 19, 29, 39)
    ]


@pytest.mark.needs_dev
@pytest.mark.slow
async def test_the_live_view_shows_a_pause_and_failed_polls_and_warnings_are_above_it(caplog):
    screen, file = on_a_terminal(width=120)
    setup = WatchSetup(screen, interval=10)
    setup.service.statuses = [200, 200, 503, 503, 429]
    watching = asyncio.ensure_future(setup.watch(40, is_live=True))
    await setup.clock.sleep(3)
    screen.warn("something to know")
    before, _, after = file.getvalue().rpartition("something to know")
    assert "finished" in before
    assert "finished" in after, "the view is drawn again below it"
    with pytest.raises(TasksFailedError):
        await watching
    shown = drawn_lines(file)
    assert "the service answered 429" in shown
    assert "failed polls: ServiceUnavailableError 2, RateLimitError 1" in shown


async def test_a_resized_terminal_is_drawn_again_in_its_new_size(capsys):
    screen, file = on_a_terminal()
    setup = WatchSetup(screen, interval=5)
    setup.service.states = ("queued",)
    watching = asyncio.ensure_future(setup.watch(40, is_live=True))
    await setup.clock.sleep(12)
    screen._console.size = (60, 10)
    file.truncate(file.seek(0))
    await setup.clock.sleep(0.6)
    frame = text_of(file.getvalue().rpartition(HOME)[2])
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert frame[0].startswith("0 of 40 finished")
    assert (len(frame), max(map(len, frame)) <= 60) == (10, True)


async def test_a_terminal_that_fails_does_not_end_the_watch(capsys):
    class Broken(io.StringIO):
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    console = Console(file=GuardedStream(Broken()), force_terminal=True, width=80, height=24)
    setup = WatchSetup(RichScreen(show_on_terminal, console), interval=5)
    await setup.watch(4, is_live=True)
    assert "4 tasks: 4 completed; watched for" in capsys.readouterr().out


async def test_an_interrupted_live_view_restores_the_terminal_and_the_report_says_what_still_runs(capsys):
    screen, file = on_a_terminal()
    setup = WatchSetup(screen, interval=5)
    setup.service.states = ("queued", "running")
    watching = asyncio.ensure_future(setup.watch(40, is_live=True))
    await setup.clock.sleep(12)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert "\x1b[?25h" in file.getvalue()
    assert "40 tasks: 40 running; watched for" in capsys.readouterr().out
    assert setup.run.stage is Stage.WATCH
    report = interrupt_report(setup.run, "Interrupted")
    assert report.text == (
        "Interrupted while watching the tasks. 40 of 40 tasks may still be running; an interruption does not stop them."
    )
    assert report.hint == "The same command resumes the watch."


async def test_the_summary_of_an_interrupted_watch_includes_changes_that_were_not_drawn_yet(capsys):
    setup = WatchSetup(on_a_terminal()[0], interval=5)
    setup.service.states = ("completed",)
    watching = asyncio.ensure_future(setup.watch(4, is_live=True))
    await setup.clock.sleep(0.3)  # after the polls, before the next refresh
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert "4 tasks: 4 completed; watched for" in capsys.readouterr().out


async def test_closing_the_screen_ends_the_live_view_at_once_and_the_watch_continues():
    screen, file = on_a_terminal()
    setup = WatchSetup(screen, interval=5)
    watching = asyncio.ensure_future(setup.watch(4, is_live=True))
    await setup.clock.sleep(3)
    screen.close()  # as a second signal does, before it leaves at once
    shown = file.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    await watching
    assert file.getvalue() == shown


async def test_a_terminal_that_cannot_show_the_live_view_gets_lines(capsys):
    class Ascii(io.StringIO):
        encoding = "ascii"

    setup = WatchSetup(RichScreen(console=Console(file=Ascii(), force_terminal=True, width=80, height=24)))
    await setup.watch(1, is_live=True)
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()] == [
        "task_0 queued",
        "task_0 running",
        "task_0 completed",
    ]

"""``vidgen watch``, without a network and in virtual time: what it costs, what it tells when, and how it ends."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.console import Console

from vidgen_async.cli.operations import Errand
from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.terminal.exit_reports import Exit, TasksFailedError, interrupt_report
from vidgen_async.cli.terminal.result_output import TerminalOutput
from vidgen_async.cli.terminal.status_display import RichScreen
from vidgen_async.cli.watch.display import Updates, watch
from vidgen_async.client import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport

from .conftest import FakeScreen, text_of

#: The cursor is put there after each picture.
HOME = "\x1b[H"


class Service:
    """Tasks that go through ``states``, one with each look; of those that would be completed every tenth fails.
    ``statuses`` are answered in place of that, for as long as there are any; ``names`` are the ids that tasks are told
    under in answers."""

    def __init__(self) -> None:
        self.states: tuple[str, ...] = ("queued", "running", "completed")
        self.statuses: list[int] = []
        self.names: dict[str, str] = {}
        self.looks: dict[str, int] = {}
        self.most_tasks = 0

    async def __call__(self, request) -> BufferedResponse:
        self.most_tasks = max(self.most_tasks, len(asyncio.all_tasks()))
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return BufferedResponse(status, b"{}", headers={"Retry-After": "30"} if status == 429 else {})
        task_id = request.url.path.rsplit("/", 1)[1]
        looks = self.looks[task_id] = self.looks.get(task_id, 0) + 1
        state = self.states[min(looks, len(self.states)) - 1]
        if state == "completed" and task_id.endswith("9"):
            state = "failed"
        answer = {
            "id": self.names.get(task_id, task_id),
            "task_id": task_id,
            "status": state,
            "failure_reason": "too dark" if state == "failed" else None,
        }
        return BufferedResponse(200, json.dumps(answer).encode())


class Scene:
    """A watch, a fake service and a virtual clock; ``screen`` is one that is asked for, or keeps lines."""

    def __init__(self, screen=None, interval: float = 60) -> None:
        self.screen = screen or FakeScreen()
        self.service = Service()
        self.clock = VirtualClock(quiet_passes=5)
        self.journey = Journey()
        self.interval = interval

    @asynccontextmanager
    async def errand(self, updates: Updates, timeout: float) -> AsyncIterator[Errand]:
        async with Client(
            "key",
            base_url="http://127.0.0.1:1/openapi/v1",
            transport=FakeTransport(self.service),
            journal=MemoryJournal(),
            clock=self.clock,
            poll_interval=self.interval,
            on_update=updates.heard,
        ) as client:
            yield Errand(
                client=client, journey=self.journey, screen=self.screen, timeout=timeout, begun_at=time.monotonic()
            )

    async def watch(self, count: int, *, is_live: bool = False, timeout: float = 3600) -> None:
        updates = Updates()
        async with self.errand(updates, timeout) as errand:
            orders = {f"task_{n}": None for n in range(count)}
            await watch(errand, orders, updates, is_live=is_live, clock=self.clock)


def on_a_terminal(width: int = 80, height: int = 24) -> tuple[RichScreen, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=width, height=height, markup=False, highlight=False, emoji=False
    )
    return RichScreen(console, TerminalOutput()), file


def picture(file: io.StringIO) -> str:
    """All lines that were drawn at any time."""
    return "\n".join(text_of(file.getvalue().replace("\x1b[", "\n\x1b[")))


@pytest.mark.slow
async def test_a_thousand_tasks_need_no_worker_each():
    scene = Scene(interval=1)
    scene.service.states = ("completed",)
    with pytest.raises(TasksFailedError, match="100 of 1,000 tasks did not end as completed"):
        await scene.watch(1_000)
    assert scene.service.most_tasks < 120, "a hundred polls at once, and a few to lead them"
    assert len(scene.screen.lines) == 1_000


async def test_every_change_of_a_task_is_a_line_in_their_order():
    scene = Scene()
    with pytest.raises(TasksFailedError):
        await scene.watch(10)
    lines = [line.split(" ", 2)[2] for line in scene.screen.lines if " task_9 " in line]
    assert lines == ["task_9 queued", "task_9 running", "task_9 failed too dark"]
    statuses = [document["status"] for document in scene.screen.documents if document["task_id"] == "task_0"]
    assert statuses == ["queued", "running", "completed"]


async def test_the_end_of_a_task_that_answers_under_another_name_is_told():
    scene = Scene()
    scene.service.names = {"task_0": "another"}
    await scene.watch(1)
    assert [line.split()[-2:] for line in scene.screen.lines] == [
        ["task_0", state] for state in ("queued", "running", "completed")
    ]


async def test_a_task_that_is_not_there_is_told_once():
    scene = Scene()
    scene.service.statuses = [404, 404]
    with pytest.raises(TasksFailedError) as caught:
        await scene.watch(1)
    assert caught.value.code is Exit.FAILED
    (document,) = scene.screen.documents
    assert (document["status"], document["error"]["kind"]) == (None, "not_found")


async def test_what_takes_too_long_is_told_as_that_with_its_exit_code():
    scene = Scene()
    scene.service.states = ("queued", "running")
    with pytest.raises(TasksFailedError) as caught:
        await scene.watch(3, timeout=200)
    assert caught.value.code is Exit.TIMEOUT
    assert sum("wait timeout" in line for line in scene.screen.lines) == 3


async def test_nobody_reading_the_lines_ends_the_watch():
    class Gone(FakeScreen):
        def show(self, shown, *documents) -> None:
            raise BrokenPipeError

    scene = Scene(Gone())
    scene.service.states = ("queued", "running")
    with pytest.raises(BrokenPipeError):
        await scene.watch(100)
    assert sum(scene.service.looks.values()) < 200, "at the first line"


@pytest.mark.slow
async def test_a_picture_of_many_tasks_is_drawn_a_few_times_a_second_at_most():
    screen, file = on_a_terminal()
    scene = Scene(screen, interval=5)
    scene.service.states = ("completed",)
    with pytest.raises(TasksFailedError):
        await scene.watch(200, is_live=True)
    drawn = file.getvalue().count(HOME)
    assert 10 <= drawn <= 4 * scene.clock.now() + 4
    assert scene.service.most_tasks < 120


async def test_a_picture_leaves_the_count_and_what_failed(capsys):
    screen, file = on_a_terminal()
    with pytest.raises(TasksFailedError):
        await Scene(screen, interval=5).watch(40, is_live=True)
    assert file.getvalue().rstrip().endswith("\x1b[?25h\x1b[?1049l"), "the terminal as it was"
    out = capsys.readouterr().out
    assert "40 tasks: 36 completed, 4 failed; watched for" in out
    assert [line.split() for line in out.splitlines() if "too dark" in line] == [
        [f"task_{n}", "failed", "too", "dark"] for n in (9, 19, 29, 39)
    ]


@pytest.mark.slow
async def test_a_picture_tells_a_pause_and_looks_that_failed_and_warnings_come_when_it_is_over(caplog):
    screen, file = on_a_terminal(width=120)
    scene = Scene(screen, interval=10)
    scene.service.statuses = [200, 200, 503, 503, 429]
    watching = asyncio.ensure_future(scene.watch(40, is_live=True))
    await scene.clock.sleep(3)
    screen.warn("something to know")
    assert "something to know" not in file.getvalue()
    with pytest.raises(TasksFailedError):
        await watching
    shown = picture(file)
    assert "the service answered 429" in shown
    assert "looks that failed: 3 in the last minute; ServiceUnavailable 2, RateLimit 1" in shown
    assert file.getvalue().split("\x1b[?1049l")[1].strip().startswith("\x1b[33mwarning  \x1b[0msomething to know")


async def test_an_interrupted_picture_gives_the_terminal_back_and_says_what_goes_on(capsys):
    screen, file = on_a_terminal()
    scene = Scene(screen, interval=5)
    scene.service.states = ("queued", "running")
    watching = asyncio.ensure_future(scene.watch(40, is_live=True))
    await scene.clock.sleep(12)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert "\x1b[?25h\x1b[?1049l" in file.getvalue()
    assert "40 tasks: 40 running; watched for" in capsys.readouterr().out
    assert scene.journey.stage is Stage.WATCH
    report = interrupt_report(scene.journey, "Interrupted")
    assert report.text == (
        "Interrupted while watching the tasks. The 40 tasks were not seen to end; an interruption does not stop them. "
        "The same command goes on watching."
    )


async def test_a_screen_that_is_closed_in_the_middle_has_given_the_terminal_back():
    screen, file = on_a_terminal()
    scene = Scene(screen, interval=5)
    watching = asyncio.ensure_future(scene.watch(4, is_live=True))
    await scene.clock.sleep(3)
    screen.close()  # as a second signal does, before it leaves at once
    assert file.getvalue().endswith("\x1b[?25h\x1b[?1049l")
    await watching
    assert file.getvalue().count("\x1b[?1049h") == 1


async def test_a_terminal_that_cannot_show_it_gets_lines(capsys):
    class Ascii(io.StringIO):
        encoding = "ascii"

    scene = Scene(RichScreen(Console(file=Ascii(), force_terminal=True, width=80, height=24)))
    await scene.watch(1, is_live=True)
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()] == [
        "task_0 queued",
        "task_0 running",
        "task_0 completed",
    ]

"""What the commands do, without a network: the order of things, and that nothing is spent before it may be."""

import asyncio
import json
import logging
import os
import signal
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from tests.signals import accept_signals, interrupt
from vidgen_async.cli.command_runner import MOST_TOLD, SIGNALS, _Interruption, _OnScreen, run
from vidgen_async.cli.operations import Errand, Target
from vidgen_async.cli.request_options import Wanted
from vidgen_async.cli.run_state import Fate, Journey, Stage
from vidgen_async.client import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    AuthenticationError,
    ConnectError,
    DownloadError,
    InvalidRequestError,
    JournalError,
    UncertainCreateError,
)
from vidgen_async.events import Event
from vidgen_async.journal import Attempt, MemoryJournal, Order, OrderRef, OrderState, Permission
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.limits import Pacing

from .conftest import PICTURE, FakeScreen

BASE = "http://127.0.0.1:1/openapi/v1"
ORDER = "order-1187"


class Service:
    """Answers as the service would, and keeps what was on the screen when it was asked. ``states`` are told in turn."""

    def __init__(self, screen: FakeScreen, *states: str) -> None:
        self.screen = screen
        self.states = list(states) or ["completed"]
        self.shown: dict[str, list[str]] = {}
        self.on_create = None
        self.on_get = None

    async def __call__(self, request) -> BufferedResponse:
        self.shown.setdefault(request.op, list(self.screen.lines))
        return await getattr(self, request.op.replace(".", "_"))()

    async def models_list(self):
        return BufferedResponse(200, b'{"models": [{"code": "m", "enabled": true, "maintenance": false}]}')

    async def files_create(self):
        return BufferedResponse(200, b'{"id": "a", "image_id": "image-1", "url": "/a"}')

    async def videos_create(self):
        if self.on_create:
            await self.on_create()
        return BufferedResponse(202, b'{"id": "task_1"}')

    async def videos_get(self):
        if self.on_get:
            self.on_get()
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        answer = {"id": "task_1", "status": status, "failure_reason": "no good" if status == "failed" else None}
        return BufferedResponse(200, json.dumps(answer).encode())


class Scene:
    """A command, a fake service and a virtual clock."""

    def __init__(self, *states: str) -> None:
        self.screen = FakeScreen()
        self.service = Service(self.screen, *states)
        self.transport = FakeTransport(self.service)
        self.journey = Journey(order_id=ORDER, output="out.mp4")
        self.clock = VirtualClock()
        self.journal = MemoryJournal()

    @asynccontextmanager
    async def errand(self):
        async with Client(
            "key", base_url=BASE, transport=self.transport, journal=self.journal, clock=self.clock, poll_interval=1
        ) as client:
            yield Errand(client=client, journey=self.journey, screen=self.screen, timeout=60, begun_at=time.monotonic())

    async def generate(self, wanted: Wanted, target: Target, *, validate: bool = False) -> None:
        async with self.errand() as errand:
            await errand.generate(wanted, target, validate=validate)

    async def resume(self, target: Target, *, validate: bool = True) -> None:
        async with self.errand() as errand:
            await errand.resume(target, validate=validate)

    async def has_on_record(self, *, is_being_sent: bool) -> None:
        """Put the order on record, as another run has left it."""
        ref = OrderRef(service="http://127.0.0.1:1", account="default", order_id=ORDER)
        now = self.clock.wall()
        await self.journal.intend(Order(ref=ref, idempotency_key="vg1-key", body=b'{"model":"m"}', created_at=now))
        if is_being_sent:
            permission = Permission(
                ref=ref,
                expect_attempt=0,
                states={OrderState.QUEUED},
                now=now,
                deadline_at=now + timedelta(seconds=130),
                pacing=Pacing(),
            )
            assert isinstance(await self.journal.begin(permission), Attempt)

    def run(self, wanted: Wanted, target: Target) -> int:
        with accept_signals(*SIGNALS):
            return run(lambda: self.generate(wanted, target), self.journey, self.screen, is_debug=False)

    @property
    def ops(self) -> list[str]:
        return [request.op for request in self.transport.requests]

    def body(self, op: str) -> dict:
        (request,) = [request for request in self.transport.requests if request.op == op]
        return json.loads(request.body.data)


@pytest.fixture
def scene() -> Scene:
    return Scene("queued", "running", "failed")


@pytest.fixture
def target(tmp_path) -> Target:
    return Target(path=tmp_path / "out.mp4")


async def test_the_order_id_is_shown_before_the_order_and_the_task_id_before_the_wait(scene, target):
    with pytest.raises(Exception, match="no good"):
        await scene.generate(Wanted(prompt="a boat", model="m", pictures=(PICTURE,)), target)
    assert scene.ops[:3] == ["files.create", "videos.create", "videos.get"]
    assert f"order: {ORDER}" in scene.service.shown["videos.create"]
    assert "task: task_1" in scene.service.shown["videos.get"]
    assert [line for line in scene.screen.lines if "state" in line] == [
        "state: queued",
        "state: running",
        "state: failed",
    ]


async def test_files_are_uploaded_and_urls_are_handed_on(scene, target):
    url = "https://pics.test/a.png?token=1"
    with pytest.raises(Exception, match="no good"):
        await scene.generate(Wanted(prompt="p", model="m", duration=8, ratio="1:1", pictures=(url, PICTURE)), target)
    assert scene.body("videos.create") == {
        "model": "m", "prompt": "p", "duration": 8, "ratio": "1:1", "image_urls": [url], "image_ids": ["image-1"],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["missing/out.mp4", "."])
async def test_a_target_that_cannot_be_written_stops_everything_before_anything_is_sent(scene, tmp_path, path):
    with pytest.raises(DownloadError):
        await scene.generate(Wanted(prompt="p", model="m"), Target(path=tmp_path / path))
    assert scene.ops == []


async def test_a_file_that_exists_is_kept_unless_it_may_be_replaced(scene, target):
    target.path.write_bytes(b"an older film")
    with pytest.raises(DownloadError, match="--force"):
        await scene.generate(Wanted(prompt="p", model="m"), target)
    assert scene.ops == []
    assert target.path.read_bytes() == b"an older film"


async def test_a_file_that_appears_during_the_wait_is_not_replaced(target):
    scene = Scene("running", "completed")
    scene.service.on_get = lambda: target.path.write_bytes(b"made by another run")
    with pytest.raises(DownloadError, match="exists already"):
        await scene.generate(Wanted(prompt="p", model="m"), target)
    assert target.path.read_bytes() == b"made by another run"
    assert scene.journey.stage is Stage.DOWNLOAD
    assert scene.journey.fate is Fate.TASK


async def test_an_impossible_request_is_refused_before_the_upload(scene, target):
    with pytest.raises(InvalidRequestError):
        await scene.generate(Wanted(prompt=" ", model="m", pictures=(PICTURE,)), target, validate=True)
    assert scene.ops == ["models.list"]


async def test_a_key_that_the_catalog_refuses_stops_everything_before_the_upload(scene, target):
    async def refused():
        return BufferedResponse(401, b"{}")

    scene.service.models_list = refused
    with pytest.raises(AuthenticationError):
        await scene.generate(Wanted(prompt="p", model="m", pictures=(PICTURE,)), target, validate=True)
    assert scene.ops == ["models.list"]
    assert scene.journey.fate is Fate.NOTHING


async def test_an_order_that_was_never_sent_is_sent_by_resume_as_it_is_on_record(scene, target):
    await scene.has_on_record(is_being_sent=False)
    with pytest.raises(Exception, match="no good"):
        await scene.resume(target, validate=False)
    assert scene.ops[0] == "videos.create"
    assert scene.body("videos.create") == {"model": "m"}


async def test_an_order_that_was_never_sent_is_looked_at_before_resume_sends_it(scene, target):
    await scene.has_on_record(is_being_sent=False)
    with pytest.raises(InvalidRequestError, match="prompt"):
        await scene.resume(target)
    assert "videos.create" not in scene.ops


async def test_an_order_that_another_run_was_sending_is_waited_for_and_never_sent_again(scene, target):
    await scene.has_on_record(is_being_sent=True)
    before = scene.clock.now()
    with pytest.raises(UncertainCreateError):
        await scene.resume(target)
    assert scene.ops == []
    assert 130 <= scene.clock.now() - before < 140
    assert scene.journey.fate is Fate.UNCERTAIN
    assert any("the order was being sent; waiting for what became of it, until 2030-01-01" in line
               for line in scene.screen.lines)  # fmt: skip


async def test_a_resume_that_cannot_write_the_record_does_not_call_an_uncertain_order_nothing(scene, target):
    await scene.has_on_record(is_being_sent=True)
    scene.journal.get = _fails_from_the_second_time(scene.journal.get)
    with pytest.raises(JournalError):
        await scene.resume(target)
    await scene.journey.create_ended()
    assert scene.journey.fate is Fate.UNCERTAIN


def _fails_from_the_second_time(get):
    calls = []

    async def fail(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            message = "the disk is gone"
            raise JournalError(message)
        return await get(*arguments)

    return fail


def test_a_failed_task_ends_with_its_reason(scene, target):
    assert scene.run(Wanted(prompt="p", model="m"), target) == 1
    assert "no good" in scene.screen.report.text
    assert "check the refund in the credit ledger" in scene.screen.report.text


def test_an_unexpected_error_is_a_paragraph(scene, target):
    async def breaks():
        raise ZeroDivisionError

    assert run(breaks, scene.journey, scene.screen, is_debug=False) == 1
    assert "ZeroDivisionError" in scene.screen.report.text


def test_an_interrupted_order_is_waited_for_and_its_task_id_is_told(target):
    scene = Scene()

    async def interrupted():
        interrupt()
        await scene.clock.sleep(2)

    scene.service.on_create = interrupted
    assert scene.run(Wanted(prompt="p", model="m"), target) == 130
    assert any("waiting a few seconds for its answer" in line for line in scene.screen.lines)
    assert "task_1 was accepted and is charged; an interruption does not stop it" in scene.screen.report.text
    assert scene.screen.report.commands == ("vidgen wait task_1 -o out.mp4",)
    assert scene.ops == ["videos.create"]


def test_an_interrupted_order_without_an_answer_is_uncertain_after_the_grace(target):
    scene = Scene()

    async def interrupted():
        interrupt(signal.SIGTERM)
        await scene.clock.sleep(60)

    scene.service.on_create = interrupted
    assert scene.run(Wanted(prompt="p", model="m"), target) == 143
    assert scene.screen.report.text.startswith("Terminated while the order was being sent.")
    assert "Nobody knows" in scene.screen.report.text
    assert scene.ops == ["videos.create"]


def test_an_interruption_before_the_first_byte_says_that_nothing_was_ordered(target):
    scene = Scene()

    async def not_yet(_):
        interrupt()
        await scene.clock.sleep(60)

    scene.transport = FakeTransport(scene.service, before_gate=not_yet)
    assert scene.run(Wanted(prompt="p", model="m"), target) == 130
    assert scene.screen.report.text.endswith("Nothing was ordered or charged.")
    assert scene.ops == []


def test_a_second_signal_ends_the_process_at_once_and_tells_what_is_known(monkeypatch):
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    screen, journey = FakeScreen(), Journey(order_id=ORDER, stage=Stage.CREATE, fate=Fate.UNCERTAIN)

    class Worker:
        def cancel(self):
            pass

    interruption = _Interruption(Worker(), journey, screen)
    interruption.came(signal.SIGINT)
    assert left == []
    interruption.came(signal.SIGTERM)
    assert left == [143]
    assert screen.report.text.startswith("Terminated while the order was being sent. Nobody knows")


def test_where_the_loop_takes_no_signals_an_interruption_works_too(target, monkeypatch):
    def not_here(*_):
        raise NotImplementedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", not_here)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "remove_signal_handler", not_here)
    scene = Scene("running")
    scene.service.on_get = interrupt
    assert scene.run(Wanted(prompt="p", model="m"), target) == 130
    assert "task_1 was accepted and is charged" in scene.screen.report.text


def test_signals_are_as_they_were_afterwards(scene, target):
    with accept_signals(*SIGNALS):
        before = [signal.getsignal(which) for which in SIGNALS]
        scene.run(Wanted(prompt="p", model="m"), target)
        assert [signal.getsignal(which) for which in SIGNALS] == before


@pytest.mark.parametrize("which", SIGNALS)
def test_an_ignored_signal_stays_ignored(scene, which):
    async def work():
        interrupt(which)
        await asyncio.sleep(0.01)

    before = signal.signal(which, signal.SIG_IGN)
    try:
        assert run(work, scene.journey, scene.screen, is_debug=False) == 0
    finally:
        signal.signal(which, before)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_hangup_is_nobody_who_asks_once_more(monkeypatch, first):
    left, cancels = [], []
    monkeypatch.setattr(os, "_exit", left.append)
    interruption = _Interruption(SimpleNamespace(cancel=partial(cancels.append, 1)), Journey(), FakeScreen())
    for which in (first, signal.SIGHUP, signal.SIGHUP):
        interruption.came(which)
    assert (left, cancels, interruption.signal) == ([], [1], first)
    if first is signal.SIGHUP:  # the session's own end, after its terminal's
        interruption.came(signal.SIGTERM)
        assert left == []
    interruption.came(signal.SIGTERM)
    assert left == [143]


def test_looks_that_fail_are_told_once_after_the_second_and_at_the_end(target):
    scene = Scene()

    async def no_connection():
        message = "refused"
        raise ConnectError(message)

    scene.service.videos_get = no_connection
    assert scene.run(Wanted(prompt="p", model="m"), target) == 6
    told = [line for line in scene.screen.lines if "no answer about the task" in line]
    assert told == ["warning: no answer about the task (ConnectError), still trying"]
    assert "task task_1 was never seen: the last look failed with ConnectError" in scene.screen.report.text
    assert scene.ops.count("videos.get") > 2


def fault_of(task_id: str) -> None:
    logger = logging.getLogger("vidgen_async.watcher")
    logger.info("", extra={"event": Event.TASK_FAULT, "task_id": task_id, "error": "ConnectError"})


def test_of_very_many_tasks_without_an_answer_a_few_are_told_by_name(scene):
    async def work():
        for n in range(1000):
            fault_of(f"task_{n}")
            fault_of(f"task_{n}")

    run(work, scene.journey, scene.screen, is_debug=False)
    named = [f"warning: no answer about task task_{n} (ConnectError), still trying" for n in range(MOST_TOLD)]
    rest = "warning: no answer about more tasks, which are not named (ConnectError), still trying"
    assert scene.screen.lines == [*named, rest]


def test_looks_that_fail_are_not_told_beside_a_picture_that_counts_them(scene):
    async def work():
        scene.journey.shows_trouble = True
        fault_of("task_1")
        fault_of("task_1")

    run(work, scene.journey, scene.screen, is_debug=False)
    assert scene.screen.lines == []


def test_what_the_sdk_warns_of_is_on_the_screen(scene):
    async def work():
        logging.getLogger("vidgen_async.watcher").warning("an unknown state %r", "paused")

    run(work, scene.journey, scene.screen, is_debug=False)
    assert scene.screen.lines == ["warning: an unknown state 'paused'"]


def test_a_library_that_logs_what_cannot_be_formatted_is_not_struck_by_that(scene, capsys):
    record = logging.makeLogRecord({"msg": "%d", "args": ("none",), "levelno": logging.WARNING})
    _OnScreen(scene.screen, logging.WARNING).handle(record)
    assert scene.screen.lines == []
    assert "--- Logging error ---" in capsys.readouterr().err

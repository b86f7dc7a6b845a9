"""The operations of the commands without a network: their order, and that nothing is sent before all checks."""

import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from tests.signals import accept_signals, interrupt
from vidgen_async.cli.command_runner import SIGNALS, _Interruption, _LogHandler, run_command
from vidgen_async.cli.request_options import RequestOptions
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.targets import Target
from vidgen_async.client import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    ConnectError,
    DownloadError,
    InvalidRequestError,
    JournalError,
    UncertainCreateError,
)
from vidgen_async.events import Event
from vidgen_async.journal import MemoryJournal, Order, OrderRef, OrderState, Permission
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types import Pacing

from .conftest import PICTURE, FakeScreen

BASE = "http://127.0.0.1:1/openapi/v1"
ORDER = "order-1187"


class Service:
    """Answers like the service and stores what the screen showed at each first request. ``states`` are answered in
    turn."""

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


class CommandSetup:
    """A command, a fake service and a virtual clock."""

    def __init__(self, *states: str) -> None:
        self.screen = FakeScreen()
        self.service = Service(self.screen, *states)
        self.transport = FakeTransport(self.service)
        self.clock = VirtualClock()
        self.journal = MemoryJournal()
        self.command = Run(settings=Settings(timeout=60), screen=self.screen, order_id=ORDER, output="out.mp4")

    @asynccontextmanager
    async def open_run(self):
        async with Client(
            "key", base_url=BASE, transport=self.transport, journal=self.journal, clock=self.clock, poll_interval=1
        ) as client:
            self.command.client = client
            yield self.command

    async def generate(self, request_options: RequestOptions, target: Target, *, validate: bool = False) -> None:
        async with self.open_run() as run:
            await target.check(run.client)
            receipt = await run.create(request_options, validate=validate)
            await run.save(await run.wait(receipt), target)

    async def resume(self, target: Target, *, validate: bool = True) -> None:
        async with self.open_run() as run:
            await target.check(run.client)
            await run.save(await run.wait(await run.resume(ORDER, validate=validate)), target)

    async def store_order(self, *, is_being_sent: bool) -> None:
        """Store the order as another run has left it."""
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
            await self.journal.begin(permission)

    def run(self, request_options: RequestOptions, target: Target) -> int:
        with accept_signals(*SIGNALS):
            return run_command(lambda _: self.generate(request_options, target), self.command)

    def run_work(self, work) -> int:
        return run_command(lambda _: work(), self.command)

    @property
    def ops(self) -> list[str]:
        return [request.op for request in self.transport.requests]

    def body(self, op: str) -> dict:
        (request,) = [request for request in self.transport.requests if request.op == op]
        return json.loads(request.body.data)


@pytest.fixture
def setup() -> CommandSetup:
    return CommandSetup("queued", "running", "failed")


@pytest.fixture
def target(tmp_path) -> Target:
    return Target(path=tmp_path / "out.mp4")


async def test_the_order_id_is_shown_before_the_order_and_the_task_id_before_the_wait(setup, target):
    with pytest.raises(Exception, match="no good"):
        await setup.generate(RequestOptions(prompt="a boat", model="m", images=(PICTURE,)), target)
    assert setup.ops[:3] == ["files.create", "videos.create", "videos.get"]
    assert f"order: {ORDER}" in setup.service.shown["videos.create"]
    assert "task: task_1" in setup.service.shown["videos.get"]
    assert [line for line in setup.screen.lines if "state" in line] == [
        "state: queued",
        "state: running",
        "state: failed",
    ]


async def test_a_file_that_appears_during_the_wait_is_not_replaced(target):
    setup = CommandSetup("running", "completed")
    setup.service.on_get = lambda: target.path.write_bytes(b"made by another run")
    with pytest.raises(DownloadError, match="already exists"):
        await setup.generate(RequestOptions(prompt="p", model="m"), target)
    assert target.path.read_bytes() == b"made by another run"
    assert setup.command.stage is Stage.DOWNLOAD
    assert setup.command.task_id == "task_1"


async def test_resume_validates_an_order_before_it_sends_it(setup, target):
    await setup.store_order(is_being_sent=False)
    with pytest.raises(InvalidRequestError, match="prompt"):
        await setup.resume(target)
    assert "videos.create" not in setup.ops


async def test_an_order_that_another_run_was_sending_is_awaited_and_never_resent(setup, target):
    await setup.store_order(is_being_sent=True)
    before = setup.clock.now()
    with pytest.raises(UncertainCreateError):
        await setup.resume(target)
    assert setup.ops == []
    assert 130 <= setup.clock.now() - before < 140
    assert setup.command.is_uncertain
    assert any("an earlier run was sending the order; waiting for its outcome until 2030-01-01" in line
               for line in setup.screen.lines)  # fmt: skip


async def test_a_resume_with_a_failing_journal_does_not_report_an_uncertain_order_as_not_ordered(setup, target):
    await setup.store_order(is_being_sent=True)
    setup.journal.get = _fail_from_second_call(setup.journal.get)
    with pytest.raises(JournalError):
        await setup.resume(target)
    setup.command.settle_create()
    assert setup.command.is_uncertain


def _fail_from_second_call(get):
    calls = []

    async def fail(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            message = "the disk is gone"
            raise JournalError(message)
        return await get(*arguments)

    return fail


def test_an_interruption_before_the_first_byte_reports_that_nothing_was_ordered(target):
    setup = CommandSetup()

    async def not_yet(_):
        interrupt()
        await setup.clock.sleep(60)

    setup.transport = FakeTransport(setup.service, on_connect=not_yet)
    assert setup.run(RequestOptions(prompt="p", model="m"), target) == 130
    assert setup.screen.report.text.endswith("Nothing was ordered or charged.")
    assert setup.ops == []


def test_signal_handlers_are_restored(setup, target):
    with accept_signals(*SIGNALS):
        before = [signal.getsignal(which) for which in SIGNALS]
        setup.run(RequestOptions(prompt="p", model="m"), target)
        assert [signal.getsignal(which) for which in SIGNALS] == before


@pytest.mark.parametrize("which", SIGNALS)
def test_an_ignored_signal_stays_ignored(setup, which):
    async def work():
        interrupt(which)
        await asyncio.sleep(0.01)

    before = signal.signal(which, signal.SIG_IGN)
    try:
        assert setup.run_work(work) == 0
    finally:
        signal.signal(which, before)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_hangup_does_not_count_as_a_second_signal(monkeypatch, first):
    left, cancels = [], []
    monkeypatch.setattr(os, "_exit", left.append)
    interruption = _Interruption(SimpleNamespace(cancel=partial(cancels.append, 1)), Run(screen=FakeScreen()))
    for which in (first, signal.SIGHUP, signal.SIGHUP):
        interruption.handle(which)
    assert (left, cancels, interruption.received) == ([], [1], first)
    if first is signal.SIGHUP:  # the session's own end, after its terminal's
        interruption.handle(signal.SIGTERM)
        assert left == []
    interruption.handle(signal.SIGTERM)
    assert left == [143]


def test_failed_polls_cause_one_warning_after_the_second_and_are_in_the_final_report(target):
    setup = CommandSetup()

    async def no_connection():
        message = "refused"
        raise ConnectError(message)

    setup.service.videos_get = no_connection
    assert setup.run(RequestOptions(prompt="p", model="m"), target) == 6
    warnings = [line for line in setup.screen.lines if "polls of task" in line]
    assert warnings == ["warning: polls of task task_1 fail (ConnectError); it will be polled again"]
    assert "(no poll has succeeded yet, the last poll failed with ConnectError)" in setup.screen.report.text
    assert setup.ops.count("videos.get") > 2


def report_failed_poll(task_id: str) -> None:
    logger = logging.getLogger("vidgen_async.watcher")
    logger.info("", extra={"event_name": Event.POLL_FAILED, "task_id": task_id, "error": "ConnectError"})


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_command_runs_on_uvloop_where_it_is_installed(setup, monkeypatch, is_installed):
    class Loop(asyncio.SelectorEventLoop):
        pass

    async def work():
        loops.append(isinstance(asyncio.get_running_loop(), Loop))

    loops = []
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=Loop) if is_installed else None)
    assert setup.run_work(work) == 0
    assert loops == [is_installed]


def test_failed_polls_of_many_tasks_cause_one_warning(setup):
    async def work():
        for n in range(1000):
            report_failed_poll(f"task_{n}")
            report_failed_poll(f"task_{n}")

    setup.run_work(work)
    assert setup.screen.lines == ["warning: polls of task task_0 fail (ConnectError); it will be polled again"]


def test_failed_polls_cause_no_warnings_beside_the_live_view(setup):
    async def work():
        setup.command.shows_failed_polls = True
        report_failed_poll("task_1")
        report_failed_poll("task_1")

    setup.run_work(work)
    assert setup.screen.lines == []


def test_warnings_of_the_sdk_are_shown(setup):
    async def work():
        logging.getLogger("vidgen_async.watcher").warning("an unknown state %r", "paused")

    setup.run_work(work)
    assert setup.screen.lines == ["warning: an unknown state 'paused'"]


def test_a_log_record_that_cannot_be_formatted_raises_nothing(setup, capsys):
    record = logging.makeLogRecord({"msg": "%d", "args": ("none",), "levelno": logging.WARNING})
    _LogHandler(setup.command).handle(record)
    assert setup.screen.lines == []
    assert "--- Logging error ---" in capsys.readouterr().err

"""Every decision of the watcher is one log record with its event, its level and its fields."""

import asyncio
import logging

import pytest

from vidgen_async.errors import (
    ConnectionLostError,
    NotFoundError,
    RateLimitError,
    ServiceUnavailableError,
    WaitTimeoutError,
)
from vidgen_async.watcher import Watcher

from .conftest import FakeService, settle

#: What every record has.
OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event_name", "taskName"}


@pytest.fixture(autouse=True)
def everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG, "vidgen_async")


def records_of(caplog, event):
    """Level and fields of the records of this event."""
    return [
        (record.levelname, {name: value for name, value in vars(record).items() if name not in OWN})
        for record in caplog.records
        if record.event_name == event
    ]


async def test_events_of_changes_and_ends_have_the_task_and_its_state(watcher, service, caplog):
    service.script("t", "queued", "queued", "running", "failed")
    async for _ in watcher.watch("t"):
        pass

    assert records_of(caplog, "task.changed") == [
        ("DEBUG", {"task_id": "t", "state": "queued"}),
        ("DEBUG", {"task_id": "t", "state": "running"}),
    ]
    assert records_of(caplog, "task.ended") == [("INFO", {"task_id": "t", "state": "failed"})]


async def test_the_event_of_a_failed_poll_has_the_error_and_its_kind(watcher, service, caplog):
    lost, busy = ConnectionLostError("gone"), ServiceUnavailableError("busy", status=503)
    service.script("t", lost, busy, "completed")
    await watcher.wait("t")

    assert records_of(caplog, "poll.failed") == [
        ("INFO", {"task_id": "t", "error": "ConnectionLostError", "fault": "transient", "request_id": None}),
        ("INFO", {"task_id": "t", "error": "ServiceUnavailableError", "fault": "transient", "request_id": None}),
    ]


async def test_the_event_of_a_failed_watch_has_the_error(watcher, service, caplog):
    service.script("t", *[NotFoundError("no such task", status=404)] * 2)
    with pytest.raises(NotFoundError):
        await watcher.wait("t")

    assert records_of(caplog, "watch.failed") == [("INFO", {"task_id": "t", "error": "NotFoundError"})]


async def test_a_pause_and_its_end_are_logged_once_with_its_length(watcher, service, clock, caplog):
    def busy():
        return RateLimitError("slow down", status=429, retry_after=100.0)

    service.script("a", busy(), busy(), "completed")
    service.script("b", busy(), "completed")
    await clock.sleep(1.0)
    async for _ in watcher.as_completed(["a", "b"]):
        pass

    # Both asked for the first pause, one of them for the second.
    assert [(level, fields["seconds"]) for level, fields in records_of(caplog, "watcher.paused")] == [
        ("WARNING", 100.0)
    ] * 2
    first, second = records_of(caplog, "watcher.resumed")
    assert first[0] == second[0] == "INFO"
    assert set(first[1]) == {"seconds"}
    assert first[1]["seconds"] >= 100.0
    paused = [record.event_name for record in caplog.records if record.event_name.startswith("watcher.")]
    assert paused == ["watcher.paused", "watcher.resumed"] * 2


async def test_a_poll_of_an_unchanged_task_is_no_event(watcher, service, clock, caplog):
    waiting = asyncio.ensure_future(watcher.wait("t"))
    await clock.sleep(301.0)
    waiting.cancel()
    await settle()

    assert len(service.times()) == 6
    assert [record.event_name for record in caplog.records] == ["wait.started", "task.changed", "wait.ended"]


async def test_a_wait_is_reported_with_its_number_and_how_it_ended(
    watcher: Watcher, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.script("t", "completed")
    await watcher.wait("t")
    with pytest.raises(WaitTimeoutError):
        await watcher.wait("u", timeout=1.0)

    (first, second), ends = records_of(caplog, "wait.started"), records_of(caplog, "wait.ended")
    assert first == ("DEBUG", {"wait": first[1]["wait"], "count": 1, "task_id": "t"})
    assert [fields for _, fields in ends] == [
        {"wait": first[1]["wait"], "error": None},
        {"wait": second[1]["wait"], "error": "WaitTimeoutError"},
    ]

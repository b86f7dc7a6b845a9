"""Texts of the service about a task are shown shortened and without secrets, and stored unchanged."""

import logging

import pytest

from tests.watcher.conftest import FakeService
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import TaskFailedError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

REASON = "refused, see https://cdn/x?exp=17&sig=hush, token: hush, data:image/png;base64,hush"


def failed(reason: str | None) -> VideoTask:
    return VideoTask(id="t", status="failed", failure_reason=reason)


async def test_a_failure_reason_is_shown_without_secrets_and_stored_unchanged():
    clock = VirtualClock()
    service = FakeService(clock)
    service.default = failed(REASON)
    watcher = Watcher(service.poll_if_changed, clock=clock)

    with pytest.raises(TaskFailedError, match="refused, see https://cdn/x") as caught:
        await watcher.wait("t")
    outcomes = [outcome async for outcome in watcher.as_completed(["t"])]
    await watcher.aclose()

    assert caught.value.task.failure_reason == REASON
    for shown in (str(caught.value), repr(caught.value), repr(caught.value.task), repr(outcomes)):
        assert "hush" not in shown


@pytest.mark.parametrize(
    ("reason", "shown"), [(None, "no failure reason"), (" \n", "no failure reason"), ("no\nway", "no way")]
)
async def test_a_failure_reason_is_shown_on_one_line(reason, shown):
    clock = VirtualClock()
    service = FakeService(clock)
    service.default = failed(reason)
    watcher = Watcher(service.poll_if_changed, clock=clock)
    with pytest.raises(TaskFailedError) as caught:
        await watcher.wait("t")
    await watcher.aclose()
    assert shown in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_long_failure_reason_is_shortened():
    clock = VirtualClock()
    service = FakeService(clock)
    service.default = failed("no way " * 1000)
    watcher = Watcher(service.poll_if_changed, clock=clock)
    with pytest.raises(TaskFailedError) as caught:
        await watcher.wait("t")
    await watcher.aclose()
    assert 900 < len(str(caught.value)) < 1200


@pytest.mark.parametrize(
    ("status", "shown"),
    [("dreaming", "'dreaming'"), ("dreams of\nthe hush", "'<18 characters>'"), ("", "'<0 characters>'")],
)
async def test_an_unknown_state_is_shown_if_it_is_a_plain_word(status, shown, caplog):
    caplog.set_level(logging.DEBUG, "vidgen_async")
    clock = VirtualClock()
    service = FakeService(clock)
    service.default = VideoTask(id="t", status=status)
    watcher = Watcher(service.poll_if_changed, clock=clock)

    with pytest.raises(WaitTimeoutError) as caught:
        await watcher.wait("t", timeout=200)
    await watcher.aclose()

    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert f"state {shown} is unknown" in logged
    assert f"the last state seen was {shown}" in str(caught.value)
    assert caught.value.task.status == status
    assert "hush" not in logged + str(caught.value)

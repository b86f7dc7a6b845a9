"""Texts of the service about a task are shown shortened and without secrets, and stored unchanged."""

import logging

import pytest

from vidgen_async.errors import TaskFailedError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask

REASON = "refused, see https://cdn/x?exp=17&sig=hush, token: hush, data:image/png;base64,hush"


def failed(reason):
    return VideoTask(id="t", status="failed", failure_reason=reason)


async def test_a_failure_reason_is_shown_without_secrets_and_stored_unchanged(watcher, service):
    service.default = failed(REASON)

    with pytest.raises(TaskFailedError, match="refused, see https://cdn/x") as caught:
        await watcher.wait("t")
    outcomes = [outcome async for outcome in watcher.as_completed(["t"])]

    assert caught.value.task.failure_reason == REASON
    for shown in (str(caught.value), repr(caught.value), repr(caught.value.task), repr(outcomes)):
        assert "hush" not in shown


@pytest.mark.parametrize(
    ("reason", "shown", "length"),
    [
        (None, "no failure reason was given; check the refund in the credit ledger", 200),
        (" \n", "no failure reason", 200),
        ("no\nway", "no way", 200),
        ("no way " * 1000, "no way " * 100, 1200),
    ],
)
async def test_a_failure_reason_is_shown_on_one_line_and_shortened(reason, shown, length, watcher, service):
    service.default = failed(reason)
    with pytest.raises(TaskFailedError) as caught:
        await watcher.wait("t")
    assert shown in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < length


@pytest.mark.parametrize(
    ("status", "shown"),
    [("dreaming", "'dreaming'"), ("dreams of\nthe hush", "'<18 characters>'"), ("", "'<0 characters>'")],
)
async def test_an_unknown_state_is_shown_if_it_is_a_plain_word(status, shown, caplog, watcher, service):
    caplog.set_level(logging.DEBUG, "vidgen_async")
    service.default = VideoTask(id="t", status=status)

    with pytest.raises(WaitTimeoutError) as caught:
        await watcher.wait("t", timeout=200)

    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert f"state {shown} is unknown" in logged
    assert f"the last state seen was {shown}" in str(caught.value)
    assert caught.value.task.status == status
    assert "hush" not in logged + str(caught.value)

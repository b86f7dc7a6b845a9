"""Listeners are notified of events whether they are logged or not."""

import logging
from collections.abc import Iterator, Mapping

import pytest

from vidgen_async import events
from vidgen_async.events import Event

logger = logging.getLogger("vidgen_async.test")


@pytest.fixture
def notified() -> Iterator[list[tuple[Event, Mapping[str, object]]]]:
    calls: list[tuple[Event, Mapping[str, object]]] = []

    def listen(event: Event, fields: Mapping[str, object]) -> None:
        calls.append((event, fields))

    events.listeners.append(listen)
    yield calls
    events.listeners.remove(listen)


def test_an_event_that_is_not_logged_is_heard_with_its_fields(notified, caplog):
    Event.TASK_CHANGED.log(logger, task_id="t", state="running")

    assert caplog.records == []
    assert notified == [(Event.TASK_CHANGED, {"task_id": "t", "state": "running"})]


def test_a_failure_is_heard_like_any_other_event(notified, caplog):
    Event.HOOK_FAILED.log(logger, exc_info=ValueError("broken"), hook="on_update", error="ValueError")

    assert len(caplog.records) == 1
    assert notified == [(Event.HOOK_FAILED, {"hook": "on_update", "error": "ValueError"})]


@pytest.mark.parametrize("where", ["listener", "filter", "handler"])
def test_what_listeners_filters_and_handlers_raise_does_not_strike_who_reports(notified, where):
    calls = 0

    def broken(*_: object) -> bool:
        nonlocal calls
        calls += 1
        raise ValueError

    handler = logging.Handler()
    if where == "listener":
        events.listeners.insert(0, broken)
    elif where == "filter":
        logger.addFilter(broken)
    else:
        handler.emit = broken  # type: ignore[method-assign, assignment]
        logger.addHandler(handler)
    try:
        Event.WATCHER_FAILED.log(logger)
        Event.HOOK_FAILED.log(logger, exc_info=ValueError("broken"), hook="on_update", error="ValueError")
    finally:
        logger.removeFilter(broken)
        logger.removeHandler(handler)
        if broken in events.listeners:
            events.listeners.remove(broken)

    assert calls == 2
    assert [event for event, _ in notified] == [Event.WATCHER_FAILED, Event.HOOK_FAILED]

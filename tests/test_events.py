"""Every record of a log says in fields what its message says in words."""

import ast
import inspect
import logging
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import vidgen_async
from vidgen_async.events import OUTCOMES, Event

PACKAGE = Path(vidgen_async.__file__).parent
SDK = [path for path in PACKAGE.rglob("*.py") if not {"sandbox", "cli"} & set(path.relative_to(PACKAGE).parts)]
#: The fields of records, as the messages and the documentation of the events name them.
FIELDS = set(re.findall(r"(?:``|%\()(\w+)[`)]", inspect.getsource(Event) + Event.ORDER_ACCEPTED.message))
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}

logger = logging.getLogger("vidgen_async.test")


@cache
def calls(path: Path) -> list[ast.Call]:
    """The calls in a module that has to do with logging or events."""
    text = path.read_text(encoding="utf-8")
    if "logg" not in text and "Event" not in text:
        return []
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]


def test_a_record_has_its_event_and_its_fields_as_attributes(caplog):
    with caplog.at_level(logging.INFO, "vidgen_async.test"):
        Event.TASK_ENDED.log(logger, task_id="t", state="failed")

    (record,) = caplog.records
    assert record.getMessage() == "task t: failed"
    assert (record.event_name, record.task_id, record.state) == ("task.ended", "t", "failed")
    assert (record.levelname, record.filename) == ("INFO", "test_events.py")


def test_a_failure_has_its_traceback(caplog):
    Event.HOOK_FAILED.log(logger, exc_info=ValueError("broken"), hook="on_update", error="ValueError")

    (record,) = caplog.records
    assert (record.levelname, record.event_name, record.hook) == ("ERROR", "hook.failed", "on_update")
    assert record.exc_info[1].args == ("broken",)


def test_a_level_and_details_may_be_those_of_the_occasion(caplog):
    Event.HOOK_CANCELLED.log(logger, level=logging.ERROR, details=": %(count)d calls", hook="on_update", count=3)

    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "on_update was cancelled: 3 calls")


@pytest.fixture
def record_factory():
    """Sets the factory of all log records."""
    before = logging.getLogRecordFactory()
    yield logging.setLogRecordFactory
    logging.setLogRecordFactory(before)


def log_twice() -> None:
    Event.ORDER_CONFIRMED.log(logger, level=logging.ERROR, order_id="o", task_id="t")
    Event.HOOK_FAILED.log(logger, exc_info=ValueError("broken"), hook="on_update", error="ValueError", task_id="t")


def test_a_record_is_logged_whatever_the_factory_of_records_sets(caplog, record_factory):
    def with_fields(*args, **more):
        record = logging.LogRecord(*args, **more)
        vars(record).update(dict.fromkeys({*FIELDS, "event_name"}, "theirs"), request_id="r")
        return record

    record_factory(with_fields)
    log_twice()
    first, second = caplog.records
    assert (first.getMessage(), first.event_name) == (
        "order 'o': the service confirmed task t as its task",
        "order.confirmed",
    )
    assert (first.order_id, first.task_id) == ("o", "t")
    assert (second.getMessage(), second.event_name, second.task_id) == (
        "on_update failed with ValueError",
        "hook.failed",
        "t",
    )
    assert [record.request_id for record in caplog.records] == ["r", "r"]


def test_a_record_is_logged_where_the_factory_of_records_raises(caplog, record_factory):
    def outside_a_request(*args, **more):
        raise LookupError

    record_factory(outside_a_request)
    log_twice()
    assert [record.task_id for record in caplog.records] == ["t", "t"]
    assert caplog.records[1].exc_info[1].args == ("broken",)


def test_no_field_has_the_name_of_what_every_record_has():
    assert {"order_id", "task_id", "error", "count", "seconds"} <= FIELDS
    assert FIELDS & {*vars(logging.makeLogRecord({})), "message", "asctime"} == set()


def test_what_is_not_logged_costs_no_record(caplog):
    Event.TASK_CHANGED.log(logger)
    assert caplog.records == []


@pytest.mark.slow
def test_every_module_logs_by_event_alone():
    others = [
        f"{path.relative_to(PACKAGE)}, line {call.lineno}: use Event.X.log(…)"
        for path in SDK
        if path.name != "events.py"
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in LEVELS
        and "logger" in ast.unparse(call.func.value)
    ]
    assert others == []


def logged() -> Iterator[tuple[str, str, set[str]]]:
    """The place of each call that logs an event, the event, and its fields, where they can be seen in the call."""
    for path in SDK:
        for call in calls(path):
            if isinstance(call.func, ast.Attribute) and (event := ast.unparse(call.func.value)).startswith("Event."):
                names = {keyword.arg for keyword in call.keywords}
                yield f"{path.name}, line {call.lineno}", event.removeprefix("Event."), names


def test_every_event_is_logged_somewhere():
    assert {event for _, event, _ in logged()} | {event.name for event in OUTCOMES} == set(Event.__members__)


def test_each_call_has_the_fields_of_the_message_and_no_undocumented_ones():
    tree = ast.parse(inspect.getsource(Event))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    remarks = {
        member.targets[0].id: following.value.value
        for member, following in pairwise(body)
        if isinstance(member, ast.Assign)
        and isinstance(member.targets[0], ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }
    wrong = []
    for place, event, names in logged():
        needed = set(re.findall(r"%\((\w+)\)", Event[event].message))
        known = needed | set(re.findall(r"``(\w+)``", remarks.get(event, "")))
        missing = needed - names if None not in names else set()
        undocumented = names - known - {"level", "details", "exc_info", None}
        wrong += [f"{place}: {event} has {undocumented} and lacks {missing}"] if missing or undocumented else []
    assert wrong == []

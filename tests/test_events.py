"""Every record of a log says in fields what its message says in words."""

import ast
import inspect
import logging
import re
from functools import cache
from pathlib import Path

import pytest

import vidgen_async
from vidgen_async.events import OUTCOMES, Event, report, report_failure

PACKAGE = Path(vidgen_async.__file__).parent
SDK = [path for path in PACKAGE.rglob("*.py") if not {"sandbox", "cli"} & set(path.relative_to(PACKAGE).parts)]
#: The fields of records, as the documentation of the events names them.
FIELDS = set(re.findall(r"``(\w+)``", inspect.getsource(Event)))
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
        report(logger, logging.INFO, Event.TASK_ENDED, "task %(task_id)s: %(state)s", task_id="t", state="failed")

    (record,) = caplog.records
    assert record.getMessage() == "task t: failed"
    assert (record.event_name, record.task_id, record.state) == ("task.ended", "t", "failed")
    assert (record.levelname, record.filename) == ("INFO", "test_events.py")


def test_a_failure_has_its_traceback(caplog):
    report_failure(logger, Event.HOOK_FAILED, "%(hook)s failed", ValueError("broken"), hook="on_update")

    (record,) = caplog.records
    assert (record.levelname, record.event_name, record.hook) == ("ERROR", "hook.failed", "on_update")
    assert record.exc_info[1].args == ("broken",)


def test_a_message_without_fields_may_hold_a_percent_sign(caplog):
    with caplog.at_level(logging.INFO, "vidgen_async.test"):
        report(logger, logging.INFO, Event.WATCHER_FAILED, "100%")
    assert caplog.records[0].getMessage() == "100%"


@pytest.fixture
def record_factory():
    """Sets the factory of all log records."""
    before = logging.getLogRecordFactory()
    yield logging.setLogRecordFactory
    logging.setLogRecordFactory(before)


def log_twice() -> None:
    report(logger, logging.ERROR, Event.ORDER_WRITE_FAILED, "%(order_id)s: %(task_id)s", order_id="o", task_id="t")
    report_failure(logger, Event.HOOK_FAILED, "%(hook)s", ValueError("broken"), hook="on_update", task_id="t")


def test_a_record_is_logged_whatever_the_factory_of_records_sets(caplog, record_factory):
    def with_fields(*args, **more):
        record = logging.LogRecord(*args, **more)
        vars(record).update(dict.fromkeys({*FIELDS, "event_name"}, "theirs"), request_id="r")
        return record

    record_factory(with_fields)
    log_twice()
    first, second = caplog.records
    assert (first.getMessage(), first.event_name) == ("o: t", "order.write_failed")
    assert (first.order_id, first.task_id) == ("o", "t")
    assert (second.getMessage(), second.event_name, second.task_id) == ("on_update", "hook.failed", "t")
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
    report(logger, logging.DEBUG, Event.TASK_CHANGED, "%(missing)s")
    assert caplog.records == []


@pytest.mark.slow
def test_every_module_logs_by_event_alone():
    others = [
        f"{path.relative_to(PACKAGE)}, line {call.lineno}: use report(…)"
        for path in SDK
        if path.name != "events.py"
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in LEVELS
        and "logger" in ast.unparse(call.func.value)
    ]
    assert others == []


def test_every_event_is_logged_somewhere():
    used = {
        argument.attr
        for path in SDK
        for call in calls(path)
        for argument in call.args
        if isinstance(argument, ast.Attribute) and isinstance(argument.value, ast.Name) and argument.value.id == "Event"
    }
    assert used | {event.name for event in OUTCOMES} == set(Event.__members__)

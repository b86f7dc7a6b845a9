"""What is logged. Every record of the loggers below ``vidgen_async`` says in fields what its message says in words:
``event`` is one of :class:`Event`, and ``order_id``, ``task_id``, ``attempt``, ``error`` … are attributes of the record
where they are known, ready for a structured formatter, also where an application's own factory of records sets the
same names.

No record at any level holds a key, a token, a signed link, a prompt or image data.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum


class Event(StrEnum):
    """The kinds of records, with the fields of each."""

    ORDER_NAMED = "order.named"
    """INFO: no order id was given, so a new one was made. ``order_id``"""
    ORDER_PACED = "order.paced"
    """INFO: the order waits for the submission limit. ``order_id``, ``seconds``"""
    ORDER_CONFIRMED = "order.confirmed"
    ORDER_AWAITED = "order.awaited"
    """INFO: somebody else is sending the order; what comes of that is awaited. ``order_id``, ``until``"""
    ORDER_SETTLED = "order.settled"
    """INFO: what became of an attempt is on record. ``order_id``, ``attempt``, ``outcome``, ``status``, ``task_id``"""
    ORDER_UNSETTLED = "order.unsettled"
    """ERROR: what became of an attempt could not be written. ``order_id``, ``outcome``, ``task_id``, ``error``"""
    ORDER_SETTLED_LATE = "order.settled_late"
    """WARNING: now it is written. ``order_id``, ``outcome``, ``task_id``"""
    ORDER_DUPLICATED = "order.duplicated"
    """ERROR: the service made the order more than once. ``order_id``, ``task_ids``"""
    TASK_SHARED = "task.shared"
    """ERROR: one task is the receipt of two orders. ``task_id``, ``order_id``, ``other_order_id``"""
    RESULTS_UNWRITTEN = "results.unwritten"
    """WARNING at first, then INFO: how tasks ended could not be written. ``count``, ``error``"""
    ORDER_UNGUARDED = "order.unguarded"
    """ERROR: a transport let the order leave without passing the gate. ``order_id``"""
    ORDER_UNREAD = "order.unread"
    """WARNING: a closing client could not ask the journal about the order. ``order_id``, ``error``"""
    ORDERS_UNANSWERED = "orders.unanswered"
    """WARNING: a client was closed with orders under way. ``count``"""
    BALANCE_UNREAD = "balance.unread"
    """INFO: the balance could not be read, or not be written, after uncertain creates. ``count``, ``error``"""
    JOURNAL_LOCKED = "journal.locked"
    JOURNAL_READABLE = "journal.readable"
    """WARNING: everybody on this machine may read the journal's file. ``path``, ``mode``"""
    CATALOG_MISSING = "catalog.missing"
    """WARNING: a request could not be checked against the live catalog. ``model``, ``error``"""
    READ_AGAIN = "read.again"
    """WARNING at first, then INFO: a read failed and goes again. ``op``, ``error``, ``seconds``"""
    DOWNLOAD_AGAIN = "download.again"
    """INFO: a download that broke off goes on. ``task_id``, ``seconds``, ``error``"""
    TASK_CHANGED = "task.changed"
    """DEBUG: a watched task has changed. ``task_id``, ``state``"""
    TASK_ENDED = "task.ended"
    """INFO: a watched task is terminal. ``task_id``, ``state``"""
    TASK_FAULT = "task.fault"
    """INFO: a look at a task failed and is repeated. ``task_id``, ``error``, ``fault``"""
    TASK_LOST = "task.lost"
    """INFO: the watch of a task ends with an error. ``task_id``, ``error``"""
    TASK_STATE_UNKNOWN = "task.state_unknown"
    """WARNING: a state that section 3 does not name; the task is watched on. ``task_id``, ``state``"""
    WATCHER_PAUSED = "watcher.paused"
    """WARNING: a 429 pauses all polls. ``task_id``, ``seconds``"""
    WATCHER_RESUMED = "watcher.resumed"
    """INFO: the pause is over, polls go on. ``seconds``, for which there were none"""
    WATCHER_LATE = "watcher.late"
    """WARNING: polls are behind, so each task is looked at less often. ``late``, ``count``, ``seconds``, ``interval``,
    ``concurrency``"""
    WATCHER_ON_TIME = "watcher.on_time"
    """INFO: they have caught up. ``interval``"""
    WATCHER_BROKE = "watcher.broke"
    """ERROR: the scheduler broke; every wait ends with the error."""
    TELEMETRY_BROKE = "telemetry.broke"
    """WARNING, once for each transport or meter provider: telemetry raised; nothing but telemetry is lost. ``error``"""
    CASSETTE_BROKE = "cassette.broke"
    """WARNING: a recording cannot be written on; nothing of it will be published. ``path``, ``error``"""
    CASSETTE_KEPT = "cassette.kept"
    """WARNING: a recording was not published; what was finished is in its part file. ``path``"""
    CASSETTE_LIVE_CREATE = "cassette.live_create"
    """WARNING: an appending transport makes an order that is not on the cassette; no journal keeps it. ``path``"""
    CASSETTE_UNFINISHED = "cassette.unfinished"
    """WARNING: requests without an outcome are not on the cassette. ``path``, ``count``"""
    HOOK_FAILED = "hook.failed"
    """ERROR: a caller's ``on_receipt`` or ``on_update`` raised. ``hook``, ``order_id``, ``task_id``, ``error``"""
    HOOK_CANCELLED = "hook.cancelled"
    """WARNING: a caller's hook was cancelled or took too long. ``hook``, ``order_id``, ``task_id``, ``count``,
    ``seconds``"""
    HOOK_BEHIND = "hook.behind"
    """WARNING, once: as many calls of ``on_update`` are under way as may be; changes wait. ``hook``, ``count``"""


#: Called with every event and its fields, whether it is logged or not. They return at once.
listeners: list[Callable[[Event, Mapping[str, object]], None]] = []

# Nothing that a listener, a log handler or a filter raises comes out of here: it would strike who reports, amid a
# create or a poll. A handler on a stream that was closed is enough.


def report(logger: logging.Logger, level: int, event: Event, message: str, /, **fields: object) -> None:
    """Log ``message``, formatted with the fields by their names, as a record that has them as attributes."""
    _tell(event, fields)
    with suppress(Exception):
        if logger.isEnabledFor(level):
            _log(logger, level, event, message, fields)


def report_failure(
    logger: logging.Logger, event: Event, message: str, error: BaseException, /, **fields: object
) -> None:
    """Like :func:`report`, as an ERROR with the traceback of ``error``."""
    _tell(event, fields)
    with suppress(Exception):
        if logger.isEnabledFor(logging.ERROR):
            _log(logger, logging.ERROR, event, message, fields, error)


def _log(
    logger: logging.Logger,
    level: int,
    event: Event,
    message: str,
    fields: Mapping[str, object],
    error: BaseException | None = None,
) -> None:
    """The fields are set on the finished record: as ``extra`` they would raise KeyError, and there would be no record,
    where the factory of records has set an attribute of the same name."""
    file, line, function, _ = logger.findCaller(stacklevel=3)
    args = (fields,) if fields else ()
    raised = None if error is None else (type(error), error, error.__traceback__)
    facts = (logger.name, level, file, line, message, args, raised, function)
    try:
        record = logger.makeRecord(*facts)
    except Exception:  # noqa: BLE001 - the factory's: it may need a context that the SDK's own workers do not have
        record = logging.LogRecord(*facts)
    vars(record).update(fields, event=str(event))
    logger.handle(record)


@contextmanager
def contain_hook(logger: logging.Logger, hook: str, /, **fields: object) -> Iterator[None]:
    """Log what a caller's ``hook`` raises in this block, a CancelledError too. Only the cancellation of the running
    task itself, a KeyboardInterrupt and a SystemExit propagate."""
    of = "".join(f" {name.removesuffix('_id')} %({name})s" for name in fields)
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        report(logger, logging.WARNING, Event.HOOK_CANCELLED, f"%(hook)s was cancelled:{of}", hook=hook, **fields)
    except BaseException as error:  # noqa: BLE001 - pytest's outcomes and those of other frameworks are no Exceptions
        message = f"%(hook)s failed with %(error)s:{of}"
        name = type(error).__name__
        report_failure(logger, Event.HOOK_FAILED, message, error, hook=hook, error=name, **fields)


def _tell(event: Event, fields: Mapping[str, object]) -> None:
    for listener in listeners:
        with suppress(Exception):
            listener(event, fields)

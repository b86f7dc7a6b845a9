"""Log events. Each record of the loggers below ``vidgen_async`` has the facts of its message as attributes too:
``event_name`` is one of :class:`Event`, and ``order_id``, ``task_id``, ``attempt``, ``error`` … are set where they are
known, for structured formatters. They override attributes of the same names that an application's record factory sets.

No record at any level holds a key, a token, a signed link, a prompt or image data.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import ParamSpec

from vidgen_async.user_code import UserCode, current_task, must_propagate

P = ParamSpec("P")


class Event(StrEnum):
    """The kinds of records, with the level and the fields of each."""

    ORDER_ID_CREATED = "order.id_created"
    """INFO: no order id was given, so one was created. ``order_id``"""
    ORDER_STARTED = "order.started"
    """DEBUG: a worker of the client starts to carry out the order. ``order_id``"""
    ORDER_PACED = "order.paced"
    """INFO: the order waits for the submission limit. WARNING: for the end of the pause after a 429. ``order_id``,
    ``seconds``, ``reason``"""
    ORDER_AWAITED = "order.awaited"
    """INFO: another process or client is sending the order; its outcome is awaited, at most for as long as the time
    limit of the send. ``order_id``, ``seconds``, ``until``"""
    ORDER_ACCEPTED = "order.accepted"
    """INFO: the outcome of an attempt, like the three below. ``order_id``, ``attempt``, ``outcome``, ``status``,
    ``task_id``, ``request_id``, ``cause``, ``model``"""
    ORDER_REJECTED = "order.rejected"
    """INFO: the service refused the order."""
    ORDER_UNCERTAIN = "order.uncertain"
    """WARNING: it is unknown whether the service accepted the order. If its process was killed in the middle of the
    create, it is reported by the first client that reads the order afterwards."""
    ORDER_NOT_SENT = "order.not_sent"
    """INFO: nothing was sent."""
    ORDER_CONFIRMED = "order.confirmed"
    """INFO: a candidate was confirmed as the task of an uncertain order. ``order_id``, ``task_id``"""
    ORDER_WRITE_FAILED = "order.write_failed"
    """ERROR: the outcome of an attempt could not be written. ``order_id``, ``outcome``, ``task_id``, ``error``"""
    ORDER_WRITTEN_LATE = "order.written_late"
    """WARNING: the outcome was written after such a failure. ``order_id``, ``outcome``, ``task_id``"""
    ORDER_DUPLICATED = "order.duplicated"
    """ERROR: the journal has more than one task for the order. ``order_id``, ``task_ids``"""
    TASK_SHARED = "task.shared"
    """ERROR: one task is the receipt of two orders. ``task_id``, ``order_id``, ``other_order_id``"""
    RESULTS_WRITE_FAILED = "results.write_failed"
    """WARNING the first time, then INFO: how tasks ended could not be written. ``count``, ``error``"""
    ORDER_READ_FAILED = "order.read_failed"
    """WARNING: a closing client could not read the order from the journal. ``order_id``, ``error``"""
    ORDERS_UNANSWERED = "orders.unanswered"
    """WARNING: a client was closed with orders under way. ``count``, ``seconds``"""
    BALANCE_READ_FAILED = "balance.read_failed"
    """INFO: the balance after uncertain creates could not be read or written. ``count``, ``error``"""
    JOURNAL_CONNECTION_REFUSED = "journal.connection_refused"
    """WARNING: the server refused a further connection; operations wait for those that are open. ``journal``,
    ``error``"""
    JOURNAL_LOCKED = "journal.locked"
    """WARNING: another process holds the lock of the journal for longer than the time limit. ``path``"""
    JOURNAL_SESSION_FAILED = "journal.session_failed"
    """INFO: other processes cannot detect that this one has ended; its orders are *sending* until their deadlines.
    ``journal``, ``error``"""
    JOURNAL_WORLD_READABLE = "journal.world_readable"
    """WARNING: every user of this machine may read the journal's file. ``path``, ``mode``"""
    CATALOG_FETCH_FAILED = "catalog.fetch_failed"
    """WARNING: a request could not be checked against the live catalog. ``model``, ``error``"""
    REQUEST_RETRIED = "request.retried"
    """WARNING the first time, then INFO: a read is retried. ``op``, ``error``, ``seconds``, ``request_id``"""
    REQUEST_ENDED = "request.ended"
    """DEBUG: a request has its status line, or failed. ``op``, ``method``, ``path``, ``status``, ``milliseconds``,
    ``request_id``, ``attempt``, ``error``. Reported only where DEBUG is enabled."""
    BUDGET_UNDERESTIMATED = "budget.underestimated"
    """ERROR: a task cost more points than the budget's price has estimated, so that the client sends no further order.
    ``excess``"""
    DOWNLOAD_RETRIED = "download.retried"
    """INFO: an interrupted download is resumed. ``task_id``, ``seconds``, ``error``"""
    DOWNLOAD_ENDED = "download.ended"
    """DEBUG: a video was saved, or not. ``task_id``, ``size`` (bytes), ``seconds``, ``error``"""
    DOWNLOAD_LINK_FAILED = "download.link_failed"
    """WARNING: neither the content endpoint nor the task's ``video_url`` gave the video. ``task_id``, ``error``"""
    TASK_CHANGED = "task.changed"
    """DEBUG: a watched task has changed. ``task_id``, ``state``"""
    TASK_ENDED = "task.ended"
    """INFO: a watched task is terminal. ``task_id``, ``state``, and what the service states of: ``model``, ``points``,
    ``seconds`` since the task was created"""
    TASK_UNKNOWN_STATE = "task.unknown_state"
    """WARNING: a state that section 3 does not name; polling continues. ``task_id``, ``state``"""
    WAIT_STARTED = "wait.started"
    """DEBUG: a call waits for tasks. ``wait`` (its number in the process), ``count``, ``task_id`` (None if several)"""
    WAIT_ENDED = "wait.ended"
    """DEBUG: that call has ended. ``wait``, ``error``"""
    POLL_FAILED = "poll.failed"
    """INFO: a poll failed; polling continues. ``task_id``, ``error``, ``fault``, ``request_id``"""
    WATCH_FAILED = "watch.failed"
    """INFO: the watch of a task ends with an error. ``task_id``, ``error``"""
    WATCHER_PAUSED = "watcher.paused"
    """WARNING: a 429 pauses all polls. ``task_id``, ``seconds``"""
    WATCHER_RESUMED = "watcher.resumed"
    """INFO: the pause is over. ``seconds``"""
    WATCHER_LATE = "watcher.late"
    """WARNING: polls are late, so each task is polled less often. ``late``, ``count``, ``seconds``, ``interval``,
    ``concurrency``"""
    WATCHER_ON_TIME = "watcher.on_time"
    """INFO: polls are on time again. ``interval``"""
    WATCHER_FAILED = "watcher.failed"
    """ERROR: the scheduler failed; every wait ends with its error."""
    PLAIN_READS_MISSING = "plain_reads.missing"
    """INFO, once: reads use aiohttp's session and take more CPU, since this version of aiohttp lacks ``names``."""
    TELEMETRY_FAILED = "telemetry.failed"
    """WARNING, once for each transport or meter provider: telemetry raised; only telemetry is lost. ``error``"""
    CASSETTE_WRITE_FAILED = "cassette.write_failed"
    """WARNING: a recording cannot be written any more; nothing of it is published. ``path``, ``error``"""
    CASSETTE_NOT_PUBLISHED = "cassette.not_published"
    """WARNING: a recording was not published; its part file has the finished interactions. ``path``"""
    CASSETTE_LIVE_CREATE = "cassette.live_create"
    """WARNING: an appending transport sends a create that is not on the cassette; no journal stores it. ``path``"""
    CASSETTE_UNFINISHED = "cassette.unfinished"
    """WARNING: requests without an outcome are not on the cassette. ``path``, ``count``"""
    HOOK_FAILED = "hook.failed"
    """ERROR: an ``on_receipt`` or ``on_update`` raised. ``hook``, ``order_id``, ``task_id``, ``error``"""
    HOOK_CANCELLED = "hook.cancelled"
    """WARNING: a hook was cancelled or took too long. ``hook``, ``order_id``, ``task_id``, ``count``, ``seconds``"""
    HOOK_BEHIND = "hook.behind"
    """WARNING, once: the maximum of ``on_update`` calls is running; changes wait. ``hook``, ``count``"""


#: The outcomes of attempts at a create.
OUTCOMES = frozenset({Event.ORDER_ACCEPTED, Event.ORDER_REJECTED, Event.ORDER_UNCERTAIN, Event.ORDER_NOT_SENT})

#: Called with every event and its fields, whether it is logged or not (REQUEST_ENDED: if it is). They must return at
#: once.
listeners: list[Callable[[Event, Mapping[str, object]], None]] = []

#: The id of the order that the running code carries out.
current_order: ContextVar[str | None] = ContextVar("current_order", default=None)
#: Returns the numbers of the waits (WAIT_STARTED) for which the running code polls.
current_waits: ContextVar[Callable[[], Iterable[int]]] = ContextVar("current_waits", default=tuple)

# Nothing that a listener, a log handler or a filter raises propagates from here: it would interrupt a create or a poll.
# A handler on a closed stream is enough.


def report(logger: logging.Logger, level: int, event: Event, message: str, /, **fields: object) -> None:
    """Log ``message``, formatted with the fields by their names, as a record that has them as attributes."""
    _notify(event, fields)
    with UserCode(is_awaited=False):
        if logger.isEnabledFor(level):
            _log(logger, level, event, message, fields)


def report_failure(
    logger: logging.Logger, event: Event, message: str, error: BaseException, /, **fields: object
) -> None:
    """Like :func:`report`, as an ERROR with the traceback of ``error``."""
    _notify(event, fields)
    with UserCode(is_awaited=False):
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
    """The fields are set on the finished record: as ``extra`` they would raise KeyError, and lose the record, if the
    record factory has set an attribute of the same name."""
    file, line, function, _ = logger.findCaller(stacklevel=3)
    args = (fields,) if fields else ()
    raised = None if error is None else (type(error), error, error.__traceback__)
    facts = (logger.name, level, file, line, message, args, raised, function)
    with UserCode(is_awaited=False) as factory:
        record = logger.makeRecord(*facts)
    if factory.error is not None:  # it may need a context that the SDK's own workers do not have
        record = logging.LogRecord(*facts)
    vars(record).update(fields, event_name=str(event))
    logger.handle(record)


@contextmanager
def contain_hook(logger: logging.Logger, hook: str, /, **fields: object) -> Iterator[None]:
    """Log what a caller's ``hook`` raises in this block, unless it must propagate."""
    subject = "".join(f" {name.removesuffix('_id')} %({name})s" for name in fields)
    caller = current_task()
    try:
        yield
    except BaseException as error:
        if must_propagate(error, caller):
            raise
        if isinstance(error, asyncio.CancelledError):
            message = f"%(hook)s was cancelled:{subject}"
            report(logger, logging.WARNING, Event.HOOK_CANCELLED, message, hook=hook, **fields)
            return
        message = f"%(hook)s failed with %(error)s:{subject}"
        name = type(error).__name__
        report_failure(logger, Event.HOOK_FAILED, message, error, hook=hook, error=name, **fields)


def _notify(event: Event, fields: Mapping[str, object]) -> None:
    for listener in listeners:
        with UserCode(is_awaited=False):
            listener(event, fields)


def contained(on_progress: Callable[P, object] | None) -> Callable[P, None]:
    """Return a function that calls ``on_progress``, if there is one. An exception that it raises is logged, and it is
    not called again: it must not interrupt a paid create, and may be called very often.

    Raises:
        TypeError: It is async.
    """
    refuse_async(on_progress)
    hook = on_progress

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal hook
        if hook is None:
            return
        called, hook = hook, None
        with contain_hook(logging.getLogger(__name__), "on_progress"):
            called(*args, **kwargs)
            hook = called

    return call


def refuse_async(on_progress: Callable[..., object] | None) -> None:
    """Raise TypeError for an async function: nothing would await its calls."""
    called = getattr(on_progress, "__call__", None)  # noqa: B004 - that of an object may be async
    if inspect.iscoroutinefunction(on_progress) or inspect.iscoroutinefunction(called):
        message = "on_progress must not be async: its calls are not awaited"
        raise TypeError(message)

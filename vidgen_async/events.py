"""Log events. Each record of the loggers below ``vidgen_async`` has the facts of its message as attributes too:
``event_name`` is one of :class:`Event`, and ``order_id``, ``task_id``, ``attempt``, ``error`` … are set where they are
known, for structured formatters. They override attributes of the same names that an application's record factory sets.

No record at any level holds a key, a token, a signed link, a prompt or image data.
"""

import asyncio
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, ParamSpec, Self, TextIO

from vidgen_async.user_code import UserCode, current_task, must_propagate

P = ParamSpec("P")

_OUTCOME = (
    "order %(order_id)r: attempt %(attempt)d is %(outcome)s (status %(status)s, task %(task_id)s, "
    "request %(request_id)s, cause %(cause)s)"
)


class Event(StrEnum):
    """The kinds of records, with the usual level and message of each. The message is formatted with the fields of the
    record by their names; the docstring names further fields, and when the level or the message is another one."""

    usual_level: int
    message: str

    def __new__(cls, name: str, level: int, message: str) -> Self:
        event = str.__new__(cls, name)
        event._value_ = name
        event.usual_level = level
        event.message = message
        return event

    ORDER_ID_CREATED = "order.id_created", INFO, "order %(order_id)s: created a new order id, since none was given"
    ORDER_STARTED = "order.started", DEBUG, "order %(order_id)r: started"
    """A worker of the client starts to carry out the order."""
    ORDER_PACED = "order.paced", INFO, "order %(order_id)r waits %(seconds).1f s: %(reason)s"
    """It waits for the submission limit. WARNING: for the end of the pause after a 429."""
    ORDER_AWAITED = (
        "order.awaited",
        INFO,
        "order %(order_id)r is being sent by another client; its outcome is awaited for %(seconds)g s, until %(until)s",
    )
    ORDER_ACCEPTED = "order.accepted", INFO, _OUTCOME
    """``model``"""
    ORDER_REJECTED = "order.rejected", INFO, _OUTCOME
    """The service refused the order. ``model``"""
    ORDER_UNCERTAIN = "order.uncertain", WARNING, _OUTCOME
    """It is unknown whether the service accepted the order. If its process was killed in the middle of the create, it
    is reported by the first client that reads the order afterwards. ``model``"""
    ORDER_NOT_SENT = "order.not_sent", INFO, _OUTCOME
    """``model``"""
    ORDER_CONFIRMED = "order.confirmed", INFO, "order %(order_id)r: the service confirmed task %(task_id)s as its task"
    """The order was uncertain, and the task one of its candidates."""
    ORDER_WRITE_FAILED = (
        "order.write_failed",
        ERROR,
        "order %(order_id)r: its outcome (%(outcome)s, task %(task_id)s) could not be written: %(error)s",
    )
    """WARNING where the write has failed before, and the client is open."""
    ORDER_WRITTEN_LATE = "order.written_late", WARNING, "order %(order_id)r: written now: %(outcome)s, task %(task_id)s"
    """After such a failure."""
    ORDER_DUPLICATED = "order.duplicated", ERROR, "order %(order_id)r has several tasks, check all: %(task_ids)s"
    TASK_SHARED = "task.shared", ERROR, "order %(order_id)r: task %(task_id)s also belongs to order %(other_order_id)r"
    RESULTS_WRITE_FAILED = "results.write_failed", WARNING, "%(count)d results of tasks could not be written: %(error)s"
    """How tasks ended. INFO after the first time."""
    ORDER_READ_FAILED = "order.read_failed", WARNING, "order %(order_id)r: the journal could not be read: %(error)s"
    """When the client was closed."""
    ORDERS_UNANSWERED = "orders.unanswered", WARNING, "closed after %(seconds)g s (grace), %(count)d orders unanswered"
    BALANCE_READ_FAILED = "balance.read_failed", INFO, "no balance after %(count)d uncertain creates: %(error)s"
    JOURNAL_CONNECTION_REFUSED = (
        "journal.connection_refused",
        WARNING,
        "journal %(journal)s: fewer connections than max_connections; operations wait for these: %(error)s",
    )
    JOURNAL_LOCKED = "journal.locked", WARNING, "journal %(path)s: still locked by another program; giving up"
    """For longer than the time limit."""
    JOURNAL_SESSION_FAILED = (
        "journal.session_failed",
        INFO,
        "journal %(journal)s: if this process ends, its orders stay sending until their deadlines: %(error)s",
    )
    JOURNAL_WORLD_READABLE = "journal.world_readable", WARNING, "journal %(path)s: everyone has access (mode %(mode)o)"
    CATALOG_FETCH_FAILED = (
        "catalog.fetch_failed",
        WARNING,
        "could not fetch the catalog; skipping validation of model %(model)s against it: %(error)s",
    )
    """DEBUG after the first time, and for a refused API key."""
    REQUEST_RETRIED = "request.retried", WARNING, "%(error)s; retrying for up to %(seconds)g s"
    """A read. INFO for its further attempts. ``op``, ``request_id``"""
    REQUEST_ENDED = "request.ended", DEBUG, "%(method)s %(path)s"
    """A request has its status line, or failed. Reported only where DEBUG is enabled. ``op``, ``status``, ``error``,
    ``cause``, ``milliseconds``, ``request_id``, ``attempt``"""
    BUDGET_UNDERESTIMATED = (
        "budget.underestimated",
        ERROR,
        "%(excess)s: no further order is sent by this client; correct the price of its budget",
    )
    """A task cost more points than the price of the budget has estimated."""
    DOWNLOAD_RETRIED = "download.retried", INFO, "download of %(task_id)s: resumed in %(seconds).1f s (%(error)s)"
    DOWNLOAD_ENDED = "download.ended", DEBUG, "download of %(task_id)s: %(size)d B, %(seconds).1f s, error %(error)s"
    DOWNLOAD_LINK_FAILED = (
        "download.link_failed",
        WARNING,
        "task %(task_id)r: the content endpoint failed, and so did the task's video_url: %(error)s",
    )
    TASK_CHANGED = "task.changed", DEBUG, "task %(task_id)s: %(state)s"
    """A watched task."""
    TASK_ENDED = "task.ended", INFO, "task %(task_id)s: %(state)s"
    """A watched task is terminal. What the service states of: ``model``, ``points``, ``seconds`` since its creation"""
    TASK_UNKNOWN_STATE = (
        "task.unknown_state",
        WARNING,
        "task %(task_id)s: state %(state)r is unknown; polling continues",
    )
    """Section 3 does not name it."""
    WAIT_STARTED = "wait.started", DEBUG, "wait %(wait)d: started for %(count)d tasks"
    """A call waits for tasks; ``wait`` is its number in the process. ``task_id`` (None if several)"""
    WAIT_ENDED = "wait.ended", DEBUG, "wait %(wait)d: ended (%(error)s)"
    POLL_FAILED = "poll.failed", INFO, "task %(task_id)s: poll failed: %(error)s (%(fault)s, request %(request_id)s)"
    """Polling continues."""
    WATCH_FAILED = "watch.failed", INFO, "task %(task_id)s: stopped watching it: %(error)s"
    WATCHER_PAUSED = "watcher.paused", WARNING, "task %(task_id)s: 429, pausing all polls for %(seconds)g s"
    WATCHER_RESUMED = "watcher.resumed", INFO, "polls resume after a pause of %(seconds)g s"
    WATCHER_LATE = (
        "watcher.late",
        WARNING,
        "polls are %(late).1f s late: each of %(count)d tasks is polled every %(seconds).0f s, not %(interval)g s",
    )
    """``concurrency``"""
    WATCHER_ON_TIME = "watcher.on_time", INFO, "polls are on time again: every %(interval)g s"
    WATCHER_FAILED = "watcher.failed", ERROR, "the watcher failed"
    """With a traceback; every wait ends with this error."""
    PLAIN_READS_MISSING = "plain_reads.missing", INFO, "this aiohttp lacks %(names)s, so that reads take more CPU"
    """Once: they are sent by its session."""
    TELEMETRY_FAILED = "telemetry.failed", WARNING, "telemetry raised %(error)s; only telemetry is lost"
    """Once for each transport or meter provider."""
    CASSETTE_WRITE_FAILED = "cassette.write_failed", WARNING, "the recording at %(path)s is incomplete: %(error)s"
    """It cannot be written any more; nothing of it is published."""
    CASSETTE_NOT_PUBLISHED = "cassette.not_published", WARNING, "the recording is not published; it is in %(path)s"
    CASSETTE_LIVE_CREATE = (
        "cassette.live_create",
        WARNING,
        "a create is sent to the service; its order is in memory only, as %(path)s has replayed ones",
    )
    """By an appending transport: it is not on the cassette."""
    CASSETTE_UNFINISHED = "cassette.unfinished", WARNING, "%(count)d requests have no outcome in %(path)s"
    HOOK_FAILED = "hook.failed", ERROR, "%(hook)s failed with %(error)s"
    """An ``on_receipt`` or ``on_update`` raised; with its traceback. ``order_id``, ``task_id``"""
    HOOK_CANCELLED = "hook.cancelled", WARNING, "%(hook)s was cancelled"
    """Or it took too long. ``order_id``, ``task_id``, ``count``, ``seconds``"""
    HOOK_BEHIND = "hook.behind", WARNING, "%(hook)s: %(count)d calls are running, the maximum; later changes wait"
    """Once."""

    def log(
        self,
        logger: logging.Logger,
        *,
        level: int | None = None,
        details: str = "",
        exc_info: BaseException | None = None,
        **fields: object,
    ) -> None:
        """Notify the listeners; log the message, with ``details`` at its end (formatted likewise), and the fields."""
        for listener in listeners:
            with UserCode(is_awaited=False):
                listener(self, fields)
        level = self.usual_level if level is None else level
        with UserCode(is_awaited=False):
            if not logger.isEnabledFor(level):
                return
            file, line, function, _ = logger.findCaller(stacklevel=2)
            args = (fields,) if fields else ()
            raised = None if exc_info is None else (type(exc_info), exc_info, exc_info.__traceback__)
            facts = (logger.name, level, file, line, self.message + details, args, raised, function)
            with UserCode(is_awaited=False) as factory:
                record = logger.makeRecord(*facts)
            if factory.error is not None:  # it may need a context that the SDK's own workers do not have
                record = logging.LogRecord(*facts)
            # As ``extra`` they would raise KeyError, if the record factory has set an attribute of the same name.
            vars(record).update(fields, event_name=str(self))
            logger.handle(record)


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


@contextmanager
def contain_hook(logger: logging.Logger, hook: str, /, **fields: Any) -> Iterator[None]:
    """Log what a caller's ``hook`` raises in this block, unless it must propagate."""
    subject = "".join(f", {name.removesuffix('_id')} %({name})s" for name in fields)
    caller = current_task()
    try:
        yield
    except BaseException as error:
        if must_propagate(error, caller):
            raise
        if isinstance(error, asyncio.CancelledError):
            Event.HOOK_CANCELLED.log(logger, details=subject, hook=hook, **fields)
            return
        name = type(error).__name__
        Event.HOOK_FAILED.log(logger, details=subject, exc_info=error, hook=hook, error=name, **fields)


def contained(on_progress: Callable[P, object] | None) -> Callable[P, None]:
    """Return a function that calls ``on_progress``, if there is one, until it raises, which is logged."""
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
        raise TypeError("on_progress must not be async: its calls are not awaited")


class EnvironmentHandler(logging.StreamHandler[TextIO]):
    """Writes the records that no handler of the program receives, whenever that was configured."""

    def emit(self, record: logging.LogRecord) -> None:
        if not self._is_handled(record):
            self.stream = sys.stderr  # as it is now: tests and terminals replace it
            super().emit(record)

    def _is_handled(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(not isinstance(one, EnvironmentHandler | logging.NullHandler) for one in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def follow_environment() -> None:
    """Set the level of the SDK's loggers to that of VIDGEN_LOG, and show their records, if it is set."""
    value = os.environ.get("VIDGEN_LOG", "").strip()
    if not value:
        return
    level = {"info": INFO, "debug": DEBUG}.get(value.lower())
    if level is None:
        message = f"VIDGEN_LOG must be info or debug: {value[:40]!r} is ignored"
        warnings.warn(message, UserWarning, stacklevel=3)
        return
    logger = logging.getLogger("vidgen_async")
    logger.setLevel(level)
    if not any(isinstance(handler, EnvironmentHandler) for handler in logger.handlers):
        handler = EnvironmentHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)

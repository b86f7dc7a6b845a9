"""What is observed: the watcher and the orders of a client, and the events of the process."""

import asyncio
import logging
import threading
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import Context
from datetime import UTC, datetime
from types import TracebackType

from vidgen_async import Client
from vidgen_async.events import Event, listeners
from vidgen_async.types import Orders, OrderStateName, Watcher
from vidgen_async.user_code import current_task, must_propagate

logger = logging.getLogger(__name__)

#: The states of orders that are counted, and the maximum number of orders that is counted in each.
_STATES: tuple[OrderStateName, ...] = ("queued", "sending", "uncertain")
_MOST_COUNTED = 10_000


class Guard:
    """A block of telemetry, which suppresses exceptions, so that no request is affected; the first one is logged."""

    __slots__ = ("_has_logged",)

    def __init__(self) -> None:
        self._has_logged = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if error is None or must_propagate(error, current_task()):
            return False
        if not self._has_logged:
            self._has_logged = True
            Event.TELEMETRY_FAILED.log(logger, error=type(error).__name__)
        return True


class Observer(AbstractContextManager["Observer"]):
    """Returned by :func:`observe`; reports until it or its client is closed or the client is garbage collected. Leaving
    its ``with`` block closes it."""

    def __init__(self, client: Client, attributes: Mapping[str, str], subscribers: tuple["Subscriber", ...]) -> None:
        self.attributes: dict[str, str] = dict(attributes)
        self.order_counts: Mapping[str, int] = {}
        """The number of orders in each state, as last read."""
        self._uncertain_since: datetime | None = None
        self._watcher = weakref.ref(client.watcher)
        self._orders: weakref.ref[Orders] = weakref.ref(client.orders)
        self._subscribers = subscribers
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Task[None] | None = None
        self._guard = Guard()
        self._is_closed = False

    @property
    def watcher(self) -> Watcher | None:
        """The client's watcher; None if nothing is reported any more."""
        watcher = None if self._is_closed else self._watcher()
        return None if watcher is None or watcher.is_closed else watcher

    @property
    def uncertain_age(self) -> float | None:
        """The seconds since the oldest order that was uncertain then was sent; None if there was none."""
        since = self._uncertain_since
        return None if since is None else (datetime.now(UTC) - since).total_seconds()

    def request_orders(self) -> None:
        """Have the orders read soon, on the event loop of the client. It can be called in any thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._start_reader)

    def _start_reader(self) -> None:
        if self._reader is None or self._reader.done():
            self._reader = self._loop.create_task(self._read_orders(), name="vidgen order metrics", context=Context())

    async def _read_orders(self) -> None:
        counts: dict[str, int] = {}
        with self._guard:
            for state in _STATES:
                orders = self._orders()
                if orders is None or self.watcher is None:
                    return
                found = await orders.list(state, limit=_MOST_COUNTED)
                counts[state] = len(found)
            sent = (attempt.sent_at for order in found for attempt in order.unclear)
            self.order_counts, self._uncertain_since = counts, min(sent, default=None)

    def close(self) -> None:
        """Stop reporting. It can be called several times."""
        self._is_closed = True
        if self._reader is not None:
            with suppress(RuntimeError):  # as above
                self._loop.call_soon_threadsafe(self._reader.cancel)
        for subscriber in self._subscribers:
            subscriber.refresh()

    def __exit__(self, *_: object) -> None:
        self.close()


class Subscriber:
    """Receives the events of the process while there are observers."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._guard = Guard()
        self._lock = threading.Lock()

    @property
    def is_active(self) -> bool:
        """Whether the client of an observer is open."""
        return any(observer.watcher is not None for observer in self.observers)

    def refresh(self, *more: Observer) -> None:
        """Add observers, and remove those that report nothing any more."""
        with self._lock:
            self.observers = tuple(one for one in (*self.observers, *more) if one.watcher is not None)
            is_listening = self._receive in listeners
            if self.observers and not is_listening:
                listeners.append(self._receive)
            elif not self.observers and is_listening:
                listeners.remove(self._receive)

    def on_event(self, event: Event, fields: Mapping[str, object]) -> None:
        """Handle an event. It may raise."""
        raise NotImplementedError

    def _receive(self, event: Event, fields: Mapping[str, object]) -> None:
        with self._guard:
            self.on_event(event, fields)

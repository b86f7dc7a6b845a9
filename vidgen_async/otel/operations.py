"""Spans of orders and of waits, made of the events of the process."""

import asyncio
import weakref
from collections.abc import Mapping
from functools import partial
from itertools import islice

from opentelemetry import context, trace

from vidgen_async import __version__
from vidgen_async.events import OUTCOMES, Event, current_order, current_waits
from vidgen_async.otel.observer import Observer, Subscriber
from vidgen_async.redaction.messages import hide_secrets

_ORDER = context.create_key("vidgen.order")
"""The key of an order's span in the contexts of its worker."""
#: The names of attributes for fields of events that may be shown.
_ATTRIBUTES = {
    "count": "vidgen.task_count",
    "error": "error.type",
    "status": "http.response.status_code",
    **{
        name: f"vidgen.{name}"
        for name in ("attempt", "model", "order_id", "outcome", "points", "request_id", "seconds", "state", "task_id")
    },
}
_OF_ORDERS = OUTCOMES | {Event.ORDER_PACED, Event.ORDER_AWAITED}
_OF_WAITS = frozenset({Event.POLL_FAILED, Event.TASK_ENDED})
#: The maximum number of waits that are found for one poll.
_MOST_WAITS = 100


class OperationSpans(Subscriber):
    """Spans of one tracer provider."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        super().__init__()
        self._tracer = trace.get_tracer("vidgen_async", __version__, provider)
        self._waits: dict[object, trace.Span] = {}

    def refresh(self, *more: Observer) -> None:
        """See the base class. Without observers the ends of waits are not reported, so their spans end."""
        super().refresh(*more)
        if not self.observers:
            for number in tuple(self._waits):
                with self._guard:
                    _end(self._waits.pop(number), None)

    def waits(self) -> list[trace.Span]:
        """The spans of the waits for which the running code polls; of several hundred waits only the first ones."""
        numbers = islice(current_waits.get()(), _MOST_WAITS)
        return [self._waits[number] for number in numbers if number in self._waits]

    def on_event(self, event: Event, fields: Mapping[str, object]) -> None:
        """Start and end spans, and add what happens to them."""
        if event is Event.WAIT_STARTED and self.is_active:
            self._waits[fields["wait"]] = self._tracer.start_span("videos.wait", attributes=_attributes(fields))
        elif event is Event.WAIT_ENDED:
            if (ended := self._waits.pop(fields["wait"], None)) is not None:
                _end(ended, fields["error"])
        elif event is Event.ORDER_STARTED and self.is_active:
            self._start_order(fields)
        elif event in _OF_WAITS and self._waits:
            for wait in self.waits():
                wait.add_event(event, _attributes(fields))
        elif event in _OF_ORDERS and fields["order_id"] == current_order.get():
            order = context.get_value(_ORDER)
            if isinstance(order, trace.Span) and event in OUTCOMES:
                order.set_attributes(_attributes(fields))
            elif isinstance(order, trace.Span):
                order.add_event(event, _attributes(fields))

    def _start_order(self, fields: Mapping[str, object]) -> None:
        """Start the span of the order whose worker has reported its start; its requests are children."""
        worker = asyncio.current_task()
        if worker is not None:
            span = self._tracer.start_span("videos.order", attributes=_attributes(fields))
            context.attach(context.set_value(_ORDER, span, trace.set_span_in_context(span)))  # in the worker only
            worker.add_done_callback(partial(self._end_order, span))

    def _end_order(self, span: trace.Span, worker: "asyncio.Task[None]") -> None:
        error = asyncio.CancelledError() if worker.cancelled() else worker.exception()
        with self._guard:
            _end(span, None if error is None else type(error).__name__)


def _end(span: trace.Span, error: object) -> None:
    if error is not None:
        span.set_attribute("error.type", str(error))
        span.set_status(trace.Status(trace.StatusCode.ERROR))
    span.end()


def _attributes(fields: Mapping[str, object]) -> dict[str, str | int | float]:
    """The facts of an event that may be shown."""
    found: dict[str, str | int | float] = {}
    for name, value in fields.items():
        if name in _ATTRIBUTES and isinstance(value, str | int | float):
            found[_ATTRIBUTES[name]] = hide_secrets(value) if isinstance(value, str) else value
    return found


_spans: weakref.WeakKeyDictionary[trace.TracerProvider, OperationSpans] = weakref.WeakKeyDictionary()


def operation_spans(provider: trace.TracerProvider | None) -> OperationSpans:
    """The spans of a provider, by default the global one."""
    provider = provider or trace.get_tracer_provider()
    return _spans.get(provider) or _spans.setdefault(provider, OperationSpans(provider))

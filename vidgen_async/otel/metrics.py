"""Metrics of a client's watcher and orders, and of the events of the process."""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from opentelemetry import metrics, trace

from vidgen_async import Client, __version__
from vidgen_async.errors import ConfigurationError
from vidgen_async.events import OUTCOMES, Event
from vidgen_async.otel.observer import Observer, Subscriber
from vidgen_async.otel.operations import operation_spans
from vidgen_async.types import WatcherStats

_Points: TypeAlias = Iterable[tuple[float, Mapping[str, str]]]

#: Name after ``vidgen.``, instrument, unit and description.
_OBSERVED = (
    ("watcher.tasks", "up_down_counter", "{task}", "Watched tasks."),
    ("watcher.active_polls", "up_down_counter", "{poll}", "Polls in progress."),
    ("watcher.polls", "counter", "{poll}", "Polls, including failed ones."),
    ("watcher.poll_errors", "counter", "{poll}", "Polls that failed."),
    ("watcher.lateness", "gauge", "s", "By how much polls start later than scheduled."),
    ("watcher.interval", "gauge", "s", "Polling interval of one task."),
    ("watcher.paused", "gauge", "{pause}", "Whether a 429 pauses all polls."),
    ("order.count", "gauge", "{order}", "Orders that are not settled, by state."),
    ("order.uncertain_age", "gauge", "s", "Time since the oldest uncertain order was sent."),
)
#: The same of counters.
_COUNTERS = (
    ("creates", "{create}", "Creates by outcome."),
    ("task.ended", "{task}", "Tasks that ended."),
    ("task.points", "{point}", "Points charged for tasks that ended."),
    ("download.size", "By", "Size of downloads."),
)
#: The same of histograms, with their boundaries: those of all processes are the same, so that they can be added.
_HISTOGRAMS = (
    (
        "task.duration",
        "s",
        "Time from the creation of a task to its end, as the service states them.",
        (15, 30, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 21600, 86400),
    ),
    ("download.duration", "s", "Duration of downloads.", (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)),
)
#: The maximum number of tasks whose end is remembered, so that a task that is awaited again is not counted again.
_MOST_ENDED = 10_000


def _read(stats: WatcherStats, observer: Observer) -> Mapping[str, _Points]:
    """Return the values of each instrument with their attributes."""
    lateness = {"p50": stats.lateness_p50, "p99": stats.lateness_p99, "max": stats.lateness_max}
    age = observer.uncertain_age
    return {
        "watcher.tasks": [(stats.tasks, {})],
        "watcher.active_polls": [(stats.in_flight, {})],
        "watcher.polls": [(stats.polls, {})],
        "watcher.poll_errors": [(count, {"error.type": name}) for name, count in stats.errors.items()],
        "watcher.lateness": [(seconds, {"vidgen.statistic": name}) for name, seconds in lateness.items()],
        "watcher.interval": [(stats.interval_now, {})],
        "watcher.paused": [(int(stats.paused_until is not None), {})],
        "order.count": [(count, {"vidgen.state": state}) for state, count in observer.order_counts.items()],
        "order.uncertain_age": [] if age is None else [(age, {})],
    }


class _Instruments(Subscriber):
    """The instruments of one provider, made once: OpenTelemetry cannot remove an observable instrument, and never reads
    a second one of the same name."""

    def __init__(self, meter: metrics.Meter) -> None:
        super().__init__()
        make = {
            "counter": meter.create_observable_counter,
            "up_down_counter": meter.create_observable_up_down_counter,
            "gauge": meter.create_observable_gauge,
        }
        for name, kind, unit, description in _OBSERVED:
            make[kind](f"vidgen.{name}", [partial(self._observe, name)], unit, description)
        self._counters = {name: meter.create_counter(f"vidgen.{name}", *facts) for name, *facts in _COUNTERS}
        self._histograms = {
            name: meter.create_histogram(f"vidgen.{name}", *facts, explicit_bucket_boundaries_advisory=boundaries)
            for name, *facts, boundaries in _HISTOGRAMS
        }
        self._ended_tasks: dict[str, None] = {}

    def check(self, attributes: Mapping[str, str]) -> None:
        """Raise ConfigurationError if another client is observed with these attributes."""
        if any(other.attributes == attributes and other.watcher is not None for other in self.observers):
            raise ConfigurationError(
                "another client is observed with the same attributes, so their values could not be distinguished; "
                'give each its own: observe(client, attributes={"vidgen.client": "…"})'
            )

    def on_event(self, event: Event, fields: Mapping[str, object]) -> None:
        """Count what has ended."""
        if not self.is_active:
            return
        attributes = {"vidgen.model": str(fields["model"])} if fields.get("model") is not None else {}
        if event in OUTCOMES:
            self._counters["creates"].add(1, {"vidgen.outcome": str(fields["outcome"]), **attributes})
        elif event is Event.TASK_ENDED:
            self._count_end(fields, {"vidgen.state": str(fields["state"]), **attributes})
        elif event is Event.DOWNLOAD_ENDED:
            failed = {} if fields["error"] is None else {"error.type": str(fields["error"])}
            self._histograms["download.duration"].record(_number(fields, "seconds"), failed)
            self._counters["download.size"].add(_number(fields, "size"))

    def _count_end(self, fields: Mapping[str, object], attributes: Mapping[str, str]) -> None:
        task_id = str(fields["task_id"])
        if task_id in self._ended_tasks:
            return
        self._ended_tasks[task_id] = None
        if len(self._ended_tasks) > _MOST_ENDED:
            del self._ended_tasks[next(iter(self._ended_tasks))]
        self._counters["task.ended"].add(1, attributes)
        self._counters["task.points"].add(_number(fields, "points"), attributes)
        if "seconds" in fields:
            self._histograms["task.duration"].record(_number(fields, "seconds"), attributes)

    def _observe(self, name: str, options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for observer in self.observers:
            watcher = observer.watcher
            for value, facts in () if watcher is None else _read(watcher.stats, observer)[name]:
                yield metrics.Observation(value, {**observer.attributes, **facts})
            if name == "order.count":
                observer.request_orders()


def _number(fields: Mapping[str, object], name: str) -> float:
    """A number that is at least 0: a counter accepts no other one."""
    value = fields.get(name)
    return max(value, 0) if isinstance(value, int | float) else 0


_instruments: weakref.WeakKeyDictionary[metrics.MeterProvider, _Instruments] = weakref.WeakKeyDictionary()


def observe(
    client: Client,
    meter_provider: metrics.MeterProvider | None = None,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Observer:
    """Report the metrics of the client's watcher and orders, and of what ends in this process; and the spans of orders
    and waits (the tables in the module's documentation). Call it on the client's event loop.

    Values are computed in the thread that collects them. But the orders of the client's account are read from the
    journal on the event loop, now and at each collection, for the next one: these values are as old as the previous
    collection, and nothing is read while nothing is collected. Reporting ends when the returned observer or the client
    is closed; then the spans of waits in progress end, too.

    Args:
        client: The client to observe.
        meter_provider: Default: the global one.
        tracer_provider: Default: the global one.
        attributes: Added to every metric of the watcher and of the orders.

    Raises:
        ConfigurationError: Another client is observed with the same attributes at the same time.
        RuntimeError: No event loop is running.
    """
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    found = _instruments.get(provider)
    if found is None:
        found = _instruments[provider] = _Instruments(metrics.get_meter("vidgen_async", __version__, provider))
    found.check(attributes or {})
    subscribers = (found, operation_spans(tracer_provider))
    observer = Observer(client, attributes or {}, subscribers)
    for subscriber in subscribers:
        subscriber.refresh(observer)
    observer.request_orders()
    return observer

"""Metrics of a client's watcher, and of the outcomes of creates."""

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

from opentelemetry import metrics

from vidgen_async import __version__, events
from vidgen_async.client import Client
from vidgen_async.errors import ConfigurationError
from vidgen_async.otel.guard import Guard
from vidgen_async.watcher import Watcher, WatcherStats

_Points: TypeAlias = Iterable[tuple[float, Mapping[str, str]]]


#: Name after ``vidgen.watcher.``, instrument, unit and description.
_WATCHER = (
    ("tasks", "up_down_counter", "{task}", "Watched tasks."),
    ("active_polls", "up_down_counter", "{poll}", "Polls in progress."),
    ("polls", "counter", "{poll}", "Polls, including failed ones."),
    ("poll_errors", "counter", "{poll}", "Polls that failed."),
    ("lateness", "gauge", "s", "By how much polls start later than scheduled."),
    ("interval", "gauge", "s", "Polling interval of one task."),
    ("paused", "gauge", "1", "Whether a 429 pauses all polls."),
)


def _read(stats: WatcherStats) -> Mapping[str, _Points]:
    """Return the values of each instrument with their attributes."""
    lateness = {"p50": stats.lateness_p50, "p99": stats.lateness_p99, "max": stats.lateness_max}
    return {
        "tasks": [(stats.tasks, {})],
        "active_polls": [(stats.in_flight, {})],
        "polls": [(stats.polls, {})],
        "poll_errors": [(count, {"error.type": name}) for name, count in stats.errors.items()],
        "lateness": [(seconds, {"vidgen.statistic": name}) for name, seconds in lateness.items()],
        "interval": [(stats.interval_now, {})],
        "paused": [(int(stats.paused_until is not None), {})],
    }


class Observer(AbstractContextManager["Observer"]):
    """Returned by :func:`observe`; reports until it or its client is closed or the client is garbage collected. Leaving
    its ``with`` block closes it."""

    def __init__(self, watcher: Watcher, attributes: Mapping[str, str], instruments: "_Instruments") -> None:
        self.attributes: dict[str, str] = dict(attributes)
        self._watcher = weakref.ref(watcher)
        self._instruments = instruments
        self._is_closed = False

    @property
    def watcher(self) -> Watcher | None:
        """The client's watcher; None if nothing is reported any more."""
        watcher = None if self._is_closed else self._watcher()
        return None if watcher is None or watcher.is_closed else watcher

    def close(self) -> None:
        """Stop reporting. It can be called several times."""
        self._is_closed = True
        self._instruments.refresh()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Instruments:
    """The instruments of one provider, made once: OpenTelemetry cannot remove an observable instrument, and never reads
    a second one of the same name."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._observers: tuple[Observer, ...] = ()
        self._lock = threading.Lock()
        make = {
            "counter": meter.create_observable_counter,
            "up_down_counter": meter.create_observable_up_down_counter,
            "gauge": meter.create_observable_gauge,
        }
        for name, kind, unit, description in _WATCHER:
            make[kind](f"vidgen.watcher.{name}", [partial(self._observe, name)], unit, description)
        self._guard = Guard()
        self._creates = meter.create_counter("vidgen.creates", "{create}", "Creates by outcome.")

    def add(self, watcher: Watcher, attributes: Mapping[str, str]) -> Observer:
        observer = Observer(watcher, attributes, self)
        if any(other.attributes == observer.attributes and other.watcher is not None for other in self._observers):
            raise ConfigurationError(
                "another client is observed with the same attributes, so their values could not be distinguished; "
                'give each its own: observe(client, attributes={"vidgen.client": "…"})'
            )
        self.refresh(observer)
        return observer

    def refresh(self, *more: Observer) -> None:
        """Remove observers that report nothing any more. Events are received while any is left."""
        with self._lock:
            self._observers = tuple(one for one in (*self._observers, *more) if one.watcher is not None)
            is_listening = self._on_event in events.listeners
            if self._observers and not is_listening:
                events.listeners.append(self._on_event)
            elif not self._observers and is_listening:
                events.listeners.remove(self._on_event)

    def _observe(self, name: str, options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for observer in self._observers:
            watcher = observer.watcher
            for value, facts in () if watcher is None else _read(watcher.stats)[name]:
                yield metrics.Observation(value, {**observer.attributes, **facts})

    def _on_event(self, event: events.Event, fields: Mapping[str, object]) -> None:
        if event in events.OUTCOMES and any(one.watcher is not None for one in self._observers):
            with self._guard:
                self._creates.add(1, {"vidgen.outcome": str(fields["outcome"])})


_instruments: weakref.WeakKeyDictionary[metrics.MeterProvider, _Instruments] = weakref.WeakKeyDictionary()


def observe(
    client: Client,
    meter_provider: metrics.MeterProvider | None = None,
    *,
    attributes: Mapping[str, str] | None = None,
) -> Observer:
    """Report the metrics of the client's watcher and of creates (the table in the module's documentation).

    Values are computed in the thread that collects them. Reporting ends when the returned observer or the client is
    closed.

    Args:
        client: The client to observe.
        meter_provider: Default: the global one.
        attributes: Added to every metric of the watcher.

    Raises:
        ConfigurationError: Another client is observed with the same attributes at the same time.
    """
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    found = _instruments.get(provider)
    if found is None:
        found = _instruments[provider] = _Instruments(metrics.get_meter("vidgen_async", __version__, provider))
    return found.add(client.watcher, attributes or {})

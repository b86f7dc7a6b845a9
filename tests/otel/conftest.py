"""Providers that store what is reported, and a client whose service is a script with a clock of its own."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Request

KEY = "sk-4711-of-the-lighthouse"
BASE_URL = "http://localhost:8017/openapi/v1"


class Numbers:
    """The metrics of one provider."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def found(self) -> Iterator[Any]:
        data = self.reader.get_metrics_data()
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                yield from scope.metrics

    def points(self, name: str) -> list[Any]:
        return [point for metric in self.found() if metric.name == name for point in metric.data.data_points]

    def values(self, name: str, *attributes: str) -> Any:
        """The values by the values of these attributes; without any, the only value, or None."""
        points = self.points(name)
        if attributes:
            return {tuple(point.attributes[key] for key in attributes): point.value for point in points}
        assert len(points) <= 1
        return points[0].value if points else None


@pytest.fixture
def numbers() -> Iterator[Numbers]:
    made = Numbers()
    yield made
    made.provider.shutdown()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


class ScriptedService:
    """Answers each poll of a task with what ``answer(task_id)`` returns: a state, or a response."""

    def __init__(self, clock: VirtualClock) -> None:
        self.answer: Callable[[str], str | BufferedResponse] = lambda task_id: "running"
        self.latency = 0.0
        self.transport = FakeTransport(self._handle)
        self.transport.clock = clock
        self._clock = clock

    async def _handle(self, request: Request) -> BufferedResponse:
        if self.latency:
            await self._clock.sleep(self.latency)
        task_id = request.url.name
        given = self.answer(task_id)
        if isinstance(given, BufferedResponse):
            return given
        return BufferedResponse(200, json.dumps({"id": task_id, "status": given}).encode())


@pytest.fixture
def script(clock: VirtualClock) -> ScriptedService:
    return ScriptedService(clock)


@pytest.fixture
async def make_client(script: ScriptedService) -> AsyncIterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(Client(KEY, base_url=BASE_URL, **{"transport": script.transport} | options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()

"""The dashboard and the rules of alerts query what Prometheus receives: checked against a real export on loopback."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import vidgen_async.otel
from tests.docs.documentation import ROOT, run_program
from vidgen_async import Client, UncertainCreateError
from vidgen_async.errors import TargetExistsError
from vidgen_async.otel import TracedTransport, observe
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import DirectTransport

PAGE = ROOT / "docs" / "how-to" / "telemetry.md"
#: The suffixes of units in names of Prometheus; units in braces have none.
SUFFIXES = {"s": "seconds", "By": "bytes"}
#: The labels that Prometheus makes itself.
OWN_LABELS = {"le", "job", "instance"}


class Receiver(HTTPServer):
    """Receives metrics by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.metrics: dict[str, Any] = {}
        self.url = f"http://127.0.0.1:{self.server_port}/api/v1/otlp/v1/metrics"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            export = ExportMetricsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in export.resource_metrics:
                for scope in resource.scope_metrics:
                    self.server.metrics.update({metric.name: metric for metric in scope.metrics})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def prometheus_names(metric: Any) -> set[str]:
    """The names that Prometheus gives the series of a metric (its translation UnderscoreEscapingWithSuffixes)."""
    kind = metric.WhichOneof("data")
    name = re.sub(r"\W", "_", metric.name)
    unit = "" if metric.unit.startswith("{") else SUFFIXES[metric.unit]
    if unit and unit not in name.split("_"):
        name += f"_{unit}"
    if kind == "sum" and metric.sum.is_monotonic:
        name = f"{name.removesuffix('_total')}_total"
    return {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}


def labels(metric: Any) -> set[str]:
    points = getattr(metric, metric.WhichOneof("data")).data_points
    return {re.sub(r"\W", "_", attribute.key) for point in points for attribute in point.attributes}


def queries() -> list[str]:
    """The expressions of the dashboard and of the rules on the page."""
    dashboard = json.loads((PAGE.parent / "vidgen-dashboard.json").read_text(encoding="utf-8"))
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return found + re.findall(r"^ +expr: (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


async def use_everything(receiver: Receiver, target: Any) -> None:
    """Export the metrics of a create, a wait, a download, and of a failure of each."""
    provider = run_program("def export_to_prometheus(")["export_to_prometheus"](receiver.url, instance="one")
    transport = TracedTransport(DirectTransport(), None, provider)
    async with (
        Sandbox(queued_for=0, running_for=0) as service,
        Client(service.api_key, base_url=service.base_url, poll_interval=0.05, transport=transport) as client,
    ):
        service.change_model("gen-2.0", durations=(1,))
        service.faults.add("videos.get", Fault.status(503))
        video = {"model": "gen-2.0", "prompt": "a boat", "duration": 1}
        with observe(client, provider):
            task = await client.videos.wait(await client.videos.create(**video))
            await client.videos.download(task, target)
            with pytest.raises(TargetExistsError):
                await client.videos.download(task, target, overwrite=False)
            service.faults.add("videos.create", Fault.close_after_body())
            with pytest.raises(UncertainCreateError):
                await client.videos.create(**video)
            for _ in range(2):  # the orders are those of the export before
                await asyncio.to_thread(provider.force_flush)
            await asyncio.to_thread(provider.shutdown)


@pytest.mark.slow
async def test_every_query_names_series_and_labels_that_prometheus_receives(receiver, tmp_path):
    await use_everything(receiver, tmp_path / "boat.mp4")

    series = {name: labels(metric) for metric in receiver.metrics.values() for name in prometheus_names(metric)}
    table = vidgen_async.otel.__doc__.partition("**Metrics**")[2]
    rows = re.findall(r"^``([\w.]+)`` +[\w -]+?  +(\S+) ", table, re.MULTILINE)
    assert dict(rows) == {name: metric.unit for name, metric in receiver.metrics.items()}, "the table in the docstring"
    assert len(queries()) > 15
    for query in queries():
        used = {one for group in re.findall(r"by \(([^)]*)\)", query) for one in group.split(", ")}
        used |= set(re.findall(r"(\w+)!?=", query))
        named = set(re.findall(r"\b(?:vidgen|http_client)_\w+", re.sub(r"by \([^)]*\)|\{[^}]*\}", "", query)))
        assert named, query
        assert named <= series.keys(), query
        for name in named:
            assert used - OWN_LABELS <= series[name], query
    queried = " ".join(queries())
    assert [name for name in receiver.metrics if name.replace(".", "_") not in queried] == [], "shown nowhere"


@pytest.mark.slow
async def test_downloads_are_timed_by_error_in_histograms_that_can_be_added(receiver, tmp_path):
    await use_everything(receiver, tmp_path / "boat.mp4")

    (size,) = receiver.metrics["vidgen.download.size"].sum.data_points
    assert size.as_int == (tmp_path / "boat.mp4").stat().st_size
    downloads = receiver.metrics["vidgen.download.duration"].histogram.data_points
    errors = [[attribute.value.string_value for attribute in point.attributes] for point in downloads]
    assert sorted(errors) == [[], ["TargetExistsError"]]
    histograms = {name: metric for name, metric in receiver.metrics.items() if metric.HasField("histogram")}
    assert histograms.keys() == {"http.client.request.duration", "vidgen.task.duration", "vidgen.download.duration"}
    for name, metric in histograms.items():
        assert len({tuple(point.explicit_bounds) for point in metric.histogram.data_points}) == 1, name

"""``TracedTransport``: one span for each request, without secrets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from yarl import URL

from tests.otel.conftest import KEY
from tests.transports.contract_harnesses import FakeHarness, only
from vidgen_async import Client, RejectedError, UncertainCreateError, VidgenError
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import BodyError, ConnectError
from vidgen_async.otel import TracedTransport, observe
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import DirectTransport, Transport
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.contract import Harness, TransportContract
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase, Request, make_headers

SERVICE = "http://localhost:8017/openapi/v1"
PROMPT = "the secret plan of the paper boat"
BOAT = Path(__file__).parents[2] / "examples" / "boat.png"
IDEMPOTENCY_KEY = "vg1-abcdefghijklmnopqrstuvwxyz234567abcdefghij"


def asked(
    path: str = "/videos/task-1", *, op: str = "videos.get", base: str = SERVICE, key: str | None = KEY
) -> Request:
    headers = [] if key is None else [("Authorization", f"Bearer {key}")]
    return Request(op=op, method="GET", url=URL(f"{base}{path}", encoded=True), headers=make_headers(headers))


def ordered() -> Request:
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": IDEMPOTENCY_KEY}
    body = BytesBody(f'{{"prompt": "{PROMPT}"}}'.encode())
    url = URL(f"{SERVICE}/videos")
    return Request(op="videos.create", method="POST", url=url, headers=make_headers(headers), body=body)


def answering(status: int = 200, body: bytes | AsyncIterator[bytes] = b"{}") -> FakeTransport:
    async def answer(request: Request) -> BufferedResponse:
        return BufferedResponse(status, body, url=request.url)

    return FakeTransport(answer)


def failing(error: BaseException) -> FakeTransport:
    async def fail(request: Request) -> BufferedResponse:
        raise error

    return FakeTransport(fail)


async def hang(request: Request) -> BufferedResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def pieces(*given: bytes | Exception) -> AsyncIterator[bytes]:
    for piece in given:
        if isinstance(piece, Exception):
            raise piece
        yield piece


async def take(transport: Transport, request: Request) -> bytes:
    async with await transport.send(request) as response:
        return await response.read()


async def create(transport: Transport) -> bytes:
    async with transport.connect(ordered()) as connection, await connection.send() as response:
        return await response.read()


def the_span(exporter):
    (span,) = exporter.get_finished_spans()
    return span


# -- the contract ----------------------------------------------------------------------------------------------------


@only("connect", "cancelled", "leaves", "leaving", "closing", "times_out")
class TestOnTheNetwork(TransportContract):
    """The tests that need connections; those below cover everything else."""

    @pytest.fixture(autouse=True)
    def traced(self, tracing, numbers) -> None:
        self.providers = (tracing, numbers.provider)

    def make_transport(self) -> Transport:
        return TracedTransport(DirectTransport(), *self.providers)


class TestOnAFake(TransportContract):
    @pytest.fixture(autouse=True)
    def traced(self, tracing) -> None:
        self.provider = tracing

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        harness = FakeHarness()
        harness.transport = TracedTransport(harness.transport, self.provider)
        yield harness

    # What a handler has begun is its own to end.
    test_closing_ends_the_sends_in_progress = None
    test_closing_ends_the_bodies_that_are_incomplete = None


async def test_nothing_is_added_to_the_request(tracing):
    inner = answering()
    request = asked()

    with tracing.get_tracer("app").start_as_current_span("a web request"):
        await take(TracedTransport(inner, tracing), request)

    assert [sent is request for sent in inner.requests] == [True]


# -- what a span tells -------------------------------------------------------------------------------------------------


async def test_a_read_is_one_child_span_with_the_request_and_the_status(tracing, exporter):
    with tracing.get_tracer("app").start_as_current_span("a web request") as parent:
        await take(TracedTransport(answering(), tracing), asked())

    span = exporter.get_finished_spans()[0]
    assert (span.name, span.kind, span.parent.span_id) == (
        "videos.get",
        SpanKind.CLIENT,
        parent.get_span_context().span_id,
    )
    assert span.attributes == {
        "http.request.method": "GET",
        "server.address": "localhost",
        "server.port": 8017,
        "url.template": "/videos/{id}",
        "url.full": f"{SERVICE}/videos/task-1",
        "http.response.status_code": 200,
        "vidgen.op": "videos.get",
        "vidgen.task_id": "task-1",
    }
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())
    assert span.instrumentation_scope.name == "vidgen_async"


async def test_a_span_lasts_until_the_body_was_read(tracing, exporter):
    transport = TracedTransport(answering(200, pieces(b"a", b"b")), tracing)
    async with await transport.send(asked()) as response:
        chunks = response.chunks()
        assert [await anext(chunks), await anext(chunks)] == [b"a", b"b"]
        assert exporter.get_finished_spans() == ()
        assert await anext(chunks, None) is None
        assert the_span(exporter).status.status_code is StatusCode.UNSET
    the_span(exporter)


async def test_a_span_ends_when_the_response_is_closed_before_its_end(tracing, exporter):
    async with await TracedTransport(answering(200, pieces(b"a", b"b")), tracing).send(asked()) as response:
        await anext(response.chunks())
    assert the_span(exporter).status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("status", "code"), [(307, StatusCode.UNSET), (404, StatusCode.ERROR), (503, StatusCode.ERROR)]
)
async def test_a_status_from_400_on_is_an_error(status, code, tracing, exporter):
    await take(TracedTransport(answering(status), tracing), asked())

    span = the_span(exporter)
    assert (span.status.status_code, span.status.description) == (code, None)
    assert span.attributes["http.response.status_code"] == status
    assert span.attributes.get("error.type") == (str(status) if code is StatusCode.ERROR else None)


async def test_a_truncated_body_is_an_error(tracing, exporter):
    transport = TracedTransport(answering(200, pieces(b"a", BodyError("broke off"))), tracing)
    with pytest.raises(BodyError):
        await take(transport, asked())

    span = the_span(exporter)
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "BodyError")
    assert (span.attributes["vidgen.delivery"], span.attributes["vidgen.phase"]) == ("answered", "body")


async def test_the_span_of_a_failure_has_its_evidence_and_the_names_of_classes(tracing, exporter):
    error = ConnectError(f"no way to {KEY}", delivery=Delivery.NOT_SENT, phase=Phase.DNS, op="videos.get")
    error.__cause__ = OSError(f"http://cdn/x?sig={KEY}")

    with pytest.raises(ConnectError) as caught:
        await take(TracedTransport(failing(error), tracing), asked())

    span = the_span(exporter)
    assert caught.value is error
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ConnectError (OSError)")
    assert (span.attributes["error.type"], "http.response.status_code" in span.attributes) == ("ConnectError", False)
    assert (span.attributes["vidgen.delivery"], span.attributes["vidgen.phase"]) == ("not_sent", "dns")
    assert KEY not in span.to_json()


async def test_a_span_ends_when_the_send_is_cancelled(tracing, exporter):
    sending = asyncio.create_task(create(TracedTransport(FakeTransport(hang), tracing)))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait({sending})

    assert sending.cancelled()
    assert the_span(exporter).attributes["error.type"] == "CancelledError"
    assert the_span(exporter).attributes["vidgen.delivery"] == "maybe_sent"


async def test_a_failure_to_connect_is_the_error_of_the_span(tracing, exporter):
    async def refuse(request: Request) -> None:
        raise ConnectError("refused", delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)

    with pytest.raises(ConnectError):
        await create(TracedTransport(FakeTransport(hang, on_connect=refuse), tracing))

    span = the_span(exporter)
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "ConnectError")
    assert (span.attributes["vidgen.delivery"], span.attributes["vidgen.phase"]) == ("not_sent", "connect")


async def test_connecting_that_is_cancelled_has_the_evidence_of_its_transport(tracing, exporter):
    creating = asyncio.create_task(create(TracedTransport(FakeTransport(hang, on_connect=hang), tracing)))
    await asyncio.sleep(0)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await creating

    assert caught.value.__cause__.delivery is Delivery.NOT_SENT
    span = the_span(exporter)
    assert (span.attributes["vidgen.delivery"], span.attributes["vidgen.phase"]) == ("not_sent", "connect")


@pytest.mark.parametrize("ends_by", [None, ConnectError("of the caller"), asyncio.CancelledError()])
async def test_a_create_that_is_not_sent_is_no_error(ends_by, tracing, exporter):
    with nullcontext() if ends_by is None else pytest.raises(type(ends_by)):
        async with TracedTransport(answering(), tracing).connect(ordered()):
            assert exporter.get_finished_spans() == ()
            if ends_by is not None:
                raise ends_by

    span = the_span(exporter)
    assert (span.status.status_code, span.attributes["vidgen.delivery"]) == (StatusCode.UNSET, "not_sent")


@pytest.mark.parametrize(
    ("request_", "shown", "task_id"),
    [
        (asked("/videos/task-1/content", op="videos.content"), f"{SERVICE}/videos/task-1/content", "task-1"),
        (asked("/models", op="models.list"), f"{SERVICE}/models", None),
        (asked("/videos/task-1?hush=hush#hush"), f"{SERVICE}/videos/task-1?…", "task-1"),
        (asked("/videos/a%2Fb"), f"{SERVICE}/videos/a%2Fb", None),
        (asked(f"/videos/{KEY}"), f"{SERVICE}/videos/…", None),
        (asked(f"/videos/{KEY.replace('-', '%2D')}"), f"{SERVICE}/videos/…", None),
        (
            asked("/videos/1", base="http://me:hush@localhost/openapi/v1"),
            "http://…@localhost/openapi/v1/videos/1",
            None,
        ),
        (asked("/hush/videos/1?sig=hush", base="https://cdn.test:444", key=None), "https://cdn.test:444/…", None),
        (asked("/hush", base="http://me:hush@cdn.test", key=None), "http://cdn.test/…", None),
    ],
    ids=lambda given: None if isinstance(given, Request) else str(given),
)
async def test_an_address_is_shown_without_its_secrets(request_, shown, task_id, tracing, exporter):
    await take(TracedTransport(answering(), tracing), request_)

    span = the_span(exporter)
    assert (span.attributes["url.full"], span.attributes.get("vidgen.task_id")) == (shown, task_id)
    assert "hush" not in span.to_json()
    assert KEY not in span.to_json()


# -- the duration ------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(clock):
    async def answer(request: Request) -> BufferedResponse:
        await clock.sleep(3.0)
        return BufferedResponse(404, b"{}")

    transport = FakeTransport(answer)
    transport.clock = clock
    return transport


async def test_the_duration_is_recorded_in_seconds_of_the_transports_clock(slow, tracing, numbers):
    await take(TracedTransport(slow, tracing, numbers.provider), asked())

    (metric,) = numbers.found()
    (point,) = metric.data.data_points
    assert (metric.name, metric.unit, point.count, point.sum) == ("http.client.request.duration", "s", 1, 3.0)
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert point.attributes == {
        "http.request.method": "GET",
        "server.address": "localhost",
        "server.port": 8017,
        "url.template": "/videos/{id}",
        "http.response.status_code": 404,
        "error.type": "404",
        "vidgen.op": "videos.get",
    }


async def test_requests_that_are_not_sampled_are_counted_too(slow, numbers):
    tracing = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    await take(TracedTransport(slow, tracing, numbers.provider), asked())
    assert numbers.points("http.client.request.duration")[0].count == 1


# -- all of it ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_no_span_or_metric_of_a_client_has_a_secret(tracing, exporter, numbers, tmp_path):
    transport = TracedTransport(DirectTransport(), tracing, numbers.provider, polls=True)
    async with (
        Sandbox(queued_for=0, running_for=0) as service,
        Client(service.api_key, base_url=service.base_url, poll_interval=0.05, transport=transport) as client,
    ):
        with observe(client, numbers.provider, tracer_provider=tracing):
            service.change_model("vendorh3", durations=(1,))
            asset = await client.files.upload(BOAT)
            video = {"model": "vendorh3", "prompt": PROMPT, "duration": 1, "image_ids": [asset.image_id]}
            receipt = await client.videos.create(**video)
            task = await client.videos.wait(receipt)
            await client.videos.download(task, tmp_path / "boat.mp4")
            for order_id, fault, kind in (
                ("refused", Fault.status(400, {"message": f"bad prompt: {PROMPT}, {service.api_key}"}), RejectedError),
                ("lost", Fault.close_after_body(), UncertainCreateError),
            ):
                service.faults.add("videos.create", fault)
                with pytest.raises(kind):
                    await client.videos.create(**video, order_id=order_id)
            with pytest.raises(VidgenError):
                await client.videos.get(service.api_key)

    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} >= {
        "models.list",
        "videos.create",
        "videos.get",
        "videos.content",
        "videos.order",
        "videos.wait",
    }
    assert [span.attributes["vidgen.delivery"] for span in spans if span.name == "videos.create"] == [
        "answered",
        "answered",
        "maybe_sent",
    ]
    assert any(span.attributes.get("url.full", "").endswith("/…") for span in spans), "one of them was a signed link"
    told = "\n".join([*(span.to_json() for span in spans), numbers.reader.get_metrics_data().to_json()])
    tokens = [url.partition(name)[2] for url, name in ((str(task.video_url), "sig="), (asset.url, "token="))]
    assert all(tokens)
    for secret in (service.api_key, PROMPT, receipt.idempotency_key, *tokens):
        assert secret not in told


async def test_polls_have_no_spans_and_are_counted(make_client, script, tracing, numbers, exporter, caplog):
    client = make_client(transport=TracedTransport(script.transport, tracing, numbers.provider))
    script.answer = lambda task_id: "completed"

    with tracing.get_tracer("app").start_as_current_span("a web request"):
        await client.videos.wait("a")
        await client.videos.get("a")

    get, request = exporter.get_finished_spans()
    assert (get.name, get.parent.span_id) == ("videos.get", request.context.span_id)
    assert numbers.points("http.client.request.duration")[0].count == 2
    assert caplog.records == []


class BrokenProcessor(SpanProcessor):
    """Raises in every method that the SDK calls."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.calls = 0

    def on_start(self, span: object, parent_context: object = None) -> None:
        self._called("on_start")

    def on_end(self, span: object) -> None:
        self._called("on_end")

    def _called(self, method: str) -> None:
        if method == self.method:
            self.calls += 1
            message = PROMPT
            raise RuntimeError(message)


@pytest.mark.parametrize("method", ["on_start", "on_end"])
async def test_what_telemetry_raises_for_orders_and_waits_affects_neither_them_nor_who_observes(
    script, make_client, numbers, method
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BrokenProcessor(method))
    client = make_client(transport=TracedTransport(answering(202, b'{"id": "task-1"}'), provider), clock=script._clock)
    with observe(client, numbers.provider, tracer_provider=provider):
        receipt = await client.videos.create(model="m", prompt=PROMPT, duration=5, validate=False)
        waiting = asyncio.create_task(client.videos.wait(receipt))
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert (receipt.task_id, waiting.cancelled()) == ("task-1", True)


@pytest.mark.parametrize("method", ["on_start", "on_end"])
async def test_an_exception_of_telemetry_changes_no_outcome_and_is_logged_once(
    caplog: pytest.LogCaptureFixture, method: str
) -> None:
    processor = BrokenProcessor(method)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    inner = answering(body=b'{"id": "task-1", "status": "completed"}')
    transport = TracedTransport(inner, provider, polls=True)

    async with Client(KEY, base_url=SERVICE, transport=transport, clock=VirtualClock()) as client:
        receipt = await client.videos.create(model="m", prompt=PROMPT, duration=5, order_id="order-1", validate=False)
        task = await client.videos.wait(receipt)
        errors = client.watcher.stats.errors

    assert (receipt.task_id, task.status, dict(errors)) == ("task-1", "completed", {})
    assert processor.calls >= 2
    (told,) = [record for record in caplog.records if getattr(record, "event_name", "") == "telemetry.failed"]
    assert "RuntimeError" in told.getMessage()
    assert PROMPT not in caplog.text

"""Spans of orders and waits: how an uncertain order is traced to its request, and what belongs to a wait."""

import asyncio
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from tests.otel.conftest import KEY
from vidgen_async import Pacing, TaskFailedError, UncertainCreateError, WaitTimeoutError, events
from vidgen_async.errors import ConnectionLostError
from vidgen_async.otel import TracedTransport, observe
from vidgen_async.transports import BufferedResponse, FakeTransport, make_headers

PROMPT = "the secret plan of the paper boat"
VIDEO = {"model": "gen-2.0", "prompt": PROMPT, "duration": 5, "validate": False}


@pytest.fixture
def observed(make_client, script, numbers, tracing, clock):
    """Makes a client whose orders, waits and requests are traced; a create is answered by ``answer_create``."""
    observers = []

    def make(answer_create=None, *, polls=False, tracing=tracing, **options):
        async def answer(request):
            if request.op == "videos.create":
                return answer_create()
            return await script._handle(request)

        transport = FakeTransport(answer)
        transport.clock = clock
        client = make_client(transport=TracedTransport(transport, tracing, numbers.provider, polls=polls), **options)
        observers.append(observe(client, numbers.provider, tracer_provider=tracing))
        return client

    yield make
    for observer in observers:
        observer.close()


def accepted(**headers: str) -> BufferedResponse:
    return BufferedResponse(202, b'{"id": "task-1"}', headers=make_headers(headers))


def spans_of(exporter, name):
    return [span for span in exporter.get_finished_spans() if span.name == name]


# -- orders ------------------------------------------------------------------------------------------------------------


async def test_an_order_is_a_span_of_its_caller_and_its_create_has_both_ids(observed, tracing, exporter):
    client = observed(lambda: accepted(**{"X-Request-Id": "req-7"}))
    with tracing.get_tracer("app").start_as_current_span("a web request") as caller:
        await client.videos.create(**VIDEO, order_id="order-1")
    await asyncio.sleep(0)

    (order,), (create,) = spans_of(exporter, "videos.order"), spans_of(exporter, "videos.create")
    assert (order.kind, order.parent.span_id) == (SpanKind.INTERNAL, caller.get_span_context().span_id)
    assert (create.kind, create.parent.span_id) == (SpanKind.CLIENT, order.context.span_id)
    assert (create.attributes["vidgen.order_id"], create.attributes["vidgen.request_id"]) == ("order-1", "req-7")
    assert create.attributes["url.template"] == "/videos"
    assert order.attributes == {
        "http.response.status_code": 202,
        "vidgen.attempt": 1,
        "vidgen.model": "gen-2.0",
        "vidgen.order_id": "order-1",
        "vidgen.outcome": "accepted",
        "vidgen.request_id": "req-7",
        "vidgen.task_id": "task-1",
    }
    assert order.status.status_code is StatusCode.UNSET


async def test_an_uncertain_order_is_found_with_its_create_although_there_was_no_answer(observed, exporter):
    def lose():
        raise ConnectionLostError(f"lost {PROMPT}", op="videos.create")

    client = observed(lose)
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**VIDEO, order_id="order-1")

    (order,), (create,) = spans_of(exporter, "videos.order"), spans_of(exporter, "videos.create")
    assert create.attributes["vidgen.order_id"] == order.attributes["vidgen.order_id"] == "order-1"
    assert (order.attributes["vidgen.outcome"], order.attributes["error.type"]) == ("uncertain", "UncertainCreateError")
    assert order.status.status_code is StatusCode.ERROR
    assert PROMPT not in order.to_json() + create.to_json()


async def test_a_create_has_its_order_id_where_nothing_is_observed(make_client, tracing, exporter):
    async def answer(request):
        return accepted()

    client = make_client(transport=TracedTransport(FakeTransport(answer), tracing))
    await client.videos.create(**VIDEO, order_id="order-1")

    (create,) = exporter.get_finished_spans()
    assert create.attributes["vidgen.order_id"] == "order-1"
    assert "vidgen.request_id" not in create.attributes


async def test_a_request_id_that_repeats_a_secret_is_shown_without_it(observed, exporter):
    client = observed(lambda: accepted(**{"X-Request-Id": f"req-{KEY}"}))
    await client.videos.create(**VIDEO, order_id="order-1")
    await asyncio.sleep(0)
    assert spans_of(exporter, "videos.create")[0].attributes["vidgen.request_id"] == "req-…"
    assert KEY not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_a_wait_for_the_submission_limit_is_an_event_of_the_order(observed, exporter):
    client = observed(accepted, pacing=Pacing(limit=1, window=60.0))
    await client.videos.create(**VIDEO, order_id="order-1")
    await client.videos.create(**VIDEO, order_id="order-2")
    await asyncio.sleep(0)

    first, second = spans_of(exporter, "videos.order")
    assert (first.events, [event.name for event in second.events]) == ((), ["order.paced"])
    assert second.events[0].attributes["vidgen.seconds"] == pytest.approx(60.0, abs=1.0)


async def test_what_is_found_of_another_order_is_not_added_to_the_order(observed, exporter):
    async def find_another(receipt):
        fields = {"order_id": "another", "outcome": "uncertain"}
        events.Event.ORDER_UNCERTAIN.log(logging.getLogger("vidgen_async.test"), level=logging.DEBUG, **fields)

    await observed(accepted).videos.create(**VIDEO, order_id="order-1", on_receipt=find_another)
    await asyncio.sleep(0)
    assert spans_of(exporter, "videos.order")[0].attributes["vidgen.outcome"] == "accepted"


# -- waits -------------------------------------------------------------------------------------------------------------


async def test_a_wait_is_one_span_and_its_failed_polls_are_events_of_it(observed, script, tracing, exporter):
    answers = iter(
        ["running", BufferedResponse(503, b"", headers=make_headers({"X-Request-Id": "req-9"})), "completed"]
    )
    script.answer = lambda task_id: next(answers)
    client = observed()
    with tracing.get_tracer("app").start_as_current_span("a web request") as caller:
        await client.videos.wait("a")

    wait, _ = exporter.get_finished_spans()
    assert (wait.name, wait.kind, wait.parent.span_id) == (
        "videos.wait",
        SpanKind.INTERNAL,
        caller.get_span_context().span_id,
    )
    assert wait.attributes == {"vidgen.task_count": 1, "vidgen.task_id": "a"}
    assert [(event.name, dict(event.attributes)) for event in wait.events] == [
        (
            "poll.failed",
            {"vidgen.task_id": "a", "error.type": "ServiceUnavailableError", "vidgen.request_id": "req-9"},
        ),
        ("task.ended", {"vidgen.task_id": "a", "vidgen.state": "completed"}),
    ]
    assert wait.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(("answer", "error"), [("failed", TaskFailedError), ("running", WaitTimeoutError)])
async def test_the_span_of_a_wait_that_raises_has_the_error(answer, error, observed, script, exporter):
    script.answer = lambda task_id: answer
    with pytest.raises(error):
        await observed().videos.wait("a", timeout=90.0)
    (wait,) = exporter.get_finished_spans()
    assert (wait.status.status_code, wait.attributes["error.type"]) == (StatusCode.ERROR, error.__name__)


async def test_a_watch_that_is_left_is_no_error(observed, exporter):
    watch = observed().videos.watch("a")
    await anext(watch)
    await watch.aclose()
    (wait,) = exporter.get_finished_spans()
    assert (wait.name, wait.status.status_code) == ("videos.wait", StatusCode.UNSET)


async def test_a_wait_for_many_tasks_is_one_span(observed, script, exporter):
    script.answer = lambda task_id: "completed"
    assert len([one async for one in observed().videos.as_completed(["a", "b", "c"])]) == 3
    (wait,) = exporter.get_finished_spans()
    assert wait.attributes == {"vidgen.task_count": 3}
    assert [event.attributes["vidgen.task_id"] for event in wait.events] == ["a", "b", "c"]


async def test_a_poll_with_a_span_is_a_child_of_a_wait_and_links_the_others(observed, script, exporter):
    script.answer = lambda task_id: "completed"
    client = observed(polls=True)
    await asyncio.gather(client.videos.wait("a"), client.videos.wait("a"))

    (poll,), (one, other) = spans_of(exporter, "videos.get"), spans_of(exporter, "videos.wait")
    assert poll.parent.span_id == one.context.span_id
    assert [link.context.span_id for link in poll.links] == [other.context.span_id]


async def test_polls_are_sampled_with_their_wait(observed, script, exporter):
    script.answer = lambda task_id: "completed"
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.0)), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await observed(polls=True, tracing=provider).videos.wait("a")
    assert exporter.get_finished_spans() == ()


async def test_the_span_of_a_wait_ends_with_its_client_or_its_observer(observed, make_client, tracing, exporter):
    closed = observed()
    waiting = asyncio.create_task(closed.videos.wait("a"))
    await asyncio.sleep(0)
    await closed.aclose()
    await asyncio.wait({waiting})
    assert exporter.get_finished_spans()[0].attributes["error.type"] == type(waiting.exception()).__name__

    client = make_client()
    with observe(client, tracer_provider=tracing, attributes={"vidgen.client": "other"}):
        waiting = asyncio.create_task(client.videos.wait("b"))
        await asyncio.sleep(0)
        assert len(exporter.get_finished_spans()) == 1
    assert exporter.get_finished_spans()[1].status.status_code is StatusCode.UNSET
    waiting.cancel()
    await asyncio.wait({waiting})
    assert len(exporter.get_finished_spans()) == 2

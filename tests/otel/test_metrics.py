"""``observe``: what the watcher does, as metrics that are computed when they are collected."""

import asyncio
import gc
import logging
import re
import weakref

import pytest

import vidgen_async.otel
from vidgen_async import Client, RejectedError, UncertainCreateError, events
from vidgen_async.errors import ConfigurationError
from vidgen_async.otel import TracedTransport, observe
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.types.http import make_headers

LOGGER = logging.getLogger("vidgen_async.test")
UNITS = {"s", "1", "{task}", "{poll}", "{create}"}


async def collect(tasks) -> None:
    async for _ in tasks:
        pass


@pytest.fixture
async def watching():
    """Starts watching, and stops at the end of the test."""
    workers = []

    async def start(client: Client, *task_ids: str) -> None:
        workers.append(asyncio.create_task(collect(client.videos.as_completed(task_ids, timeout=None))))
        await asyncio.sleep(0)

    yield start
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def test_the_watched_tasks_their_polls_and_failures_are_reported(make_client, script, clock, numbers, watching):
    script.answer = lambda task_id: BufferedResponse(503, b"") if task_id == "b" else "running"
    client = make_client()
    with observe(client, numbers.provider):
        await watching(client, "a", "b")
        await clock.sleep(90.0)

        assert numbers.values("vidgen.watcher.tasks") == 2
        assert numbers.values("vidgen.watcher.polls") == 4
        assert numbers.values("vidgen.watcher.poll_errors", "error.type") == {("ServiceUnavailableError",): 2}
        assert numbers.values("vidgen.watcher.interval") == 60.0
        assert numbers.values("vidgen.watcher.paused") == 0


async def test_polls_in_progress_and_their_lateness_are_reported(make_client, script, clock, numbers, watching):
    script.latency = 5.0
    client = make_client(max_connections=2)
    with observe(client, numbers.provider):
        await watching(client, "a", "b", "c")
        await clock.sleep(3.0)
        assert numbers.values("vidgen.watcher.active_polls") == 2
        await clock.sleep(3.0)
        assert numbers.values("vidgen.watcher.active_polls") == 1
        lateness = numbers.values("vidgen.watcher.lateness", "vidgen.statistic")
        assert lateness == pytest.approx({("p50",): 0.0, ("p99",): 5.0, ("max",): 5.0}, abs=0.3)


async def test_a_pause_is_reported_while_it_lasts(make_client, script, clock, numbers, watching):
    client = make_client()
    busy = BufferedResponse(429, b"", headers=make_headers({"Retry-After": "30"}))
    answers = iter([busy, "running"])
    script.answer = lambda task_id: next(answers)
    with observe(client, numbers.provider):
        await watching(client, "a")
        await clock.sleep(10.0)
        assert numbers.values("vidgen.watcher.paused") == 1
        await clock.sleep(30.0)
        assert numbers.values("vidgen.watcher.paused") == 0


async def test_outcomes_of_creates_are_counted_at_any_log_level(numbers):
    assert not logging.getLogger("vidgen_async").isEnabledFor(logging.INFO)
    video = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
    async with Sandbox() as service, Client(service.api_key, base_url=service.base_url) as client:
        with observe(client, numbers.provider):
            await client.videos.create(**video)
            await client.videos.create(**video)
            service.faults.add("videos.create", Fault.status(402))
            with pytest.raises(RejectedError):
                await client.videos.create(**video)
            service.faults.add("videos.create", Fault.close_after_body())
            with pytest.raises(UncertainCreateError):
                await client.videos.create(**video)
            expected = {("accepted",): 2, ("rejected",): 1, ("uncertain",): 1}
            assert numbers.values("vidgen.creates", "vidgen.outcome") == expected

        await client.videos.create(**video)
        assert numbers.values("vidgen.creates", "vidgen.outcome") == expected


async def test_a_create_that_is_settled_late_is_not_counted_again(make_client, numbers):
    late = {"order_id": "o", "outcome": "accepted", "task_id": "t"}
    with observe(make_client(), numbers.provider):
        events.report(LOGGER, logging.INFO, events.Event.ORDER_ACCEPTED, "", **late)
        events.report(LOGGER, logging.INFO, events.Event.ORDER_WRITTEN_LATE, "", **late)
        assert numbers.values("vidgen.creates", "vidgen.outcome") == {("accepted",): 1}


async def test_metrics_can_be_collected_in_any_thread(make_client, script, clock, numbers, watching):
    client = make_client()
    with observe(client, numbers.provider):
        await watching(client, *(f"t{n}" for n in range(100)))
        await clock.sleep(30.0)
        with clock.hold():
            assert await asyncio.to_thread(numbers.values, "vidgen.watcher.tasks") == 100


# -- when it ends ----------------------------------------------------------------------------------------------------


async def test_a_closed_observer_reports_nothing(make_client, numbers):
    client = make_client()
    with observe(client, numbers.provider) as observer:
        assert numbers.values("vidgen.watcher.tasks") == 0

    observer.close()
    assert list(numbers.found()) == []
    assert events.listeners == []


async def test_a_closed_client_reports_nothing(make_client, numbers):
    client = make_client()
    with observe(client, numbers.provider):
        await client.aclose()
        events.report(LOGGER, logging.INFO, events.Event.ORDER_ACCEPTED, "", outcome="accepted")
        assert list(numbers.found()) == []


async def test_an_observed_client_can_be_garbage_collected(make_client, script, numbers):
    client = Client("a-key", base_url="http://localhost/openapi/v1", transport=script.transport)
    observer = observe(client, numbers.provider)
    watcher = weakref.ref(client.watcher)

    del client
    gc.collect()

    assert watcher() is None
    assert list(numbers.found()) == []
    observer.close()


async def test_the_next_client_is_reported_like_the_first(make_client, numbers, watching, caplog):
    with observe(make_client(), numbers.provider):
        assert numbers.values("vidgen.watcher.tasks") == 0

    client = make_client()
    with observe(client, numbers.provider):
        await watching(client, "a", "b")
        assert numbers.values("vidgen.watcher.tasks") == 2
    assert caplog.records == [], "no instrument was made twice"


# -- several clients -------------------------------------------------------------------------------------------------


async def test_clients_are_distinguished_by_their_attributes(make_client, numbers, watching):
    one, other = make_client(), make_client()
    with (
        observe(one, numbers.provider, attributes={"vidgen.client": "one"}),
        observe(other, numbers.provider, attributes={"vidgen.client": "other"}),
    ):
        await watching(one, "a")
        await watching(other, "a", "b", "c")
        assert numbers.values("vidgen.watcher.tasks", "vidgen.client") == {("one",): 1, ("other",): 3}


async def test_a_client_with_the_attributes_of_another_is_refused(make_client, numbers):
    with observe(make_client(), numbers.provider):
        assert numbers.values("vidgen.watcher.tasks") == 0
        with pytest.raises(ConfigurationError, match="same attributes"):
            observe(make_client(), numbers.provider)


# -- the names -------------------------------------------------------------------------------------------------------


async def test_the_table_lists_every_metric_with_its_unit(make_client, script, numbers, clock, watching):
    script.answer = lambda task_id: BufferedResponse(503, b"")
    client = make_client(transport=TracedTransport(script.transport, None, numbers.provider))
    with observe(client, numbers.provider):
        await watching(client, "a")
        await clock.sleep(1.0)
        with pytest.raises(UncertainCreateError):
            await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, validate=False)
        reported = {metric.name: metric.unit for metric in numbers.found()}

    table = vidgen_async.otel.__doc__.partition("**Metrics**")[2]
    rows = re.findall(r"^``([\w.]+)`` +[\w -]+?  +(\S+) ", table, re.MULTILINE)
    assert dict(rows) == reported
    assert set(reported.values()) == UNITS

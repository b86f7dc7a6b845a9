"""``observe``: what the watcher does, as metrics that are computed when they are collected."""

import asyncio
import gc
import json
import logging
import weakref
from datetime import UTC, datetime

import pytest

from vidgen_async import Client, RejectedError, UncertainCreateError, events
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import MemoryJournal
from vidgen_async.otel import observe
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.types.http import make_headers

LOGGER = logging.getLogger("vidgen_async.test")


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
            expected = {
                (name, "gen-2.0"): count for name, count in (("accepted", 2), ("rejected", 1), ("uncertain", 1))
            }
            assert numbers.values("vidgen.creates", "vidgen.outcome", "vidgen.model") == expected

        await client.videos.create(**video)
        assert numbers.values("vidgen.creates", "vidgen.outcome", "vidgen.model") == expected


async def test_a_create_that_is_settled_late_is_not_counted_again(make_client, numbers):
    late = {"order_id": "o", "outcome": "accepted", "task_id": "t"}
    with observe(make_client(), numbers.provider):
        events.Event.ORDER_ACCEPTED.log(LOGGER, **late)
        events.Event.ORDER_WRITTEN_LATE.log(LOGGER, **late)
        assert numbers.values("vidgen.creates", "vidgen.outcome") == {("accepted",): 1}


async def test_metrics_can_be_collected_in_any_thread(make_client, script, clock, numbers, watching):
    client = make_client()
    with observe(client, numbers.provider):
        await watching(client, *(f"t{n}" for n in range(100)))
        await clock.sleep(30.0)
        with clock.hold():
            assert await asyncio.to_thread(numbers.values, "vidgen.watcher.tasks") == 100


# -- tasks and orders ------------------------------------------------------------------------------------------------


async def test_ends_of_tasks_their_points_and_durations_are_counted_once_by_model(make_client, script, numbers):
    def answer(task_id):
        task = {"id": task_id, "model": "gen-2.0", "points": 30, "created_at": 1000, "updated_at": 1100}
        return BufferedResponse(200, json.dumps(task | {"status": "completed"}).encode())

    script.answer = answer
    client = make_client()
    with observe(client, numbers.provider):
        await client.videos.wait("a")
        await client.videos.wait("b")
        await client.videos.wait("a")

    by = ("vidgen.state", "vidgen.model")
    assert numbers.values("vidgen.task.ended", *by) == {("completed", "gen-2.0"): 2}
    assert numbers.values("vidgen.task.points", *by) == {("completed", "gen-2.0"): 60}
    (duration,) = numbers.points("vidgen.task.duration")
    assert (duration.count, duration.sum, 120 in duration.explicit_bounds) == (2, 200.0, True)


async def test_a_task_without_these_facts_is_counted_without_them(make_client, script, numbers):
    script.answer = lambda task_id: "completed"
    client = make_client()
    with observe(client, numbers.provider):
        await client.videos.wait("a")
    assert numbers.values("vidgen.task.ended", "vidgen.state") == {("completed",): 1}
    assert numbers.points("vidgen.task.duration") == []


class CountingJournal(MemoryJournal):
    reads = 0

    async def list(self, *args, **options):
        self.reads += 1
        return await super().list(*args, **options)


async def idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_orders_are_read_on_the_loop_and_only_when_they_are_collected(numbers):
    journal = CountingJournal()
    before = datetime.now(UTC)
    async with (
        Sandbox() as service,
        Client(service.api_key, base_url=service.base_url, journal=journal) as client,
    ):
        with observe(client, numbers.provider):
            await idle()
            assert journal.reads == 3, "once for each state"
            service.faults.add("videos.create", Fault.close_after_body())
            with pytest.raises(UncertainCreateError):
                await client.videos.create(model="gen-2.0", prompt="a boat", duration=5)

            states = await asyncio.to_thread(numbers.values, "vidgen.order.count", "vidgen.state")
            assert states == {("queued",): 0, ("sending",): 0, ("uncertain",): 0}, "as they were before"
            await idle()
            assert journal.reads == 6
            assert numbers.values("vidgen.order.count", "vidgen.state")["uncertain",] == 1
            age = numbers.values("vidgen.order.uncertain_age")
            assert 0.0 < age < (datetime.now(UTC) - before).total_seconds()
            await idle()
        reads = journal.reads
        assert list(numbers.found()) != []
        await idle()
        assert journal.reads == reads, "nobody observes"
        assert numbers.values("vidgen.order.count") is None


async def test_a_journal_that_fails_is_logged_once_and_hides_no_other_metric(make_client, numbers, caplog):
    class BrokenJournal(MemoryJournal):
        async def list(self, *args, **options):
            raise JournalError("broken")

    with observe(make_client(journal=BrokenJournal()), numbers.provider):
        for _ in range(2):
            await idle()
            assert numbers.values("vidgen.watcher.tasks") == 0
            assert numbers.points("vidgen.order.count") == []
    assert [record.event_name for record in caplog.records] == ["telemetry.failed"]


def test_collecting_after_the_event_loop_has_ended_reports_the_rest(script, numbers, caplog):
    async def start():
        client = Client("a-key", base_url="http://localhost/openapi/v1", transport=script.transport)
        return client, observe(client, numbers.provider)

    _, observer = asyncio.run(start())
    assert numbers.values("vidgen.watcher.tasks") == 0
    assert caplog.records == [], "nor has a callback failed"
    observer.close()


async def test_closing_ends_a_read_in_progress(make_client, numbers, caplog):
    ended = []

    class SlowJournal(MemoryJournal):
        async def list(self, *args, **options):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    with observe(make_client(journal=SlowJournal()), numbers.provider):
        await idle()
    await idle()
    assert (ended, caplog.records) == ([True], [])


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
        events.Event.ORDER_ACCEPTED.log(LOGGER, outcome="accepted")
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

"""A job that a queue runs again after an error that may be retried: it succeeds, and the service accepts one create."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.full_journal import FullJournal
from vidgen_async import Client, VidgenError
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    FINAL_NAMES,
    RETRYABLE,
    RETRYABLE_NAMES,
    JournalError,
    ReceiptNotStoredError,
    UnexpectedResponseError,
)
from vidgen_async.journal import MemoryJournal, SqliteJournal
from vidgen_async.sandbox import Fault, Sandbox

FIELDS = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
#: One run of the job, with the settings of its client.
Run = Callable[..., Awaitable[Path]]

#: What the service does to the first run, and the error of that run, if the job may be run again.
RETRIED = {
    "the service's own 429": (
        "videos.create",
        Fault.status(429, headers={"Retry-After": "0"}),
        "RejectedRateLimitError",
    ),
    "429 of the task": ("videos.get", Fault.status(429), "RateLimitError"),
    "500 of the task": ("videos.get", Fault.status(500), "UnexpectedResponseError"),
    "503 of the task": ("videos.get", Fault.status(503), "ServiceUnavailableError"),
    "504 of the task": ("videos.get", Fault.status(504), "GatewayError"),
    "a page instead of the task": ("videos.get", Fault.html(), "UnexpectedResponseError"),
    "connection lost": ("videos.get", Fault.close_after_body(), "ConnectionLostError"),
    "no HTTP": ("videos.get", Fault.not_http(), "ProtocolError"),
    "the task cut short": ("videos.get", Fault.cut(), "BodyError"),
    "409 of the video": ("videos.content", Fault.status(409), "NotReadyError"),
    "a page instead of the video": ("videos.content", Fault.html(), "NotVideoError"),
}
#: The same, if it may not.
FINAL = {
    "a page with 429": (
        Fault.status(429, "<html>Too Many Requests</html>", content_type="text/html"),
        "RejectedUnexpectedResponseError",
    ),
    "an empty 429": (Fault.status(429, b""), "RejectedUnexpectedResponseError"),
    "402": (Fault.status(402), "RejectedInsufficientCreditsError"),
    "503": (Fault.status(503), "UncertainCreateError"),
    "a lost answer": (Fault.close_after_body(), "UncertainCreateError"),
}


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def run(service, journal, tmp_path) -> Run:
    async def run_job(*, timeout: float | None = None, validate: bool = True, **settings: object) -> Path:
        usual = {"base_url": service.base_url, "journal": journal, "poll_interval": 0.05, "retry_reads_for": 0}
        settings = {**usual, **settings}
        async with Client(service.api_key, **settings) as client:
            receipt = await client.videos.create(**FIELDS, order_id="job-1", validate=validate)
            await client.videos.get(receipt)
            task = await client.videos.wait(receipt, timeout=timeout)
            return await client.videos.download(task, tmp_path / "job-1.mp4")

    return run_job


async def fail(run: Awaitable[Path]) -> VidgenError:
    """Return the error of the run, after a check that a queue which knows only its class decides the same."""
    with pytest.raises(VidgenError) as caught:
        await run
    error = caught.value
    name = type(error).__name__
    assert (name in RETRYABLE_NAMES, name in FINAL_NAMES) == (error.may_retry, not error.may_retry)
    if type(error) is not UnexpectedResponseError:  # it has a final subclass
        assert isinstance(error, RETRYABLE) is error.may_retry
    return error


def posts_of(service: Sandbox) -> int:
    return sum(request.op == "videos.create" for request in service.requests)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "fault", "name"), RETRIED.values(), ids=RETRIED)
async def test_after_an_error_that_may_be_retried_the_next_run_saves_the_video_of_one_create(
    run, service, op, fault, name
):
    service.faults.add(op, fault, times=None)
    error = await fail(run())
    assert (type(error).__name__, error.may_retry) == (name, True)

    service.faults.clear()
    assert (await run()).read_bytes()[4:8] == b"ftyp"
    assert [create.status for create in service.creates if create.status != 429] == [202]


async def test_after_a_wait_that_timed_out_the_next_run_waits_for_the_same_task(run, service):
    error = await fail(run(timeout=0))
    assert (type(error).__name__, error.may_retry) == ("WaitTimeoutError", True)
    assert (await run()).exists()
    assert posts_of(service) == 1


async def test_after_its_client_was_closed_a_job_may_be_run_again(run, service):
    service.faults.add("videos.get", Fault.stall(), times=None)
    async with Client(service.api_key, base_url=service.base_url) as client:
        receipt = await client.videos.create(**FIELDS)
        waiting = asyncio.ensure_future(client.videos.wait(receipt))
        await asyncio.sleep(0)
    error = await fail(waiting)
    assert (type(error).__name__, error.may_retry) == ("ClientStateError", True)


async def test_a_journal_that_cannot_be_opened_may_be_retried(run, service, tmp_path):
    (file := tmp_path / "orders.db").write_bytes(b"this is not a journal" * 100)
    error = await fail(run(journal=SqliteJournal(file)))
    assert (type(error).__name__, error.may_retry) == ("JournalError", True)
    assert posts_of(service) == 0

    file.unlink()
    assert (await run(journal=SqliteJournal(file))).exists()
    assert posts_of(service) == 1


async def test_a_receipt_that_could_not_be_stored_is_final_and_names_its_task(run, service):
    journal = FullJournal()
    client = Client(service.api_key, base_url=service.base_url, journal=journal)
    creating = asyncio.ensure_future(client.videos.create(**FIELDS, order_id="job-1"))
    await journal.is_settling.wait()
    await client.aclose(grace=0)
    error = await fail(creating)
    assert (type(error), error.may_retry) == (ReceiptNotStoredError, False)
    assert (error.order_id, error.task_id) == ("job-1", service.creates[0].task_id)
    assert [attempt.n for attempt in error.attempts] == [1]
    assert not isinstance(error, JournalError)


@pytest.mark.parametrize(("fault", "name"), FINAL.values(), ids=FINAL)
async def test_a_create_that_is_rejected_or_uncertain_is_final(run, service, fault, name):
    service.faults.add("videos.create", fault)
    error = await fail(run())
    assert (type(error).__name__, error.may_retry) == (name, False)
    assert posts_of(service) == 1


async def test_a_refused_connection_may_be_retried(run, service):
    async with service.refusing():
        error = await fail(run(clock=VirtualClock(), validate=False))
    assert (type(error).__name__, error.may_retry) == ("NotSentError", True)
    assert (await run()).exists()
    assert posts_of(service) == 1

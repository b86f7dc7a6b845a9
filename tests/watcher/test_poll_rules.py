"""Every row of the table of faults."""

import logging
from collections import Counter

import pytest

from vidgen_async.errors import (
    AuthenticationError,
    BadRequestError,
    BodyError,
    CassetteError,
    ClientStateError,
    ConnectError,
    ConnectionLostError,
    GatewayError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    NotReadyError,
    ProtocolError,
    RateLimitError,
    ResponseTimeoutError,
    ServiceUnavailableError,
    TaskFailedError,
    TransportClosedError,
    UnexpectedResponseError,
    WaitTimeoutError,
)
from vidgen_async.types.resources import VideoTask

HOUR = 3600.0

TRANSIENT: list[Exception] = [
    ConnectError("refused"),
    ResponseTimeoutError("silent"),
    ConnectionLostError("reset"),
    ProtocolError("not HTTP"),
    BodyError("cut"),
    TimeoutError("a transport of the user's own"),
    ConnectionResetError(104, "reset"),
    OSError(113, "no route to host"),
    ServiceUnavailableError("maintenance", status=503),
    GatewayError("bad gateway", status=502),
    GatewayError("gateway timeout", status=504),
    RateLimitError("busy", status=429),
    *(
        UnexpectedResponseError("unexpected", status=status)
        for status in (200, 204, 301, 302, 307, 308, 408, 425, 500, 520, 599)
    ),
]

UNEXPECTED: list[Exception] = [
    BadRequestError("bad", status=400),
    InsufficientCreditsError("402", status=402),
    UnexpectedResponseError("forbidden", status=403),
    UnexpectedResponseError("teapot", status=418),
    UnexpectedResponseError("no status", status=0),
    NotReadyError("409", status=409),
    TransportClosedError("closed"),
    KeyError("a programming error"),
]


def name_of(error):
    return f"{type(error).__name__}-{getattr(error, 'status', '')}"


async def test_a_wait_continues_during_an_hour_of_any_transient_fault(watcher, service, clock):
    faults = {name_of(fault): fault for fault in TRANSIENT}
    assert len(faults) == len(TRANSIENT)
    for name, fault in faults.items():
        service.script(name, *[fault] * 60, "completed")

    outcomes = {outcome.task_id: outcome async for outcome in watcher.as_completed(faults, timeout=None)}

    assert clock.now() == HOUR
    assert {name: outcome.error for name, outcome in outcomes.items() if outcome.error is not None} == {}
    assert {name for name in faults if service.times(name) != [60.0 * n for n in range(61)]} == set()
    assert watcher.stats.errors == Counter(type(fault).__name__ for fault in TRANSIENT for _ in range(60))


@pytest.mark.rule("3 state queued", "3 state running", side="sdk")
@pytest.mark.parametrize("status", ["queued", "running", None, "post_processing", "Completed", ""])
async def test_a_task_in_a_state_that_is_not_terminal_is_polled_again(status, watcher, service):
    service.script("t", *[VideoTask(id="t", status=status)] * 3, "completed")

    assert (await watcher.wait("t")).status == "completed"
    assert service.times() == [0.0, 60.0, 120.0, 180.0]


@pytest.mark.rule("3 state completed", side="sdk")
async def test_a_completed_task_is_returned_unchanged(watcher, service):
    task = VideoTask(
        id="t", status="completed", video_url="https://cdn.example/v.mp4?exp=1&sig=a%2Fb", extra={"new": 1}
    )
    service.script("t", task)

    assert await watcher.wait("t") is task
    assert service.times() == [0.0]


@pytest.mark.rule("2.5 field failure_reason", "7 rule 1", side="sdk")
async def test_a_failed_task_is_an_error_with_its_reason_and_is_not_polled_again(watcher, service, clock):
    service.script("t", VideoTask(id="t", status="failed", failure_reason="asset rule 7"))

    with pytest.raises(TaskFailedError) as caught:
        await watcher.wait("t")

    assert caught.value.message == "asset rule 7; check the refund in the credit ledger (task 't')"
    assert caught.value.task is not None
    assert caught.value.task.failure_reason == "asset rule 7"
    await clock.sleep(600.0)
    assert service.times() == [0.0]


OTHER_401 = UnexpectedResponseError("no", status=401, code="X", request_id="r-1")
REFUSED, LOST = AuthenticationError("upstream", status=401), ConnectError("lost")
GONE = [NotFoundError("no such task", status=404), UnexpectedResponseError("no such task", status=410)]
FATAL = [CassetteError("no such interaction"), ClientStateError("forked"), InvalidRequestError("no task id")]
PAGE = b"<html><h1>Not Found</h1></html>"
#: What a gateway or another server answers.
FOREIGN = [
    NotFoundError("a page", status=404, body=PAGE),
    UnexpectedResponseError("a page", status=410, body=PAGE),
    AuthenticationError("a page", status=401, body=PAGE),
    BadRequestError("a page", status=400, body=PAGE),
    UnexpectedResponseError("a page", status=403, body=b"[]"),
    NotFoundError("a text", status=404, body=b'"not found"'),
]
#: What polls give, the error that ends the wait, and when they are made.
ENDS = [
    ([REFUSED] * 2, AuthenticationError, [0.0, 5.0]),
    ([OTHER_401] * 2, AuthenticationError, [0.0, 5.0]),
    *(([gone] * 2, NotFoundError, [0.0, 5.0]) for gone in GONE),
    *(([one] * 2 + ["running"] + [one] * 3, type(one), [60.0 * n for n in range(6)]) for one in UNEXPECTED),
    *(([fatal], type(fatal), [0.0]) for fatal in FATAL),
    *(([LOST] + [foreign] * 3, type(foreign), [0.0, 60.0, 120.0, 180.0]) for foreign in FOREIGN),
    *((["running"] + [foreign] * 16, type(foreign), [60.0 * n for n in range(17)]) for foreign in FOREIGN),
]
GOES_ON = [
    (["running", REFUSED, "running"], [0.0, 60.0, 65.0, 125.0]),
    ([REFUSED, "running", REFUSED, LOST, REFUSED], [0.0, 5.0, 65.0, 70.0, 130.0, 135.0]),
    *((["running"] + [foreign] * 14, [60.0 * n for n in range(16)]) for foreign in FOREIGN),
    # A foreign response between two of the service's own confirms nothing.
    (["running", GONE[0], FOREIGN[0], GONE[0], "running"], [0.0, 60.0, 65.0, 125.0, 130.0, 190.0]),
]


@pytest.mark.rule("7 error 404", side="sdk")
@pytest.mark.parametrize(("answers", "kind", "times"), ENDS)
async def test_a_fault_ends_the_wait_when_the_table_says_so(answers, kind, times, watcher, service):
    service.script("t", *answers, "completed")

    with pytest.raises(kind) as caught:
        await watcher.wait("t")

    assert service.times() == times
    error, last = caught.value, answers[-1]
    assert (str(last), getattr(last, "status", None)) == (str(error), getattr(error, "status", None))
    assert (getattr(last, "code", None), getattr(last, "request_id", None)) == (
        getattr(error, "code", None), getattr(error, "request_id", None)
    )  # fmt: skip
    assert "client.videos.wait" in error.__notes__[-1]
    assert ("base_url" in error.__notes__[0]) is (last in FOREIGN)


@pytest.mark.parametrize(("answers", "times"), GOES_ON)
async def test_any_other_fault_does_not_end_the_wait(answers, times, watcher, service):
    service.script("t", *answers, "completed")

    assert (await watcher.wait("t")).status == "completed"
    assert service.times() == times


@pytest.mark.parametrize("gone", GONE, ids=name_of)
async def test_404_and_410_within_two_minutes_of_the_receipt_do_not_end_the_wait(gone, watcher, service, clock):
    await clock.sleep(1000.0)
    service.script("t", gone, gone, "queued", "completed")

    assert (await watcher.wait("t", accepted_at=999.0)).status == "completed"
    assert service.times() == [1000.0, 1060.0, 1120.0, 1180.0]


async def test_a_404_two_minutes_after_the_receipt_ends_the_wait(watcher, service, clock):
    await clock.sleep(1000.0)
    service.default = NotFoundError("gone", status=404)

    with pytest.raises(NotFoundError):
        await watcher.wait("t", accepted_at=990.0)

    assert service.times() == [1000.0, 1060.0, 1120.0]


@pytest.mark.rule("3 unshown transitions", side="sdk")
async def test_an_unknown_state_is_logged_once_for_each_task_and_state(watcher, service, caplog):
    missing = VideoTask(id="t")
    service.script("t", "dreaming", "dreaming", missing, "dreaming", missing, "completed")
    service.script("u", "dreaming", "completed")

    with caplog.at_level(logging.WARNING, "vidgen_async.watcher"):
        await watcher.wait("t")
        await watcher.wait("u")

    warned = [record.getMessage() for record in caplog.records]
    assert [("t" in message.split(":")[0], "dreaming" in message) for message in warned] == [
        (True, True),
        (True, False),
        (True, True),
    ]
    assert [message.split(":")[0] for message in warned] == ["task t", "task t", "task u"]


class TestRateLimit:
    @pytest.mark.rule("7 error 429", "8 bullet 3", side="sdk")
    async def test_a_429_pauses_the_whole_watcher_for_its_retry_after(
        self,
        make_watcher,
        service,
        clock,
        caplog,
    ):
        watcher = make_watcher()
        for n in range(5):
            service.complete_at(400.0, f"t{n}")
        service.script("t0", "running", RateLimitError("slow down", status=429, retry_after=200.0))
        service.latency = 1.0

        async def later():
            await clock.sleep(0.5)
            raise RateLimitError("slow down", status=429, retry_after=200.0)

        service.script("t1", "running", later)

        outcomes = [outcome async for outcome in watcher.as_completed(f"t{n}" for n in range(5))]

        assert all(outcome.unwrap().status == "completed" for outcome in outcomes)
        moments = sorted({moment for moment, _ in service.polls})
        assert moments == [0.0, 60.0, 320.5, 380.5, 440.5]  # paused from 61 to 261.5, all shifted by the same amount
        assert len([record for record in caplog.records if "429" in record.getMessage()]) == 1
        assert watcher.stats.lateness_max == 0.0

    async def test_paused_until_is_reported_during_a_pause(self, watcher, service, clock):
        service.script("t", RateLimitError("slow down", status=429, retry_after=200.0))
        service.complete_at(100.0, "t")
        assert watcher.stats.paused_until is None

        with pytest.raises(WaitTimeoutError):  # deadlines hold in a pause too
            await watcher.wait("t", timeout=30.0)

        assert clock.now() == 30.0
        assert watcher.stats.paused_until == 200.0
        await clock.sleep(200.0)
        assert watcher.stats.paused_until is None

    async def test_a_429_without_retry_after_delays_only_its_own_task(self, watcher, service):
        service.script("t", RateLimitError("busy", status=429), "completed")
        service.script("u", "running", "completed")

        outcomes = [outcome async for outcome in watcher.as_completed(["t", "u"])]

        assert len(outcomes) == 2
        assert service.times("t") == service.times("u") == [0.0, 60.0]

    async def test_a_retry_after_of_more_than_an_hour_is_limited_to_an_hour(self, watcher, service, clock):
        service.script("t", RateLimitError("busy", status=429, retry_after=1e9), "completed")

        await watcher.wait("t")

        assert clock.now() <= HOUR + 60.0


async def test_a_response_to_another_call_of_the_client_counts_as_an_answer_of_the_service(watcher, service):
    service.has_answered = True
    service.script("t", *[FOREIGN[0]] * 10, "completed")
    assert (await watcher.wait("t")).status == "completed"

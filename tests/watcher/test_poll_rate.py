"""The rate of polls, compared with what the service received."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.watcher.conftest import settle
from vidgen_async.watcher.stats import PollRate


def received(service, since, until):
    return sum(since < at <= until for at, _ in service.polls)


@pytest.mark.slow
@pytest.mark.parametrize(
    "interval", [1.0, *(pytest.param(seconds, marks=pytest.mark.needs_dev) for seconds in (0.25, 60.0))]
)
async def test_the_rate_is_what_the_service_receives(make_watcher, service, clock, interval):
    watcher = make_watcher(interval=interval)
    service.default = "running"
    span = max(interval, 1.0)
    waits = [asyncio.ensure_future(watcher.wait(f"t-{number}", timeout=None)) for number in range(60)]

    async def shown_at(moment):
        await clock.sleep(moment - clock.now())
        return watcher.stats.polls_per_second

    # Just started: what has been received so far, in no less than a second.
    assert await shown_at(0.001 * interval) == received(service, -1.0, clock.now()) >= 32
    # Ramping up.
    assert await shown_at(0.9 * span) == pytest.approx(received(service, -1.0, clock.now()) / max(0.9 * span, 1.0))
    # As usual, at whatever moment: also just after most of them came at once.
    for moment in (2.003, 3.003, 3.4, 5.6, 40.003, 41.3):
        assert await shown_at(moment * span) == pytest.approx(60 / interval, rel=0.02)
        assert received(service, clock.now() - span, clock.now()) == pytest.approx(60 * span / interval, abs=1)

    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    ended_at = clock.now()
    # After the last one ended.
    half = await shown_at(ended_at + span / 2)
    assert half == pytest.approx(received(service, clock.now() - span, clock.now()) / span, rel=0.1)
    assert await shown_at(ended_at + 1.1 * span) == 0
    # After an idle hour.
    assert await shown_at(ended_at + 3600.0) == 0
    again = asyncio.ensure_future(watcher.wait("t-0", timeout=None))
    assert await shown_at(clock.now() + 0.3 * interval) == pytest.approx(received(service, ended_at, 9e9) / span)
    again.cancel()
    await settle()


@given(st.lists(st.floats(0.0, 9.0), max_size=60), st.floats(0.0, 12.0), st.sampled_from([0.1, 1.0, 2.5]))
@settings(max_examples=60, derandomize=True, database=None, deadline=None)
def test_the_rate_is_a_count_over_the_last_span_to_within_a_slot(moments, waited, interval):
    rate = PollRate(interval)
    moments.sort()
    for moment in moments:
        rate.note(100.0 + moment)
    if not moments:
        assert rate.per_second(100.0) == 0.0
        return
    now = 100.0 + moments[-1] + waited
    span = max(interval, 1.0)
    if now - 100.0 - moments[0] < span:
        assert rate.per_second(now) == pytest.approx(len(moments) / max(now - 100.0 - moments[0], 1.0))
        return
    slot = span / 40
    ages = [now - 100.0 - moment for moment in moments]
    fewest = sum(2 * slot < age < span - slot for age in ages)
    most = sum(age < span + 2 * slot for age in ages)
    assert fewest / span <= rate.per_second(now) * (1 + 1e-9) <= most / span * (1 + 1e-6)

"""Retry-After, backoff and the rolling limit."""

from datetime import UTC, datetime, timedelta

import pytest

from vidgen_async.clock import backoff
from vidgen_async.types.http import make_headers, retry_after
from vidgen_async.types.limits import Hold, Pacing, Turn, compute_turn

NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("-3", 0.0),
        ("Sat, 28 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 28 Nov 2026 11:00:00 GMT", 0.0),
        ("999999999", 3600.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e400", None),
        ("", None),
    ],
)
def test_retry_after_is_parsed_as_seconds_or_as_a_date(header, seconds):
    assert retry_after(make_headers({"Retry-After": header}), NOW) == seconds


@pytest.mark.parametrize(
    "header", ["Sat, 28 Nov 2026 12:00:30 +9{20}", "Sat, 28 Nov 9{20} 12:00:30 GMT", "Sat, 28 Nov 2026"]
)
def test_a_date_that_does_not_exist_is_no_retry_after(header):
    assert retry_after(make_headers({"Retry-After": header.replace("{20}", "9" * 20)}), NOW) is None


@pytest.mark.parametrize("wrong_by", [timedelta(0), timedelta(seconds=400), timedelta(seconds=-400)])
def test_a_date_is_compared_with_the_clock_of_the_service(wrong_by):
    dates = {"Date": "Sat, 28 Nov 2026 12:00:00 GMT", "Retry-After": "Sat, 28 Nov 2026 12:00:30 GMT"}
    assert retry_after(make_headers(dates), NOW + wrong_by) == 30.0
    assert retry_after(make_headers(dates | {"Date": "yesterday"}), NOW + wrong_by) == max(
        30 - wrong_by.total_seconds(), 0
    )


def test_backoff_doubles_up_to_a_maximum_and_is_spread_over_its_upper_half():
    assert [backoff(tries, 1.0) for tries in (1, 2, 3, 10, 10_000)] == [0.5, 1.0, 2.0, 20.0, 20.0]
    assert backoff(3, 0.0) == 1.0


def holds(*seconds: float) -> list[Hold]:
    """Slots that become free after these seconds, and not sooner."""
    return [Hold(NOW + timedelta(seconds=second), NOW + timedelta(seconds=second)) for second in seconds]


def test_slots_are_free_until_the_limit_is_reached():
    pacing = Pacing(limit=2, window=60)
    assert compute_turn(holds(10), pacing, NOW).free == 1
    assert compute_turn(holds(10, 30), pacing, NOW) == Turn(free=0, wait=10.0)


def test_with_more_slots_in_use_than_allowed_a_create_waits_until_enough_are_free():
    assert compute_turn(holds(10, 20, 30), Pacing(limit=2), NOW).wait == 20.0


def test_slots_that_ended_in_the_past_are_free():
    assert compute_turn(holds(-1, 0), Pacing(limit=1), NOW).free == 1


def test_a_slot_without_a_response_is_checked_again_at_the_earliest_possible_time():
    unanswered = Hold(NOW + timedelta(seconds=190), NOW + timedelta(seconds=60))
    assert compute_turn([unanswered], Pacing(limit=1), NOW) == Turn(free=0, wait=60.0)
    assert compute_turn([unanswered], Pacing(limit=1), NOW + timedelta(seconds=100)).free == 0


@pytest.mark.parametrize("settings", [{"limit": 0}, {"window": 0}, {"max_wait": -1}])
def test_invalid_pacing_is_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Pacing(**settings)

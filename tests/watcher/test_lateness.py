"""Quantiles of lateness: close to the exact values, and only of recent polls."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidgen_async.watcher.stats import Lateness

SOME = st.lists(st.floats(0.0, 20_000.0), min_size=1, max_size=100)


@given(SOME, st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_a_quantile_is_never_too_low_and_at_most_a_tenth_too_high(lates, share):
    lateness = Lateness(60.0)
    for late in lates:
        lateness.note(late, 5.0)
    exact = sorted(lates)[min(int(share * len(lates)), len(lates) - 1)]

    (found,) = lateness.quantiles(5.0, share)

    assert exact <= found <= max(exact * 1.1, 1e-4) or found == pytest.approx(exact)
    assert found <= max(lates)


def test_polls_of_two_windows_ago_do_not_count():
    lateness = Lateness(60.0)
    assert lateness.quantiles(9.0, 0.5, 0.99) == (0.0, 0.0)
    lateness.note(30.0, 1000.0)
    assert lateness.quantiles(1059.0, 1.0) == (30.0,)

    lateness.note(0.25, 1060.0)

    assert lateness.quantiles(1119.0, 0.0, 1.0) == (pytest.approx(0.25, rel=0.1), 30.0)
    assert lateness.quantiles(1120.0, 0.0, 1.0) == pytest.approx((0.25, 0.25), rel=0.1)
    assert lateness.quantiles(1180.0, 1.0) == (0.0,)
    assert lateness.quantiles(9999.0, 1.0) == (0.0,)

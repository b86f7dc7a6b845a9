"""The arithmetic of the benchmarks: windows over arrivals, lines through points, ratios of rounds."""

import math

import pytest

from benchmarks import scheduler
from benchmarks.arithmetic import buckets, fit, fit_log, growth, rate, windows
from benchmarks.children import interleaved
from benchmarks.measure import file_system, percentile, table
from benchmarks.results import at_least, at_most, compared, ratio_of


def test_windows_slide_by_one_bucket_and_overlap():
    assert windows([1, 2, 3, 4], width=3) == [6, 9]
    assert windows([5] * 10) == [50]
    assert windows([0] * 10 + [1] + [0] * 10) == [0] + [1] * 10 + [0]


def test_a_stretch_shorter_than_a_window_is_one_window():
    assert windows([1, 2], width=3) == [3]


def test_a_burst_is_found_where_it_is_also_when_it_lies_across_two_seconds():
    in_buckets = [10] * 60
    in_buckets[28:32] = [60] * 4
    steady = rate([10] * 60)
    burst = rate(in_buckets)
    assert (steady.mean, steady.peak, steady.ratio) == (pytest.approx(100.0), 100, pytest.approx(1.0))
    assert burst.mean == pytest.approx(800 / 6)
    assert (burst.peak, burst.peak_at) == (300, pytest.approx(2.2))


def test_buckets_begin_with_the_one_in_which_the_stretch_begins_and_empty_ones_count():
    counts = {99: 7, 100: 1, 102: 2, 105: 8}
    assert buckets(counts, 10.0, 0.4) == [1, 0, 2, 0]
    assert buckets(counts, 10.09, 0.3) == [1, 0, 2]
    assert rate([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).mean == pytest.approx(2.5)


def test_a_stretch_shorter_than_a_window_is_as_even_as_its_one_window():
    assert rate([5, 0, 7]).ratio == pytest.approx(1.0)


def test_where_nothing_arrived_the_ratio_is_no_number():
    assert math.isnan(rate([0] * 20).ratio)


def test_a_line_is_found_in_its_own_points_and_explains_them():
    line = fit([(x, 3.0 + 2.0 * x) for x in range(5)])
    assert (line.a, line.b, line.explained) == (pytest.approx(3.0), pytest.approx(2.0), pytest.approx(1.0))
    assert line.at(10.0) == pytest.approx(23.0)
    assert fit([(0, 0), (1, 2), (2, 0)]).explained == pytest.approx(0.0)


def test_a_logarithm_is_told_from_a_power():
    sizes = (1000, 10_000, 100_000, 1_000_000)
    logarithmic = [(size, 5.0 + 2.0 * math.log2(size)) for size in sizes]
    assert (fit_log(logarithmic).a, fit_log(logarithmic).b) == (pytest.approx(5.0), pytest.approx(2.0))
    assert growth([(size, 0.1 * size) for size in sizes]) == pytest.approx(1.0)
    assert growth([(size, 4.0) for size in sizes]) == pytest.approx(0.0)
    assert 0.0 < growth(logarithmic) < 0.1


def test_sizes_are_a_thousand_to_the_most():
    assert scheduler.sizes(10_000) == [1000, 3000, 10_000]
    assert scheduler.sizes(1_000_000) == [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]


def test_each_round_begins_with_another_one():
    order = []
    interleaved("abc", 3, order.append)
    assert "".join(order) == "abcbcacab"


def test_a_ratio_on_the_limit_keeps_it():
    assert at_most(1.3, 1.3) == ("<= 1.3", True)
    assert at_most(1.3, 1.31) == ("<= 1.3", False)
    assert at_least(7, 7.0) == (">= 7", True)
    assert at_least(7, 6.99) == (">= 7", False)


def test_a_ratio_is_taken_round_by_round():
    assert ratio_of([2.0, 30.0, 9.0], [1.0, 10.0, 9.0]) == 2.0
    seconds = {"ours": [2e-6, 30e-6, 9e-6], "raw": [1e-6, 10e-6, 3e-6]}
    figure = compared("CPU", "ours", seconds, "raw", lambda ratio: at_most(2, ratio))
    assert (figure.value, figure.versus, figure.target, figure.is_met) == (pytest.approx(9), "raw", "<= 2", False)
    assert figure.ratio == pytest.approx(3)


def test_without_its_base_a_figure_has_no_ratio_and_no_verdict():
    figure = compared("CPU", "peer", {"peer": [1e-6]}, "raw", lambda ratio: at_most(2, ratio))
    assert (figure.ratio, figure.target, figure.is_met) == (None, None, None)


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n/dev/b {tmp_path}/other xfs rw 0 0\n")
    assert file_system(tmp_path / "orders", mounts) == "tmpfs"
    assert file_system(tmp_path.parent, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "missing") == "unknown"


def test_percentiles_and_tables_are_right():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(100), 0.99) == 99
    assert table(("a", "b"), [("long", "1")]) == "a     b\nlong  1"

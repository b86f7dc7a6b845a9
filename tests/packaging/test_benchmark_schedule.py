"""The benchmarks of the schedule: their arithmetic by itself, and a tiny run of each. No time is judged."""

import asyncio
import math
import time
from array import array
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from attrs import evolve

from benchmarks import imports, memory, plots, scheduler, spread, two_minutes, watcher_cpu
from benchmarks.arithmetic import buckets, fit, fit_log, growth, rate, windows
from benchmarks.curves import Curve
from benchmarks.gap_service import Gaps, GapState, running_gap_service
from benchmarks.imports import Cost
from benchmarks.results import Figure, Scale
from benchmarks.scheduler_alone import JumpingClock
from benchmarks.watching_process import Plan, running_client

SMALL = evolve(Scale.tiny(), tasks=50, interval=0.4, seconds=1.0, freeze=0.2, gets=5, most_scheduled=3000)


def found(figures, name):
    (figure,) = [figure for figure in figures if figure.name.startswith(name)]
    return figure


# -- arithmetic --------------------------------------------------------------------------------------------------------


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


# -- what the figures say ----------------------------------------------------------------------------------------------


def curve_of(in_buckets, name=spread.RESTART):
    scale = evolve(Scale.full(), interval=6.0)
    return spread.curve(dict(enumerate(in_buckets, 100)), name, 10.0, scale)


def test_a_fullest_second_above_a_quarter_more_than_the_mean_misses_the_target():
    burst = [10] * 60
    burst[30] = 50
    steady = curve_of([10] * 60)
    too_much = curve_of(burst)
    assert (steady.value, steady.ratio, steady.is_met) == (100.0, pytest.approx(1.0), True)
    assert (too_much.value, too_much.is_met) == (140.0, False)
    assert too_much.ratio == pytest.approx(140.0 / (640.0 / 6.0))
    assert "fullest second begins 2.1 s later" in too_much.note


def test_troubles_that_are_for_information_have_no_target():
    assert curve_of([10] * 60, spread.FREEZE).target == "<= 1.25"
    for name in (spread.BLOCK, spread.RESETS, spread.SILENCE):
        assert (curve_of([10] * 60, name).target, curve_of([10] * 60, name).is_met) == (None, None)


def test_the_interval_after_a_trouble_begins_with_the_first_poll():
    counts = {99: 5, 100: 0, 123: 1, 150: 9}
    assert spread.first_arrival(counts, 10.0) == pytest.approx(12.3)
    assert spread.first_arrival(counts, 12.35) == 12.35
    assert spread.first_arrival(counts, 20.0) == 20.0


def test_the_cpu_of_the_process_is_compared_with_as_many_plain_gets():
    measured = {"cpu": 3.0, "wall": 20.0, "polls": 10_000, "errors": 0, "memory": 5e7}
    lateness = {"lateness_p50": 0.001, "lateness_p99": 0.01, "lateness_max": 0.2}
    gaps = Gaps(count=5000, shortest=9.9, p50=10.0, p99=10.2, longest=11.0)
    watched = two_minutes.Watched(5000, {**measured, **lateness}, gaps, raw=0.0001)
    figures = two_minutes.figures("asyncio", watched, evolve(Scale.full(), interval=10.0), "aiohttp")
    cpu = found(figures, "asyncio: CPU of the process")
    assert (cpu.value, cpu.ratio, cpu.is_met) == (pytest.approx(300.0), pytest.approx(3.0), False)
    assert "10,000 polls of 10,000" in cpu.note
    assert found(figures, "asyncio: share of one core").value == pytest.approx(15.0)
    assert found(figures, "asyncio: between polls of a task, longest").value == pytest.approx(1000.0)


def test_growth_is_the_cost_with_the_most_tasks_over_that_with_the_fewest():
    costs = {1000: 2e-5, 10_000: 3e-5, 1_000_000: 5e-5}
    measured = {
        tasks: {"cpu_per_poll": cost, "cpu_per_add": 7e-6, "bytes_per_task": 400.0} for tasks, cost in costs.items()
    }
    figures = scheduler.figures(scheduler.WATCHER, measured)
    assert (figures[0].value, figures[0].target, figures[0].is_met) == (pytest.approx(2.5), "<= 2.00", False)
    assert figures[0].points == (
        (1000, pytest.approx(20.0)),
        (10_000, pytest.approx(30.0)),
        (1_000_000, pytest.approx(50.0)),
    )
    assert found(figures, "watcher, 1,000,000 tasks: memory").value == 400.0
    assert found(figures, "watcher, 1,000,000 tasks: CPU per add").value == pytest.approx(7.0)
    assert scheduler.figures(scheduler.SCHEDULE, measured)[0].target is None


def test_imports_are_compared_with_that_of_aiohttp():
    figures = imports.figures(
        {imports.OURS: Cost(0.02, 0.03), imports.RAW: Cost(0.1, 0.2), "import peer": Cost(0.5, 0.6)}
    )
    ours, raw, peer = figures
    assert (ours.value, ours.ratio, ours.target, ours.is_met) == (
        pytest.approx(20.0),
        pytest.approx(0.2),
        "<= 1.25",
        True,
    )
    assert (raw.ratio, raw.note) == (None, "200 ms wall")
    assert (peer.ratio, peer.target) == (pytest.approx(5.0), None)


# -- what measures -----------------------------------------------------------------------------------------------------


def test_gaps_are_between_questions_for_one_task():
    state = GapState()
    for target in (b"/openapi/v1/videos/a", b"/openapi/v1/videos/b", b"/openapi/v1/videos/a"):
        state.note(target)
    assert '"count": 1' in state.told("/gaps").decode()
    state.told("/reset")
    assert '"count": 0' in state.told("/gaps").decode()
    assert Gaps.of(array("d", [3.0, 1.0, 2.0])) == Gaps(count=3, shortest=1.0, p50=2.0, p99=3.0, longest=3.0)


def test_the_gap_service_answers_as_the_load_service_does():
    with running_gap_service() as service:
        connection = HTTPConnection(urlsplit(service.url).netloc, timeout=30)
        for _ in range(3):
            connection.request("GET", "/openapi/v1/videos/task-1")
            answer = connection.getresponse()
            assert (answer.status, b'"running"' in answer.read()) == (200, True)
        connection.close()
        assert (service.gaps().count, service.counts().tasks) == (2, 3)


async def test_the_jumping_clock_jumps_when_it_is_not_held():
    clock = JumpingClock()
    sleeper = asyncio.ensure_future(clock.sleep(3600.0))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (sleeper.done(), clock.now()) == (False, 0.0)
    clock.is_held = False
    await sleeper
    assert clock.now() == 3600.0


def test_a_client_that_cannot_begin_says_why():
    with (
        pytest.raises(RuntimeError, match="ConfigurationError"),
        running_client(Plan("no address", tasks=1, interval=1.0, seconds=1.0)),
    ):
        pass


def test_a_frozen_client_asks_for_nothing_and_goes_on_afterwards():
    with running_gap_service() as service:
        plan = Plan(service.base_url, tasks=20, interval=0.2, seconds=2.5)
        with running_client(plan) as client:
            while service.counts().tasks < 20:
                time.sleep(0.01)
            client.freeze(0.5)
            measured = client.found()
        arrived = service.counts()
        assert arrived.tasks >= 40
        assert service.gaps().longest >= 0.5
        assert (measured["tasks"], measured["errors"]) == (20, 0)


# -- tiny runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grown():
    return scheduler.run(SMALL)


@pytest.fixture(scope="module")
def even():
    return spread.run(SMALL)


def test_the_scheduler_is_measured_in_three_ways_at_each_size(grown):
    curves = [figure for figure in grown if isinstance(figure, Curve)]
    assert [curve.name.partition(":")[0] for curve in curves] == [
        scheduler.WATCHER,
        scheduler.IN_USE,
        scheduler.SCHEDULE,
    ]
    for curve in curves:
        assert [size for size, _ in curve.points] == [1000, 3000]
        assert all(cost > 0.0 for _, cost in curve.points)


def test_the_spread_is_measured_after_a_restart_and_after_four_troubles(even):
    names = (spread.RESTART, spread.FREEZE, spread.BLOCK, spread.RESETS, spread.SILENCE)
    assert [figure.name.startswith(name) for figure, name in zip(even, names, strict=True)] == [True] * 5
    assert all(figure.value > 0 for figure in even)


def test_two_minutes_tell_cpu_lateness_and_what_the_service_saw():
    figures = two_minutes.run(SMALL)
    for name in ("CPU of the process", "share of one core", "memory", "lateness p50", "lateness p99", "lateness max"):
        assert found(figures, f"asyncio: {name}").value > 0.0
    assert found(figures, "asyncio: between polls of a task, shortest").unit == "ms at the service"
    assert " 0 failed" in found(figures, "asyncio: CPU of the process").note


def test_imports_are_measured_in_fresh_interpreters():
    costs = imports.measured(["import json", "import asyncio"], rounds=1)
    assert set(costs) == {"import json", "import asyncio"}
    assert costs["import asyncio"].cpu > 0.0


def test_every_picture_is_drawn_as_png_and_svg(grown, even, tmp_path):
    figures = [
        *grown,
        *even,
        Figure(watcher_cpu.BENCHMARK, "vidgen_async", 100.0, "us"),
        Figure(watcher_cpu.BENCHMARK, "peer", 900.0, "us"),
        Figure(memory.BENCHMARK, "vidgen_async", 500.0, "bytes"),
    ]
    written = plots.draw(figures, tmp_path)
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{kind}" for name in ("costs", "scheduler", "spread", "troubles") for kind in ("png", "svg")
    )
    for path in written:
        begins = path.read_bytes()[:8]
        assert begins == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else begins.startswith(b"<?xml")


def test_the_same_figures_make_the_same_svg(grown, tmp_path):
    (first,) = [path.read_bytes() for path in plots.draw(grown, tmp_path) if path.suffix == ".svg"]
    (second,) = [path.read_bytes() for path in plots.draw(grown, tmp_path) if path.suffix == ".svg"]
    assert first == second


def test_nothing_is_drawn_of_nothing(tmp_path):
    assert plots.draw([Figure("another", "row", 1.0, "us")], tmp_path) == []
    assert list(tmp_path.iterdir()) == []

"""What the benchmarks say of what they measured, and what they are asked for. No time is judged."""

import json

import pytest
from attrs import evolve

from benchmarks import get_peers, requests_cpu, scheduler, second_transport, spread, two_minutes, watcher_cpu
from benchmarks.__main__ import BENCHMARKS, asked_for, verdict
from benchmarks.gap_service import Gaps
from benchmarks.get_peers import OURS, PEERS, RAW
from benchmarks.results import Figure, Scale, figures_table, shown, write_json


def found(figures, name):
    (figure,) = [figure for figure in figures if figure.name.startswith(name)]
    return figure


# -- what is asked for -------------------------------------------------------------------------------------------------


def test_a_run_is_full_and_of_everything_unless_told_otherwise(tmp_path):
    asked = asked_for(["--output", str(tmp_path / "new")])
    assert (asked.only, asked.scale, asked.is_tiny) == (BENCHMARKS, Scale.full(), False)
    asked = asked_for(["--tiny", "--rounds", "2", "--stretch", "--only", "memory", "--output", str(tmp_path)])
    assert (asked.only, asked.scale.rounds, asked.scale.has_stretch) == (("memory",), 2, True)
    assert asked.scale.tasks == Scale.tiny().tasks


def test_earlier_results_are_not_written_over(tmp_path, capsys):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(SystemExit):
        asked_for(["--output", str(tmp_path)])
    assert "is not empty" in capsys.readouterr().err


def test_with_one_peer_named_it_is_compared_with_ours_and_plain_aiohttp_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(get_peers, "find_spec", lambda package: package)
    asked = asked_for(["--peer", "replicate", "--output", str(tmp_path)])
    assert asked.scale.peers == ("replicate",)
    assert list(get_peers.present(asked.scale.peers)) == [OURS, RAW, "replicate"]
    assert list(get_peers.present()) == list(PEERS)


def test_peers_whose_packages_are_missing_are_left_out_with_a_line_for_each(monkeypatch):
    monkeypatch.setattr(get_peers, "find_spec", lambda package: None if package == "openai" else package)
    assert set(PEERS) - set(get_peers.present()) == {get_peers.OPENAI, get_peers.OPENAI_ON_AIOHTTP}
    assert get_peers.left_out() == [
        "left out: openai (httpx) (openai not installed)",
        "left out: openai (aiohttp) (openai not installed)",
    ]


def test_without_pyreqwest_no_second_transport_is_compared(monkeypatch):
    monkeypatch.setattr(second_transport, "find_spec", lambda package: None if package == "pyreqwest" else package)
    assert second_transport.run(Scale.tiny()) == []


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_says_what_is_met_and_what_is_missed_and_puts_each_note_below_once():
    figures = [
        Figure("CPU", "ours", 104.2, "us", "raw", 1.25, "<= 1.3", is_met=True, note="busy"),
        Figure("CPU", "peer", 1234.5, "us", "ours", 11.84, ">= 12", is_met=False, note="busy"),
        Figure("memory", "ours", 0.5, "bytes"),
    ]
    head, *rows, note = figures_table(figures).splitlines()
    assert head.split() == ["median", "unit", "ratio", "of", "target", "note"]
    assert [row.split() for row in rows] == [
        ["CPU:", "ours", "104", "us", "1.25", "x", "raw", "<=", "1.3", "met", "[1]"],
        ["CPU:", "peer", "1,234", "us", "11.8", "x", "ours", ">=", "12", "MISSED", "[1]"],
        ["memory:", "ours", "0.5", "bytes"],
    ]
    assert note == "[1] busy"


def test_below_the_table_stands_how_many_targets_were_met():
    figures = [Figure("b", str(met), 1.0, "us", "x", 1.0, "<= 2", met) for met in (True, False, True)]
    assert verdict([*figures, Figure("b", "for information", 1.0, "us")]) == "2 of 3 targets were met"


def test_values_are_shown_with_three_figures_or_whole():
    assert [shown(value) for value in (0.01234, 1.2345, 99.94, 123.4, 100_000)] == [
        "0.0123",
        "1.23",
        "99.9",
        "123",
        "100,000",
    ]


def test_the_file_holds_all_that_a_reader_must_know(tmp_path):
    figure = Figure("CPU", "ours", 104.2, "us", "raw", 1.25, "<= 1.3", is_met=True)
    write_json(tmp_path / "results.json", [figure], {"rounds": 5}, ["left out: openai"])
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["figures"][0]["ratio"] == 1.25
    assert (document["arguments"], document["left_out"]) == ({"rounds": 5}, ["left out: openai"])
    assert document["date"].endswith("+00:00")


# -- what the figures say ----------------------------------------------------------------------------------------------


def test_ours_is_judged_beside_aiohttp_on_the_same_loop_and_openai_beside_ours():
    costs = {OURS: 2.0, RAW: 1.0, get_peers.OURS_ON_UVLOOP: 1.5, get_peers.RAW_ON_UVLOOP: 0.5, get_peers.OPENAI: 12.0}
    taken = {name: [requests_cpu.Cost(cost, 1)] for name, cost in costs.items()}
    found = {figure.name: figure for figure in requests_cpu.figures("CPU", taken, 1)}
    told = {name: (figure.versus, figure.ratio, figure.target, figure.is_met) for name, figure in found.items()}
    assert told == {
        OURS: (RAW, 2.0, "<= 1.3", False),
        RAW: (OURS, 0.5, None, None),
        get_peers.OURS_ON_UVLOOP: (get_peers.RAW_ON_UVLOOP, 3.0, "<= 1.3", False),
        get_peers.RAW_ON_UVLOOP: (OURS, 0.25, None, None),
        get_peers.OPENAI: (OURS, 6.0, ">= 7", False),
    }


def test_a_poll_of_ours_is_judged_beside_aiohttp_at_full_speed_and_at_the_same_rate():
    costs = {watcher_cpu.BARE: 1.0, watcher_cpu.FLAT_OUT: 3.0, OURS: 3.0, watcher_cpu.LOOP: 2.5}
    figures = watcher_cpu.figures({name: [watcher_cpu.Cost(cost, 1500.0)] for name, cost in costs.items()})
    judged = [(figure.versus, figure.ratio, figure.is_met) for figure in figures if figure.target]
    assert judged == [(watcher_cpu.BARE, 3.0, False), (watcher_cpu.LOOP, 1.2, True)]


def test_who_opens_more_connections_than_looks_at_a_time_is_told_of():
    figures = requests_cpu.figures("CPU", {OURS: [requests_cpu.Cost(1.0, 50)], RAW: [requests_cpu.Cost(1.0, 51)]}, 50)
    assert [bool(figure.note) for figure in figures] == [False, True]


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
    assert (figures[0].value, figures[0].target, figures[0].is_met) == (pytest.approx(2.5), "<= 1.25", False)
    assert figures[0].points == (
        (1000, pytest.approx(20.0)),
        (10_000, pytest.approx(30.0)),
        (1_000_000, pytest.approx(50.0)),
    )
    assert found(figures, "watcher, 1,000,000 tasks: memory").value == 400.0
    assert found(figures, "watcher, 1,000,000 tasks: CPU per add").value == pytest.approx(7.0)
    assert scheduler.figures(scheduler.SCHEDULE, measured)[0].target is None

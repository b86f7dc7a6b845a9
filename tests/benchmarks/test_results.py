"""What the benchmarks report about what they measured, and their command line. No test judges a time."""

import json

import pytest
from attrs import evolve

from benchmarks import get_peers, gets, paced, scheduler, watching
from benchmarks.__main__ import BENCHMARKS, measure, parse
from benchmarks.children import interleaved
from benchmarks.get_peers import BARE, OPENAI, OURS, PEERS, RAW
from benchmarks.measure import file_system, percentile, table
from benchmarks.reports import Results, figures_table, format_number, markdown_table, verdict
from benchmarks.results import Figure, Scale, at_least, at_most, compared, ratios_of
from benchmarks.watching_process import Watched

MET = Figure("CPU", "ours", 104.2, "us", "raw", 1.25, "<= 1.3", is_met=True, quartiles=(1.2, 1.301), limit=31.0)
MISSED = Figure("CPU", "peer", 1234.5, "us", "ours", 11.84, ">= 12", is_met=False, note="a busy machine")
PLAIN = Figure("memory", "ours", 0.5, "bytes", note="100,000 tasks")


# -- the command line --------------------------------------------------------------------------------------------------


def test_a_run_is_full_and_of_all_benchmarks_by_default(tmp_path):
    asked = parse(["--output", str(tmp_path)])
    assert (asked.only[: len(BENCHMARKS)], asked.scale, asked.is_tiny) == (BENCHMARKS, Scale.full(), False)
    asked = parse(["--tiny", "--rounds", "2", "--stretch", "--only", "gets", "--output", str(tmp_path)])
    assert asked == evolve(asked, only=("gets",), scale=evolve(Scale.tiny(), rounds=2, has_stretch=True))


def test_results_are_only_replaced_on_request(tmp_path, capsys):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(SystemExit):
        parse(["--output", str(tmp_path)])
    assert "has results" in capsys.readouterr().err
    assert parse(["--only", "gets", "--output", str(tmp_path)]).only == ("gets",)


def test_one_peer_is_compared_with_ours_plain_aiohttp_and_the_limit(monkeypatch):
    monkeypatch.setattr(get_peers, "find_spec", lambda package: package)
    assert get_peers.present(["replicate"]) == [OURS, get_peers.EARLIER, RAW, BARE, "replicate"]
    assert get_peers.present() == list(PEERS)


def test_peers_whose_packages_are_missing_are_left_out_with_a_line_for_each(monkeypatch):
    monkeypatch.setattr(get_peers, "find_spec", lambda package: None if package == "openai" else package)
    assert set(PEERS) - set(get_peers.present()) == {OPENAI, get_peers.OPENAI_ON_AIOHTTP}
    assert get_peers.left_out() == [
        "left out: openai (httpx) (openai not installed)",
        "left out: openai (aiohttp) (openai not installed)",
    ]


# -- the table and the files -------------------------------------------------------------------------------------------


def test_the_table_has_a_heading_for_each_benchmark_and_states_which_targets_are_met():
    head, *lines = figures_table([MET, MISSED, PLAIN]).splitlines()
    assert head.split() == ["measured", "compared", "with", "target", "limit"]
    assert [" ".join(line.split()) for line in lines] == [
        "CPU",
        "ours 104 us 1.25 [1.20-1.30] x raw <= 1.3 met 31",
        "peer [1] 1,234 us 11.8 x ours >= 12 MISSED",
        "memory",
        "ours 0.5 bytes 100,000 tasks",
        "[1] a busy machine",
    ]
    assert markdown_table([MET, MISSED, PLAIN]).splitlines()[2:] == [
        "| **CPU** | | | | | |",
        "| ours | 104 us | 1.25 [1.20-1.30] x raw | <= 1.3 | met | 31 |",
        "| peer [1] | 1,234 us | 11.8 x ours | >= 12 | MISSED |  |",
        "| **memory** | | | | | |",
        "| ours | 0.5 bytes | 100,000 tasks |  |  |  |",
        "",
        "- [1] a busy machine",
    ]
    assert verdict([MET, MISSED, PLAIN]) == "1 of 2 targets met"


def test_the_rows_of_all_full_benchmarks_fit_a_terminal_of_120_columns():
    name = f"{OPENAI}, a coroutine per task"
    widest = Figure(
        "CPU", name, 123.4, "us", paced.BACK_TO_BACK, 12.34, "<= 260 bytes", False, "", (11.23, 13.45), 123.4
    )
    assert max(map(len, figures_table([widest]).splitlines())) <= 120


def test_values_are_shown_with_three_digits_or_as_integers():
    values = (0.01234, 1.2345, 99.94, 123.4, 100_000)
    assert [format_number(value) for value in values] == ["0.0123", "1.23", "99.9", "123", "100,000"]


def test_a_benchmark_that_is_measured_again_replaces_its_figures_only(tmp_path):
    first = Results.load(tmp_path)
    first.describe({"tiny": True}, ["left out: openai"])
    first.record("gets", [MET, MISSED], load_before=0.5)
    first.record("paced", [PLAIN])
    first.write(BENCHMARKS)
    again = Results.load(tmp_path)
    again.record("gets", [MISSED])
    again.write(BENCHMARKS)
    assert Results.load(tmp_path).figures(BENCHMARKS) == [MISSED, PLAIN]
    document = json.loads((tmp_path / "results.json").read_text())
    assert (document["arguments"], document["left_out"]) == ({"tiny": True}, ["left out: openai"])
    assert {"python", "aiohttp"} <= set(document["versions"])
    assert "| peer [1] | 1,234 us |" in (tmp_path / "results.md").read_text()


def test_a_benchmark_that_fails_does_not_lose_the_results_of_the_others(tmp_path, monkeypatch, capsys):
    def fail(scale):
        raise RuntimeError("the machine is too slow")

    monkeypatch.setattr(gets, "run", fail)
    results = Results.load(tmp_path)
    results.record("paced", [PLAIN])
    assert not measure("gets", Scale.tiny(), results)
    assert "the machine is too slow" in capsys.readouterr().err
    assert results.figures(BENCHMARKS) == [PLAIN]


# -- ratios and targets ------------------------------------------------------------------------------------------------


def test_each_round_begins_with_another_competitor():
    order = []
    interleaved("abc", 3, order.append)
    assert "".join(order) == "abcbcacab"


def test_a_value_at_the_limit_meets_the_target():
    assert [at_most(1.3, 1.3), at_most(1.3, 1.31)] == [("<= 1.3", True), ("<= 1.3", False)]
    assert [at_least(7, 7.0), at_least(7, 6.99)] == [(">= 7", True), (">= 7", False)]


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds_with_their_quartiles():
    assert ratios_of([2.0, 30.0], [1.0, 10.0]) == [2.0, 3.0]
    seconds = {"ours": [2e-6, 30e-6, 9e-6, 8e-6, 5e-6], "raw": [1e-6, 10e-6, 3e-6, 2e-6, 1e-6], "bare": [1e-6] * 5}
    figure = compared("CPU", "ours", seconds, "raw", lambda ratio: at_most(2, ratio), limit="bare")
    assert (figure.value, figure.versus, figure.target, figure.is_met) == (pytest.approx(8), "raw", "<= 2", False)
    assert (figure.ratio, figure.quartiles) == (pytest.approx(3), (pytest.approx(3), pytest.approx(4)))
    assert figure.limit == pytest.approx(1)


def test_without_its_base_a_figure_has_no_ratio_and_no_target():
    figure = compared("CPU", "peer", {"peer": [1e-6]}, "raw", lambda ratio: at_most(2, ratio))
    assert (figure.ratio, figure.target, figure.is_met) == (None, None, None)


# -- the figures of each benchmark -------------------------------------------------------------------------------------


def test_a_get_is_judged_beside_aiohttp_in_the_same_blocks_and_openai_beside_ours():
    own = [*gets.figures(50, ", TLS", {OURS: [0.95e-4], RAW: [1e-4], BARE: [0.1e-4]})]
    assert [(figure.name, figure.ratio, figure.is_met) for figure in own] == [
        (f"{OURS}, TLS", pytest.approx(0.95), False),
        (f"{RAW}, TLS", None, None),
    ]
    assert [figure.limit for figure in own] == [pytest.approx(10)] * 2
    costs = {OURS: [1e-4], OPENAI: [11e-4], "replicate": [12e-4]}
    peers = [*gets.peer_figures(50, costs), *gets.peer_figures(1, costs)]
    assert [figure.is_met for figure in peers] == [True, None, None, None]
    assert [figure.versus for figure in peers] == [OURS] * 4


def test_a_paced_poll_is_judged_beside_aiohttp_back_to_back():
    costs = {OURS: 1.05e-4, paced.SAME_RATE: 1.2e-4, paced.BACK_TO_BACK: 1e-4, BARE: 0.2e-4}
    figures = [*paced.figures("", {name: [paced.Slice(cpu, 1667.0)] for name, cpu in costs.items()})]
    assert [(figure.name, figure.ratio, figure.is_met) for figure in figures] == [
        (OURS, pytest.approx(1.05), True),
        (paced.SAME_RATE, pytest.approx(1.2), None),
        (paced.BACK_TO_BACK, None, None),
    ]
    assert figures[0].facts == {"requests_per_second": 1667.0}


def watched(**changes):
    usual = {"cpu": 2.5, "wall": 10.0, "polls": 990.0, "due": 1000.0, "p50": 0.004, "p99": 0.02}
    return Watched(**{**usual, "longest": 0.03, "memory": 250.0, "collection": 0.01, **changes})


def test_ours_is_judged_and_the_bare_protocol_is_the_limit():
    measured = {OURS: watched(cpu=3.1), RAW: watched(cpu=5.0), BARE: watched(cpu=0.5)}
    figures = [*watching.figures("100,000 tasks", measured, watching.QUIET)]
    assert [(figure.name, figure.value, figure.is_met, figure.limit) for figure in figures] == [
        (f"{OURS}: share of a core", pytest.approx(31), False, pytest.approx(5)),
        (f"{OURS}: lateness, p99", pytest.approx(20), True, None),
        (f"{OURS}: polls made", pytest.approx(99), None, None),
        (f"{RAW}: share of a core", pytest.approx(50), None, pytest.approx(5)),
        (f"{RAW}: lateness, p99", pytest.approx(20), None, None),
        (f"{RAW}: polls made", pytest.approx(99), None, None),
    ]
    (made,) = [figure for figure in watching.figures("busy", {OURS: watched()}, watching.BUSY) if figure.target]
    assert (made.target, made.is_met) == (">= 98 %", True)


def test_memory_is_judged_in_bytes_and_the_others_are_multiples_of_it():
    figures = [*watching.memory_figures({OURS: watched(memory=261.0), RAW: watched(memory=2610.0)}, 100)]
    assert [(figure.is_met, figure.ratio) for figure in figures] == [(False, None), (None, pytest.approx(10))]
    assert 100 < figures[0].limit < 200
    assert [*watching.memory_figures({OURS: watched(memory=0.0)}, 100)] == []


def test_the_sweep_goes_from_the_fewest_tasks_to_the_most():
    assert watching.sizes(1000, 100_000) == [1000, 10_000, 100_000]
    assert watching.sizes(40, 40) == [40]
    measured = {1000: {OURS: watched()}, 10_000: {OURS: watched(), OPENAI: watched()}}
    points = [(figure.name, figure.facts["tasks"]) for figure in watching.sweep_figures(measured)]
    assert points == [
        (f"{OURS}, 1,000 tasks", 1000),
        (f"{OURS}, 10,000 tasks", 10_000),
        (f"{OPENAI}, 10,000 tasks", 10_000),
    ]


def test_the_growth_of_the_scheduler_is_judged_at_the_most_tasks():
    found = {"adding": 7e-6, "memory": 250.0}
    costs = {"1,000 tasks": 2e-5, "100,000 tasks": 3e-5, "1,000,000 tasks": 2.4e-5}
    figures = [*scheduler.figures({name: [{"cpu": cpu, **found}] for name, cpu in costs.items()})]
    assert [(figure.ratio, figure.is_met) for figure in figures] == [
        (None, None),
        (pytest.approx(1.5), None),
        (pytest.approx(1.2), True),
    ]


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n/dev/b {tmp_path}/other xfs rw 0 0\n")
    assert file_system(tmp_path / "orders", mounts) == "tmpfs"
    assert file_system(tmp_path.parent, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "missing") == "unknown"


def test_percentiles_and_tables_are_right():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(100), 0.99) == 99
    assert table(("a", "b"), [("long", "1"), ("c", "22")]) == "a      b\nlong   1\nc     22"
    assert table(("a", "b"), [("long", "1"), ("c", "22")], left=(0, 1)) == "a     b\nlong  1\nc     22"

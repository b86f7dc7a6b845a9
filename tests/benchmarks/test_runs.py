"""``python -m benchmarks`` measures, prints, writes and draws what it should. No test judges a time."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import asdict, evolve

from benchmarks import get_peers, plots, rows, stretch, watching
from benchmarks.before import BEFORE, installed
from benchmarks.children import child
from benchmarks.get_peers import OURS, RAW
from benchmarks.load_service import running_service
from benchmarks.results import Figure, Scale
from benchmarks.watching_process import Plan

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
#: The headings of the table, by benchmark, and some of its rows.
PARTS = {
    "gets": (
        ["CPU of a get, 1 at a time", "CPU of a get, 50 at a time"],
        {f"{OURS}, TLS", f"{RAW}, uvloop, TLS", "replicate"},
    ),
    "paced": (["CPU of a poll, paced"], {OURS, f"{OURS}, TLS", f"{OURS}, uvloop"}),
    "watching": (
        [
            "40 tasks at 0.5 s",
            "40 tasks at 0.5 s, all cores busy",
            "memory of a watched task",
            "CPU of a poll by the number of tasks",
        ],
        {f"{RAW}: lateness, p99", f"{OURS}: polls made", f"{OURS}, 40 tasks"},
    ),
    "scheduler": (["CPU of a poll, scheduler alone"], {"2,000 tasks"}),
}


@pytest.fixture
def here() -> Iterator[Path]:
    """A directory whose path is short: sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="b-") as name:
        yield Path(name)


@pytest.mark.parametrize("part", PARTS)
def test_a_tiny_run_prints_one_table_and_writes_it_with_the_plot(part, tmp_path, here):
    command = [sys.executable, "-W", "error", "-m", "benchmarks", "--tiny", "--peer", "replicate"]
    command += ["--only", part, "--output", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(here)}

    ended = subprocess.run(  # noqa: S603 - our own list
        command, cwd=here, env=environment, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, f"running {part} …\n")
    assert list(here.iterdir()) == []
    plot = {"polls.png", "polls.svg"} if part == "watching" else set()
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "results.md", *plot}
    headings, names = PARTS[part]
    assert [line for line in ended.stdout.splitlines() if line in headings] == headings
    assert "these numbers are meaningless" in ended.stdout
    document = json.loads((tmp_path / "results.json").read_text())
    assert (document["arguments"]["tiny"], document["arguments"]["peers"]) == (True, ["replicate"])
    figures = document["benchmarks"][part]["figures"]
    assert list(dict.fromkeys(figure["benchmark"] for figure in figures)) == headings
    assert names - {figure["name"] for figure in figures} == set()
    assert all(figure["value"] > 0 for figure in figures if figure["benchmark"].startswith("CPU"))


def test_a_child_that_fails_reports_why():
    with pytest.raises(RuntimeError, match=r"benchmarks.scheduler nothing 1 failed:(.|\n)*ValueError"):
        child("benchmarks.scheduler", "nothing", "1")


def test_two_processes_are_measured_at_the_same_time():
    with running_service() as service:
        found = watching.watched(service, [OURS, RAW], tasks=20, interval=0.2, seconds=0.5)
        assert service.count() >= found.polls
    assert found.due == pytest.approx(2 * 20 / 0.2 * found.wall, rel=0.2)
    assert found.polls > 0


def test_a_stretch_is_measured_on_request_only():
    scale = Scale.tiny()
    assert stretch.run(scale) == []
    figures = stretch.run(evolve(scale, has_stretch=True, seconds=0.3))
    judged = [figure.name.removeprefix(f"{watching.OURS_ON_UVLOOP}: ") for figure in figures if figure.target]
    assert {*judged} - {"lateness, p99", "polls made", "longest GC"} == {"CPU of a poll"}
    assert {figure.benchmark for figure in figures} == {
        "200 tasks at 0.5 s",
        "400 tasks at 0.5 s, 2 processes",
        watching.SWEEP,
    }


def test_rows_are_compared_on_request_only(here, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(here))
    scale = Scale.tiny()
    assert rows.run(scale) == []
    figures = rows.run(evolve(scale, has_stretch=True))
    headings = {"a row of orders.list, SQLite", "a row of orders.states, PostgreSQL", "a task of rewatch, SQLite"}
    headings |= {"start of a watcher, PostgreSQL", "an outcome of as_completed"}
    assert headings <= {figure.benchmark for figure in figures}
    judged = {figure.name for figure in figures if figure.target}
    assert judged == {"of 2,000"}


def test_an_older_commit_is_measured_beside_this_one():
    with installed("HEAD"):
        program = f"from {BEFORE} import Client; from vidgen_async import Client as ours; print(Client is not ours)"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
        assert (ran.stdout, get_peers.PEERS[get_peers.EARLIER].missing) == ("True\n", [])
    assert get_peers.PEERS[get_peers.EARLIER].missing == [BEFORE]


def test_a_client_that_cannot_start_reports_why():
    plan = Plan(OURS, is_uvloop=False, url="no address", tasks=1, interval=1.0, settling=0.1, seconds=0.1)
    with pytest.raises(RuntimeError, match="ConfigurationError"):
        child("benchmarks.watching_process", json.dumps(asdict(plan)))


def test_equal_figures_make_equal_plots(tmp_path):
    facts = {"tasks": 1000.0, "p99": 0.01, "polls": 100.0, "due": 100.0}
    point = Figure(watching.SWEEP, f"{OURS}, 1,000 tasks", 200.0, "us", facts=facts)
    first, second = ([path.read_bytes() for path in plots.draw([point], tmp_path)] for _ in range(2))
    assert len(first) == 2
    assert first == second
    assert plots.draw([Figure("another", "row", 1.0, "us")], tmp_path) == []

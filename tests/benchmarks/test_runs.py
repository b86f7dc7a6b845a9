"""``python -m benchmarks`` runs all that it promises, and says so. How fast anything is, no test says."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import fields

from benchmarks import loop_holds, memory, plots, requests_cpu, scheduler, spread, watcher_cpu
from benchmarks.__main__ import BENCHMARKS
from benchmarks.children import child
from benchmarks.curves import Curve
from benchmarks.gap_service import running_gap_service
from benchmarks.get_peers import OURS, RAW
from benchmarks.results import Figure
from benchmarks.watching_process import Plan, running_client

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PEER = "replicate"
#: Those of test_rows.py, and the second transport: pyreqwest now and then aborts the interpreter while it exits.
NOT_HERE = ("creates", "downloads", "uploads", "imports", "journal", "cassettes", "second_transport")
STABLE = tuple(name for name in BENCHMARKS if name not in NOT_HERE)
TWO_MINUTES = (
    "CPU of the process, per poll",
    "share of one core",
    "memory of the process",
    "lateness p50",
    "lateness p99",
    "lateness max",
)


@pytest.fixture
def here() -> Iterator[Path]:
    """A directory whose path is short: sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="b-") as name:
        yield Path(name)


def test_a_tiny_run_has_a_row_for_everybody_in_the_tables_and_in_the_file_and_draws(tmp_path, here):
    output = tmp_path / "results"
    only = [word for name in STABLE for word in ("--only", name)]
    command = [sys.executable, "-W", "error", "-m", "benchmarks", "--tiny", "--peer", PEER, *only]
    command += ["--output", str(output)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(here)}

    ended = subprocess.run(  # noqa: S603 - our own list
        command, cwd=here, env=environment, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == [f"running {name} …" for name in STABLE]
    assert "this was --tiny" in ended.stdout
    assert list(here.iterdir()) == []
    document = json.loads((output / "results.json").read_text())
    check_document(document)
    check_figures([(one["benchmark"], one["name"], one["value"]) for one in document["figures"]], ended.stdout)
    assert {path.name for path in output.iterdir()} == {
        "results.json",
        *(f"{name}.{kind}" for name in ("costs", "scheduler", "spread", "troubles") for kind in ("png", "svg")),
    }
    for path in output.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for path in output.glob("*.svg"):
        assert path.read_bytes().startswith(b"<?xml")


def check_document(document):
    assert document["left_out"] == []
    assert set(document["figures"][0]) == {field.name for field in fields(Figure)}
    packages = {"python", "vidgen-async", "aiohttp", "uvloop", "openai", "runwayml", "replicate"}
    assert packages <= set(document["versions"])
    assert {"cpu", "cores", "system"} <= set(document["machine"])
    arguments = document["arguments"]
    assert (arguments["tiny"], arguments["rounds"], arguments["peers"]) == (True, 1, [PEER])


def check_figures(figures, table):
    """Each benchmark has the rows of everybody who is compared, in the table too."""
    gets = [f"CPU per videos.get, {label}" for label in requests_cpu.CONCURRENCIES]
    waits = (OURS, watcher_cpu.LOOP, watcher_cpu.FLAT_OUT, watcher_cpu.BARE, PEER)
    sizes = (OURS, f"{OURS}, right after all were added", memory.WAITS, memory.LOOP)
    assert {(benchmark, name) for benchmark, name, _ in figures if benchmark not in BY_BEGINNING} == {
        *((benchmark, name) for benchmark in gets for name in (OURS, RAW, PEER)),
        *((watcher_cpu.BENCHMARK, name) for name in waits),
        *((memory.BENCHMARK, name) for name in sizes),
        *((loop_holds.BENCHMARK, name) for name in loop_holds.SITUATIONS),
    }
    for benchmark, beginnings in BY_BEGINNING.items():
        names = [name for among, name, _ in figures if among == benchmark]
        assert [one for one in beginnings if not any(name.startswith(one) for name in names)] == []
    assert [name for benchmark, name, _ in figures if f"{benchmark}: {name}" not in table] == []
    measured = [(benchmark, name) for benchmark, name, value in figures if "between polls" not in name and value <= 0]
    assert measured == []
    assert re.search(r"\[\d+\] 60 tasks at 0\.5 s for \d s: .*, 0 failed; aiohttp took", table)


#: Benchmarks whose rows say more than their name.
BY_BEGINNING = {
    "two minutes": [*(f"asyncio: {name}" for name in TWO_MINUTES), "asyncio: between polls of a task, shortest"],
    spread.BENCHMARK: [spread.RESTART, spread.FREEZE, spread.BLOCK, spread.RESETS, spread.SILENCE],
    scheduler.BENCHMARK: [
        f"{name}: CPU per poll, 3,000 to 1,000 tasks"
        for name in (scheduler.WATCHER, scheduler.IN_USE, scheduler.SCHEDULE)
    ],
}


def test_a_child_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"requests_cpu nobody .* failed:(.|\n)*KeyError"):
        child("benchmarks.requests_cpu", "nobody", "http://127.0.0.1:9", 1, 1)


def test_a_client_that_cannot_begin_says_why():
    with (
        pytest.raises(RuntimeError, match="ConfigurationError"),
        running_client(Plan("no address", tasks=1, interval=1.0, seconds=1.0)),
    ):
        pass


def test_a_frozen_client_asks_for_nothing_and_goes_on_afterwards():
    with running_gap_service() as service:
        plan = Plan(service.base_url, tasks=20, interval=0.2, seconds=1.5)
        with running_client(plan) as client:
            while service.counts().tasks < 20:
                time.sleep(0.01)
            client.freeze(0.5)
            measured = client.found()
        arrived = service.counts()
        assert arrived.tasks >= 40
        assert service.gaps().longest >= 0.5
        assert (measured["tasks"], measured["errors"]) == (20, 0)


def test_the_same_figures_make_the_same_svg(tmp_path):
    points = ((1000, 20.0), (10_000, 30.0))
    curve = Curve(scheduler.BENCHMARK, f"{scheduler.WATCHER}: CPU per poll", 1.5, "times", points=points)
    (first,) = [path.read_bytes() for path in plots.draw([curve], tmp_path) if path.suffix == ".svg"]
    (second,) = [path.read_bytes() for path in plots.draw([curve], tmp_path) if path.suffix == ".svg"]
    assert first == second
    assert plots.draw([Figure("another", "row", 1.0, "us")], tmp_path) == []

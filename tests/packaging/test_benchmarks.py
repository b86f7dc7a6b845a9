"""The benchmarks run and compare what they promise to compare. How fast anything is, no test says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.journal import Figures, operations
from benchmarks.measure import percentile, table
from benchmarks.peers import PEERS
from tests.journal.conftest import rows

ROOT = Path(__file__).resolve().parents[2]


def test_the_journal_s_benchmark_compares_all_journals_in_every_table(tmp_path):
    arguments = ("--orders", "3", "--rounds", "1", "--concurrency", "1,2", "--directory", str(tmp_path))
    command = [sys.executable, "-W", "error", "-m", "benchmarks.journal", *arguments]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list
    assert (found.returncode, found.stderr) == (0, "")
    tables = found.stdout.split("\n\n")[1:]
    assert len(tables) == 5
    for part in tables:
        title, head, *lines = part.splitlines()
        assert "concurrency" not in title
        assert head.startswith("journal ")
        assert [re.split(r"\s{2,}", line)[0] for line in lines] == list(PEERS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in PEERS if name != "no journal (memory)"])
async def test_every_journal_on_disk_does_the_same_work(name, tmp_path):
    journal, figures = PEERS[name](path := tmp_path / "orders.db"), Figures()
    await operations(journal, 4, 2, figures)
    await journal.aclose()
    assert len(figures.took) == 12
    assert rows(path, "SELECT count(*) FROM orders") == [(4,)]
    assert rows(path, "SELECT count(*) FROM attempts WHERE counted_at IS NOT NULL") == [(4,)]
    assert rows(path, "SELECT count(*) FROM evidence WHERE outcome = 'accepted'") == [(4,)]


def test_percentiles_and_tables_are_right():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(100), 0.99) == 99
    assert table(("a", "b"), [("long", "1")]) == "a     b\nlong  1"

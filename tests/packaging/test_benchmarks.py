"""The benchmarks run and compare what they promise to compare. How fast anything is, no test says."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from attrs import astuple

from benchmarks.cassette_peers import HEADERS, RECORDERS
from benchmarks.cassette_secrets import EXCHANGES, PLANTED, leaked
from benchmarks.cassette_service import statuses
from benchmarks.cassette_stream import STREAM_RECORDERS
from benchmarks.cassettes import EQUAL, Bench, check
from benchmarks.journal import Figures, operations
from benchmarks.measure import file_system, percentile, table
from benchmarks.peers import PEERS, set_up
from tests.journal.conftest import rows
from vidgen_async.journal.sqlite.file import JournalFile

ROOT = Path(__file__).resolve().parents[2]
#: What decides on the price and the safety of a commit.
SETTINGS = ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "locking_mode", "cache_size", "page_size")


def test_the_journal_s_benchmark_compares_all_journals_in_every_table(tmp_path):
    arguments = ("--orders", "3", "--rounds", "1", "--concurrency", "1,2", "--directory", str(tmp_path))
    command = [sys.executable, "-W", "error", "-m", "benchmarks.journal", *arguments]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list
    assert (found.returncode, found.stderr) == (0, "")
    machine, *tables = found.stdout.split("\n\n")
    assert re.match(r"Python 3\.\d+\.\d+, SQLite 3\.\d+\.\d+, \d+ cores, file system \S+, one fsync ", machine)
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


def test_the_peers_have_the_settings_and_the_tables_of_ours(tmp_path):
    theirs = sqlite3.connect(tmp_path / "theirs.db", isolation_level=None)
    ours = JournalFile(tmp_path / "ours.db", busy_timeout=30.0).open()
    with closing(theirs), closing(ours):
        for statement in set_up("TRUNCATE"):
            theirs.execute(statement)
        for asked in (*map("PRAGMA {}".format, SETTINGS), "SELECT name, sql FROM sqlite_master ORDER BY name"):
            assert theirs.execute(asked).fetchall() == list(map(tuple, ours.execute(asked))), asked


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


def test_the_cassettes_benchmark_compares_all_recorders_in_every_table(tmp_path):
    arguments = ("--interactions", "20", "--rounds", "1", "--stream-mb", "2", "--directory", str(tmp_path))
    command = [sys.executable, "-W", "error", "-m", "benchmarks.cassettes", *arguments]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list
    assert (found.returncode, found.stderr) == (0, "")
    machine, *tables = found.stdout.rstrip("\n").split("\n\n")
    assert re.match(r"Python 3\.\d+\.\d+, vidgen_async \S+, aiohttp \S+, vcrpy \S+, cassetter \S+ ", machine)
    replay, load, cpu, memory, secrets = ([re.split(r"\s{2,}", line) for line in part.splitlines()] for part in tables)
    assert [row[0] for row in replay[2:]] == ["ours", "ours, client.videos.get", "vcrpy", "cassetter"]
    assert [row[0] for row in load[2:]] == list(RECORDERS)
    assert [row[0] for row in cpu[2:]] == ["DirectTransport", "ours", EQUAL, "aiohttp", "vcrpy", "cassetter"]
    assert [row[0] for row in memory[2:]] == [
        f"{name}: {mode}" for name in STREAM_RECORDERS for mode in ("record", "replay")
    ]
    assert [row[3] for row in memory[2:] if row[0].startswith("ours")] == ["all"] * 4
    assert secrets[1] == ["secret", *RECORDERS]
    assert [row[0] for row in secrets[2:]] == [*PLANTED, "leaked"]
    assert secrets[-1][1] == "0"
    assert list(tmp_path.iterdir()) == []


def test_each_planted_secret_is_in_an_exchange_and_is_found_wherever_a_file_breaks_its_lines(tmp_path):
    text = json.dumps([HEADERS, *map(astuple, EXCHANGES)])
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text(re.sub(r"(.{7})", r"\1\\\n    ", text))
    assert leaked(tmp_path) == list(PLANTED)


def test_nothing_is_leaked_by_a_file_without_the_secrets(tmp_path):
    (tmp_path / "file").write_text("Authorization: REDACTED, Idempotency-Key: REDACTED, sig=REDACTED-sig-1")
    assert leaked(tmp_path) == []


def test_a_replay_that_gives_other_answers_than_were_recorded_is_not_measured():
    said = statuses(8)
    assert said == ["queued", "queued", "running", "running", "running", "running", "running", "completed"]
    check(said, 8)
    for wrong in (said[::-1], ["queued"] * 8, said[:-1]):
        with pytest.raises(ValueError, match="other answers"):
            check(wrong, 8)


def test_rounds_are_interleaved_each_with_another_one_first(tmp_path):
    order = []

    def way(name):
        async def take():
            order.append(name)
            return len(order)

        return take

    bench = Bench(base_url="http://service.test", directory=tmp_path, interactions=1, rounds=3, stream_mb=1)
    found = bench.compare({name: way(name) for name in "abc"}, once="b")
    assert order == ["a", "b", "c", "c", "a", "c", "a"]
    assert found == {"a": [1, 5, 7], "b": [2], "c": [3, 4, 6]}

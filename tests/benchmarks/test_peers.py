"""Those who are compared do the same work. Needs the extra bench, which also the modules of the benchmarks import."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
from attrs import astuple

from benchmarks.cassette_secrets import EXCHANGES, PLANTED, leaked
from benchmarks.cassette_service import statuses
from benchmarks.get_peers import PEERS
from benchmarks.load_service import running_service
from tests.journal.conftest import rows
from vidgen_async.journal.sqlite.file import JournalFile

pytest.importorskip("aiosqlite")
pytest.importorskip("cassetter")
pytest.importorskip("vcr")
cassettes = pytest.importorskip("benchmarks.cassettes")
cassette_peers = pytest.importorskip("benchmarks.cassette_peers")
journal = pytest.importorskip("benchmarks.journal")
journal_peers = pytest.importorskip("benchmarks.peers")

pytestmark = pytest.mark.needs_dev

#: What decides on the price and the safety of a commit.
SETTINGS = ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "locking_mode", "cache_size", "page_size")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_each_peer_polls_once_and_receives_the_task_that_it_requested():
    found = {}
    with running_service() as service:
        for name, peer in PEERS.items():
            async with peer.connect(service.url) as get:
                before = service.count()
                tasks = [await get(task_id) for task_id in ("vt-1", "vt-2")]
                count = service.count() - before
            found[name] = ([id_of(task) for task in tasks], count)
    assert found == dict.fromkeys(PEERS, (["vt-1", "vt-2"], 2))


def id_of(task):
    if isinstance(task, bytes):  # the bare protocol does not parse HTTP
        return json.loads(task.partition(b"\r\n\r\n")[2])["id"]
    return task["id"] if isinstance(task, dict) else task.id


async def test_every_journal_on_disk_does_the_same_work(tmp_path):
    for number, (name, make) in enumerate(journal_peers.PEERS.items()):
        if name != "no journal (memory)":
            made, figures = make(path := tmp_path / f"{number}.db"), journal.Figures()
            await journal.operations(made, 4, 2, figures)
            await made.aclose()
            assert len(figures.took) == 12, name
            assert rows(path, "SELECT count(*) FROM orders") == [(4,)], name
            assert rows(path, "SELECT count(*) FROM attempts WHERE counted_at IS NOT NULL") == [(4,)], name
            assert rows(path, "SELECT count(*) FROM evidence WHERE outcome = 'accepted'") == [(4,)], name


def test_the_peers_have_the_settings_and_the_tables_of_ours(tmp_path):
    theirs = sqlite3.connect(tmp_path / "theirs.db", isolation_level=None)
    ours = JournalFile(tmp_path / "ours.db", busy_timeout=30.0).open()
    with closing(theirs), closing(ours):
        for statement in journal_peers.set_up("TRUNCATE"):
            theirs.execute(statement)
        for asked in (*map("PRAGMA {}".format, SETTINGS), "SELECT name, sql FROM sqlite_master ORDER BY name"):
            assert theirs.execute(asked).fetchall() == list(map(tuple, ours.execute(asked))), asked


def test_each_planted_secret_is_in_an_exchange_and_is_found_wherever_a_file_breaks_its_lines(tmp_path):
    text = json.dumps([cassette_peers.HEADERS, *map(astuple, EXCHANGES)])
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text(re.sub(r"(.{7})", r"\1\\\n    ", text))
    assert leaked(tmp_path) == list(PLANTED)


def test_a_replay_that_gives_other_answers_than_were_recorded_is_not_measured():
    said = statuses(8)
    assert said == ["queued", "queued", "running", "running", "running", "running", "running", "completed"]
    cassettes.check(said, 8)
    for wrong in (said[::-1], ["queued"] * 8, said[:-1]):
        with pytest.raises(ValueError, match="other answers"):
            cassettes.check(wrong, 8)


def test_rounds_are_interleaved_each_with_another_one_first(tmp_path):
    order = []

    def way(name):
        async def take():
            order.append(name)
            return len(order)

        return take

    bench = cassettes.Bench(base_url="http://service.test", directory=tmp_path, interactions=1, rounds=3, stream_mb=1)
    found = bench.compare({name: way(name) for name in "abc"}, once="b")
    assert order == ["a", "b", "c", "c", "a", "c", "a"]
    assert found == {"a": [1, 5, 7], "b": [2], "c": [3, 4, 6]}

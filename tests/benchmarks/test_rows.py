"""The rows of creates, transfers, imports, journals and cassettes. No test measures a time."""

import asyncio
import hashlib
import shutil
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from attrs import evolve

from benchmarks import (
    budgets,
    cassettes,
    creates,
    downloads,
    imports,
    journal,
    journal_peers,
    lists,
    postgres,
    uploads,
    versions,
    waiting_jobs,
)
from benchmarks import cassette_recorders as recorders
from benchmarks.media_service import MEGABYTE, running_media_service, statuses
from benchmarks.results import Scale
from tests.journal.conftest import rows
from vidgen_async.journal.sqlite.file import JournalFile

pytestmark = pytest.mark.needs_dev

ROOT = str(Path(__file__).resolve().parents[2])
#: What decides on the cost and the safety of a commit.
SETTINGS = ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "locking_mode", "cache_size", "page_size")


def by_name(figures):
    return {figure.name: figure for figure in figures}


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "names"),
    [
        (creates, {creates.RAW, creates.RAW_NEW, creates.MEMORY, creates.SQLITE}),
        (versions, {versions.AFTER, versions.BEFORE}),
        (downloads, set(downloads.WAYS) - {downloads.EARLIER}),
        (uploads, set(uploads.WAYS)),
        (imports, {imports.CLIENT, imports.RAW, imports.COMMAND_LIBRARIES, *imports.COMMANDS}),
        (journal, set(journal_peers.PEERS)),
        (postgres, {postgres.OURS, postgres.RAW, postgres.SQLITE, "round trips"}),
        (budgets, set(budgets.LIMITS)),
        (lists, {f"{kind}, {many:,} orders" for kind in (lists.SQLITE, lists.POSTGRES) for many in (1000, 5000)}),
        (waiting_jobs, {f"{way}: memory of a worker" for way in waiting_jobs.WAYS}),
        (cassettes, {*recorders.RECORDERS, cassettes.CLIENT, cassettes.EQUAL}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_tiny_run_has_a_row_for_each_competitor(module, names):
    figures = import_module(module.__name__).run(evolve(Scale.tiny(), before=ROOT, peers=("replicate",)))
    assert names - {figure.name for figure in figures} == set()


# -- targets -----------------------------------------------------------------------------------------------------------


def transfer(seconds, megabytes, stall):
    return {"seconds": seconds, "grown": megabytes * 1e6, "stall": stall, "idle": 0.001}


def test_a_download_is_judged_by_throughput_memory_and_its_least_disturbed_round():
    ours = [transfer(2.0, 7, 0.004), transfer(2.0, 9, 0.1), transfer(2.0, 7, 0.1)]
    raw = [transfer(1.0, 5, 0.2), transfer(4.0, 5, 0.2), transfer(1.8, 5, 0.2)]
    found = by_name(downloads.figures({downloads.OURS: ours, downloads.RAW: raw}, 100, ""))
    assert (found["vidgen_async"].ratio, found["vidgen_async"].is_met) == (pytest.approx(0.9), False)
    assert (found["vidgen_async: memory"].value, found["vidgen_async: memory"].is_met) == (pytest.approx(7), True)
    stall = found["vidgen_async: longest stall"]
    assert (stall.value, stall.target, stall.is_met) == (pytest.approx(4), "<= 5 ms", True)
    assert {found[f"aiohttp{suffix}"].target for suffix in ("", ": memory", ": longest stall")} == {None}


def test_a_stall_that_an_idle_thread_has_too_is_not_judged():
    rounds = {downloads.OURS: [{**transfer(1, 1, 0.05), "idle": 0.06}], downloads.RAW: [transfer(1, 1, 0.05)]}
    stall = by_name(downloads.figures(rounds, 100, ""))["vidgen_async: longest stall"]
    assert (stall.value, stall.target, stall.is_met) == (pytest.approx(50), "<= 5 ms", None)


def test_an_upload_may_need_half_of_the_memory_of_aiohttp():
    rounds = {uploads.OURS: [transfer(1, 60, 0.011)], uploads.RAW: [transfer(2, 100, 0.5)]}
    found = by_name(uploads.figures(rounds, 50))
    assert (found["vidgen_async: memory"].ratio, found["vidgen_async: memory"].is_met) == (pytest.approx(0.6), False)
    assert found["vidgen_async: longest stall"].is_met is False
    assert (found["vidgen_async"].ratio, found["vidgen_async"].target) == (0.5, None)


def test_imports_are_compared_with_aiohttp_and_commands_with_their_libraries():
    seconds = {"pass": 0.1, imports.CLIENT: 0.35, imports.RAW: 0.3, imports.COMMAND_LIBRARIES: 0.2}
    command = next(iter(imports.COMMANDS))
    found = by_name(imports.figures({name: [value] for name, value in {**seconds, command: 0.36}.items()}))
    assert (found[imports.CLIENT].ratio, found[imports.CLIENT].is_met) == (pytest.approx(1.25), True)
    assert (found[command].value, found[command].target, found[command].is_met) == (
        pytest.approx(160),
        "<= 150 ms",
        False,
    )


def test_creates_are_compared_with_posts_of_the_same_round():
    def block(seconds):
        return creates.Block(seconds, [seconds / 10] * 10)

    names = (creates.RAW, creates.RAW_NEW, creates.MEMORY, creates.SQLITE)
    found = by_name(
        creates.figures(10, {name: [block(1.0), block(float(at + 1))] for at, name in enumerate(names)}, "")
    )
    assert found[creates.RAW].ratio is None
    assert (found[creates.SQLITE].ratio, found[creates.SQLITE].value) == (pytest.approx(0.625), pytest.approx(6.25))
    assert found[f"{creates.SQLITE}: added latency"].value == pytest.approx(150)


def test_a_journal_in_postgresql_is_a_multiple_of_plain_inserts_in_the_same_rounds():
    seconds = {postgres.OURS: [2.0, 8.0], postgres.RAW: [1.0, 2.0], postgres.SQLITE: [1.0, 1.0]}
    blocks = {name: [journal.Block(each, []) for each in found] for name, found in seconds.items()}
    found = by_name(postgres.figures(10, 100, blocks, "a busy machine"))
    assert (found[postgres.OURS].value, found[postgres.OURS].ratio) == (pytest.approx(31.25), pytest.approx(0.375))
    assert (found[postgres.RAW].ratio, found[postgres.SQLITE].ratio) == (None, pytest.approx(1.5))


def test_a_list_is_judged_by_its_duration_and_its_growth_and_the_running_tasks_are_not():
    seconds = {f"{kind}, {many} orders": [many * 1e-3] for kind in (lists.SQLITE, lists.POSTGRES) for many in (20, 50)}
    small, large, *_ = lists.figures("uncertain orders", (20, 50), seconds)
    assert (small.value, small.is_met) == (pytest.approx(20), True)
    assert (large.ratio, large.target, large.is_met) == (pytest.approx(2.5), "<= 2", False)
    assert {figure.is_met for figure in lists.figures(lists.RUNNING, (20, 50), seconds)} == {None}


def test_waiting_jobs_are_compared_with_those_that_poll_with_aiohttp():
    ours = {"idle": 40 * 2**20, "memory": 50 * 2**20, "cpu": 0.2, "wall": 10.0}
    memory, _, cpu, peer = waiting_jobs.figures(5000, {"vidgen_async": ours, "aiohttp": {**ours, "cpu": 0.4}})
    assert (memory.value, memory.note) == (pytest.approx(50), "40 MiB before its first job")
    assert (cpu.value, cpu.ratio, cpu.versus) == (pytest.approx(2), pytest.approx(0.5), "aiohttp")
    assert peer.ratio is None


# -- all do the same work ----------------------------------------------------------------------------------------------


async def test_each_competitor_saves_the_same_video_and_uploads_the_picture(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    digests = {}
    with running_media_service() as url:
        left_out = {downloads.EARLIER} if shutil.which("curl") else {downloads.EARLIER, downloads.CURL}
        for name in downloads.WAYS.keys() - left_out:
            path = tmp_path / "1-video.mp4"
            await downloads.WAYS[name](url, path)
            digests[name] = (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
            path.unlink()
            if name in uploads.WAYS:
                await uploads.WAYS[name](url, picture)
    assert len(set(digests.values())) == 1
    assert digests[downloads.OURS][0] == MEGABYTE


async def test_every_journal_on_disk_does_the_same_work(tmp_path):
    for number, (name, make) in enumerate(journal_peers.PEERS.items()):
        if name != journal_peers.NONE:
            made = make(path := tmp_path / f"{number}.db")
            await made.namespace("word")
            await asyncio.gather(*(journal.store_order(made, order) for order in range(4)))
            await made.aclose()
            assert rows(path, "SELECT count(*) FROM orders") == [(4,)], name
            assert rows(path, "SELECT count(*) FROM attempts WHERE counted_at IS NOT NULL") == [(4,)], name
            assert rows(path, "SELECT count(*) FROM evidence WHERE outcome = 'accepted'") == [(4,)], name


def test_the_peers_have_the_settings_and_the_tables_of_ours(tmp_path):
    theirs = sqlite3.connect(tmp_path / "theirs.db", isolation_level=None)
    ours = JournalFile(tmp_path / "ours.db", busy_timeout=30.0).open()
    with closing(theirs), closing(ours):
        for statement in journal_peers.set_up("TRUNCATE"):
            theirs.execute(statement)
        for query in (*map("PRAGMA {}".format, SETTINGS), "SELECT name, sql FROM sqlite_master ORDER BY name"):
            assert theirs.execute(query).fetchall() == list(map(tuple, ours.execute(query))), query


def test_a_secret_is_found_across_the_line_breaks_of_a_file(tmp_path):
    text = " ".join(recorders.SECRETS)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text("\\\n    ".join(text[at : at + 7] for at in range(0, len(text), 7)))
    assert cassettes.leaked(tmp_path) == list(recorders.SECRETS)
    (tmp_path / "deep" / "file").write_text("Authorization: REDACTED, sig=REDACTED-sig-1")
    assert cassettes.leaked(tmp_path) == []


def test_a_replay_with_other_responses_than_were_recorded_is_not_measured():
    found = statuses(8)
    assert found == ["queued", "queued", "running", "running", "running", "running", "running", "completed"]
    cassettes.check(found, 8)
    for wrong in (found[::-1], ["queued"] * 8, found[:-1]):
        with pytest.raises(ValueError, match="other responses"):
            cassettes.check(wrong, 8)

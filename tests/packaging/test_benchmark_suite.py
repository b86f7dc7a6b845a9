"""``python -m benchmarks`` runs all that it promises, and says so. How fast anything is, no test says."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from attrs import fields

from benchmarks import get_peers, memory, requests_cpu, watcher_cpu
from benchmarks.__main__ import BENCHMARKS, PROGRAMS, asked_for, verdict
from benchmarks.children import child, interleaved
from benchmarks.get_peers import OURS, PEERS, RAW, task_ids
from benchmarks.load_service import BUCKETS_PER_SECOND, running_service
from benchmarks.requests_cpu import Cost
from benchmarks.results import (
    Figure,
    Scale,
    at_least,
    at_most,
    compared,
    figures_table,
    ratio_of,
    shown,
    write_json,
)
from benchmarks.waiting import waiting

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def service():
    with running_service() as running:
        yield running


# -- the program -------------------------------------------------------------------------------------------------------


def test_a_tiny_run_has_a_row_for_everybody_in_the_table_and_in_the_file_and_draws(tmp_path):
    output = tmp_path / "results"
    wanted = ("requests_cpu", "watcher_cpu", "memory")
    only = [argument for name in wanted for argument in ("--only", name)]
    command = [sys.executable, "-W", "error", "-m", "benchmarks", "--tiny", "--output", str(output), *only]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list

    assert ended.returncode == 0, ended.stderr
    assert "this was --tiny" in ended.stdout
    assert ended.stderr.splitlines() == [f"running {name} …" for name in wanted]
    rows = {
        *((f"CPU per videos.get, {label}", name) for label in requests_cpu.CONCURRENCIES for name in PEERS),
        *((watcher_cpu.BENCHMARK, name) for name in (*watcher_cpu.WAYS, *watcher_cpu.BARE_GETS)),
        *((memory.BENCHMARK, name) for name in (*memory.WAYS, f"{OURS}, right after all were added")),
    }
    document = json.loads((output / "results.json").read_text())
    assert {(figure["benchmark"], figure["name"]) for figure in document["figures"]} == rows
    assert all(f"{benchmark}: {name}" in ended.stdout for benchmark, name in rows)
    assert document["left_out"] == []
    assert set(document["figures"][0]) == {field.name for field in fields(Figure)}
    assert {"python", "vidgen-async", "aiohttp", "uvloop", "openai", "runwayml", "replicate"} <= set(
        document["versions"]
    )
    assert {"cpu", "cores", "system"} <= set(document["machine"])
    assert (document["arguments"]["tiny"], document["arguments"]["rounds"]) == (True, 1)
    assert {path.suffix for path in output.iterdir()} == {".json", ".png", ".svg"}


def test_a_run_is_full_and_of_everything_unless_told_otherwise(tmp_path):
    asked = asked_for(["--output", str(tmp_path / "new")])
    assert (asked.only, asked.scale, asked.is_tiny) == ((*BENCHMARKS, *PROGRAMS), Scale.full(), False)
    asked = asked_for(["--tiny", "--rounds", "2", "--stretch", "--only", "memory", "--output", str(tmp_path)])
    assert (asked.only, asked.scale.rounds, asked.scale.has_stretch) == (("memory",), 2, True)
    assert asked.scale.tasks == Scale.tiny().tasks


def test_earlier_results_are_not_written_over(tmp_path, capsys):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(SystemExit):
        asked_for(["--output", str(tmp_path)])
    assert "is not empty" in capsys.readouterr().err


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


def test_a_ratio_on_the_limit_keeps_it():
    assert at_most(1.3, 1.3) == ("<= 1.3", True)
    assert at_most(1.3, 1.31) == ("<= 1.3", False)
    assert at_least(7, 7.0) == (">= 7", True)
    assert at_least(7, 6.99) == (">= 7", False)


def test_a_ratio_is_taken_round_by_round():
    assert ratio_of([2.0, 30.0, 9.0], [1.0, 10.0, 3.0]) == 3.0
    seconds = {"ours": [2e-6, 30e-6, 9e-6], "raw": [1e-6, 10e-6, 3e-6]}
    figure = compared("CPU", "ours", seconds, "raw", lambda ratio: at_most(2, ratio))
    assert (figure.value, figure.versus, figure.target, figure.is_met) == (pytest.approx(9), "raw", "<= 2", False)
    assert figure.ratio == pytest.approx(3)


def test_without_its_base_a_figure_has_no_ratio_and_no_verdict():
    figure = compared("CPU", "peer", {"peer": [1e-6]}, "raw", lambda ratio: at_most(2, ratio))
    assert (figure.ratio, figure.target, figure.is_met) == (None, None, None)


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


# -- the rounds --------------------------------------------------------------------------------------------------------


def test_each_round_begins_with_another_one():
    order = []
    interleaved("abc", 3, order.append)
    assert "".join(order) == "abcbcacab"


def test_a_child_that_fails_says_why(service):
    with pytest.raises(RuntimeError, match=r"requests_cpu nobody .* failed:(.|\n)*KeyError"):
        child("benchmarks.requests_cpu", "nobody", service.url, 1, 1)


def test_peers_whose_packages_are_missing_are_left_out_with_a_line_for_each(monkeypatch):
    monkeypatch.setattr(get_peers, "find_spec", lambda package: None if package == "openai" else package)
    assert set(PEERS) - set(get_peers.present()) == {get_peers.OPENAI, get_peers.OPENAI_ON_AIOHTTP}
    assert get_peers.left_out() == [
        "left out: openai (httpx) (openai not installed)",
        "left out: openai (aiohttp) (openai not installed)",
    ]


def test_ours_is_judged_beside_aiohttp_on_the_same_loop_and_openai_beside_ours():
    costs = {OURS: 2.0, RAW: 1.0, get_peers.OURS_ON_UVLOOP: 1.5, get_peers.RAW_ON_UVLOOP: 0.5, get_peers.OPENAI: 12.0}
    taken = {name: [Cost(cost, 1)] for name, cost in costs.items()}
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
    figures = requests_cpu.figures("CPU", {OURS: [Cost(1.0, 50)], RAW: [Cost(1.0, 51)]}, 50)
    assert [bool(figure.note) for figure in figures] == [False, True]


# -- the peers ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if not peer.is_on_uvloop])
async def test_each_peer_looks_once_over_one_connection_and_sees_the_task_that_it_asked_for(name, service):
    async with PEERS[name].connect(service.url, 60.0) as connected:
        before = service.counts()
        seen = [await connected.get(task_id) for task_id in ("vt-1", "vt-2")]
        after = service.counts()
    assert [task["id"] if isinstance(task, dict) else task.id for task in seen] == ["vt-1", "vt-2"]
    assert after.tasks - before.tasks == 2
    assert after.connections - before.connections == 2  # one of them asks for the counts


@pytest.mark.parametrize("name", [OURS, RAW])
async def test_all_tasks_are_looked_at_in_one_coroutine_or_in_one_for_each(name, service):
    async with PEERS[name].connect(service.url, 60.0) as connected:
        async with waiting(connected, task_ids(20), 0.0), asyncio.timeout(20):
            while service.counts().tasks < 20:  # noqa: ASYNC110 - the service tells no one
                await asyncio.sleep(0.01)
        assert (connected.gather is not None) == (name == OURS)


async def test_a_wait_that_ends_too_soon_is_an_error_and_no_measurement(service):
    with pytest.raises(ExceptionGroup, match="unhandled"):
        async with PEERS[RAW].connect("http://127.0.0.1:9", 60.0) as connected, waiting(connected, ["vt-1"], 0.0):
            await asyncio.sleep(0.5)


# -- the service -------------------------------------------------------------------------------------------------------


def test_tasks_of_all_services_are_of_about_one_size(service):
    paths = ("openapi/v1/videos", "openai/v1/videos", "runway/v1/tasks", "replicate/v1/predictions")
    sizes = [len(service._told(f"/{path}/{task_ids(1)[0]}")) for path in paths]
    assert min(sizes) > 440
    assert max(sizes) < 600


async def test_the_service_counts_what_arrives_by_tenths_of_a_second_until_it_is_told_to_forget(service):
    begun_at = time.time()
    async with aiohttp.ClientSession() as session:
        for task_id in task_ids(7):
            async with session.get(f"{service.base_url}/videos/{task_id}") as response:
                task = await response.json()
            assert (task["id"], task["task_id"], task["status"]) == (task_id, task_id, "running")
    counts = service.counts()
    assert (counts.tasks, counts.connections) == (7, 2)
    assert sum(counts.buckets.values()) == 7
    assert min(counts.buckets) >= int(begun_at * BUCKETS_PER_SECOND)
    assert max(counts.buckets) <= int(time.time() * BUCKETS_PER_SECOND)
    service.reset()
    assert service.counts().tasks == 0


async def test_requests_that_come_in_pieces_or_together_are_each_answered(service):
    place = urlsplit(service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    asked = b"GET /openapi/v1/videos/done-%d HTTP/1.1\r\nHost: a\r\n\r\n"
    writer.write(asked % 1 + asked % 2 + (asked % 3)[:20])
    answers = [await _answer(reader) for _ in range(2)]
    writer.write((asked % 3)[20:])
    answers.append(await _answer(reader))
    writer.close()
    await writer.wait_closed()
    assert [(task["id"], task["status"]) for task in answers] == [(f"done-{n}", "completed") for n in (1, 2, 3)]
    assert service.counts().tasks == 3


async def _answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
    return json.loads(await reader.readexactly(length))


async def test_in_an_outage_connections_are_reset_or_get_no_answer_and_are_counted(service):
    url = f"{service.base_url}/videos/vt-1"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as session:
        service.begin_outage("reset", 60)
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(url)
        service.begin_outage("silent", 60)
        with pytest.raises(TimeoutError):
            await session.get(url)
        seen = service.counts().tasks
        service.begin_outage("silent", 0)
        async with session.get(url) as response:
            assert response.status == 200
    assert seen >= 2

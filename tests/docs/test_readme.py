"""What the README shows, runs; where it points, something stands."""

import asyncio
import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import av
import pytest
from aiohttp.test_utils import TestClient, TestServer

from vidgen_async import UncertainCreateError
from vidgen_async.sandbox import Fault

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_first_block_runs_offline_and_saves_a_video(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(BLOCKS[0], "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - the README's own lines
    assert said.getvalue() == "saved boat.mp4 for 15 points\n"
    with av.open("boat.mp4") as video:
        assert video.duration / av.time_base == pytest.approx(5, abs=0.2)
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 15


async def test_the_block_about_creates_gives_the_task_id(client, service):
    make = names_of("async def make(")["make"]
    assert await make(client, "order-1187") == service.creates[0].task_id

    service.faults.add("videos.create", Fault.close_after_body())
    with pytest.raises(UncertainCreateError):
        await make(client, "order-1188")


async def test_the_block_about_the_sandboxs_faults_passes(capsys):
    await names_of("async def test_a_lost_answer_is_not_ordered_twice(")["test_a_lost_answer_is_not_ordered_twice"]()
    assert "order-1187" in capsys.readouterr().out


@pytest.fixture
def environment(service, tmp_path, monkeypatch):
    """Where the README's programs run: a directory of their own, with the sandbox in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)


def names_of(marker: str) -> dict:
    (block,) = [block for block in BLOCKS if marker in block]
    names: dict = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - the README's own lines
    return names


@pytest.mark.usefixtures("environment")
async def test_the_block_about_telemetry_waits_for_a_task(client):
    receipt = await client.videos.create(model="gen-2.0", prompt="a boat", duration=5)
    watch = names_of("async def watch_with_telemetry(")["watch_with_telemetry"]
    assert await watch(receipt.task_id) == (await client.videos.get(receipt)).video_url


@pytest.mark.usefixtures("environment")
async def test_the_block_about_handling_saves_the_video_and_makes_one_order(client, service, tmp_path):
    save = names_of("async def save(")["save"]
    for _ in range(2):
        await save(client, "job-1", "a boat")
    assert len(service.creates) == 1
    assert (tmp_path / "job-1.mp4").read_bytes()[4:8] == b"ftyp"
    assert [task.task_id async for task in client.orders.running()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
async def test_the_web_app_orders_once_and_hands_the_video_on(service):
    async with TestClient(TestServer(names_of("def make_app(")["make_app"]())) as browser:
        answers = [await browser.put("/orders/o-1", json={"prompt": "a boat"}) for _ in range(2)]
        assert [answer.status for answer in answers] == [201, 201]
        assert len(service.creates) == 1
        task_id = (await answers[0].json())["task"]
        video = await browser.get(f"/videos/{task_id}")
        assert (video.status, video.content_type) == (200, "video/mp4")
        assert len(await video.read()) == video.content_length

        invalid = await browser.put("/orders/o-2", json={"prompt": " "})
        assert await invalid.json() == {"problems": ["prompt: must not be empty"]}
        service.faults.add("videos.create", Fault.status(402))
        assert (await browser.put("/orders/o-3", json={"prompt": "a boat"})).status == 409
        service.faults.add("videos.create", Fault.close_after_body())
        assert (await browser.put("/orders/o-4", json={"prompt": "a boat"})).status == 202
        conflict = await browser.put("/orders/o-1", json={"prompt": "another boat"})
        assert (conflict.status, len(service.creates)) == (409, 3)
        async with service.refusing():
            assert (await browser.put("/orders/o-5", json={"prompt": "a boat"})).status == 503
        part = await browser.get(f"/videos/{task_id}", headers={"Range": "bytes=0-99"})
        assert (part.status, len(await part.read())) == (206, 100)
        assert (await browser.get("/videos/unknown")).status == 404
        service.faults.add("videos.content", Fault.status(409))
        assert (await browser.get(f"/videos/{task_id}")).status == 404


@pytest.mark.usefixtures("environment")
async def test_the_worker_started_again_orders_nothing_twice(service, capsys):
    work = names_of("async def work(")["work"]
    jobs = {"job-1": "a boat", "job-2": "another boat [fail: too blue]"}

    first = await work(jobs)
    again = await work(jobs)

    assert (first, again) == ([f"{service.creates[0].task_id}.mp4"], [])
    assert len(service.creates) == 2
    assert "too blue" in capsys.readouterr().out


@pytest.mark.usefixtures("environment")
async def test_a_job_that_is_no_request_stops_no_other_job_of_the_worker(service, capsys):
    saved = await names_of("async def work(")["work"]({"job-1": "a boat", "job-2": "", "job-3": "another boat"})
    assert len(saved) == len(service.creates) == 2
    assert "job-2 the request was not sent: prompt: must not be empty" in capsys.readouterr().out


@pytest.mark.usefixtures("environment")
async def test_the_worker_that_was_cut_off_while_it_saved_a_video_saves_it_the_next_time(service):
    work = names_of("async def work(")["work"]
    service.faults.add("videos.content", Fault.stall())
    cut_off = asyncio.ensure_future(work({"job-1": "a boat"}))
    while "videos.content" not in [request.op for request in service.requests]:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    cut_off.cancel()
    await asyncio.wait({cut_off})

    assert await work({"job-1": "a boat"}) == [f"{service.creates[0].task_id}.mp4"]
    assert len(service.creates) == 1


@pytest.mark.slow
async def test_the_benchmark_counts_its_creates(capsys):
    await names_of("async def benchmark(")["benchmark"](5)
    assert capsys.readouterr().out.startswith("5 creates in ")


@pytest.mark.usefixtures("environment")
async def test_what_the_block_about_cassettes_records_it_plays_without_asking_the_service(service):
    balance = names_of("async def balance(")["balance"]

    answers = [await balance("record"), await balance("replay")]

    assert answers == [service.balance] * 2
    assert [request.op for request in service.requests] == ["account.get"]


@pytest.mark.needs_dev
def test_every_block_passes_a_strict_type_checker(tmp_path):
    """With the cache of the project's own check, which has read the package already."""
    for number, block in enumerate(BLOCKS):
        name = "shop" if "def make_app(" in block else f"block_{number}"
        (tmp_path / f"{name}.py").write_text(block)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list
    assert found.returncode == 0, found.stdout


def test_every_block_is_run_by_a_test():
    assert len(BLOCKS) == 11  # those of tests/pytest_plugin/test_readme.py too


def test_every_link_points_at_something():
    targets = set(re.findall(r"\]\(((?!https?:)[^)#]+)\)", README))
    assert {target for target in targets if not (ROOT / target).exists()} == set()
    assert len(targets) > 10


def test_the_ci_runs_the_readmes_own_test_command():
    assert len(re.findall(r"^python3 -m venv .* -m tests$", README, re.MULTILINE)) == 1

"""The programs of the tutorial print what its pages say, here with a faster service and faster polls."""

import asyncio
from functools import partial
from typing import Any

import av
import pytest

from tests.docs.documentation import run_program
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox


@pytest.fixture
def here(small_videos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def run(names: dict[str, Any]) -> None:
    """Run a program, which polls more often, with a sandbox that completes tasks sooner."""

    def client(*args: Any, **options: Any) -> Client:
        return Client(*args, **{**options, "poll_interval": 0.01})

    names["Client"] = client
    if "Sandbox" in names:
        names["Sandbox"] = partial(Sandbox, speed=100)
    await names["main"]()


async def test_the_first_program_saves_a_video(here, capsys):
    await run(run_program("# first_video.py"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("accepted: task_")
    assert lines[-2:] == ["task: completed", "saved: first.mp4"]
    with av.open(str(here / "first.mp4")) as video:
        assert video.duration


async def test_the_program_that_loses_a_response_receives_one_create_and_saves_the_video(here, capsys):
    await run(run_program("# lost_response.py"))
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("uncertain: it is unknown whether the service accepted order 'order-1187'")
    assert second.startswith("uncertain: ")
    assert rest == ["creates received: 1", "to be decided: order-1187", "order: True", "saved: boat.mp4"]
    assert (here / "boat.mp4").stat().st_size > 1000


# The sandbox of the lesson is another process, whose orders belong into the journal.
@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox of this process")
async def test_an_order_of_one_program_is_saved_by_another(here, service, capsys, monkeypatch):
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_JOURNAL", "sqlite:///orders.db")
    for _ in range(2):
        await run(run_program("# order.py"))
    (create,) = service.creates
    for _ in range(2):
        await run(run_program("# save_videos.py"))
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"accepted: {create.task_id}"] * 2 + [f"saved: {create.task_id}.mp4"]
    assert (here / f"{create.task_id}.mp4").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox of this process")
async def test_a_hundred_videos_are_ordered_once_although_the_program_is_interrupted(
    here, service, capsys, monkeypatch
):
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_JOURNAL", "sqlite:///orders.db")
    interrupted = asyncio.create_task(run(run_program("# hundred_videos.py")))
    async with asyncio.timeout(60):
        while not list(here.glob("boats/*.mp4")):  # noqa: ASYNC110 - the program causes it
            await asyncio.sleep(0.01)
    interrupted.cancel()
    await asyncio.gather(interrupted, return_exceptions=True)
    assert interrupted.cancelled()
    assert "orders: {'new': 100}" in capsys.readouterr().out

    await run(run_program("# hundred_videos.py"))
    first, *lines = capsys.readouterr().out.splitlines()
    assert "'completed': " in first
    assert sorted(lines) == sorted(f"boat-{number} saved " for number in range(1, 101))
    assert len(service.creates) == len(list(here.glob("boats/*.mp4"))) == 100
    assert (here / "report.html").read_text().count("<video") == 100

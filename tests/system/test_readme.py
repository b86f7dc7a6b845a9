"""What the README shows, runs; where it points, something stands."""

import contextlib
import io
import re
import shutil
from pathlib import Path

import av
import pytest

from vidgen_async import UncertainCreateError
from vidgen_async.sandbox import Fault

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


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
    (block,) = [block for block in BLOCKS if "async def make(" in block]
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - the README's own lines
    assert await names["make"](client, "order-1187") == service.creates[0].task_id

    service.faults.add("videos.create", Fault.close_after_body())
    with pytest.raises(UncertainCreateError):
        await names["make"](client, "order-1188")


async def test_the_block_about_the_sandboxs_faults_passes(capsys):
    (block,) = [block for block in BLOCKS if "Fault.close_after_body" in block]
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - the README's own lines
    await names["test_a_lost_answer_is_not_ordered_twice"]()
    assert "order-1187" in capsys.readouterr().out


def test_every_block_is_run_by_a_test():
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(((?!https?:)[^)#]+)\)", README))))
def test_a_link_points_at_something(target):
    assert (ROOT / target).exists()


def test_the_ci_runs_the_readmes_own_test_command():
    assert len(re.findall(r"^python3 -m venv .* -m tests$", README, re.MULTILINE)) == 1

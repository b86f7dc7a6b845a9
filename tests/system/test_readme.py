"""What the README shows, runs; where it points, something stands."""

import asyncio
import contextlib
import inspect
import io
import re
import shutil
from pathlib import Path

import av
import pytest

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


@pytest.mark.parametrize("block", BLOCKS[1:], ids=range(1, len(BLOCKS)))
def test_the_other_blocks_are_definitions_that_work(block):
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - the README's own lines
    assert any(inspect.iscoroutinefunction(value) for value in names.values())
    assert not asyncio.iscoroutine(names.get("main"))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(((?!https?:)[^)#]+)\)", README))))
def test_a_link_points_at_something(target):
    assert (ROOT / target).exists()


def test_the_ci_runs_the_readmes_own_test_command():
    assert len(re.findall(r"^python3 -m venv .* -m tests$", README, re.MULTILINE)) == 1

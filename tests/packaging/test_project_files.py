"""What the project's own files state about Python versions and commands agrees."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
checkout_only = pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="a source distribution has no files of the CI")
TEST_COMMAND = r"^python3 -m venv .* -m tests$"


@checkout_only
def test_the_workflow_runs_every_python_of_the_classifiers():
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", (ROOT / ".github/workflows/ci.yml").read_text(), re.MULTILINE)

    assert re.findall(r"3\.\d+", matrix) == classified == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={classified[0]}"


@checkout_only
def test_the_readme_has_one_test_command_and_both_kinds_of_ci_run_it():
    assert len(re.findall(TEST_COMMAND, (ROOT / "README.md").read_text(), re.MULTILINE)) == 1
    for file in (".ci/run", ".github/workflows/ci.yml"):
        assert f"grep -m1 -E '{TEST_COMMAND}' README.md" in (ROOT / file).read_text()


def test_the_extra_of_the_test_command_brings_no_peer_no_browser_and_no_node():
    names = {re.split(r"[\[>; ]", wanted)[0] for wanted in PROJECT["optional-dependencies"]["test"]}
    assert names.isdisjoint({"playwright", "pyright", "schemathesis", "openai", "replicate", "runwayml", "vcrpy"})
    assert PROJECT["optional-dependencies"]["test"][0] == "vidgen-async[cli,docs,mcp,otel,postgres,video]"


def test_pyav_is_brought_by_the_extra_video_alone():
    bringing = [extra for extra, wanted in PROJECT["optional-dependencies"].items() if any(map(is_pyav, wanted))]
    assert bringing == ["video"]


def is_pyav(wanted: str) -> bool:
    return re.split(r"[\[>; ]", wanted)[0] == "av"

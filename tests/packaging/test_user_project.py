"""A user's own project, under strict type checkers, against the wheel as it is installed."""

import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .conftest import PYPROJECT, run, run_well

pytestmark = pytest.mark.package_index

PROJECT = Path(__file__).parent / "user_project"
RUNNERS = ("pytest", "pytest-asyncio")
QUIET = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # of newer releases of itself


def mypy(project: Path, python: Path) -> dict[str, dict[int, str]]:
    """The errors by file and line."""
    command = (sys.executable, "-m", "mypy", "--python-executable", python, "--output", "json", ".")
    ran = run(*command, cwd=project)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for line in ran.stdout.splitlines():
        entry = json.loads(line)
        if entry["severity"] == "error":
            found[entry["file"]][entry["line"]] = entry["message"]
    return found


def pyright(project: Path, python: Path) -> dict[str, dict[int, str]]:
    """The errors by file and line."""
    command = (sys.executable, "-m", "pyright", "--pythonpath", python, "--outputjson")
    ran = run(*command, cwd=project, **QUIET)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for entry in json.loads(ran.stdout)["generalDiagnostics"]:
        found[Path(entry["file"]).name][entry["range"]["start"]["line"] + 1] = entry["message"]
    return found


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda checker: checker.__name__)
def reported(request, bare, tmp_path_factory) -> dict[str, dict[int, str]]:
    project = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return request.param(project, bare.python)


@pytest.mark.parametrize("name", ["program.py", "uses.py", "under_contract.py"])
def test_a_strict_checker_has_nothing_to_say_about_right_uses(reported, name):
    assert (PROJECT / name).is_file()
    assert reported.get(name, {}) == {}


def test_a_strict_checker_reports_each_mistake_and_nothing_else(reported):
    lines = (PROJECT / "mistakes.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong: " in line}
    said = reported["mistakes.py"]
    assert {number: lines[number - 1] for number in marked - set(said)} == {}
    assert {number: message for number, message in said.items() if number not in marked} == {}


def test_a_transport_of_their_own_runs_under_the_contract(distributions, install, tmp_path):
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    tools = PYPROJECT["project"]["optional-dependencies"]["test"]
    theirs = install(distributions.wheel, *[line for line in tools if Requirement(line).name in RUNNERS])

    said = run_well(theirs.python, "-m", "pytest", "-q", "under_contract.py", cwd=tmp_path)

    assert re.search(r"^\d{3} passed in [^,]*$", said, re.MULTILINE), said

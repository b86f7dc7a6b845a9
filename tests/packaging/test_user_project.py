"""A user's own project, under strict type checkers, against the wheel as it is installed."""

import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from vidgen_async.types import OrderState

from .conftest import run, run_well
from .language_server import language_server

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

PROJECT = Path(__file__).parent / "user_project"
WRONG_FIELD = re.compile(r"client\.videos\..*\b((?:aspect_)?ratio|promt|duration|images|order_id)=.*# wrong: ")
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
            found[entry["file"]][entry["line"]] = f"{entry['message']}\n{entry['hint'] or ''}"
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


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy, in which nothing but the environment knows the package."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_a_strict_checker_reports_each_mistake_and_nothing_else(checker, project, bare):
    reported = checker(project, bare.python)
    lines = (PROJECT / "mistakes.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong: " in line}
    said = reported.pop("mistakes.py")
    assert {number: lines[number - 1] for number in marked - set(said)} == {}
    assert {number: message for number, message in said.items() if number not in marked} == {}
    assert reported == {}
    for number in marked:
        if wrong := WRONG_FIELD.search(lines[number - 1]):
            assert f'"{wrong[1]}"' in said[number]
            assert len(max(said[number].splitlines(), key=len)) < 200
    assert {"program.py", "uses.py", "under_contract.py"} <= {path.name for path in project.iterdir()}


#: Programs to complete at the mark, and what is proposed there.
COMPLETIONS = {
    'client.videos.create(model="m", prompt="p", ratio="|")': ["9:16", "1:1", "3:4", "4:3", "16:9"],
    'client.videos.generate(model="m", prompt="p", resolution="|")': ["720p", "768p", "auto"],
    'VideoRequest(model="m", prompt="p", aspect_ratio="|")': ["9:16", "1:1", "3:4", "4:3", "16:9"],
    'client.orders.list("|")': list(OrderState),
    'client.orders.list(["|"])': list(OrderState),
    'task.status == "|"': ["queued", "running", "completed", "failed"],
    'order.state == "|"': list(OrderState),
    'Client("key", terminal_states={"expired": "|"})': ["completed", "failed"],
}
USES = """
from vidgen_async import Client, Order, VideoRequest, VideoTask
def use(client: Client, task: VideoTask, order: Order):
    return """


def test_an_editor_completes_inside_the_strings(tmp_path, bare):
    with language_server(tmp_path, bare.python) as server:
        proposed = {use: server.complete(USES + use) for use in COMPLETIONS}
    assert proposed == {use: [f'"{text}"' for text in texts] for use, texts in COMPLETIONS.items()}


def test_a_transport_of_their_own_runs_under_the_contract(project, from_sdist):
    said = run_well(from_sdist.python, "-m", "pytest", "-q", "under_contract.py", cwd=project)

    assert re.search(r"^\d{2,3} passed in [^,]*$", said, re.MULTILINE), said

"""A user's project: its tests run in a pytest of their own, which finds the plugin by its entry point."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from attrs import frozen
from coverage import Coverage

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = ROOT / "pyproject.toml"
ENTRY_POINTS = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["pytest11"]

BASE_URL = "https://service.test/openapi/v1"
AUTO = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"


@frozen
class Ran:
    """What a run of pytest said."""

    code: int
    text: str

    @property
    def outcomes(self) -> dict[str, set[str]]:
        """By test, without the file. A test that had an error when it was torn down has two."""
        found = defaultdict(set)
        for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) [\w./]+::(\S+)", self.text, re.MULTILINE):
            found[test].add(outcome)
        return dict(found)


@frozen
class Project:
    """A directory with tests, a pytest.ini and cassettes."""

    home: Path

    def ini(self, settings: str) -> None:
        text = f"[pytest]\nfilterwarnings = error\n{dedent(settings)}\n"
        (self.home / "pytest.ini").write_text(text)

    def tests(self, source: str, file: str = "test_shop.py") -> Path:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source))
        return path

    def cassette(self, name: str, *balances: int) -> Path:
        """A cassette on which the account was asked for so often."""
        path = self.home / "cassettes" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_document(balances)))
        return path

    def pytest(
        self, *arguments: str, plugins: tuple[str, ...] = ("vidgen_async", "asyncio"), **environment: str
    ) -> Ran:
        """Runs all tests, with these plugins and no others; of this process's environment it knows no more than it
        must. Warnings are errors."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIDGEN_", "PYTEST_", "CI"))}
        sources = os.pathsep.join(map(str, (self._installed(), ROOT)))
        kept |= {"PYTHONPATH": sources, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "400"}
        given = [word for plugin in plugins for word in ("-p", plugin)]
        command = [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            *_measured(kept),
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
        ]
        ran = subprocess.run(  # noqa: S603 - our own list
            [*command, *given, "-rA", *arguments],
            cwd=self.home,
            env=kept | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ran(ran.returncode, ran.stdout + ran.stderr)

    def _installed(self) -> Path:
        """What an installer would write about the plugin, as pyproject.toml has it now."""
        metadata = self.home.parent / "installed" / "vidgen_async_plugin-1.dist-info"
        if not metadata.exists():
            metadata.mkdir(parents=True)
            (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vidgen-async-plugin\nVersion: 1\n")
            lines = [f"{name} = {module}\n" for name, module in ENTRY_POINTS.items()]
            (metadata / "entry_points.txt").write_text(f"[pytest11]\n{''.join(lines)}")
        return metadata.parent


def _measured(environment: dict[str, str]) -> list[str]:
    """Where the coverage of this process is measured, so is that of the other: they are combined in the end."""
    measuring = Coverage.current()
    if measuring is None:
        return []
    environment["COVERAGE_FILE"] = str(Path(str(measuring.get_option("run:data_file"))).absolute())
    return ["-m", "coverage", "run", "--parallel-mode", f"--rcfile={PYPROJECT}"]


def _document(balances: tuple[int, ...]) -> dict[str, object]:
    interactions = [
        {
            "n": n,
            "op": "account.get",
            "t": [n * 1000, n * 1000 + 5, n * 1000 + 6],
            "request": {"method": "GET", "url": f"{BASE_URL}/account"},
            "response": {
                "status": 200,
                "headers": ["content-type: application/json"],
                "body": {"json": {"balance": balance}},
            },
        }
        for n, balance in enumerate(balances, 1)
    ]
    meta = {"recorded_at": "2026-11-27T21:35:24Z", "recorder": "by hand", "base_url": BASE_URL}
    return {"format": "vidgen-cassette", "version": 1, "meta": meta, "interactions": interactions}


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    """Makes an empty one, with pytest-asyncio in auto mode."""

    def make() -> Project:
        made = Project(tmp_path_factory.mktemp("user") / "project")
        made.home.mkdir()
        made.ini(AUTO)
        return made

    return make


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    """An empty one."""
    return new_project()

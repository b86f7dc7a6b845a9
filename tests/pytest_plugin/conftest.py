"""A user's project: its tests run in a pytest of their own, in this process or in one of its own.

In this process the plugin is handed over as a module, and all that it may import is imported already: what a run
imports is forgotten at its end.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from threading import Thread
from types import ModuleType

import anyio.pytest_plugin
import pytest
import pytest_asyncio.plugin
from attrs import frozen
from coverage import Coverage

import vidgen_async.client.resources
import vidgen_async.client.videos
import vidgen_async.journal.sqlite.journal
import vidgen_async.pytest_plugin
import vidgen_async.pytest_plugin.session
import vidgen_async.redaction.named_values
import vidgen_async.service.request_checks
from vidgen_async.cassette.modes import CI_VARIABLES
from vidgen_async.sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[2]
#: The working directory of the whole run, which pytester leaves for each test.
START = Path.cwd()
PYPROJECT = ROOT / "pyproject.toml"
ENTRY_POINTS = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["pytest11"]
PLUGINS: dict[str, ModuleType] = {
    "vidgen_async": vidgen_async.pytest_plugin,
    "asyncio": pytest_asyncio.plugin,
    "anyio": anyio.pytest_plugin,
}

BASE_URL = "https://service.test/openapi/v1"
#: For a conftest.py: the sandbox makes a video in no time.
FAST_SANDBOX = """
    import pytest

    @pytest.fixture
    def vidgen_sandbox(vidgen_sandbox):
        vidgen_sandbox.clock.speed = 1000
        return vidgen_sandbox
"""
AUTO = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"


@frozen
class Ran:
    """The result of a run of pytest."""

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
    pytester: pytest.Pytester

    def ini(self, settings: str) -> None:
        text = f"[pytest]\nfilterwarnings = error\n{dedent(settings)}\n"
        (self.home / "pytest.ini").write_text(text)

    def tests(self, source: str, file: str = "test_shop.py") -> Path:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source))
        return path

    def cassette(self, name: str, *balances: int) -> Path:
        """A cassette with one request of the account for each balance."""
        path = self.home / "cassettes" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_document(balances)))
        return path

    def pytest(
        self, *arguments: str, plugins: tuple[str, ...] = ("vidgen_async", "asyncio"), **environment: str
    ) -> Ran:
        """Runs all tests in this process, with these plugins and no others; of this process's environment they know no
        more than they must. Warnings are errors."""
        with pytest.MonkeyPatch.context() as patch:
            for name in set(os.environ) - set(_kept_environment()):
                patch.delenv(name)
            for name, value in (RUN_ALONE | environment).items():
                patch.setenv(name, value)
            patch.chdir(self.home)
            imports = Imports()
            ran = self.pytester.runpytest_inprocess(
                *("-p", "no:cacheprovider", "-p", "no:faulthandler", "-rA", *arguments),
                plugins=[imports, *(PLUGINS[plugin] for plugin in plugins)],
            )
        assert imports.forgotten() == set(), "would be imported twice in this process: import it in this conftest.py"
        return Ran(int(ran.ret), "\n".join([*ran.outlines, *ran.errlines, ""]))

    def pytest_process(
        self, *arguments: str, plugins: tuple[str, ...] = ("vidgen_async", "asyncio"), **environment: str
    ) -> Ran:
        """The same in a process of its own, which finds the plugins by their entry points."""
        kept = _kept_environment() | RUN_ALONE
        kept |= {"PYTHONPATH": os.pathsep.join(map(str, (self._installed(), ROOT)))}
        given = [word for plugin in plugins for word in ("-p", plugin)]
        python = [sys.executable, "-X", "dev", "-W", "error", *_measured(kept)]
        ran = subprocess.run(  # noqa: S603 - our own list
            [*python, "-m", "pytest", "-p", "no:cacheprovider", *given, "-rA", *arguments],
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
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vidgen-async-plugin\nVersion: 1\n")
        lines = [f"{name} = {module}\n" for name, module in ENTRY_POINTS.items()]
        (metadata / "entry_points.txt").write_text(f"[pytest11]\n{''.join(lines)}")
        return metadata.parent


class Imports:
    """A plugin that sees which modules of the package a run imports."""

    def __init__(self) -> None:
        self._imported: set[str] = set()

    def pytest_unconfigure(self) -> None:
        self._imported = set(sys.modules)

    def forgotten(self) -> set[str]:
        return {name for name in self._imported - set(sys.modules) if name.partition(".")[0] == "vidgen_async"}


#: Of the environment of every run.
RUN_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "400"}


def _kept_environment() -> dict[str, str]:
    prefixes = ("VIDGEN_", "PYTEST_", *CI_VARIABLES)
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def _measured(environment: dict[str, str]) -> list[str]:
    """Where the coverage of this process is measured, so is that of the other: they are combined in the end."""
    measuring = Coverage.current()
    if measuring is None:
        return []
    environment["COVERAGE_FILE"] = str(START / str(measuring.get_option("run:data_file")))
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


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """An empty one, with pytest-asyncio in auto mode."""
    made = Project(pytester.mkdir("project"), pytester)
    made.ini(AUTO)
    return made


@pytest.fixture
def service() -> Iterator[Sandbox]:
    """A service on an event loop in another thread: this one runs the tests of the project."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    sandbox = Sandbox()
    try:
        asyncio.run_coroutine_threadsafe(sandbox.__aenter__(), loop).result()
        yield sandbox
    finally:
        asyncio.run_coroutine_threadsafe(sandbox.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

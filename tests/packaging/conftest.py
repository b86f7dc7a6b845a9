"""The project's own distributions, and virtual environments with nothing but them and what they ask for.

Everything here is fetched and installed as pip is configured on this machine. Where no package index can be reached,
the tests fail with pip's own words.
"""

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

import pytest
from attrs import frozen
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIP = (sys.executable, "-m", "pip")
PARTS_OF_THE_BASE = "import vidgen_async, vidgen_async.errors, vidgen_async.journal, vidgen_async.transports"
RUNNERS = [
    line
    for line in PYPROJECT["project"]["optional-dependencies"]["test"]
    if Requirement(line).name in {"pytest", "pytest-asyncio"}
]
SOURCE_DATE = 1_750_000_000
CACHES = ("__pycache__", "*.pyc", ".*_cache", ".hypothesis")


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command with what it printed. It knows nothing of this process's Python settings, nor of any service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIDGEN_", "COV"))}
    return subprocess.run(  # noqa: S603 - our own commands
        [str(word) for word in command],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run_well(*command: object, cwd: Path, **environment: str) -> str:
    """What a command printed that must not fail."""
    ran = run(*command, cwd=cwd, **environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def only_from(wheelhouse: Path) -> dict[str, str]:
    """Has pip look nowhere else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheelhouse)}


@frozen
class Distributions:
    """What was built, and the sources that it was built from."""

    sources: Path
    wheel: Path
    sdist: Path

    @property
    def metadata(self) -> Message:
        """The wheel's METADATA."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            return Parser().parsestr(wheel.read(name).decode())

    def files(self, *parts: str) -> set[str]:
        """The sources' files in these folders, caches aside, as paths relative to the sources."""
        found = {path for part in parts for path in (self.sources / part).rglob("*") if path.is_file()}
        return {path.relative_to(self.sources).as_posix() for path in found}


@frozen
class Environment:
    """A virtual environment."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def packages(self) -> Path:
        (found,) = self.home.glob("lib/python*/site-packages")
        return found

    def strictly(self, *arguments: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run its Python alone: warnings are errors, and the current folder is not imported from."""
        return run(self.python, "-I", "-W", "error", *arguments, cwd=cwd, **more)


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build, an installation without extras and a run of tests ask for, fetched once."""
    house = tmp_path_factory.mktemp("wheelhouse")
    wanted = [*PYPROJECT["build-system"]["requires"], *PYPROJECT["project"]["dependencies"], *RUNNERS]
    download = (*PIP, "download", "--retries", "1", "--only-binary", ":all:", "--dest", house)
    run_well(*download, *wanted, cwd=house)
    return house


def copy_sources(directory: Path) -> Path:
    """Copy the project's sources, caches aside, as a checkout has them."""
    directory.mkdir()
    for part in ("pyproject.toml", ".gitignore", *PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]):
        if (ROOT / part).is_dir():
            copytree(ROOT / part, directory / part, ignore=ignore_patterns(*CACHES))
        elif (ROOT / part).exists():
            copy2(ROOT / part, directory / part)
    return directory


def build(sources: Path, wheelhouse: Path, umask: str = "022", **environment: str) -> Distributions:
    """Build both from the sources, in the directory above them."""
    directory = sources.parent
    command = (sys.executable, "-m", "build", "--sdist", "--wheel", "--outdir", directory, sources)
    settings = only_from(wheelhouse) | {"SOURCE_DATE_EPOCH": str(SOURCE_DATE)} | environment
    run_well("sh", "-c", f'umask {umask} && exec "$@"', "sh", *command, cwd=directory, **settings)
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    return Distributions(sources, wheel, sdist)


@pytest.fixture(scope="session")
def distributions(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Wheel and source distribution, each built straight from a copy of the project's sources."""
    return build(copy_sources(tmp_path_factory.mktemp("build") / "sources"), wheelhouse)


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Environment]:
    """Makes a new environment and has this interpreter's pip install something into it."""

    def make(*wanted: object, **environment: str) -> Environment:
        home = tmp_path_factory.mktemp("environment")
        run_well(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
        run_well(*PIP, "--python", home / "bin" / "python", "install", "--no-compile", *wanted, cwd=home, **environment)
        return Environment(home)

    return make


@pytest.fixture(scope="session")
def bare(distributions: Distributions, wheelhouse: Path, install: Callable[..., Environment]) -> Environment:
    """The wheel without any extra."""
    return install(distributions.wheel, **only_from(wheelhouse))


@pytest.fixture(scope="session")
def from_sdist(distributions: Distributions, wheelhouse: Path, install: Callable[..., Environment]) -> Environment:
    """The source distribution without any extra, and what runs tests."""
    return install(distributions.sdist, *RUNNERS, **only_from(wheelhouse))

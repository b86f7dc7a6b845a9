"""The package as it is installed: alone, and with its extras on the oldest releases that it allows."""

import asyncio
import re
import sys

import pytest

from tests.lowest_versions import lowest_version, requirements_of
from vidgen_async.sandbox import Sandbox

from .conftest import PARTS_OF_THE_BASE, PYPROJECT, ROOT, run, run_well

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

PROGRAM = ROOT / "tests" / "packaging" / "user_project" / "program.py"
OLDEST_PYTHON = PYPROJECT["project"]["requires-python"].removeprefix(">=")


def asked_for(*extras: str) -> dict[str, str]:
    """What the package itself asks for, or these extras: names with the oldest release allowed."""
    return {requirement.name: lowest_version(requirement) for requirement in requirements_of(*extras)}


def test_alone_it_brings_none_of_what_the_extras_need(bare, tmp_path):
    look = "from importlib.metadata import distributions as all; print(*(found.name.lower() for found in all()))"
    installed = set(bare.strictly("-c", look, cwd=tmp_path).stdout.split())
    assert {"vidgen-async", *asked_for()} <= installed
    assert installed.isdisjoint(asked_for("cli", "sandbox", "video"))


def test_alone_it_imports_without_a_warning(bare, tmp_path):
    ran = bare.strictly("-c", f"{PARTS_OF_THE_BASE}; print(vidgen_async.__file__)", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() == str(bare.packages / "vidgen_async" / "__init__.py")


def test_alone_the_sandbox_names_the_extra_that_is_missing(bare, tmp_path):
    ran = bare.strictly("-c", "from vidgen_async.sandbox import Sandbox", cwd=tmp_path)
    assert ran.returncode == 1
    assert re.fullmatch(r"ImportError: .* pip install 'vidgen-async\[sandbox\]'", ran.stderr.splitlines()[-1])


def test_alone_the_command_names_the_extra_that_is_missing(bare, tmp_path):
    ran = run(bare.home / "bin" / "vidgen", "--version", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    error, hint = ran.stderr.splitlines()
    assert re.fullmatch(r"error: vidgen needs \w+, which is not installed\.", error)
    assert hint == 'hint: pip install "vidgen-async[cli]"'


async def test_alone_it_makes_a_video_with_one_create(bare, tmp_path):
    async with Sandbox(queued_for=0, running_for=0) as service:
        facts = {"VIDGEN_BASE_URL": service.base_url, "VIDGEN_API_KEY": service.api_key}
        ran = await asyncio.to_thread(bare.strictly, PROGRAM, "boat.mp4", cwd=tmp_path, **facts)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [create.body["prompt"] for create in service.creates] == ["A paper boat"]
    assert (tmp_path / "boat.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.skipif(
    f"{sys.version_info.major}.{sys.version_info.minor}" != OLDEST_PYTHON,
    reason=f"the oldest releases allowed were built for Python {OLDEST_PYTHON}",
)
def test_on_the_oldest_releases_that_it_allows_the_command_makes_a_video(distributions, install, tmp_path):
    pins = [f"{name}=={release}" for name, release in (asked_for() | asked_for("cli", "sandbox", "video")).items()]
    oldest = install(f"{distributions.wheel}[cli,video]", *pins)
    boat = ROOT / "examples" / "boat.png"
    command = ("generate", "A paper boat", "--image", boat, "--sandbox", "-o", "boat.mp4")

    run_well(oldest.home / "bin" / "vidgen", *command, cwd=tmp_path)

    assert (tmp_path / "boat.mp4").read_bytes()[4:8] == b"ftyp"

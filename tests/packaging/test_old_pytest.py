"""The plugin beside old releases of pytest and pytest-asyncio: every run works, its fixtures where possible."""

import sys

import pytest

from .conftest import run, run_well

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

PLAIN = "def test_plain(): pass\n"
SHOP = """
import pytest

@pytest.mark.asyncio
async def test_client(vidgen_client):
    assert (await vidgen_client.account.get()).balance

@pytest.mark.asyncio
async def test_sandbox(vidgen_client, vidgen_sandbox):
    assert vidgen_sandbox.creates == []
    await vidgen_client.models.list()
"""
TOO_OLD = "test_shop.py::test_client: vidgen_cassette needs pytest 7.4 or later"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pytest 6.2 needs Python 3.11 or earlier")
@pytest.mark.parametrize(
    ("releases", "works"),
    [
        (("pytest==6.2.5", "pytest-asyncio==0.16.0"), False),
        (("pytest==7.4.4", "pluggy==1.0.0"), None),
        (("pytest==7.4.4", "pytest-asyncio==0.21.2"), True),
        (("pytest==8.3.5", "pytest-asyncio==0.24.0"), True),
    ],
)
def test_a_run_works_with_old_releases(releases, works, distributions, install, tmp_path):
    """``works``: whether the fixtures do; None where no plugin runs async tests."""
    python = install(f"{distributions.wheel}[sandbox]", *releases).python
    (tmp_path / "test_plain.py").write_text(PLAIN)
    command = (python, "-m", "pytest", "-p", "no:cacheprovider")

    assert "1 passed" in run_well(*command, cwd=tmp_path)

    if works is not None:
        (tmp_path / "test_shop.py").write_text(SHOP)
        options = ("--vidgen-mode=record", "--vidgen-record-from=sandbox")
        ran = run(*command, *options, cwd=tmp_path)
        assert ("3 passed" if works else TOO_OLD) in ran.stdout, ran.stdout + ran.stderr
        assert ran.returncode == (0 if works else 1)

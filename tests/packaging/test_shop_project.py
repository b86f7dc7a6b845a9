"""A user's project with many other packages, and their old releases, against the wheel as it is installed."""

import shutil
import sys
from pathlib import Path

import pytest

from .conftest import run_well

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]

PROJECT = Path(__file__).parent / "shop_project"
OLD_RUNNERS = ("pytest==7.4.4", "pytest-asyncio==0.23.8")
PACKAGES = ("anyio", "django", "fastapi", "flask", "httpx", "kombu", "mypy", "pyright[nodejs]", "structlog", "wrapt")
RECORD = ("--vidgen-mode=record", "--vidgen-record-from=sandbox")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="pytest 7.4 needs Python 3.13 or earlier")
def test_the_tests_and_type_checkers_of_a_project_with_many_other_packages_pass(distributions, install, tmp_path):
    python = install(f"{distributions.wheel}[sandbox]", *OLD_RUNNERS, *PACKAGES).python
    project = shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))

    ran = run_well(python, "-m", "pytest", "-p", "no:cacheprovider", *RECORD, cwd=project)
    assert "5 passed" in ran
    run_well(python, "-m", "mypy", cwd=project)
    run_well(python, "-m", "pyright", "--pythonpath", python, cwd=project, PYRIGHT_PYTHON_IGNORE_WARNINGS="1")

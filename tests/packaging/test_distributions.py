"""Wheel and source distribution: what is in them, and what they say of themselves."""

import csv
import re
import sys
import tarfile
import zipfile

import pytest

import vidgen_async

from .conftest import PYPROJECT, run_well

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]


def test_twine_accepts_both_and_has_nothing_to_remark(distributions):
    said = run_well(
        *(sys.executable, "-m", "twine", "--no-color", "check", "--strict", distributions.wheel, distributions.sdist),
        cwd=distributions.wheel.parent,
    )
    assert said.count("PASSED") == 2


def test_the_wheel_holds_every_file_of_the_package_and_no_other(distributions):
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == distributions.files("vidgen_async")
    assert {"vidgen_async/py.typed", "vidgen_async/client/client.py", "vidgen_async/sandbox/web/openapi.json"} <= names


def test_the_sdist_holds_all_that_it_was_built_from(distributions):
    with tarfile.open(distributions.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert names == distributions.files(".") | {"PKG-INFO"}
    assert {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/how-to/creates.md",
        "tests/__main__.py",
    } <= names


def installed_files(environment) -> dict[str, str]:
    """The package's files in an environment, metadata too, each with its hash."""
    (record,) = environment.packages.glob("vidgen_async-*.dist-info/RECORD")
    rows = csv.reader(record.read_text().splitlines())
    made_by_pip = re.compile(r"\.pyc$|/(INSTALLER|REQUESTED|RECORD|direct_url\.json)$|^\.\./")
    return {name: digest for name, digest, _ in rows if not made_by_pip.search(name)}


def test_the_sdist_installs_the_same_files_as_the_wheel(bare, from_sdist):
    files = installed_files(bare)
    assert "vidgen_async/client/client.py" in files
    assert installed_files(from_sdist) == files


def test_the_metadata_says_what_the_project_says(distributions):
    metadata = distributions.metadata
    project = PYPROJECT["project"]
    required = metadata.get_all("Requires-Dist")
    assert metadata["Version"] == vidgen_async.__version__
    assert metadata["Requires-Python"] == project["requires-python"]
    assert sorted(line for line in required if "extra ==" not in line) == sorted(project["dependencies"])
    assert set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    assert metadata["License-Expression"] == project["license"]
    assert metadata.get_payload() == (distributions.sources / "README.md").read_text()


def test_the_wheel_brings_the_command_vidgen_and_the_plugin_for_pytest(distributions):
    with zipfile.ZipFile(distributions.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
        said = wheel.read(name).decode().split()
    assert " ".join(said) == (
        "[console_scripts] vidgen = vidgen_async.cli:main [pytest11] vidgen_async = vidgen_async.pytest_plugin"
    )

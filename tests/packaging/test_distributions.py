"""Wheel and source distribution: what is in them, and what they say of themselves."""

import csv
import os
import re
import sys
import tarfile
import zipfile

import pytest

import vidgen_async

from .conftest import PYPROJECT, ROOT, SOURCE_DATE, build, copy_sources, run_well

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow]


def test_twine_accepts_both_and_has_nothing_to_remark(distributions):
    said = run_well(
        *(sys.executable, "-m", "twine", "--no-color", "check", "--strict", distributions.wheel, distributions.sdist),
        cwd=distributions.wheel.parent,
    )
    assert said.count("PASSED") == 2


def test_check_wheel_contents_finds_no_problem(distributions):
    run_well(sys.executable, "-m", "check_wheel_contents", distributions.wheel, cwd=distributions.wheel.parent)


def test_the_same_sources_become_the_same_bytes_wherever_they_are_built(distributions, wheelhouse, tmp_path):
    sources = copy_sources(tmp_path / "another-directory")
    for path in sources.rglob("*"):  # a later checkout, with another umask
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (2_000_000_000, 2_000_000_000))

    again = build(sources, wheelhouse, umask="077", TZ="Asia/Tokyo", LC_ALL="C")

    assert again.wheel.read_bytes() == distributions.wheel.read_bytes()
    assert again.sdist.read_bytes() == distributions.sdist.read_bytes()
    with tarfile.open(again.sdist) as sdist:
        assert {member.mtime for member in sdist} == {SOURCE_DATE}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(distributions):
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == distributions.files("vidgen_async")
    assert {"vidgen_async/py.typed", "vidgen_async/client/client.py", "vidgen_async/sandbox/web/openapi.json"} <= names


def test_the_sdist_holds_all_that_it_was_built_from(distributions):
    with tarfile.open(distributions.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert names == distributions.files(".") | {"PKG-INFO"}
    assert {"docs/conf.py", "examples/boat.png", "tests/__main__.py"} <= names
    assert {name.partition("/")[0] for name in names} == {
        *("vidgen_async", "tests", "docs", "examples", "benchmarks"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
        *("pyproject.toml", "PKG-INFO", ".gitignore"),
    }


def test_the_tests_of_the_projects_files_pass_in_the_sdist(distributions, tmp_path):
    with tarfile.open(distributions.sdist) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    tests = ("tests/docs/test_pages.py", "tests/packaging/test_project_files.py")
    run_well(sys.executable, "-m", "pytest", "-n", "0", *tests, cwd=unpacked, PYTHONPATH=str(unpacked))


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
    assert metadata["Summary"] == project["description"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert sorted(line for line in required if "extra ==" not in line) == sorted(project["dependencies"])
    assert set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    assert (metadata["License-Expression"], metadata["License-File"]) == (project["license"], "LICENSE")
    assert (metadata["Author"], metadata["Maintainer"]) == ("The vidgen_async authors", "The vidgen_async authors")
    assert metadata["Keywords"].split(",") == project["keywords"]
    assert metadata.get_all("Classifier") == project["classifiers"]
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} < set(project["classifiers"])


def test_the_description_on_a_package_index_is_the_readme_without_relative_links_and_pictures(distributions):
    from readme_renderer.markdown import render  # noqa: PLC0415 - of the extra dev

    readme = (ROOT / "README.md").read_text()
    metadata = distributions.metadata
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload()

    shown = render(description)

    assert re.findall(r"""\b(?:href|src)=["'](?!https?://|#)[^"']*""", render(readme)) != []
    assert re.findall(r"""\b(?:href|src)=["'](?!https?://|#)[^"']*""", shown) == []
    assert "](" not in description
    assert [words for words in re.findall(r"!\[([^\]]*)\]", readme) if words in description] == []
    fenced = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    assert fenced.findall(description) == fenced.findall(readme)
    assert re.findall(r"^#.*", description, re.MULTILINE) == re.findall(r"^#.*", readme, re.MULTILINE)


def test_the_wheel_brings_the_command_vidgen_and_the_plugin_for_pytest(distributions):
    with zipfile.ZipFile(distributions.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
        said = wheel.read(name).decode().split()
    assert " ".join(said) == (
        "[console_scripts] vidgen = vidgen_async.cli:main [pytest11] vidgen_async = vidgen_async.pytest_plugin"
    )

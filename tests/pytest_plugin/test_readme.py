"""What the README tells people who test their apps is so."""

import re

import pytest

from .conftest import FAST_SANDBOX, ROOT

README = (ROOT / "README.md").read_text()
CHAPTER = README.split("\n## Testing your app\n")[1].split("\n## ")[0]


def block(marker: str) -> str:
    (found,) = [
        block for block in re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE) if marker in block
    ]
    return found


def commands() -> list[list[str]]:
    """The arguments of each run of pytest in the chapter."""
    (shell,) = re.findall(r"^```sh\n(.*?)^```$", CHAPTER, re.DOTALL | re.MULTILINE)
    return [line.partition("#")[0].split()[1:] for line in shell.splitlines() if line.startswith("pytest")]


@pytest.mark.slow
def test_the_web_app_is_tested_in_the_sandbox(project):
    (project.home / "shop.py").write_text(block("def make_app("))
    project.tests(block("from shop import make_app"))
    ran = project.pytest()
    assert "1 passed" in ran.text
    assert list(project.home.glob("**/*.db")) == []


@pytest.mark.slow
def test_what_is_recorded_by_the_first_command_is_played_by_the_last(project):
    project.tests(block("vidgen_client: Client"), "tests/test_boats.py")
    project.tests(FAST_SANDBOX, "tests/conftest.py")
    record, replay = commands()
    for arguments in (record, replay):
        assert "1 passed" in project.pytest(*arguments).text
    assert (project.home / "tests" / "cassettes" / "test_boats" / "test_a_boat_is_made.json").is_file()


def test_the_chapter_names_each_fixture():
    assert {
        word for word in ("vidgen_sandbox", "vidgen_client", "vidgen_cassette") if f"`{word}`" not in CHAPTER
    } == set()

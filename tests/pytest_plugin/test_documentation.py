"""The page about testing an app shows tests that pass, and commands that do what it states."""

import re

import pytest

from tests.docs.documentation import PAGES, find_blocks, find_program

from .conftest import FAST_SANDBOX

PAGE = "docs/how-to/testing.md"


def find_commands() -> list[list[str]]:
    """The arguments of each run of pytest on the page."""
    (shell,) = [block.text for block in find_blocks("sh") if block.page == PAGE]
    return [line.split()[1:] for line in shell.splitlines() if line.startswith("pytest")]


@pytest.mark.slow
def test_a_lost_response_is_tested_in_the_sandbox(project):
    project.tests(find_program("vidgen_sandbox: Sandbox").text)
    assert "1 passed" in project.pytest().text


@pytest.mark.slow
def test_the_last_command_replays_what_the_first_one_recorded(project):
    project.tests(find_program("vidgen_client: Client").text, "tests/test_boats.py")
    project.tests(FAST_SANDBOX, "tests/conftest.py")
    record, replay = find_commands()
    for arguments in (record, replay):
        assert "1 passed" in project.pytest(*arguments).text
    assert (project.home / "tests" / "cassettes" / "test_boats" / "test_a_boat_is_made.json").is_file()


@pytest.mark.slow
def test_the_transport_of_the_page_fulfils_the_contract(project):
    (project.home / "request_ids.py").write_text(find_program("class RequestIds(").text)
    project.tests(find_program("class TestRequestIds(").text)
    ran = project.pytest_process()
    assert re.search(r"\d\d passed", ran.text), ran.text
    assert ran.code == 0


def test_the_page_names_each_fixture():
    fixtures = ("vidgen_sandbox", "vidgen_client", "vidgen_cassette", "vidgen_aioresponses_fix")
    assert [name for name in fixtures if f"`{name}`" not in PAGES[PAGE]] == []

"""The page about the web apps shows parts of their files, as they are."""

import re
import shlex

import click

from tests.docs.documentation import ROOT, find_blocks
from vidgen_async.cli.app import app

EXAMPLES = ROOT / "examples"


def without_space(text: str) -> str:
    """The formatter indents and breaks the lines of a part otherwise."""
    return "".join(text.split())


def test_every_part_that_is_shown_stands_in_a_file_of_the_examples():
    files = [without_space(path.read_text()) for path in EXAMPLES.rglob("*.py")]
    parts = list(find_blocks("py"))
    assert [str(part) for part in parts if not any(without_space(part.text) in file for file in files)] == []
    assert len(parts) >= 4


def test_every_file_of_the_examples_is_described():
    page = (ROOT / "docs" / "how-to" / "web-app-examples.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".html"}} | {"django_shop/"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_commands_that_the_page_shows_to_an_operator_are_accepted():
    page = (EXAMPLES / "page.html").read_text()
    shown = re.findall(r'<code>vidgen ([^<]*)<span class="id"></span>([^<]*)</code>', page)
    for before, after in shown:
        group, name, *arguments = shlex.split(f"{before} order-1 {after.replace(' N ', ' 1 ')}")
        orders = app.get_command(click.Context(app), group)
        assert isinstance(orders, click.Group)
        command = orders.get_command(click.Context(orders), name)
        assert command is not None
        command.make_context(name, arguments, resilient_parsing=False)
    assert len(shown) == 4

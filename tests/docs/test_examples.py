"""The pages about the examples show parts of their files, as they are."""

import re
import runpy
import shlex

import click

from tests.docs.documentation import ROOT, find_blocks
from vidgen_async.cli.app import app

EXAMPLES = ROOT / "examples"
#: A project whose tests run in an environment of its own.
SHOP = ROOT / "tests" / "packaging" / "shop_project" / "shop.py"


def without_space(text: str) -> str:
    """The formatter indents and breaks the lines of a part otherwise."""
    return "".join(text.split())


def test_every_part_that_is_shown_stands_in_a_file_of_the_examples():
    files = [without_space(path.read_text()) for path in (SHOP, *EXAMPLES.rglob("*.py"))]
    parts = list(find_blocks("py"))
    assert [str(part) for part in parts if not any(without_space(part.text) in file for file in files)] == []
    assert len(parts) >= 4


async def test_the_recipes_store_orders_where_the_journal_is_if_the_jobs_are_elsewhere(service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    monkeypatch.setenv("DATABASE_URL", "memory:")
    monkeypatch.setenv("VIDGEN_JOURNAL", "sqlite:///orders.db")
    make_client = runpy.run_path(str(EXAMPLES / "queues" / "video_job.py"))["make_client"]
    for _ in range(2):
        async with make_client() as client:
            await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id="order-1")
    assert len(service.creates) == 1


def test_every_variable_of_the_recipes_is_described():
    page = (ROOT / "docs" / "how-to" / "job-queues.md").read_text()
    read = re.findall(r'environ\W(?:get\()?"(\w+)"', (EXAMPLES / "queues" / "video_job.py").read_text())
    assert [name for name in read if f"`{name}`" not in page] == []
    assert len(read) > 5


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

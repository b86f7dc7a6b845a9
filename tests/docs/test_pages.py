"""The pages are complete: links lead somewhere, shown commands exist, and code fits a screen."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from tests.docs.documentation import FENCED, PAGES, ROOT, find_blocks
from vidgen_async.cli.app import app

#: All documents with links.
DOCUMENTS = (*PAGES, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
LINK = re.compile(r"\]\(((?!https?:)[^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: str) -> Iterator[str]:
    for target, anchor in LINK.findall(FENCED.sub("", (ROOT / document).read_text())):
        path = (ROOT / document).parent / target if target else ROOT / document
        if not path.resolve().is_relative_to(ROOT) or not path.exists():
            yield f"{document}: {target} does not exist"
        elif anchor and anchor not in anchors(path):
            yield f"{document}: {target} has no heading #{anchor}"


def test_every_link_leads_to_a_file_and_a_heading_that_exist():
    assert [problem for document in DOCUMENTS for problem in broken_links(document)] == []


def test_every_page_is_in_the_index():
    linked = {os.path.normpath(f"docs/{target}") for target, _ in LINK.findall(PAGES["docs/index.md"])}
    included = {"docs/readme.md", "docs/changelog.md", "docs/contributing.md", "docs/security.md"}
    roots = {f"{Path(page).stem.upper()}.md" for page in included}
    assert linked == (set(PAGES) - included - {"docs/index.md"}) | roots


def test_the_readme_has_at_most_150_lines():
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_code_is_at_most_80_columns_wide():
    wide = [
        f"{block.page}:{number}: {len(line)} columns"
        for language in ("python", "py", "sh")
        for block in find_blocks(language)
        for number, line in enumerate(block.text.splitlines(), block.line)
        if len(line) > 80 and not line.startswith("python3 -m venv")  # commands that are copied as one line
    ]
    assert wide == []


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """The arguments of each shown run of vidgen, with the page."""
    for block in find_blocks("sh"):
        for line in re.findall(r"\bvidgen (.+)$", block.text.replace("\\\n", ""), re.MULTILINE):
            yield block.page, shlex.split(line.partition(" | ")[0], comments=True)
    for page, text in PAGES.items():
        for command in re.findall(r"`vidgen ([^`]+)`", FENCED.sub("", text)):
            yield page, shlex.split(command)


def unknown_part(words: list[str]) -> str | None:
    """The first word that is no command or option of vidgen."""
    command: click.Command = app
    context = click.Context(app)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
    options = {name for parameter in command.get_params(context) for name in parameter.opts}
    return next((word for word in words if word.startswith("-") and word not in {"-", *options}), None)


def test_every_command_that_is_shown_exists():
    commands = [(page, words) for page, words in shown_commands() if words[0] != "COMMAND"]
    unknown = {f"{page}: vidgen {shlex.join(words)}" for page, words in commands if unknown_part(words)}
    assert unknown == set()
    assert len(commands) > 20

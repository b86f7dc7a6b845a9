"""README and the pages of docs/: their blocks of code, and their programs as modules that can be called."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
#: The text of each page, by its path.
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@frozen
class Block:
    """A fenced block of code."""

    page: str
    line: int
    """That of its first line of code."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def find_blocks(language: str) -> Iterator[Block]:
    """All blocks in this language."""
    for page, text in PAGES.items():
        for match in FENCED.finditer(text):
            if match[1] == language:
                yield Block(page, text.count("\n", 0, match.start(2)) + 1, match[2])


def find_steps(page: str) -> list[str]:
    """The blocks of shell commands within the numbered steps of a page."""
    return [dedent(text) for text in re.findall(r"^   ```sh\n(.*?)^   ```$", PAGES[page], re.DOTALL | re.MULTILINE)]


def find_program(marker: str) -> Block:
    """The one Python program that contains the marker."""
    (found,) = [block for block in find_blocks("python") if marker in block.text]
    return found


def run_program(marker: str) -> dict[str, Any]:
    """Execute the program that contains the marker, and return its names. Tracebacks show the page and its lines."""
    block = find_program(marker)
    names: dict[str, Any] = {"__name__": "documentation"}
    code = "\n" * (block.line - 1) + block.text
    exec(compile(code, ROOT / block.page, "exec"), names)  # noqa: S102 - the documentation's own programs
    return names

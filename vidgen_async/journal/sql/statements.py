"""SQL statements, read from files beside the modules that execute them."""

import re
from collections.abc import Mapping
from pathlib import Path

#: What each attempt counts for in a budget, for the schemas of both databases.
COSTS = Path(__file__).with_name("costs.sql")

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")


def read_statements(*files: Path) -> Mapping[str, str]:
    """Return the statements of the files by their names. A name follows ``-- name:``; ``{another}`` is replaced by the
    statement of that name, and stays if there is none."""
    found: dict[str, str] = {}
    for file in files:
        _, *texts = _NAME.split(file.read_text(encoding="utf-8"))
        found |= {name: _COMMENT.sub("", text).strip() for name, text in zip(texts[::2], texts[1::2], strict=True)}

    def fill_in(text: str) -> str:
        return _PART.sub(lambda part: fill_in(found[part[1]]) if part[1] in found else part[0], text)

    return {name: fill_in(text) for name, text in found.items()}


def split_script(script: str) -> list[str]:
    """Return the statements of a script, each of which ends with a semicolon before an empty line."""
    return [statement.strip().removesuffix(";") for statement in re.split(r";\n\s*\n", script)]

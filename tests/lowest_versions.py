"""The lowest versions that pyproject.toml allows of what the SDK and its extras for users need.

As requirements, with what runs the tests: pip install -e . $(python -m tests.lowest_versions)
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
#: The extras for users.
EXTRAS = ("cli", "sandbox", "video", "otel", "postgres", "speed", "mcp")
#: Import-linter needs a later rich than the command vidgen, and no test imports it.
LEFT_OUT = {PROJECT["name"], "import-linter"}


def requirements_of(*extras: str) -> list[Requirement]:
    """What the SDK itself needs, or these extras."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    found = map(Requirement, lines if extras else PROJECT["dependencies"])
    return [requirement for requirement in found if requirement.name not in LEFT_OUT]


def lowest_version(requirement: Requirement) -> str:
    return next(limit.version for limit in requirement.specifier if limit.operator == ">=")


def pinned(requirement: Requirement) -> str:
    """The requirement with its lowest version and no other."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={lowest_version(requirement)}"


def main() -> None:
    """Print one requirement on each line, without spaces."""
    lowest = [pinned(requirement) for requirement in (*requirements_of(), *requirements_of(*EXTRAS))]
    tools = [str(requirement).replace(" ", "") for requirement in requirements_of("docs", "test")]
    print(*lowest, *tools, sep="\n")  # noqa: T201 - its output


if __name__ == "__main__":
    main()

"""Which tests show which rule of the service description. It is read from their marks, so that no test has to run.

``@pytest.mark.rule("2.4 rule 2", side="sdk")`` names a rule of :mod:`tests.rules.description`; ``"2.4 rule"`` names
all rules of that section and kind.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

SIDES = ("sdk", "sandbox")


@frozen
class Mark:
    """A test, and the rule or group of rules that it shows."""

    test: str
    rule: str
    side: str


def read_marks(files: Iterable[Path]) -> Iterator[Mark]:
    """Yield the marks of all tests in the files."""
    for file in files:
        yield from marks_in(file.read_text("utf-8"), file.as_posix())


def marks_in(source: str, file: str) -> Iterator[Mark]:
    """Yield the marks of all tests in the source of one file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
                    side = {word.arg: ast.literal_eval(word.value) for word in decorator.keywords}.get("side", "")
                    for rule in map(ast.literal_eval, decorator.args):
                        yield Mark(f"{file}::{node.name}", rule, side)


def find_problems(
    marks: Iterable[Mark], rules: Mapping[str, str], not_tested: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return a line for each mark without a rule or a side, and for each side of a rule without a test or a reason."""
    problems = []
    missing = {(rule, side) for rule in rules for side in SIDES} - not_tested.keys()
    for mark in marks:
        named = [rule for rule in rules if rule == mark.rule or group_of(rule) == mark.rule]
        if not named:
            problems.append(f"{mark.test}: there is no rule {mark.rule!r}")
        if mark.side not in SIDES:
            problems.append(f"{mark.test}: the side of {mark.rule!r} is {mark.side!r}, not one of {SIDES}")
        missing -= {(rule, mark.side) for rule in named}
    return problems + [f"{rule}: no {side} test" for rule, side in sorted(missing)]


def group_of(rule: str) -> str:
    """Return section and kind of a rule: ``"2.4 rule"`` of ``"2.4 rule 2"``."""
    return " ".join(rule.split(" ", 2)[:2])

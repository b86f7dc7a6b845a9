"""The table is complete, and what it names is there."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from tests.rules.rule import Rule
from tests.rules.table import INVENTORY, RULES

ROOT = Path(__file__).parents[2]


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests that pytest collects from a file, below its path; none where there is no such file."""
    file = ROOT / path
    if not file.name.startswith("test_") or not file.is_file():
        return frozenset()
    return frozenset(f"{path}::{name}" for name in _names(ast.parse(file.read_text("utf-8")).body))


def _names(body: Sequence[ast.stmt], within: str = "") -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name.startswith("test_"):
            yield within + statement.name
        elif isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            yield from _names(statement.body, f"{within}{statement.name}::")


def problems_of(rules: Sequence[Rule], inventory: Mapping[str, int]) -> list[str]:
    """Everything that is wrong with the table, one line each."""
    problems = [f"{section}: stands twice" for section, times in Counter(r.section for r in rules).items() if times > 1]
    counts = Counter(rule.group for rule in rules)
    problems += [
        f"{group}: {counts[group]} rows, not {inventory.get(group, 0)}"
        for group in inventory.keys() | counts
        if counts[group] != inventory.get(group, 0)
    ]
    for rule in rules:
        if not rule.says:
            problems.append(f"{rule.section}: says nothing")
        if not rule.tests:
            problems.append(f"{rule.section}: no test")
        problems += [
            f"{rule.section}: no {side} test and no note that says why"
            for side, named in (("SDK", rule.sdk), ("sandbox", rule.sandbox))
            if not named and not rule.note
        ]
        problems += [
            f"{rule.section}: there is no {test}"
            for test in rule.tests
            if test not in names_in(test.partition("::")[0])
        ]
    return problems


def test_every_passage_of_the_description_has_its_row_and_every_row_its_tests():
    assert problems_of(RULES, INVENTORY) == []


@pytest.mark.parametrize("at", range(len(RULES)), ids=[rule.section for rule in RULES])
def test_a_row_that_is_taken_out_is_missed(at):
    problems = problems_of((*RULES[:at], *RULES[at + 1 :]), INVENTORY)

    assert problems == [f"{RULES[at].group}: {INVENTORY[RULES[at].group] - 1} rows, not {INVENTORY[RULES[at].group]}"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"sdk": ("tests/service/test_codec.py::test_that_was_renamed",)},
            "there is no tests/service/test_codec.py::test_that",
        ),
        ({"sdk": ("tests/core/test_gone.py::test_x",)}, "there is no tests/core/test_gone.py"),
        ({"sdk": ("tests/service/conftest.py::now",)}, "there is no tests/service/conftest.py::now"),
        ({"sdk": (), "note": ""}, "no SDK test and no note"),
        ({"sandbox": (), "note": ""}, "no sandbox test and no note"),
        ({"sdk": (), "sandbox": (), "note": "why"}, "no test"),
        ({"says": ""}, "says nothing"),
        ({"section": RULES[1].section}, "stands twice"),
        ({"section": "10 bullet 1"}, "10 bullet: 1 rows, not 0"),
    ],
)
def test_a_row_that_is_wrong_is_named(changes, problem):
    problems = problems_of((evolve(RULES[0], **changes), *RULES[1:]), INVENTORY)

    assert any(problem in found for found in problems)


def test_every_test_of_this_folder_is_in_the_table():
    named = {test for rule in RULES for test in rule.tests}
    here = {test for path in ("sdk", "sandbox") for test in names_in(f"tests/rules/test_rules_{path}.py")}

    assert here - named == set()

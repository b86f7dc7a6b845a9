"""Every rule of the service description has a test of the SDK and one of the sandbox."""

from pathlib import Path

import pytest

from tests.rules.collector import Mark, find_problems, marks_in, read_marks
from tests.rules.description import NOT_TESTED, RULES

TESTS = [
    path for path in sorted(Path(__file__).parents[1].rglob("test_*.py")) if "mark.rule(" in path.read_text("utf-8")
]

ALL_MARKS = [Mark("t", rule, side) for rule in ("1 rule 1", "1 rule 2", "2 note") for side in ("sdk", "sandbox")]
THREE_RULES = dict.fromkeys(("1 rule 1", "1 rule 2", "2 note"), "…")


@pytest.mark.slow
def test_every_rule_has_a_test_of_each_side():
    assert find_problems(read_marks(TESTS), RULES, NOT_TESTED) == []


@pytest.mark.parametrize("removed", ALL_MARKS, ids=str)
def test_a_rule_without_a_test_is_reported(removed):
    marks = [mark for mark in ALL_MARKS if mark != removed]

    assert find_problems(marks, THREE_RULES, {}) == [f"{removed.rule}: no {removed.side} test"]
    assert find_problems(marks, THREE_RULES, {(removed.rule, removed.side): "why"}) == []


def test_the_mark_of_a_group_stands_for_all_its_rules():
    marks = [Mark("t", "1 rule", side) for side in ("sdk", "sandbox")] + ALL_MARKS[4:]

    assert find_problems(marks, THREE_RULES, {}) == []


def test_a_mark_that_names_no_rule_or_no_side_is_reported():
    marks = [*ALL_MARKS, Mark("t", "1 rule 3", "sdk"), Mark("u", "2 note", "")]

    assert find_problems(marks, THREE_RULES, {}) == [
        "t: there is no rule '1 rule 3'",
        "u: the side of '2 note' is '', not one of ('sdk', 'sandbox')",
    ]


def test_marks_are_read_from_functions_and_methods_in_any_order_of_decorators():
    source = """
@pytest.mark.parametrize("x", [1])
@pytest.mark.rule("1 rule 1", "2 note", side="sdk")
def test_a(x): ...

class TestB:
    @pytest.mark.rule("1 rule 2", side="sandbox")
    async def test_c(self): ...

@pytest.mark.rule("2 note", side="sandbox")
def helper(): ...
"""
    assert list(marks_in(source, "f.py")) == [
        Mark("f.py::test_a", "1 rule 1", "sdk"),
        Mark("f.py::test_a", "2 note", "sdk"),
        Mark("f.py::test_c", "1 rule 2", "sandbox"),
    ]


@pytest.mark.parametrize("side", ["sdk", "sandbox"])
def test_every_test_of_this_folder_names_a_rule(side):
    file = Path(__file__).with_name(f"test_rules_{side}.py")
    marked = {mark.test.partition("::")[2] for mark in read_marks([file])}
    tests = {line.partition("(")[0].split()[-1] for line in file.read_text().splitlines() if "def test_" in line}

    assert tests - marked == set()

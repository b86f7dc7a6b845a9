"""Tables, facts and lines on a terminal of any width and in a pipe."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from vidgen_async.cli.terminal.formatting import Facts, Table, age, limit, span
from vidgen_async.cli.terminal.result_output import plain_lines, show_on_terminal, show_plain

TABLE = Table(
    names=("model", "name", "memberPoints", "cause"),
    numbers=("memberPoints",),
    optional=("name",),
    rows=(
        ("first", "The first", "5", "it was too dark to see anything at all"),
        ("second\x1b[2J", "", "1000", ""),
    ),
    empty="nothing here",
    notes=("one more",),
)


def on_a_terminal(shown, width: int) -> list[str]:
    file = io.StringIO()
    show_on_terminal(shown, Console(file=file, width=width, highlight=False, markup=False, emoji=False))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_in_a_pipe_a_table_is_aligned_lines_with_column_names(capsys):
    show_plain(TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "model       name       memberPoints  cause",
        "first       The first             5  it was too dark to see anything at all",
        "second�[2J                     1000",
    ]


def test_a_wide_terminal_shows_the_complete_table():
    head, first, *_, note = on_a_terminal(TABLE, 100)
    assert head.split() == ["model", "name", "memberPoints", "cause"]
    assert first.endswith("it was too dark to see anything at all")
    assert note == "one more"


def test_a_narrower_terminal_has_optional_columns_below_each_row_and_wraps_the_last_one():
    assert on_a_terminal(TABLE, 43) == [
        "model       memberPoints  cause",
        "first                  5  it was too dark",
        "                          to see anything",
        "                          at all",
        "  name The first",
        "second�[2J          1000",
        "one more",
    ]


def test_columns_without_values_are_omitted_first_and_silently():
    table = Table(
        names=("order", "cause", "task"), optional=("cause", "task"), rows=(("order-1", "it was too dark", "—"),)
    )
    assert on_a_terminal(table, 25) == ["order    cause", "order-1  it was too dark"]
    assert on_a_terminal(table, 12) == ["order", "order-1", "  cause it", "  was too", "  dark"]


@pytest.mark.parametrize("width", range(10, 110, 7))
def test_no_word_is_cut_at_any_width_and_no_value_is_left_out(width):
    words = {word for row in (TABLE.names, *TABLE.rows) for cell in row for word in cell.split()}
    shown = {word for line in on_a_terminal(TABLE, width)[:-1] for word in line.split()} - {"·"}
    assert shown == words


def test_the_values_beside_each_other_are_aligned_whatever_their_width():
    table = Table(names=("name", "points"), numbers=("points",), rows=(("船", "5"), ("boat", "1000")))
    assert on_a_terminal(table, 80) == plain_lines(table) == ["name  points", "船         5", "boat    1000"]


def test_a_table_without_rows_shows_its_empty_text():
    empty = Table(names=TABLE.names, rows=(), empty="nothing here")
    assert plain_lines(empty) == on_a_terminal(empty, 80) == ["nothing here"]


def test_facts_are_one_per_line_and_never_wrapped():
    facts = Facts((("video", "https://h/" + "x" * 100), ("id", "7\x07")))
    assert plain_lines(facts) == ["video: https://h/" + "x" * 100, "id:    7�"]
    assert on_a_terminal(facts, 20) == ["video  https://h/" + "x" * 100, "id     7�"]


def test_unknown_facts_are_omitted():
    assert Facts((("a", None), ("b", ""), ("c", 0))) == Facts((("c", "0"),))


def test_ages_spans_and_limits_are_short():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ages = [age(now - timedelta(seconds=count), now) for count in (-5, 0, 59, 60, 3599, 3600, 86400 * 3)]
    assert ages == ["0 s", "0 s", "59 s", "1 min", "59 min", "1 h", "3 d"]
    assert [span(numbers) for numbers in ((), (5,), (15, 30), (3, 1, 2))] == ["", "5", "15,30", "1-3"]
    assert [limit(number) for number in (None, 0, 9)] == ["—", "none", "9"]

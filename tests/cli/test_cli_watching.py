"""The board of ``vidgen watch``: which tasks are shown, and what of them."""

from datetime import UTC, datetime, timedelta

from vidgen_async.cli.watching import Board, Row
from vidgen_async.errors import WaitTimeoutError
from vidgen_async.resources import VideoTask

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


def row(task_id: str, status: str, minutes: int = 0, **facts) -> Row:
    made = Row(task_id)
    made.saw(VideoTask(id=task_id, status=status, updated_at=NOW - timedelta(minutes=minutes), **facts))
    return made


def board(*rows: Row) -> Board:
    return Board({row.task_id: row for row in rows})


def test_tasks_that_go_on_come_first_then_those_that_ended_last():
    shown = board(row("a", "completed", 9), row("b", "running"), row("c", "completed", 1), row("d", "queued"))
    assert [cells[0] for cells in shown.table(20, NOW).rows] == ["b", "d", "c", "a"]


def test_no_more_tasks_are_shown_than_fit_but_all_are_counted():
    shown = board(*(row(str(n), "running") for n in range(100)), row("x", "failed"))
    assert len(shown.table(30, NOW).rows) == 27
    assert shown.count() == "101 tasks: 100 running, 1 failed"


def test_a_row_tells_the_state_since_when_and_why():
    table = board(
        row("a", "running", 3),
        row("b", "failed", 3, failure_reason="too\ndark"),
        row("c", "completed", 60 * 24 * 9, points=20),
        Row("d"),
    ).table(20, NOW)
    assert [column.name for column in table.columns] == ["task", "state", "for", "last change", ""]
    rows = {cells[0]: cells[1:] for cells in table.rows}
    at = f"{(NOW - timedelta(minutes=3)).astimezone():%H:%M:%S}"
    assert rows["a"] == ("running", "3 min", at, "")
    assert rows["b"] == ("failed", "", at, "too dark")
    assert rows["c"] == ("completed", "", "2029-12-24", "20 points")
    assert rows["d"][0] == "not seen yet"
    assert rows["d"][2] == ""


def test_a_task_that_cannot_be_watched_any_more_says_why():
    late = Row("a")
    late.failed(WaitTimeoutError("it took too long", task_id="a"))
    ((_, state, _, _, detail),) = board(late).table(20, NOW).rows
    assert (state, detail, late.is_over) == ("wait timeout", "it took too long", True)


def test_orders_are_named_where_they_are_known():
    shown = Board({"a": Row("a", "order-1187")}, with_orders=True).table(20, NOW)
    assert shown.rows[0][1] == "order-1187"

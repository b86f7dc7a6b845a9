"""``vidgen watch`` on a terminal of any size: what is counted, what the live view shows, and the summary at the end."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from vidgen_async.cli.run_state import Exit
from vidgen_async.cli.terminal.result_output import plain_lines
from vidgen_async.cli.watch_progress import WatchProgress, live_view, summary
from vidgen_async.errors import NotFoundError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, WatcherStats

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


def make_progress(*states: str, orders: bool = False) -> WatchProgress:
    """Of tasks 0, 1, 2 …, each changed a minute after the one before, the last one now; "" is not polled yet."""
    progress = WatchProgress.of({str(n): f"order-{n}" if orders else None for n in range(len(states))})
    for n, state in enumerate(states):
        if state:
            record(progress, str(n), state, len(states) - 1 - n)
    return progress


def record(progress: WatchProgress, task_id: str, state: str, minutes_ago: float = 0, **fields) -> None:
    reason = "too dark" if state == "failed" else None
    defaults = {"updated_at": NOW - timedelta(minutes=minutes_ago), "failure_reason": reason}
    progress.record(VideoTask(**{"id": task_id, "status": state, **defaults, **fields}), NOW)


def make_stats(**fields) -> WatcherStats:
    counts = {"tasks": 1, "waiting": 1, "in_flight": 0, "polls": 0, "polls_per_second": 0.0, "errors": {}}
    lateness = {"lateness_last": 0.0, "lateness_p50": 0.0, "lateness_p99": 0.0, "lateness_max": 0.0}
    return WatcherStats(**{**counts, **lateness, "interval_now": 60.0, "paused_until": None, **fields})


def view(progress: WatchProgress, width: int = 80, height: int = 24, pause: float = 0.0, **stats) -> list[str]:
    """The lines of the live view."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(live_view(progress, make_stats(**stats), 60.0, pause, (width, height), NOW))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def table_rows(progress: WatchProgress, width: int = 80, height: int = 24) -> list[str]:
    """The lines below the column names."""
    lines = view(progress, width, height)
    return lines[next(n for n, line in enumerate(lines) if line.startswith("task")) + 1 :]


# -- counts ----------------------------------------------------------------------------------------------------------


def test_tasks_are_counted_by_state_terminal_states_first_and_unpolled_tasks_last():
    progress = make_progress("running", "", "failed", "completed", "completed", "queued", "moderating")
    assert str(progress) == "7 tasks: 2 completed, 1 failed, 1 running, 1 queued, 1 moderating, 1 not polled yet"
    assert progress.finished == 3


def test_a_task_is_counted_in_its_last_state_only_and_an_unknown_one_not_at_all():
    progress = make_progress("queued")
    for state in ("running", "running", "completed"):
        record(progress, "0", state)
    record(progress, "0", "running")
    record(progress, "another", "failed")
    assert str(progress) == "1 task: 1 completed"


def test_a_task_whose_watch_ends_with_an_error_counts_as_failed_with_the_exit_code_of_that_error():
    progress = make_progress("running", "", "completed")
    progress.record(Outcome("0", error=WaitTimeoutError("timed out", task_id="0")), NOW)
    progress.record(Outcome("1", error=NotFoundError("404", status=404)), NOW)
    assert str(progress) == "3 tasks: 1 completed, 1 wait timeout, 1 not found"
    assert [(row.task_id, row.detail) for row in progress.failed.values()] == [("0", "timed out"), ("1", "404")]
    assert progress.exit_codes == {Exit.TIMEOUT, Exit.FAILED}


def test_an_outcome_without_an_earlier_update_is_recorded():
    progress = make_progress("running")
    progress.record(Outcome.of(VideoTask(id="0", status="failed", failure_reason="no good")), NOW)
    assert [row.detail for row in progress.failed.values()] == ["no good; check the refund in the credit ledger"]


# -- the live view ---------------------------------------------------------------------------------------------------


def test_tasks_that_all_fit_stay_in_the_order_given():
    rows = table_rows(make_progress("running", "completed", "", "queued"))
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "3"]


def test_of_more_tasks_than_fit_the_latest_changes_are_shown_and_the_others_counted():
    rows = table_rows(make_progress(*["running"] * 500))
    assert [row.split()[0] for row in rows[:3]] == ["499", "498", "497"]
    assert rows[-1] == f"… and {500 - (len(rows) - 1)} more tasks"


def test_failures_come_first_the_latest_on_top():
    rows = table_rows(make_progress("failed", *["running"] * 2000, "failed"))
    assert [row.split()[:3] for row in rows[:2]] == [
        ["2001", "failed", f"{NOW.astimezone():%H:%M:%S}"],
        ["0", "failed", f"{(NOW - timedelta(minutes=2001)).astimezone():%Y-%m-%d}"],
    ]
    assert all("too dark" in row for row in rows[:2])


@pytest.mark.parametrize(("running", "share"), [(500, 0.5), (0, 1.0)])
def test_failures_leave_half_of_the_room_to_other_tasks_and_no_room_empty(running, share):
    rows = table_rows(make_progress(*["running"] * running, *["failed"] * 500))[:-1]
    failed = sum(row.split()[1] == "failed" for row in rows)
    assert failed == pytest.approx(share * len(rows), abs=1)
    assert len(rows) == 24 - 3 - 2


def test_a_row_shows_the_state_the_time_of_the_change_and_the_reason_or_the_cost():
    progress = make_progress("running", "failed", "", "")
    record(progress, "2", "completed", 60 * 24 * 9, points=20)
    at = [f"{(NOW - timedelta(minutes=minutes)).astimezone():%H:%M:%S}" for minutes in (3, 2)]
    day = f"{(NOW - timedelta(days=9)).astimezone():%Y-%m-%d}"
    assert [row.split(maxsplit=3) for row in table_rows(progress, width=120)] == [
        ["0", "running", at[0]],
        ["1", "failed", at[1], "too dark; check the refund in the credit ledger"],
        ["2", "completed", day, "20 points"],
        ["3", "not", "polled", "yet"],
    ]


def test_order_ids_are_shown_where_they_are_known_and_fit():
    progress = WatchProgress.of({"task_9bb34ae375b1": "3fa85f64-5717-4562-b3fc-2c963f66afa6"})
    record(progress, "task_9bb34ae375b1", "failed")
    at = f"{NOW.astimezone():%H:%M:%S}"
    assert table_rows(progress, width=140)[0].split(maxsplit=4) == [
        "task_9bb34ae375b1", "3fa85f64-5717-4562-b3fc-2c963f66afa6", "failed", at,
        "too dark; check the refund in the credit ledger",
    ]  # fmt: skip
    assert table_rows(progress, width=80)[0].split(maxsplit=3) == [
        "task_9bb34ae375b1", "failed", at, "too dark; check the refund in the credi…",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 3, 20, 1000])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 10), (20, 8), (1, 1)])
def test_the_view_fits_a_terminal_of_any_size(count, width, height):
    states = [("failed", "completed", "running", "")[n % 4] for n in range(count)]
    progress = make_progress(*states, orders=True)
    stats = {"interval_now": 75.0, "lateness_p99": 12.0, "errors": {"ConnectError": 3}}
    lines = view(progress, width, height, pause=30.0, **stats)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 8), "the terminal cuts what is below"


def test_the_first_lines_show_how_many_tasks_are_finished_and_in_which_states():
    lines = view(make_progress(*["completed"] * 30, *["failed"] * 10, *["running"] * 40))
    assert lines[0].startswith("40 of 80 finished ━")
    assert lines[0].endswith(" 50%")
    assert lines[1] == "30 completed · 10 failed · 40 running · check the refund in the credit ledger"


def test_only_all_tasks_are_a_hundred_percent():
    assert view(make_progress(*["completed"] * 999, ""))[0].endswith(" 99%")
    assert view(make_progress(*["completed"] * 999))[0].endswith("100%")


def test_the_view_shows_rates_lateness_a_pause_and_failed_polls():
    stats = {"polls_per_second": 166.66, "interval_now": 75.0, "lateness_p99": 12.0}
    errors = {"ConnectError": 7, "RateLimitError": 1200}
    until = f"{(NOW + timedelta(seconds=30)).astimezone():%H:%M:%S}"
    assert view(make_progress("running"), pause=30.0, errors=errors, **stats)[2:6] == [
        "166.7 polls/s · each task every 75 s · lateness (p99): 12.0 s",
        f"polling paused until {until} (30.0 s left): the service answered 429",
        "polls are behind schedule: tasks are polled less often than every 60 s",
        "failed polls: RateLimitError 1,200, ConnectError 7",
    ]
    assert view(make_progress("running"))[2:4] == [
        "0.0 polls/s · each task every 60 s · lateness (p99): 0.0 s",
        "task  state      changed",
    ]


# -- the summary -----------------------------------------------------------------------------------------------------


def test_the_summary_counts_the_tasks():
    assert plain_lines(summary(make_progress("completed", "completed"), 750.0)) == [
        "2 tasks: 2 completed; watched for 12 min 30 s"
    ]


def test_the_summary_lists_failed_tasks_with_their_whole_reasons():
    progress = make_progress("completed", "running", orders=True)
    reason = "too dark " * 30
    record(progress, "1", "failed", failure_reason=reason)
    table = summary(progress, 1.0)
    assert table.rows == (("1", "order-1", "failed", f"{reason.strip()}; check the refund in the credit ledger"),)
    assert table.notes == ("2 tasks: 1 completed, 1 failed; watched for 1.0 s",)


def test_of_very_many_failed_tasks_the_summary_lists_the_first_twenty():
    table = summary(make_progress(*["failed"] * 2_000), 1.0)
    assert [row[0] for row in table.rows] == [str(n) for n in range(20)]
    assert table.notes[0] == "… and 1,980 more that failed; the same command with --json lists them all"

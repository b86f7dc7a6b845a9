"""The board of ``vidgen watch``: what is kept of many tasks, how they are shown on a terminal of any size, and what is
told when it is over."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, Group

from vidgen_async.cli.terminal.alternate_screen import Canvas
from vidgen_async.cli.terminal.exit_reports import Exit
from vidgen_async.cli.terminal.result_output import plain_lines
from vidgen_async.cli.watch.board import Board
from vidgen_async.cli.watch.board_view import board_lines, told
from vidgen_async.cli.watch.statistics import Pulse, Vitals
from vidgen_async.errors import NotFoundError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, WatcherStats

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)
CALM = Vitals(interval=60.0, usual_interval=60.0)


def board(*states: str, orders: bool = False) -> Board:
    """Of tasks 0, 1, 2 …, each changed a minute after the one before, the last one now."""
    made = Board.of({str(n): f"order-{n}" if orders else None for n in range(len(states))})
    for n, state in enumerate(states):
        if state:
            see(made, str(n), state, len(states) - 1 - n)
    return made


def see(made: Board, task_id: str, state: str, minutes: float = 0, **facts) -> None:
    reason = "too dark" if state == "failed" else None
    known = {"updated_at": NOW - timedelta(minutes=minutes), "failure_reason": reason}
    made.saw(task_id, VideoTask(**{"id": task_id, "status": state, **known, **facts}), NOW)


def shown(made: Board, width: int = 80, height: int = 24, vitals: Vitals = CALM) -> list[str]:
    return [line.plain for line in board_lines(made, vitals, width, height, NOW)]


def rows(made: Board, width: int = 80, height: int = 24) -> list[str]:
    """What stands below the head of the table."""
    lines = shown(made, width, height)
    return lines[next(n for n, line in enumerate(lines) if line.startswith("task")) + 1 :]


def stats(**known) -> WatcherStats:
    usual = {"tasks": 1, "waiting": 1, "in_flight": 0, "polls": 0, "polls_per_second": 0.0, "errors": {}}
    late = {
        "lateness_last": 0.0,
        "lateness_p50": 0.0,
        "lateness_p99": 0.0,
        "lateness_max": 0.0,
        "interval_now": 60.0,
        "paused_until": None,
    }
    return WatcherStats(**{**usual, **late, **known})


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_tasks_are_counted_by_their_states_ends_first_and_unseen_ones_last():
    made = board("running", "", "failed", "completed", "completed", "queued", "moderating")
    assert made.count() == "7 tasks: 2 completed, 1 failed, 1 running, 1 queued, 1 moderating, 1 not seen yet"
    assert made.over == 3


def test_a_task_is_counted_in_its_last_state_only():
    made = board("queued")
    for state in ("running", "running", "completed"):
        see(made, "0", state)
    assert made.count() == "1 task: 1 completed"


def test_what_is_told_after_the_end_or_of_tasks_that_are_not_watched_changes_nothing():
    made = board("completed")
    see(made, "0", "running")
    see(made, "another", "failed")
    assert made.count() == "1 task: 1 completed"


def test_a_task_that_could_not_be_watched_to_its_end_counts_as_failed_with_the_exit_code_of_its_error():
    made = board("running", "", "completed")
    made.ended(Outcome("0", error=WaitTimeoutError("it took too long", task_id="0")), NOW)
    made.ended(Outcome("1", error=NotFoundError("404", status=404)), NOW)
    assert made.count() == "3 tasks: 1 completed, 1 wait timeout, 1 not found"
    assert [(row.task_id, row.detail) for row in made.failed.values()] == [("0", "it took too long"), ("1", "404")]
    assert made.codes == {Exit.TIMEOUT, Exit.FAILED}
    assert made.unended == []


def test_an_outcome_whose_end_was_not_seen_before_is_an_end():
    made = board("running")
    made.ended(Outcome.of(VideoTask(id="0", status="failed", failure_reason="no good")), NOW)
    assert [row.detail for row in made.failed.values()] == ["no good"]


# -- how it is shown -------------------------------------------------------------------------------------------------


def test_all_tasks_that_fit_stay_in_the_order_in_which_they_were_given():
    assert [row.split()[0] for row in rows(board("running", "completed", "", "queued"))] == ["0", "1", "2", "3"]


def test_of_more_tasks_those_are_shown_that_changed_last_and_the_others_are_counted():
    table = rows(board(*["running"] * 500))
    assert [row.split()[0] for row in table[:3]] == ["499", "498", "497"]
    assert table[-1] == f"… and {500 - (len(table) - 1)} others"


def test_what_failed_comes_first_the_latest_before_the_others():
    made = board("failed", *["running"] * 2000, "failed")
    assert [row.split()[:3] for row in rows(made)[:2]] == [
        ["2001", "failed", f"{NOW.astimezone():%H:%M:%S}"],
        ["0", "failed", f"{(NOW - timedelta(minutes=2001)).astimezone():%Y-%m-%d}"],
    ]
    assert all("too dark" in row for row in rows(made)[:2])


def test_what_failed_never_takes_more_than_half_of_the_room_from_tasks_that_go_on():
    table = rows(board(*["running"] * 500, *["failed"] * 500))
    failed, going = (sum(row.split()[1] == state for row in table) for state in ("failed", "running"))
    assert 0 <= failed - going <= 2
    assert f"… and {500 - failed} more that failed before" in table


def test_what_failed_has_the_whole_room_when_nothing_else_is_there():
    table = rows(board(*["failed"] * 500))
    assert sum(row.split()[1] == "failed" for row in table) == len(table) - 1


def test_a_row_tells_the_state_when_and_for_how_long_or_how_it_ended():
    made = board("running", "failed", "", "")
    see(made, "2", "completed", 60 * 24 * 9, points=20)
    at = [f"{(NOW - timedelta(minutes=minutes)).astimezone():%H:%M:%S}" for minutes in (3, 2)]
    failed, running, completed, unseen = (row.split(maxsplit=3) for row in rows(made))
    assert running == ["0", "running", at[0], "for 3 min"]
    assert failed == ["1", "failed", at[1], "too dark"]
    assert completed == ["2", "completed", f"{(NOW - timedelta(days=9)).astimezone():%Y-%m-%d}", "20 points"]
    assert unseen == ["3", "not", "seen", "yet"]


def test_orders_are_named_where_they_are_known_and_there_is_room():
    made = board("failed", orders=True)
    assert rows(made)[0].split() == ["0", "order-0", "failed", f"{NOW.astimezone():%H:%M:%S}", "too", "dark"]
    assert rows(made, width=28)[0].split()[:3] == ["0", "failed", "too"]
    assert rows(made, width=5)[0].split()[:2] == ["0", "failed"], "the terminal cuts what is left"


def test_it_fits_a_terminal_of_any_size():
    vitals = Vitals(interval=75.0, usual_interval=60.0, late=12.0, paused=30.0, errors={"ConnectError": 3})
    for count in (0, 1, 3, 20, 1000):
        made = board(*[("failed", "completed", "running", "")[n % 4] for n in range(count)], orders=True)
        for width, height in ((80, 24), (120, 40), (40, 10), (20, 5), (1, 1)):
            console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height)
            lines = board_lines(made, vitals, width, height, NOW)
            assert len(lines) <= height
            assert len(console.render_lines(Group(*lines), console.options)) == len(lines), "no line is wrapped"


def test_the_bar_shows_which_share_is_over_and_that_of_the_failed_ones():
    lines = shown(board(*["completed"] * 30, *["failed"] * 10, *["running"] * 40))
    assert lines[0].startswith("40 of 80 over ━")
    assert lines[0].endswith("─  50%")
    assert lines[1] == "30 completed · 10 failed · 40 running"
    assert len(lines[0]) == 80


def test_a_hundred_percent_is_all_of_them():
    assert shown(board(*["completed"] * 999, ""))[0].endswith(" 99%")
    assert shown(board(*["completed"] * 999))[0].endswith("100%")


def test_what_a_task_or_the_service_says_controls_no_terminal():
    made = board("")
    see(made, "0", "fai\x1b[2Jled", updated_at=NOW, failure_reason="too\n\x1b]0;dark")
    assert not any("\x1b" in line or "\n" in line for line in shown(made))


def test_a_pause_late_polls_and_looks_that_failed_are_told():
    errors = {"ConnectError": 7, "RateLimitError": 1200}
    vitals = Vitals(interval=75.0, usual_interval=60.0, late=12.0, paused=30.0, errors=errors, errors_lately=9)
    lines = shown(board("running"), vitals=vitals)
    until = f"{(NOW + timedelta(seconds=30)).astimezone():%H:%M:%S}"
    assert lines[2:6] == [
        "0.0 polls/s · each task every 75 s",
        f"paused until {until}, for 30.0 s: the service answered 429",
        "polls are 12.0 s late; each task is meant to be every 60 s",
        "looks that failed: 9 in the last minute; RateLimit 1,200, Connect 7",
    ]


def test_rates_are_told_as_far_as_they_are_known():
    vitals = Vitals(interval=60, usual_interval=60, polls_per_second=166.66, ended_per_minute=1204.2, left=1700)
    line = shown(board("running"), vitals=vitals)[2]
    assert line == "166.7 polls/s · each task every 60 s · 1,204 ended/min · about 28 min left"


# -- how the watching goes -------------------------------------------------------------------------------------------


def test_ends_are_counted_over_the_last_minute_and_what_is_left_over_the_last_minutes():
    pulse = Pulse(60.0)
    for second in range(100):
        vitals = pulse.take(float(second), stats(polls_per_second=5.0), over=2 * second, going=1000)
    assert vitals.polls_per_second == 5
    assert vitals.ended_per_minute == pytest.approx(120)
    assert vitals.left == pytest.approx(500)


def test_what_is_left_is_not_guessed_from_a_few_ends_or_in_a_pause():
    pulse = Pulse(60.0)
    pulse.take(0.0, stats(), over=0, going=1000)
    assert pulse.take(10.0, stats(), over=900, going=100).left is None
    assert pulse.take(100.0, stats(), over=19, going=100).left is None
    assert pulse.take(100.0, stats(), over=20, going=100).left == pytest.approx(500)
    assert pulse.take(100.0, stats(paused_until=130.0), over=20, going=100).left is None
    assert pulse.take(100.0, stats(), over=1000, going=0).left is None


def test_a_pause_lasts_until_its_end_and_lateness_is_told_where_it_matters():
    pulse = Pulse(60.0)
    assert pulse.take(0.0, stats(paused_until=30.0), over=0, going=1).paused == 30
    assert pulse.take(1.0, stats(lateness_p99=5.9), over=0, going=1).late is None
    assert pulse.take(1.0, stats(lateness_p99=6.1), over=0, going=1).late == 6.1
    assert pulse.take(1.0, stats(lateness_p99=2.0, interval_now=61.0), over=0, going=1).late is None
    assert pulse.take(1.0, stats(lateness_p99=2.0, interval_now=70.0), over=0, going=1).late == 2.0


def test_looks_that_failed_are_those_of_the_last_minute():
    pulse = Pulse(1.0)
    for second in range(200):
        vitals = pulse.take(float(second), stats(errors={"ConnectError": min(second, 150)}), over=0, going=1)
    assert vitals.errors == {"ConnectError": 150}
    assert vitals.errors_lately == 150 - 139


# -- the terminal ----------------------------------------------------------------------------------------------------


def test_only_lines_that_changed_are_sent():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=24)
    made = board(*["running"] * 3)
    with Canvas(console) as canvas:
        canvas.draw(board_lines(made, CALM, 80, 24, NOW))
        file.truncate(file.seek(0))
        see(made, "1", "completed", points=77)
        canvas.draw(board_lines(made, CALM, 80, 24, NOW))
        sent = file.getvalue()
    assert "77 points" in sent
    assert "for " not in sent


def test_a_terminal_that_was_resized_is_drawn_as_a_whole():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=24)
    made = board("running", "running")
    with Canvas(console) as canvas:
        canvas.draw(board_lines(made, CALM, 80, 24, NOW))
        console.size = (60, 20)
        file.truncate(file.seek(0))
        canvas.draw(board_lines(made, CALM, 60, 20, NOW))
        sent = file.getvalue()
    assert sent.count("for ") == 2
    assert sent.count("\x1b[") >= 20


def test_a_terminal_is_given_back_once_and_nothing_is_drawn_after_that():
    file = io.StringIO()
    canvas = Canvas(Console(file=file, force_terminal=True, width=80, height=24))
    with canvas:
        canvas.close()
        canvas.draw(board_lines(board("running"), CALM, 80, 24, NOW))
    assert file.getvalue().count("\x1b[?1049l") == 1
    assert file.getvalue().endswith("\x1b[?1049l")


# -- what stays ------------------------------------------------------------------------------------------------------


def test_in_the_end_the_tasks_are_counted():
    assert plain_lines(told(board("completed", "completed"), 750.0)) == [
        "2 tasks: 2 completed; watched for 12 min 30 s"
    ]


def test_in_the_end_everything_that_failed_is_told_with_its_whole_reason():
    made = board("completed", "running", orders=True)
    reason = "too dark " * 30
    see(made, "1", "failed", failure_reason=reason)
    table = told(made, 1.0)
    assert table.rows == (("1", "order-1", "failed", reason.strip()),)
    assert table.notes == ("2 tasks: 1 completed, 1 failed; watched for 1.0 s",)


def test_of_very_many_that_failed_the_first_twenty_are_told():
    table = told(board(*["failed"] * 2_000), 1.0)
    assert [row[0] for row in table.rows] == [str(n) for n in range(20)]
    assert table.notes[0] == "… and 1,980 more that failed: the same command with --json tells them all"

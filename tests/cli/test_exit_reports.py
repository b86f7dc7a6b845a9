"""Reports of errors and interruptions: what happened, what to do, and the commands to run next. Pure."""

from datetime import UTC, datetime, timedelta

import pytest

from vidgen_async import errors
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.terminal.exit_reports import Report, error_report, interrupt_report, watch_report
from vidgen_async.orders import WHAT_TO_DO
from vidgen_async.types import Attempt, OrderState, VideoTask

ORDER = "order-1187"
NOTHING, UNCERTAIN, TASK = "nothing was ordered", "the order may have arrived", "a task exists"
CHECK, UPLOAD, CREATE, WAIT, DOWNLOAD, WATCH = (
    Stage.CHECK, Stage.UPLOAD, Stage.CREATE, Stage.WAIT, Stage.DOWNLOAD, Stage.WATCH,
)  # fmt: skip
WAIT_AGAIN, RESUME = "vidgen wait task_1 -o hero.mp4", f"vidgen generate --resume {ORDER} -o hero.mp4"
CONSOLE = "a second run is a second order"
MANY = tuple(f"task_{number}" for number in range(30))
UNTIL = datetime(2999, 1, 1, 10, 38, 21, tzinfo=UTC)
LEFT, IN_SANDBOX, AT_H = Settings(account="left"), Settings(is_sandbox=True), Settings(base_url="https://h/v1")
BUDGET = Settings(max_points=9, price="points")
RUNNING = VideoTask(id="task_1", status="running")
DECISIONS = (
    f"vidgen orders show {ORDER} --account left",
    f"vidgen orders adopt {ORDER} TASK_ID --account left",
    f"{RESUME} --account left",
    f"vidgen orders abandon {ORDER} --reason WHY --account left",
    f"vidgen orders resend {ORDER} --expect-attempt 1 --reason WHY --account left",
)


def state(charge: str, stage: Stage, *, durable: bool = False, **more) -> RunState:
    known = {"order_id": ORDER, "output": "hero.mp4", "is_durable": durable, "is_uncertain": charge is UNCERTAIN}
    return RunState(stage=stage, task_id="task_1" if charge is TASK else None, **(known | more))


def interrupted(charge: str, stage: Stage, how: str = "Interrupted", **more) -> Report:
    return interrupt_report(state(charge, stage, **more), how)


def failed(error: Exception, charge: str, stage: Stage, **more) -> Report:
    return error_report(error, state(charge, stage, **more))


#: That of an order of which something else was asked than its task, such as its adoption.
QUEUED = errors.OrderStateError("x", order_id=ORDER, state=OrderState.QUEUED)


def watched(unfinished: int, total: int, ids: tuple[str, ...], command: str = "watch", **more) -> Report:
    run = RunState(**{"stage": WATCH} | more)
    run.explain = lambda _: watch_report(run, command, unfinished, total, ids)
    return interrupt_report(run, "Interrupted")


#: A report, what its text and its hint contain, and its commands.
REPORTS: list[tuple[Report, str, str, tuple[str, ...]]] = [
    # An order that could be sent is proposed only where its task was asked for.
    (failed(QUEUED, NOTHING, CHECK, has_no_task=True), "x.", "", (RESUME,)),
    (failed(QUEUED, NOTHING, CREATE), "x.", "", ()),
    # Interruptions.
    (interrupted(NOTHING, UPLOAD), "Interrupted while uploading the images. Nothing was ordered or charged.", "", ()),
    (interrupted(NOTHING, CREATE, durable=True), "charged. The journal has the order.", "", (RESUME,)),
    (
        interrupted(TASK, WAIT, status="running"),
        "while waiting for the task. Task task_1 is still running at the service and is charged.",
        "",
        (WAIT_AGAIN,),
    ),
    (interrupted(TASK, WAIT, status="expired"), "Task task_1 may still be running; an", "", (WAIT_AGAIN,)),
    (interrupted(TASK, WAIT), "Task task_1 was accepted and is charged; an interruption", "", (WAIT_AGAIN,)),
    (interrupted(TASK, WAIT, status="failed"), "check the refund in the credit ledger", "", (WAIT_AGAIN,)),
    (interrupted(TASK, WAIT, durable=True), "is charged", "", (RESUME,)),
    (
        interrupted(TASK, DOWNLOAD, "Terminated", status="completed"),
        "Terminated while downloading the video. Task task_1 is completed and charged",
        "",
        (WAIT_AGAIN,),
    ),
    (
        interrupted(
            TASK,
            WAIT,
            output="my film; rm -rf.mp4",
            settings=Settings(base_url="https://h/v1"),
            more_options=("--force",),
        ),
        "",
        "",
        ("vidgen wait task_1 -o 'my film; rm -rf.mp4' --base-url https://h/v1 --force",),
    ),
    # Uncertain orders.
    (
        interrupted(UNCERTAIN, CREATE),
        f"while sending the order. It is unknown whether the service accepted order {ORDER}",
        CONSOLE,
        ("vidgen wait TASK_ID -o hero.mp4",),
    ),
    (interrupted(UNCERTAIN, CREATE, durable=True, settings=LEFT), "It is unknown", "", DECISIONS),
    (
        failed(ZeroDivisionError(), UNCERTAIN, CREATE),
        "unexpected ZeroDivisionError: no message. It is unknown",
        "bug in vidgen",
        ("vidgen wait TASK_ID -o hero.mp4",),
    ),
    (
        failed(errors.UncertainCreateError("x was abandoned"), UNCERTAIN, CREATE, durable=True, is_abandoned=True),
        "",
        "",
        (f"vidgen orders adopt {ORDER} TASK_ID",),
    ),
    # Many tasks.
    (
        watched(1, 1, ("a",), more_options=("--journal",)),
        "Interrupted while watching the tasks. 1 of 1 tasks may still be running; an interruption does not stop them.",
        "",
        ("vidgen watch a --journal",),
    ),
    (watched(2, 9, ("a",)), "2 of 9 tasks may still be running", "", ("vidgen watch a",)),
    (watched(5000, 5000, MANY), "5,000 of 5,000 tasks", "The same command resumes the watch.", ()),
    (watched(0, 2, ()), "Interrupted while watching the tasks. All tasks were finished.", "", ()),
    (watched(30, 30, MANY, "wait", output="out/"), "", "", (f"vidgen wait {' '.join(MANY)} -o out/",)),
    (watched(30, 30, MANY, "wait", stage=DOWNLOAD, output="out/"), "", "", (f"vidgen wait {' '.join(MANY)} -o out/",)),
    # In a sandbox nothing is charged, and nothing can be resumed.
    (interrupted(UNCERTAIN, CREATE, settings=IN_SANDBOX), "nothing was charged", "", ()),
    (interrupted(TASK, WAIT, settings=IN_SANDBOX), "nothing was charged", "", ()),
    (failed(errors.VidgenError("x"), TASK, WAIT, settings=IN_SANDBOX), "x. This was a sandbox", "", ()),
    # Errors before and of an order.
    (failed(errors.ConnectError("no connection"), NOTHING, UPLOAD), "no connection. Nothing was ordered.", "", ()),
    (failed(errors.NotSentError("refused"), NOTHING, CREATE), "refused.", "Running this command again is safe", ()),
    (
        failed(errors.NotSentError("refused"), NOTHING, CREATE, durable=True, has_given_order_id=False),
        "",
        "would create another order, because it has no --order-id",
        (RESUME,),
    ),
    (failed(errors.NotSentError("x"), NOTHING, CREATE, durable=True), "", "again is safe", (RESUME,)),
    (
        failed(errors.RejectedInsufficientCreditsError("x", status=402), NOTHING, CREATE, durable=True),
        "",
        "",
        (RESUME,),
    ),
    (failed(errors.RejectedAuthenticationError("x", status=401), NOTHING, CREATE, durable=True), "", "", (RESUME,)),
    (failed(errors.RejectedRateLimitError("x", status=429), NOTHING, CREATE, durable=True), "", "", (RESUME,)),
    (
        failed(errors.RejectedUnexpectedResponseError("x", status=429, body=b"<a>"), NOTHING, CREATE, durable=True),
        "",
        "",
        (),
    ),
    (
        failed(errors.RejectedBadRequestError("x", status=400), NOTHING, CREATE, durable=True),
        "",
        "To send a corrected request, use a new --order-id.",
        (),
    ),
    (
        failed(errors.ReceiptNotStoredError("accepted", order_id=ORDER, task_id="task_1"), TASK, CREATE),
        "",
        f"vidgen orders adopt {ORDER} task_1",
        (WAIT_AGAIN,),
    ),
    # A budget.
    (
        failed(
            errors.BudgetExceededError("x", asked=20),
            NOTHING,
            CREATE,
            durable=True,
            settings=BUDGET,
        ),
        "x.",
        "A higher limit is set with --max-points",
        (f"vidgen generate --resume {ORDER} -o hero.mp4 --max-points 9 --price points",),
    ),
    (failed(errors.BudgetExceededError("x", asked=20, unknown=1), NOTHING, CREATE), "x.", "With --per, only", ()),
    (failed(errors.BudgetExceededError("x"), NOTHING, CREATE, durable=True), "x.", "the names of prices", ()),
    # Errors of a task.
    (failed(errors.WaitTimeoutError("x", task=RUNNING), TASK, WAIT), "x.", "", (WAIT_AGAIN,)),
    (failed(errors.AuthenticationError("x"), TASK, WAIT), "", "", (WAIT_AGAIN,)),
    (failed(errors.TruncatedError("x"), TASK, DOWNLOAD), "", "", (WAIT_AGAIN,)),
    (failed(errors.TaskFailedError("too dark"), TASK, WAIT), "the task failed: too dark.", "", ()),
    (failed(errors.NotFoundError("x"), TASK, WAIT), "", "", ()),
    (failed(errors.DownloadError("exists"), TASK, CHECK), "", "", ()),
    (failed(errors.AuthenticationError("x", status=401), NOTHING, Stage.CATALOG), "", "Check VIDGEN_API_KEY", ()),
    (error_report(BrokenPipeError(), RunState()), "the output pipe was closed by its reader.", "", ()),
]


@pytest.mark.parametrize(("report", "text", "hint", "commands"), REPORTS)
def test_a_report_has_what_happened_what_to_do_and_the_next_commands(report, text, hint, commands):
    assert text in report.text
    assert hint in report.hint
    assert tuple(report.commands) == commands


def test_an_uncertain_order_is_explained_without_names_of_the_api():
    error = errors.UncertainCreateError("order 'x': it is unknown whether the service accepted it.", advice=WHAT_TO_DO)
    report = failed(error, UNCERTAIN, CREATE)
    assert "orders." not in report.text + report.hint
    assert report.hint.count("Check the service's own console") == 1


def test_commands_can_be_pasted_alone_and_each_note_is_a_sentence_above_its_command():
    for durable in (True, False):
        report = interrupted(UNCERTAIN, CREATE, durable=durable)
        assert all(report.commands.values())
        below = [line for label, line in report.lines() if not label]
        assert below[1::2] == [*report.commands]
        assert below[::2] == [f"{note}:" for note in report.commands.values()]
    assert [*interrupted(UNCERTAIN, CREATE, durable=True).commands.values()][-2:] == [
        "If it does not, abandon the order (it may still be charged)",
        "If it does not, send it again instead (it may be charged twice)",
    ]
    assert failed(
        errors.UncertainCreateError("x was abandoned"), UNCERTAIN, CREATE, durable=True, is_abandoned=True
    ).lines()[1] == ("hint", "look for the task in the service's own console.")


def test_an_order_id_that_begins_with_a_dash_is_still_an_argument():
    known = {"order_id": "-x", "settings": Settings(account="a"), "durable": True}
    commands = interrupted(UNCERTAIN, CREATE, output=None, **known).commands
    assert "vidgen orders show --account a -- -x" in commands
    assert "vidgen orders resume --account a -- -x" in commands
    commands = interrupted(UNCERTAIN, CREATE, output="a.mp4", **known).commands
    assert "vidgen generate --resume=-x -o a.mp4 --account a" in commands


def test_an_order_that_counts_as_being_sent_is_awaited_first_and_decided_after_its_deadline():
    attempt = Attempt(n=1, sent_at=UNTIL, deadline_at=UNTIL)
    report = interrupted(UNCERTAIN, CREATE, durable=True, attempts=(attempt,))
    assert "Until 10:38:21 UTC it is treated as still being sent." in report.text
    assert next(iter(report.commands)) == RESUME
    assert [note[:20] for note in report.commands.values()][-2:] == ["From 10:38:21 UTC on"] * 2


def test_the_proposed_resend_has_the_number_of_the_last_attempt_and_the_risk_of_an_old_key():
    error, twice = errors.UncertainCreateError("lost"), (Attempt(n=1, sent_at=UNTIL, deadline_at=UNTIL),) * 2
    report = failed(error, UNCERTAIN, CREATE, durable=True, attempts=twice)
    assert "--expect-attempt 2 --reason" in report.commands.popitem()[0]
    for minutes, risk in ((61, "--accept-duplicate-risk "), (59, "")):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        report = interrupted(UNCERTAIN, CREATE, durable=True, attempts=(Attempt(n=1, sent_at=at, deadline_at=at),))
        assert f"--expect-attempt 1 {risk}--reason" in [*report.commands][-1]


def test_only_a_refused_key_names_its_variable():
    error = errors.AuthenticationError("the API key was refused", status=401, advice="Check api_key.")
    assert "api_key." not in failed(error, NOTHING, Stage.CATALOG).hint
    link = errors.AuthenticationError("the signed link was refused", status=401, source="signed link")
    assert "VIDGEN_API_KEY" not in failed(link, TASK, DOWNLOAD).hint


def test_a_report_has_its_kind_order_and_task_for_programs():
    report = failed(errors.RejectedInsufficientCreditsError("no credits", status=402), NOTHING, CREATE)
    assert (report.kind, report.facts) == ("rejected_insufficient_credits", {"order_id": ORDER})
    assert error_report(ZeroDivisionError(), RunState()).kind == "unexpected"
    assert interrupted(TASK, WAIT, "Terminated").kind == "terminated"

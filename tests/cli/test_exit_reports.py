"""Exit codes, and reports of errors and interruptions. Pure."""

from datetime import UTC, datetime

from vidgen_async import errors
from vidgen_async.cli.run_state import Charge, RunState, Stage, WatchResult
from vidgen_async.cli.terminal.exit_codes import Exit, TasksFailedError, exit_code
from vidgen_async.cli.terminal.exit_reports import error_report, interrupt_report
from vidgen_async.orders import WHAT_TO_DO
from vidgen_async.types.orders import Attempt
from vidgen_async.types.resources import VideoTask

ORDER = "order-1187"
DURABLE = {"is_durable": True}
REJECTED = errors.RejectedInsufficientCreditsError("no credits", status=402)


CODES = [
    (errors.ConfigurationError("x"), Stage.CHECK, Exit.USAGE),
    (errors.DownloadError("no folder"), Stage.CHECK, Exit.USAGE),
    (errors.InvalidRequestError("x"), Stage.UPLOAD, Exit.USAGE),
    (errors.AuthenticationError("x", status=401), Stage.CATALOG, Exit.REFUSED),
    (errors.ServiceUnavailableError("x", status=503), Stage.UPLOAD, Exit.NOT_SENT),
    (errors.ConnectError("x"), Stage.CATALOG, Exit.NOT_SENT),
    (errors.NotSentError("x"), Stage.CREATE, Exit.NOT_SENT),
    (errors.JournalError("x"), Stage.CREATE, Exit.NOT_SENT),
    (REJECTED, Stage.CREATE, Exit.REFUSED),
    (errors.OrderConflictError("x"), Stage.CREATE, Exit.USAGE),
    (errors.UncertainCreateError("x"), Stage.CREATE, Exit.UNCERTAIN),
    (errors.ReceiptNotStoredError("x", task_id="t"), Stage.CREATE, Exit.FAILED),
    (errors.TaskFailedError("x"), Stage.WAIT, Exit.FAILED),
    (errors.NotFoundError("x", status=404), Stage.WAIT, Exit.FAILED),
    (errors.WaitTimeoutError("x"), Stage.WAIT, Exit.TIMEOUT),
    (errors.NotVideoError("x"), Stage.DOWNLOAD, Exit.DOWNLOAD),
    (errors.ConnectError("x"), Stage.DOWNLOAD, Exit.DOWNLOAD),
    (ZeroDivisionError("x"), Stage.DOWNLOAD, Exit.FAILED),
    (errors.NotReadyError("x", status=409), Stage.DOWNLOAD, Exit.FAILED),
    (errors.NotFoundError("x", status=404), Stage.DOWNLOAD, Exit.FAILED),
    (errors.OrderStateError("x"), Stage.JOURNAL, Exit.USAGE),
    (errors.JournalError("x"), Stage.JOURNAL, Exit.NOT_SENT),
    (errors.AuthenticationError("x", status=401), Stage.QUERY, Exit.REFUSED),
    (TasksFailedError("x", code=Exit.TIMEOUT), Stage.WATCH, Exit.TIMEOUT),
]


def test_the_exit_code_depends_on_the_error_and_the_stage():
    assert [(error, stage, code) for error, stage, code in CODES if exit_code(error, stage) is not code] == []


def make_state(charge: Charge, stage: Stage, **more) -> RunState:
    task_id = "task_1" if charge is Charge.TASK_EXISTS else None
    return RunState(stage=stage, charge=charge, order_id=ORDER, task_id=task_id, output="hero.mp4", **more)


def test_an_interruption_before_the_order_reports_that_nothing_was_charged():
    report = interrupt_report(make_state(Charge.NOTHING_ORDERED, Stage.UPLOAD), "Interrupted")
    assert report.text == "Interrupted while uploading the images. Nothing was ordered or charged."
    assert report.commands == ()


def test_an_interruption_of_a_wait_reports_that_the_task_runs_and_is_charged_and_how_to_resume():
    report = interrupt_report(make_state(Charge.TASK_EXISTS, Stage.WAIT, status="running"), "Interrupted")
    assert "while waiting for the task" in report.text
    assert "task_1 is still running at the service and is charged" in report.text
    assert report.commands == ("vidgen wait task_1 -o hero.mp4",)


def test_an_interruption_of_a_download_reports_that_the_task_is_completed():
    report = interrupt_report(make_state(Charge.TASK_EXISTS, Stage.DOWNLOAD, status="completed"), "Terminated")
    assert report.text.startswith("Terminated while downloading the video.")
    assert "is completed and charged" in report.text
    assert report.commands


def test_an_interruption_after_a_failure_points_to_the_ledger():
    report = interrupt_report(make_state(Charge.TASK_EXISTS, Stage.WAIT, status="failed"), "Interrupted")
    assert "check the refund in the credit ledger" in report.text


def test_an_interrupted_order_without_a_response_is_uncertain_and_the_report_warns_of_a_second_run():
    report = interrupt_report(make_state(Charge.UNCERTAIN, Stage.CREATE), "Interrupted")
    assert "while sending the order" in report.text
    assert f"It is unknown whether the service accepted order {ORDER}" in report.text
    assert "a second run is a second order" in report.hint
    assert report.commands[0].startswith("vidgen wait TASK_ID -o hero.mp4")


def test_in_the_sandbox_nothing_is_charged_and_nothing_can_be_resumed():
    for charge, stage in ((Charge.UNCERTAIN, Stage.CREATE), (Charge.TASK_EXISTS, Stage.WAIT)):
        run_state = make_state(charge, stage, is_sandbox=True)
        for report in (interrupt_report(run_state, "Interrupted"), error_report(errors.VidgenError("x"), run_state)):
            assert "nothing was charged" in report.text
            assert report.commands == ()


def test_the_command_to_resume_can_be_pasted_into_a_shell():
    run_state = make_state(Charge.TASK_EXISTS, Stage.WAIT, options=("--base-url", "https://h/openapi/v1", "--force"))
    run_state.output = "my film; rm -rf.mp4"
    assert interrupt_report(run_state, "Interrupted").commands == (
        "vidgen wait task_1 -o 'my film; rm -rf.mp4' --base-url https://h/openapi/v1 --force",
    )


def test_an_uncertain_order_is_explained_without_names_of_the_api():
    error = errors.UncertainCreateError("order 'x': it is unknown whether the service accepted it.", advice=WHAT_TO_DO)
    report = error_report(error, make_state(Charge.UNCERTAIN, Stage.CREATE))
    assert "orders." not in report.text + report.hint
    assert report.hint.count("Check the service's own console") == 1


def test_an_unexpected_error_does_not_hide_that_an_order_is_uncertain():
    report = error_report(ZeroDivisionError(), make_state(Charge.UNCERTAIN, Stage.CREATE))
    assert "unexpected ZeroDivisionError: no message." in report.text
    assert "bug in vidgen" in report.hint
    assert "It is unknown" in report.text


def test_an_order_with_a_generated_id_has_one_next_command():
    run_state = make_state(Charge.NOTHING_ORDERED, Stage.CREATE, is_durable=True, has_given_order_id=False)
    report = error_report(errors.NotSentError("order 'x' was not sent: refused."), run_state)
    assert "again is safe" not in report.hint
    assert "would create another order, because it has no --order-id" in report.hint
    assert report.commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)


def test_commands_contain_no_words_that_a_shell_would_run():
    for charge, more in ((Charge.UNCERTAIN, DURABLE), (Charge.UNCERTAIN, {})):
        report = interrupt_report(make_state(charge, Stage.CREATE, **more), "Interrupted")
        assert len(report.notes) == len(report.commands) > 0
        assert all("#" not in command for command in report.commands)
        below = [line for label, line in report.lines() if not label]
        assert below[:2] == [f"{report.notes[0]}:", report.commands[0]]


def test_an_order_id_that_begins_with_a_dash_is_still_an_argument():
    run_state = RunState(
        stage=Stage.CREATE, charge=Charge.UNCERTAIN, order_id="-x", connection=("--account", "a"), **DURABLE
    )
    commands = interrupt_report(run_state, "Interrupted").commands
    assert "vidgen orders show --account a -- -x" in commands
    assert "vidgen orders resume --account a -- -x" in commands
    run_state.output = "a.mp4"
    assert "vidgen generate --resume=-x -o a.mp4" in interrupt_report(run_state, "Interrupted").commands


def test_an_abandoned_order_can_only_adopt_a_task():
    error = errors.UncertainCreateError("order 'x' was abandoned and is not sent again")
    report = error_report(error, make_state(Charge.UNCERTAIN, Stage.CREATE, is_abandoned=True, **DURABLE))
    assert report.commands == (f"vidgen orders adopt {ORDER} TASK_ID",)
    assert report.lines()[1] == ("hint", "look for the task in the service's own console.")


def test_an_interrupted_wait_for_many_tasks_always_has_its_command():
    names = [f"task_{number}" for number in range(30)]
    for stage in (Stage.WATCH, Stage.DOWNLOAD):
        run_state = RunState(stage=stage, watch_result=WatchResult(0, 30, names, "wait"), output="out/")
        assert interrupt_report(run_state, "Interrupted").commands == (f"vidgen wait {' '.join(names)} -o out/",)


def test_each_note_of_an_uncertain_order_is_a_sentence():
    report = interrupt_report(make_state(Charge.UNCERTAIN, Stage.CREATE, **DURABLE), "Interrupted")
    assert report.notes[-2:] == (
        "If it does not, abandon the order (it may still be charged)",
        "If it does not, send it again instead (it may be charged twice)",
    )


def test_an_order_that_counts_as_being_sent_is_awaited_first_and_decided_after_its_deadline():
    until = datetime(2030, 1, 1, 10, 38, 21, tzinfo=UTC)
    attempt = Attempt(n=1, sent_at=until, deadline_at=until)
    run_state = make_state(Charge.UNCERTAIN, Stage.CREATE, attempts=(attempt,), **DURABLE)
    report = interrupt_report(run_state, "Interrupted")
    assert "Until 10:38:21 UTC it is treated as still being sent." in report.text
    assert report.commands[0] == f"vidgen generate --resume {ORDER} -o hero.mp4"
    assert [note for note in report.notes if note.startswith("From 10:38:21 UTC on")] == list(report.notes[-2:])


def test_a_task_of_unknown_state_is_not_reported_as_running_or_charged():
    error = errors.WaitTimeoutError("x", task_id="task_1")
    text = error_report(error, make_state(Charge.TASK_EXISTS, Stage.WAIT, last_poll_error="ConnectError")).text
    assert "the state of task task_1 is unknown; the last poll failed: ConnectError" in text
    assert "charged" not in text


def test_a_corrected_request_needs_another_order_id():
    error = errors.RejectedBadRequestError("x", status=400)
    hint = error_report(error, make_state(Charge.NOTHING_ORDERED, Stage.CREATE, **DURABLE)).hint
    assert "To send a corrected request, use a new --order-id." in hint


def test_after_an_order_that_was_not_sent_the_command_can_be_run_again():
    error = errors.NotSentError("order 'x' was not sent: refused.", advice="Calling again is safe.")
    assert (
        "Running this command again is safe"
        in error_report(error, make_state(Charge.NOTHING_ORDERED, Stage.CREATE)).hint
    )


def test_a_failure_before_the_order_reports_that_nothing_was_ordered():
    run_state = make_state(Charge.NOTHING_ORDERED, Stage.UPLOAD)
    assert error_report(errors.ConnectError("no connection"), run_state).text == "no connection. Nothing was ordered."


def test_errors_that_can_be_resumed_have_commands():
    for error, stage, has_commands in (
        (errors.WaitTimeoutError("x", task_id="task_1"), Stage.WAIT, True),
        (errors.AuthenticationError("x"), Stage.WAIT, True),
        (errors.TruncatedError("x"), Stage.DOWNLOAD, True),
        (errors.TaskFailedError("x"), Stage.WAIT, False),
        (errors.NotFoundError("x"), Stage.WAIT, False),
        (errors.DownloadError("exists"), Stage.CHECK, False),
    ):
        assert bool(error_report(error, make_state(Charge.TASK_EXISTS, stage)).commands) is has_commands, error


def test_a_stored_order_is_resumed_by_its_id():
    run_state = make_state(Charge.TASK_EXISTS, Stage.WAIT, **DURABLE)
    assert interrupt_report(run_state, "Interrupted").commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)


def test_an_uncertain_stored_order_has_commands_for_each_decision():
    run_state = make_state(Charge.UNCERTAIN, Stage.CREATE, connection=("--account", "left"), **DURABLE)
    report = interrupt_report(run_state, "Interrupted")
    assert "a second run is a second order" not in report.text
    verbs = [command.split()[1:3] for command in report.commands]
    assert verbs == [
        ["orders", "show"], ["orders", "adopt"], ["generate", "--resume"], ["orders", "abandon"], ["orders", "resend"],
    ]  # fmt: skip
    assert all("--account left" in command for command in report.commands if "orders" in command)


def test_the_proposed_resend_has_the_number_of_the_last_attempt():
    error = errors.UncertainCreateError("lost", attempts=(object(), object()))
    report = error_report(error, make_state(Charge.UNCERTAIN, Stage.CREATE, **DURABLE))
    assert "--expect-attempt 2" in report.commands[-1]


def test_a_rejected_key_names_its_variable():
    error = errors.AuthenticationError("the API key was refused", status=401, advice="Check api_key.")
    report = error_report(error, make_state(Charge.NOTHING_ORDERED, Stage.CATALOG))
    assert "VIDGEN_API_KEY" in report.hint
    assert "api_key." not in report.text + report.hint
    link = errors.AuthenticationError("the signed link was refused", status=401, source="signed link")
    assert "VIDGEN_API_KEY" not in error_report(link, make_state(Charge.TASK_EXISTS, Stage.DOWNLOAD)).hint


def test_only_an_order_that_may_succeed_later_can_be_resumed():
    for error, is_resumable in (
        (errors.NotSentError("x"), True),
        (errors.RejectedInsufficientCreditsError("x", status=402), True),
        (errors.RejectedAuthenticationError("x", status=401), True),
        (errors.RejectedRateLimitError("x", status=429), True),
        (errors.RejectedUnexpectedResponseError("x", status=429, body=b"<html>"), False),
        (errors.RejectedBadRequestError("x", status=400), False),
    ):
        report = error_report(error, make_state(Charge.NOTHING_ORDERED, Stage.CREATE, **DURABLE))
        assert (report.commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)) is is_resumable, error


def test_a_receipt_that_was_not_stored_is_recorded_with_adopt():
    error = errors.ReceiptNotStoredError("accepted", order_id=ORDER, task_id="task_1")
    report = error_report(error, make_state(Charge.TASK_EXISTS, Stage.CREATE))
    assert f"vidgen orders adopt {ORDER} task_1" in report.hint
    assert report.commands == ("vidgen wait task_1 -o hero.mp4",)


def test_a_report_has_its_kind_order_and_task_for_programs():
    report = error_report(REJECTED, make_state(Charge.NOTHING_ORDERED, Stage.CREATE))
    assert (report.kind, report.order_id, report.task_id) == ("rejected_insufficient_credits", ORDER, None)
    assert error_report(ZeroDivisionError(), RunState()).kind == "unexpected"
    assert interrupt_report(make_state(Charge.TASK_EXISTS, Stage.WAIT), "Terminated").kind == "terminated"


def test_a_closed_output_pipe_is_not_reported_as_a_bug():
    assert (
        error_report(BrokenPipeError(), RunState(stage=Stage.JOURNAL)).text
        == "the output pipe was closed by its reader."
    )


def test_an_interrupted_watch_reports_the_unfinished_tasks_and_how_to_resume():
    for watched, text in (
        (WatchResult(0, 1, ["a"]), "1 of 1 tasks may still be running; an interruption does not stop them."),
        (WatchResult(0, 2, ["a"]), "2 of 2 tasks may still be running; an interruption does not stop them."),
        (WatchResult(1, 2, ["a"]), "1 of 2 tasks may still be running; an interruption does not stop them."),
        (WatchResult(7, 9, ["a"]), "2 of 9 tasks may still be running; an interruption does not stop them."),
    ):
        report = interrupt_report(
            RunState(stage=Stage.WATCH, watch_result=watched, options=("--journal",)), "Interrupted"
        )
        assert report.text == f"Interrupted while watching the tasks. {text}"
        assert report.commands == ("vidgen watch a --journal",)


def test_a_watch_of_many_tasks_is_resumed_by_the_same_command():
    run_state = RunState(stage=Stage.WATCH, watch_result=WatchResult(0, 5000, [str(n) for n in range(5000)]))
    report = interrupt_report(run_state, "Interrupted")
    assert report.text.endswith("5,000 of 5,000 tasks may still be running; an interruption does not stop them.")
    assert report.hint == "The same command resumes the watch."
    assert report.commands == ()


def test_an_interruption_after_all_tasks_finished_has_no_next_command():
    report = interrupt_report(RunState(stage=Stage.WATCH, watch_result=WatchResult(2, 2, ())), "Interrupted")
    assert report.text == "Interrupted while watching the tasks. All tasks were finished."


def test_an_interrupted_wait_for_several_tasks_does_not_stop_them():
    report = interrupt_report(RunState(stage=Stage.WATCH), "Interrupted")
    assert report.text == "Interrupted while watching the tasks. An interruption does not stop the tasks."


def test_a_task_is_reported_as_running_only_if_its_last_poll_showed_that():
    running, unknown = VideoTask(id="task_1", status="running"), VideoTask(id="task_1", status="expired")
    texts = [
        interrupt_report(make_state(Charge.TASK_EXISTS, Stage.WAIT, status="expired"), "Interrupted").text,
        error_report(errors.WaitTimeoutError(task=running), make_state(Charge.TASK_EXISTS, Stage.WAIT)).text,
        error_report(errors.WaitTimeoutError(task=unknown), make_state(Charge.TASK_EXISTS, Stage.WAIT)).text,
        error_report(
            errors.WaitTimeoutError(task=running), make_state(Charge.TASK_EXISTS, Stage.WAIT, last_poll_error="a 502")
        ).text,
    ]
    assert ["is still running at the service and is charged" in text for text in texts] == [False, True, False, False]
    assert ["may still be running" in text for text in texts] == [True, False, True, True]

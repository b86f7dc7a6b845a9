"""What a person is told: exit codes, reports of errors and interruptions. Pure."""

from datetime import UTC, datetime

from vidgen_async import errors
from vidgen_async.cli.run_state import Fate, Journey, Stage, Watched
from vidgen_async.cli.terminal.exit_reports import Exit, TasksFailedError, error_report, exit_code, interrupt_report
from vidgen_async.orders import WHAT_TO_DO
from vidgen_async.types.orders import Attempt
from vidgen_async.types.resources import VideoTask

ORDER = "order-1187"
LASTING = {"is_lasting": True}
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
    (errors.OrderStateError("x"), Stage.RECORD, Exit.USAGE),
    (errors.JournalError("x"), Stage.RECORD, Exit.NOT_SENT),
    (errors.AuthenticationError("x", status=401), Stage.LOOK, Exit.REFUSED),
    (TasksFailedError("x", code=Exit.TIMEOUT), Stage.WATCH, Exit.TIMEOUT),
]


def test_the_exit_code_says_whether_it_arrived():
    assert [(error, stage, code) for error, stage, code in CODES if exit_code(error, stage) is not code] == []


def on_its_way(fate: Fate, stage: Stage, **more) -> Journey:
    task_id = "task_1" if fate is Fate.TASK else None
    return Journey(stage=stage, fate=fate, order_id=ORDER, task_id=task_id, output="hero.mp4", **more)


def test_an_interruption_before_the_order_costs_nothing():
    report = interrupt_report(on_its_way(Fate.NOTHING, Stage.UPLOAD), "Interrupted")
    assert report.text == "Interrupted while uploading the pictures. Nothing was ordered or charged."
    assert report.commands == ()


def test_an_interruption_of_a_wait_says_that_the_task_runs_on_is_charged_and_how_to_resume():
    report = interrupt_report(on_its_way(Fate.TASK, Stage.WAIT, status="running"), "Interrupted")
    assert "while waiting for the task" in report.text
    assert "task_1 still runs at the service and is charged" in report.text
    assert report.commands == ("vidgen wait task_1 -o hero.mp4",)


def test_an_interruption_of_a_download_says_that_the_task_is_completed():
    report = interrupt_report(on_its_way(Fate.TASK, Stage.DOWNLOAD, status="completed"), "Terminated")
    assert report.text.startswith("Terminated while downloading the video.")
    assert "is completed and charged" in report.text
    assert report.commands


def test_an_interruption_just_after_a_failure_points_to_the_ledger():
    report = interrupt_report(on_its_way(Fate.TASK, Stage.WAIT, status="failed"), "Interrupted")
    assert "check the refund in the credit ledger" in report.text


def test_an_interrupted_order_without_an_answer_is_uncertain_and_warns_of_a_second_run():
    report = interrupt_report(on_its_way(Fate.UNCERTAIN, Stage.CREATE), "Interrupted")
    assert "while the order was being sent" in report.text
    assert f"Nobody knows whether the service took order {ORDER}" in report.text
    assert "a second run is a second order" in report.text
    assert report.commands[0].startswith("vidgen wait TASK_ID -o hero.mp4")


def test_in_the_sandbox_nothing_is_charged_and_nothing_can_be_resumed():
    for fate, stage in ((Fate.UNCERTAIN, Stage.CREATE), (Fate.TASK, Stage.WAIT)):
        journey = on_its_way(fate, stage, is_sandbox=True)
        for report in (interrupt_report(journey, "Interrupted"), error_report(errors.VidgenError("x"), journey)):
            assert "nothing was charged" in report.text
            assert report.commands == ()


def test_the_command_to_resume_can_be_pasted_into_a_shell():
    journey = on_its_way(Fate.TASK, Stage.WAIT, options=("--base-url", "https://h/openapi/v1", "--force"))
    journey.output = "my film; rm -rf.mp4"
    assert interrupt_report(journey, "Interrupted").commands == (
        "vidgen wait task_1 -o 'my film; rm -rf.mp4' --base-url https://h/openapi/v1 --force",
    )


def test_an_uncertain_order_is_explained_in_words_for_a_person():
    error = errors.UncertainCreateError("order 'x': nobody knows whether the service took it.", advice=WHAT_TO_DO)
    report = error_report(error, on_its_way(Fate.UNCERTAIN, Stage.CREATE))
    assert "orders." not in report.text
    assert report.text.count("Look into the service's own console") == 1


def test_an_unexpected_error_around_an_order_does_not_hide_that_it_is_uncertain():
    report = error_report(ZeroDivisionError(), on_its_way(Fate.UNCERTAIN, Stage.CREATE))
    assert "fault of vidgen" in report.text
    assert "Nobody knows" in report.text


def test_an_order_with_an_id_of_its_own_making_has_one_next_step():
    journey = on_its_way(Fate.NOTHING, Stage.CREATE, is_lasting=True, is_named=False)
    report = error_report(errors.NotSentError("order 'x' was not sent: refused."), journey)
    assert "again is safe" not in report.text
    assert "without --order-id would be another order" in report.text
    assert report.commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)


def test_commands_hold_no_words_that_a_shell_would_run():
    for fate, more in ((Fate.UNCERTAIN, LASTING), (Fate.UNCERTAIN, {})):
        report = interrupt_report(on_its_way(fate, Stage.CREATE, **more), "Interrupted")
        assert len(report.notes) == len(report.commands) > 0
        assert all("#" not in command for command in report.commands)
        lines = report.lines()[1]
        assert lines[0] == (f"{report.notes[0]}:", False)
        assert lines[1] == (report.commands[0], True)


def test_an_order_id_that_looks_like_an_option_is_an_argument_all_the_same():
    journey = Journey(stage=Stage.CREATE, fate=Fate.UNCERTAIN, order_id="-x", connection=("--account", "a"), **LASTING)
    commands = interrupt_report(journey, "Interrupted").commands
    assert "vidgen orders show --account a -- -x" in commands
    assert "vidgen orders resume --account a -- -x" in commands
    journey.output = "a.mp4"
    assert "vidgen generate --resume=-x -o a.mp4" in interrupt_report(journey, "Interrupted").commands


def test_of_an_abandoned_order_only_a_task_that_is_found_can_be_adopted():
    error = errors.UncertainCreateError("order 'x' was abandoned and is not sent again")
    report = error_report(error, on_its_way(Fate.UNCERTAIN, Stage.CREATE, is_abandoned=True, **LASTING))
    assert report.commands == (f"vidgen orders adopt {ORDER} TASK_ID",)


def test_an_order_that_counts_as_being_sent_is_waited_for_first_and_decided_about_from_its_deadline_on():
    until = datetime(2030, 1, 1, 10, 38, 21, tzinfo=UTC)
    attempt = Attempt(n=1, sent_at=until, deadline_at=until)
    journey = on_its_way(Fate.UNCERTAIN, Stage.CREATE, attempts=(attempt,), **LASTING)
    report = interrupt_report(journey, "Interrupted")
    assert "Until 10:38:21 UTC it counts as being sent." in report.text
    assert report.commands[0] == f"vidgen generate --resume {ORDER} -o hero.mp4"
    assert [note for note in report.notes if note.startswith("From 10:38:21 UTC on")] == list(report.notes[-2:])


def test_a_task_that_was_never_seen_is_not_said_to_run_or_to_be_charged():
    error = errors.WaitTimeoutError("x", task_id="task_1")
    text = error_report(error, on_its_way(Fate.TASK, Stage.WAIT, trouble="ConnectError")).text
    assert "task task_1 was never seen: the last look failed with ConnectError" in text
    assert "charged" not in text


def test_a_refused_request_needs_another_order_id_once_it_is_mended():
    error = errors.RejectedBadRequestError("x", status=400)
    text = error_report(error, on_its_way(Fate.NOTHING, Stage.CREATE, **LASTING)).text
    assert "A mended request needs another --order-id." in text


def test_an_order_that_was_not_sent_may_be_run_again():
    error = errors.NotSentError("order 'x' was not sent: refused.", advice="Calling again is safe.")
    assert "Running this again is safe" in error_report(error, on_its_way(Fate.NOTHING, Stage.CREATE)).text


def test_a_failure_before_the_order_says_that_nothing_was_ordered():
    journey = on_its_way(Fate.NOTHING, Stage.UPLOAD)
    assert error_report(errors.ConnectError("no connection"), journey).text == "no connection. Nothing was ordered."


def test_how_to_go_on_is_told_where_one_can_go_on():
    for error, stage, can_go_on in (
        (errors.WaitTimeoutError("x", task_id="task_1"), Stage.WAIT, True),
        (errors.AuthenticationError("x"), Stage.WAIT, True),
        (errors.TruncatedError("x"), Stage.DOWNLOAD, True),
        (errors.TaskFailedError("x"), Stage.WAIT, False),
        (errors.NotFoundError("x"), Stage.WAIT, False),
        (errors.DownloadError("exists"), Stage.CHECK, False),
    ):
        assert bool(error_report(error, on_its_way(Fate.TASK, stage)).commands) is can_go_on, error


def test_an_order_on_record_is_resumed_by_its_id():
    journey = on_its_way(Fate.TASK, Stage.WAIT, **LASTING)
    assert interrupt_report(journey, "Interrupted").commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)


def test_an_uncertain_order_on_record_is_decided_by_a_person_in_commands():
    journey = on_its_way(Fate.UNCERTAIN, Stage.CREATE, connection=("--account", "left"), **LASTING)
    report = interrupt_report(journey, "Interrupted")
    assert "a second run is a second order" not in report.text
    verbs = [command.split()[1:3] for command in report.commands]
    assert verbs == [
        ["orders", "show"], ["orders", "adopt"], ["generate", "--resume"], ["orders", "abandon"], ["orders", "resend"],
    ]  # fmt: skip
    assert all("--account left" in command for command in report.commands if "orders" in command)


def test_the_resend_that_is_proposed_names_the_last_attempt():
    error = errors.UncertainCreateError("lost", attempts=(object(), object()))
    report = error_report(error, on_its_way(Fate.UNCERTAIN, Stage.CREATE, **LASTING))
    assert "--expect-attempt 2" in report.commands[-1]


def test_a_refused_key_names_its_variable():
    error = errors.AuthenticationError("the API key was refused", status=401, advice="Check api_key.")
    report = error_report(error, on_its_way(Fate.NOTHING, Stage.CATALOG))
    assert "VIDGEN_API_KEY" in report.text
    assert "api_key." not in report.text
    link = errors.AuthenticationError("the signed link was refused", status=401, source="signed link")
    assert "VIDGEN_API_KEY" not in error_report(link, on_its_way(Fate.TASK, Stage.DOWNLOAD)).text


def test_an_order_that_can_fare_better_another_time_may_be_resumed():
    for error, may_go_again in (
        (errors.NotSentError("x"), True),
        (errors.RejectedInsufficientCreditsError("x", status=402), True),
        (errors.RejectedRateLimitError("x", status=429), True),
        (errors.RejectedBadRequestError("x", status=400), False),
    ):
        report = error_report(error, on_its_way(Fate.NOTHING, Stage.CREATE, **LASTING))
        assert (report.commands == (f"vidgen generate --resume {ORDER} -o hero.mp4",)) is may_go_again, error


def test_a_receipt_that_could_not_be_written_is_put_on_record_by_hand():
    error = errors.ReceiptNotStoredError("accepted", order_id=ORDER, task_id="task_1")
    report = error_report(error, on_its_way(Fate.TASK, Stage.CREATE))
    assert f"vidgen orders adopt {ORDER} task_1" in report.text
    assert report.commands == ("vidgen wait task_1 -o hero.mp4",)


def test_a_report_knows_what_it_is_about_for_machines():
    report = error_report(REJECTED, on_its_way(Fate.NOTHING, Stage.CREATE))
    assert (report.kind, report.order_id, report.task_id) == ("rejected_insufficient_credits", ORDER, None)
    assert error_report(ZeroDivisionError(), Journey()).kind == "unexpected"
    assert interrupt_report(on_its_way(Fate.TASK, Stage.WAIT), "Terminated").kind == "terminated"


def test_nobody_reading_the_output_is_no_fault_of_ours():
    assert error_report(BrokenPipeError(), Journey(stage=Stage.RECORD)).text == "nobody reads the output any more."


def test_an_interrupted_watch_tells_how_many_tasks_go_on_and_how_to_watch_those():
    for watched, text in (
        (Watched(0, 1, ["a"]), "The task was not seen to end; an interruption does not stop it."),
        (Watched(0, 2, ["a"]), "The 2 tasks were not seen to end; an interruption does not stop them."),
        (Watched(1, 2, ["a"]), "1 of the 2 tasks was not seen to end; an interruption does not stop it."),
        (Watched(7, 9, ["a"]), "2 of the 9 tasks were not seen to end; an interruption does not stop them."),
    ):
        report = interrupt_report(Journey(stage=Stage.WATCH, watched=watched, options=("--journal",)), "Interrupted")
        assert report.text == f"Interrupted while watching the tasks. {text}"
        assert report.commands == ("vidgen watch a --journal",)


def test_a_watch_of_many_tasks_is_gone_on_with_by_the_same_command():
    journey = Journey(stage=Stage.WATCH, watched=Watched(0, 5000, [str(n) for n in range(5000)]))
    report = interrupt_report(journey, "Interrupted")
    assert report.text.endswith(
        "The 5,000 tasks were not seen to end; an interruption does not stop them. The same command goes on watching."
    )
    assert report.commands == ()


def test_a_watch_that_was_over_when_it_was_interrupted_leaves_nothing_to_do():
    report = interrupt_report(Journey(stage=Stage.WATCH, watched=Watched(2, 2, ())), "Interrupted")
    assert report.text == "Interrupted while watching the tasks. All tasks were over."


def test_an_interrupted_wait_for_several_tasks_leaves_them_running():
    report = interrupt_report(Journey(stage=Stage.WATCH), "Interrupted")
    assert report.text == "Interrupted while watching the tasks. An interruption does not stop the tasks."


def test_no_more_is_said_of_a_task_than_is_known():
    running, unknown = VideoTask(id="task_1", status="running"), VideoTask(id="task_1", status="expired")
    texts = [
        interrupt_report(on_its_way(Fate.TASK, Stage.WAIT, status="expired"), "Interrupted").text,
        error_report(errors.WaitTimeoutError(task=running), on_its_way(Fate.TASK, Stage.WAIT)).text,
        error_report(errors.WaitTimeoutError(task=unknown), on_its_way(Fate.TASK, Stage.WAIT)).text,
        error_report(errors.WaitTimeoutError(task=running), on_its_way(Fate.TASK, Stage.WAIT, trouble="a 502")).text,
    ]
    assert ["still runs at the service and is charged" in text for text in texts] == [False, True, False, False]
    assert ["was not seen to end" in text for text in texts] == [True, False, True, True]

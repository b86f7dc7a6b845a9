"""The exit code and the report of a run that fails or is interrupted: pure, from the error and the run's state."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import evolve, field, frozen

from vidgen_async import errors
from vidgen_async.cli.run_state import BEFORE_ORDER, RunState, Stage
from vidgen_async.types import CHECK_REFUND, kind_of

#: A proposed command names at most this many tasks.
MAX_PASTED_IDS = 10
SANDBOX_ENDED = "This was a sandbox, which ends with this command together with its tasks: nothing was charged."
#: Arguments in the advice of errors, and the options that mean the same.
_OPTIONS = {
    "accept_duplicate_risk=True": "--accept-duplicate-risk resends it anyway.",
    "replace=True": "--force replaces it.",
    "overwrite=True": "--force replaces it.",
}


@frozen
class Report:
    """What happened, what to do, and the commands to run next; for programs also its kind, order and task."""

    text: str
    commands: Mapping[str, str] = field(factory=dict)
    """Each with what it is for; empty where that is clear."""
    lead: str = ""
    """The sentence before the commands, for people."""
    hint: str = ""
    """What to do, in sentences."""
    kind: str = "error"
    facts: Mapping[str, Any] = field(factory=dict)
    """What is known of the order, the task and the budget."""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Lines with their labels, empty for what belongs to commands; a command is alone on its line, to be pasted."""
        hint = f"{self.hint} {self.lead}".strip()
        below = chain.from_iterable((note and f"{note}:", command) for command, note in self.commands.items())
        lines = (("error", _decapitalized(self.text)), ("hint", _decapitalized(hint)), *(("", line) for line in below))
        return tuple(line for line in lines if line[1])

    def to_dict(self, code: int) -> dict[str, Any]:
        """The error with this exit code as a JSON object."""
        hints = {"hint": self.hint, "commands": list(self.commands)}
        error = {"kind": self.kind, "message": self.text, "exit_code": int(code)}
        return {**error, **{name: value for name, value in hints.items() if value}, **self.facts}


def _decapitalized(sentence: str) -> str:
    """The sentence, to follow a label; a name such as VIDGEN_API_KEY or PROMPT stays."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence


def error_report(error: BaseException, run: RunState) -> Report:
    """What an error means for the user who ran the command."""
    text, is_batch = _sentence(_message(error)), run.stage is Stage.BATCH
    report = run.explain(text) if is_batch and run.explain is not None else _explain_error(text, error, run)
    host_settings = run.host_settings if _is_of_host(error, run.host) else ""
    facts = _facts(run, error)
    if isinstance(error, errors.BudgetExceededError):
        facts |= {name: getattr(error, name) for name in ("spent", "reserved", "unknown", "asked", "limit")}
        facts["room_at"] = None if error.room_at is None else error.room_at.isoformat()
    return evolve(
        report,
        hint=" ".join(filter(None, (host_settings, _advice(error, run), report.hint))),
        kind=kind_of(error) if isinstance(error, errors.VidgenError) else "unexpected",
        facts=facts,
    )


def interrupt_report(run: RunState, how: str) -> Report:
    """What is still running and is charged, and how to resume; ``how`` it was: Interrupted, Hangup, …"""
    report: Report = _explain_interrupt(run) if run.explain is None else run.explain("")
    return evolve(report, text=f"{how} while {run.stage}. {report.text}", kind=how.lower(), facts=_facts(run))


def _facts(run: RunState, error: BaseException | None = None) -> dict[str, Any]:
    names = ("order_id", "task_id", "retry_after")
    known = {name: getattr(run, name, None) or getattr(error, name, None) for name in names}
    return {name: value for name, value in known.items() if value}


def _explain_error(text: str, error: BaseException, run: RunState) -> Report:
    if run.settings.is_sandbox:
        return Report(f"{text} {SANDBOX_ENDED}" if run.task_id is not None or run.is_uncertain else text)
    if isinstance(error, errors.UnverifiedVideoError) and run.output is not None:
        return Report(text, {download_unverified(error.task_id, run.output, run): ""}, "To save it anyway:")
    if run.task_id is not None:
        is_final = run.stage is Stage.CHECK or isinstance(error, errors.TaskFailedError | errors.NotFoundError)
        return Report(text) if is_final else Report(text, {_resume_run(run): ""}, "To resume:")
    if run.is_uncertain:
        names_order = isinstance(error, errors.UncertainCreateError | errors.OrderStateError)
        return _decisions(text if names_order else f"{text} {_uncertain(run)}", run)
    if run.has_no_task and isinstance(error, errors.OrderStateError) and error.state and error.state.is_sendable:
        return Report(text, {_resume_order(run): ""}, "To send the order:")
    if isinstance(error, errors.BudgetExceededError) and error.asked is not None and run.is_durable:
        return Report(text, {_resume_order(run): ""}, "When there is room:")
    # The same order may succeed later, perhaps after the user has fixed the account or the key.
    is_fixable = isinstance(error, errors.InsufficientCreditsError | errors.AuthenticationError)
    may_succeed = isinstance(error, errors.CreateError) and (error.may_retry or is_fixable)
    if run.stage is Stage.CREATE and run.is_durable and may_succeed:
        return Report(text, {_resume_order(run): ""}, "To retry the order:")
    if isinstance(error, errors.OrderConflictError) and run.is_durable:
        return Report(text, {_resume_order(run): ""}, "To resume the stored order:")
    if run.stage in BEFORE_ORDER:
        return Report(f"{text} Nothing was ordered.")
    return Report(text)


def batch_report(text: str, run: RunState, orders: Sequence[str], hint: str) -> Report:
    """How to continue a batch, and the commands that show these uncertain orders."""
    if run.settings.is_sandbox:
        return Report(f"{text} {SANDBOX_ENDED}".strip())
    show = {command_line("orders", "show", arguments=(order,), options=run.settings.connection): "" for order in orders}
    lead = (
        "For each uncertain order, look for the task in the service's own console, then decide with vidgen orders "
        "adopt, abandon or resend; to show what is known:"
    )
    text = text or "Tasks that were ordered continue, and are charged."
    return Report(text, show, lead if show else "", hint=hint if run.is_durable else "")


def _explain_interrupt(run: RunState) -> Report:
    if run.task_id is None and not run.is_uncertain:
        text = "Nothing was ordered or charged."
        if run.stage is Stage.CREATE and run.is_durable and not run.settings.is_sandbox:
            return Report(f"{text} The journal has the order.", {_resume_order(run): ""}, "To send it:")
        return Report(text)
    if run.settings.is_sandbox:
        return Report(SANDBOX_ENDED)
    if run.task_id is None:
        return _decisions(_uncertain(run), run)
    return Report(_task_status(run), {_resume_run(run): ""}, "To resume:")


def watch_report(run: RunState, command: str, unfinished: int, total: int, ids: Sequence[str]) -> Report:
    """How to resume the command that waits for tasks: with these ids, beside those of --journal."""
    if not unfinished:
        return Report("All tasks were finished.")
    text = f"{unfinished:,} of {total:,} tasks may still be running; an interruption does not stop them."
    if command == "watch" and len(ids) > MAX_PASTED_IDS:
        return Report(text, hint="The same command resumes the watch.")
    return Report(text, {command_line(command, arguments=ids, options=run.options): ""}, f"To resume the {command}:")


def _is_of_host(error: BaseException | None, host: str) -> bool:
    """Whether the host of the service may be the wrong one: it cannot be reached, or has pages instead of an API."""
    if isinstance(error, errors.ConnectError):
        return bool(host) and host in error.message
    if isinstance(error, errors.NotFoundError | errors.UnexpectedResponseError):
        return not error.body.lstrip().startswith(b"{")
    return error is not None and _is_of_host(error.__cause__, host)


def _advice(error: BaseException, run: RunState) -> str:
    """The advice of the SDK's error in terms of the command."""
    refusal = error.__cause__ if isinstance(error, errors.UncertainCreateError | errors.NotSentError) else error
    if isinstance(refusal, errors.AuthenticationError) and refusal.source == "service key":
        return "Check VIDGEN_API_KEY: it must be the complete key, not the prefix that a list of keys shows."
    if isinstance(error, errors.BudgetExceededError):
        return budget_advice(error)
    if isinstance(error, errors.NotSentError):
        if run.is_durable and not run.has_given_order_id:
            return "Running the same command again would create another order, because it has no --order-id."
        return "Running this command again is safe."
    if isinstance(error, errors.RejectedBadRequestError) and run.is_durable:
        return "To send a corrected request, use a new --order-id."
    if isinstance(error, errors.ReceiptNotStoredError) and run.order_id is not None:
        task = (run.order_id, error.task_id)
        adopt = command_line("orders", "adopt", arguments=task, options=run.settings.connection)
        return f"Note the task id, and record it: {adopt}"
    if not isinstance(error, errors.VidgenError | BrokenPipeError):
        return "This is a bug in vidgen; set VIDGEN_DEBUG=1 for a traceback."
    return next((option for argument, option in _OPTIONS.items() if argument in getattr(error, "advice", "")), "")


def budget_advice(error: errors.BudgetExceededError, points: int | None = None) -> str:
    """How to allow the order; a budget of so many points would have allowed all."""
    if error.asked is None:
        return "vidgen models shows the names of prices for --price or VIDGEN_PRICE."
    if error.unknown:
        return "Nothing is sent while the cost of a create is unknown. With --per, only those of that time count."
    if points is not None and points > error.limit:
        return f"Raise --max-points or VIDGEN_BUDGET to at least {points:,}."
    return "A higher limit is set with --max-points or VIDGEN_BUDGET."


def _decisions(text: str, run: RunState) -> Report:
    """What the user can do about an uncertain order."""
    order_id, found = run.order_id, "If the console shows the task"
    if not run.is_durable or order_id is None:
        check = "Check the service's own console before you run this again: a second run is a second order, and may be "
        return Report(text, {_wait_command("TASK_ID", run): found}, hint=f"{check}charged too.")

    def decision(verb: str, *options: str, task: tuple[str, ...] = ()) -> str:
        return command_line("orders", verb, arguments=(order_id, *task), options=(*options, *run.settings.connection))

    adopt = {decision("adopt", task=("TASK_ID",)): f"{found}, record it"}
    if run.is_abandoned:
        return Report(text, adopt, "Look for the task in the service's own console.")
    expected = ("--expect-attempt", str(len(run.attempts) or 1))
    risk = ("--accept-duplicate-risk",) if run.is_key_old else ()
    resend = decision("resend", *expected, *risk, "--reason", "WHY", *run.settings.budget_options)
    until, when, resume = run.sending_until, "If it does not", _resume_order(run)
    known = {decision("show"): "To show the details", **adopt}
    steps = {**known, resume: "Then continue with that task"}
    lead = "Look for the task in the service's own console, then run one of these commands:"
    if until is not None or run.is_creating:
        limit = f"{until:%H:%M:%S} UTC" if until else "the time limit of the create"
        text = f"{text} Until {limit} it is treated as still being sent."
        lead = "The first command waits for the outcome; use the others only to settle the order by hand:"
        steps = {resume: "To wait for the outcome, and continue", **known}
        when = f"From {limit} on, if it does not"
    steps[decision("abandon", "--reason", "WHY")] = f"{when}, abandon the order (it may still be charged)"
    steps[resend] = f"{when}, send it again instead (it may be charged twice)"
    return Report(text, steps, lead)


def command_line(*words: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A quoted shell command; arguments may begin with a dash."""
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(("vidgen", *words, *options, "--", *arguments))
    return shlex.join(("vidgen", *words, *arguments, *options))


def _resume_order(run: RunState) -> str:
    """The command that resumes the run's order, which the journal has."""
    order_id, budget = str(run.order_id), run.settings.budget_options
    if run.output is None:
        return command_line("orders", "resume", arguments=(order_id,), options=(*budget, *run.settings.connection))
    resume = (f"--resume={order_id}",) if order_id.startswith("-") else ("--resume", order_id)
    return command_line("generate", options=(*resume, *run.options, *budget))


def _resume_run(run: RunState) -> str:
    """The command that resumes the run: by its order if the journal has it, else by its task."""
    is_stored = run.is_durable and run.order_id is not None and run.output is not None
    return _resume_order(run) if is_stored else _wait_command(str(run.task_id), run)


def _wait_command(task_id: str, run: RunState) -> str:
    return command_line("wait", arguments=(task_id,), options=run.options)


def download_unverified(task_id: str, output: str, run: RunState) -> str:
    """The command that saves the video of a task though it cannot be verified that it is complete."""
    force = ("--force",) if "--force" in run.more_options else ()
    options = ("-o", output, *force, "--accept-unverified", *run.settings.connection)
    return command_line("download", arguments=(task_id,), options=options)


def _task_status(run: RunState) -> str:
    if run.status == "completed":
        return f"Task {run.task_id} is completed and charged; its video is still at the service."
    if run.status == "failed":
        return f"Task {run.task_id} failed; {CHECK_REFUND}."
    if run.status in ("queued", "running"):
        return f"Task {run.task_id} is still running at the service and is charged."
    known = "was accepted and is charged" if run.status is None and run.order_id else "may still be running"
    return f"Task {run.task_id} {known}; an interruption does not stop it."


def _uncertain(run: RunState) -> str:
    return (
        f"It is unknown whether the service accepted order {run.order_id}: a task may exist and be charged. "
        "The order is not sent again without your decision."
    )


def _message(error: BaseException) -> str:
    if isinstance(error, errors.TaskFailedError):
        return f"the task failed: {error.message}"
    if isinstance(error, errors.VidgenError):
        return error.summary or error.message or kind_of(error).replace("_", " ")
    if isinstance(error, BrokenPipeError):
        return "the output pipe was closed by its reader"
    return f"unexpected {type(error).__name__}: {str(error) or 'no message'}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text + ("" if text.endswith((".", "!", "?")) else ".")

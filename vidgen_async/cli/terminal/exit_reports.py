"""The exit code and the report of a run that fails or is interrupted: pure, from the error and the run's state."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import evolve, frozen

from vidgen_async import errors
from vidgen_async.cli.run_state import NoTaskError, RunState, Stage
from vidgen_async.types import CHECK_REFUND, kind_of

NOT_AUTOMATIC = "The order is not sent again without your decision."

#: A proposed command names at most this many tasks.
MAX_PASTED_IDS = 10

CHECK_FIRST = (
    "Check the service's own console before you run this again: a second run is a second order, and may be charged too."
)
CHECK_CONSOLE = "Look for the task in the service's own console."
DECIDE = "Look for the task in the service's own console, then run one of these commands:"
NEW_ORDER = "Running the same command again would create another order, because it has no --order-id."
CHECK_THE_KEY = "Check VIDGEN_API_KEY: it must be the complete key, not the prefix that a list of keys shows."
RAISE_LIMIT = "A higher limit is set with --max-points or VIDGEN_BUDGET."
UNKNOWN_COST = "Nothing is sent while the cost of a create is unknown. With --per, only those of that time count."
CORRECT_PRICE = "vidgen models shows the names of prices for --price or VIDGEN_PRICE."
SETTLE = (
    "For each uncertain order, look for the task in the service's own console, then decide with vidgen orders adopt, "
    "abandon or resend; to show what is known:"
)
SANDBOX_ENDED = "This was a sandbox, which ends with this command together with its tasks: nothing was charged."

#: Arguments in the advice of errors, and the options that mean the same.
_OPTIONS = {
    "accept_duplicate_risk=True": "--accept-duplicate-risk resends it anyway.",
    "replace=True": "--force replaces it.",
}


@frozen
class Report:
    """What happened, what to do, and the commands to run next; for programs also its kind, order and task."""

    text: str
    commands: tuple[str, ...] = ()
    lead: str = ""
    """The sentence before the commands, for people."""
    notes: tuple[str, ...] = ()
    """What each command is for; empty where that is clear."""
    hint: str = ""
    """What to do, in sentences."""
    kind: str = "error"
    order_id: str | None = None
    task_id: str | None = None
    retry_after: float | None = None
    """The Retry-After of the service, in seconds."""
    budget: Mapping[str, Any] | None = None
    """What counts towards the budget that does not allow the order."""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Lines with their labels, empty for what belongs to commands; a command is alone on its line, to be pasted."""
        hint = f"{self.hint} {self.lead}".strip()
        notes = [f"{note}:" for note in self.notes] or [""] * len(self.commands)
        below = filter(None, chain(*zip(notes, self.commands, strict=True)))
        hints = [("hint", _decapitalized(hint))] if hint else []
        return (("error", _decapitalized(self.text)), *hints, *(("", line) for line in below))

    def to_dict(self, code: int) -> dict[str, Any]:
        """The error with this exit code as a JSON object."""
        error = {"kind": self.kind, "message": self.text, "exit_code": int(code)}
        names = ("hint", "order_id", "task_id", "retry_after")
        about = {**{name: getattr(self, name) for name in names}, "commands": list(self.commands)}
        return {**error, **{name: value for name, value in about.items() if value}, **(self.budget or {})}


def _decapitalized(sentence: str) -> str:
    """The sentence, to follow a label; a name such as VIDGEN_API_KEY or PROMPT stays."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence


def error_report(error: BaseException, run_state: RunState) -> Report:
    """What an error means for the user who ran the command."""
    if run_state.stage is Stage.BATCH:
        report = _explain_batch(_sentence(_message(error, run_state)), run_state)
    else:
        report = _explain_error(error, run_state)
    host_settings = run_state.host_settings if _is_of_host(error, run_state.host) else ""
    return evolve(
        report,
        hint=" ".join(filter(None, (host_settings, _advice(error, run_state), report.hint))),
        kind=kind_of(error) if isinstance(error, errors.VidgenError) else "unexpected",
        order_id=run_state.order_id or getattr(error, "order_id", None) or None,
        task_id=run_state.task_id or getattr(error, "task_id", None) or None,
        retry_after=getattr(error, "retry_after", None),
        budget=_budget(error) if isinstance(error, errors.BudgetExceededError) else None,
    )


def _budget(error: errors.BudgetExceededError) -> dict[str, Any]:
    numbers = {name: getattr(error, name) for name in ("spent", "reserved", "unknown", "asked", "limit")}
    return {**numbers, "room_at": None if error.room_at is None else error.room_at.isoformat()}


def interrupt_report(run_state: RunState, how: str) -> Report:
    """What is still running and is charged, and how to resume; ``how`` it was: Interrupted, Hangup, …"""
    report = _explain_interrupt(run_state)
    text = f"{how} while {run_state.stage}. {report.text}"
    return evolve(report, text=text, kind=how.lower(), order_id=run_state.order_id, task_id=run_state.task_id)


def _explain_error(error: BaseException, run_state: RunState) -> Report:
    text = _sentence(_message(error, run_state))
    if run_state.is_sandbox:
        return Report(f"{text} {SANDBOX_ENDED}" if run_state.is_ordered else text)
    if isinstance(error, errors.UnverifiedVideoError) and run_state.output is not None:
        return Report(text, (download_unverified(error.task_id, run_state.output, run_state),), "To save it anyway:")
    if run_state.task_id is not None:
        is_final = run_state.stage is Stage.CHECK or isinstance(error, errors.TaskFailedError | errors.NotFoundError)
        return Report(text) if is_final else Report(text, (_resume_run(run_state),), "To resume:")
    if run_state.is_uncertain:
        names_order = isinstance(error, errors.UncertainCreateError | errors.OrderStateError)
        known = () if names_order else (_uncertain(run_state),)
        attempts = len(error.attempts) if isinstance(error, errors.CreateError) else 0
        return _decisions(" ".join((text, *known)), run_state, attempts)
    if isinstance(error, NoTaskError) and error.state is not None and error.state.is_sendable:
        return Report(text, (_resume_order(run_state),), "To send the order:")
    if isinstance(error, errors.BudgetExceededError) and error.asked is not None and run_state.is_durable:
        return Report(text, (_resume_order(run_state),), "When there is room:")
    if run_state.stage is Stage.CREATE and run_state.is_durable and _is_retryable(error):
        return Report(text, (_resume_order(run_state),), "To retry the order:")
    if isinstance(error, errors.OrderConflictError) and run_state.is_durable:
        return Report(text, (_resume_order(run_state),), "To resume the stored order:")
    if run_state.stage.is_before_create and run_state.stage is not Stage.CHECK:
        return Report(f"{text} Nothing was ordered.")
    return Report(text)


def _explain_batch(text: str, run_state: RunState) -> Report:
    """How to continue a batch, and the commands that show its uncertain orders."""
    if run_state.is_sandbox:
        return Report(f"{text} {SANDBOX_ENDED}".strip())
    orders = run_state.uncertain_orders
    show = [command_line("orders", "show", arguments=(order,), options=run_state.connection) for order in orders]
    return Report(text, tuple(show), SETTLE if show else "", hint=run_state.batch_hint if run_state.is_durable else "")


def _explain_interrupt(run_state: RunState) -> Report:
    if run_state.stage is Stage.BATCH:
        text = "" if run_state.is_sandbox else "Tasks that were ordered continue, and are charged."
        return _explain_batch(text, run_state)
    if run_state.stage is Stage.WATCH or run_state.watch_result is not None:
        return _explain_watch(run_state)
    if not run_state.is_ordered:
        text = "Nothing was ordered or charged."
        if run_state.stage is Stage.CREATE and run_state.is_durable and not run_state.is_sandbox:
            return Report(f"{text} The journal has the order.", (_resume_order(run_state),), "To send it:")
        return Report(text)
    if run_state.is_sandbox:
        return Report(SANDBOX_ENDED)
    if run_state.task_id is None:
        return _decisions(_uncertain(run_state), run_state, 0)
    return Report(_task_status(run_state), (_resume_run(run_state),), "To resume:")


def _explain_watch(run_state: RunState) -> Report:
    watched = run_state.watch_result
    if watched is None:
        return Report("An interruption does not stop the tasks.")
    unfinished = watched.total - watched.finished
    if not unfinished:
        return Report("All tasks were finished.")
    text = f"{unfinished:,} of {watched.total:,} tasks may still be running; an interruption does not stop them."
    if watched.command == "watch" and len(watched.unfinished_ids) > MAX_PASTED_IDS:
        return Report(text, hint="The same command resumes the watch.")
    output = () if run_state.output is None else ("-o", run_state.output)
    options = (*output, *run_state.options)
    resume = command_line(watched.command, arguments=watched.unfinished_ids, options=options)
    return Report(text, (resume,), f"To resume the {watched.command}:")


def _is_retryable(error: BaseException) -> bool:
    """Whether the same order may succeed later, perhaps after the user has fixed the account or the key."""
    is_fixable = isinstance(error, errors.InsufficientCreditsError | errors.AuthenticationError)
    return isinstance(error, errors.CreateError) and (error.may_retry or is_fixable)


def _is_of_host(error: BaseException | None, host: str) -> bool:
    """Whether the host of the service may be the wrong one: it cannot be reached, or has pages instead of an API."""
    if isinstance(error, errors.ConnectError):
        return bool(host) and host in error.message
    if isinstance(error, errors.NotFoundError | errors.UnexpectedResponseError):
        return not error.body.lstrip().startswith(b"{")
    return error is not None and _is_of_host(error.__cause__, host)


def _advice(error: BaseException, run_state: RunState) -> str:
    """The advice of the SDK's error in terms of the command."""
    refusal = error.__cause__ if isinstance(error, errors.UncertainCreateError | errors.NotSentError) else error
    if isinstance(refusal, errors.AuthenticationError) and refusal.source == "service key":
        return CHECK_THE_KEY
    if isinstance(error, errors.BudgetExceededError):
        return budget_advice(error)
    if isinstance(error, errors.NotSentError):
        is_another = run_state.is_durable and not run_state.has_given_order_id
        return NEW_ORDER if is_another else "Running this command again is safe."
    if isinstance(error, errors.RejectedBadRequestError) and run_state.is_durable:
        return "To send a corrected request, use a new --order-id."
    if isinstance(error, errors.ReceiptNotStoredError) and run_state.order_id is not None:
        task = (run_state.order_id, error.task_id)
        adopt = command_line("orders", "adopt", arguments=task, options=run_state.connection)
        return f"Note the task id, and record it: {adopt}"
    if not isinstance(error, errors.VidgenError | BrokenPipeError):
        return "This is a bug in vidgen; set VIDGEN_DEBUG=1 for a traceback."
    return next((option for argument, option in _OPTIONS.items() if argument in getattr(error, "advice", "")), "")


def budget_advice(error: errors.BudgetExceededError, points: int | None = None) -> str:
    """How to allow the order; a budget of so many points would have allowed all."""
    if error.asked is None or error.unknown:
        return CORRECT_PRICE if error.asked is None else UNKNOWN_COST
    is_known = points is not None and points > error.limit
    return f"Raise --max-points or VIDGEN_BUDGET to at least {points:,}." if is_known else RAISE_LIMIT


def _decisions(text: str, run_state: RunState, attempts: int) -> Report:
    """What the user can do about an uncertain order."""
    if not run_state.is_durable or run_state.order_id is None:
        note = "If the console shows the task"
        return Report(text, (_wait_command("TASK_ID", run_state),), notes=(note,), hint=CHECK_FIRST)
    order_id = run_state.order_id

    def decision(verb: str, *options: str, task: tuple[str, ...] = ()) -> str:
        return command_line("orders", verb, arguments=(order_id, *task), options=(*options, *run_state.connection))

    adopt = ("If the console shows the task, record it", decision("adopt", task=("TASK_ID",)))
    if run_state.is_abandoned:
        return Report(text, (adopt[1],), CHECK_CONSOLE, (adopt[0],))
    last = str(attempts or len(run_state.attempts) or 1)
    risk = ("--accept-duplicate-risk",) if run_state.is_key_old else ()
    resume = _resume_order(run_state)
    until, when = run_state.sending_until, "If it does not"
    steps = [
        ("To show the details", decision("show")),
        adopt,
        ("Then continue with that task", resume),
    ]
    lead = DECIDE
    if until is not None or run_state.is_creating:
        limit = f"{until:%H:%M:%S} UTC" if until else "the time limit of the create"
        text = f"{text} Until {limit} it is treated as still being sent."
        lead = "The first command waits for the outcome; use the others only to settle the order by hand:"
        steps = [("To wait for the outcome, and continue", resume), *steps[:2]]
        when = f"From {limit} on, if it does not"
    steps += [
        (f"{when}, abandon the order (it may still be charged)", decision("abandon", "--reason", "WHY")),
        (
            f"{when}, send it again instead (it may be charged twice)",
            decision("resend", "--expect-attempt", last, *risk, "--reason", "WHY", *run_state.budget),
        ),
    ]
    notes, commands = zip(*steps, strict=True)
    return Report(text, commands, lead, notes)


def command_line(*words: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A quoted shell command; arguments may begin with a dash."""
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(("vidgen", *words, *options, "--", *arguments))
    return shlex.join(("vidgen", *words, *arguments, *options))


def _resume_order(run_state: RunState) -> str:
    """The command that resumes the run's order, which the journal has."""
    order_id = str(run_state.order_id)
    if run_state.output is None:
        return command_line(
            "orders", "resume", arguments=(order_id,), options=(*run_state.budget, *run_state.connection)
        )
    resume = (f"--resume={order_id}",) if order_id.startswith("-") else ("--resume", order_id)
    return command_line("generate", options=(*resume, "-o", run_state.output, *run_state.budget, *run_state.options))


def _resume_run(run_state: RunState) -> str:
    """The command that resumes the run: by its order if the journal has it, else by its task."""
    if run_state.is_durable and run_state.order_id is not None and run_state.output is not None:
        return _resume_order(run_state)
    return _wait_command(run_state.task_id or "TASK_ID", run_state)


def _wait_command(task_id: str, run_state: RunState) -> str:
    """The command that waits for the task, and saves its video if the run would have."""
    output = () if run_state.output is None else ("-o", run_state.output)
    return command_line("wait", arguments=(task_id,), options=(*output, *run_state.options))


def download_unverified(task_id: str, output: str, run_state: RunState) -> str:
    """The command that saves the video of a task though it cannot be verified that it is complete."""
    force = ("--force",) if "--force" in run_state.options else ()
    options = ("-o", output, *force, "--accept-unverified", *run_state.connection)
    return command_line("download", arguments=(task_id,), options=options)


def _task_status(run_state: RunState) -> str:
    if run_state.status == "completed":
        return f"Task {run_state.task_id} is completed and charged; its video is still at the service."
    if run_state.status == "failed":
        return f"Task {run_state.task_id} failed; {CHECK_REFUND}."
    if run_state.status in ("queued", "running"):
        return f"Task {run_state.task_id} is still running at the service and is charged."
    known = "was accepted and is charged" if run_state.status is None and run_state.order_id else "may still be running"
    return f"Task {run_state.task_id} {known}; an interruption does not stop it."


def _uncertain(run_state: RunState) -> str:
    return (
        f"It is unknown whether the service accepted order {run_state.order_id}: a task may exist and be charged. "
        f"{NOT_AUTOMATIC}"
    )


def _message(error: BaseException, run_state: RunState) -> str:
    if isinstance(error, errors.WaitTimeoutError):
        failed = f"; the last poll failed: {run_state.last_poll_error}" if run_state.last_poll_error else ""
        if error.task is None:
            return f"the wait timed out: the state of task {error.task_id} is unknown{failed}"
        is_running = not failed and error.task.status in ("queued", "running")
        now = "is still running at the service and is charged" if is_running else "may still be running"
        return f"the wait timed out: task {error.task_id} (last state {error.task.status}{failed}) {now}"
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

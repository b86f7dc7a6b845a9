"""What a person is told when a run does not end well: pure, from the journey and the error."""

import shlex
from collections.abc import Sequence
from enum import IntEnum

from attrs import field, frozen

from vidgen_async.cli.journey import Fate, Journey, Stage
from vidgen_async.errors import (
    ConfigurationError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    NotSentError,
    OrderConflictError,
    ReceiptNotStoredError,
    RejectedError,
    ServiceError,
    TaskFailedError,
    UncertainCreateError,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.orders import WHAT_TO_DO


class Exit(IntEnum):
    """The exit codes; for a create they answer the first question, did it arrive?"""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_SENT = 3
    REFUSED = 4
    UNCERTAIN = 5
    TIMEOUT = 6
    DOWNLOAD = 7


EXIT_CODES = """\b
Exit codes:
  0    done
  1    the task failed, or another error
  2    usage, configuration or an invalid request; nothing was ordered
  3    not sent: proven that nothing was ordered; run it again
  4    refused by the service: nothing was made or charged
  5    uncertain: the order may have arrived and be charged; look first
  6    the wait took too long; the task still runs and is charged
  7    the video was not saved; the task is completed and charged
  130  interrupted (Ctrl-C); 143 terminated (SIGTERM)"""

#: The first that fits.
_CODES: Sequence[tuple[type[Exception], Exit]] = (
    (UncertainCreateError, Exit.UNCERTAIN),
    (NotSentError, Exit.NOT_SENT),
    (RejectedError, Exit.REFUSED),
    (OrderConflictError, Exit.USAGE),
    (ConfigurationError, Exit.USAGE),
    (InvalidRequestError, Exit.USAGE),
    (ReceiptNotStoredError, Exit.FAILED),
    (JournalError, Exit.NOT_SENT),
    (TaskFailedError, Exit.FAILED),
    (WaitTimeoutError, Exit.TIMEOUT),
)

LOOK_FIRST = (
    "Look at the account before you run this again: a second run is a second order, and may be charged a second time."
)
#: What the SDK advises a program to call, as advice to a person.
_IN_OUR_WORDS = {
    WHAT_TO_DO: LOOK_FIRST,
    "Calling again with the same order id is safe": "Running this again is safe",
    "Calling again is safe": "Running this again is safe",
}
SANDBOX_ENDED = "That was the sandbox, which ends with this command, and its tasks with it: nothing was charged."


@frozen
class Report:
    """One paragraph, and the commands with which to go on."""

    text: str
    commands: tuple[str, ...] = field(default=())


def exit_code(error: BaseException, stage: Stage) -> Exit:
    """The documented exit code of what ended the run at this stage."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if not isinstance(error, VidgenError):
        return Exit.FAILED
    if stage is Stage.CHECK:
        return Exit.USAGE
    if stage.is_before_create:
        is_refusal = isinstance(error, ServiceError) and 400 <= error.status < 500
        return Exit.REFUSED if is_refusal else Exit.NOT_SENT
    return Exit.DOWNLOAD if stage is Stage.DOWNLOAD else Exit.FAILED


def error_report(error: BaseException, journey: Journey) -> Report:
    """What an error means for the person who ran the command."""
    text = _sentence(_message(error))
    if journey.is_sandbox:
        return Report(text if journey.fate is Fate.NOTHING else f"{text} {SANDBOX_ENDED}")
    if journey.fate is Fate.TASK:
        is_over = journey.stage is Stage.CHECK or isinstance(error, TaskFailedError | NotFoundError)
        return Report(text) if is_over else Report(f"{text} To go on:", resume_commands(journey))
    if journey.fate is Fate.UNCERTAIN:
        known = () if isinstance(error, UncertainCreateError) else (_uncertain(journey), LOOK_FIRST)
        return Report(" ".join((text, *known)), _found_commands(journey))
    if journey.stage.is_before_create and journey.stage is not Stage.CHECK:
        return Report(f"{text} Nothing was ordered.")
    return Report(text)


def interrupt_report(journey: Journey, how: str) -> Report:
    """``how`` is Interrupted or Terminated: at which stage, what goes on and is charged, and how to resume."""
    text = f"{how} while {journey.stage}."
    if journey.fate is Fate.NOTHING:
        return Report(f"{text} Nothing was ordered or charged.")
    if journey.is_sandbox:
        return Report(f"{text} {SANDBOX_ENDED}")
    if journey.fate is Fate.UNCERTAIN:
        return Report(f"{text} {_uncertain(journey)} {LOOK_FIRST}", _found_commands(journey))
    return Report(f"{text} {_standing(journey)} To go on:", resume_commands(journey))


def resume_commands(journey: Journey) -> tuple[str, ...]:
    """The command that takes up the journey's task."""
    return (_wait_command(journey.task_id or "TASK_ID", journey),)


def _found_commands(journey: Journey) -> tuple[str, ...]:
    return (f"{_wait_command('TASK_ID', journey)}   # if the account shows its task",)


def _wait_command(task_id: str, journey: Journey) -> str:
    output = () if journey.output is None else ("-o", journey.output)
    return shlex.join(("vidgen", "wait", task_id, *output, *journey.options))


def _standing(journey: Journey) -> str:
    if journey.status == "completed":
        return f"Task {journey.task_id} is completed and charged; its video stays at the service for now."
    if journey.status == "failed":
        return f"Task {journey.task_id} failed; check the refund in the credit ledger."
    return f"Task {journey.task_id} still runs at the service and is charged."


def _uncertain(journey: Journey) -> str:
    return (
        f"Nobody knows whether the service took order {journey.order_id}: a task may exist and be charged. "
        "It was not sent again."
    )


def _message(error: BaseException) -> str:
    if isinstance(error, WaitTimeoutError):
        seen = "it was not seen yet" if error.task is None else f"last seen {error.task.status}"
        return f"the wait took too long: task {error.task_id} ({seen}) still runs at the service and is charged"
    if isinstance(error, TaskFailedError):
        return f"the task failed: {error.message}"
    if isinstance(error, VidgenError):
        text = error.message
        for theirs, ours in _IN_OUR_WORDS.items():
            text = text.replace(theirs, ours)
        return text
    return (
        f"unexpected {type(error).__name__}: {error or 'no more is known'}. "
        "That is a fault of vidgen itself; with VIDGEN_DEBUG=1 it shows where"
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return text + ("" if text.endswith((".", "!", "?")) else ".")

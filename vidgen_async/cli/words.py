"""What a person is told when a run does not end well: pure, from the journey and the error."""

import shlex
from collections.abc import Sequence
from enum import IntEnum

from attrs import field, frozen

from vidgen_async.cli.documents import kind_of
from vidgen_async.cli.journey import Fate, Journey, Stage
from vidgen_async.errors import (
    AuthenticationError,
    ConfigurationError,
    CreateError,
    InsufficientCreditsError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    NotReadyError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    RateLimitError,
    ReceiptNotStoredError,
    RejectedError,
    ServiceError,
    TaskFailedError,
    UncertainCreateError,
    VidgenError,
    WaitTimeoutError,
)


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


class TasksFailedError(VidgenError):
    """Of several tasks, some did not end well; each was told about before. ``code`` is what the run ends with."""

    def __init__(self, message: str = "", *, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


#: The first that fits.
_CODES: Sequence[tuple[type[Exception], Exit]] = (
    (UncertainCreateError, Exit.UNCERTAIN),
    (NotSentError, Exit.NOT_SENT),
    (RejectedError, Exit.REFUSED),
    (OrderConflictError, Exit.USAGE),
    (OrderStateError, Exit.USAGE),
    (ConfigurationError, Exit.USAGE),
    (InvalidRequestError, Exit.USAGE),
    (ReceiptNotStoredError, Exit.FAILED),
    (JournalError, Exit.NOT_SENT),
    (TaskFailedError, Exit.FAILED),
    (WaitTimeoutError, Exit.TIMEOUT),
    (NotReadyError, Exit.FAILED),
)

LOOK_FIRST = (
    "Look at the account before you run this again: a second run is a second order, and may be charged a second time."
)
DECIDE = "Look at the account, then decide; each decision goes on record:"
CHECK_THE_KEY = "Check VIDGEN_API_KEY: it must hold the complete key, not the prefix that a key list shows."
SANDBOX_ENDED = "That was the sandbox, which ends with this command, and its tasks with it: nothing was charged."


@frozen
class Report:
    """One paragraph, and the commands with which to go on; for machines also what it is about."""

    text: str
    commands: tuple[str, ...] = field(default=())
    kind: str = field(default="error", kw_only=True)
    order_id: str | None = field(default=None, kw_only=True)
    task_id: str | None = field(default=None, kw_only=True)


def exit_code(error: BaseException, stage: Stage) -> Exit:
    """The documented exit code of what ended the run at this stage."""
    if isinstance(error, TasksFailedError):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if not isinstance(error, VidgenError):
        return Exit.FAILED
    if stage is Stage.CHECK:
        return Exit.USAGE
    is_refusal = isinstance(error, ServiceError) and 400 <= error.status < 500
    if stage.is_before_create:
        return Exit.REFUSED if is_refusal else Exit.NOT_SENT
    if stage in (Stage.LOOK, Stage.RECORD) and isinstance(error, AuthenticationError):
        return Exit.REFUSED
    return Exit.DOWNLOAD if stage is Stage.DOWNLOAD and not isinstance(error, NotFoundError) else Exit.FAILED


def error_report(error: BaseException, journey: Journey) -> Report:
    """What an error means for the person who ran the command."""
    text, commands = _explained(error, journey)
    return Report(
        text,
        commands,
        kind=kind_of(error) if isinstance(error, VidgenError) else "unexpected",
        order_id=journey.order_id or getattr(error, "order_id", None) or None,
        task_id=journey.task_id or getattr(error, "task_id", None) or None,
    )


def interrupt_report(journey: Journey, how: str) -> Report:
    """``how`` is Interrupted or Terminated: at which stage, what goes on and is charged, and how to resume."""
    text, commands = _interrupted(journey)
    return Report(
        f"{how} while {journey.stage}. {text}",
        commands,
        kind=how.lower(),
        order_id=journey.order_id,
        task_id=journey.task_id,
    )


def resume_commands(journey: Journey) -> tuple[str, ...]:
    """The command that takes up the journey's task: by its order where that is on record."""
    if journey.is_lasting and journey.order_id is not None and journey.output is not None:
        return (_resume_command(journey),)
    return (_wait_command(journey.task_id or "TASK_ID", journey),)


def _explained(error: BaseException, journey: Journey) -> tuple[str, tuple[str, ...]]:
    text = " ".join((_sentence(_message(error)), *_our_advice(error, journey)))
    if journey.is_sandbox:
        return (text if journey.fate is Fate.NOTHING else f"{text} {SANDBOX_ENDED}"), ()
    if journey.fate is Fate.TASK:
        is_over = journey.stage is Stage.CHECK or isinstance(error, TaskFailedError | NotFoundError)
        return (text, ()) if is_over else (f"{text} To go on:", resume_commands(journey))
    if journey.fate is Fate.UNCERTAIN:
        known = () if isinstance(error, UncertainCreateError) else (_uncertain(journey),)
        advice, commands = _decisions(journey, len(error.attempts) if isinstance(error, CreateError) else 0)
        return " ".join((text, *known, advice)), commands
    if journey.stage is Stage.CREATE and journey.is_lasting and _may_go_again(error):
        return f"{text} To send it after all:", (_resume_command(journey),)
    if isinstance(error, OrderConflictError) and journey.is_lasting:
        return f"{text} To go on with the order on record:", (_resume_command(journey),)
    if journey.stage.is_before_create and journey.stage is not Stage.CHECK:
        return f"{text} Nothing was ordered.", ()
    return text, ()


def _interrupted(journey: Journey) -> tuple[str, tuple[str, ...]]:
    if journey.stage is Stage.WATCH:
        return "The tasks go on at the service, and are charged.", ()
    if journey.fate is Fate.NOTHING:
        text = "Nothing was ordered or charged."
        if journey.stage is Stage.CREATE and journey.is_lasting and not journey.is_sandbox:
            return f"{text} The order is on record. To send it after all:", (_resume_command(journey),)
        return text, ()
    if journey.is_sandbox:
        return SANDBOX_ENDED, ()
    if journey.fate is Fate.UNCERTAIN:
        advice, commands = _decisions(journey, 0)
        return f"{_uncertain(journey)} {advice}", commands
    return f"{_standing(journey)} To go on:", resume_commands(journey)


def _may_go_again(error: BaseException) -> bool:
    """Whether the very same order can fare better another time."""
    kinds = (NotSentError, InsufficientCreditsError, RateLimitError, AuthenticationError)
    return isinstance(error, CreateError) and isinstance(error, kinds)


def _our_advice(error: BaseException, journey: Journey) -> tuple[str, ...]:
    """What the SDK advises a program to call, as advice to a person."""
    if isinstance(error, AuthenticationError) and error.source == "service key":
        return (CHECK_THE_KEY,)
    if isinstance(error, NotSentError):
        return ("Running this again is safe.",)
    if isinstance(error, ReceiptNotStoredError) and journey.order_id is not None:
        command = shlex.join(("vidgen", "orders", "adopt", journey.order_id, error.task_id, *journey.connection))
        return (f"Keep the task id, and put it on record: {command}",)
    return ()


def _decisions(journey: Journey, attempts: int) -> tuple[str, tuple[str, ...]]:
    """What a person can do about an uncertain order."""
    if not journey.is_lasting or journey.order_id is None:
        return LOOK_FIRST, (f"{_wait_command('TASK_ID', journey)}   # if the account shows its task",)

    def command(verb: str, *arguments: str) -> str:
        return shlex.join(("vidgen", "orders", verb, str(journey.order_id), *arguments, *journey.connection))

    last = str(attempts or 1)
    return DECIDE, (
        f"{command('show')}   # what is known; the number of its last attempt",
        f"{command('adopt', 'TASK_ID')}   # the account shows its task",
        f"{_resume_command(journey)}   # then: go on with that task",
        f"{command('abandon', '--reason', 'WHY')}   # given up; it may still be charged",
        f"{command('resend', '--expect-attempt', last, '--reason', 'WHY')}   # once more; it may be charged twice",
    )


def _resume_command(journey: Journey) -> str:
    order_id = str(journey.order_id)
    if journey.output is None:
        return shlex.join(("vidgen", "orders", "resume", order_id, *journey.connection))
    return shlex.join(("vidgen", "generate", "--resume", order_id, "-o", journey.output, *journey.options))


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
        return error.summary or error.message or kind_of(error).replace("_", " ")
    if isinstance(error, BrokenPipeError):
        return "nobody reads the output any more"
    return (
        f"unexpected {type(error).__name__}: {error or 'no more is known'}. "
        "That is a fault of vidgen itself; with VIDGEN_DEBUG=1 it shows where"
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return text + ("" if text.endswith((".", "!", "?")) else ".")

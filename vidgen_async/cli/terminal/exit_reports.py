"""What a person is told when a run does not end well: pure, from the journey and the error."""

from collections.abc import Sequence
from enum import IntEnum

from attrs import evolve, field, frozen

from vidgen_async.cli.next_commands import command, resume_command, wait_command, watch_command
from vidgen_async.cli.run_state import Fate, Journey, Stage
from vidgen_async.cli.terminal.json_documents import kind_of
from vidgen_async.cli.terminal.standard_streams import OutputError
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
    RejectedBadRequestError,
    RejectedError,
    ServiceError,
    TaskFailedError,
    UncertainCreateError,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.types.resources import KNOWN_STATES


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
  3    not sent: proven that nothing was ordered; it says how to go on
  4    refused by the service: nothing was made or charged
  5    uncertain: the order may have arrived and be charged; look first
  6    the wait took too long; the task was not seen to end
  7    the video was not saved; the task is completed and charged
  130  interrupted (Ctrl-C); 129 hangup, 131 quit, 143 terminated"""


class TasksFailedError(VidgenError):
    """Of several tasks, some did not end well; each was told about before. ``code`` is what the run ends with."""

    def __init__(self, message: str = "", *, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


#: The first that fits.
_CODES: Sequence[tuple[type[Exception], Exit]] = (
    (OutputError, Exit.FAILED),
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

#: A command to go on with names so many tasks at most.
MOST_PASTED = 10

LOOK_FIRST = (
    "Look into the service's own console before you run this again: a second run is a second order, and may be charged "
    "a second time."
)
DECIDE = "Look into the service's own console, then decide; each decision goes on record:"
ANOTHER_ORDER = "Running the same command again without --order-id would be another order."
CHECK_THE_KEY = "Check VIDGEN_API_KEY: it must hold the complete key, not the prefix that a key list shows."
SANDBOX_ENDED = "That was the sandbox, which ends with this command, and its tasks with it: nothing was charged."


@frozen
class Report:
    """One paragraph, and the commands with which to go on; for machines also what it is about."""

    text: str
    commands: tuple[str, ...] = field(default=())
    lead: str = field(default="", kw_only=True)
    """What leads over to the commands, for people."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """What each of the commands is for; empty where that is plain."""
    kind: str = field(default="error", kw_only=True)
    order_id: str | None = field(default=None, kw_only=True)
    task_id: str | None = field(default=None, kw_only=True)

    def lines(self) -> tuple[str, tuple[tuple[str, bool], ...]]:
        """The paragraph, and the lines below it, each with whether it is a command: one is there to be pasted, so no
        words are on its line."""
        below: list[tuple[str, bool]] = []
        for n, line in enumerate(self.commands):
            below += [(f"{self.notes[n]}:", False)] if self.notes else []
            below.append((line, True))
        return f"{self.text} {self.lead}".rstrip(), tuple(below)


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
    return evolve(
        _explained(error, journey),
        kind=kind_of(error) if isinstance(error, VidgenError) else "unexpected",
        order_id=journey.order_id or getattr(error, "order_id", None) or None,
        task_id=journey.task_id or getattr(error, "task_id", None) or None,
    )


def interrupt_report(journey: Journey, how: str) -> Report:
    """``how``: Interrupted, Terminated, Hangup or Quit; at which stage, what goes on and is charged, how to resume."""
    report = _interrupted(journey)
    return evolve(
        report,
        text=f"{how} while {journey.stage}. {report.text}",
        kind=how.lower(),
        order_id=journey.order_id,
        task_id=journey.task_id,
    )


def resume_commands(journey: Journey) -> tuple[str, ...]:
    """The command that takes up the journey's task: by its order where that is on record."""
    if journey.is_lasting and journey.order_id is not None and journey.output is not None:
        return (resume_command(journey),)
    return (wait_command(journey.task_id or "TASK_ID", journey),)


def _explained(error: BaseException, journey: Journey) -> Report:
    text = " ".join((_sentence(_message(error, journey)), *_our_advice(error, journey)))
    if journey.is_sandbox:
        return Report(text if journey.fate is Fate.NOTHING else f"{text} {SANDBOX_ENDED}")
    if journey.fate is Fate.TASK:
        is_over = journey.stage is Stage.CHECK or isinstance(error, TaskFailedError | NotFoundError)
        return Report(text) if is_over else Report(text, resume_commands(journey), lead="To go on:")
    if journey.fate is Fate.UNCERTAIN:
        known = () if isinstance(error, UncertainCreateError) else (_uncertain(journey),)
        attempts = len(error.attempts) if isinstance(error, CreateError) else 0
        return _decisions(" ".join((text, *known)), journey, attempts)
    if journey.stage is Stage.CREATE and journey.is_lasting and _may_go_again(error):
        return Report(text, (resume_command(journey),), lead="To send it after all:")
    if isinstance(error, OrderConflictError) and journey.is_lasting:
        return Report(text, (resume_command(journey),), lead="To go on with the order on record:")
    if journey.stage.is_before_create and journey.stage is not Stage.CHECK:
        return Report(f"{text} Nothing was ordered.")
    return Report(text)


def _interrupted(journey: Journey) -> Report:
    if journey.stage is Stage.WATCH:
        return _unwatched(journey)
    if journey.fate is Fate.NOTHING:
        text = "Nothing was ordered or charged."
        if journey.stage is Stage.CREATE and journey.is_lasting and not journey.is_sandbox:
            text += " The order is on record."
            return Report(text, (resume_command(journey),), lead="To send it after all:")
        return Report(text)
    if journey.is_sandbox:
        return Report(SANDBOX_ENDED)
    if journey.fate is Fate.UNCERTAIN:
        return _decisions(_uncertain(journey), journey, 0)
    return Report(_standing(journey), resume_commands(journey), lead="To go on:")


def _unwatched(journey: Journey) -> Report:
    watched = journey.watched
    if watched is None:
        return Report("An interruption does not stop the tasks.")
    going = watched.total - watched.over
    if not going:
        return Report("All tasks were over.")
    if watched.total == 1:
        text = "The task was not seen to end; an interruption does not stop it."
    else:
        which = f"{going:,} of the {watched.total:,} tasks" if watched.over else f"The {watched.total:,} tasks"
        was, them = ("was", "it") if going == 1 else ("were", "them")
        text = f"{which} {was} not seen to end; an interruption does not stop {them}."
    if len(watched.unended_ids) > MOST_PASTED:
        return Report(f"{text} The same command goes on watching.")
    return Report(text, (watch_command(watched.unended_ids, journey),), lead="To go on watching:")


def _may_go_again(error: BaseException) -> bool:
    """Whether the very same order can fare better another time."""
    kinds = (NotSentError, InsufficientCreditsError, RateLimitError, AuthenticationError)
    return isinstance(error, CreateError) and isinstance(error, kinds)


def _our_advice(error: BaseException, journey: Journey) -> tuple[str, ...]:
    """What the SDK advises a program to call, as advice to a person."""
    if isinstance(error, AuthenticationError) and error.source == "service key":
        return (CHECK_THE_KEY,)
    if isinstance(error, NotSentError):
        is_another = journey.is_lasting and not journey.is_named
        return (ANOTHER_ORDER if is_another else "Running this again is safe.",)
    if isinstance(error, RejectedBadRequestError) and journey.is_lasting:
        return ("A mended request needs another --order-id.",)
    if isinstance(error, ReceiptNotStoredError) and journey.order_id is not None:
        adopt = command("orders", "adopt", arguments=(journey.order_id, error.task_id), options=journey.connection)
        return (f"Keep the task id, and put it on record: {adopt}",)
    return ()


def _decisions(text: str, journey: Journey, attempts: int) -> Report:
    """What a person can do about an uncertain order."""
    if not journey.is_lasting or journey.order_id is None:
        note = "If the console shows its task"
        return Report(f"{text} {LOOK_FIRST}", (wait_command("TASK_ID", journey),), notes=(note,))
    order_id = journey.order_id

    def decision(verb: str, *options: str, task: tuple[str, ...] = ()) -> str:
        return command("orders", verb, arguments=(order_id, *task), options=(*options, *journey.connection))

    adopt = ("If the console shows its task", decision("adopt", task=("TASK_ID",)))
    if journey.is_abandoned:
        return Report(text, (adopt[1],), notes=(adopt[0],))
    last = str(attempts or len(journey.attempts) or 1)
    resume = resume_command(journey)
    until, is_sending = journey.sending_until, _is_being_sent(journey)
    from_when = "" if not is_sending else f"From {until:%H:%M:%S} UTC on, " if until else "When that time is over, "
    steps = [
        ("What is known, and the number of the last attempt", decision("show")),
        adopt,
        ("Then go on with that task", resume),
        (
            _capital(f"{from_when}to give it up; it may still be charged"),
            decision("abandon", "--reason", "WHY"),
        ),
        (
            _capital(f"{from_when}to send it once more; it may be charged twice"),
            decision("resend", "--expect-attempt", last, "--reason", "WHY"),
        ),
    ]
    lead = DECIDE
    if is_sending:
        when = f"Until {until:%H:%M:%S} UTC" if until else "Until the time limit of the create has passed,"
        text = f"{text} {when} it counts as being sent."
        lead = "Go on with the first of these, which waits for what becomes of it; the others are a person's decisions:"
        steps = [("Wait for what becomes of it, and go on", resume), *steps[:2], *steps[3:]]
    notes, commands = zip(*steps, strict=True)
    return Report(text, commands, lead=lead, notes=notes)


def _is_being_sent(journey: Journey) -> bool:
    """Whether the order is on record as being sent: so it is left by a run that did not wait for the answer."""
    is_under_way = journey.creating is not None and not journey.creating.done()
    return journey.sending_until is not None or (journey.stage is Stage.CREATE and is_under_way)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _standing(journey: Journey) -> str:
    if journey.status == "completed":
        return f"Task {journey.task_id} is completed and charged; its video stays at the service for now."
    if journey.status == "failed":
        return f"Task {journey.task_id} failed; check the refund in the credit ledger."
    if journey.status in KNOWN_STATES:
        return f"Task {journey.task_id} still runs at the service and is charged."
    known = "was accepted and is charged" if journey.status is None and journey.order_id else "was not seen to end"
    return f"Task {journey.task_id} {known}; an interruption does not stop it."


def _uncertain(journey: Journey) -> str:
    return (
        f"Nobody knows whether the service took order {journey.order_id}: a task may exist and be charged. "
        "It was not sent again."
    )


def _message(error: BaseException, journey: Journey) -> str:
    if isinstance(error, WaitTimeoutError):
        trouble = f"the last look failed with {journey.trouble}" if journey.trouble else ""
        if error.task is None:
            return f"the wait took too long: task {error.task_id} was never seen{trouble and f': {trouble}'}"
        seen = f"last seen {error.task.status}{trouble and f'; {trouble}'}"
        now = "still runs at the service and is charged"
        if trouble or error.task.status not in KNOWN_STATES:
            now = "was not seen to end"
        return f"the wait took too long: task {error.task_id} ({seen}) {now}"
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

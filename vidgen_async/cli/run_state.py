"""The state of one run of a command, and the exit codes."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from attrs import define, field

from vidgen_async import errors
from vidgen_async.cli.process import OutputError
from vidgen_async.cli.settings import Settings
from vidgen_async.types import Attempt, AttemptOutcome, Order, OrderState

if TYPE_CHECKING:
    import asyncio

    from vidgen_async import Receipt

#: How long the service remembers a key for sure; a later resend needs --accept-duplicate-risk.
KEY_LIFETIME = timedelta(hours=1)


class Stage(StrEnum):
    """What the run is doing, as it reads after "while"."""

    CHECK = "checking the request"
    CATALOG = "reading the catalog"
    UPLOAD = "uploading the images"
    CREATE = "sending the order"
    WAIT = "waiting for the task"
    WATCH = "watching the tasks"
    BATCH = "running the batch"
    DOWNLOAD = "downloading the video"
    QUERY = "querying the service"
    JOURNAL = "reading the journal"
    SERVE = "serving"


#: Nothing was ordered yet.
BEFORE_ORDER = (Stage.CATALOG, Stage.UPLOAD)


@define(eq=False, kw_only=True)
class RunState:
    """What has happened in one run of a command; reports of its end are made from it."""

    settings: Settings = field(factory=Settings)
    stage: Stage = Stage.CHECK
    is_uncertain: bool = False
    """The order may have arrived, and be charged."""
    order_id: str | None = None
    task_id: str | None = None
    status: str | None = None
    output: str | None = None
    more_options: tuple[str, ...] = ()
    """The options that a resuming command has to repeat, beside those of the settings."""
    host: str = ""
    """The host of the service."""
    host_settings: str = ""
    """Where the base URL and the proxy, if any, were set."""
    is_durable: bool = False
    """The order is in a journal that outlives this run."""
    has_no_task: bool = False
    """The order was named in place of its task, and has none."""
    has_given_order_id: bool = True
    """The user gave the order id, so the same command again is the same order."""
    is_abandoned: bool = False
    journal_place: str = "in the journal"
    """Which journal and account orders are looked up in."""
    attempts: Sequence[Attempt] = ()
    """The known attempts to send the order."""
    shows_failed_polls: bool = False
    """The live view counts failed polls, so they are not reported one by one."""
    creating: "asyncio.Task[Receipt] | None" = None
    was_uncertain: bool = False
    stop: Callable[[], None] | None = None
    """Stops the batch: the first signal calls it, where it would otherwise cancel the command."""
    explain: Callable[[str], Any] | None = None
    """Makes the report of a command about several tasks; its text is empty after an interruption."""

    def begin_create(self, creating: "asyncio.Task[Receipt]") -> None:
        """Record the dangerous state first: only certainty changes it."""
        self.stage, self.creating, self.was_uncertain = Stage.CREATE, creating, self.is_uncertain
        self.is_uncertain = True

    @property
    def options(self) -> tuple[str, ...]:
        """The options that a command for the same tasks has to repeat, with that of the file."""
        output = () if self.output is None else ("-o", self.output)
        return (*output, *self.settings.options, *self.more_options)

    @property
    def sending_until(self) -> datetime | None:
        """Until when the order counts as being sent and cannot be decided; None if it is not known to be."""
        return max((one.deadline_at for one in self.attempts if one.outcome is AttemptOutcome.SENDING), default=None)

    @property
    def is_key_old(self) -> bool:
        """Whether the service may have forgotten the order's key."""
        return any(datetime.now(UTC) - one.sent_at > KEY_LIFETIME for one in self.attempts if one.kind != "adopt")

    @property
    def is_creating(self) -> bool:
        """Whether the create is still under way."""
        return self.stage is Stage.CREATE and self.creating is not None and not self.creating.done()

    def note_order(self, order: Order) -> None:
        """Take over what the journal holds about the order, before this run changes it."""
        self.attempts, self.is_abandoned = order.attempts, order.state is OrderState.ABANDONED
        if order.receipt is not None:
            self.task_id = order.receipt.task_id
        self.is_uncertain = order.state in (OrderState.SENDING, OrderState.UNCERTAIN, OrderState.ABANDONED)

    def settle_create(self) -> None:
        """Record the outcome of the create, if it has one, even if nothing awaits it any more."""
        if self.creating is None or not self.creating.done() or self.creating.cancelled():
            return
        match self.creating.exception():
            case None:
                self.task_id = self.creating.result().task_id
            case errors.ReceiptNotStoredError(task_id=task_id):
                self.task_id, self.is_durable = task_id, False
            case errors.BudgetExceededError():  # an earlier attempt may have created a task
                self.is_uncertain = self.was_uncertain
            case errors.NotSentError() | errors.RejectedError():  # the order created nothing
                self.is_uncertain = False
            case errors.UncertainCreateError(attempts=attempts):
                self.attempts = attempts or self.attempts
            case errors.VidgenError():  # this run created nothing
                self.is_uncertain = self.was_uncertain


class Exit(IntEnum):
    """The exit codes. For a create they answer the first question: did it arrive?"""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_SENT = 3
    REFUSED = 4
    UNCERTAIN = 5
    TIMEOUT = 6
    DOWNLOAD = 7


#: What the exit codes mean, for the help.
EXIT_CODES = (
    ("0", "done"),
    ("1", "the task failed, or another error"),
    ("2", "usage, configuration or an invalid request; nothing was ordered"),
    ("3", "not sent: nothing was sent or ordered, or the journal failed"),
    ("4", "rejected by the service: nothing was created or charged"),
    ("5", "uncertain: the order may have arrived and be charged; check first"),
    ("6", "the wait timed out; the task may still be running"),
    ("7", "the video was not saved; the task is completed and charged"),
    ("130", "interrupted (Ctrl-C); 129 hangup, 131 quit, 143 terminated"),
)


class TasksFailedError(errors.VidgenError):
    """Some of several tasks failed; each was reported before."""

    code: Exit = Exit.FAILED


def refuse_failed(failed: int, total: int, codes: Collection[Exit]) -> None:
    """Raise TasksFailedError if some of the tasks failed, with these exit codes."""
    if failed:
        code = next(iter(codes)) if len(set(codes)) == 1 else Exit.FAILED
        raise TasksFailedError(f"{failed:,} of {total:,} tasks did not complete", code=code)


#: The first match counts.
_CODES: Sequence[tuple[type[Exception], Exit]] = (
    (OutputError, Exit.FAILED),
    (errors.UncertainCreateError, Exit.UNCERTAIN),
    (errors.NotSentError, Exit.NOT_SENT),
    (errors.RejectedError, Exit.REFUSED),
    (errors.OrderConflictError, Exit.USAGE),
    (errors.OrderStateError, Exit.USAGE),
    (errors.ConfigurationError, Exit.USAGE),
    (errors.InvalidRequestError, Exit.USAGE),
    (errors.ReceiptNotStoredError, Exit.FAILED),
    (errors.JournalError, Exit.NOT_SENT),
    (errors.TaskFailedError, Exit.FAILED),
    (errors.WaitTimeoutError, Exit.TIMEOUT),
    (errors.NotReadyError, Exit.FAILED),
)


def exit_code(error: BaseException, stage: Stage) -> Exit:
    """The documented exit code for an error at this stage."""
    if isinstance(error, TasksFailedError):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if not isinstance(error, errors.VidgenError):
        return Exit.FAILED
    # A batch raises only that its directory cannot be used.
    if stage in (Stage.CHECK, Stage.BATCH):
        return Exit.USAGE
    is_refusal = isinstance(error, errors.ServiceError) and 400 <= error.status < 500
    if stage in BEFORE_ORDER:
        return Exit.REFUSED if is_refusal else Exit.NOT_SENT
    if stage in (Stage.QUERY, Stage.JOURNAL) and isinstance(error, errors.AuthenticationError):
        return Exit.REFUSED
    return Exit.DOWNLOAD if stage is Stage.DOWNLOAD and not isinstance(error, errors.NotFoundError) else Exit.FAILED

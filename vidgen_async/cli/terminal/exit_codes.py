"""The exit codes, how help describes them, and which error has which."""

from collections.abc import Collection, Sequence
from enum import IntEnum

from vidgen_async import errors
from vidgen_async.cli.process import OutputError
from vidgen_async.cli.run_state import Stage


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
    """Some of several tasks failed; each was reported before. ``code`` is the exit code of the run."""

    def __init__(self, message: str = "", *, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def refuse_failed(failed: int, total: int, codes: Collection[Exit]) -> None:
    """Raise TasksFailedError if some of the tasks failed, with these exit codes."""
    if failed:
        code = next(iter(codes)) if len(set(codes)) == 1 else Exit.FAILED
        raise TasksFailedError(f"{failed:,} of {total:,} tasks did not complete", code=code)


class NoTaskError(errors.OrderStateError):
    """An order that was named in place of its task has none."""


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
    if stage is Stage.CHECK:
        return Exit.USAGE
    is_refusal = isinstance(error, errors.ServiceError) and 400 <= error.status < 500
    if stage.is_before_create:
        return Exit.REFUSED if is_refusal else Exit.NOT_SENT
    if stage in (Stage.QUERY, Stage.JOURNAL) and isinstance(error, errors.AuthenticationError):
        return Exit.REFUSED
    return Exit.DOWNLOAD if stage is Stage.DOWNLOAD and not isinstance(error, errors.NotFoundError) else Exit.FAILED

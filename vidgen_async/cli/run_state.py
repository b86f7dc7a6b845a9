"""The state of one run of a command: all that the report of an error or an interruption needs."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING

from attrs import define, frozen

from vidgen_async import errors
from vidgen_async.orders import KEY_LIFETIME
from vidgen_async.orders.error_messages import is_key_old
from vidgen_async.types.orders import Attempt, Order, OrderState, sending_until

if TYPE_CHECKING:
    from vidgen_async.types.resources import Receipt


class Stage(StrEnum):
    """What the run is doing, as it reads after "while"."""

    CHECK = "checking the request"
    CATALOG = "reading the catalog"
    UPLOAD = "uploading the images"
    CREATE = "sending the order"
    WAIT = "waiting for the task"
    WATCH = "watching the tasks"
    DOWNLOAD = "downloading the video"
    QUERY = "querying the service"
    JOURNAL = "reading the journal"
    SERVE = "serving"

    @property
    def is_before_create(self) -> bool:
        return self in (Stage.CHECK, Stage.CATALOG, Stage.UPLOAD)


class Charge(Enum):
    """What is known about the charge."""

    NOTHING_ORDERED = auto()
    UNCERTAIN = auto()
    """The order may have arrived."""
    TASK_EXISTS = auto()


@frozen
class WatchResult:
    """How many of the watched tasks finished, the ids of the unfinished ones that --journal does not include, and the
    command that watches them."""

    finished: int
    total: int
    unfinished_ids: Sequence[str]
    command: str = "watch"


#: Outcomes of a create that prove that the order created nothing, and those that prove it for this run alone.
_NOTHING_CREATED = (errors.NotSentError, errors.RejectedError)
_NOTHING_CREATED_HERE = (
    errors.OrderConflictError,
    errors.OrderStateError,
    errors.InvalidRequestError,
    errors.JournalError,
    errors.ClientStateError,
)


@define(kw_only=True)
class RunState:
    """One run of a command."""

    stage: Stage = Stage.CHECK
    charge: Charge = Charge.NOTHING_ORDERED
    order_id: str | None = None
    task_id: str | None = None
    status: str | None = None
    output: str | None = None
    options: tuple[str, ...] = ()
    """The options that a resuming command has to repeat; the runner adds those of the connection."""
    connection: tuple[str, ...] = ()
    """Those of them that every command takes."""
    host: str = ""
    """The host of the service."""
    host_settings: str = ""
    """Where the base URL and the proxy, if any, were set."""
    is_sandbox: bool = False
    is_durable: bool = False
    """The order is in a journal that outlives this run."""
    has_given_order_id: bool = True
    """The user gave the order id, so the same command again is the same order."""
    is_abandoned: bool = False
    journal_place: str = "in the journal"
    """Which journal and account orders are looked up in."""
    attempts: Sequence[Attempt] = ()
    """The known attempts to send the order."""
    is_key_old: bool = False
    """The service may have forgotten the order's key, so that a resend needs --accept-duplicate-risk."""
    last_poll_error: str | None = None
    watch_result: WatchResult | None = None
    shows_failed_polls: bool = False
    """The live view counts failed polls, so they are not reported one by one."""
    creating: "asyncio.Task[Receipt] | None" = None
    charge_before: Charge = Charge.NOTHING_ORDERED

    def begin_create(self, creating: "asyncio.Task[Receipt]") -> None:
        """Record the dangerous state first: only certainty changes it."""
        self.stage, self.creating, self.charge_before = Stage.CREATE, creating, self.charge
        if self.charge is Charge.NOTHING_ORDERED:
            self.charge = Charge.UNCERTAIN

    @property
    def sending_until(self) -> datetime | None:
        """Until when the order counts as being sent and cannot be decided; None if it is not known to be."""
        return sending_until(self.attempts)

    @property
    def is_creating(self) -> bool:
        """Whether the create is still under way."""
        return self.stage is Stage.CREATE and self.creating is not None and not self.creating.done()

    def set_task(self, task_id: str) -> None:
        self.charge, self.task_id = Charge.TASK_EXISTS, task_id

    def load_order(self, order: Order) -> None:
        """Take over what the journal holds about the order, before this run changes it."""
        self._set_attempts(order.attempts)
        self.is_abandoned = order.state is OrderState.ABANDONED
        if order.receipt is not None:
            self.set_task(order.receipt.task_id)
        elif order.state in (OrderState.SENDING, OrderState.UNCERTAIN, OrderState.ABANDONED):
            self.charge = Charge.UNCERTAIN

    async def await_create(self) -> None:
        """Record the outcome of a create that closing the client settled; without an outcome it stays uncertain."""
        if self.creating is not None:
            await asyncio.wait({self.creating}, timeout=1.0)
            self.creating.cancel()
            self.settle_create()

    def settle_create(self) -> None:
        """Record the outcome of the create, if it has one, even if nothing awaits it any more."""
        if self.creating is None or not self.creating.done() or self.creating.cancelled():
            return
        error = self.creating.exception()
        if error is None:
            self.set_task(self.creating.result().task_id)
        elif isinstance(error, errors.ReceiptNotStoredError):
            self.set_task(error.task_id)
            self.is_durable = False
        elif isinstance(error, _NOTHING_CREATED):
            self.charge = Charge.NOTHING_ORDERED
        elif isinstance(error, _NOTHING_CREATED_HERE):
            self.charge = self.charge_before
        elif isinstance(error, errors.UncertainCreateError) and error.attempts:
            self._set_attempts(error.attempts)

    def _set_attempts(self, attempts: Sequence[Attempt]) -> None:
        self.attempts, self.is_key_old = attempts, is_key_old(attempts, datetime.now(UTC), KEY_LIFETIME)

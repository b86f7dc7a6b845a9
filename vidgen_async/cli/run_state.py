"""How far one run of a command has come: all that an interruption or an error must be able to say."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from enum import Enum, StrEnum, auto

from attrs import define, frozen

from vidgen_async.errors import (
    ClientStateError,
    InvalidRequestError,
    JournalError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    ReceiptNotStoredError,
    RejectedError,
    UncertainCreateError,
)
from vidgen_async.types.orders import Attempt, Order, OrderState, sending_until
from vidgen_async.types.resources import Receipt, VideoTask


class Stage(StrEnum):
    """What is being done, as it reads after "while"."""

    CHECK = "checking what was asked for"
    CATALOG = "reading the catalog"
    UPLOAD = "uploading the pictures"
    CREATE = "the order was being sent"
    WAIT = "waiting for the task"
    WATCH = "watching the tasks"
    DOWNLOAD = "downloading the video"
    LOOK = "asking the service"
    RECORD = "reading the orders on record"
    SERVE = "serving"

    @property
    def is_before_create(self) -> bool:
        return self in (Stage.CHECK, Stage.CATALOG, Stage.UPLOAD)


class Fate(Enum):
    """What is known about the money."""

    NOTHING = auto()
    """Nothing was ordered."""
    UNCERTAIN = auto()
    """The order may have arrived."""
    TASK = auto()
    """There is a task."""


@frozen
class Watched:
    """Tasks that were watched: how many of how many were seen to end, and which ids go on that no order stands for."""

    over: int
    total: int
    unended_ids: Sequence[str]


#: The ways in which a create ends that prove that the order made nothing, and those that prove it of this run alone.
_NOTHING_MADE = (NotSentError, RejectedError)
_NOTHING_MADE_HERE = (OrderConflictError, OrderStateError, InvalidRequestError, JournalError, ClientStateError)


@define(kw_only=True)
class Journey:
    """One run. ``options`` are those that a resuming command has to repeat, ``connection`` those of them that every
    command takes. ``is_lasting``: the order is on a record that outlives this run. ``is_named``: the order id was
    given, so the same command again is the same order. ``where``: which orders are looked among. ``attempts``: what is
    known of the order's sends. ``trouble``: what the last look at the task failed with. ``watched``: how
    far the tasks of a watch came. ``shows_trouble``: how many looks fail is on the screen."""

    stage: Stage = Stage.CHECK
    fate: Fate = Fate.NOTHING
    order_id: str | None = None
    task_id: str | None = None
    status: str | None = None
    output: str | None = None
    options: tuple[str, ...] = ()
    connection: tuple[str, ...] = ()
    is_sandbox: bool = False
    is_lasting: bool = False
    is_named: bool = True
    is_abandoned: bool = False
    where: str = "in the journal"
    attempts: Sequence[Attempt] = ()
    trouble: str | None = None
    watched: Watched | None = None
    shows_trouble: bool = False
    creating: "asyncio.Task[Receipt] | None" = None
    fate_before: Fate = Fate.NOTHING

    def begins_create(self, creating: "asyncio.Task[Receipt]") -> None:
        """The dangerous state first: from here on only certainty changes it."""
        self.stage, self.creating, self.fate_before = Stage.CREATE, creating, self.fate
        if self.fate is Fate.NOTHING:
            self.fate = Fate.UNCERTAIN

    @property
    def sending_until(self) -> datetime | None:
        """Until when the order counts as being sent, and nobody can decide about it; None: it does not, or not as far
        as is known."""
        return sending_until(self.attempts)

    def has_task(self, task_id: str) -> None:
        self.fate, self.task_id = Fate.TASK, task_id

    def stands(self, order: Order) -> None:
        """What is on record about the order before this run does anything to it."""
        self.attempts, self.is_abandoned = order.attempts, order.state is OrderState.ABANDONED
        if order.receipt is not None:
            self.has_task(order.receipt.task_id)
        elif order.state in (OrderState.SENDING, OrderState.UNCERTAIN, OrderState.ABANDONED):
            self.fate = Fate.UNCERTAIN

    def saw(self, task: VideoTask) -> None:
        self.status = task.status

    async def create_ended(self) -> None:
        """Learn the outcome that closing the client has settled; what has none by then stays uncertain."""
        if self.creating is not None:
            await asyncio.wait({self.creating}, timeout=1.0)
            self.creating.cancel()
            self.learn()

    def learn(self) -> None:
        """Take in what became of the create, also when nobody waited for it any more."""
        if self.creating is None or not self.creating.done() or self.creating.cancelled():
            return
        error = self.creating.exception()
        if error is None:
            self.has_task(self.creating.result().task_id)
        elif isinstance(error, ReceiptNotStoredError):
            self.has_task(error.task_id)
            self.is_lasting = False
        elif isinstance(error, _NOTHING_MADE):
            self.fate = Fate.NOTHING
        elif isinstance(error, _NOTHING_MADE_HERE):
            self.fate = self.fate_before
        elif isinstance(error, UncertainCreateError) and error.attempts:
            self.attempts = error.attempts

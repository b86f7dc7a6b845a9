"""What a batch reports: one outcome for each row."""

from pathlib import Path
from typing import Literal, TypeAlias

from attrs import field, frozen

from vidgen_async.errors import VidgenError
from vidgen_async.orders.error_messages import uncertain
from vidgen_async.redaction.messages import excerpt
from vidgen_async.types.orders import Order, OrderState
from vidgen_async.types.resources import failure_text
from vidgen_async.types.serialization import Serializable
from vidgen_async.user_code import describe

_LONGEST_FAILURE = 1000

BatchState: TypeAlias = Literal[
    "saved",
    "failed",
    "not_saved",
    "rejected",
    "not_sent",
    "uncertain",
    "abandoned",
    "withdrawn",
    "running",
]
"""What became of a row:

- ``saved``: the complete video is in its file.
- ``failed``: the task failed.
- ``not_saved``: the end of the task, or its video, could not be fetched or stored. The next run continues.
- ``rejected``: the service refused the order.
- ``not_sent``: nothing was sent, or it was refused with 429 only, since something failed before, or the batch had
  stopped its creates.
- ``uncertain``, ``abandoned``, ``withdrawn``: the state of the order; the first needs an operator's decision.
- ``running``: the batch was stopped before the task ended. The next run continues.
"""

PointsBasis: TypeAlias = Literal["charged", "charged, may be refunded", "nothing ordered", "unknown"]
"""How the points of a row are known: the service stated them for a completed task, or for a failed one; no task was
accepted; or nothing is known."""


@frozen(kw_only=True)
class BatchOutcome(Serializable):
    """What became of one row."""

    order_id: str
    """That of the row."""
    line: int
    """The line of the row in its manifest, or its number, from 1."""
    state: BatchState
    prompt: str = ""
    """Its beginning."""
    reason: str = ""
    """Why this run did something for the row: ``new``, ``rejected before``, ``failed before``, ``running``, ``file
    missing``, ``file incomplete``; empty if it did nothing."""
    ordered_as: str = ""
    """The id of the order: that of the row, followed by ``~2``, ``~3`` … where a failed one was ordered again."""
    task_id: str | None = None
    points: int | None = None
    points_basis: PointsBasis = "unknown"
    earlier_failed: int = 0
    """The number of earlier orders of the row whose tasks failed."""
    earlier_points: int = 0
    """The points of these tasks, as far as the service has stated them: charged, and perhaps refunded."""
    path: Path | None = None
    """The complete video."""
    failure: str = ""
    """Why there is no video, without secrets and without advice."""
    error: VidgenError | None = field(default=None, eq=False)
    """What was raised for the row in this run."""
    request_id: str | None = None
    """The service's own id of the request that ended the row, if there is one."""
    attempts: int = 0
    """The number of times that a create of the order may have been sent."""


@frozen(kw_only=True)
class BatchCheck(Serializable):
    """The result of the check of all rows, before anything is sent."""

    rows: int
    problems: tuple[str, ...] = ()
    """All of them, each with its line."""
    states: dict[str, int] = field(factory=dict, hash=False)
    """The number of rows without problems by the state of their orders: ``new``, ``queued``, ``sending``, ``running``,
    ``completed``, ``failed``, ``rejected``, ``uncertain``, ``abandoned``, ``withdrawn``."""
    faulty: int = 0
    """The number of rows with problems."""
    new_by_model: dict[str, int] = field(factory=dict, hash=False)
    """The number of the rows without problems that a run orders, by model: those that are new, queued, rejected unless
    with 400, and with ``retry_failed`` all that were rejected or failed."""
    task_seconds: float | None = None
    """How long a task takes, with its download: the median of the last completed ones in the journal; the longest one
    of the models and durations of the rows. None if there are none."""


def points_basis(state: BatchState, points: int | None) -> PointsBasis:
    """How the points of a row in this state are known."""
    if points is not None:
        return "charged, may be refunded" if state == "failed" else "charged"
    return "nothing ordered" if state in ("rejected", "not_sent", "withdrawn") else "unknown"


def earlier_text(outcome: BatchOutcome) -> str:
    """What earlier orders of the row have cost; empty without any."""
    failed, points = outcome.earlier_failed, outcome.earlier_points
    return f"earlier: {failed:,} failed, {points:,} points, may be refunded" if failed else ""


def failure_of(order: Order) -> str:
    """Why there is no video of an order that is only listed."""
    if order.state in (OrderState.UNCERTAIN, OrderState.ABANDONED):
        return text_of(uncertain(order))
    if order.closing is not None:
        return f"it was {order.closing.state}: {excerpt(order.closing.reason)}"
    if order.results:
        return failure_text(excerpt(order.results[-1].failure_reason or "", limit=_LONGEST_FAILURE))
    causes = [attempt.evidence.cause for attempt in order.attempts if attempt.evidence is not None]
    return excerpt(causes[-1] if causes else "", limit=_LONGEST_FAILURE)


def text_of(error: BaseException) -> str:
    """The failure that this error is, in one line."""
    return excerpt(error.summary, limit=_LONGEST_FAILURE) if isinstance(error, VidgenError) else describe(error)

"""Receipt by confirmation: the task of a create whose answer does not name it where it should (4.4).

Such an attempt is *uncertain*, with candidates for its task id as evidence. Each candidate is asked for (4.5, a read),
and one of them is the receipt if the service knows exactly that one and it can only have come of this attempt. Nothing
here can send a create, and a process that ends half way loses nothing: the attempt stays uncertain, with its
candidates.
"""

import json
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

from vidgen_async.clock import Clock
from vidgen_async.errors import CassetteError, NotFoundError
from vidgen_async.events import Event
from vidgen_async.journal.base import Journal
from vidgen_async.orders.error_messages import CLOCKS_APART
from vidgen_async.service.codec import is_json_object
from vidgen_async.types.http import parse_http_date
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order
from vidgen_async.types.resources import VideoTask
from vidgen_async.user_code import UserCode

logger = logging.getLogger(__name__)

#: For how many seconds a candidate that the service does not know is asked for again: a new task may not be there yet.
UNKNOWN_FOR = 10.0
#: Seconds between two requests for the same candidate.
PAUSE = 1.0
#: By how much a task may seem older than its create, for clocks that are set to whole seconds.
TOLERANCE = timedelta(seconds=2)
#: By how much a task may seem younger than the answer, for a service that answers first, and for clocks of its hosts.
LATEST_CREATION = timedelta(minutes=1)

#: Sends one GET (4.5), which is not retried.
GetTask: TypeAlias = Callable[[str], Awaitable[VideoTask]]


async def confirm(order: Order, journal: Journal, clock: Clock, get_task: GetTask) -> Order:
    """The order, with its receipt if an uncertain attempt could be confirmed; if not, the next call asks again."""
    for attempt in order.unclear:
        if attempt.evidence is None or not attempt.evidence.candidates:
            continue
        task = await _find(attempt.evidence.candidates, clock, get_task)
        if task is None or not could_be_of(task, attempt, order):
            continue
        cause = "the answer did not name the task where it should; the service knows exactly one of its candidates"
        evidence = Evidence(
            outcome=AttemptOutcome.ACCEPTED,
            at=clock.wall(),
            status=attempt.evidence.status,
            task_id=task.id,
            cause=cause,
            answered=True,
            request_id=attempt.evidence.request_id,
        )
        with UserCode() as call:  # whatever a journal raises: the create is not called off by it
            order = await journal.confirm(order.ref, attempt.n, evidence)
        if call.error is not None:
            outcome, error = str(evidence.outcome), type(call.error).__name__
            Event.ORDER_WRITE_FAILED.log(logger, order_id=order.order_id, outcome=outcome, task_id=task.id, error=error)
            break
        if order.receipt is not None:
            Event.ORDER_CONFIRMED.log(logger, order_id=order.order_id, task_id=task.id)
            break
    return order


async def _find(candidates: tuple[str, ...], clock: Clock, get_task: GetTask) -> VideoTask | None:
    """The one task that is known, if the service answered 404 for all other candidates until the end."""
    found: dict[str, VideoTask] = {}
    give_up_at = math.inf
    while True:
        for candidate in candidates:
            if candidate in found:
                continue
            # A cassette that cannot be used is no answer about the task.
            with UserCode(passes=(CassetteError,)) as call:
                found[candidate] = await get_task(candidate)
            # Whatever a transport raises: a create that was sent stays uncertain. So it does after a 404 that is a
            # proxy's page, which is no evidence about the task.
            is_unknown = isinstance(call.error, NotFoundError) and is_json_object(call.error.body)
            if (call.error is not None and not is_unknown) or len(found) > 1:
                return None
        give_up_at = min(give_up_at, clock.now() + UNKNOWN_FOR)  # from the first answers, which may take long
        if len(found) == len(candidates) or clock.now() + PAUSE > give_up_at:
            return next(iter(found.values()), None)
        await clock.sleep(PAUSE)


def could_be_of(task: VideoTask, attempt: Attempt, order: Order) -> bool:
    """Whether the task is of the order's model and was created while this attempt was sent, by the service's own clock:
    from the ``Date`` of its answer, less the time that the send took, until soon after it. False where the service does
    not say, or if that clock and this one differ by more than :data:`CLOCKS_APART`."""
    evidence = attempt.evidence
    if evidence is None or task.created_at is None or not task.model:
        return False
    date = next((value for name, value in evidence.headers if name.lower() == "date"), "")
    answered_at = parse_http_date(date)
    if answered_at is None or abs(answered_at - evidence.at) > CLOCKS_APART:
        return False
    if task.model != json.loads(order.body).get("model"):
        return False
    age = answered_at - task.created_at
    return -LATEST_CREATION <= age <= evidence.at - attempt.sent_at + TOLERANCE

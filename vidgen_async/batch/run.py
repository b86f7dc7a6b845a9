"""One run of a batch: it orders rows, waits for their tasks, and saves their videos."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen
from attrs.validators import ge

from vidgen_async import errors
from vidgen_async.batch.directory import prepare_target
from vidgen_async.batch.outcomes import BatchOutcome, BatchState, failure_of, points_basis, text_of
from vidgen_async.batch.plan import end_of, find_current, is_bad_request, plan
from vidgen_async.batch.rows import Row
from vidgen_async.client.saving import iterate, save_each
from vidgen_async.clock import Clock, run_in_thread, within
from vidgen_async.media.download import check_file
from vidgen_async.media.local_images import LocalImages
from vidgen_async.media.upload import Uploads
from vidgen_async.orders import Orders
from vidgen_async.redaction.messages import excerpt
from vidgen_async.types.orders import Order, OrderSummary
from vidgen_async.types.resources import Receipt, TaskLike, VideoTask, task_id_of
from vidgen_async.user_code import UserCode
from vidgen_async.watcher import Outcome

if TYPE_CHECKING:
    from vidgen_async.client.videos import Videos

#: The number of rows whose creates are prepared, with their images, or are being sent: a process that is killed leaves
#: no more orders uncertain than that.
ROWS_AHEAD = 4
#: Seconds after which a create that is being sent does not count for that: a slow one holds up no other row.
_SLOW_AFTER = 5.0
#: The number of tasks that are watched at once, and of downloads.
MOST_RUNNING = 10_000
DOWNLOADS = 4
#: The number of outcomes that the caller has not consumed, after which the run waits.
_MOST_READY = 100
#: Seconds after which it is checked again whether creates were sent.
_RECHECK_INTERVAL = 0.5
#: After one of these every other create would fail too.
_STOPPING = (errors.AuthenticationError, errors.BudgetExceededError, errors.InsufficientCreditsError)
#: What became of a row whose create raised one of these; of any other one, nothing was sent.
_STATES: tuple[tuple[type[errors.VidgenError], BatchState], ...] = (
    (errors.RejectedError, "rejected"),
    (errors.UncertainCreateError, "uncertain"),
    (errors.ReceiptNotStoredError, "not_saved"),
)


@frozen
class Job:
    """What a run does for a row."""

    line: int
    order_id: str
    output: str
    ordered_as: str
    why: str
    prompt: str
    earlier: tuple[OrderSummary, ...]
    """The failed orders of the row before this one."""


@frozen(kw_only=True)
class BatchOptions:
    """How rows are ordered and saved, as ``videos.batch`` describes it."""

    directory: Path
    retry_failed: bool
    stop_after_failures: int = field(validator=ge(1))


@define(eq=False)
class Run:
    """Orders rows in their sequence. ``outcomes`` has an outcome for each, then None."""

    _options: BatchOptions
    _videos: "Videos"
    _orders: Orders
    _uploads: Uploads
    _clock: Clock
    outcomes: asyncio.Queue[BatchOutcome | None] = field(factory=lambda: asyncio.Queue(_MOST_READY))
    _creating: dict[asyncio.Task[None], tuple[str, float]] = field(factory=dict)
    """The ids of the orders that are being created, and when that began."""
    _refused: list[tuple[Job, Row]] = field(factory=list)
    """The rows that were refused with 429, to be ordered again after the others."""
    _running: dict[str, Job] = field(factory=dict)
    """By the id of the task."""
    _accepted: asyncio.Queue[TaskLike | None] = field(factory=asyncio.Queue)
    """The tasks to watch, then None."""
    _changed: asyncio.Event = field(factory=asyncio.Event)
    _stop_reason: str = ""
    """Why nothing is ordered any more; empty if rows are ordered."""
    _is_stopped: bool = False
    _saver: asyncio.Task[None] | None = None
    """Once all rows were ordered."""
    _last_failure: object = None
    _failures: int = 0
    """The number of failures in a row that are equal to the last one."""

    def stop(self) -> None:
        """Order nothing any more, and do not wait for tasks. Creates that are being sent end."""
        self._is_stopped = True
        self._stop_creates("the batch was stopped")
        if self._saver is not None:
            self._saver.cancel()

    def _stop_creates(self, reason: str) -> None:
        self._stop_reason = self._stop_reason or reason
        for order_id, _ in self._creating.values():
            self._orders.cancel_unsent(order_id)
        self._changed.set()

    async def work(self, chunks: AsyncIterable[list[Row]]) -> None:
        """Carry it out. Cancelling it ends everything at once."""
        saver = asyncio.ensure_future(self._save_all())
        try:
            await self._order_all(chunks)
            self._accepted.put_nowait(None)
            self._saver = saver
            if self._is_stopped:
                saver.cancel()
            await asyncio.wait([saver])
            if not saver.cancelled():
                saver.result()
            for job in self._running.values():
                await self._put(job, "running")
        finally:
            for worker in (saver, *self._creating):
                worker.cancel()
            await asyncio.gather(saver, *self._creating, return_exceptions=True)
            await self.outcomes.put(None)

    # -- ordering ------------------------------------------------------------------------------------------------------

    async def _order_all(self, chunks: AsyncIterable[list[Row]]) -> None:
        deferred: list[Row] = []
        async for rows in chunks:
            states = await self._orders.states(row.order_id for row in rows)
            deferred += [row for row in rows if not await self._take_up(row, states.get(row.order_id), may_defer=True)]
        for row in deferred:
            states = await self._orders.states([row.order_id])
            await self._take_up(row, states.get(row.order_id), may_defer=False)
        while self._creating or self._refused:
            refused, self._refused = self._refused, []
            for job, row in refused:
                await self._order(job, row)
            if self._creating:
                await asyncio.wait(self._creating, return_when=asyncio.FIRST_COMPLETED)

    async def _take_up(self, row: Row, order: OrderSummary | None, *, may_defer: bool) -> bool:
        """Begin what is to be done for the row. Return False if it is deferred."""
        order, following, earlier = await find_current(self._orders, row.order_id, order)
        is_completed = end_of(order) == "completed"
        problem = await run_in_thread(check_file, self._options.directory / row.output) if is_completed else None
        is_bad = await is_bad_request(self._orders, order)
        step = plan(order, problem, is_bad_request=is_bad, retry_failed=self._options.retry_failed)
        ordered_as = row.order_id if order is None else order.order_id
        if step.do == "create" and order is not None and end_of(order) == "failed":
            ordered_as, earlier = following, (*earlier, order)
        job = Job(row.line, row.order_id, row.output, ordered_as, step.why, excerpt(row.request.prompt), earlier)
        if step.do == "defer" and may_defer:
            return False
        if step.do == "list":
            await self._list(job, step.state, order)
        elif step.do == "save" and order is not None:
            await self._wait_while(self._has_most_running)
            await self._watch(job, order.task_ids[0])
        else:
            await self._order(job, row)
        return True

    async def _order(self, job: Job, row: Row) -> None:
        await self._wait_while(self._is_full)
        if self._stop_reason:
            await self._put(job, "not_sent", failure=self._stop_reason)
            return
        worker = asyncio.create_task(self._create(job, row), name=f"batch {job.ordered_as}")
        self._creating[worker] = job.ordered_as, self._clock.now()
        worker.add_done_callback(self._on_created)

    def _has_most_running(self) -> bool:
        return len(self._running) + len(self._creating) >= MOST_RUNNING and not self._is_stopped

    def _is_full(self) -> bool:
        slow = self._clock.now() - _SLOW_AFTER
        creating = self._creating.values()
        ahead = sum(began > slow or not self._orders.is_sending(order_id) for order_id, began in creating)
        return not self._stop_reason and (ahead >= ROWS_AHEAD or self._has_most_running())

    async def _wait_while(self, is_full: Callable[[], bool]) -> None:
        while is_full():
            self._changed.clear()
            with suppress(TimeoutError):
                await within(self._clock, _RECHECK_INTERVAL, self._changed.wait)

    def _on_created(self, worker: asyncio.Task[None]) -> None:
        del self._creating[worker]
        self._changed.set()

    async def _create(self, job: Job, row: Row) -> None:
        receipt = None
        with UserCode() as call:  # of a journal, for example: one row must not end the others
            receipt = await self._send(job, row)
        if receipt is not None:
            self._failures = 0
            await self._watch(job, receipt)
        elif (error := call.error) is not None:
            self._count(error)
            if isinstance(error, errors.RejectedRateLimitError):
                self._refused.append((job, row))
                return
            states = (state for kind, state in _STATES if isinstance(error, kind))
            is_stopped = isinstance(error, errors.NotSentError) and self._stop_reason
            failure = self._stop_reason if is_stopped else ""
            await self._put(job, next(states, "not_sent"), error=error, failure=failure)

    async def _send(self, job: Job, row: Row) -> Receipt:
        images = None
        if row.images:
            images = LocalImages(self._uploads)
            await images.read([path for path, _ in row.images])
            if images.problems or images.keys != tuple(digest for _, digest in row.images):
                problem = "; ".join(images.problems) or "local_images: a file was changed since the check"
                raise errors.InvalidRequestError(f"the request was not sent: {problem}", problems=[problem])
        return await self._orders.create(
            row.request, order_id=job.ordered_as, images=images, on_order=self._raise_if_stopped
        )

    def _raise_if_stopped(self) -> None:
        if self._stop_reason:
            raise errors.NotSentError(self._stop_reason)

    def _count(self, error: BaseException) -> None:
        if self._stop_reason:
            return
        kind = (type(error), getattr(error, "status", None), getattr(error, "code", None))
        self._failures = self._failures + 1 if kind == self._last_failure else 1
        self._last_failure = kind
        if isinstance(error, _STOPPING) or isinstance(error.__cause__, _STOPPING):
            self._stop_creates(f"stopped: {text_of(error)}")
        elif self._failures >= self._options.stop_after_failures:
            self._stop_creates(f"stopped after {self._failures} equal failures in a row: {text_of(error)}")

    # -- saving --------------------------------------------------------------------------------------------------------

    async def _watch(self, job: Job, task: TaskLike) -> None:
        """Have the task watched, and its video saved."""
        task_id = task_id_of(task)
        if self._is_stopped:
            await self._put(job, "running")
        elif (other := self._running.setdefault(task_id, job)) is not job:
            failure = f"task {task_id!r} is that of order {other.ordered_as!r}, too"
            await self._put(job, "not_saved", failure=failure)
        else:
            self._accepted.put_nowait(task)

    async def _each_accepted(self) -> AsyncGenerator[TaskLike, None]:
        while (task := await self._accepted.get()) is not None:
            yield task

    async def _save_all(self) -> None:
        outcomes = self._videos.as_completed(self._each_accepted(), timeout=None)
        saved = save_each(iterate(outcomes), self._save, self._orders.results.handling, DOWNLOADS)
        async with aclosing(saved):
            async for outcome in saved:
                job = self._running[outcome.task_id]
                state: BatchState = "failed" if isinstance(outcome.error, errors.TaskFailedError) else "not_saved"
                state = state if outcome.path is None else "saved"
                await self._put(job, state, task=outcome.task, path=outcome.path, error=outcome.error)
                del self._running[outcome.task_id]
                self._changed.set()

    async def _save(self, outcome: Outcome) -> Outcome:
        if outcome.task is None or outcome.error is not None:
            return outcome
        try:
            job = self._running[outcome.task_id]
            target = await run_in_thread(prepare_target, self._options.directory, job.output)
            # An earlier run may have saved it before it could record that the task had ended.
            if job.why != "running" or await run_in_thread(check_file, target) is not None:
                await self._videos.download(outcome.task, target)
        except errors.VidgenError as error:
            return evolve(outcome, error=error)
        return evolve(outcome, path=target)

    # -- outcomes ------------------------------------------------------------------------------------------------------

    async def _list(self, job: Job, state: BatchState, order: OrderSummary | None) -> None:
        if state == "saved":
            await self._put(job, state, order=order, path=self._options.directory / job.output)
            return
        known = await self._orders.find(job.ordered_as)
        await self._put(job, state, failure="" if known is None else failure_of(known))

    async def _put(
        self,
        job: Job,
        state: BatchState,
        *,
        order: OrderSummary | None = None,
        task: VideoTask | None = None,
        path: Path | None = None,
        error: BaseException | None = None,
        failure: str = "",
    ) -> None:
        """Make the outcome of the row, of which this or the journal knows the order."""
        known: Order | None = None
        if order is None:
            with UserCode():  # what is known is reported all the same
                known = await self._orders.find(job.ordered_as)
        order = OrderSummary.of(known) if known is not None else order
        points = task.points if task is not None else order.points if order is not None else None
        task_ids = [task.id] if task is not None else list(order.task_ids) if order is not None else []
        receipt = known.receipt if known is not None else None
        outcome = BatchOutcome(
            order_id=job.order_id,
            line=job.line,
            state=state,
            prompt=job.prompt,
            reason=job.why,
            ordered_as=job.ordered_as,
            task_id=next(iter(task_ids), getattr(error, "task_id", None)),
            points=points,
            points_basis=points_basis(state, points),
            earlier_failed=len(job.earlier),
            earlier_points=sum(one.points or 0 for one in job.earlier),
            path=path,
            failure=failure or ("" if error is None else text_of(error)),
            error=error if isinstance(error, errors.VidgenError) else None,
            request_id=receipt.request_id if receipt is not None else getattr(error, "request_id", None),
            attempts=0 if order is None else order.attempts,
        )
        await self.outcomes.put(outcome)

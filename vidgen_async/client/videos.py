"""The endpoints below /videos, and everything that waits for a task."""

import inspect
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import TypeAlias, Unpack

from attrs import evolve

from vidgen_async.client.context import ClientContext
from vidgen_async.events import contain_hook
from vidgen_async.media.download import VideoStream, check_target
from vidgen_async.orders import OnReceipt, Orders
from vidgen_async.service.catalog import RequestCheck
from vidgen_async.service.codec import read_task
from vidgen_async.service.endpoints import checked_task_id
from vidgen_async.service.validation import make_request
from vidgen_async.types.resources import Receipt, TaskLike, VideoFields, VideoRequest, VideoTask, task_id_of
from vidgen_async.watcher import ONE_DAY, Outcome
from vidgen_async.watcher.listeners import AT_ONCE
from vidgen_async.watcher.poll_rules import GRACE

logger = logging.getLogger(__name__)

OnUpdate: TypeAlias = Callable[[VideoTask], Awaitable[None] | None]


class Videos:
    """The /videos endpoints (4.4 to 4.6), and everything that waits for a task."""

    def __init__(self, context: ClientContext, orders: Orders) -> None:
        self._context = context
        self._orders = orders

    async def create(
        self,
        request: VideoRequest | None = None,
        /,
        *,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        validate: bool = True,
        **fields: Unpack[VideoFields],
    ) -> Receipt:
        """Create a task, once (4.4). Give a VideoRequest or its fields.

        ``order_id`` is your own lasting name for this video: calling again with it never makes a second one.
        ``on_receipt`` is called (and awaited) with the receipt as soon as there is one, also if you are gone by then.
        Before money is spent the request is looked at as by :meth:`check`; ``validate=False`` leaves all of it to the
        service.

        NotSentError: proven that nothing left. RejectedError (also an InsufficientCreditsError, RateLimitError, …): the
        service refused. UncertainCreateError: nobody knows, and it is not sent again. OrderConflictError: the order id
        stands for another request. InvalidRequestError, JournalError: nothing was sent; but a ReceiptNotStoredError,
        which is a JournalError too, holds the ``task_id`` of an order that was accepted.
        Cancelling the caller stops nothing; call again with the same order id for the outcome.
        """
        self._context.lifetime.check()
        wanted = make_request(request, fields)
        return await self._orders.create(wanted, order_id=order_id, on_receipt=on_receipt, validate=validate)

    async def check(self, request: VideoRequest | None = None, /, **fields: Unpack[VideoFields]) -> RequestCheck:
        """What speaks against a request (2.4), without sending it: ``.problems``, all at once, empty if nothing does;
        ``.model``, the catalog's entry with its prices in ``.extra``.

        It is looked at by itself and against the live catalog, a copy of which is kept for five minutes and read again
        before anything is refused for it. A catalog that cannot be had within 5 seconds refuses nothing: a warning is
        logged, and ``.catalog_error`` says why. InvalidRequestError only for fields that do not exist or are missing.
        """
        self._context.lifetime.check()
        return await self._context.live_catalog.check(make_request(request, fields))

    async def get(self, task: TaskLike) -> VideoTask:
        """The task as it is now (2.5, 4.5), with its latest ``video_url``, whose query must be kept whole. A failed
        task is returned, not raised. NotFoundError for one that is not the caller's. A read, as any other."""
        self._context.lifetime.check()
        read = partial(read_task, task_id=task_id_of(task), terminal_states=self._context.terminal_states)
        return await self._context.reads.retry(self._context.endpoints.get_video(task), read)

    async def wait(self, task: TaskLike, *, timeout: float | None = ONE_DAY) -> VideoTask:
        """The completed task, polled once per interval (section 8); any number of waits share one poll.

        ``timeout`` in seconds bounds everything; None waits for ever. TaskFailedError when it ends as failed,
        WaitTimeoutError when it takes too long (which stops no task), NotFoundError, AuthenticationError.
        Faults of the network and the service are survived. Cancelling leaves the task running at the service.
        """
        self._context.lifetime.check()
        return await self._context.watcher.wait(
            checked_task_id(task), timeout=timeout, accepted_at=self._accepted_at(task)
        )

    def watch(self, task: TaskLike, *, timeout: float | None = ONE_DAY) -> AsyncGenerator[VideoTask, None]:
        """Every change of the task that this reader is fast enough to see, and always the terminal one, which is the
        last: a failed task is yielded, not raised. Errors are those of :meth:`wait`. Leaving the loop, or being
        cancelled in it, ends the watch; the task runs on at the service."""
        self._context.lifetime.check()
        return self._context.watcher.watch(checked_task_id(task), timeout=timeout, accepted_at=self._accepted_at(task))

    def as_completed(
        self, tasks: Iterable[TaskLike], *, timeout: float | None = ONE_DAY
    ) -> AsyncGenerator[Outcome, None]:
        """One Outcome for each distinct task, in the order in which they end; ``.unwrap()`` gives the task or raises
        what :meth:`wait` would have raised, ``.order_id`` is that of a receipt. After ``timeout`` seconds the rest are
        WaitTimeoutError outcomes. Leaving the loop, or being cancelled in it, ends the watch of all; the tasks run on
        at the service. InvalidRequestError, when the loop begins, for what is no task id."""
        self._context.lifetime.check()
        return self._outcomes(list(tasks), timeout)

    async def rewatch(self, *, timeout: float | None = ONE_DAY) -> AsyncGenerator[Outcome, None]:
        """One Outcome, with its ``.order_id``, for the task of each accepted order on record that was not seen to end:
        what a restarted process calls to go on. Sends no create, and keeps none waiting, however many there are.
        JournalError when the journal cannot be read; else as :meth:`as_completed`, also when it is left or cancelled.

        An end counts as seen when the loop comes back for the next outcome, and goes on record soon after: a process
        that dies while it handles one gets that one again, also if that was long ago, and with it those whose handling
        ended in the last moments. The ends that other waits were told of (``wait``, ``watch``, ``as_completed``, a
        ``generate`` that came through) count as seen too, also those of other processes; those that were waited for in
        an ``orders.handling`` block only when that came through. Of several loops on one journal each is told every
        outcome, but for those that another one had handled before it began.
        """
        self._context.lifetime.check()
        clock = self._context.clock
        order_ids: dict[str, str] = {}
        accepted_at: dict[str, float] = {}
        async for task in self._orders.running():
            order_ids.setdefault(task.task_id, task.order_id)
            age = (clock.wall() - task.accepted_at).total_seconds()
            if age < GRACE:  # for older ones it makes no difference
                accepted_at[task.task_id] = clock.now() - max(age, 0.0)
        outcomes = self._context.watcher.as_completed(order_ids, timeout=timeout, accepted_at=accepted_at)
        results = self._orders.results
        async with results.held_in_turns(order_ids) as saw, aclosing(_with_order_ids(outcomes, order_ids)) as named:
            async for outcome in named:
                yield outcome
                if outcome.task is not None:
                    saw(outcome.task_id, outcome.task)

    async def _outcomes(self, tasks: list[TaskLike], timeout: float | None) -> AsyncGenerator[Outcome, None]:
        clock = self._context.clock
        ids: dict[str, None] = {}
        order_ids: dict[str, str] = {}
        accepted_at: dict[str, float] = {}
        for number, task in enumerate(tasks, 1):
            task_id = checked_task_id(task)
            ids[task_id] = None
            if isinstance(task, Receipt):
                order_ids[task_id] = task.order_id
                accepted_at[task_id] = self._accepted(task)
            if number % AT_ONCE == 0:
                await clock.sleep(0)
        outcomes = self._context.watcher.as_completed(ids, timeout=timeout, accepted_at=accepted_at)
        del tasks, ids, accepted_at  # not for as long as the watch goes on
        async with aclosing(_with_order_ids(outcomes, order_ids)) as named:
            async for outcome in named:
                yield outcome

    async def download(
        self,
        task: TaskLike,
        to: str | os.PathLike[str],
        *,
        on_progress: Callable[[int, int | None], None] | None = None,
        timeout: float | None = None,
    ) -> Path:
        """Save the video at ``to`` (4.6), and return that path.

        It is written beside the target, checked (status, media type, MP4 structure, length), and moved into place at
        one go: on any error, and when cancelled before that move, what stood there before still stands. A transfer that
        breaks is resumed where the channel supports it, for as long as bytes keep coming or until ``timeout`` seconds
        are over.
        ``on_progress(received, total)`` in bytes; total is None if unknown.
        NotReadyError while the task is not completed; DownloadError and its kinds say what came instead of a video.
        """
        self._context.lifetime.check()
        return await self._context.downloads.download(task, to, on_progress=on_progress, timeout=timeout)

    def stream(self, task: TaskLike, *, range: str | None = None) -> AbstractAsyncContextManager[VideoStream]:  # noqa: A002 - the header's name
        """The video without a file in between, for proxies (4.6): ``async with client.videos.stream(task) as video``
        gives ``status`` (200, or 206 where the channel supports ranges), ``headers`` fit for a browser, ``chunks()``.

        ``range`` is the value of a Range header, ``"bytes=0-1023"``; InvalidRequestError for what is none. The key goes
        to the service alone, never to where a 307 leads. NotReadyError while there is no video; NotVideoError for a
        page in its place; BodyError in ``chunks()`` when it breaks off. Leaving the block, or being cancelled in it,
        releases the connection."""
        self._context.lifetime.check()
        return self._context.downloads.stream(task, range=range)

    async def generate(
        self,
        request: VideoRequest | None = None,
        /,
        *,
        to: str | os.PathLike[str] | None = None,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        on_update: OnUpdate | None = None,
        timeout: float | None = ONE_DAY,
        validate: bool = True,
        **fields: Unpack[VideoFields],
    ) -> VideoTask:
        """Create, wait, and (with ``to``) download. The errors are those of the three.

        Whether the target can be written is checked before anything is spent. ``on_receipt`` has the task id before
        any waiting; ``on_update`` is called (and awaited) with every change; what the two raise is logged and changes
        nothing. Cancelled or timed out, the task goes on at the service: call again with the same order id, or ``wait``
        for the task id.
        """
        self._context.lifetime.check()
        if to is not None:
            await check_target(to)
        receipt = await self.create(request, order_id=order_id, on_receipt=on_receipt, validate=validate, **fields)
        # Its end counts as seen when the video is saved: whoever goes on after a kill is to find it.
        with self._orders.results.held([receipt.task_id]) as saw:
            async with aclosing(self.watch(receipt, timeout=timeout)) as changes:
                async for task in changes:
                    if on_update is not None:
                        with contain_hook(logger, "on_update", task_id=task.id):
                            pending = on_update(task)
                            if inspect.isawaitable(pending):
                                await pending
            if to is not None and task.status == "completed":
                await self.download(task, to)
            saw(receipt.task_id, task)
        return Outcome.of(task).unwrap()

    def _accepted_at(self, task: TaskLike) -> float | None:
        return self._accepted(task) if isinstance(task, Receipt) else None

    def _accepted(self, receipt: Receipt) -> float:
        """When the task was accepted, on the clock that only grows."""
        clock = self._context.clock
        return clock.now() - max((clock.wall() - receipt.accepted_at).total_seconds(), 0.0)


async def _with_order_ids(
    outcomes: AsyncGenerator[Outcome, None], order_ids: Mapping[str, str]
) -> AsyncGenerator[Outcome, None]:
    async with aclosing(outcomes):
        async for outcome in outcomes:
            order_id = order_ids.get(outcome.task_id)
            yield outcome if order_id is None else evolve(outcome, order_id=order_id)

"""The endpoints below /videos, and everything that waits for a task."""

import inspect
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from attrs import evolve

from vidgen_async.client.views import View
from vidgen_async.clock import run_in_thread, time_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.events import contain_hook, contained, refuse_async
from vidgen_async.orders import OnReceipt
from vidgen_async.service.catalog import RequestCheck
from vidgen_async.service.codec import read_task
from vidgen_async.service.endpoints import add_image_ids, checked_task_id, refusal
from vidgen_async.types.limits import ONE_DAY
from vidgen_async.types.orders import Shard
from vidgen_async.types.resources import (
    ACTIVE_STATES,
    GenerateStage,
    ImageSource,
    OnStage,
    Receipt,
    RequestFields,
    TaskLike,
    VideoRequest,
    VideoTask,
    task_id_of,
)
from vidgen_async.watcher import Outcome, Watcher
from vidgen_async.watcher.hooks import OnUpdate
from vidgen_async.watcher.listeners import AT_ONCE
from vidgen_async.watcher.poll_rules import GRACE

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from vidgen_async.batch import Batch, BatchRows
    from vidgen_async.media.download import Downloads, FileProblem, VideoStream
    from vidgen_async.media.local_images import LocalImages

logger = logging.getLogger(__name__)

#: The states that are stages of :meth:`Videos.generate` too.
_STAGES: Mapping[str | None, GenerateStage] = {state: state for state in ACTIVE_STATES}


class Videos:
    """The /videos endpoints (4.4 to 4.6), and everything that waits for a task."""

    def __init__(self, view: View, watcher: Watcher) -> None:
        self._view = view
        self._orders = view.orders
        self._watcher = watcher

    @cached_property
    def _downloads(self) -> "Downloads":
        from vidgen_async.media.download import Downloads  # noqa: PLC0415 - many programs save no video

        return Downloads(self._view.reads, self._view.endpoints, self._view.clock)

    # One signature for a request and for its fields: of an overload, type checkers do not name the wrong argument.
    async def create(
        self,
        *request: VideoRequest,
        order_id: str | None = None,
        local_images: Iterable[ImageSource] | None = None,
        on_receipt: OnReceipt | None = None,
        on_progress: OnStage | None = None,
        validate: bool = True,
        wait_for_sender: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Receipt:
        """Create a task, once (4.4). Cancelling the caller stops nothing: call again with the same order id for the
        outcome. But while local images are uploaded there is no order yet: that is stopped, and nothing is charged.

        Args:
            request: A VideoRequest; or give its fields, those of VideoFields.
            order_id: Your own permanent name for this video: a second call with it never creates a second task.
            local_images: Images of this machine, as for ``files.upload``. They are uploaded after the check, and their
                ids follow those of ``image_ids``. A stored order with the same images (by the SHA-256 of their content)
                is found without an upload, also after a restart. It keeps the ids of its first upload: when it is
                retried after 72 hours, the service rejects it. ``extra`` must not have ``image_ids`` too.
            on_receipt: Called (and awaited) with the receipt as soon as there is one, also if the caller was cancelled.
                Each call with this order id calls its own, also for a known order: it must be idempotent.
            on_progress: As for :meth:`generate`, for the stages ``upload`` and ``order``.
            validate: Check the request as :meth:`check` does before anything is sent; False leaves that to the service.
            wait_for_sender: Seconds for which this call waits for the outcome, which another process may be sending, or
                for a slot of the submission limit, or an upload. None: for as long as it takes.

        Raises:
            BudgetExceededError: The budget does not allow it. A NotSentError.
            StillSendingError: It had no outcome within ``wait_for_sender`` seconds. It is carried out nevertheless.
            NotSentError: Proven: no byte was sent. Its ``__cause__`` is an AuthenticationError if the catalog was
                refused with 401: the create would be, too.
            RejectedError: The service refused. Also an InsufficientCreditsError, RateLimitError, …
            UncertainCreateError: It is unknown whether the service accepted it; it is never sent again automatically.
            OrderConflictError: The order id stands for another request.
            OrderStateError: The order is known, and a local image cannot be read now, so that it cannot be compared.
                The message has the state of the order; ``orders.resume`` continues with it.
            InvalidRequestError, JournalError: Nothing was sent.
            ReceiptNotStoredError: It was accepted as ``task_id``, which the journal could not store.
            ServiceError, TransportError: If it is no CreateError too, an image could not be uploaded, so there is no
                order.
        """
        self._view.check_usable()
        checked, problems = self._make_request(request, fields)
        progress = None if on_progress is None else contained(on_progress)
        images = await self._read_images(local_images, None if progress is None else partial(progress, "upload"))
        unreadable = () if images is None else images.problems
        if checked is None or problems or unreadable:
            if order_id is not None and unreadable and not problems:
                await self._orders.refuse_if_known(order_id, unreadable)
            raise refusal(
                (await self._check(checked, images, problems)).problems if validate else (*problems, *unreadable)
            )
        return await self._orders.create(
            checked,
            order_id=order_id,
            on_receipt=on_receipt,
            on_order=None if progress is None else partial(progress, "order", None),
            validate=validate,
            images=images,
            wait_for_sender=wait_for_sender,
        )

    async def check(
        self,
        *request: VideoRequest,
        local_images: Iterable[ImageSource] | None = None,
        **fields: Unpack[RequestFields],
    ) -> RequestCheck:
        """Check a request without sending it (2.4): by itself and against the live catalog. ``local_images`` are read,
        and not uploaded.

        The catalog is cached for five minutes, and fetched again before it refuses anything. If it cannot be fetched
        within 5 seconds, it refuses nothing: a warning is logged, and ``.catalog_error`` has the reason.

        Returns:
            ``.problems``, all at once, empty if there are none; ``.model``, the catalog's entry, with its prices in
            ``.extra``.
        """
        self._view.check_usable()
        checked, problems = self._make_request(request, fields)
        return await self._check(checked, await self._read_images(local_images), problems)

    async def _check(
        self, request: VideoRequest | None, images: "LocalImages | None", problems: Sequence[str]
    ) -> RequestCheck:
        unreadable = () if images is None else images.problems
        if request is None:
            return RequestCheck(problems=(*unreadable, *problems))
        if images is not None:
            try:
                request = add_image_ids(request, images.keys)
            except InvalidRequestError as error:
                problems = (*problems, *error.problems)
        result = await self._view.live_catalog.check(request, problems)
        return evolve(result, problems=(*unreadable, *result.problems))

    async def _read_images(
        self, given: Iterable[ImageSource] | None, on_progress: Callable[[float], None] | None = None
    ) -> "LocalImages | None":
        if given is None:
            return None
        from vidgen_async.media.local_images import LocalImages  # noqa: PLC0415 - most creates have none
        from vidgen_async.media.upload import Uploads  # noqa: PLC0415

        view = self._view
        images = LocalImages(Uploads(view.reads, view.endpoints, view.clock), on_progress=on_progress)
        await images.read(given)
        return images if images.keys else None

    async def get(self, task: TaskLike) -> VideoTask:
        """The task as it is now (2.5, 4.5), with its latest ``video_url``, whose query must be kept complete. A failed
        task is returned, not raised. NotFoundError for a task of another account. Retried like every read."""
        self._view.check_usable()
        read = partial(read_task, task_id=task_id_of(task), terminal_states=self._view.shared.terminal_states)
        return await self._view.reads.retry(self._view.endpoints.get_video(task), read)

    async def wait(
        self,
        task: TaskLike,
        *,
        timeout: float | None = ONE_DAY,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
    ) -> VideoTask:
        """The completed task, polled once per interval (section 8); concurrent waits for one task share its polls.

        Transient faults of the network and the service are survived. Cancelling stops this wait, not the task.

        Args:
            timeout: Seconds for everything; None waits forever.
            on_update: Called with every change, the terminal one included, in the caller's context; it may be async. It
                never delays the polls: while a call runs, only the latest change waits. Its errors are logged. The wait
                ends when the last call has ended; calls that exceed the ``timeout`` by five seconds, and those of a
                cancelled wait, are cancelled.
            first_poll_after: Seconds after which the task is polled first: no video is complete at once. A task that
                another call waits for may be polled sooner.

        Raises:
            TaskFailedError: The task ended as failed.
            WaitTimeoutError: It was not seen to end in time, which stops no task.
            NotFoundError, AuthenticationError: As the service answers, twice.
        """
        self._view.check_usable()
        return await self._watcher.wait(
            checked_task_id(task),
            timeout=timeout,
            accepted_at=self._accepted_at(task),
            on_update=on_update,
            first_poll_after=first_poll_after,
            polling=self._view.polling,
        )

    def watch(
        self,
        task: TaskLike,
        *,
        timeout: float | None = ONE_DAY,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
    ) -> AsyncGenerator[VideoTask, None]:
        """Every change of the task that this reader is fast enough to receive, and always the terminal one, which is
        the last: a failed task is yielded, not raised. Arguments and errors are those of :meth:`wait`; ``on_update`` is
        called while the reader is busy, too. Leaving the loop, or being cancelled in it, ends the watch, not the
        task."""
        self._view.check_usable()
        return self._watcher.watch(
            checked_task_id(task),
            timeout=timeout,
            accepted_at=self._accepted_at(task),
            on_update=on_update,
            first_poll_after=first_poll_after,
            polling=self._view.polling,
        )

    def as_completed(
        self,
        tasks: Iterable[TaskLike] | AsyncIterable[TaskLike],
        *,
        timeout: float | None = ONE_DAY,
        on_update: OnUpdate | None = None,
        first_poll_after: float = 0.0,
    ) -> AsyncGenerator[Outcome, None]:
        """One Outcome for each distinct task, in the order in which they end.

        Tasks of an async iterable are added as it yields them, and only those that have not ended are held: a task that
        is yielded once more after its end has another outcome. What the iterable raises is raised when the tasks before
        have ended; it is not iterated any more once the loop is left.

        ``.unwrap()`` returns the task or raises what :meth:`wait` would have raised; ``.order_id`` is that of a
        receipt. After ``timeout`` seconds the outcomes of the others are WaitTimeoutErrors. The arguments are those of
        :meth:`wait`; ``on_update`` is called with every change of any of the tasks. Leaving the loop, or being
        cancelled in it, ends the watch of all, and stops no task. The outcome of an invalid task id is an
        InvalidRequestError; it is not sent.
        """
        self._view.check_usable()
        if not isinstance(tasks, AsyncIterable):
            tasks = [tasks] if isinstance(tasks, TaskLike) else list(tasks)
        return self._outcomes(
            tasks,
            timeout=timeout,
            on_update=on_update,
            first_poll_after=first_poll_after,
            polling=self._view.polling,
        )

    async def rewatch(
        self, *, timeout: float | None = ONE_DAY, shard: Shard | None = None
    ) -> AsyncGenerator[Outcome, None]:
        """One Outcome, with its ``.order_id``, for the task of each accepted order that is not known to have ended: a
        restarted process calls this to continue. Sends no create, and delays none. Otherwise like
        :meth:`as_completed`, also when the loop is left or cancelled.

        The end of a task counts as known when the loop asks for the next outcome, and is recorded soon after: a process
        that dies while it handles an outcome gets that one again, and those handled in the last moments. Ends that
        other waits returned (``wait``, ``watch``, ``as_completed``, a ``generate`` that succeeded) count as known too,
        also those of other processes, and of ``vidgen wait`` and ``download``; in an ``orders.handling`` block only
        when the block succeeded. Of several concurrent loops on one journal each yields every outcome, except those
        that another one handled before.

        Args:
            timeout: The maximum time in seconds; None for no limit.
            shard: ``(i, n)``: only the tasks of share ``i`` of ``n``, so that ``n`` workers that share a journal watch
                each task once. A task belongs to share ``zlib.crc32(task_id.encode()) % n``, in all processes and on
                all hosts.

        Raises:
            InvalidRequestError: When the loop starts, for a shard without 0 <= i < n.
            JournalError: The journal cannot be read.
        """
        self._view.check_usable()
        clock = self._view.clock
        order_ids: dict[str, str] = {}
        accepted_at: dict[str, float] = {}
        async for task in self._orders.running(shard=shard):
            order_ids.setdefault(task.task_id, task.order_id)
            age = (clock.wall() - task.accepted_at).total_seconds()
            if age < GRACE:  # for older ones it makes no difference
                accepted_at[task.task_id] = clock.now() - max(age, 0.0)
        outcomes = self._watcher.as_completed(
            order_ids, timeout=timeout, accepted_at=accepted_at, polling=self._view.polling
        )
        results = self._orders.results
        async with results.hold_in_turns(order_ids) as record, aclosing(outcomes):
            async for outcome in outcomes:
                yield evolve(outcome, order_id=order_ids[outcome.task_id])
                if outcome.task is not None:
                    record(outcome.task_id, outcome.task)

    async def _outcomes(
        self, tasks: Iterable[TaskLike] | AsyncIterable[TaskLike], **options: Any
    ) -> AsyncGenerator[Outcome, None]:
        order_ids: dict[str, str] = {}

        def note(task: TaskLike) -> tuple[str, float | None]:
            if isinstance(task, Receipt):
                order_ids[task.task_id] = task.order_id
            return task_id_of(task), self._accepted_at(task)  # the outcome of an invalid id is its error

        if isinstance(tasks, AsyncIterable):
            outcomes = self._watcher.as_added((note(task) async for task in tasks), **options)
        else:
            accepted_at: dict[str, float | None] = {}
            for number, task in enumerate(tasks, 1):
                task_id, moment = note(task)
                accepted_at[task_id] = accepted_at.get(task_id) if moment is None else moment
                if number % AT_ONCE == 0:
                    await self._view.clock.sleep(0)
            outcomes = self._watcher.as_completed(accepted_at, accepted_at=accepted_at, **options)
            del accepted_at  # not held for as long as the watch lasts
        del tasks
        async with aclosing(outcomes):
            async for outcome in outcomes:
                order_id = order_ids.pop(outcome.task_id, None)
                yield outcome if order_id is None else evolve(outcome, order_id=order_id)

    async def download(
        self,
        task: TaskLike,
        to: str | os.PathLike[str],
        *,
        on_progress: Callable[[int, int | None], None] | None = None,
        timeout: float | None = None,
        overwrite: bool = True,
        accept_unverified: bool = False,
    ) -> Path:
        """Save the video at ``to`` (4.6), and return that path.

        It is written to a temporary file in the same directory, checked (status, MP4 structure, length), and moved to
        the target atomically: on any error, and when cancelled before that, the target is unchanged. An interrupted
        transfer is resumed where the channel supports it, for as long as bytes arrive or until ``timeout`` seconds have
        passed. If the content endpoint fails, the link of the completed task is used.

        Args:
            on_progress: Called as ``on_progress(received, total)`` in bytes; total is None if unknown. It must not be
                async.
            timeout: Seconds for everything; the error states what failed before.
            overwrite: Replace a file that exists; otherwise raise TargetExistsError.
            accept_unverified: Save the video also if nothing shows whether its end is missing (its length was not
                announced, and it has no index of all samples), and if an index names data that was not received.

        Raises:
            NotReadyError: The task is not completed.
            DownloadError: Its subclasses state what was received instead of a video.
        """
        self._view.check_usable()
        refuse_async(on_progress)
        return await self._downloads.download(
            task,
            to,
            on_progress=on_progress,
            timeout=timeout,
            overwrite=overwrite,
            accept_unverified=accept_unverified,
        )

    async def download_many(
        self,
        outcomes: AsyncIterable[Outcome | TaskLike] | Iterable[Outcome | TaskLike],
        *,
        to: str | os.PathLike[str] | Callable[[Outcome], str | os.PathLike[str]],
        concurrency: int = 4,
        overwrite: bool = False,
    ) -> AsyncGenerator[Outcome, None]:
        """Save the videos of many outcomes (4.6), several at once, and yield each outcome when it is done::

            async for outcome in client.videos.download_many(client.videos.as_completed(receipts), to="videos"):
                print(outcome.path or outcome.error)

        An outcome whose video was saved has its ``path``; one whose video was not saved has the ``error``, which stops
        no other download; an outcome with an error is yielded unchanged. Leaving the loop, or being cancelled in it,
        stops the downloads under way, whose targets are unchanged, and closes ``outcomes``.

        With :meth:`rewatch`, an outcome counts as known when the loop asks for the next one; but if its video could not
        be saved, and its file does not exist, the next rewatch yields it again.

        Args:
            outcomes: Those of :meth:`as_completed` or :meth:`rewatch`, or a list of them; also of tasks, task ids and
                receipts, which are not waited for: for one that has not ended the error is a NotReadyError.
            to: A directory that exists, where the names are TASK_ID.mp4; or a function that returns the path for an
                outcome. No two videos of one call are saved at the same path. An id that is no portable name of a file
                (characters other than ``a-z0-9_.-``, more than 100 of them) has these replaced and ``~`` and a digest
                appended.
            concurrency: The maximum number of downloads at once. While as many outcomes are not consumed by the loop,
                no further download starts.
            overwrite: Replace files that exist. Otherwise they are left, and the outcome has a TargetExistsError.

        Raises:
            DownloadError: When the loop starts: no file can be written in the directory ``to``.
            ValueError: ``concurrency`` is less than 1.
        """
        from vidgen_async.client.saving import Saver, iterate, save_each  # noqa: PLC0415 - as for downloads

        self._view.check_usable()
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1: {concurrency}")
        if not callable(to):
            await self.check_target(Path(to, "video.mp4"))
        saver = Saver(self.get, partial(self.download, overwrite=overwrite), to)
        async with (
            aclosing(iterate(outcomes)) as each,
            aclosing(save_each(each, saver.save, self._orders.results.handling, concurrency)) as saved,
        ):
            async for outcome in saved:
                yield outcome

    @staticmethod
    async def check_target(to: str | os.PathLike[str]) -> None:
        """Create and remove a file beside ``to``, so that no video is ordered that cannot be saved there. DownloadError
        if the directory is missing or not writable, or ``to`` is a directory or a device."""
        from vidgen_async.media.partial_file import PartialFile  # noqa: PLC0415 - as for downloads

        async with PartialFile(to):
            pass

    @staticmethod
    def file_name(task: TaskLike) -> str:
        """Return the name of the task's video in a directory, as :meth:`download_many` chooses it."""
        from vidgen_async.client.saving import file_name  # noqa: PLC0415 - as for downloads

        return file_name(task_id_of(task))

    def batch(
        self,
        rows: "BatchRows",
        *,
        to: str | os.PathLike[str],
        retry_failed: bool = False,
        stop_after_failures: int = 20,
        report: str | os.PathLike[str] | None = None,
    ) -> "Batch":
        """Order the videos of many rows and save each as a complete file, in a run that can be repeated::

            async with client.videos.batch("jobs.csv", to="videos") as batch:
                async for outcome in batch:
                    print(outcome.line, outcome.state, outcome.path or outcome.failure)

        First all rows are checked: by themselves, against the live catalog, and against the journal. If there are
        problems, nothing is sent. Then rows are ordered in their sequence, at the submission limit of the client; local
        images are uploaded just before, each content once. An outcome is yielded for each row, when it is known.

        The same call again continues, by the state of each order: only what was never ordered, or was rejected, is
        ordered; a video is saved again only if its file is missing or incomplete; what is uncertain is never sent
        again, and listed. This needs a durable journal.

        Being cancelled in the loop, or leaving it, stops the batch like ``batch.stop()``: no more creates, and those
        that are being sent end. A second cancellation ends it at once.

        Args:
            rows: The path of a manifest (JSON lines or CSV; ``-`` is the standard input), or rows from an iterable or
                async iterable: mappings with the fields of :class:`VideoFields`, ``order_id`` (required, unique),
                ``local_images`` (paths, relative to the manifest) and ``output`` (default: ORDER_ID.mp4), or pairs of
                an order id and a :class:`VideoRequest`. All are read before the first create.
            to: The directory of the videos, which is created. No other batch can use it meanwhile.
            retry_failed: Order again what failed, under ``ORDER_ID~2``, ``~3`` …, and what was rejected with 400.
            stop_after_failures: The number of equal failures of creates in a row after which nothing more is ordered.
                A refused key (401), or too few credits (402), stop the creates at once. What was ordered is saved.
            report: A ``.csv`` or ``.jsonl`` file with the outcomes, or an ``.html`` page that shows the videos, with
                their first frames if the extra ``video`` is installed. It is replaced at the end of the run.

        Raises:
            ConfigurationError, ValueError: ``report`` has another suffix; ``stop_after_failures`` is less than 1.

        The loop raises:
            InvalidRequestError: ``problems`` has all problems of the rows, each with its line. Nothing was sent.
            AuthenticationError, JournalError: As the catalog, or the journal, was read. Nothing was sent.
            DownloadError: The directory cannot be used, or another batch uses it. Nothing was sent.
        """
        from vidgen_async.batch import Batch, BatchOptions  # noqa: PLC0415 - a higher layer, which few programs need

        self._view.check_usable()
        options = BatchOptions(directory=Path(to), retry_failed=retry_failed, stop_after_failures=stop_after_failures)
        return Batch(rows, options, report, self, self._view)

    @staticmethod
    async def check_file(path: str | os.PathLike[str]) -> "FileProblem | None":
        """Why a complete video is not stored at ``path``: ``"missing"``, or ``"incomplete"`` (it cannot be read, is no
        video, or data is missing in it); None if one is. A file that :meth:`download` has saved is complete unless
        something changed it later."""
        from vidgen_async.media.download import check_file  # noqa: PLC0415 - as for downloads

        return await run_in_thread(check_file, path)

    def stream(self, task: TaskLike, *, range: str | None = None) -> "AbstractAsyncContextManager[VideoStream]":  # noqa: A002 - the header's name
        """The video without a file, for proxies (4.6): ``async with client.videos.stream(task) as video`` gives
        ``status`` (200, or 206 where the channel supports ranges), ``headers`` fit for a browser, and ``chunks()``. The
        API key is sent to the service alone, never to the target of a 307. Leaving the block, or being cancelled in it,
        releases the connection. :meth:`open_stream` is the same without a block.

        Args:
            range: The value of a Range header, ``"bytes=0-1023"``.

        Raises:
            InvalidRequestError: ``range`` is not such a value.
            NotReadyError: There is no video yet.
            NotVideoError: The answer is a page instead of a video.
            BodyError: In ``chunks()``, when the body is cut short.
        """
        self._view.check_usable()
        return self._downloads.stream(task, range)

    async def open_stream(self, task: TaskLike, *, range: str | None = None) -> "VideoStream":  # noqa: A002 - the header's name
        """The same as an object, for frameworks whose responses outlive the handler that makes them. Call its
        ``aclose()`` when the response has ended, however it ended: until then it uses a connection. Arguments and
        errors are those of :meth:`stream`; being cancelled here releases the connection."""
        self._view.check_usable()
        return await self._downloads.open_stream(task, range=range)

    async def generate(
        self,
        *request: VideoRequest,
        to: str | os.PathLike[str] | None = None,
        order_id: str | None = None,
        local_images: Iterable[ImageSource] | None = None,
        on_receipt: OnReceipt | None = None,
        on_update: OnUpdate | None = None,
        on_progress: OnStage | None = None,
        timeout: float | None = ONE_DAY,
        validate: bool = True,
        **fields: Unpack[RequestFields],
    ) -> VideoTask:
        """Create, wait, and (with ``to``) download. The errors are those of the three.

        Whether the target can be written is checked before anything is charged. ``on_receipt`` has the task id before
        any waiting; ``on_update`` is called (and awaited) with every change; exceptions of the two are logged and
        change nothing. After a cancellation or a timeout the task continues at the service: call again with the same
        order id, or ``wait`` for the task id.

        Args:
            local_images: As for :meth:`create`.
            on_progress: Called as ``on_progress(stage, fraction)``, for ``upload`` (only if images are uploaded),
                ``order``, ``queued`` and ``running`` (the states of section 3), and ``download``. The fraction is that
                of the stage, from 0.0 to 1.0; it decreases when a transfer is repeated. It is None for ``order``,
                ``queued`` and ``running``, because the service does not tell how much of a video is done, and for a
                download of unknown length. It must return at once, and must not be async; if it raises, that is
                logged, and it is not called again.
        """
        self._view.check_usable()
        if to is not None:
            await self.check_target(to)
        progress = contained(on_progress)
        receipt = await self.create(
            *request,
            order_id=order_id,
            local_images=local_images,
            on_receipt=on_receipt,
            on_progress=progress,
            validate=validate,
            **fields,
        )
        # Its end is recorded when the video is saved: after a kill, a rewatch must find it.
        with self._orders.results.hold([receipt.task_id]) as record:
            async with aclosing(self.watch(receipt, timeout=timeout)) as changes:
                async for task in changes:
                    if (stage := _STAGES.get(task.status)) is not None:
                        progress(stage, None)
                    if on_update is not None:
                        with contain_hook(logger, "on_update", task_id=task.id):
                            pending = on_update(task)
                            if inspect.isawaitable(pending):
                                await pending
            if to is not None and task.status == "completed":
                await self.download(
                    task,
                    to,
                    on_progress=lambda received, total: progress("download", received / total if total else None),
                )
            record(receipt.task_id, task)
        return Outcome.of(task).unwrap()

    def _make_request(
        self, request: tuple[VideoRequest, ...], fields: Mapping[str, object]
    ) -> tuple[VideoRequest | None, list[str]]:
        from vidgen_async.service.request_checks import make_request  # noqa: PLC0415 - many programs create nothing

        return make_request(request, fields, self._view.endpoints.absolute_asset)

    def _accepted_at(self, task: TaskLike) -> float | None:
        """When the task was accepted, on the monotonic clock."""
        return time_of(self._view.clock, task.accepted_at) if isinstance(task, Receipt) else None

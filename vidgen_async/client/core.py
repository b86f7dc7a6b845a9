"""The door: one client, one small class per resource (section 4)."""

import inspect
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn, Self, TypeAlias, Unpack

from attrs import frozen
from yarl import URL

from vidgen_async.clock import Clock, LoopClock
from vidgen_async.codec import read_account, read_catalog, read_task
from vidgen_async.configuration import checked_base_url, checked_key, is_on_this_machine
from vidgen_async.creates import Creates
from vidgen_async.downloads import Downloads, VideoStream, check_target
from vidgen_async.endpoints import Endpoints, checked_task_id
from vidgen_async.errors import ConfigurationError
from vidgen_async.journal import Journal, MemoryJournal
from vidgen_async.lifetime import Lifetime
from vidgen_async.messages import Timeouts
from vidgen_async.orders import Names, OnReceipt, Orders
from vidgen_async.pacing import Pacing
from vidgen_async.reads import Reads
from vidgen_async.resources import (
    Account,
    Catalog,
    Receipt,
    ReferenceAsset,
    TaskLike,
    VideoFields,
    VideoRequest,
    VideoTask,
)
from vidgen_async.transports.base import Transport
from vidgen_async.transports.direct import DirectTransport
from vidgen_async.uploads import Uploads
from vidgen_async.validation import check_request, make_request
from vidgen_async.watcher import Outcome, Watcher

OnUpdate: TypeAlias = Callable[[VideoTask], Awaitable[None] | None]

#: Section 8: polling once per 60 seconds is recommended.
RECOMMENDED_INTERVAL = 60.0
#: How long a wait goes on unless told otherwise, in seconds.
ONE_DAY = 86400.0


class Client:
    """The service, for one API key on one event loop.

    ``api_key`` and ``base_url`` default to VIDGEN_API_KEY and VIDGEN_BASE_URL; ConfigurationError says what is wrong
    with them. Nothing is opened before the first call. Use it as ``async with Client() as client:`` or call
    :meth:`aclose`.

    ``transport``  carries the requests (default: the network); the client closes it.
    ``journal``    where orders are written before they go out (default: in memory, for this process only).
    ``clock``      all waiting asks it; default: the transport's own, else the event loop's.
    ``poll_interval``  seconds between two looks at a task (section 8 recommends 60).
    ``account``, ``namespace``  name the orders: see :mod:`vidgen_async.orders`.
    ``pacing``     the service's submission limit. ``read_budget``: seconds for which a failing read goes again.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | URL | None = None,
        transport: Transport | None = None,
        journal: Journal | str | None = None,
        clock: Clock | None = None,
        poll_interval: float = RECOMMENDED_INTERVAL,
        timeouts: Timeouts | None = None,
        account: str = "default",
        namespace: str | None = None,
        max_connections: int = 100,
        pacing: Pacing | None = None,
        read_budget: float = 60.0,
    ) -> None:
        key = checked_key(api_key)
        endpoints = Endpoints(checked_base_url(base_url), key, timeouts or Timeouts())
        self._base_url = endpoints.base_url
        self._transport = transport or DirectTransport(max_connections=max_connections)
        self._journal = _journal(journal)
        self._clock: Clock = clock or getattr(self._transport, "clock", None) or LoopClock()
        self._lifetime = Lifetime()
        reads = Reads(self._transport, self._clock, origin=endpoints.origin, known=(key,), budget=read_budget)
        self._watcher = Watcher(
            lambda task_id: reads.once(endpoints.get_video(task_id), read_task),
            clock=self._clock,
            interval=_checked_interval(poll_interval, endpoints.base_url),
            concurrency=max_connections,
        )
        parts = _Parts(
            lifetime=self._lifetime,
            endpoints=endpoints,
            reads=reads,
            clock=self._clock,
            watcher=self._watcher,
            downloads=Downloads(reads, endpoints, self._clock),
        )
        pacing = pacing or Pacing()
        self.orders = Orders(
            Creates(self._transport, endpoints, self._journal, self._clock, pacing=pacing, known=(key,)),
            self._journal,
            self._clock,
            Names(
                service=endpoints.origin,
                account=account,
                namespace=namespace or os.environ.get("VIDGEN_NAMESPACE") or None,
            ),
            pacing=pacing,
            lifetime=self._lifetime,
            get_task=lambda task_id: reads.again(endpoints.get_video(task_id), read_task),
        )
        """What is on record about creates, and what a person can do about an uncertain one."""
        self.models = Models(parts)
        self.account = AccountInfo(parts)
        self.files = Files(parts)
        self.videos = Videos(parts, self.orders)

    def __repr__(self) -> str:
        return f"Client(base_url={str(self._base_url)!r})"

    def __reduce__(self) -> NoReturn:
        message = "a Client cannot be pickled: it holds an event loop's connections; make one in each process"
        raise TypeError(message)

    @property
    def watcher(self) -> Watcher:
        """The scheduler behind ``videos.wait``, ``watch`` and ``as_completed``; ``watcher.stats`` is cheap."""
        return self._watcher

    async def __aenter__(self) -> Self:
        self._lifetime.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Take no more calls; wait up to ``grace`` seconds for creates under way; then release everything.

        Waits end with ClientStateError: their tasks go on at the service. A create without an answer by then is
        *sending* on record, and its caller gets an UncertainCreateError. Twice is fine.
        """
        self._lifetime.is_closed = True
        try:
            await self.orders.aclose(grace)
        finally:
            try:
                await self._watcher.aclose()
            finally:
                await self._transport.aclose()
                await self._journal.aclose()


@frozen(kw_only=True)
class _Parts:
    """What the resources share."""

    lifetime: Lifetime
    endpoints: Endpoints
    reads: Reads
    clock: Clock
    watcher: Watcher
    downloads: Downloads


class Models:
    """GET /models (4.1)."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    async def list(self) -> Catalog:
        """The live catalog of the calling key: models, their abilities, and the caller's prices in ``extra``."""
        self._parts.lifetime.check()
        return await self._parts.reads.again(self._parts.endpoints.list_models(), read_catalog)


class AccountInfo:
    """GET /account (4.2)."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    async def get(self) -> Account:
        """The account; ``.balance`` in credits where it can be told, everything in ``.extra``."""
        self._parts.lifetime.check()
        return await self._parts.reads.again(self._parts.endpoints.get_account(), read_account)


class Files:
    """POST /files (4.3)."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._uploads = Uploads(parts.reads, parts.endpoints)

    async def upload(self, image: "str | os.PathLike[str] | bytes | BinaryIO") -> ReferenceAsset:
        """Upload a reference image: a path, bytes, a binary file, a data URI, or the service's own asset URL (which
        is reused). The service keeps it for 72 hours.

        InvalidRequestError, before anything is sent, for what is empty, missing or no image. The Base64 is made in a
        thread. Cancelling stops it; an asset that was already made costs nothing.
        """
        self._parts.lifetime.check()
        return await self._uploads.upload(image)


class Videos:
    """The /videos endpoints (4.4 to 4.6), and everything that waits for a task."""

    def __init__(self, parts: _Parts, orders: Orders) -> None:
        self._parts = parts
        self._orders = orders

    async def create(
        self,
        request: VideoRequest | None = None,
        /,
        *,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        **fields: Unpack[VideoFields],
    ) -> Receipt:
        """Create a task, once (4.4). Give a VideoRequest or its fields.

        ``order_id`` is your own lasting name for this video: calling again with it never makes a second one.
        ``on_receipt`` is called (and awaited) with the receipt as soon as there is one, also if you are gone by then.

        NotSentError: proven that nothing left. RejectedError (also an InsufficientCreditsError, RateLimitError, …): the
        service refused. UncertainCreateError: nobody knows, and it is not sent again. OrderConflictError: the order id
        stands for another request. InvalidRequestError, JournalError: nothing was sent.
        Cancelling the caller stops nothing; call again with the same order id for the outcome.
        """
        self._parts.lifetime.check()
        wanted = make_request(request, fields)
        check_request(wanted)
        return await self._orders.create(wanted, order_id=order_id, on_receipt=on_receipt)

    async def get(self, task: TaskLike) -> VideoTask:
        """The task as it is now (4.5), with its latest ``video_url``."""
        self._parts.lifetime.check()
        return await self._parts.reads.again(self._parts.endpoints.get_video(task), read_task)

    async def wait(self, task: TaskLike, *, timeout: float | None = ONE_DAY) -> VideoTask:
        """The completed task, polled once per interval (section 8); any number of waits share one poll.

        ``timeout`` in seconds bounds everything; None waits for ever. TaskFailedError when it ends as failed,
        WaitTimeoutError when it takes too long (it still runs and is charged), NotFoundError, AuthenticationError.
        Faults of the network and the service are survived. Cancelling leaves the task running at the service.
        """
        self._parts.lifetime.check()
        return await self._parts.watcher.wait(checked_task_id(task), timeout=timeout, accepted_at=self._accepted(task))

    def watch(self, task: TaskLike, *, timeout: float | None = ONE_DAY) -> AsyncGenerator[VideoTask, None]:
        """Every change of the task that this reader is fast enough to see, and always the terminal one, which is the
        last: a failed task is yielded, not raised. Errors are those of :meth:`wait`."""
        self._parts.lifetime.check()
        return self._parts.watcher.watch(checked_task_id(task), timeout=timeout, accepted_at=self._accepted(task))

    def as_completed(
        self, tasks: Iterable[TaskLike], *, timeout: float | None = ONE_DAY
    ) -> AsyncGenerator[Outcome, None]:
        """One Outcome for each distinct task, in the order in which they end; ``.unwrap()`` gives the task or raises
        what :meth:`wait` would have raised. After ``timeout`` seconds the rest are WaitTimeoutError outcomes."""
        self._parts.lifetime.check()
        named = {checked_task_id(task): self._accepted(task) for task in tasks}
        receipts = {task_id: accepted_at for task_id, accepted_at in named.items() if accepted_at is not None}
        return self._parts.watcher.as_completed(named, timeout=timeout, accepted_at=receipts)

    async def download(
        self,
        task: TaskLike,
        to: "str | os.PathLike[str]",
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
        self._parts.lifetime.check()
        return await self._parts.downloads.download(task, to, on_progress=on_progress, timeout=timeout)

    def stream(self, task: TaskLike, *, range: str | None = None) -> AbstractAsyncContextManager[VideoStream]:  # noqa: A002 - the header's name
        """The video without a file in between, for proxies: ``async with client.videos.stream(task) as video`` gives
        ``status`` (200, or 206 where the channel supports ranges), ``headers`` and ``chunks()``."""
        self._parts.lifetime.check()
        return self._parts.downloads.stream(task, range=range)

    async def generate(
        self,
        request: VideoRequest | None = None,
        /,
        *,
        to: "str | os.PathLike[str] | None" = None,
        order_id: str | None = None,
        on_receipt: OnReceipt | None = None,
        on_update: OnUpdate | None = None,
        timeout: float | None = ONE_DAY,
        **fields: Unpack[VideoFields],
    ) -> VideoTask:
        """Create, wait, and (with ``to``) download. The errors are those of the three.

        Whether the target can be written is checked before anything is spent. ``on_receipt`` has the task id before
        any waiting; ``on_update`` is called (and awaited) with every change. Cancelled or timed out, the task still
        runs and is charged: call again with the same order id, or ``wait`` for the task id.
        """
        self._parts.lifetime.check()
        if to is not None:
            await check_target(to)
        receipt = await self.create(request, order_id=order_id, on_receipt=on_receipt, **fields)
        async with aclosing(self.watch(receipt, timeout=timeout)) as changes:
            async for task in changes:
                if on_update is not None and inspect.isawaitable(heard := on_update(task)):
                    await heard
        done = Outcome.of(task).unwrap()
        if to is not None:
            await self.download(done, to)
        return done

    def _accepted(self, task: TaskLike) -> float | None:
        """When the task was accepted, on the clock that only grows: a receipt knows."""
        if not isinstance(task, Receipt):
            return None
        clock = self._parts.clock
        return clock.now() - max((clock.wall() - task.accepted_at).total_seconds(), 0.0)


def _journal(given: Journal | str | None) -> Journal:
    if given is None:
        given = os.environ.get("VIDGEN_JOURNAL") or None
    if isinstance(given, str):
        message = f"journal {given!r}: this version keeps orders in memory only; give a Journal object, or none"
        raise ConfigurationError(message)
    return MemoryJournal() if given is None else given


def _checked_interval(seconds: float, base_url: URL) -> float:
    if not seconds > 0:
        message = f"poll_interval must be a number of seconds above 0: {seconds!r}"
        raise ConfigurationError(message)
    if seconds < RECOMMENDED_INTERVAL and not is_on_this_machine(base_url):
        warnings.warn(
            f"poll_interval is {seconds:g} s; the service recommends {RECOMMENDED_INTERVAL:g} s (section 8)",
            UserWarning,
            stacklevel=3,
        )
    return seconds

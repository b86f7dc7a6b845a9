"""How users write against the package. It is never run: a strict type checker must have nothing to say about it."""

import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, assert_type

from vidgen_async import (
    Account,
    AuthenticationError,
    Catalog,
    CatalogModel,
    Client,
    CreateError,
    DownloadError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    Outcome,
    Pacing,
    RateLimitError,
    Receipt,
    ReferenceAsset,
    RejectedError,
    RequestCheck,
    ServiceError,
    TaskFailedError,
    Timeouts,
    TransportError,
    UncertainCreateError,
    VideoFields,
    VideoRequest,
    VideoTask,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.blocking import ClientThread
from vidgen_async.journal import (
    Attempt,
    Closing,
    Decision,
    Evidence,
    Journal,
    MemoryJournal,
    MustWait,
    Order,
    OrderChanged,
    OrderRef,
    OrderState,
    Permission,
    RunningPage,
    TaskResult,
)
from vidgen_async.transports import (
    BufferedResponse,
    Connection,
    Delivery,
    DirectTransport,
    FakeTransport,
    Request,
    Response,
    Transport,
    make_headers,
    on_cassette,
)
from vidgen_async.types import ImageSource, Ratio, Resolution, Shard, TaskStatus, Turn


class Counting(Transport):
    """A transport of one's own."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.statuses: list[int] = []

    async def send(self, request: Request) -> Response:
        return await self._count(lambda: self.inner.send(request))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncGenerator[Connection, None]:
        async with self.inner.connect(request) as connection:
            assert_type(connection.is_ready, bool)
            yield connection.with_send(lambda: self._count(connection.send))

    async def _count(self, send: Callable[[], Awaitable[Response]]) -> Response:
        response = await send()
        self.statuses.append(response.status)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


class Watched:
    """A journal of one's own."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner

    @property
    def durable(self) -> bool:
        return self.inner.durable

    async def check(self) -> None:
        await self.inner.check()

    async def namespace(self, proposed: str) -> str:
        return await self.inner.namespace(proposed)

    async def intend(self, order: Order) -> Order:
        return await self.inner.intend(order)

    async def turn(self, service: str, account: str, pacing: Pacing, now: datetime) -> Turn:
        return await self.inner.turn(service, account, pacing, now)

    async def begin(self, permission: Permission) -> Attempt:
        try:
            return assert_type(await self.inner.begin(permission), Attempt)
        except OrderChanged as answer:
            assert_type(answer.order, Order)
            raise
        except MustWait as answer:
            assert_type(answer.turn, Turn)
            raise

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        return await self.inner.settle(ref, n, evidence)

    async def settle_mark(self, ref: OrderRef, mark: str, evidence: Evidence) -> Order | None:
        return await self.inner.settle_mark(ref, mark, evidence)

    async def confirm(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        return await self.inner.confirm(ref, n, evidence)

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        return await self.inner.close_order(ref, closing, states)

    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        return await self.inner.adopt(ref, attempt, states)

    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        return await self.inner.get(ref, now)

    async def owner(self, ref: OrderRef, task_id: str) -> OrderRef | None:
        return await self.inner.owner(ref, task_id)

    async def record(self, service: str, results: Iterable[TaskResult]) -> None:
        await self.inner.record(service, results)

    async def list(
        self,
        service: str,
        account: str,
        now: datetime,
        *,
        states: Collection[OrderState] | None = None,
        is_terminal: bool | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[Order]:
        return await self.inner.list(
            service,
            account,
            now,
            states=states,
            is_terminal=is_terminal,
            since=since,
            after=after,
            limit=limit,
            newest_first=newest_first,
        )

    async def running(self, service: str, account: str, *, after: int = 0, shard: Shard | None = None) -> RunningPage:
        page = await self.inner.running(service, account, after=after, shard=shard)
        assert_type([task.accepted_at for task in page.tasks], list[datetime])
        return page

    async def aclose(self) -> None:
        await self.inner.aclose()


def a_client() -> Client:
    return Client(
        "key",
        base_url="https://h/openapi/v1",
        transport=Counting(DirectTransport(trust_env=True)),
        journal=Watched(MemoryJournal()),
        poll_interval=60,
        timeouts=Timeouts(connect=5, read=None),
        account="studio",
        namespace="heron",
        max_connections=20,
        pacing=Pacing(limit=50, max_wait=30),
        retry_reads_for=30,
    )


def on_a_cassette() -> Client:
    return Client("key", base_url="http://127.0.0.1/openapi/v1", transport=on_cassette("boat.json", "record"))


def a_client_for_tests() -> Client:
    async def answer(request: Request) -> BufferedResponse:
        assert_type(request.op, str)
        return BufferedResponse(200, b'{"models": []}', headers=make_headers({"Content-Type": "application/json"}))

    return Client("key", base_url="http://127.0.0.1/openapi/v1", transport=FakeTransport(answer))


async def look_around(client: Client) -> CatalogModel:
    catalog = await client.models.list()
    assert_type(catalog, Catalog)
    assert_type(catalog.usable, tuple[CatalogModel, ...])
    assert_type([model.max_reference_images for model in catalog], list[int | None])
    account = await client.account.get()
    assert_type(account, Account)
    assert_type(account.balance, float | None)
    model = catalog["vendorh3"]
    assert_type(model.durations, tuple[int, ...])
    return model


async def upload(client: Client, file: BinaryIO, stream: io.BytesIO) -> list[str]:
    kinds = [
        await client.files.upload("hero.png"),
        await client.files.upload(Path("hero.png")),
        await client.files.upload(b"\x89PNG"),
        await client.files.upload(file),
        await client.files.upload(stream),
        await client.files.upload("data:image/png;base64,iVBORw0KGgo="),
    ]
    assert_type(kinds, list[ReferenceAsset])
    assert_type(kinds[0].url, str | None)
    return [asset.image_id for asset in kinds]


async def create(client: Client, image_ids: list[str]) -> list[Receipt]:
    heard: list[str] = []

    def note(receipt: Receipt) -> None:
        heard.append(receipt.task_id)

    async def keep(receipt: Receipt) -> None:
        heard.append(receipt.task_id)

    assert_type(await client.videos.create(model="vendorh3", prompt="…", duration=8, image_ids=image_ids), Receipt)
    request = VideoRequest(model="vendorh3", prompt="…", image_ids=image_ids, ratio="9:16", extra={"seed": 7})
    fields: VideoFields = {"model": "vendorh3", "prompt": "…", "reference_images": [{"url": "https://h/a.png"}]}
    first = await client.videos.create(request, order_id="order-1187", on_receipt=note)
    second = await client.videos.create(order_id="order-1188", on_receipt=keep, **fields)
    form: dict[str, Any] = {"model": "vendorh3", "prompt": "…"}
    assert_type(await client.videos.check(**form), RequestCheck)
    # A value that the description does not list.
    await client.videos.create(model="m", prompt="p", resolution="1080p", extra={"ratio": "21:9"}, validate=False)
    images: list[ImageSource] = [Path("a.png"), "b.png", b"data", bytearray()]
    await client.videos.create(model="m", prompt="p", local_images=images, on_progress=lambda stage, _: None)
    assert_type(await client.orders.resume("order-1187"), Receipt)
    assert_type(first.accepted_at + timedelta(days=1), datetime)
    return [first, second]


async def wait(client: Client, receipts: list[Receipt]) -> list[VideoTask]:
    task = await client.videos.wait(receipts[0], timeout=None)
    assert_type(task, VideoTask)
    assert_type(await client.videos.get(task), VideoTask)
    assert_type(task.created_at, datetime | None)
    changes = client.videos.watch("task-1", timeout=60)
    assert_type(changes, AsyncGenerator[VideoTask, None])
    async for change in changes:
        assert_type(change.points, int | None)
        assert_type(change.is_terminal, bool)
    ended: list[VideoTask] = []
    async for outcome in client.videos.as_completed(["task-2", receipts[1], task]):
        assert_type(outcome, Outcome)
        assert_type(outcome.task_id, str)
        ended.append(outcome.unwrap())
    async for saved in client.videos.download_many(ended, to=lambda outcome: f"{outcome.order_id}.mp4"):
        assert_type(saved.path, Path | None)
    async for outcome in client.videos.rewatch(timeout=None, shard=(0, 3)):
        assert_type(outcome.order_id, str | None)
    for order in await client.orders.list(is_terminal=False):
        assert_type(order.unclear, tuple[Attempt, ...])
        assert_type(order.results, tuple[TaskResult, ...])
        assert_type(order.decisions, tuple[Decision, ...])
    assert_type(client.watcher.stats.polls, int)
    return ended


async def save(client: Client, task: VideoTask) -> bytes:
    def progress(received: int, total: int | None) -> None:
        assert_type((received, total), tuple[int, int | None])

    assert_type(await client.videos.download(task, "hero.mp4"), Path)
    await client.videos.download(task.id, Path("hero.mp4"), on_progress=progress, timeout=600)
    pieces: list[bytes] = []
    async with client.videos.stream(task, range="bytes=0-") as video:
        assert_type(video.status, int)
        assert_type(dict(video.headers), dict[str, str])
        async for piece in video.chunks():
            pieces.append(piece)  # noqa: PERF401 - as a proxy would hand it on
    return b"".join(pieces)


async def generate(client: Client) -> VideoTask:
    async def show(task: VideoTask) -> None:
        assert_type(task.status, TaskStatus | None)

    states: list[TaskStatus | None] = []
    await client.videos.generate(VideoRequest(model="m", prompt="p"), on_update=lambda task: states.append(task.status))
    return await client.videos.generate(model="m", prompt="p", to=Path("x.mp4"), on_update=show, order_id="order-1189")


def describe(task: VideoTask) -> str:
    if task.status == "completed":
        return task.video_url or "no video"
    if task.status in ("queued", "running"):
        return f"wait: {task.status}"
    if str(task.status) == "expired":  # a state that the description does not name
        return "expired"
    return task.failure_reason or "failed" if task.status == "failed" else f"unknown: {task.status}"


def choose(ratio: Ratio | None, resolution: Resolution) -> VideoRequest:
    return VideoRequest(model="vendorh3", prompt="…", ratio=ratio, resolution=resolution)


def without_an_event_loop(receipt: Receipt) -> None:
    with ClientThread(lambda: Client(journal="sqlite:///orders.db"), grace=60) as thread:
        assert_type(thread.call(lambda client: client.videos.wait(receipt), timeout=10), VideoTask)


async def decide(client: Client) -> None:
    assert_type(await client.orders.list("uncertain"), list[Order])
    assert_type(await client.orders.list(OrderState.UNCERTAIN), list[Order])
    assert_type(await client.orders.get("order-1187"), Order)
    uncertain = await client.orders.list([OrderState.UNCERTAIN, "sending"])
    assert_type(uncertain, list[Order])
    for order in uncertain:
        assert_type(order.state, OrderState)
        assert_type(order.attempts, tuple[Attempt, ...])
        assert_type(order.receipt, Receipt | None)
    assert_type(await client.orders.adopt("order-1187", "task-1", reason="seen in the account", by="ada"), Receipt)
    assert_type(await client.orders.resend("order-1188", expect_attempt=1, reason="no charge", by="ada"), Receipt)
    assert_type(await client.orders.abandon("order-1189", "no longer wanted"), Order)
    assert_type(await client.orders.withdraw("order-1190"), Order)


async def ordered(client: Client, request: VideoRequest) -> Receipt | None:
    try:
        return await client.videos.create(request)
    except InvalidRequestError as error:
        assert_type(error.problems, tuple[str, ...])
    except RateLimitError as error:
        assert_type(error.retry_after, float | None)
    except (InsufficientCreditsError, AuthenticationError) as error:
        assert_type(error.status, int)
    except (NotSentError, RejectedError, UncertainCreateError, OrderConflictError) as error:
        assert_type(error.order_id, str)
    except CreateError as error:
        assert_type(error.idempotency_key, str)
    return None


async def guarded(client: Client, call: Callable[[Client], Awaitable[VideoTask]]) -> VideoTask | None:
    try:
        return await call(client)
    except OrderStateError as error:
        assert_type(error.state, OrderState | None)
    except (TaskFailedError, WaitTimeoutError) as error:
        return error.task
    except DownloadError as error:
        assert_type(error.received, int)
    except ServiceError as error:
        assert_type((error.code, error.request_id), tuple[str | None, str | None])
    except TransportError as error:
        assert_type(error.delivery is Delivery.NOT_SENT, bool)
    except VidgenError as error:
        assert_type(str(error), str)
    return None


def kept(task: VideoTask) -> Any:
    """What the description does not name is there, untyped."""
    return task.extra["thumbnail"]

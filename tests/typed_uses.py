"""Uses of the public surface that are only type-checked: what users write must pass a strict checker."""

from datetime import datetime
from pathlib import Path
from typing import assert_type

from vidgen_async import (
    Account,
    Catalog,
    Client,
    Outcome,
    Pacing,
    Receipt,
    ReferenceAsset,
    RejectedError,
    RequestCheck,
    Timeouts,
    UncertainCreateError,
    VideoRequest,
    VideoTask,
)
from vidgen_async.blocking import ClientThread
from vidgen_async.cassette import Mode
from vidgen_async.clock import Clock
from vidgen_async.journal import MemoryJournal
from vidgen_async.pytest_plugin import VidgenCassette
from vidgen_async.transports import (
    BufferedResponse,
    DirectTransport,
    Request,
    Response,
    Transport,
    WrappingTransport,
)
from vidgen_async.types import ImageSource
from vidgen_async.types.orders import Order, OrderState


class LoggingTransport(WrappingTransport):
    """A transport of a user's own."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.log: list[str] = []

    async def prepare(self, request: Request) -> Request:
        self.log.append(request.op)
        return request

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        self.log.append(f"{request.op} {response.status}")
        return response


async def uses(receipts: list[Receipt]) -> None:
    client = Client(
        "key",
        base_url="https://h/openapi/v1",
        transport=LoggingTransport(DirectTransport(trust_env=True)),
        journal=MemoryJournal(),
        timeouts=Timeouts(connect=5, read=None),
        pacing=Pacing(limit=50, max_wait=30),
    )
    async with client:
        assert_type(await client.models.list(), Catalog)
        assert_type(await client.account.get(), Account)
        assert_type(await client.videos.check(model="vendorh3", prompt="…"), RequestCheck)
        assert_type(await client.orders.resume("order-1187"), Receipt)
        asset = await client.files.upload(Path("hero.png"))
        assert_type(asset, ReferenceAsset)
        receipt = await client.videos.create(
            model="vendorh3", prompt="…", duration=8, ratio="9:16", image_ids=[asset.image_id], order_id="order-1187"
        )
        assert_type(receipt, Receipt)
        assert_type(receipt.accepted_at, datetime)
        await client.videos.create(VideoRequest(model="m", prompt="p", extra={"seed": 7}))
        await client.videos.create(model="m", prompt="p", duration="8")  # type: ignore[arg-type]
        await client.videos.create(model="m", promt="p")  # type: ignore[call-arg]
        images: list[ImageSource] = [Path("a.png"), "b.png", b"data", bytearray(), asset]
        assert_type(images, list[ImageSource])
        await client.videos.create(model="m", prompt="p", local_images=images, on_progress=lambda stage, _: None)
        await client.videos.create(model="m", prompt="p", local_images=[7])  # type: ignore[list-item]
        task = await client.videos.wait(receipt, timeout=None)
        assert_type(task, VideoTask)
        async for change in client.videos.watch("task-1"):
            assert_type(change.points, int | None)
        async for outcome in client.videos.as_completed(receipts):
            assert_type(outcome, Outcome)
            assert_type(outcome.unwrap(), VideoTask)
        assert_type(await client.videos.download(task, "hero.mp4"), Path)
        async for saved in client.videos.download_many([outcome], to=lambda outcome: f"{outcome.order_id}.mp4"):
            assert_type(saved.path, Path | None)
        async with client.videos.stream(task, range="bytes=0-") as video:
            assert_type(video.status, int)
            async for piece in video.chunks():
                assert_type(piece, bytes)
        assert_type(await client.orders.list([OrderState.UNCERTAIN, "sending"]), list[Order])
        await client.orders.resend("order-1187", expect_attempt=1, reason="the account shows no charge")
        try:
            await client.videos.generate(model="m", prompt="p", to="x.mp4", on_update=lambda seen: None)
        except RejectedError as error:
            assert_type(error.order_id, str)
        except UncertainCreateError as error:
            assert_type(error.message, str)


def without_an_event_loop(receipt: Receipt) -> None:
    with ClientThread(lambda: Client(journal="sqlite:///orders.db"), grace=60) as thread:
        assert_type(thread.call(lambda client: client.videos.wait(receipt), timeout=10), VideoTask)


def a_response_of_ones_own() -> Response:
    return BufferedResponse(200, b"{}")


async def on_a_cassette(vidgen_cassette: VidgenCassette, vidgen_client: Client) -> None:
    assert_type(vidgen_cassette.mode, Mode)
    assert_type(vidgen_cassette.path, Path)
    assert_type(vidgen_cassette.base_url, str)
    assert_type(vidgen_cassette.clock, Clock)
    transport: Transport = vidgen_cassette.transport
    await Client(vidgen_cassette.api_key, base_url=vidgen_cassette.base_url, transport=transport).aclose()

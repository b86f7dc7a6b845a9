"""A replay: complete orders, without a network and without a durable journal."""

import asyncio
import gc
import io
import os
import socket
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest
from attrs import define

from tests.cassette.recording_harness import (
    BASE,
    KEY,
    Timed,
    ask,
    client_on,
    counting,
    in_turn,
    interactions_of,
    noise,
    post,
    read,
    record,
    says,
    task,
    twice,
    video,
)
from tests.media.conftest import Holding
from tests.media.sites import RangeHost, site, to
from tests.media.sites import video as made_video
from vidgen_async import Client
from vidgen_async.cassette import Cassette, Document, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.document import write
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    BodyError,
    CassetteUnusedError,
    ConfigurationError,
    TransportClosedError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Sandbox
from vidgen_async.transports import (
    AppendingTransport,
    BufferedResponse,
    DirectTransport,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
)
from vidgen_async.types.http import Delivery, Request, make_headers

WHEN = datetime(2026, 11, 27, 21, 35, 24, tzinfo=UTC)
PICTURE = Path(__file__).resolve().parents[2] / "examples" / "boat.png"


@pytest.fixture
def no_network(monkeypatch):
    """From now on, opening a socket or resolving a name fails the test."""

    class Refused(socket.socket):
        def __new__(cls, *_: object, **__: object):
            pytest.fail("a socket was made in a replay")

    def forbid():
        monkeypatch.setattr(socket, "socket", Refused)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up in a replay"))
        monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("a connection in a replay"))

    return forbid


# -- no network --------------------------------------------------------------------------------------------------------


async def journey(client: Client, folder: Path, picture: bytes) -> dict[str, object]:
    """One call of each kind."""
    catalog = await client.models.list()
    balance = (await client.account.get()).balance
    asset = await client.files.upload(picture)
    receipt = await client.videos.create(
        model="vendorh3", prompt="a boat", duration=1, image_ids=[asset.image_id], order_id="order-1"
    )
    done = await client.videos.wait(receipt)
    saved = await client.videos.download(done, folder / "boat.mp4")
    ranges = []
    for wanted in (None, "bytes=0-99", "bytes=100-", "bytes=99999999-"):
        try:
            async with client.videos.stream(done, range=wanted) as video:
                body = b"".join([piece async for piece in video.chunks(1000)])
                ranges.append((video.status, sorted(video.headers.items()), body))
        except Exception as error:  # noqa: BLE001 - it is compared
            ranges.append((type(error), str(error)))
    order = await client.orders.get("order-1")
    return {
        "catalog": [model.code for model in catalog],
        "balance": balance,
        "task": receipt.task_id,
        "status": done.status,
        "video": saved.read_bytes(),
        "ranges": ranges,
        "order": (str(order.state), order.receipt.task_id),
    }


@pytest.mark.slow
async def test_an_order_is_replayed_from_create_to_download_without_a_network(path, tmp_path, no_network):
    picture = PICTURE.read_bytes()
    async with Sandbox(api_key=KEY, queued_for=0, running_for=0.1) as service:
        service.change_model("vendorh3", durations=(1,))
        recording = RecordingTransport(DirectTransport(), path)
        async with client_on(recording, base=service.base_url, poll_interval=0.05) as client:
            live = await journey(client, tmp_path, picture)
    (tmp_path / "boat.mp4").unlink()
    no_network()
    replay = ReplayTransport(path)

    async with client_on(replay, poll_interval=60) as client:
        played = await journey(client, tmp_path, picture)

    assert {name: played[name] for name in played if name != "ranges"} == {
        name: live[name] for name in live if name != "ranges"
    }
    assert [found[0] for found in played["ranges"]] == [found[0] for found in live["ranges"]]
    assert [found[-1] for found in played["ranges"][:3]] == [found[-1] for found in live["ranges"][:3]]
    assert played["ranges"][0][2] == live["video"]
    replay.check()


# -- journals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ReplayTransport, lambda at: AppendingTransport(counting(), at)])
async def test_a_transport_that_replays_creates_refuses_a_durable_journal(path, tmp_path, kind):
    await record(path, counting(), [post({"prompt": "a boat"})])

    with pytest.raises(ConfigurationError, match="must not write into a durable journal"):
        Client(KEY, base_url="https://h/openapi/v1", transport=kind(path), journal=f"sqlite:///{tmp_path}/orders.db")

    assert not (tmp_path / "orders.db").exists()


async def test_a_replay_stores_its_orders_in_memory_whatever_the_environment_names(path, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")
    await record(path, counting(), [ask()])

    async with client_on(ReplayTransport(path)) as client:
        assert not client._view.shared.journal.durable
    async with client_on(ReplayTransport(path), journal=MemoryJournal()):
        pass

    assert not (tmp_path / "orders.db").exists()


# -- a download that breaks off ----------------------------------------------------------------------------------------


async def test_a_download_that_was_resumed_is_resumed_in_a_replay(path, tmp_path):
    data = made_video(200_000)
    host = RangeHost(data, cuts=[70_000, 50_000])

    async def program(client):
        return (await client.videos.download("task-1", tmp_path / "x.mp4")).read_bytes()

    async with site(host) as there, site(to(str(there.url("/v.mp4?sig=signature")))) as service:
        held = Holding(DirectTransport(), VirtualClock())
        live, played = await twice(path, held, program, base=service.url("/openapi/v1"))

    assert live == played == data
    ranges = [line for one in interactions_of(path) for line in one["request"].get("headers", ()) if "range: b" in line]
    assert len(ranges) >= 2


# -- virtual time: it passes only when all tasks wait ----------------------------------------------------------------


def long_cassette(path: Path, polls: int) -> None:
    """A cassette of polls, of which only the last one has a completed task."""
    interactions = [
        Interaction(
            n=n,
            op="videos.get",
            request=RecordedRequest("GET", str(ask().url)),
            status=200,
            body={"json": {"id": "task-1", "status": "running" if n < polls else "completed"}},
        )
        for n in range(1, polls + 1)
    ]
    path.write_text(write(Document(Meta(WHEN, "by hand", BASE), tuple(interactions))), "utf-8")


async def test_virtual_time_stops_while_a_thread_writes_a_download(path, tmp_path, monkeypatch):
    data = made_video(3 << 20)

    async def handle(_: Request) -> BufferedResponse:
        return video(data)

    async with client_on(RecordingTransport(Timed(FakeTransport(handle)), path)) as client:
        await client.videos.download("task-1", tmp_path / "live.mp4")
    real = os.fsync

    def slowly(descriptor: int) -> None:
        time.sleep(0.02)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slowly)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        alarm = asyncio.ensure_future(replay.clock.sleep(0.001))
        await client.videos.download("task-1", tmp_path / "played.mp4")
        saved_at = replay.clock.now()
        await alarm

    assert (tmp_path / "played.mp4").stat().st_size == len(data)
    assert saved_at == 0


async def test_virtual_time_stops_while_an_image_is_read(path):
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            time.sleep(0.05)
            return super().read(size)

    picture = b"\x89PNG\r\n\x1a\n" + bytes(2000)
    answer = {"id": "asset-1", "image_id": "image-1", "url": "/x"}
    async with client_on(RecordingTransport(Timed(in_turn(says(answer))), path)) as client:
        await client.files.upload(picture)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        alarm = asyncio.ensure_future(replay.clock.sleep(0.001))
        await client.files.upload(Slow(picture))
        uploaded_at = replay.clock.now()
        await alarm

    assert uploaded_at == 0


@pytest.mark.slow
async def test_a_long_body_is_read_in_a_thread_and_virtual_time_stops_while_it_is_received(path, monkeypatch):
    data = bytes(4 << 20)
    cassette = Cassette(path, largest_blob=len(data))
    answer = BufferedResponse(200, data, headers=make_headers({"Content-Type": "video/mp4"}))
    await record(cassette, in_turn(answer), [ask()])
    replay = ReplayTransport(cassette)
    alarm = asyncio.ensure_future(replay.clock.sleep(0.001))
    readers, real = [], Path.read_bytes

    def slowly(path: Path) -> bytes:
        readers.append(threading.current_thread())
        time.sleep(0.02)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", slowly)

    assert await read(replay, ask()) == data

    assert replay.clock.now() == 0
    assert len(readers) == 1
    assert threading.main_thread() not in readers
    await alarm


# -- unused, closed ----------------------------------------------------------------------------------------------------


async def test_the_check_names_interactions_that_were_not_replayed(path):
    await record(path, counting(), [ask(), ask("/account"), ask("/models")])
    replay = ReplayTransport(path)
    await read(replay, ask("/account"))

    with pytest.raises(CassetteUnusedError) as caught:
        replay.check()

    assert [one.n for one in replay.unused] == [1, 3]
    assert len(caught.value.unused) == 2
    assert str(ask().url) in str(caught.value)
    assert str(ask("/account").url) not in str(caught.value)
    replay.check(allow_unused=True)


async def test_a_closed_replay_refuses_new_requests_and_ends_pending_ones(path):
    data = noise(512_000)
    await record(path, in_turn(says(data, Content_Type="video/mp4")), [ask()])
    replay = ReplayTransport(path)
    response = await replay.send(ask())
    pieces = response.chunks(1000)
    await anext(pieces)

    await replay.aclose()
    await replay.aclose()

    with pytest.raises(TransportClosedError) as caught:
        await replay.send(ask())
    assert caught.value.delivery is Delivery.NOT_SENT
    with pytest.raises(BodyError):
        async for _ in pieces:
            pass


# -- speed, counted ----------------------------------------------------------------------------------------------------


@define
class Work:
    """The number of function calls within the block."""

    calls: int = 0

    def __enter__(self) -> Self:
        gc.collect()
        gc.disable()  # what others left behind is not this work
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _count(self, _: object, event: str, __: object) -> None:
        self.calls += event == "call"


async def work_of(replay: ReplayTransport, request: Request, times: int) -> int:
    """The number of function calls for so many replayed responses."""
    with Work() as work:
        for _ in range(times):
            async with await replay.send(request) as response:
                await response.read()
    return work.calls


@pytest.mark.needs_dev
async def test_the_work_for_a_response_does_not_grow_with_the_cassette(path):
    work = {}
    for polls in (60, 300):
        long_cassette(path, polls)
        replay = ReplayTransport(path)
        await work_of(replay, ask(), 20)
        work[polls] = await work_of(replay, ask(), 20)

    assert work[300] == work[60] < 20 * 70


async def test_an_equal_poll_is_recorded_with_few_calls(path):
    transport = RecordingTransport(FakeTransport(completed), path)
    request = ask()
    await read(transport, request)
    with Work() as work:
        for _ in range(50):
            await read(transport, request)
    await transport.aclose()

    assert work.calls < 50 * 210
    assert len(interactions_of(path)) == 51


async def completed(_: Request) -> BufferedResponse:
    return task(
        "completed", video_url="https://cdn.test/1.mp4?exp=1798761600&sig=abcdefgh12345678", failure_reason=None
    )


@pytest.mark.needs_dev
async def test_the_work_of_loading_is_linear_in_the_cassette(path):
    work = {}
    for polls in (100, 200, 400):
        long_cassette(path, polls)
        with Work() as loading:
            ReplayTransport(path)
        work[polls] = loading.calls

    assert work[400] - work[200] <= 2.05 * (work[200] - work[100])
    assert work[400] < 400 * 60

"""The whole path in one call, and what holds when it stops half way."""

import asyncio
from pathlib import Path

import av
import pytest

from vidgen_async import Client, VideoRequest, WaitTimeoutError
from vidgen_async.errors import DownloadError
from vidgen_async.sandbox import Sandbox

PICTURE = Path(__file__).resolve().parents[2] / "examples" / "boat.png"
FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


@pytest.mark.slow
@pytest.mark.usefixtures("full_size_videos")
async def test_a_prompt_and_a_picture_become_a_video_on_disk(client, service, tmp_path):
    picture = await client.files.upload(PICTURE)
    seen = []
    request = VideoRequest(
        model="vendorh3", prompt="A paper boat", duration=6, ratio="9:16", image_ids=[picture.image_id]
    )

    task = await client.videos.generate(
        request,
        to=tmp_path / "boat.mp4",
        order_id="order-1187",
        on_receipt=lambda receipt: seen.append(receipt.order_id),
        on_update=lambda task: seen.append(task.status),
    )

    assert (seen[0], seen[-1], task.points) == ("order-1187", "completed", 15)
    assert len(service.creates) == 1
    with av.open(str(tmp_path / "boat.mp4")) as video:
        stream = video.streams.video[0]
        assert video.duration / av.time_base == pytest.approx(6, abs=0.2)
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 768, 1366)


async def test_without_a_target_nothing_is_downloaded_and_hooks_may_be_async(client, service):
    seen = []

    async def on_update(task):
        seen.append(task.status)

    task = await client.videos.generate(**FIELDS, on_update=on_update)

    assert task.status == seen[-1] == "completed"
    assert not [request for request in service.requests if request.op == "videos.content"]


async def test_a_target_that_cannot_be_written_is_told_before_anything_is_spent(client, service, tmp_path):
    with pytest.raises(DownloadError, match="no-such-folder"):
        await client.videos.generate(**FIELDS, to=tmp_path / "no-such-folder" / "x.mp4")
    assert service.creates == []


@pytest.mark.usefixtures("small_videos")
async def test_a_wait_that_is_given_up_goes_on_by_the_same_order_id_without_a_second_post(tmp_path):
    async with (
        Sandbox(queued_for=1000) as service,
        Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as client,
    ):
        with pytest.raises(WaitTimeoutError, match="is still running and is charged"):
            await client.videos.generate(**FIELDS, order_id="o", timeout=0.2)
        service.clock.advance(2000)
        task = await client.videos.generate(**FIELDS, order_id="o", to=tmp_path / "x.mp4")
    assert task.status == "completed"
    assert len(service.creates) == 1


async def test_a_cancelled_generate_leaves_the_order_and_the_target_as_they_were(tmp_path):
    target = tmp_path / "x.mp4"
    target.write_bytes(b"what stood here before")
    async with (
        Sandbox(queued_for=1000) as service,
        Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as client,
    ):
        ordered = asyncio.Event()
        worker = asyncio.ensure_future(
            client.videos.generate(**FIELDS, order_id="o", to=target, on_receipt=lambda _: ordered.set())
        )
        await ordered.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert (await client.orders.get("o")).state == "accepted"
    assert target.read_bytes() == b"what stood here before"
    assert len(service.creates) == 1


@pytest.mark.rule("1 bullet 5", "4.6 response 206", side="sdk")
async def test_a_stream_may_outlive_the_code_that_opened_it(client, service):
    receipt = await client.videos.create(**FIELDS)
    changes = []
    await client.videos.wait(receipt, timeout=20, on_update=changes.append, first_poll_after=0.01)

    async def open_stream():
        return await client.videos.open_stream(receipt, range="bytes=0-99")

    video = await open_stream()
    try:
        assert (video.status, len(b"".join([piece async for piece in video.chunks()]))) == (206, 100)
    finally:
        await video.aclose()
    assert changes[-1].status == "completed"


async def test_what_its_hooks_raise_is_logged_and_the_paid_video_is_saved_all_the_same(client, tmp_path, caplog):
    def broken(receipt_or_task):
        raise BrokenPipeError

    async def cancelled(task):
        raise asyncio.CancelledError

    for number, hook in enumerate((broken, cancelled)):
        target = tmp_path / f"{number}.mp4"
        task = await client.videos.generate(**FIELDS, on_receipt=hook, on_update=hook, to=target)
        assert task.status == "completed"
        assert target.stat().st_size > 0
    assert {record.event_name for record in caplog.records if hasattr(record, "hook")} == {
        "hook.failed",
        "hook.cancelled",
    }

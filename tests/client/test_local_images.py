"""Local images of an order: uploaded once, compared by their content, and never sent under that name (2.4, rule 1)."""

import asyncio
import base64
import copy
import hashlib
import io
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.media.test_upload import KINDS, PNG
from tests.transports.sending import until
from vidgen_async import (
    Client,
    InvalidRequestError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    RejectedError,
    UncertainCreateError,
    VideoRequest,
)
from vidgen_async.clock import LoopClock
from vidgen_async.errors import (
    ClientStateError,
    ConnectError,
    InvalidReferenceImageError,
    ReferenceAssetExpiredError,
    TransportClosedError,
)
from vidgen_async.media import local_images
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import Connection, DirectTransport, WrappingTransport
from vidgen_async.types.http import Delivery, Phase, Request

pytestmark = pytest.mark.slow

JPEG = KINDS["image/jpeg"]
FIELDS = {"model": "vendorh3", "prompt": "a paper boat", "duration": 5}


@pytest.fixture
def hero(tmp_path) -> Path:
    path = tmp_path / "hero.png"
    path.write_bytes(PNG)
    return path


def received(service: Sandbox) -> list[str]:
    """The uploads and creates, in order."""
    return [request.op for request in service.requests if request.method == "POST"]


@pytest.mark.rule("2.4 rule 1", "2.4 field image_ids", side="sdk")
async def test_local_images_of_every_form_are_uploaded_in_order_and_sent_as_image_ids(client, service, hero):
    asset = await client.files.upload(JPEG)
    uri = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    forms = [hero, str(hero), PNG, bytearray(PNG), memoryview(PNG), io.BytesIO(PNG), uri]
    service.requests.clear()

    await client.videos.create(**FIELDS, image_ids=[asset], local_images=[JPEG, asset], order_id="a")
    await client.videos.create(VideoRequest(**FIELDS), local_images=forms, order_id="b")

    first, second = (create.body["image_ids"] for create in service.creates)
    contents = {each.id: each.content for each in service.assets}
    assert (first[0], contents[first[1]], first[2]) == (asset.image_id, JPEG, asset.image_id)
    assert [contents[each] for each in second] == [PNG] * len(forms)
    assert received(service) == ["files.create", "videos.create", *["files.create"] * len(forms), "videos.create"]
    assert all("local_images" not in create.body for create in service.creates)


async def test_the_same_call_after_a_restart_makes_no_upload_and_no_create(restarted, service, hero):
    forms = [[hero, JPEG], [f"data:image/png;base64,{base64.b64encode(PNG).decode()}", io.BytesIO(JPEG)]]
    async with restarted() as client:
        receipt = await client.videos.create(**FIELDS, local_images=forms[0], order_id="o")
        stored = (await client.orders.get("o")).local_images
    assert list(stored.values()) == [hashlib.sha256(data).hexdigest() for data in (PNG, JPEG)]
    service.requests.clear()

    for images in forms:
        async with restarted() as client:
            again = await client.videos.create(**FIELDS, local_images=images, order_id="o")
            by_ids = await client.videos.create(**FIELDS, image_ids=list(stored), order_id="o")
            by_both = await client.videos.create(
                **FIELDS, image_ids=list(stored)[:1], local_images=[JPEG], order_id="o"
            )
            assert again == by_ids == by_both == receipt
    assert service.requests == []


@pytest.mark.parametrize("state", ["accepted", "uncertain", "rejected", "not sent"])
async def test_other_images_under_a_known_order_id_are_a_conflict_before_any_connection(
    restarted, service, hero, state
):
    await prepare(restarted, service, hero, state)
    other = [[JPEG], [hero, hero], [hero, JPEG], [], None]
    async with restarted() as client:
        for images in other:
            with pytest.raises(OrderConflictError, match="other images" if images else "different request"):
                await client.videos.create(**FIELDS, local_images=images, order_id="o", validate=False)
        with pytest.raises(OrderConflictError, match="different request"):
            await client.videos.create(**FIELDS | {"prompt": "b"}, local_images=[hero], order_id="o", validate=False)
    assert service.requests == []


class Unreachable(WrappingTransport):
    """The service cannot be reached for creates."""

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        raise ConnectError("refused", delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)
        yield


class NoPauses(LoopClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def prepare(restarted: Callable[..., Client], service: Sandbox, hero: Path, state: str) -> str:
    """Store the order "o" in this state. Return the id of its image."""
    options = {"transport": Unreachable(DirectTransport()), "clock": NoPauses()} if state == "not sent" else {}
    faults = {"uncertain": Fault.status(503), "rejected": Fault.status(402)}
    if state in faults:
        service.faults.add("videos.create", faults[state])
    async with restarted(**options) as client:
        with suppress(UncertainCreateError, RejectedError, NotSentError):
            await client.videos.create(**FIELDS, local_images=[hero], order_id="o")
        order = await client.orders.get("o")
    assert order.state == {"not sent": "queued"}.get(state, state)
    assert received(service) == ["files.create", "videos.create"][: 1 if state == "not sent" else 2]
    service.requests.clear()
    [image_id] = order.local_images
    return image_id


@pytest.mark.parametrize("state", ["rejected", "not sent"])
async def test_a_retry_of_an_order_without_a_task_sends_the_stored_body_and_uploads_nothing(
    restarted, service, hero, state
):
    image_id = await prepare(restarted, service, hero, state)
    async with restarted() as client:
        receipt = await client.videos.create(**FIELDS, local_images=[hero], order_id="o")
        assert (await client.orders.get("o")).receipt == receipt
    assert received(service) == ["videos.create"]
    assert service.creates[-1].body["image_ids"] == [image_id]


@pytest.mark.parametrize("state", ["accepted", "uncertain", "rejected", "not sent"])
@pytest.mark.parametrize("validate", [True, False])
async def test_a_known_order_whose_image_cannot_be_read_any_more_is_never_said_not_to_be_sent(
    restarted, service, hero, state, validate
):
    await prepare(restarted, service, hero, state)
    hero.unlink()
    async with restarted() as client:
        with pytest.raises(
            OrderStateError, match=r"local_images\[0\]: the file .*orders\.resume.*orders\.get"
        ) as caught:
            await client.videos.create(**FIELDS, local_images=[hero], order_id="o", validate=validate)
        assert caught.value.state == (await client.orders.get("o")).state
        assert f"it is {caught.value.state}." in str(caught.value)
        with pytest.raises(InvalidRequestError, match="does not exist"):
            await client.videos.create(**FIELDS, local_images=[hero], order_id="another", validate=validate)
    assert received(service) == []


@pytest.mark.rule("2.3 note retention", "7 error 400 REFERENCE_ASSET_EXPIRED", side="sdk")
async def test_a_retry_after_the_retention_is_rejected_and_asks_for_a_new_order_id(restarted, service, hero):
    image_id = await prepare(restarted, service, hero, "rejected")
    service.clock.advance(72 * 3600)
    async with restarted() as client:
        for _ in range(2):
            with pytest.raises(RejectedError, match=r"nothing was charged.*under a new order id") as caught:
                await client.videos.create(**FIELDS, local_images=[hero], order_id="o")
            assert isinstance(caught.value, ReferenceAssetExpiredError)
        assert received(service) == ["videos.create"] * 2
        assert service.creates[-1].body["image_ids"] == [image_id]
        await client.videos.create(**FIELDS, local_images=[hero], order_id="p")


# -- before the order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["cancelled", "closed"])
async def test_what_ends_during_an_upload_leaves_no_order_and_the_next_call_starts_anew(restarted, service, hero, end):
    service.faults.add("files.create", Fault.stall(), after=1)
    async with restarted() as client:
        create = client.videos.create(**FIELDS, local_images=[hero, JPEG], order_id="o")
        worker = asyncio.ensure_future(create)
        await until(lambda: service.faults.planned == [])
        assert await client.orders.list() == []  # this is what a process that is killed now leaves behind
        if end == "cancelled":
            worker.cancel()
        else:
            await client.aclose()
        with pytest.raises(asyncio.CancelledError if end == "cancelled" else TransportClosedError):
            await worker
    async with restarted() as client:
        assert await client.orders.find("o") is None
        assert service.creates == []
        await client.videos.create(**FIELDS, local_images=[hero, JPEG], order_id="o")
    assert received(service) == ["files.create"] * 4 + ["videos.create"]


async def test_a_client_that_was_closed_after_the_upload_orders_nothing(restarted, service, hero, monkeypatch):
    client = restarted()
    upload = local_images.LocalImages.upload

    async def upload_and_close(images: local_images.LocalImages) -> tuple[str, ...]:
        ids = await upload(images)
        await client.aclose()
        return ids

    monkeypatch.setattr(local_images.LocalImages, "upload", upload_and_close)
    with pytest.raises(ClientStateError):
        await client.videos.create(**FIELDS, local_images=[hero], order_id="o")
    assert received(service) == ["files.create"]


async def test_a_failed_upload_names_the_image_and_orders_nothing(client, service, hero):
    for images, name in (([JPEG, hero], f" ({str(hero)!r})"), ([hero, JPEG], "")):
        service.faults.add("files.create", Fault.status(400, {"code": "INVALID_REFERENCE_IMAGE"}), after=1)
        with pytest.raises(InvalidReferenceImageError) as caught:
            await client.videos.create(**FIELDS, local_images=images, order_id="o")
        message = (
            f"local_images[1]{name} was not uploaded, so nothing was ordered or charged: files.create: 400 INVALID"
        )
        assert str(caught.value).startswith(message)
        assert copy.copy(caught.value).message == caught.value.message
    assert await client.orders.find("o") is None
    assert service.creates == []


async def test_all_problems_are_reported_at_once_before_anything_is_uploaded(client, service, hero, tmp_path):
    (tmp_path / "notes.png").write_text("no image")
    images = [hero, "missing.png", tmp_path / "notes.png", "https://pics.test/a.png", "/api/reference-assets/a/x"]
    request = {**FIELDS, "duration": 99, "image_ids": ["asset-1"] * 6}
    starts = [
        "local_images[1]: the file 'missing.png' does not exist",
        "local_images[2]: the file",
        "local_images[3]: 'https://pics.test/a.png' is a URL, not a local image: pass it in image_urls",
        "local_images[4]: '/api/reference-assets/a/x' is a URL, not a local image",
        "duration: vendorh3 supports",
        "image_ids: 11 given; vendorh3 takes at most 8 reference images",
    ]
    with pytest.raises(InvalidRequestError) as caught:
        await client.videos.create(**request, local_images=images)
    check = await client.videos.check(**request, local_images=images)

    assert check.problems == caught.value.problems
    for problem, start in zip(check.problems, starts, strict=True):
        assert problem.startswith(start)
    assert received(service) == []


@pytest.mark.rule("2.1 field maxReferenceImages", "2.4 rule 4", side="sdk")
async def test_local_images_count_for_the_limits_of_the_model_before_they_are_uploaded(client, service, hero):
    assert (await client.videos.check(**FIELDS, local_images=[hero] * 8)).is_ok
    for count in (0, 9):
        with pytest.raises(InvalidRequestError, match=r"vendorh3 (takes at most 8|needs at least 1)"):
            await client.videos.create(**FIELDS, local_images=[hero] * count)
    with pytest.raises(InvalidRequestError, match="image_ids: must be a list, not str"):
        await client.videos.create(**FIELDS, image_ids="asset-1", local_images=[hero])
    assert received(service) == []


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("ids", [["asset-1"], 5, None])
async def test_image_ids_that_would_replace_the_uploaded_ones_are_refused_before_an_upload(
    client, service, hero, ids, validate
):
    for request in ({"extra": {"image_ids": ids}}, {"image_ids": "asset-1"}):
        with pytest.raises(InvalidRequestError, match="image_ids"):
            await client.videos.create(**FIELDS, **request, local_images=[hero, hero], order_id="o", validate=validate)
    assert received(service) == []


@pytest.mark.parametrize("thing", ["hero.png", b"", Path("hero.png"), io.BytesIO(), 0, [7]])
async def test_local_images_that_are_no_list_of_images_are_refused(client, service, thing):
    with pytest.raises(InvalidRequestError, match=r"local_images(: must be a list|\[0\]: must be a path), "):
        await client.videos.create(**FIELDS, local_images=thing)
    assert service.creates == []


@pytest.mark.parametrize("change", [lambda file: file.write_bytes(JPEG), Path.unlink], ids=["changed", "removed"])
async def test_a_file_that_changes_between_the_check_and_the_upload_is_not_uploaded(client, service, hero, change):
    def change_meanwhile(catalog: dict) -> dict:
        change(hero)
        return catalog

    service.faults.add("models.list", Fault.edit(change_meanwhile))
    with pytest.raises(InvalidRequestError, match=r"local_images\[1\]: the file .*(was changed|does not exist)"):
        await client.videos.create(**FIELDS, local_images=[JPEG, hero], order_id="o")
    assert received(service) == ["files.create"]
    assert await client.orders.find("o") is None


# -- concurrent calls ------------------------------------------------------------------------------------------------


async def test_concurrent_calls_of_a_client_and_its_views_upload_once_and_create_once(client, service, hero):
    views = [*[client] * 15, *(client.with_options(headers={"X-Request": str(n)}) for n in range(5))]
    calls = [view.videos.create(**FIELDS, local_images=[hero], order_id="o") for view in views]
    receipts = await asyncio.gather(*calls)
    assert {receipt.task_id for receipt in receipts} == {service.creates[0].task_id}
    assert received(service) == ["files.create", "videos.create"]


async def test_a_concurrent_call_whose_file_the_first_one_has_read_learns_of_the_order(client, service):
    file = io.BytesIO(PNG)
    calls = [client.videos.create(**FIELDS, local_images=[file], order_id="o") for _ in range(2)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    [error] = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert isinstance(error, OrderStateError)
    assert await client.orders.resume("o") in outcomes
    assert received(service) == ["files.create", "videos.create"]


async def test_a_caller_who_is_cancelled_during_the_upload_takes_no_other_caller_along(client, service, hero):
    def call() -> asyncio.Task:
        return asyncio.ensure_future(client.videos.create(**FIELDS, local_images=[hero], order_id="o"))

    service.faults.add("files.create", Fault.stall())
    gone = call()
    await until(lambda: service.faults.planned == [])
    stays = call()
    await asyncio.sleep(0)
    gone.cancel()
    receipt = await stays
    assert gone.cancelled()
    assert (await client.orders.get("o")).receipt == receipt
    assert received(service) == ["files.create", "files.create", "videos.create"]


async def test_two_processes_that_both_upload_the_images_of_an_order_get_one_receipt(restarted, service, hero):
    async with restarted() as one, restarted() as other:
        receipts = await asyncio.gather(
            *(client.videos.create(**FIELDS, local_images=[hero], order_id="o") for client in (one, other))
        )
        assert len({receipt.task_id for receipt in receipts}) == 1
        with pytest.raises(OrderConflictError):
            await other.videos.create(**FIELDS, local_images=[JPEG], order_id="o")
    assert len(service.creates) == 1


# -- progress --------------------------------------------------------------------------------------------------------


async def test_an_async_on_progress_is_refused_before_anything_is_sent(client, service, hero, tmp_path):
    async def report(*_: object) -> None: ...

    class Reporter:
        async def __call__(self, *_: object) -> None: ...

    for on_progress in (report, partial(report, 1), Reporter()):
        for call in (
            client.files.upload(hero, on_progress=on_progress),
            client.videos.create(**FIELDS, local_images=[hero], on_progress=on_progress),
            client.videos.generate(**FIELDS, local_images=[hero], on_progress=on_progress),
            client.videos.download("task-1", tmp_path / "a.mp4", on_progress=on_progress),
        ):
            with pytest.raises(TypeError, match="on_progress must not be async"):
                await call
    assert service.requests == []


async def test_generate_reports_one_progress_of_all_its_stages(client, service, hero, tmp_path):
    large = KINDS["image/bmp"] + bytes(200_000)
    service.faults.add("files.create", Fault.edit(lambda body: body))
    reports: list[tuple[str, float | None]] = []

    for number, images in enumerate(([large, hero], [])):
        reports.clear()
        await client.videos.generate(
            model="gen-2.0",
            prompt="a boat",
            duration=5,
            local_images=images,
            to=tmp_path / f"{number}.mp4",
            on_progress=lambda stage, fraction: reports.append((stage, fraction)),
        )

        stages = list(dict.fromkeys(stage for stage, _ in reports))
        expected = ["upload", "order", "download"] if images else ["order", "download"]
        assert [stage for stage in stages if stage not in ("queued", "running")] == expected
        for stage in ("upload", "download"):
            fractions = [fraction for each, fraction in reports if each == stage]
            assert fractions == sorted(fractions)
            assert fractions[-1:] == ([1.0] if stage in expected else [])
        assert {fraction for stage, fraction in reports if stage not in ("upload", "download")} == {None}


async def test_a_progress_callback_that_raises_is_logged_once_and_interrupts_nothing(client, service, hero, caplog):
    calls = []

    def broken(*progress: object) -> None:
        calls.append(progress)
        raise BrokenPipeError

    with caplog.at_level(logging.ERROR, "vidgen_async"):
        await client.videos.create(**FIELDS, local_images=[hero], on_progress=broken)
        await client.files.upload(hero, on_progress=broken)
    assert len(calls) == 2
    assert [record.hook for record in caplog.records] == ["on_progress"] * 2

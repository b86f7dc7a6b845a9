"""The rules of the description for clients, followed by the SDK: the requests to the service are the oracle."""

import asyncio
import json

import pytest
from yarl import URL

from tests.rules.catalog_snapshot import GOOD_FIELDS, IMAGE, PRICES, SNAPSHOT
from tests.rules.conftest import make_short
from tests.sandbox.conftest import picture
from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    InsufficientCreditsError,
    InvalidRequestError,
    ReferenceAssetExpiredError,
    RejectedError,
    TaskFailedError,
    UncertainCreateError,
)
from vidgen_async.sandbox import CatalogEntry, Fault
from vidgen_async.transports import BufferedResponse, FakeTransport

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat"}
HOURS = 3600.0
DAYS = 24 * HOURS

# -- the catalog and its prices (2.1) ----------------------------------------------------------------------------------


@pytest.mark.rule("1 bullet 2", "2.1 field", "2.1 model", "3 note usable", "9 bullet 2", side="sdk")
async def test_a_model_is_read_as_the_snapshot_describes_it(client, service):
    catalog = await client.models.list()

    for row in SNAPSHOT:
        model = catalog[row.code]
        assert model.name == service.models[row.code].name, row
        assert (model.enabled, model.maintenance) == (row.enabled, row.maintenance), row
        assert model.is_usable is (row.enabled and not row.maintenance), row
        assert (model.durations, model.resolutions) == (row.durations, (row.resolution,)), row
        limits = (model.max_reference_images, model.max_reference_audios, model.max_reference_videos)
        assert limits == (row.images, row.audios, row.videos), row


@pytest.mark.rule("2.1 unshown prices", "2.1 price", side="sdk")
@pytest.mark.parametrize(("code", "prices"), PRICES.items())
async def test_prices_keep_their_wire_names(client, code, prices):
    model = (await client.models.list())[code]

    assert model.extra == {"points": prices[0], "memberPoints": prices[1]}


@pytest.mark.rule("2.1 note live", "2.1 note own-price", "2.1 note no-guess", "2.5 field points", side="sdk")
async def test_a_charge_is_read_from_the_task_and_never_from_the_prices(client, service):
    await client.models.list()
    service.change_model("gen-2.0", points=33)

    receipt = await client.videos.create(**FIELDS)
    task = await client.videos.get(receipt)

    assert task.points == 33
    assert service.ledger[-1].points == -33


@pytest.mark.rule("1 bullet 2", "2.1 note live", "2.1 note new", "2.4 rule 5", "9 bullet 3", side="sdk")
async def test_the_catalog_is_always_the_live_one(client, service):
    before = await client.models.list()
    service.change_model("gen-2.5", enabled=True, maintenance=False, durations=(7,), max_reference_images=2)
    service.add_model(CatalogEntry(code="new-1", name="New", durations=(3,)))
    after = await client.models.list()

    model = after["gen-2.5"]
    assert not before["gen-2.5"].is_usable
    assert "new-1" not in before
    assert (model.is_usable, model.durations, model.max_reference_images) == (True, (7,), 2)
    assert after["new-1"].durations == (3,)


@pytest.mark.rule("1 bullet 8", "2.1 field name", side="sdk")
async def test_a_display_name_is_not_a_parameter(client, service):
    catalog = await client.models.list()
    name = catalog["gen-2.0"].name

    with pytest.raises(KeyError):
        catalog[name]
    with pytest.raises(InvalidRequestError, match="not available with this API key"):
        await client.videos.create(model=name, prompt="x")
    assert service.creates == []


@pytest.mark.rule(
    "2.1 field enabled", "2.1 field maintenance", "2.4 field model", "3 note usable", "4.4 response 503", side="sdk"
)
@pytest.mark.parametrize("state", [{"maintenance": True}, {"enabled": False}], ids=str)
async def test_a_model_that_cannot_be_used_is_not_ordered(client, service, state):
    service.change_model("gen-2.0", **state)

    with pytest.raises(InvalidRequestError, match="model"):
        await client.videos.create(**FIELDS)
    assert service.creates == []


# -- reference assets (2.3, 4.3) ---------------------------------------------------------------------------------------


@pytest.mark.rule(
    "1 bullet 4",
    "2.3 field",
    "2.3 note shape",
    "2.4 field image_ids",
    "4.3 body image_url",
    "4.3 response 200",
    side="sdk",
)
async def test_an_asset_is_used_by_its_id_and_opened_and_reused_by_its_url(client, service, api):
    asset = await client.files.upload(picture())

    await client.videos.create(**FIELDS, image_ids=[asset.image_id])
    opened = await api.get(asset.url, bare=True)
    again = await client.files.upload(asset.url)

    [task] = service.tasks.values()
    assert task.film.pictures == (asset.name,)
    assert (opened.status, opened.body) == (200, picture())
    assert again == asset
    assert (asset.id, asset.mime) == (asset.image_id, "image/png")
    assert URL(asset.url).path == f"/api/reference-assets/{asset.id}/content/{asset.name}"


@pytest.mark.rule(
    "2.3 note retention", "2.3 note gone", "7 error 400 REFERENCE_ASSET_EXPIRED", "8 limit retention", side="sdk"
)
async def test_an_asset_of_73_hours_must_be_uploaded_again(client, service):
    asset = await client.files.upload(picture())
    service.clock.advance(73 * HOURS)

    with pytest.raises(ReferenceAssetExpiredError) as caught:
        await client.videos.create(**FIELDS, image_ids=[asset.image_id])
    with pytest.raises(ReferenceAssetExpiredError):
        await client.files.upload(asset.url)
    again = await client.files.upload(picture())
    await client.videos.create(**FIELDS, image_ids=[again.image_id])

    assert isinstance(caught.value, RejectedError)
    assert [task.request["image_ids"] for task in service.tasks.values()] == [[again.image_id]]


# -- creates (2.4, 4.4) ------------------------------------------------------------------------------------------------


@pytest.mark.rule(
    "1 bullet 4",
    "2.1 field code",
    "2.4 field",
    "2.4 unshown mode",
    "2.4 unshown attachments",
    "4.4 body request",
    "4.4 response 202",
    "9 bullet 4",
    side="sdk",
)
async def test_each_field_of_a_create_reaches_the_service_under_its_name(client, service):
    for sent, name in enumerate([*GOOD_FIELDS, "image_ids"]):
        good = GOOD_FIELDS.get(name) or [(await client.files.upload(picture())).image_id]
        fields = {"model": "sd2_480p_real", "prompt": "x", name: good}
        await client.videos.create(**fields)

        [create] = service.creates[sent:]
        sent_as = {"seconds": "duration", "aspect_ratio": "ratio"}.get(name, name)
        expected = {"model": "sd2_480p_real", "prompt": "x", sent_as: good}
        assert (create.body, create.status) == (expected, 202), name


@pytest.mark.rule("4.4 header Idempotency-Key", "4.4 note one-key", "4.4 response 402", "7 error 402", side="sdk")
async def test_an_order_that_is_sent_again_has_the_same_bytes_and_the_same_key(client, service):
    balance, service.balance = service.balance, 0
    with pytest.raises(InsufficientCreditsError):
        await client.videos.create(**FIELDS, order_id="order-1187")
    service.balance = balance
    service.faults.add("videos.create", Fault.close_after_body(made=False))
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**FIELDS, order_id="order-1187")
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**FIELDS, order_id="order-1187")
    receipt = await client.orders.resend("order-1187", expect_attempt=2, reason="the ledger shows no charge")

    assert [create.status for create in service.creates] == [402, None, 202]
    assert {create.idempotency_key for create in service.creates} == {receipt.idempotency_key}
    assert len({create.sha256 for create in service.creates}) == 1
    assert service.tasks.keys() == {receipt.task_id}


@pytest.mark.rule("8 bullet 1", side="sdk")
@pytest.mark.slow
async def test_a_hundred_orders_do_not_wait_for_earlier_tasks(client, service):
    receipts = await asyncio.gather(
        *(client.videos.create(**FIELDS, order_id=f"o-{n}", validate=False) for n in range(100))
    )

    assert {create.status for create in service.creates} == {202}
    assert {receipt.task_id for receipt in receipts} == service.tasks.keys()
    assert {task.status_at(service.clock.now()) for task in service.tasks.values()} == {"queued"}


# -- endpoints and the key (section 4, section 5) ----------------------------------------------------------------------


@pytest.mark.rule(
    "1 bullet 7",
    "4 note",
    "4 endpoint",
    "4.1 request none",
    "4.2 request none",
    "4.3 note no-multipart",
    "4.6 response 307",
    "4.6 note key",
    "4.6 note no-forward",
    "5 item 1",
    "5 item 2",
    "5 item 3",
    "9 bullet 1",
    side="sdk",
)
async def test_each_endpoint_is_requested_as_described_with_the_api_key(client, service, tmp_path):
    make_short(service, "vendorh3")
    await client.models.list()
    await client.account.get()
    await client.files.upload(picture())
    receipt = await client.videos.create(model="vendorh3", prompt="a boat", image_urls=[IMAGE])
    service.clock.advance(4)
    await client.videos.get(receipt)
    await client.videos.download(receipt, tmp_path / "boat.mp4")

    asked = {}
    for request in service.requests:
        asked[request.op] = (request.method, request.path, request.headers.get("Content-Type"))
        bodyless = request.method == "GET"
        assert bodyless is ("Content-Length" not in request.headers and "Transfer-Encoding" not in request.headers)
        key = None if request.origin == "links" else f"Bearer {service.api_key}"
        assert request.headers.get("Authorization") == key
        assert service.api_key not in request.path
    link = asked.pop("link")
    assert asked == {
        "models.list": ("GET", "/openapi/v1/models", None),
        "account.get": ("GET", "/openapi/v1/account", None),
        "files.create": ("POST", "/openapi/v1/files", "application/json"),
        "videos.create": ("POST", "/openapi/v1/videos", "application/json"),
        "videos.get": ("GET", f"/openapi/v1/videos/{receipt.task_id}", None),
        "videos.content": ("GET", f"/openapi/v1/videos/{receipt.task_id}/content", None),
    }
    assert (link[0], link[2]) == ("GET", None)


@pytest.mark.rule(
    "1 bullet 6",
    "2.5 field upstream_task_id",
    "4.4 unshown body",
    "4.5 path id",
    "4.5 note other-ids",
    "4.6 path id",
    side="sdk",
)
async def test_tasks_are_queried_only_by_the_id_of_the_service(client, service, tmp_path):
    make_short(service, "vendorh3")
    receipt = await client.videos.create(model="vendorh3", prompt="a boat", image_urls=[IMAGE])
    service.clock.advance(4)
    task = await client.videos.get(receipt)

    await client.videos.get(task)
    await client.videos.wait(task, timeout=10)
    await client.videos.download(task, tmp_path / "boat.mp4")

    assert task.upstream_task_id
    asked = [request.path for request in service.requests if request.origin == "service"]
    assert {path.split("/")[4] for path in asked if path.startswith("/openapi/v1/videos/")} == {receipt.task_id}
    assert not [path for path in asked if task.upstream_task_id in path]


@pytest.mark.rule("1 bullet 1", "3 state queued", "3 state running", "6 unshown events", "8 bullet 2", side="sdk")
async def test_a_wait_reads_the_task_and_does_nothing_else(client, service):
    receipt = await client.videos.create(**FIELDS)
    begun = len(service.requests)
    states = []

    async for task in client.videos.watch(receipt, timeout=10):
        states.append(task.status)
        service.clock.advance(1 if task.status == "queued" else 3)

    assert states == ["queued", "running", "completed"]
    assert {request.op for request in service.requests[begun:]} == {"videos.get"}
    assert len(service.creates) == 1


@pytest.mark.rule("3 note terminal", "8 limit polling", side="sdk")
@pytest.mark.parametrize("terminal", ["completed", "failed"])
async def test_a_task_is_polled_every_60_seconds_by_default_until_it_is_terminal(terminal):
    clock = VirtualClock()
    polls = []

    async def handle(request) -> BufferedResponse:
        polls.append(clock.now())
        status = terminal if clock.now() >= 180 else "running"
        return BufferedResponse(200, json.dumps({"id": "t", "status": status}).encode(), url=request.url)

    async with Client("key", base_url="https://h/openapi/v1", transport=FakeTransport(handle), clock=clock) as client:
        [outcome] = [outcome async for outcome in client.videos.as_completed(["t"])]
        await clock.sleep(1 * HOURS)

    assert outcome.task.status == terminal
    assert polls == [0, 60, 120, 180]


# -- tasks and their videos (2.5, 4.5, 4.6) ----------------------------------------------------------------------------


@pytest.mark.rule("2.1 note points", "2.5 field", "4.5 response 200", side="sdk")
@pytest.mark.parametrize("ends", [0, 4])
@pytest.mark.parametrize("prompt", ["a boat", "a boat [fail: no wind]"])
async def test_a_task_is_returned_as_the_service_describes_it(client, service, api, ends, prompt):
    receipt = await client.videos.create(model="vendorh3", prompt=prompt, image_urls=[IMAGE])
    service.clock.advance(ends)

    shown = (await api.get(f"/videos/{receipt.task_id}")).json
    task = await client.videos.get(receipt)

    for name in shown.keys() - {"task_id", "created_at", "updated_at"}:
        assert getattr(task, name) == shown[name]
    assert (task.created_at.timestamp(), task.updated_at.timestamp()) == (shown["created_at"], shown["updated_at"])
    assert task.extra == {}


@pytest.mark.rule(
    "1 bullet 5",
    "2.5 field video_url",
    "2.5 note link",
    "2.5 note 7-days",
    "3 state completed",
    "4.5 note latest",
    "5 item 6",
    "8 limit link",
    side="sdk",
)
async def test_a_signed_link_is_returned_unchanged_and_renewed_by_a_later_query(client, service, api, tmp_path):
    make_short(service, "vendorh3")
    receipt = await client.videos.create(model="vendorh3", prompt="a boat", image_urls=[IMAGE])
    service.clock.advance(4)
    old = await client.videos.get(receipt)
    first = await api.get(old.video_url, bare=True)
    service.clock.advance(8 * DAYS)

    late = await api.get(old.video_url, bare=True)
    fresh = await api.get((await client.videos.get(receipt)).video_url, bare=True)
    path = await client.videos.download(old, tmp_path / "boat.mp4")

    assert (first.status, late.status, fresh.status) == (200, 401, 200)
    assert path.read_bytes() == first.body == fresh.body


# -- errors (section 7) ------------------------------------------------------------------------------------------------


@pytest.mark.rule("1 bullet 3", "3 state failed", "7 rule 2", side="sdk")
@pytest.mark.parametrize("refund", [True, False])
async def test_a_refund_is_never_derived_from_a_failure_text(client, service, refund):
    service.fail_next_task("upstream refused; your points were refunded", refund=refund)
    receipt = await client.videos.create(**FIELDS)
    service.clock.advance(4)

    with pytest.raises(TaskFailedError) as caught:
        await client.videos.wait(receipt, timeout=10)

    assert caught.value.task.failure_reason == "upstream refused; your points were refunded"
    assert caught.value.task.points == 20
    assert "check the refund in the credit ledger" in caught.value.message
    assert (service.ledger[-1].kind == "refund") is refund

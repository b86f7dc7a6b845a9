"""The rules of the description for the service, checked in the sandbox by a plain HTTP client."""

import asyncio
import base64

import aiohttp
import pytest

from tests.rules.catalog_snapshot import AUDIO, IMAGE, PRICES, SNAPSHOT, VIDEO
from tests.rules.conftest import make_short
from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import Fault, Sandbox

HOURS = 3600.0
DAYS = 24 * HOURS

# -- the catalog and its prices (2.1) ----------------------------------------------------------------------------------


@pytest.mark.rule(
    "1 bullet 2",
    "2.1 field",
    "2.1 model",
    "4 endpoint GET /models",
    "4.1 request none",
    "4.1 response 200",
    "9 bullet 2",
    side="sandbox",
)
async def test_the_catalog_shows_a_model_as_the_snapshot_does(api):
    entries = {entry["code"]: entry for entry in (await api.get("/models")).json["models"]}

    assert len(entries) == len(SNAPSHOT)
    for row in SNAPSHOT:
        entry = entries[row.code]
        limits = [entry.get(f"maxReference{kind}", None) for kind in ("Images", "Audios", "Videos")]
        assert isinstance(entry["name"], str), row
        assert (entry["enabled"], entry["maintenance"]) == (row.enabled, row.maintenance), row
        assert (entry["durations"], entry["resolutions"]) == (list(row.durations), [row.resolution]), row
        assert limits == [row.images, row.audios, row.videos], row
        assert len([name for name in entry if name.startswith("maxReference")]) == 3 - limits.count(None), row


@pytest.mark.rule("1 bullet 8", "2.1 field name", side="sandbox")
async def test_a_display_name_cannot_be_ordered(service, api):
    for row in SNAPSHOT:
        name = service.models[row.code].name
        reply = await api.create(model=name)

        assert name != row.code
        assert (reply.status, service.tasks) == (400, {}), row


@pytest.mark.rule("2.1 field durations", "2.1 model", "2.4 field duration", "8 limit model", side="sandbox")
@pytest.mark.slow
async def test_a_model_accepts_exactly_its_own_durations(service, api):
    taken = {}
    for row in SNAPSHOT:
        service.change_model(row.code, enabled=True, maintenance=False)
        tried = {0, 1, 34, *row.durations, *(seconds + 1 for seconds in row.durations)}
        tried |= {seconds - 1 for seconds in row.durations}
        replies = {
            seconds: await api.create(model=row.code, duration=seconds, image_urls=[IMAGE]) for seconds in sorted(tried)
        }
        taken[row.code] = [seconds for seconds, reply in replies.items() if reply.status == 202]
        service.reset()

    assert taken == {row.code: sorted(row.durations) for row in SNAPSHOT}


@pytest.mark.rule("2.1 field resolutions", "2.4 field resolution", "8 limit model", side="sandbox")
@pytest.mark.slow
async def test_a_model_accepts_exactly_its_own_resolution(service, api):
    taken = {}
    for row in SNAPSHOT:
        service.change_model(row.code, enabled=True, maintenance=False)
        taken[row.code] = [
            given
            for given in ("480p", "720p", "768p", "1080p", "2K", "auto")
            if (await api.create(model=row.code, resolution=given, image_urls=[IMAGE])).status == 202
        ]

    assert taken == {row.code: [row.resolution] for row in SNAPSHOT}


@pytest.mark.rule(
    "2.1 field maxReferenceImages",
    "2.1 field maxReferenceAudios",
    "2.1 field maxReferenceVideos",
    "2.1 model tierb-video-345b30093bb2",
    "2.1 model vendorh3",
    "2.1 model sd2_480p_real",
    "2.1 model sd_2_5_once_720p",
    "2.1 model alt-sd2.5",
    "2.1 price",
    "2.4 field reference_images",
    "2.4 field image_urls",
    "2.4 field reference_videos",
    "2.4 field video_urls",
    "2.4 field reference_audios",
    "2.4 field audio_urls",
    "2.4 rule 1",
    "2.4 rule 4",
    "8 limit model",
    side="sandbox",
)
@pytest.mark.parametrize(
    ("kind", "urls", "objects", "url"),
    [
        ("images", "image_urls", "reference_images", IMAGE),
        ("audios", "audio_urls", "reference_audios", AUDIO),
        ("videos", "video_urls", "reference_videos", VIDEO),
    ],
)
async def test_a_model_accepts_references_up_to_its_limit_in_any_form(service, api, kind, urls, objects, url):
    images = {} if kind == "images" else {"image_urls": [IMAGE]}
    for row in (row for row in SNAPSHOT if row.images is not None):
        service.change_model(row.code, enabled=True, maintenance=False)
        limit = getattr(row, kind)
        beyond = [{urls: [url] * (limit + 1)}, {objects: [{"url": url}] * (limit + 1)}]
        beyond += [{urls: [url] * (limit - 1), objects: [{"url": url}] * 2}] if limit else []
        within = [{urls: [url] * limit}, {objects: [{"url": url}] * limit}] if limit else []

        taken = [(await api.create(model=row.code, **images, **lists)).status for lists in within]
        refused = [(await api.create(model=row.code, **images, **lists)).status for lists in beyond]

        assert (taken, refused) == ([202] * len(within), [400] * len(beyond)), row


@pytest.mark.rule("2.1 unshown prices", "2.1 price", "2.1 note points", "4 endpoint GET /models", side="sandbox")
@pytest.mark.parametrize(("code", "prices"), PRICES.items())
async def test_a_standard_price_is_listed_and_the_regular_one_is_charged(service, api, code, prices):
    entry = next(entry for entry in (await api.get("/models")).json["models"] if entry["code"] == code)

    created = await api.create(model=code, image_urls=[IMAGE])

    assert (entry["points"], entry["memberPoints"]) == prices
    assert (created.json["points"], service.ledger[-1].points) == (prices[0], -prices[0])


@pytest.mark.rule("2.1 note live", "2.1 note own-price", "2.1 note no-guess", side="sandbox")
async def test_the_price_that_the_catalog_shows_is_the_one_that_is_charged(service, api):
    service.change_model("sd2_480p_real", points=33)
    shown = {entry["code"]: entry["points"] for entry in (await api.get("/models")).json["models"]}

    await api.create(model="sd2_480p_real")

    assert (shown["sd2_480p_real"], service.ledger[-1].points) == (33, -33)


@pytest.mark.rule(
    "2.1 field enabled",
    "2.1 field maintenance",
    "2.4 field model",
    "3 note usable",
    "4.4 response 503",
    "7 error 503",
    side="sandbox",
)
@pytest.mark.parametrize(
    ("enabled", "maintenance", "status"),
    [(True, False, 202), (True, True, 503), (False, False, 503), (False, True, 503)],
)
async def test_a_model_accepts_tasks_only_if_it_is_enabled_and_not_in_maintenance(
    service, api, enabled, maintenance, status
):
    service.change_model("gen-2.0", enabled=enabled, maintenance=maintenance)

    assert (await api.create()).status == status
    assert len(service.tasks) == (status == 202)


@pytest.mark.rule("1 bullet 2", "2.1 note live", "2.4 rule 5", "9 bullet 3", side="sandbox")
async def test_the_limits_are_those_of_the_live_catalog(service, api):
    service.change_model("sd2_480p_real", max_reference_images=2, durations=(7,), resolutions=("768p",))
    shown = {entry["code"]: entry for entry in (await api.get("/models")).json["models"]}["sd2_480p_real"]
    within = {"model": "sd2_480p_real", "duration": 7, "resolution": "768p", "image_urls": [IMAGE] * 2}

    taken = await api.create(**within)
    refused = [
        await api.create(**within | beyond)
        for beyond in ({"duration": 15}, {"resolution": "720p"}, {"image_urls": [IMAGE] * 3})
    ]

    assert (shown["maxReferenceImages"], shown["durations"], shown["resolutions"]) == (2, [7], ["768p"])
    assert (taken.status, [reply.status for reply in refused]) == (202, [400] * 3)


# -- reference assets (2.3, 4.3) ---------------------------------------------------------------------------------------


@pytest.mark.rule("2.3 note retention", "8 limit retention", side="sandbox")
async def test_an_asset_can_be_used_for_72_hours(service, api):
    asset = (await api.upload(picture())).json
    statuses = []
    for seconds in (0, 72 * HOURS - 1, 1):
        service.clock.advance(seconds)
        statuses.append(await api.create(image_ids=[asset["image_id"]]))

    assert [reply.status for reply in statuses] == [202, 202, 400]
    assert statuses[-1].code == "REFERENCE_ASSET_EXPIRED"


@pytest.mark.rule("4.3 note external", side="sandbox")
async def test_an_upload_fetches_no_url_of_another_host(api):
    callers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as elsewhere:
        url = f"http://127.0.0.1:{elsewhere.sockets[0].getsockname()[1]}/a.png"
        replies = [await api.post("/files", {field: url}) for field in ("image_url", "image_b64")]

    assert {(reply.status, reply.code) for reply in replies} == {(400, "UNSUPPORTED_REFERENCE_URL")}
    assert callers == []


@pytest.mark.rule("4.3 note no-paths", side="sandbox")
async def test_a_local_path_is_not_image_data(api):
    for path in ("/home/me/a.png", "a.png", "C:\\a.png", "file:///home/me/a.png"):
        for field in ("image_url", "image_b64"):
            reply = await api.post("/files", {field: path})

            assert reply.status == 400, (field, path)
            assert reply.code in {"INVALID_REFERENCE_IMAGE", "UNSUPPORTED_REFERENCE_URL"}, (field, path)


@pytest.mark.rule("1 bullet 7", "4 note json", "4.3 note no-multipart", "5 item 3", side="sandbox")
@pytest.mark.parametrize("path", ["/files", "/videos"])
async def test_a_body_must_be_json_and_declare_it(api, path):
    body = (
        b'{"image_b64": "%b", "model": "gen-2.0", "prompt": "x"}' % base64.b64encode(picture())
        if path == "/files"
        else b'{"model": "gen-2.0", "prompt": "x"}'
    )
    form = aiohttp.FormData({"prompt": "x"})
    form.add_field("image", picture(), filename="a.png", content_type="image/png")

    multipart = await api.send("POST", path, data=form)
    unnamed = await api.send("POST", path, data=body, headers={"Content-Type": "text/plain"})
    named = await api.send("POST", path, data=body, headers={"Content-Type": "application/json; charset=utf-8"})

    assert (multipart.status, unnamed.status) == (400, 400)
    assert named.status == (200 if path == "/files" else 202)


# -- creates (2.4, 4.4) ------------------------------------------------------------------------------------------------


@pytest.mark.rule("2.4 rule 1", side="sandbox")
@pytest.mark.parametrize("name", ["images", "audios", "videos"])
async def test_an_upstream_field_is_refused_even_if_unknown_fields_are_accepted(session, name):
    async with Sandbox(allow_unknown_fields=True) as service:
        api = Caller(session, service.base_url, service.api_key)

        assert (await api.create(style="noir")).status == 202
        assert (await api.create(**{name: [IMAGE]})).status == 400


@pytest.mark.rule(
    "1 bullet 1", "4 endpoint POST /videos", "4.4 response 202", "4.4 unshown body", "4.5 path id", side="sandbox"
)
async def test_an_accepted_create_returns_the_id_for_later_queries(api):
    created = await api.create()

    found = await api.get(f"/videos/{created.json['id']}")

    assert (created.status, created.json["status"], created.json["task_id"]) == (202, "queued", created.json["id"])
    assert (found.status, found.json["id"]) == (200, created.json["id"])


# -- tasks and videos (2.5, section 3, 4.5, 4.6, section 5) ------------------------------------------------------------


@pytest.mark.rule("3 note terminal", side="sandbox")
@pytest.mark.parametrize(("prompt", "state"), [("a boat", "completed"), ("a boat [fail: no wind]", "failed")])
async def test_a_terminal_state_is_never_left(service, api, prompt, state):
    task_id = (await api.create(prompt=prompt)).json["id"]
    seen = set()
    for seconds in (4, 1 * HOURS, 365 * DAYS):
        service.clock.advance(seconds)
        seen.add((await api.get(f"/videos/{task_id}")).json["status"])

    assert seen == {state}


@pytest.mark.rule("8 bullet 2", side="sandbox")
async def test_a_state_can_lag_and_is_correct_in_a_later_query(service, api):
    task_id = (await api.create()).json["id"]
    service.clock.advance(4)
    service.faults.add("videos.get", Fault.edit(lambda task: {**task, "status": "running", "video_url": None}))

    seen = [(await api.get(f"/videos/{task_id}")).json["status"] for _ in range(2)]

    assert seen == ["running", "completed"]
    assert list(service.tasks) == [task_id]


@pytest.mark.rule("2.5 note 7-days", "4.5 note latest", "8 limit link", side="sandbox")
async def test_a_signed_link_expires_after_7_days_and_its_task_and_video_do_not(service, api):
    make_short(service, "vendorh3")
    task_id = (await api.create(model="vendorh3")).json["id"]
    service.clock.advance(4)
    link = (await api.get(f"/videos/{task_id}")).json["video_url"]
    statuses = []
    for seconds in (0, 7 * DAYS - 1, 1):
        service.clock.advance(seconds)
        statuses.append((await api.get(link, bare=True)).status)
    fresh = (await api.get(f"/videos/{task_id}")).json["video_url"]

    assert statuses == [200, 200, 401]
    assert (await api.get(fresh, bare=True)).status == 200


@pytest.mark.rule("4.6 note key", "5 item 5", side="sandbox")
async def test_a_signed_link_opens_nothing_but_itself(service, api):
    make_short(service, "vendorh3")
    task_id = (await api.create(model="vendorh3")).json["id"]
    service.clock.advance(4)
    query = service.new_link(task_id).partition("?")[2]

    replies = [await api.get(f"/videos/{task_id}{path}?{query}", bare=True) for path in ("", "/content")]

    assert {(reply.status, reply.code) for reply in replies} == {(401, "INVALID_API_KEY")}


@pytest.mark.rule("5 item 2", "5 item 7", side="sandbox")
async def test_a_refused_key_and_a_refused_link_differ_in_their_hosts(service, api):
    task_id = (await api.create()).json["id"]

    key = await api.get(f"/videos/{task_id}", bare=True, headers={"Authorization": "Bearer a-channels-key"})
    link = await api.get(service.new_link(task_id, lifetime=-1), bare=True)

    assert (key.status, link.status) == (401, 401)
    assert {request.origin for request in service.requests[-2:]} == {"service", "links"}


@pytest.mark.rule("1 bullet 7", "4.6 note media", side="sandbox")
async def test_every_response_except_the_video_is_json(service, api):
    make_short(service, "gen-2.0")
    task_id = (await api.create()).json["id"]
    service.clock.advance(4)
    paths = ["/models", "/account", f"/videos/{task_id}", "/videos/none", "/nothing"]

    replies = [await api.get(path) for path in paths]
    replies += [await api.upload(picture()), await api.create(), await api.create(prompt=""), await api.upload(b"")]
    video = await api.get(f"/videos/{task_id}/content")

    assert {reply.headers["content-type"].partition(";")[0] for reply in replies} == {"application/json"}
    assert all(reply.json for reply in replies)
    assert (video.status, video.headers["content-type"]) == (200, "video/mp4")


@pytest.mark.rule("6 unshown events", side="sandbox")
async def test_nothing_is_pushed_and_nothing_can_be_subscribed_to(api):
    for path in ("/events", "/webhooks", "/videos/events", "/subscriptions", "/callbacks"):
        replies = [await api.get(path), await api.post(path, {"url": "https://mine.test/hook"})]

        assert {reply.status for reply in replies} <= {404, 405}, path


@pytest.mark.rule("9 bullet 2", side="sandbox")
async def test_the_sandbox_says_which_version_of_the_description_it_follows(service, api):
    document = (await api.get(service.base_url.removesuffix("/openapi/v1") + "/openapi.json", bare=True)).json

    assert document["info"]["version"] == "2026.10.19"
    assert document["servers"] == [{"url": service.base_url}]

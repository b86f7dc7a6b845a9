"""POST /videos: validation, charges, and Idempotency-Keys (2.4, 4.4, section 8)."""

import asyncio
import re
import time

import pytest

from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import Sandbox

IMAGE = "https://pics.test/a.png"
AUDIO = "https://sounds.test/a.mp3"
VIDEO = "https://films.test/a.mp4"
H3 = {"model": "vendorh3"}

REFUSED = [
    ({"model": None}, "model: required"),
    ({"model": "no-such-model"}, "no model 'no-such-model'"),
    ({"prompt": ""}, "prompt: must be a string of"),
    ({"duration": 7}, "accepts only 1, 2, 5"),
    ({"duration": "5"}, "must be an integer"),
    ({"duration": 5, "seconds": 2}, "alias of duration"),
    ({"ratio": "16:10"}, "must be one of 9:16"),
    ({"resolution": "1080p"}, "accepts only 720p"),
    ({"mode": 3}, "mode: must be a string"),
    ({"attachments": ["x"]}, r"attachments\[0\]: must be an object, not \"x\""),
    ({"image_urls": IMAGE}, "image_urls: must be an array"),
    ({"image_urls": [IMAGE, 5]}, r"image_urls\[1\]: must be a public"),
    ({"image_urls": ["https://cdn.example.com/a.png"]}, "and no placeholder"),
    ({"reference_images": [{"href": IMAGE}]}, r"reference_images\[0\]"),
    ({"image_ids": [""]}, r"image_ids\[0\]: must be a string of"),
    (H3, "needs at least 1 reference image"),
    (H3 | {"image_urls": [IMAGE], "audio_urls": [AUDIO] * 4}, "at most 3 reference audios"),
    (H3 | {"image_urls": [IMAGE], "video_urls": [VIDEO]}, "takes no videos"),
    ({"images": [IMAGE]}, "upstream field name; use image_urls"),
    ({"promt": "x"}, '"promt": there is no such field; there are: model'),
]


@pytest.mark.rule("2.4 rule 3", "4.4 body request", "4.4 response 400", "7 error 400 other", side="sandbox")
async def test_an_invalid_body_is_refused_and_nothing_is_charged(service, api):
    before = service.balance

    for changes, message in REFUSED:
        reply = await api.create(**changes)

        assert (reply.status, reply.code) == (400, "INVALID_PARAMETER"), changes
        assert service.creates[-1].status == 400, changes
        assert re.search(message, reply.json["error"]["message"]), changes
        assert (service.tasks, service.balance) == ({}, before), changes


@pytest.mark.rule("4.4 response 402", "7 error 402", side="sandbox")
async def test_too_few_credits_are_402(service, api):
    service.balance = 19

    reply = await api.create()

    assert (reply.status, reply.code, service.balance, service.tasks) == (402, "INSUFFICIENT_CREDITS", 19, {})


@pytest.mark.rule("1 bullet 4", "2.3 field image_id", side="sandbox")
async def test_an_own_upload_is_accepted_by_its_id_and_by_its_url(service, api):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]

    reply = await api.create(image_ids=[asset["image_id"]], image_urls=[url])

    (task,) = service.tasks.values()
    assert reply.status == 202
    assert task.film.pictures == (asset["name"], asset["name"])
    assert task.film.seconds == 1  # the first duration of the model


@pytest.mark.rule("2.3 note gone", "2.4 rule 3", "7 error 400 REFERENCE_ASSET_EXPIRED", side="sandbox")
async def test_an_upload_that_is_expired_deleted_foreign_or_lacks_its_token_is_refused(service, api, stranger):
    valid, deleted, foreign = [(await caller.upload(picture())).json for caller in (api, api, stranger)]
    service.delete_asset(deleted["id"])
    url = service.base_url.removesuffix("/openapi/v1") + valid["url"]

    replies = [await api.create(image_ids=[asset["id"]]) for asset in (deleted, foreign)]
    replies.append(await api.create(image_urls=[url[:-1]]))
    replies.append(await api.create(image_urls=[url.partition("?")[0]]))
    service.clock.advance(72 * 3600)
    replies.append(await api.create(image_ids=[valid["id"]]))
    replies.append(await api.create(image_urls=[url]))

    assert {(reply.status, reply.code) for reply in replies} == {(400, "REFERENCE_ASSET_EXPIRED")}


async def test_a_signed_link_to_another_host_expires_in_real_time_although_the_sandbox_is_faster(service, api):
    link = f"https://pics.test/a.png?exp={int(time.time()) + 3600}&sig=s"
    service.clock.advance(7200)

    assert (await api.create(image_urls=[link])).status == 202


@pytest.mark.rule("4.4 response 429", "7 error 429", "8 limit submissions", "8 bullet 1", side="sandbox")
@pytest.mark.slow
async def test_submission_101_within_a_minute_is_429_with_retry_after(service, api):
    first = [(await api.create()).status for _ in range(60)]
    service.clock.advance(30)
    second = [(await api.create()).status for _ in range(40)]

    refused = await api.create("order-1187")
    service.clock.advance(float(refused.headers["retry-after"]))

    assert set(first + second) == {202}
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "SUBMISSION_LIMIT_REACHED", "30")
    assert (await api.create("order-1187")).status == 202


async def test_a_submission_limit_of_0_refuses_every_create(session):
    async with Sandbox(submission_limit=0) as service:
        reply = await Caller(session, service.base_url, service.api_key).create()

    assert (reply.status, reply.headers["retry-after"]) == (429, "1")


@pytest.mark.rule("4.4 note one-key", side="sandbox")
async def test_the_same_key_and_body_return_the_same_answer_without_a_new_charge(service, api):
    first = await api.create("order-1187")
    balance = service.balance

    again = await api.create("order-1187")

    assert (again.status, again.json) == (202, first.json)
    assert service.balance == balance
    assert [(create.replayed, create.task_id) for create in service.creates] == [
        (False, first.json["id"]),
        (True, first.json["id"]),
    ]


async def test_the_same_key_with_another_body_is_409(service, api):
    await api.create("order-1187")

    reply = await api.create("order-1187", prompt="Another boat")

    assert (reply.status, reply.code, len(service.tasks)) == (409, "IDEMPOTENCY_KEY_REUSED", 1)


@pytest.mark.rule("9 bullet 4", side="sandbox")
@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ({"duration": 5, "ratio": "1:1"}, {"seconds": 5, "aspect_ratio": "1:1"}, 202),
        ({"seconds": 5, "aspect_ratio": "1:1"}, {"duration": 5.0, "ratio": "1:1"}, 202),
        ({"duration": 5}, {"duration": 5, "seconds": 5}, 202),
        ({"duration": 5}, {"seconds": 2}, 409),
        ({"duration": 5}, {"duration": 5, "seconds": 2}, 409),
        ({"ratio": "1:1"}, {"aspect_ratio": "9:16"}, 409),
        ({"ratio": "1:1"}, {}, 409),
    ],
)
async def test_a_field_and_its_alias_are_the_same_request(service, api, first, second, status):
    replies = [await api.create("order-1187", **fields) for fields in (first, second)]

    assert [reply.status for reply in replies] == [202, status]
    assert len(service.tasks) == 1
    assert (replies[1].json.get("id") == replies[0].json["id"]) is (status == 202)


@pytest.mark.rule("4.4 header Idempotency-Key", side="sandbox")
async def test_without_a_key_every_create_creates_a_task(service, api):
    await asyncio.gather(api.create(), api.create())

    assert len(service.tasks) == 2


@pytest.mark.rule("4.4 note one-key", side="sandbox")
async def test_concurrent_creates_with_one_key_create_one_task(service, api):
    replies = await asyncio.gather(*(api.create("order-1187") for _ in range(20)))

    assert len({reply.json["id"] for reply in replies}) == 1
    assert (len(service.tasks), len(service.creates)) == (1, 20)


@pytest.mark.rule("4.4 header Idempotency-Key", "8 limit key-length", side="sandbox")
@pytest.mark.parametrize(("length", "status"), [(0, 400), (7, 400), (8, 202), (100, 202), (101, 400)])
async def test_a_key_has_8_to_100_characters(api, length, status):
    assert (await api.create("k" * length)).status == status


async def test_a_refused_create_does_not_use_its_key(service, api):
    service.balance = 0
    service.change_model("gen-2.0", maintenance=True)
    refused = [(await api.create("order-1187")).status]
    service.change_model("gen-2.0", maintenance=False)
    refused += [(await api.create("order-1187")).status, (await api.create("order-1187", prompt="")).status]
    service.balance = 100

    assert refused == [503, 402, 400]
    assert (await api.create("order-1187")).status == 202

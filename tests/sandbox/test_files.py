"""POST /files: uploads, their four errors, URLs and expiry (2.3, 4.3, section 7)."""

import base64
import io
import json
import os

import pytest
from PIL import Image

from tests.sandbox.conftest import picture


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.rule("2.3 field mime", "4 endpoint POST /files", "4.3 body image_b64", "4.3 note format", side="sandbox")
@pytest.mark.parametrize(("kind", "mime"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")])
async def test_the_format_is_detected_from_the_content_not_from_the_data_uri(api, kind, mime):
    content = picture(kind=kind)

    replies = [
        await api.post("/files", {"image_b64": text})
        for text in (b64(content), f"data:image/gif;base64,{b64(content)}")
    ]

    assert [(reply.status, reply.json["mime"]) for reply in replies] == [(200, mime)] * 2


@pytest.mark.rule(
    "2.3 field id",
    "2.3 field image_id",
    "2.3 field url",
    "2.3 field name",
    "2.3 note shape",
    "4.3 response 200",
    side="sandbox",
)
async def test_an_asset_has_two_equal_ids_and_a_url_with_a_token(api):
    asset = (await api.upload(picture())).json

    assert asset["id"] == asset["image_id"]
    assert asset["url"].startswith(f"/api/reference-assets/{asset['id']}/content/{asset['name']}?token=")


@pytest.mark.rule("2.3 field url", side="sandbox")
async def test_the_url_of_an_asset_returns_the_picture_with_the_complete_token_only(service, api):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]

    served = await api.get(url, bare=True)
    without = await api.get(url[:-1], bare=True)
    renamed = await api.get(url.replace(asset["name"], "x.png"), bare=True)
    service.clock.advance(72 * 3600)
    late = await api.get(url, bare=True)

    assert (served.body, served.headers["content-type"]) == (picture(), "image/png")
    assert (without.status, renamed.status, late.status) == (401, 404, 404)


@pytest.mark.rule(
    "2.4 field reference_images",
    "4.3 body either",
    "4.3 body image_b64",
    "4.3 note external",
    "4.3 response 400",
    "7 error 400 EMPTY_REFERENCE_ASSET",
    "7 error 400 INVALID_REFERENCE_IMAGE",
    "7 error 400 UNSUPPORTED_REFERENCE_URL",
    side="sandbox",
)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"image_b64": ""}, "EMPTY_REFERENCE_ASSET"),
        ({"image_b64": "data:image/png;base64,"}, "EMPTY_REFERENCE_ASSET"),
        ({"image_b64": "bm8gaW1hZ2U="}, "INVALID_REFERENCE_IMAGE"),
        ({"image_b64": "§§§"}, "INVALID_REFERENCE_IMAGE"),
        ({"image_b64": "abc"}, "INVALID_REFERENCE_IMAGE"),
        # Pillow would start another program for it.
        (
            {"image_b64": b64(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n")},
            "INVALID_REFERENCE_IMAGE",
        ),
        ({"image_b64": "data:image/png,plain"}, "INVALID_REFERENCE_IMAGE"),
        ({"image_b64": b64(picture(size=(300, 300))[:-40])}, "INVALID_REFERENCE_IMAGE"),
        ({"image_b64": "https://pics.test/a.png"}, "UNSUPPORTED_REFERENCE_URL"),
        ({"image_url": "https://pics.test/a.png"}, "UNSUPPORTED_REFERENCE_URL"),
        ({"image_url": "/api/reference-assets/asset_1/content/a.png?token=x"}, "UNSUPPORTED_REFERENCE_URL"),
        ({"image_b64": "/api/reference-assets/asset_1/content/a.png?token=x"}, "REFERENCE_ASSET_EXPIRED"),
        ({}, "INVALID_PARAMETER"),
        ({"image_b64": 5}, "INVALID_PARAMETER"),
        (["x"], "INVALID_PARAMETER"),
    ],
)
async def test_an_invalid_upload_is_refused_with_its_code(api, body, code):
    reply = await api.post("/files", body)

    assert (reply.status, reply.code) == (400, code)


async def test_a_picture_of_more_than_50_megapixels_is_refused_even_if_its_file_is_small(service, api):
    file = io.BytesIO()
    Image.new("1", (7100, 7100)).save(file, "PNG")

    reply = await api.upload(file.getvalue())

    assert len(file.getvalue()) < 20_000
    assert (reply.status, reply.code) == (400, "INVALID_REFERENCE_IMAGE")
    assert reply.json["error"]["message"] == "the image has more than 50 megapixels"
    assert len(service.assets) == 0


async def test_an_invalid_url_is_refused(api):
    replies = [await api.post("/files", {field: "//["}) for field in ("image_b64", "image_url")]
    replies.append(await api.post("/files", {"image_url": "http://["}))

    assert [reply.status for reply in replies] == [400, 400, 400]


async def test_the_scheme_of_an_own_url_is_case_insensitive(service, api):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1").replace("http:", "HTTP:") + asset["url"]

    replies = [await api.post("/files", {field: url}) for field in ("image_b64", "image_url")]
    await api.create(image_urls=[url])

    (task,) = service.tasks.values()
    assert [reply.json for reply in replies] == [asset, asset]
    assert [shown.content for shown in task.film.pictures] == [picture()]


@pytest.mark.rule("4.3 note no-multipart", side="sandbox")
async def test_a_body_that_is_not_json_is_refused(api):
    assert (await api.send("POST", "/files", data=b"\x89PNG")).status == 400


@pytest.mark.rule("4 endpoint POST /files", "4.3 body image_url", "4.3 note old-habit", side="sandbox")
@pytest.mark.parametrize("field", ["image_url", "image_b64"])
async def test_an_own_asset_is_reused_by_its_full_url(service, api, field):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]

    reply = await api.post("/files", {field: url})

    assert (reply.status, reply.json) == (200, asset)


@pytest.mark.rule("4.3 note old-habit", side="sandbox")
async def test_the_path_of_an_own_asset_is_accepted_as_image_b64(api):
    asset = (await api.upload(picture())).json

    assert (await api.post("/files", {"image_b64": asset["url"]})).json == asset


@pytest.mark.rule("2.3 note gone", "4.3 note foreign", "7 error 400 REFERENCE_ASSET_EXPIRED", side="sandbox")
async def test_an_asset_that_is_expired_foreign_or_lacks_its_token_cannot_be_reused(service, api, stranger):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]

    replies = [await stranger.post("/files", {"image_url": url}), await api.post("/files", {"image_url": url[:-1]})]
    service.clock.advance(72 * 3600)
    replies.append(await api.post("/files", {"image_url": url}))

    assert {(reply.status, reply.code) for reply in replies} == {(400, "REFERENCE_ASSET_EXPIRED")}


async def test_a_large_upload_is_accepted(api):
    file = io.BytesIO()
    Image.frombytes("RGB", (1200, 1000), os.urandom(3_600_000)).save(file, "PNG", compress_level=0)
    body = io.BytesIO(json.dumps({"image_b64": b64(file.getvalue())}).encode())

    reply = await api.send("POST", "/files", data=body, headers={"Content-Type": "application/json"})

    assert reply.status == 200

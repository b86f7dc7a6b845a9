"""POST /files: uploads, their four errors, URLs and expiry (2.3, 4.3, section 7)."""

import base64
import io
from urllib.parse import quote

import pytest
from PIL import Image, features

from tests.sandbox.conftest import picture


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.rule("2.3 field mime", "4 endpoint POST /files", "4.3 body image_b64", "4.3 note format", side="sandbox")
@pytest.mark.parametrize(
    ("kind", "options", "mime", "suffix"),
    [
        ("PNG", {}, "image/png", "png"),
        ("JPEG", {}, "image/jpeg", "jpeg"),
        ("WEBP", {}, "image/webp", "webp"),
        ("MPO", {"save_all": True}, "image/jpeg", "jpeg"),  # cameras and phones: a JPEG with several pictures
        ("PNG", {"save_all": True}, "image/png", "png"),  # animated
        ("GIF", {"save_all": True}, "image/gif", "gif"),
        ("WEBP", {"save_all": True}, "image/webp", "webp"),
        ("TIFF", {"save_all": True}, "image/tiff", "tiff"),
        ("TIFF", {"big_tiff": True}, "image/tiff", "tiff"),
        ("BMP", {}, "image/bmp", "bmp"),
        ("AVIF", {}, "image/avif", "avif"),
    ],
)
async def test_an_image_has_the_media_type_of_its_content(service, api, kind, options, mime, suffix):
    """Not that of the data URI, nor the name that Pillow uses."""
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this build of Pillow cannot write AVIF")
    file, others = (
        io.BytesIO(),
        {"append_images": [Image.new("RGB", (64, 48), "navy")]} if "save_all" in options else {},
    )
    Image.new("RGB", (64, 48), "crimson").save(file, kind, **options, **others)

    asset = (await api.post("/files", {"image_b64": f"data:image/heic;base64,{b64(file.getvalue())}"})).json
    served = await api.get(service.base_url.removesuffix("/openapi/v1") + asset["url"], bare=True)

    assert (asset["mime"], asset["name"].rpartition(".")[2]) == (mime, suffix)
    assert (served.headers["content-type"], served.body) == (mime, file.getvalue())


async def test_a_jpeg_of_a_camera_without_its_other_pictures_is_accepted_and_shown(service, api):
    file = io.BytesIO()
    Image.new("RGB", (64, 48), "crimson").save(
        file, "MPO", save_all=True, append_images=[Image.new("RGB", (64, 48), "navy")]
    )
    content = file.getvalue().replace(b"MPF\0II*\0\x08", b"MPF\0II*\0\xff")

    asset = (await api.upload(content)).json
    task = (await api.create(image_ids=[asset["image_id"]])).json["id"]

    assert asset["mime"] == "image/jpeg"
    assert (await service.video(task))[4:8] == b"ftyp"


@pytest.mark.parametrize("kind", ["JPEG2000", "ICO"])
async def test_a_format_that_the_sandbox_cannot_decode_is_refused_for_that_reason(service, api, kind):
    reply = await api.upload(picture(kind=kind))

    assert (reply.status, reply.code, len(service.assets)) == (400, "INVALID_REFERENCE_IMAGE", 0)
    assert reply.json["error"]["message"] == (
        "the content is damaged, or no image of the formats that the sandbox can decode (AVIF, BMP, GIF, JPEG, PNG, "
        "TIFF, WEBP); the service may accept other formats"
    )


PNG_B64 = b64(picture())
SHORT = picture(size=(9, 9))


@pytest.mark.rule("4.3 body image_b64", side="sandbox")
@pytest.mark.parametrize(
    "text",
    [
        f"data:image/png;base64,{PNG_B64}",
        f"data:;base64,{PNG_B64}",
        f"DATA:image/png;BASE64,{PNG_B64}",
        f"data:image/png;name=hero.png;charset=utf-8;base64,{PNG_B64}",
        f"data:image/png;base64,{quote(PNG_B64, safe='')}",
        f"data:image/png;base64,{PNG_B64[:40]}\r\n{PNG_B64[40:]}\n",
        f"data:image/png,{quote(picture())}",
        f"data:,{quote(picture())}",
        f" \n{PNG_B64[:40]}\n{PNG_B64[40:]}\n",
        PNG_B64,
    ],
)
async def test_a_complete_data_uri_and_plain_base64_are_accepted(service, api, text):
    assert (await api.post("/files", {"image_b64": text})).status == 200
    assert [asset.content for asset in service.assets] == [picture()]


@pytest.mark.parametrize("start", ["", "data:image/png;base64,"])
@pytest.mark.parametrize(
    "text",
    [
        base64.urlsafe_b64encode(bytes([0xFB, 0xFF, 0xBF]) * 4).decode(),
        b64(SHORT + bytes(-len(SHORT) % 3 + 1)).rstrip("="),
        PNG_B64 + "\ud800",
    ],
)
async def test_base64_is_the_standard_one_with_padding(api, start, text):
    reply = await api.post("/files", {"image_b64": start + text})

    assert (reply.status, reply.code) == (400, "INVALID_REFERENCE_IMAGE")
    assert "not valid Base64 (the standard alphabet, with padding)" in reply.json["error"]["message"]


@pytest.mark.rule("2.3 field", "2.3 note shape", "4.3 response 200", side="sandbox")
async def test_the_url_of_an_asset_returns_the_picture_with_the_complete_token_only(service, api):
    asset = (await api.upload(picture())).json
    assert asset["id"] == asset["image_id"]
    assert asset["url"].startswith(f"/api/reference-assets/{asset['id']}/content/{asset['name']}?token=")
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


@pytest.mark.rule("4 endpoint POST /files", "4.3 body image_url", "4.3 note old-habit", side="sandbox")
async def test_an_own_asset_is_reused_by_its_path_or_its_url_whose_scheme_is_case_insensitive(service, api):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]
    other = url.replace("http:", "HTTP:")

    bodies = [{field: text} for field in ("image_b64", "image_url") for text in (url, other)]
    replies = [await api.post("/files", body) for body in (*bodies, {"image_b64": asset["url"]})]
    await api.create(image_urls=[other])

    (task,) = service.tasks.values()
    assert [(reply.status, reply.json) for reply in replies] == [(200, asset)] * 5
    assert task.film.pictures == (asset["name"],)


@pytest.mark.rule("2.3 note gone", "4.3 note foreign", "7 error 400 REFERENCE_ASSET_EXPIRED", side="sandbox")
async def test_an_asset_that_is_expired_foreign_or_lacks_its_token_cannot_be_reused(service, api, stranger):
    asset = (await api.upload(picture())).json
    url = service.base_url.removesuffix("/openapi/v1") + asset["url"]

    replies = [await stranger.post("/files", {"image_url": url}), await api.post("/files", {"image_url": url[:-1]})]
    service.clock.advance(72 * 3600)
    replies.append(await api.post("/files", {"image_url": url}))

    assert {(reply.status, reply.code) for reply in replies} == {(400, "REFERENCE_ASSET_EXPIRED")}

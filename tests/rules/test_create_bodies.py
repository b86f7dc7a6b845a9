"""Section 2.4: the SDK and the sandbox have rules of their own, and agree about the body of every create."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from yarl import URL

from tests.sandbox.conftest import Caller, picture
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox
from vidgen_async.service.request_checks import make_request, problems_in_catalog, problems_of
from vidgen_async.types.resources import Catalog

Body = dict[str, Any]
H3: Body = {"model": "vendorh3"}
TIER_B: Body = {"model": "tierb-video-345b30093bb2"}
SD2: Body = {"model": "sd2_480p_real"}
IMAGE, AUDIO, VIDEO = "https://pics.net/a.png", "https://pics.net/a.mp3", "https://pics.net/a.mp4"
#: Replaced by the id of an upload.
UPLOAD = "(an upload)"

VALID_URLS = [
    IMAGE,
    "http://pics.net/a.png",
    "HTTPS://PICS.NET/A.PNG",
    "https://pics.net:8443/a.png",
    "https://pics.net",
    "https://pics.net/a b.png",
    "https://bücher.de/ein%20boot.png?type=string&name=foo",
    "https://pics.net/a.png#part",
    # Hosts of private networks: the sandbox is in one.
    "http://127.0.0.1:8080/a.png",
    "http://[::1]:8080/a.png",
    "http://localhost/a.png",
    "http://nas.local/a.png",
    "http://minio:9000/bucket/a.png",
    "http://10.1.2.3/a.png",
    "https://cdn.test/a.png",
    # Similar to what is refused.
    "https://exampleshop.com/a.png",
    "https://example.company/a.png",
    "https://subdomain.com/a.png",
    "https://domain.company/a.png",
    "https://my-bucket.s3.amazonaws.com/uploads/my-photo.png",
    "https://pics.net/example.com/a.png",
    "https://www123.your-server.de/a.png",
    "https://static.1.clients.your-server.de/a.png",
    "https://cdn.yourserver.com/a.png",
    "https://images.yoursite.com/a.png",
    "https://your-company.com/a.png",
    "https://yourbucket.com/a.png",
    "https://mydomain.com/a.png",
    "https://cdn.some-domain.org/a.png",
    "https://pics.net/%7Bname%7D.png",
    "https://pics.net/path/to/image.png",
    "https://pics.net/path/to/my/files/a.png",
    "https://pics.net/uploads/your-image.jpg",
    "https://pics.net/your_reference_image.png",
    "https://b.s3.amazonaws.com/path/to/image.jpg",
    "https://pics.net/your-photo.jpg",
    "https://pics.net/shirt-xxxx.png",
    "https://pics.net/xxxxxxxxx/1.jpg",
    "https://pics.net/a.png?token=0a...b",
    "https://pics.net/a.png?from=example.com",
    "https://pics.net/%7B0F8FAD5B-D9CB-469F-A165-70867728950E%7D.png",
    "https://pics.net/a%E2%80%A6b.png",
    "https://pics.net/get?key=my-photo.png&id=sample-17&file_id=image_name",
    "https://pics.net/path/to/summer/hero.png",
    "https://pics.net/path/to/imagery-2026.png",
    "https://pics.net/your-image-of-the-day.jpg",
    "https://pics.net/images/your-story.png",
    "https://pics.net/xxx/a.png",
    "https://pics.net/asset-3f9axxxx.png",
    "https://pics.net/html",
    "https://pics.net/a.html.png",
    "https://pics.net/page.html/a.png",
    "https://pics.net/get?file=a.html",
    "https://pics.net/@ann/a.png",
    "https://pics.net/a.png?owner=ann@pics.net",
    "https://pics.net/a.png?token=hush&sig=0a%2Fb%2B%3D",
    "https://pics.net/a.png?next_token_count=string",
    # Links that have not expired, are not signed, or state no time.
    "https://pics.net/a.png?exp=9999999999&sig=s",
    "https://pics.net/a.png?exp=1577836800",
    "https://pics.net/a.png?exp=100000000&sig=s",
    "https://pics.net/a.png?expires=12&sig=s",
    "https://b.s3.amazonaws.com/a.png?X-Amz-Date=20200101T000000Z&X-Amz-Expires=36000000000000&X-Amz-Signature=s",
    "https://b.s3.amazonaws.com/a.png?X-Amz-Date=yesterday&X-Amz-Expires=x&X-Amz-Signature=s",
    "https://a.blob.core.windows.net/b/a.png?se=2199-01-01T00%3A00%3A00Z&sig=s",
    "https://pics.net/a.png?se=2020-01-01",
]
INVALID_URLS: list[object] = [
    None,
    7,
    True,
    ["https://pics.net/a.png"],
    {"url": IMAGE},
    "",
    " ",
    "hero.png",
    "/home/ann/a.png",
    "C:\\pictures\\a.png",
    "file:///a.png",
    "ftp://pics.net/a.png",
    "data:image/png;base64,AAAA",
    "pics.net/a.png",
    "//pics.net/a.png",
    "http://",
    "https:///a.png",
    "https:pics.net/a.png",
    "http://[::",
    "https://pics.net:99999/a.png",
    "https://pics.net:port/a.png",
    "https://pics.net\\a.png",
    f" {IMAGE}",
    f"{IMAGE} ",
    f"{IMAGE}\n",
    f"\u00a0{IMAGE}",
    "https://ann:hush@pics.net/a.png",
    "https://ann@pics.net/a.png",
    "https://:hush@pics.net/a.png",
    "https://pics.net/page.html",
    "https://pics.net/page.HTM",
    "https://pics.net/page%2Ehtml?a=1",
    "https://example.com/a.png",
    "https://CDN.Example.ORG./a.png",
    "https://example.net:8080/a.png",
    "https://pictures.example/a.png",
    "https://pictures.invalid/a.png",
    "https://via.placeholder.com/600",
    "https://placehold.co/600",
    "https://domain.com/a.png",
    "https://www.domain.com/a.png",
    "https://your-domain.com/a.png",
    "https://cdn.yourdomain.com/a.png",
    "https://your-bucket.s3.amazonaws.com/a.png",
    "https://YOUR_HOST/a.png",
    "https://pics.net/<file>.png",
    "https://pics.net/{name}.png",
    "https://pics.net/%3Cfile%3E.png",
    "https://pics.net/path/to/your/image.jpg",
    "https://pics.net/path/to/your_video.mp4?x=1",
    "https://pics.net/api/reference-assets/asset-xxxxxxxx/content/a.png",
    "https://pics.net/files/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.png",
    "https://pics.net/a.png?id=asset_XXXXXXXX",
    "https://pics.net/path/to/<file>",
    "https://pics.net/api/reference-assets/asset_id/content/file_name",
    "https://pics.net/api/reference-assets/$ASSET_ID/content/a.png",
    "https://pics.net/api/reference-assets/a-1/content/file_name?token=0a",
    "https://pics.net/${name}.png",
    "https://pics.net/%24%7Bname%7D.png",
    "https://your-bucket-name.s3.amazonaws.com/a.png",
    "https://pics.net/{{file.name}}",
    "https://pics.net/...",
    "https://pics.net/a.png?token=abc...",
    "https://pics.net/a.png?token=0a…",
    "https://pics.net/a.png?token=$TOKEN",
    "https://pics.net/a.png?token=undefined",
    "https://pics.net/a.png?sig=null",
    "https://pics.net/a.png?sig=%25SIG%25",
    "https://pics.net/a.png?token=YOUR_TOKEN",
    "https://pics.net/a.png?token=%3Ctoken%3E",
    "https://pics.net/a.png?access_token=token",
    "https://pics.net/a.png?x-amz-signature=...",
    "https://pics.net/a.png?sig=xxxx&exp=9999999999",
    "https://pics.net/a.png?exp=1577836800&sig=s",
    "https://pics.net/a.png?expires=1577836800000&signature=s",
    "https://pics.net/a.png?Expires=1577836800&Signature=s&Key-Pair-Id=K",
    "https://b.s3.amazonaws.com/a.png?X-Amz-Date=20200101T000000Z&X-Amz-Expires=3600&X-Amz-Signature=s",
    "https://storage.googleapis.com/b/a.png?X-Goog-Date=20200101T000000Z&X-Goog-Expires=60&X-Goog-Signature=s",
    "https://b.oss.net/a.png?x-oss-date=20200101T000000Z&x-oss-expires=60&x-oss-signature=s",
    "https://b.tos.net/a.png?X-Tos-Date=20200101T000000Z&X-Tos-Expires=60&X-Tos-Signature=s",
    "https://a.blob.core.windows.net/b/a.png?se=2020-01-01T00%3A00%3A00Z&sp=r&sig=s",
]

VALID: list[Body] = [
    {},
    {"prompt": " "},
    {"prompt": "\n"},
    {"prompt": "⛵"},
    *({"duration": seconds} for seconds in (5, 5.0, 15)),
    {"seconds": 10},
    {"seconds": 10.0, "duration": 10},
    *({name: ratio} for name in ("ratio", "aspect_ratio") for ratio in ("9:16", "1:1", "3:4", "4:3", "16:9")),
    {"ratio": "1:1", "aspect_ratio": "1:1"},
    {"resolution": "720p"},
    *({"mode": mode} for mode in ("", " ", "fast", "a mode that nobody knows")),
    {"attachments": []},
    {"attachments": [{}, {"url": "any"}]},
    {"image_ids": [], "image_urls": [], "video_urls": [], "audio_urls": []},
    {"reference_images": [], "reference_videos": [], "reference_audios": []},
    {"image_ids": [UPLOAD]},
    *({"image_urls": [url]} for url in VALID_URLS),
    {"audio_urls": [AUDIO], "video_urls": [VIDEO]},
    {"reference_images": [{"url": IMAGE, "role": "first"}], "reference_videos": [{"url": VIDEO}]},
    {"reference_audios": [{"url": AUDIO, "url2": "any"}]},
    # Limits of the models; those that an entry does not state refuse nothing.
    {"image_urls": [IMAGE] * 40, "audio_urls": [AUDIO] * 40, "video_urls": [VIDEO] * 40},
    H3 | {"image_urls": [IMAGE] * 8, "audio_urls": [AUDIO] * 3, "duration": 5, "resolution": "768p"},
    H3 | {"image_ids": [UPLOAD], "seconds": 15},
    H3 | {"reference_images": [{"url": IMAGE}]},
    H3 | {"attachments": [{"any": 1}]},
    TIER_B,
    TIER_B
    | {"duration": 30, "image_urls": [IMAGE] * 4, "reference_images": [{"url": IMAGE}] * 4, "image_ids": [UPLOAD]},
    SD2 | {"video_urls": [VIDEO] * 3, "reference_audios": [{"url": AUDIO}] * 3},
]
INVALID: list[Body] = [
    *({"model": model} for model in (..., "", " ", 7, None, ["gen-2.0"], "no-such-model", "gen-2.0 ", "GEN-2.0")),
    *({"model": model} for model in ("gen-2.5", "promo_gen25_discount_720p")),
    *({"prompt": prompt} for prompt in (..., "", 7, None, ["a boat"], {"text": "a boat"})),
    *({"duration": seconds} for seconds in (0, -5, 7, 5.5, "5", True, [5], 1e300, 10**400)),
    *({"seconds": seconds} for seconds in (0, 99, 10.5, "10", False)),
    {"duration": 5, "seconds": 10},
    *({name: ratio} for name in ("ratio", "aspect_ratio") for ratio in ("", "16:10", "16/9", " 16:9", 1, ["1:1"])),
    {"ratio": "1:1", "aspect_ratio": "4:3"},
    *({"resolution": resolution} for resolution in ("", "1080p", "720P", 720, ["720p"])),
    *({"mode": mode} for mode in (1, True, ["fast"], {})),
    *({"attachments": items} for items in ("x", {}, ["x"], [None], [{}, []])),
    *({"image_ids": ids} for ids in (UPLOAD, {}, [7], [""], [" "], [UPLOAD, ""], [{"id": UPLOAD}])),
    *(
        {"image_ids": [image_id]}
        for image_id in (
            *("<image_id>", "your_image_id", "asset_id", "asset-xxxxxxxx", "xxxx", "...", "example-id", "${id}"),
            *("$IMAGE_ID", "%ID%", "{{image_id}}", "img_…", "img_...", "image_id_here", "null", "None", "undefined"),
        )
    ),
    *(
        {name: items}
        for name in ("image_urls", "video_urls", "audio_urls")
        for items in (IMAGE, {}, 7, [{"url": IMAGE}])
    ),
    *(
        {name: items}
        for name in ("reference_images", "reference_videos", "reference_audios")
        for items in (IMAGE, {"url": IMAGE}, [IMAGE], [[]], [{}], [{"uri": IMAGE}], [{"url": IMAGE}, {"url": ""}])
    ),
    *({"image_urls": [url]} for url in INVALID_URLS),
    *({"reference_images": [{"url": url}]} for url in INVALID_URLS),
    *({name: [IMAGE, "https://example.com/a"]} for name in ("audio_urls", "video_urls")),
    *({name: [{"url": "https://example.com/a"}]} for name in ("reference_audios", "reference_videos")),
    *({name: [IMAGE]} for name in ("images", "audios", "videos", "commission", "agent", "promt", "style")),
    # Limits of the models.
    H3,
    H3 | {"attachments": []},
    H3 | {"image_urls": [IMAGE] * 9},
    H3 | {"image_urls": [IMAGE] * 4, "image_ids": [UPLOAD] * 4, "reference_images": [{"url": IMAGE}]},
    H3 | {"image_urls": [IMAGE], "duration": 4},
    H3 | {"image_urls": [IMAGE], "resolution": "2K"},
    H3 | {"image_urls": [IMAGE], "audio_urls": [AUDIO] * 2, "reference_audios": [{"url": AUDIO}] * 2},
    H3 | {"image_urls": [IMAGE], "video_urls": [VIDEO]},
    TIER_B | {"duration": 5},
    TIER_B | {"audio_urls": [AUDIO]},
    TIER_B | {"reference_videos": [{"url": VIDEO}]},
    SD2 | {"video_urls": [VIDEO] * 4},
]


@pytest.mark.rule("2.1 note commission", "2.4 field", "2.4 rule", side="sdk")
@pytest.mark.rule("1 bullet 4", "2.1 field code", "2.1 note commission", side="sandbox")
@pytest.mark.rule("2.4 field", "2.4 rule", "2.4 unshown", "9 bullet 5", side="sandbox")
@pytest.mark.slow
@pytest.mark.parametrize(("bodies", "is_valid"), [(VALID, True), (INVALID, False)], ids=["valid", "invalid"])
async def test_the_sdk_and_the_sandbox_agree_about_every_body(session, bodies, is_valid):
    wrong = []
    async with (
        Sandbox(submission_limit=len(bodies)) as service,
        Client(service.api_key, base_url=service.base_url) as client,
    ):
        api = Caller(session, service.base_url, service.api_key)
        upload = (await api.upload(picture())).json["image_id"]
        catalog = await client.models.list()
        now = datetime.fromtimestamp(service.clock.now(), UTC)
        for changes in bodies:
            body = _body_of(changes, upload)
            reply = await api.post("/videos", body)
            verdicts = {"sdk": _is_valid(body, catalog, URL(service.base_url), now), "sandbox": reply.status == 202}
            if set(verdicts.values()) != {is_valid} or reply.status not in (202, 400, 503):
                wrong.append((changes, verdicts, reply.status, reply.body))

        assert wrong == []
        assert len(service.tasks) == (len(bodies) if is_valid else 0)


def _body_of(changes: Body, upload: str) -> Body:
    """Return a valid body with these changes; ``...`` removes a field."""
    body = {"model": "gen-2.0", "prompt": "A paper boat at dawn"} | changes
    return json.loads(
        json.dumps({name: value for name, value in body.items() if value is not ...}).replace(UPLOAD, upload)
    )


def _is_valid(body: Body, catalog: Catalog, service: URL, now: datetime) -> bool:
    """Return the verdict of the SDK."""
    request, problems = make_request((), body)
    if problems:
        return False
    return not (problems_of(request, service, now) or problems_in_catalog(request, catalog))

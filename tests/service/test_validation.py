"""Bad input is named, all of it at once, before anything is sent (2.4)."""

from datetime import UTC, datetime

import pytest
from yarl import URL

from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.request_checks import make_request, problems_of
from vidgen_async.types.resources import ReferenceAsset, VideoRequest

SERVICE = URL("https://service.net/openapi/v1")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def found(**fields) -> tuple[str, ...]:
    request, problems = make_request((), {"model": "vendorh3", "prompt": "a boat", **fields})
    return tuple(problems_of(request, SERVICE, NOW, found=problems))


@pytest.mark.rule("2.4 field", "2.4 rule 3", "9 bullet 5", side="sdk")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model": ""}, "model"),
        ({"prompt": ""}, "prompt"),
        ({"duration": 8, "seconds": 9}, "seconds"),
        ({"ratio": "16/9"}, "ratio"),
        ({"ratio": "9:16", "aspect_ratio": "1:1"}, "aspect_ratio"),
        ({"image_urls": ["https://a.net/1", "file:///etc/passwd"]}, "image_urls[1]"),
        ({"audio_urls": ["https://][@/a.mp3"]}, "audio_urls[0]"),
        ({"reference_images": [{"uri": "x"}]}, "reference_images[0]"),
        ({"reference_videos": [{"url": "x"}]}, "reference_videos[0].url"),
        ({"image_ids": ["ok", ""]}, "image_ids[1]"),
        ({"attachments": ["x"]}, "attachments[0]"),
        ({"extra": {"images": []}}, "extra['images']"),
        ({"extra": {"prompt": "x"}}, "extra['prompt']"),
        ({"images": []}, "images"),
        ({"promt": "x"}, "promt"),
    ],
)
def test_a_problem_names_its_field(fields, named):
    problems = found(**fields)
    assert len(problems) == 1
    assert problems[0].startswith(f"{named}:")


@pytest.mark.rule("2.3 field image_id", side="sdk")
def test_assets_stand_for_their_ids_and_urls():
    asset = ReferenceAsset(id="a-1", image_id="i-1", url="https://pics.net/a.png?token=t")
    request = VideoRequest(
        model="m",
        prompt="p",
        image_ids=[asset, "i-2"],
        image_urls=[asset, "https://pics.net/b.png"],
        reference_images=(asset, {"url": "https://pics.net/c.png"}),
    )
    assert request.image_ids == ("i-1", "i-2")
    assert request.image_urls == (asset.url, "https://pics.net/b.png")
    assert request.reference_images == ({"url": asset.url}, {"url": "https://pics.net/c.png"})
    assert problems_of(request) == []
    assert found(image_ids=asset) == ("image_ids: must be a list, not ReferenceAsset",)
    assert len(found(image_urls=[ReferenceAsset(id="a", image_id="i")])) == 1


def test_the_url_of_an_asset_becomes_absolute_where_the_client_knows_its_origin():
    path = "/api/reference-assets/a-1/content/a.png?token=t%2Bo"
    asset = ReferenceAsset(id="a-1", image_id="a-1", url=path)
    fields = {"model": "m", "prompt": "p", "image_urls": [asset, "/home/a.png", None, 7]}
    fields["reference_images"] = [asset, {"url": path, "role": "first"}, {"url": None}, "x", {}]
    given = VideoRequest(**fields)
    absolute = Endpoints(SERVICE, "key").absolute_asset
    for request, _ in (make_request((), fields, absolute), make_request((given,), {}, absolute)):
        assert request.image_urls == (f"https://service.net{path}", *given.image_urls[1:])
        assert request.reference_images[:2] == (
            {"url": f"https://service.net{path}"},
            {"url": f"https://service.net{path}", "role": "first"},
        )
        assert request.reference_images[2:] == given.reference_images[2:]
    assert given.image_urls[0] == path
    other = VideoRequest(model="m", prompt="p", image_urls=["https://pics.net/a.png"])
    assert make_request((other,), {}, absolute)[0] is other


@pytest.mark.parametrize(("given", "sent"), [(8.0, 8), (8, 8), (8.5, 8.5), (True, True), ("8", "8"), (None, None)])
def test_a_whole_number_of_seconds_is_sent_as_an_integer(given, sent):
    request = VideoRequest(model="m", prompt="p", duration=given, seconds=given)
    assert (request.duration, request.seconds) == (sent, sent)
    assert type(request.duration) is type(sent)


def test_a_request_shows_neither_its_prompt_nor_secrets_of_its_urls():
    request = VideoRequest(model="m", prompt="a secret plan", image_urls=["https://a.test/x?token=hush"])
    assert "secret plan" not in repr(request)
    assert "hush" not in repr(request)


class TestReferences:
    """2.4, rules 2 and 3: what the service could not read is not sent."""

    @pytest.mark.rule("2.4 rule 2", side="sdk")
    @pytest.mark.parametrize(
        "url",
        [
            "https://example.com/a.png",
            "https://pics.net/<file>.png",
            "https://pics.net/a.png?token=YOUR_TOKEN",
            "https://pics.net/a.png?token=%24%7BTOKEN%7D",
        ],
    )
    def test_a_placeholder_is_no_file(self, url):
        (problem,) = found(image_urls=[url])
        assert problem.startswith("image_urls[0]: ")
        assert "not the URL of a real file" in problem

    @pytest.mark.rule("2.4 rule 3", side="sdk")
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "127.0.0.1",
            "127.1",
            "[::1]",
            "10.1.2.3",
            "192.168.0.7",
            "169.254.1.1",
            "100.64.0.1",
            "[fe80::1]",
            "nas",
            "nas.local",
            "nas.local.",
            "files.internal",
            "box.lan",
            "cdn.test",
            "files.localhost",
        ],
    )
    def test_a_host_that_the_service_cannot_reach_is_refused(self, host):
        (problem,) = found(video_urls=[f"http://{host}/a.mp4"])
        assert problem.startswith("video_urls[0]: the service cannot reach this host (upload a local image with ")

    @pytest.mark.parametrize("service", ["http://127.0.0.1:8080", "http://localhost", "https://gateway.internal"])
    def test_a_service_that_is_not_public_itself_may_reach_such_hosts(self, service):
        request = VideoRequest(model="m", prompt="p", image_urls=["http://nas.local/a.png"])
        assert problems_of(request, URL(service)) == []

    @pytest.mark.rule("2.4 rule 3", side="sdk")
    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("https://ann:hush@pics.net/a.png", "must be readable without a login"),
            ("https://pics.net/page.HTML", "not to an HTML page"),
            ("https://pics.net/a.png?exp=1893455999&sig=hush", "the link expired at 2029-12-31 23:59:59 UTC"),
            ("https://pics.net/a.png?Expires=1893456000&sig=hush", "the link expired at 2030-01-01 00:00:00 UTC"),
            ("https://pics.net/a.png?exp=1577836800&sig=hush", "the link expired at 2020-01-01 00:00:00 UTC"),
            ("https://pics.net/a.png?expires=1577836800000&signature=hush", "expired at 2020-01-01 00:00:00 UTC"),
            (
                "https://pics.net/a.png?Expires=1577836800&Signature=hush&Key-Pair-Id=K",
                "expired at 2020-01-01 00:00:00",
            ),
            (
                "https://b.s3.amazonaws.com/a.png?X-Amz-Date=20200101T000000Z&X-Amz-Expires=3600&X-Amz-Signature=hush",
                "the link expired at 2020-01-01 01:00:00 UTC",
            ),
            (
                "https://storage.googleapis.com/b/a.png?X-Goog-Date=20200101T000000Z&X-Goog-Expires=60&X-Goog-Signature=hush",
                "the link expired at 2020-01-01 00:01:00 UTC",
            ),
            (
                "https://a.blob.core.windows.net/b/a.png?se=2020-01-01T00%3A00%3A00Z&sp=r&sig=hush",
                "expired at 2020-01-01",
            ),
            (" https://pics.net/a.png", "must be a public http or https URL"),
            ("C:\\pictures\\a.png", "must be a public http or https URL"),
            ("/home/ann/a.png", "must be a public http or https URL"),
            ("ftp://pics.net/a.png", "must be a public http or https URL"),
        ],
    )
    def test_what_is_wrong_with_a_url_is_said_without_its_secrets(self, url, why):
        (problem,) = found(audio_urls=[url])
        assert why in problem
        assert "hush" not in problem

    @pytest.mark.parametrize(
        "url",
        [
            "https://pics.net/a.png?exp=1893456001&sig=s",
            "https://8.8.8.8/a.png",
            "https://cdn.mysite.com/a.png",
            "https://0xbad.cafe/a.png",
            "https://pics.net/%7Bfoo%7D.png",
            "https://pics.net/a.png?exp=1000000000",
            "https://domainfactory.de/a.png",
            "https://b.s3.amazonaws.com/a.png?X-Amz-Date=20290101T000000Z&X-Amz-Expires=36000000000000&X-Amz-Signature=s",
            "https://b.s3.amazonaws.com/a.png?X-Amz-Date=20291231T235900Z&X-Amz-Expires=3600&X-Amz-Signature=s",
            "https://a.blob.core.windows.net/b/a.png?se=2031-01-01T00%3A00%3A00Z&sig=s",
            "https://cdn.mytest.io/latest/local/x.webp",
        ],
    )
    def test_a_public_url_is_let_through(self, url):
        assert found(image_urls=[url]) == ()

    @pytest.mark.rule("2.4 rule 2", side="sdk")
    @pytest.mark.parametrize(
        "value",
        [
            "<image_id>",
            "IMAGE-ID",
            "img_XXXX",
            "ref-img-xxx",
            "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
            "my_image_id",
        ],
    )
    def test_an_illustrative_id_is_no_upload(self, value):
        (problem,) = found(image_ids=[value])
        assert problem == f"image_ids[0]: a placeholder, not the image_id of an upload: {value!r}"

    @pytest.mark.parametrize(
        "value",
        [
            "asset-7f3axxxx",
            "xx",
            "asset-xx",
            "img-1",
            "taxxxi",
            "0197f3c2-xxxx-4a3b",
            "asset-000000000001",
            "my-photo-1",
            "{7d1f-aa}",
            "nullable",
            "7f3a$b",
            "50%a%",
            "here",
        ],
    )
    def test_an_id_that_may_be_real_is_let_through(self, value):
        assert found(image_ids=[value]) == ()

    def test_a_long_value_is_shortened(self):
        (problem,) = found(ratio="9" * 1000)
        assert len(problem) < 200

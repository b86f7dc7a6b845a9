"""Uploads (4.3): only images are sent, in the documented form, and the event loop is not blocked by Base64."""

import asyncio
import base64
import io
import json
import threading
import tracemalloc
from collections import deque
from datetime import timedelta
from urllib.parse import quote

import pytest
from attrs import define, evolve, field
from PIL import Image
from yarl import URL

from tests.media.conftest import endpoints_of
from tests.media.sites import KEY
from tests.transports.raw_service import Connection, RawService, raw_service
from vidgen_async.clock import LoopClock
from vidgen_async.errors import (
    BodyError,
    EmptyReferenceAssetError,
    InvalidReferenceImageError,
    InvalidRequestError,
    ReferenceAssetExpiredError,
    UnexpectedResponseError,
    UnsupportedReferenceURLError,
)
from vidgen_async.media import upload
from vidgen_async.media.local_images import LocalImages
from vidgen_async.media.upload import Uploads
from vidgen_async.service.retries import Reads
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.resources import ReferenceAsset

pytestmark = pytest.mark.slow

ASSET = {
    "id": "asset-1",
    "image_id": "asset-1",
    "url": "/api/reference-assets/asset-1/content/hero.png?token=t%2Bo~k+e%3Dn&exp=1",
    "mime": "image/png",
    "name": "hero.png",
}


def picture(kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16), "teal").save(file, kind, **options)
    return file.getvalue()


PNG = picture()
KINDS = {
    "image/png": PNG,
    "image/jpeg": picture("JPEG"),
    "image/gif": picture("GIF"),
    "image/webp": picture("WEBP"),
    "image/bmp": picture("BMP"),
    "image/tiff": picture("TIFF"),
    "image/avif": b"\0\0\0\x1cftypavif\0\0\0\0mif1avifmiaf" + b"\0" * 40,
    "image/heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 40,
    "image/heif": b"\0\0\0\x14ftypmif1\0\0\0\0mif1" + b"\0" * 40,
}


@define
class Post:
    head: bytes
    body: dict


@define
class Service:
    raw: RawService
    posts: list[Post] = field(factory=list)
    answers: list[tuple[int, object]] = field(factory=list)

    def url(self, path: str) -> URL:
        return self.raw.url(path)


@pytest.fixture
async def service():
    async def behave(connection: Connection) -> None:
        while True:
            head, _, body = (await connection.request()).partition(b"\r\n\r\n")
            here.posts.append(Post(head, json.loads(body)))
            status, answer = here.answers.pop(0) if here.answers else (200, ASSET)
            data = json.dumps(answer).encode()
            await connection.answer(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))

    async with raw_service(behave) as raw:
        here = Service(raw)
        yield here


def sent_image(service: Service) -> tuple[str, bytes]:
    """The media type and the bytes of the one upload."""
    [post] = service.posts
    assert set(post.body) == {"image_b64"}
    start, _, data = post.body["image_b64"].partition(";base64,")
    return start.removeprefix("data:"), base64.b64decode(data, validate=True)


class Reader:
    """The least that a binary file is."""

    def __init__(self, data: bytes) -> None:
        self.read = lambda: data


@pytest.mark.rule("4.3 body either", "4.3 body image_b64", "4.3 note no-multipart", "4.3 note no-paths", side="sdk")
@pytest.mark.parametrize("form", ["path", "str", "bytes", "bytearray", "memoryview", "file", "BytesIO", "reader"])
async def test_an_image_can_be_given_in_any_form(form, service, uploads_of, tmp_path):
    path = tmp_path / "hero.png"
    path.write_bytes(PNG)
    with path.open("rb") as file:
        forms = {
            "path": path,
            "str": str(path),
            "bytes": PNG,
            "bytearray": bytearray(PNG),
            "memoryview": memoryview(PNG + PNG)[: len(PNG)],
            "file": file,
            "BytesIO": io.BytesIO(PNG),
            "reader": Reader(PNG),
        }
        asset = await uploads_of(service).upload(forms[form])
        assert not file.closed
    assert sent_image(service) == ("image/png", PNG)
    assert asset.image_id == "asset-1"
    head = service.posts[0].head
    assert head.startswith(b"POST /openapi/v1/files HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\n" in head
    assert f"Authorization: Bearer {KEY}".encode() in head


@pytest.mark.rule("2.3 field url", side="sdk")
async def test_the_url_of_an_asset_gets_the_host_and_keeps_its_token(service, uploads_of):
    asset = await uploads_of(service).upload(PNG)
    assert asset.url == f"http://127.0.0.1:{service.raw.port}{ASSET['url']}"
    assert "t%2Bo" not in repr(asset)


@pytest.mark.rule("4.3 note format", side="sdk")
@pytest.mark.parametrize("name", ["hero.jpg", "hero", "hero.mp4"])
async def test_the_type_is_determined_from_the_bytes_and_not_from_the_name(name, service, uploads_of, tmp_path):
    path, uploads = tmp_path / name, uploads_of(service)
    for mime, data in KINDS.items():
        path.write_bytes(data)
        await uploads.upload(path)
        assert sent_image(service) == (mime, data)
        service.posts.clear()


NO_IMAGES = {
    "empty": (b"", "empty"),
    "HTML": (b"\n<!DOCTYPE html><p>log in", "an HTML page"),
    "JSON": (b'{"error": "no"}', "JSON"),
    "list of texts": (b"[boat] by the sea", "text"),
    "long JSON": (b'[{"words": "' + b"x" * 600 + b'"}]', "JSON"),
    "long text": (b"[1] A boat" + b"!" * 600, "text"),
    "SVG": (b'<?xml version="1.0"?><svg xmlns="x"/>', "SVG"),
    "text": (b"BMW is no bitmap, it is a text", "text"),
    "PDF": (b"%PDF-1.7 x\xff", "PDF"),
    "ZIP": (b"PK\x03\x04\xff", "ZIP"),
    "video": (b"\0\0\0\x14ftypisom\0\0\0\0isom" + b"\0" * 99, "a video or audio file"),
    "noise": (b"\xde\xad\xbe\xef" * 9, "unknown kind"),
    "half a PNG": (PNG[:5], "unknown kind"),
    "webm": (b"RIFF\0\0\0\0WAVE", "unknown kind"),
}


@pytest.mark.rule("2.4 field reference_images", "7 error 400 EMPTY_REFERENCE_ASSET", side="sdk")
@pytest.mark.parametrize("kind", NO_IMAGES)
async def test_data_that_is_not_an_image_is_refused_before_anything_is_sent(kind, service, uploads_of, tmp_path):
    data, words = NO_IMAGES[kind]
    path = tmp_path / "hero.png"
    path.write_bytes(data)
    uri = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    with path.open("rb") as file:
        for form, image in {"path": path, "bytes": data, "file": file, "uri": uri}.items():
            with pytest.raises(InvalidRequestError, match=words) as caught:
                await uploads_of(service).upload(image)
            assert caught.value.problems == (str(caught.value),), form
            assert ("hero.png" in str(caught.value)) == (form in ("path", "file")), form
    assert service.posts == []


@pytest.mark.rule("4.3 note no-paths", side="sdk")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.png", "does not exist"),
        (".", "directory"),
        ("hero.png/x", "cannot be read"),
        ("he\0ro.png", "cannot be read"),
        ("x" * 3000, "cannot be read"),
        ("/dev/zero", "regular file"),
        ("/dev/null", "regular file"),
    ],
)
async def test_a_file_that_is_missing_or_a_device_is_named(name, words, service, uploads_of, tmp_path):
    (tmp_path / "hero.png").write_bytes(PNG)
    with pytest.raises(InvalidRequestError, match=words) as caught:
        await uploads_of(service).upload(str(tmp_path / name))
    assert len(str(caught.value)) < 500
    assert service.posts == []


async def test_a_file_is_read_from_its_current_position(service, uploads_of):
    file = io.BytesIO(b"something before" + PNG)
    file.seek(16)
    await uploads_of(service).upload(file)
    assert sent_image(service)[1] == PNG
    with pytest.raises(InvalidRequestError, match=rf"at its end \(position {16 + len(PNG)}\): call seek\(0\)"):
        await uploads_of(service).upload(file)
    with pytest.raises(InvalidRequestError, match="the file is empty"):
        await uploads_of(service).upload(io.BytesIO())
    file.seek(19)
    with pytest.raises(InvalidRequestError, match="the file, from its position 19, is not an image"):
        await uploads_of(service).upload(file)
    assert len(service.posts) == 1


async def test_files_in_text_mode_asynchronous_or_closed_are_refused(service, uploads_of):
    class Asynchronous:
        async def read(self) -> bytes:
            return PNG

    closed = io.BytesIO(PNG)
    closed.close()
    for file, words in ((io.StringIO("x"), "binary mode"), (Asynchronous(), "binary mode"), (closed, "closed")):
        with pytest.raises(InvalidRequestError, match=words):
            await uploads_of(service).upload(file)
    assert service.posts == []


@pytest.mark.parametrize("thing", [None, 7, ["hero.png"], object()])
async def test_other_types_are_a_type_error(thing, service, uploads_of):
    with pytest.raises(TypeError, match=type(thing).__name__):
        await uploads_of(service).upload(thing)


async def test_a_mutable_image_is_copied(service, uploads_of):
    image = bytearray(PNG)
    worker = asyncio.ensure_future(uploads_of(service).upload(image))
    await asyncio.sleep(0)
    image[:] = bytes(len(image))
    await worker
    assert sent_image(service)[1] == PNG


# -- strings ---------------------------------------------------------------------------------------------------------

DATA = base64.b64encode(PNG).decode()
LARGE = picture("BMP") + bytes(200_000)


TRIM = picture("BMP") + b"\xfb\xff"  # its Base64 has both characters that the URL-safe alphabet replaces, and padding
TRIMMED = base64.b64encode(TRIM).decode()


@pytest.mark.rule("4.3 body image_b64", "4.3 note format", side="sdk")
@pytest.mark.parametrize(
    ("given", "mime", "data"),
    [
        (f"data:image/png;base64,{DATA}", "image/png", PNG),
        (f"  data:image/png;base64,{DATA}\n", "image/png", PNG),
        (f"DATA:image/jpeg;name=x;base64,{DATA}", "image/png", PNG),
        (f"data:image/png;name=a%20b.jpg;base64,{DATA}", "image/png", PNG),
        (f'data:image/png;name="a,b;c.jpg";base64,{DATA}', "image/png", PNG),
        (f"data:image/png;charset=utf-8;name=é.png; base64 ,{DATA}", "image/png", PNG),
        (f"data:image/png;BASE64,{DATA}", "image/png", PNG),
        (f"data:;base64,{DATA}", "image/png", PNG),
        (f'data:image/p"ng;base64,{DATA}', "image/png", PNG),
        (f"data:image/png;base64,{quote(DATA, safe='')}", "image/png", PNG),
        (f"data:image/png,{quote(PNG, safe='')}", "image/png", PNG),
        (f"data:image/bmp;base64,{base64.b64encode(LARGE).decode()}", "image/bmp", LARGE),
        (f"data:image/bmp;base64,{base64.encodebytes(LARGE).decode()}", "image/bmp", LARGE),
        (f"data:image/bmp;base64,{TRIMMED.rstrip('=')}", "image/bmp", TRIM),
        (f"data:image/bmp;base64,{base64.urlsafe_b64encode(TRIM).decode()}", "image/bmp", TRIM),
        (f"data:image/png;base64,{DATA}".encode(), "image/png", PNG),
        (TRIMMED.rstrip("="), "image/bmp", TRIM),
        (base64.encodebytes(LARGE).decode(), "image/bmp", LARGE),
        (base64.urlsafe_b64encode(TRIM).decode().rstrip("="), "image/bmp", TRIM),
    ],
    ids=lambda given: repr(given[:50]) if isinstance(given, str | bytes) else None,
)
async def test_a_clear_text_is_sent_as_a_data_uri_in_one_form(given, mime, data, service, uploads_of):
    await uploads_of(service).upload(given)
    assert service.posts[0].body == {"image_b64": f"data:{mime};base64,{base64.b64encode(data).decode()}"}


@pytest.mark.rule("4.3 body image_b64", side="sdk")
@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("data:image/png,%89PNG", "unknown kind"),
        ("data:image/svg+xml,%3Csvg/%3E", "an SVG drawing"),
        ('data:image/p"ng;base64,AAAA', "unknown kind"),
        ("data:", "has no comma"),
        ("data:image/png;base64", "has no comma"),
        ("data:image/png;base64,", "empty"),
        (f"data:image/png;base64,{DATA[:60]}!{DATA[60:]}", "not Base64"),
        (f"data:image/png;base64,{DATA[:-1]}!", "continues after its padding"),
        (f"data:image/png;base64,{DATA}A", "continues after its padding"),
        (f"data:image/png;base64,{DATA.rstrip('=')}AAA", "not Base64"),
        (f"data:image/png;base64,{DATA}é", "continues after its padding"),
        (f'data:image/png;base64,{DATA}","image_url":"x', "continues after its padding"),
        (f"data:image/bmp;base64,{base64.b64encode(LARGE[:49151]).decode()}{DATA}", "continues after its padding"),
    ],
)
async def test_a_data_uri_is_checked_before_it_is_sent(uri, words, service, uploads_of):
    with pytest.raises(InvalidRequestError, match=words) as caught:
        await uploads_of(service).upload(uri)
    assert DATA[:40] not in str(caught.value)
    assert service.posts == []


@pytest.mark.rule("4.3 body either", "4.3 body image_url", "4.3 note old-habit", side="sdk")
@pytest.mark.parametrize("form", ["absolute", "path", "white space", "upper"])
async def test_an_asset_of_the_service_is_reused_by_its_full_url(form, service, uploads_of):
    address = f"http://127.0.0.1:{service.raw.port}{ASSET['url']}"
    given = {
        "absolute": address,
        "path": ASSET["url"],
        "white space": f" \n{ASSET['url']}\n",
        "upper": address.replace("http", "HTTP", 1),
    }[form]
    await uploads_of(service).upload(given)
    assert service.posts[0].body == {"image_url": address if form != "upper" else given}


@pytest.mark.rule("4.3 body image_url", side="sdk")
async def test_an_asset_is_reused_by_its_url(service, uploads_of):
    asset = await uploads_of(service).upload(PNG)
    again = await uploads_of(service).upload(asset)
    assert service.posts[1].body == {"image_url": asset.url}
    assert again.uploaded_at == asset.uploaded_at
    await uploads_of(service).upload(evolve(asset, url=f" {ASSET['url']}"))
    assert service.posts.pop(1).body == {"image_url": asset.url}
    with pytest.raises(InvalidRequestError, match="has no URL"):
        await uploads_of(service).upload(ReferenceAsset(id="a", image_id="a"))
    with pytest.raises(InvalidRequestError, match="image_urls"):
        await uploads_of(service).upload(ReferenceAsset(id="a", image_id="a", url="https://cdn.test/a.png"))
    assert len(service.posts) == 2


@pytest.mark.rule("2.3 note retention", side="sdk")
async def test_an_asset_knows_until_when_it_is_stored(service, uploads_of, clock):
    now = clock.wall()
    asset = await uploads_of(service).upload(PNG)
    assert (asset.uploaded_at, asset.expires_at) == (now, now + timedelta(hours=72))
    service.answers[:] = [(200, ASSET), (200, {**ASSET, "id": "asset-2"})]
    by_url = await uploads_of(service).upload(asset.url)
    assert (by_url.uploaded_at, by_url.expires_at) == (None, None)
    copy = await uploads_of(service).upload(asset)
    assert copy.uploaded_at is None
    assert by_url == asset


@pytest.mark.rule("4.3 note external", "7 error 400 UNSUPPORTED_REFERENCE_URL", side="sdk")
@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.example/hero.png?sig=s3cr3tsig",
        "http://127.0.0.1:1/api/reference-assets/a/content/x?token=s3cr3tsig",
        "https://127.0.0.1:{port}/api/reference-assets/a/content/x?token=s3cr3tsig",
        "http://127.0.0.1.evil.example:{port}/api/reference-assets/a",
        "http://evil.example/?http://127.0.0.1:{port}/api/reference-assets/a",
        " https://cdn.example/hero.png",
        "http://[::1/x",
        "http://x:99999/",
        "http:hero.png",
    ],
)
async def test_urls_of_other_origins_are_refused_with_a_reference_to_image_urls(url, service, uploads_of):
    with pytest.raises(InvalidRequestError, match="image_urls") as caught:
        await uploads_of(service).upload(url.format(port=service.raw.port))
    assert "s3cr3tsig" not in str(caught.value)
    assert service.posts == []


# -- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("4.3 response 400", side="sdk")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("EMPTY_REFERENCE_ASSET", EmptyReferenceAssetError),
        ("INVALID_REFERENCE_IMAGE", InvalidReferenceImageError),
        ("REFERENCE_ASSET_EXPIRED", ReferenceAssetExpiredError),
        ("UNSUPPORTED_REFERENCE_URL", UnsupportedReferenceURLError),
    ],
)
async def test_an_error_status_raises_its_service_error_and_is_not_retried(code, kind, service, uploads_of):
    service.answers[:] = [(400, {"error": {"code": code, "message": "no"}})]
    with pytest.raises(kind):
        await uploads_of(service).upload(PNG)
    assert len(service.posts) == 1


async def test_a_transient_failure_is_retried_with_the_same_bytes(service, uploads_of):
    service.answers[:] = [(503, {}), (429, {}), (200, ASSET)]
    image = picture("BMP") + bytes(200_000)
    asset = await uploads_of(service).upload(image)
    assert asset.id == "asset-1"
    assert len(service.posts) == 3
    assert service.posts[0].body == service.posts[2].body


@pytest.mark.rule("2.3 field id", "2.3 field image_id", side="sdk")
@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        ({"id": None, "image_id": "y"}, ("y", "y")),
        ({"id": "", "image_id": "y"}, ("y", "y")),
        ({"id": ["x"], "image_id": "y"}, ("y", "y")),
        ({"id": "x", "image_id": None}, ("x", "x")),
        ({"id": "x"}, ("x", "x")),
        ({"id": 7}, ("7", "7")),
        ({"id": "x", "image_id": "y"}, ("x", "y")),
    ],
)
async def test_the_two_names_of_the_id_stand_for_each_other(answer, ids, service, uploads_of):
    service.answers[:] = [(200, answer)]
    asset = await uploads_of(service).upload(PNG)
    assert (asset.id, asset.image_id) == ids


@pytest.mark.parametrize("answer", [{"ok": True}, {"id": None}, {"id": " ", "image_id": []}, [], None, "asset-1"])
async def test_an_upload_that_was_answered_with_a_2xx_is_not_repeated(answer, service, uploads_of, clock):
    service.answers[:] = [(201, answer)]
    with pytest.raises(UnexpectedResponseError):
        await uploads_of(service).upload(PNG)
    assert (len(service.posts), clock.now()) == (1, 0)


async def test_an_upload_whose_2xx_is_cut_short_is_not_repeated(uploads_of):
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b'{"id": "asset-1"')

    async with raw_service(behave) as raw:
        with pytest.raises(BodyError) as caught:
            await uploads_of(raw).upload(PNG)
    assert caught.value.status == 200
    assert len(raw.connections) == 1


# -- the loop --------------------------------------------------------------------------------------------------------


def fake_uploads(lengths: list[int]) -> Uploads:
    async def handle(request):
        lengths.append(sum([len(piece) async for piece in request.body.open()]))
        assert lengths[-1] == request.body.length
        return BufferedResponse(200, json.dumps(ASSET).encode(), url=request.url)

    endpoints = endpoints_of(URL("https://service.example/openapi/v1"))
    clock = LoopClock()
    return Uploads(Reads(FakeTransport(handle), clock, origin=endpoints.origin), endpoints, clock)


async def test_a_file_is_read_in_another_thread_and_encoded_in_short_steps(monkeypatch):
    threads, sizes = set(), []
    encode = base64.b64encode

    def noted(data, *args):
        sizes.append(len(data))
        return encode(data, *args)

    monkeypatch.setattr(upload.base64, "b64encode", noted)

    class File(io.BytesIO):
        def read(self, *args: int) -> bytes:
            threads.add(threading.get_ident())
            return super().read(*args)

    lengths = []
    image = LARGE * 20
    await fake_uploads(lengths).upload(File(image))
    assert lengths == [len(encode(image)) + len('{"image_b64":"data:image/bmp;base64,"}')]
    assert threading.get_ident() not in threads
    assert max(sizes) == 49152


@pytest.mark.parametrize("size", [*range(60, 70), 49151, 49152, 49153, 98304, 200_000])
async def test_the_announced_length_is_exact(size):
    lengths = []
    await fake_uploads(lengths).upload(picture("BMP")[:54] + bytes(size))
    assert len(lengths) == 1  # fake_uploads compares it with what was sent


async def test_other_tasks_run_while_a_large_image_is_sent():
    turns = []

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(1)

    counting = asyncio.ensure_future(count())
    await fake_uploads([]).upload(picture("BMP") + bytes(5 << 20))
    counting.cancel()
    assert len(turns) > 100


async def test_a_large_image_is_held_in_memory_once(tmp_path):
    path = tmp_path / "large.bmp"
    path.write_bytes(picture("BMP") + bytes(8 << 20))
    uploads = fake_uploads([])
    tracemalloc.start()
    try:
        await uploads.upload(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20


async def test_the_local_images_of_a_create_are_in_memory_one_at_a_time(tmp_path):
    for n in range(3):
        (tmp_path / f"{n}.bmp").write_bytes(picture("BMP") + bytes(8 << 20))
    uploads = fake_uploads([])
    uploads._reads._transport.requests = deque(maxlen=0)
    images = LocalImages(uploads, on_progress=lambda _: None)
    tracemalloc.start()
    try:
        await images.read(tmp_path / f"{n}.bmp" for n in range(3))
        await images.upload()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20


# -- progress --------------------------------------------------------------------------------------------------------


async def test_progress_is_reported_in_bytes_of_the_image_and_begins_anew_with_a_retry(service, uploads_of, clock):
    reports, ready = [], []
    service.answers[:] = [(503, {})]

    def on_progress(sent: int, total: int) -> None:
        reports.append((sent, total))
        ready.append(len(service.posts))

    await uploads_of(service).upload(LARGE, on_progress=on_progress)

    first = [sent for sent, _ in reports[: ready.index(1)]]
    second = [sent for sent, _ in reports[ready.index(1) :]]
    for sent in (first, second):
        assert sent == sorted(sent)
        assert sent[-1] == len(LARGE)
    assert {total for _, total in reports} == {len(LARGE)}


async def test_progress_is_reported_at_most_ten_times_a_second(service, uploads_of):
    reports = []
    await uploads_of(service).upload(LARGE, on_progress=lambda *progress: reports.append(progress))
    assert reports == [(49152, len(LARGE)), (len(LARGE), len(LARGE))]  # no time has passed


async def test_no_progress_is_reported_for_an_asset_that_is_reused(service, uploads_of):
    asset = await uploads_of(service).upload(PNG)
    await uploads_of(service).upload(asset, on_progress=pytest.fail)
    assert len(service.posts) == 2

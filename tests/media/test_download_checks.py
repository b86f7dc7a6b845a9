"""Only a complete video is saved; otherwise the existing file is unchanged."""

import gzip

import pytest
from attrs import evolve

from tests.media.mp4_files import FTYP, fragment, fragment_movie, open_box, wide_box
from tests.media.sites import CONTENT, KEY, RangeHost, Says, box, in_turn, page, site, video
from vidgen_async.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    NotReadyError,
    NotVideoError,
    RateLimitError,
    ServiceUnavailableError,
    TransportError,
    TruncatedError,
    UnexpectedResponseError,
    UnverifiedVideoError,
)
from vidgen_async.types.resources import VideoTask

pytestmark = pytest.mark.slow

VIDEO = video()


@pytest.mark.rule("4.6 response 200", side="sdk")
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_the_saved_bytes_equal_the_sent_bytes(framing, downloads_of, target):
    async with site(Says(body=VIDEO, framing=framing)) as service:
        path = await downloads_of(service).download("task-1", target.path)

    assert path == target.path
    assert path.read_bytes() == VIDEO
    assert [entry.name for entry in path.parent.iterdir()] == ["hero.mp4"]
    assert service.targets == [CONTENT]
    assert service.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert service.requests[0].headers["Accept-Encoding"] == "identity"


async def test_a_task_or_its_id_and_a_target_of_any_type_are_accepted_and_a_blank_id_is_refused(downloads_of, target):
    async with site(Says(body=VIDEO)) as service:
        for task, to in ((VideoTask(id="task-1"), str(target.path)), ("task-1", bytes(target.path))):
            assert await downloads_of(service).download(task, to) == target.path
            assert target.path.read_bytes() == VIDEO
            target.path.unlink()
        with pytest.raises(InvalidRequestError):
            await downloads_of(service).download(" ", target.path)
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    "media",
    [
        "video/mp4",
        "video/mp4; codecs=avc1",
        "VIDEO/MP4",
        "video/quicktime",
        "application/octet-stream",
        "binary/octet-stream",
        "application/mp4",
        "application/x-mp4",
        "text/plain",
        "image/jpeg",
        "application/json",
        "multipart/form-data",
        "",
        None,
    ],
)
async def test_a_complete_video_is_saved_whatever_its_media_type(media, saves):
    await saves(Says(body=VIDEO, media=media), VIDEO)


@pytest.mark.rule("4.6 note media", side="sdk")
@pytest.mark.parametrize(
    "answer",
    [
        Says(body=b'{"error": {"message": "it went wrong"}}', media="application/json"),
        Says(body=b'{"title": "it went wrong"}', media="application/problem+json; charset=utf-8"),
        Says(body=b"<!doctype html><p>it went wrong", media="text/html"),
        Says(body=b"it went wrong", media="text/plain"),
        Says(body=b"it went wrong", media="application/xml"),
        Says(body=b'{"error": "it went wrong"}', media="video/mp4"),
        Says(body=b"<html>it went wrong", media=None),
        Says(body=b"it went wrong", media="application/octet-stream", framing="chunked"),
        Says(body=b"\x89PNG\r\n\x1a\n" + VIDEO, media="video/mp4"),
        Says(body=gzip.compress(VIDEO, mtime=0), headers={"Content-Encoding": "gzip"}),
        Says(body=b""),
        Says(body=b"", framing="chunked"),
        Says(body=b"\0\0\0"),
        Says(body=b"", status=204),
        Says(body=b"it went wrong", status=202),
    ],
    ids=lambda answer: f"{answer.status} {answer.media} {answer.body[:12]!r} {answer.framing}",
)
async def test_a_response_that_is_not_a_video_is_never_saved(answer, fails):
    error, service = await fails(answer, NotVideoError)

    assert error.task_id == "task-1"
    assert str(answer.status) in str(error)
    assert ("it went wrong" in str(error)) == (b"it went wrong" in answer.body)
    assert service.targets.count(CONTENT) == 1


async def test_the_quoted_page_shows_no_secret(fails):
    text = f'{{"error": "{KEY} at https://cdn.example/v?exp=17&sig=s3cr3tsig&token=t0k3nt0k3n"}}'
    error, _ = await fails(Says(body=text.encode(), media="application/json"), NotVideoError)
    for secret in (KEY, "s3cr3tsig", "t0k3nt0k3n", "exp=17"):
        assert secret not in str(error)


@pytest.mark.rule("4.6 response 401", "4.6 response 404", "4.6 response 409", side="sdk")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthenticationError),
        (403, UnexpectedResponseError),
        (404, NotFoundError),
        (409, NotReadyError),
        (410, UnexpectedResponseError),
        (304, UnexpectedResponseError),
        (416, UnexpectedResponseError),
    ],
)
async def test_an_error_status_raises_its_service_error_at_once(status, kind, clock, fails):
    error, service = await fails(page(status, "" if status == 304 else "no"), kind)

    assert type(error) is kind
    assert error.status == status
    assert (service.targets.count(CONTENT), clock.now()) == (1, 0)
    if kind is AuthenticationError:
        assert error.source == "service key"


async def test_an_endless_error_page_is_not_read_to_its_end(fails):
    error, _ = await fails(Says(status=404, body=b"x" * 5_000_000, cut=1_000_000, media="text/plain"), NotFoundError)
    assert len(error.body) < 200_000


@pytest.mark.parametrize("fault", [503, 500, 502, 504, 429, 408])
async def test_a_transient_error_status_is_retried(fault, clock, saves):
    await saves(in_turn(page(fault), page(fault), Says(body=VIDEO)), VIDEO)
    assert 0 < clock.now() < 5


async def test_retry_after_is_respected(saves, clock):
    await saves(in_turn(page(503, Retry_After="40"), Says(body=VIDEO)), VIDEO)
    assert clock.now() == 40


@pytest.mark.parametrize(("status", "kind"), [(503, ServiceUnavailableError), (429, RateLimitError)])
async def test_a_persistent_error_status_is_raised_after_the_time_limit(status, kind, clock, fails):
    await fails(page(status), kind, retry_for=100)
    assert 70 < clock.now() <= 100


async def test_an_unreachable_service_is_a_transport_error(downloads_of, target, clock):
    with pytest.raises(TransportError):
        await downloads_of("http://127.0.0.1:1/openapi/v1").download("task-1", target.path)
    assert target.is_untouched()
    assert 60 < clock.now() <= 120


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a_video_that_is_always_cut_short_is_never_saved(framing, clock, fails):
    error, service = await fails(Says(body=VIDEO, cut=50_000, framing=framing), TruncatedError)

    assert error.received == 50_000
    assert "50000 of" in str(error)
    assert ("100000" in str(error)) == (framing != "chunked")
    assert 60 < clock.now() <= 120
    assert len(service.requests) > 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (VIDEO[:-1], TruncatedError),
        (VIDEO[:40], TruncatedError),
        (VIDEO[: VIDEO.index(b"mdat") - 4], TruncatedError),
        (box(b"ftyp", b"isom") + box(b"mdat", b"x" * 100), TruncatedError),
        (box(b"ftyp", b"isom") + b"\0\0\0\3moov" + b"x" * 9, NotVideoError),
    ],
    ids=["one byte short", "cut in moov", "no mdat", "no moov", "bad size"],
)
@pytest.mark.parametrize("framing", ["length", "close"])
async def test_the_boxes_must_be_complete_with_any_framing_of_the_body(body, kind, framing, fails):
    _, service = await fails(Says(body=body, framing=framing), kind)
    if framing == "length":
        assert service.targets.count(CONTENT) == 1, "what was announced came: it will not be better the next time"


MOOV = VIDEO.index(b"moov") - 4
MDAT = VIDEO.index(b"mdat") - 4
OPEN_MDAT = VIDEO[:MDAT] + open_box(b"mdat", VIDEO[MDAT + 8 :])
FRAGMENT = fragment(VIDEO[1000:2000])
FRAGMENTED = FTYP + fragment_movie() + FRAGMENT * 3
#: Its index cannot be read.
UNKNOWN = FTYP + box(b"moov", b"index" * 10)


@pytest.mark.parametrize(
    "body",
    [
        VIDEO + b"\0",
        VIDEO + bytes(7),
        VIDEO + bytes(1_000_000),
        VIDEO + b"\r\n",
        VIDEO + b"\xff" * 100,
        VIDEO + b"vendor trailer: made by a model, 2026",
        VIDEO + b"\0\0\0\x18uuidcut",
        VIDEO + box(b"free", bytes(10)) + b"TAG",
        VIDEO + b"\0\0\0\0free" + bytes(10),
        OPEN_MDAT,
        VIDEO[:MDAT] + wide_box(b"mdat", VIDEO[MDAT + 16 :]),
        video(first=b""),
        video(first=box(b"wide", b"")),
        VIDEO[:MOOV] + VIDEO[MDAT:] + VIDEO[MOOV:MDAT],
        FRAGMENTED + box(b"mfra", b"offsets"),
        FRAGMENTED + box(b"mfra", b"offsets") + bytes(3),
        *(box(first, bytes(16)) + VIDEO for first in (b"uuid", b"pdin", b"meta", b"udta", b"junk", b"prft", b"skip")),
        *(video(first=box(b"ftyp", brand + bytes(4))) for brand in (b"msf1", b"avis", b"hevc")),
    ],
    ids=lambda body: f"{len(body)} {body[4:12]!r} {body[-12:]!r}",
)
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a_complete_video_is_saved_whatever_is_around_it(body, framing, saves):
    await saves(Says(body=body, framing=framing), body)


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize(
    "body",
    [
        OPEN_MDAT + b"trailer",
        FRAGMENTED,
        UNKNOWN + box(b"mdat", bytes(99)),
        UNKNOWN + box(b"mdat", bytes(99)) * 2,
        UNKNOWN + open_box(b"mdat", bytes(99)),
        UNKNOWN + (box(b"moof", b"index") + box(b"mdat", bytes(99))) * 2,
    ],
    ids=["open, trailer", "fragments", "unknown", "unknown, two", "unknown, open", "unknown fragments"],
)
async def test_a_video_whose_end_was_announced_needs_no_other_proof(body, framing, saves):
    await saves(Says(body=body, framing=framing), body)


@pytest.mark.parametrize("encoding", ["aws-chunked", "identity, aws-chunked", "gzip", "utf-8", "none", "br"])
async def test_an_encoding_that_the_bytes_do_not_have_is_ignored(encoding, downloads_of, target):
    async with site(RangeHost(VIDEO, cuts=[50_000])) as service:
        inner = service.script
        service.script = lambda seen: evolve(inner(seen), headers={**inner(seen).headers, "Content-Encoding": encoding})
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(100), "image/jpeg"),
        (b"RIFF\x10\0\0\0WEBP" + bytes(100), "image/webp"),
        (box(b"ftyp", b"avif\0\0\0\0mif1") + box(b"meta", b"") + box(b"mdat", b"x"), "image/avif"),
        (box(b"ftyp", b"heic\0\0\0\0mif1heic") + box(b"mdat", b"x") + box(b"moov", b""), "image/heic"),
    ],
)
@pytest.mark.parametrize("media", ["video/mp4", None])
async def test_an_image_in_place_of_the_video_is_reported_as_an_image(image, name, media, fails):
    await fails(Says(body=image, media=media), NotVideoError, match=f"it is an image \\({name}\\)")


@pytest.mark.parametrize(
    "body",
    [
        FRAGMENTED[: -len(FRAGMENT)],
        FRAGMENTED,
        FRAGMENTED + b"<html>the upstream broke off",
        UNKNOWN + box(b"mdat", bytes(99)),
        UNKNOWN + open_box(b"mdat", bytes(99)),
        OPEN_MDAT[:-1],
        OPEN_MDAT + b"<html>",
        VIDEO[:MDAT] + box(b"mdat", bytes(100)),
    ],
    ids=[
        "half",
        "all",
        "a page behind",
        "unknown",
        "unknown, open",
        "open, cut",
        "open, a page behind",
        "a box missing",
    ],
)
async def test_a_video_whose_end_nothing_shows_is_saved_only_if_that_is_accepted(body, downloads_of, target):
    async with site(Says(body=body, framing="close")) as service:
        with pytest.raises(UnverifiedVideoError, match="cannot be verified") as caught:
            await downloads_of(service).download("task-1", target.path)
        assert target.is_untouched()
        assert caught.value.received == len(body)
        assert "accept_unverified=True" in str(caught.value)
        assert service.targets.count(CONTENT) == 1
        await downloads_of(service).download("task-1", target.path, accept_unverified=True)
    assert target.path.read_bytes() == body


@pytest.mark.parametrize("coding", ["identity", "gzip", "chunked, identity"])
async def test_a_transfer_coding_without_chunks_marks_no_end(coding, fails):
    answer = Says(body=FRAGMENTED, framing="close", headers={"Transfer-Encoding": coding})
    await fails(answer, (UnverifiedVideoError, TransportError, UnexpectedResponseError), retry_for=5)


def with_index(*offsets: int, media: bytes) -> bytes:
    table = bytes(4) + len(offsets).to_bytes(4, "big") + b"".join(offset.to_bytes(4, "big") for offset in offsets)
    for kind in (b"stco", b"stbl", b"minf", b"mdia", b"trak", b"moov"):
        table = box(kind, table)
    return box(b"ftyp", b"isom") + table + media


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize(
    "media", [box(b"mdat", bytes(100)), b"\0\0\0\0mdat" + bytes(100)], ids=["a box is missing", "an open box is cut"]
)
async def test_an_index_that_names_later_bytes_contradicts_the_announced_end(media, framing, downloads_of, target):
    body = with_index(150, 9000, media=media)
    async with site(Says(body=body, framing=framing)) as service:
        with pytest.raises(UnverifiedVideoError, match="its index names data at byte 9000"):
            await downloads_of(service).download("task-1", target.path)
        assert target.is_untouched()
        await downloads_of(service).download("task-1", target.path, accept_unverified=True)
    assert target.path.read_bytes() == body


@pytest.mark.parametrize("status", [200, 201, 203])
@pytest.mark.parametrize("content_range", [None, "bytes=0-99999/100000", "bytes 0-100000/100000"])
async def test_a_complete_video_is_saved_whatever_its_2xx_and_its_unasked_range_say(status, content_range, saves):
    headers = {} if content_range is None else {"Content-Range": content_range}
    await saves(Says(status=206 if content_range else status, body=VIDEO, headers=headers), VIDEO)


async def test_a_page_after_fragments_is_the_end_of_a_failed_proxy(fails):
    await fails(Says(body=FRAGMENTED + b"<html>504", framing="chunked"), UnverifiedVideoError)


async def test_what_is_known_to_be_cut_is_refused_also_if_an_unverified_video_is_accepted(downloads_of, target):
    async with site(Says(body=VIDEO[:-1], framing="close")) as service:
        with pytest.raises(TruncatedError):
            await downloads_of(service, retry_for=5).download("task-1", target.path, accept_unverified=True)
    assert target.is_untouched()

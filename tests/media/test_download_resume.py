"""A failing transfer is resumed at its position if the service proves that it is the same file, else restarted.

The edge cases are those that reviews of openai-python#3764 found, and the range rules of RFC 9110, section 14.
"""

import gzip

import pytest

from tests.media.sites import RangeHost, Says, in_turn, page, site, to, video
from tests.transports.raw_service import raw_service
from vidgen_async.errors import NotVideoError, TruncatedError

pytestmark = pytest.mark.slow

VIDEO = video()
OTHER = video(seed=2)
SHORT = video(30_000, seed=3)


def part(data: bytes, start: int, end: int | None = None, *, total: object = None, etag='"v1"', **more) -> Says:
    """A 206 whose Content-Range may say something else than the truth."""
    end = len(data) - 1 if end is None else end
    headers = {"Content-Range": f"bytes {start}-{end}/{len(data) if total is None else total}"}
    headers |= {} if etag is None else {"ETag": etag}
    return Says(**{"status": 206, "body": data[start : end + 1], "headers": headers} | more)


def cut(at: int = 40_000, *, etag='"v1"', data: bytes = VIDEO, **more) -> Says:
    headers = {} if etag is None else {"ETag": etag}
    return Says(body=data, headers=headers | more.pop("headers", {}), cut=at, **more)


#: What the service answers, the video that is saved, and the ranges that are requested for it.
RESUMES = {
    "at its position": (lambda: RangeHost(VIDEO, cuts=[40_000, 30_000]), VIDEO, [35_904, 61_808]),
    # Without a length, only the boxes show that it is incomplete.
    "after an end without an error": (lambda: RangeHost(VIDEO, cuts=[40_000], framing="close"), VIDEO, [35_904]),
    "a file that changed": (lambda: in_turn(cut(), RangeHost(OTHER, etag='"v2"')), OTHER, [35_904]),
    "a 200 with a shorter file": (lambda: in_turn(cut(), Says(body=SHORT)), SHORT, [35_904]),
    "an unknown total": (lambda: in_turn(cut(), part(VIDEO, 35_904, total="*")), VIDEO, [35_904]),
    "no entity tag": (lambda: in_turn(cut(), part(VIDEO, 35_904, total="*", etag=None)), VIDEO, [35_904]),
    "the last chunk": (lambda: in_turn(cut(100_000, framing="chunked"), RangeHost(VIDEO)), VIDEO, [95_904]),
    "nothing is missing": (lambda: in_turn(cut(100_000), page(500)), VIDEO, []),
}


@pytest.mark.rule("4.6 response 206", "4.6 header Range", side="sdk")
@pytest.mark.parametrize(("script", "saved", "starts"), RESUMES.values(), ids=RESUMES)
async def test_a_broken_transfer_is_resumed_or_restarted(script, saved, starts, saves):
    service = await saves(script(), saved)
    assert service.ranges == [None, *(f"bytes={start}-" for start in starts)]
    assert [seen.headers.get("If-Range") for seen in service.requests] == [None, *['"v1"'] * len(starts)]


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("cuts", [[0], [3, 2, 1], [1] * 6 + [9] * 4, [50_000] * 5, [99_999], [8, 99_000]])
async def test_a_download_survives_any_sequence_of_truncated_responses(cuts, framing, saves):
    await saves(RangeHost(VIDEO, cuts=list(cuts), framing=framing), VIDEO)


@pytest.mark.parametrize("etag", [None, 'W/"v1"', "v1", '"v1', ""])
async def test_a_transfer_without_a_strong_etag_is_restarted(etag, saves):
    date = {"Last-Modified": "Mon, 19 Oct 2026 10:00:00 GMT", "Accept-Ranges": "bytes"}
    script = in_turn(cut(etag=etag, headers=date), Says(body=VIDEO))
    service = await saves(script, VIDEO)
    assert service.ranges == [None, None]
    assert "If-Range" not in service.requests[1].headers


@pytest.mark.parametrize(
    "lie",
    [
        part(OTHER, 35_904, etag='"v2"'),
        part(OTHER, 35_904, etag='W/"v1"'),
        part(VIDEO, 0),
        part(VIDEO, 35_903),
        part(VIDEO, 35_905),
        part(VIDEO + b"more", 35_904),
        part(VIDEO, 35_904, total=40_000),
        part(VIDEO, 35_904, body=VIDEO[35_904:-5]),
        part(VIDEO, 35_904, body=VIDEO[35_904:] + b"+"),
        part(VIDEO, 35_904, 50_000, body=VIDEO[35_904:60_000]),
        part(VIDEO, 35_904, headers={}),
        part(VIDEO, 35_904, headers={"Content-Range": "bytes 40000-39999/100000"}),
        part(VIDEO, 35_904, headers={"Content-Range": "bytes */100000"}),
        part(VIDEO, 35_904, headers={"Content-Range": "items 40000-99999/100000"}),
        Says(status=416, headers={"Content-Range": "bytes */40001"}),
        Says(status=416, headers={"Content-Range": "bytes */40000"}),
        Says(status=416),
        part(VIDEO, 35_904, media="text/html", body=b"<html>" + VIDEO[35_910:]),
        *(part(VIDEO[:at] + OTHER[at:], 35_904) for at in (35_904, 38_000, 39_999)),
    ],
    ids=lambda says: f"{says.status} {says.headers.get('Content-Range')} {len(says.body)}",
)
async def test_a_range_that_does_not_match_is_never_appended(lie, saves):
    service = await saves(in_turn(cut(), lie, Says(body=OTHER)), OTHER)
    assert service.ranges == [None, "bytes=35904-", None]


async def test_short_ranges_are_appended(clock, saves):
    script = in_turn(cut(), part(VIDEO, 35_904, 49_999), part(VIDEO, 45_904, 79_999), part(VIDEO, 75_904))
    service = await saves(script, VIDEO)
    assert service.ranges == [None, "bytes=35904-", "bytes=45904-", "bytes=75904-"]
    assert clock.now() <= 0.5, "only the break is a reason to wait"


async def test_a_416_does_not_make_an_incomplete_video_complete(fails):
    def script(seen):
        end = {"Content-Range": "bytes */40000"}
        return Says(status=416, headers=end) if "Range" in seen.headers else cut(framing="chunked")

    await fails(script, TruncatedError)


async def test_a_service_whose_ranges_are_always_other_bytes_still_gives_the_whole_video(saves):
    whole = in_turn(cut(), cut(), Says(body=VIDEO))
    service = await saves(lambda seen: RangeHost(OTHER)(seen) if "Range" in seen.headers else whole(seen), VIDEO)
    assert [sent is not None for sent in service.ranges] == [False, True, False, True, False]


async def test_compressed_bytes_are_never_appended(fails, saves):
    packed = gzip.compress(VIDEO)
    await fails(in_turn(cut(), part(packed, 40_000, total=len(VIDEO), headers={}, status=200)), NotVideoError)
    encoded = part(packed, 35_904, len(packed) - 1, total=len(VIDEO))
    encoded.headers["Content-Encoding"] = "gzip"
    await saves(in_turn(cut(), encoded, Says(body=OTHER)), OTHER)


async def test_a_206_that_was_not_requested_is_accepted_only_from_the_start(saves, fails):
    await fails(part(VIDEO, 10), TruncatedError, match="not requested")
    await saves(in_turn(part(VIDEO, 0, 49_999), part(VIDEO, 45_904)), VIDEO)


async def test_retries_are_limited_by_the_time_without_new_bytes_and_not_by_their_number(clock, saves):
    service = await saves(RangeHost(VIDEO, cuts=[3_000] * 100), VIDEO, retry_for=4)
    assert len(service.requests) > 30
    assert clock.now() > 3 * 4


async def test_bytes_that_were_received_before_do_not_count_as_new(clock, fails):
    await fails(cut(etag=None), TruncatedError, retry_for=30)
    assert 15 < clock.now() <= 30


async def test_a_link_that_expires_during_the_download_is_renewed_and_the_transfer_resumed(saves):
    hosts = {"/v?sig=1": in_turn(RangeHost(VIDEO, cuts=[40_000]), page(403)), "/v?sig=2": RangeHost(VIDEO)}
    async with site(lambda seen: hosts[seen.target](seen)) as cdn:
        task = page(200, '{"id": "task-1"}')
        script = in_turn(to(cdn.url("/v?sig=1")), to(cdn.url("/v?sig=1")), task, to(cdn.url("/v?sig=2")))
        await saves(script, VIDEO)
    assert cdn.ranges == [None, "bytes=35904-", "bytes=35904-"]


async def test_resets_and_refused_connections_are_survived(downloads_of, target):
    async def behave(connection):
        await connection.request()
        if connection.number < 2:
            connection.reset()
            return
        await connection.answer(Says(body=VIDEO).wire())

    async with raw_service(behave) as raw:
        await downloads_of(str(raw.url("/openapi/v1"))).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO

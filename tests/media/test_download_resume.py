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


def part(data: bytes, start: int, end: int | None = None, *, total: object = None, etag='"v1"', **more) -> Says:
    """A 206 whose Content-Range may say something else than the truth."""
    end = len(data) - 1 if end is None else end
    headers = {"Content-Range": f"bytes {start}-{end}/{len(data) if total is None else total}"}
    headers |= {} if etag is None else {"ETag": etag}
    return Says(**{"status": 206, "body": data[start : end + 1], "headers": headers} | more)


def cut(at: int = 40_000, *, etag='"v1"', data: bytes = VIDEO, **more) -> Says:
    headers = {} if etag is None else {"ETag": etag}
    return Says(body=data, headers=headers | more.pop("headers", {}), cut=at, **more)


@pytest.mark.rule("4.6 response 206", side="sdk")
async def test_a_broken_transfer_is_resumed_at_its_position(downloads_of, target):
    async with site(RangeHost(VIDEO, cuts=[40_000, 30_000])) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert service.ranges == [None, "bytes=35904-", "bytes=61808-"]
    assert [seen.headers.get("If-Range") for seen in service.requests] == [None, '"v1"', '"v1"']


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("cuts", [[0], [3, 2, 1], [1] * 6 + [9] * 4, [50_000] * 5, [99_999], [8, 99_000]])
async def test_a_download_survives_any_sequence_of_truncated_responses(cuts, framing, downloads_of, target):
    async with site(RangeHost(VIDEO, cuts=list(cuts), framing=framing)) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO


async def test_a_body_that_ends_early_without_an_error_is_resumed_too(downloads_of, target):
    # Without a length, only the boxes show that it is incomplete.
    async with site(RangeHost(VIDEO, cuts=[40_000], framing="close")) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert service.ranges == [None, "bytes=35904-"]


@pytest.mark.parametrize("etag", [None, 'W/"v1"', "v1", '"v1', ""])
async def test_a_transfer_without_a_strong_etag_is_restarted(etag, downloads_of, target):
    date = {"Last-Modified": "Mon, 19 Oct 2026 10:00:00 GMT", "Accept-Ranges": "bytes"}
    script = in_turn(cut(etag=etag, headers=date), Says(body=VIDEO))
    async with site(script) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert service.ranges == [None, None]
    assert "If-Range" not in service.requests[1].headers


async def test_a_file_that_changed_meanwhile_is_downloaded_completely(downloads_of, target):
    new = RangeHost(OTHER, etag='"v2"')
    async with site(in_turn(cut(), new)) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == OTHER
    assert service.ranges == [None, "bytes=35904-"]


@pytest.mark.rule("4.6 header Range", side="sdk")
async def test_a_200_for_a_range_restarts_the_transfer_also_if_the_file_is_shorter(downloads_of, target):
    short = video(30_000, seed=3)
    async with site(in_turn(cut(), Says(body=short))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == short


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
    ],
    ids=lambda says: f"{says.status} {says.headers.get('Content-Range')} {len(says.body)}",
)
async def test_a_range_that_does_not_match_is_never_appended(lie, downloads_of, target):
    async with site(in_turn(cut(), lie, Says(body=OTHER))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == OTHER
    assert service.ranges == [None, "bytes=35904-", None]


@pytest.mark.parametrize("etag", ['"v1"', None])
async def test_an_unknown_total_is_accepted_if_everything_else_matches(etag, downloads_of, target):
    async with site(in_turn(cut(), part(VIDEO, 35_904, total="*", etag=etag))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO


async def test_short_ranges_are_appended(downloads_of, target, clock):
    script = in_turn(cut(), part(VIDEO, 35_904, 49_999), part(VIDEO, 45_904, 79_999), part(VIDEO, 75_904))
    async with site(script) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert service.ranges == [None, "bytes=35904-", "bytes=45904-", "bytes=75904-"]
    assert clock.now() <= 0.5, "only the break is a reason to wait"


async def test_only_the_last_bytes_are_requested_again_if_just_the_end_of_the_chunks_is_missing(downloads_of, target):
    script = in_turn(cut(100_000, framing="chunked"), RangeHost(VIDEO))
    async with site(script) as service:
        await downloads_of(service).download("task-1", target.path)
    assert service.ranges == [None, "bytes=95904-"]
    assert target.path.read_bytes() == VIDEO


async def test_a_416_does_not_make_an_incomplete_video_complete(downloads_of, target):
    def script(seen):
        end = {"Content-Range": "bytes */40000"}
        return Says(status=416, headers=end) if "Range" in seen.headers else cut(framing="chunked")

    async with site(script) as service:
        with pytest.raises(TruncatedError):
            await downloads_of(service).download("task-1", target.path)
    assert target.is_untouched()


@pytest.mark.parametrize("at", [35_904, 38_000, 39_999])
async def test_other_bytes_with_the_same_etag_and_range_start_the_transfer_over(at, downloads_of, target):
    mixed = VIDEO[:at] + OTHER[at:]
    async with site(in_turn(cut(), part(mixed, 35_904), Says(body=OTHER))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == OTHER
    assert service.ranges == [None, "bytes=35904-", None]


async def test_a_service_whose_ranges_are_always_other_bytes_still_gives_the_whole_video(downloads_of, target):
    def script(seen):
        if "Range" in seen.headers:
            return RangeHost(OTHER)(seen)
        return cut() if len(service.requests) < 4 else Says(body=VIDEO)

    async with site(script) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert [sent is not None for sent in service.ranges] == [False, True, False, True, False]


async def test_a_video_is_complete_if_the_connection_is_lost_after_its_last_byte(downloads_of, target):
    async with site(in_turn(cut(100_000), page(500))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert len(service.requests) == 1


async def test_compressed_bytes_are_never_appended(downloads_of, target):
    packed = gzip.compress(VIDEO)
    script = in_turn(cut(), part(packed, 40_000, total=len(VIDEO), headers={}, status=200))
    async with site(script) as service:
        with pytest.raises(NotVideoError):
            await downloads_of(service).download("task-1", target.path)
    assert target.is_untouched()
    encoded = part(packed, 35_904, len(packed) - 1, total=len(VIDEO))
    encoded.headers["Content-Encoding"] = "gzip"
    async with site(in_turn(cut(), encoded, Says(body=OTHER))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == OTHER


async def test_a_206_that_was_not_requested_is_accepted_only_from_the_start(downloads_of, target):
    async with site(in_turn(part(VIDEO, 0, 49_999), part(VIDEO, 45_904))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    async with site(part(VIDEO, 10)) as service:
        with pytest.raises(TruncatedError, match="not requested"):
            await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO


async def test_an_error_page_during_a_resume_is_never_appended(downloads_of, target):
    lie = part(VIDEO, 35_904, media="text/html", body=b"<html>" + VIDEO[35_910:])
    async with site(in_turn(cut(), lie, Says(body=OTHER))) as service:
        await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == OTHER


async def test_retries_are_limited_by_the_time_without_new_bytes_and_not_by_their_number(downloads_of, target, clock):
    async with site(RangeHost(VIDEO, cuts=[3_000] * 100)) as service:
        await downloads_of(service, retry_for=4).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert len(service.requests) > 30
    assert clock.now() > 3 * 4


async def test_bytes_that_were_received_before_do_not_count_as_new(downloads_of, target, clock):
    async with site(cut(etag=None)) as service:
        with pytest.raises(TruncatedError):
            await downloads_of(service, retry_for=30).download("task-1", target.path)
    assert target.is_untouched()
    assert 15 < clock.now() <= 30


async def test_a_link_that_expires_during_the_download_is_renewed_and_the_transfer_resumed(downloads_of, target):
    hosts = {"/v?sig=1": in_turn(RangeHost(VIDEO, cuts=[40_000]), page(403)), "/v?sig=2": RangeHost(VIDEO)}
    async with site(lambda seen: hosts[seen.target](seen)) as cdn:
        task = page(200, '{"id": "task-1"}')
        script = in_turn(to(cdn.url("/v?sig=1")), to(cdn.url("/v?sig=1")), task, to(cdn.url("/v?sig=2")))
        async with site(script) as service:
            await downloads_of(service).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
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

"""A video streamed through a web application, with the range of the browser's request and headers for a browser."""

import asyncio
import pickle
from contextlib import asynccontextmanager

import pytest
from attrs import evolve

from tests.media.sites import CONTENT, KEY, RangeHost, Says, in_turn, page, site, to, video
from tests.transports.raw_service import raw_service
from vidgen_async.errors import (
    AuthenticationError,
    BodyError,
    DownloadError,
    InvalidRequestError,
    LinkExpiredError,
    NotFoundError,
    NotReadyError,
    NotVideoError,
    ServiceUnavailableError,
    UnexpectedResponseError,
)

VIDEO = video()


async def read_all(stream, size: int = 65536) -> bytes:
    return b"".join([piece async for piece in stream.chunks(size)])


@pytest.mark.rule("4.6 response 200", side="sdk")
async def test_the_complete_video_is_streamed(downloads_of):
    async with site(RangeHost(VIDEO)) as service, await downloads_of(service).open_stream("task-1") as stream:
        assert stream.status == 200
        assert await read_all(stream) == VIDEO
    assert service.ranges == [None]
    assert service.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("size", [1, 5, 8, 1000, 65536, 10**7])
async def test_chunks_are_at_most_as_large_as_requested(size, downloads_of):
    small = video(3000)
    async with site(Says(body=small)) as service, await downloads_of(service).open_stream("task-1") as stream:
        pieces = [piece async for piece in stream.chunks(size)]
    assert b"".join(pieces) == small
    assert max(map(len, pieces)) <= size
    with pytest.raises(ValueError, match="at least 1"):
        stream.chunks(0)


@pytest.mark.rule("4.6 header Range", side="sdk")
@pytest.mark.parametrize("wanted", ["bytes=0-", "bytes=0-0", "bytes=0-1", "bytes=5-9", "bytes=99999-", "bytes=500-999"])
async def test_a_range_is_sent_unchanged_and_its_bytes_are_streamed(wanted, downloads_of):
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    end = int(last) if last else len(VIDEO) - 1
    async with (
        site(RangeHost(VIDEO)) as service,
        await downloads_of(service).open_stream("task-1", range=wanted) as stream,
    ):
        assert stream.status == 206
        assert stream.headers["Content-Range"] == f"bytes {first}-{end}/100000"
        assert await read_all(stream) == VIDEO[int(first) : end + 1]
    assert service.ranges == [wanted]


@pytest.mark.rule("4.6 header Range", "4.6 note streamed", side="sdk")
async def test_a_channel_without_ranges_returns_the_complete_video(downloads_of):
    async with (
        site(Says(body=VIDEO)) as service,
        await downloads_of(service).open_stream("task-1", range="bytes=5-9") as stream,
    ):
        assert (stream.status, await read_all(stream)) == (200, VIDEO)


async def test_several_ranges_are_streamed_unchanged(downloads_of):
    body = b"--x\r\nContent-Type: video/mp4\r\n\r\n..."
    answer = Says(status=206, body=body, media="multipart/byteranges; boundary=x")
    async with (
        site(answer) as service,
        await downloads_of(service).open_stream("task-1", range="bytes=0-1, 5-6") as stream,
    ):
        assert await read_all(stream) == body
        assert stream.headers["Content-Type"] == "multipart/byteranges; boundary=x"


async def test_only_headers_that_are_safe_for_a_browser_are_forwarded(downloads_of):
    private = {"Set-Cookie": "s=1", "Location": "/x", "X-Upstream": "secret", "Connection": "close", "Server": "x"}
    fit = {"ETag": '"v1"', "Last-Modified": "Mon, 19 Oct 2026 10:00:00 GMT", "Accept-Ranges": "bytes"}
    async with (
        site(Says(body=VIDEO, headers=private | fit)) as service,
        await downloads_of(service).open_stream("task-1") as stream,
    ):
        assert dict(stream.headers) == {"Content-Type": "video/mp4", "Content-Length": "100000"} | fit
        assert stream.headers["etag"] == '"v1"'


@pytest.mark.parametrize("wanted", ["", " ", "bytes=0-\r\nX: y", "bytes=0-\n", "bytes=ü", "bytes=\0", b"bytes=0-", 7])
async def test_an_invalid_header_value_is_refused_before_any_request(wanted, downloads_of):
    async with site(Says(body=VIDEO)) as service:
        with pytest.raises(InvalidRequestError, match="Range header"):
            async with await downloads_of(service).open_stream("task-1", range=wanted):
                pass
    assert service.requests == []


@pytest.mark.rule("4.6 note media", side="sdk")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (page(401), AuthenticationError),
        (page(404), NotFoundError),
        (page(409), NotReadyError),
        (page(416), UnexpectedResponseError),
        (page(503), ServiceUnavailableError),
        (page(200), NotVideoError),
        (Says(body=b"<html>", media="text/html"), NotVideoError),
        (Says(body=b'{"error": 1}', media="video/mp4"), NotVideoError),
        (Says(body=b""), NotVideoError),
        (Says(status=206, body=b"{}", media="application/json"), NotVideoError),
        (Says(status=206, body=b"<html>a page", headers={"Content-Range": "bytes 0-11/12"}), NotVideoError),
        (to("ftp://x/"), DownloadError),
    ],
)
@pytest.mark.parametrize("wanted", [None, "bytes=0-"])
async def test_a_response_that_is_not_a_video_is_an_error_on_entering_the_block(answer, kind, wanted, downloads_of):
    async with site(answer) as service:
        with pytest.raises(kind):
            async with await downloads_of(service).open_stream("task-1", range=wanted):
                pytest.fail("there is nothing to stream")
    assert service.targets.count(CONTENT) == 1


async def test_redirects_are_followed_with_the_range_and_without_the_key(downloads_of):
    async with (
        site(RangeHost(VIDEO)) as cdn,
        site(to(cdn.url("/v?exp=1&sig=%2B+~"))) as service,
        await downloads_of(service).open_stream("task-1", range="bytes=7-9") as stream,
    ):
        assert await read_all(stream) == VIDEO[7:10]
    assert cdn.targets == ["/v?exp=1&sig=%2B+~"]
    assert cdn.ranges == ["bytes=7-9"]
    assert not {"Authorization", "Cookie"} & set(cdn.requests[0].headers)


async def test_a_refused_link_is_renewed_once(downloads_of):
    async with site(lambda seen: Says(body=VIDEO) if "fresh" in seen.target else page(401)) as cdn:
        old, fresh = to(cdn.url("/old?sig=1")), to(cdn.url("/fresh?sig=2"))
        async with (
            site(in_turn(old, page(200, '{"id": "task-1"}'), fresh)) as service,
            await downloads_of(service).open_stream("task-1") as stream,
        ):
            assert await read_all(stream) == VIDEO
        async with site(lambda seen: old if seen.target == CONTENT else page(404)) as service:
            with pytest.raises(LinkExpiredError):
                async with await downloads_of(service).open_stream("task-1"):
                    pass


async def test_a_body_that_ends_early_is_an_error_for_the_reader(downloads_of):
    async with (
        site(Says(body=VIDEO, cut=50_000)) as service,
        await downloads_of(service).open_stream("task-1") as stream,
    ):
        with pytest.raises(BodyError):
            await read_all(stream)


@asynccontextmanager
async def half_a_video(downloads_of):
    """Downloads from a service that sends half of the video, and at the end of the block waits for the other end."""
    gone = asyncio.Event()

    async def behave(connection):
        await connection.request()
        await connection.answer(Says(body=VIDEO, cut=0).wire() + VIDEO[:50_000])
        await connection.rest()
        gone.set()

    async with raw_service(behave) as raw:
        yield downloads_of(str(raw.url("/openapi/v1")))
        async with asyncio.timeout(5):
            await gone.wait()


async def stop(how: str, chunks) -> None:
    """Stop reading after the first chunk."""
    async for _ in chunks:
        if how == "failing":
            raise LookupError
        if how == "cancelled":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        break


@pytest.mark.parametrize("how", ["leaving", "failing", "cancelled", "unread"])
async def test_leaving_the_block_closes_the_connection(how, downloads_of):
    async def look(downloads) -> None:
        async with await downloads.open_stream("task-1") as stream:
            if how != "unread":
                await stop(how, stream.chunks())

    async with half_a_video(downloads_of) as downloads:
        worker = asyncio.ensure_future(look(downloads))
        await asyncio.wait({worker})
        assert worker.cancelled() == (how == "cancelled")
        if how == "failing":
            assert isinstance(worker.exception(), LookupError)


@pytest.mark.parametrize("how", ["leaving", "failing", "cancelled"])
async def test_a_reader_that_stops_iterating_over_a_stream_closes_its_connection(how, downloads_of):
    async with half_a_video(downloads_of) as downloads:
        stream = await downloads.open_stream("task-1")
        worker = asyncio.ensure_future(stop(how, stream))
        await asyncio.wait({worker})


async def test_a_stream_that_is_iterated_to_its_end_is_closed(downloads_of):
    async with site(RangeHost(VIDEO)) as service:
        stream = await downloads_of(service).open_stream("task-1")
        assert b"".join([chunk async for chunk in stream]) == VIDEO
        with pytest.raises(BodyError, match="closed"):
            await read_all(stream)


@pytest.mark.parametrize("media", ["text/html", "application/json", "image/png", None])
async def test_a_mislabelled_channel_can_be_sought(media, downloads_of):
    def script(seen):
        return evolve(RangeHost(VIDEO)(seen), media=media)

    async with (
        site(script) as service,
        await downloads_of(service).open_stream("task-1", range="bytes=100-149") as stream,
    ):
        assert b"".join([chunk async for chunk in stream.chunks()]) == VIDEO[100:150]


async def test_an_open_stream_is_read_and_closed_by_its_owner(downloads_of):
    async with site(RangeHost(VIDEO)) as service:
        stream = await downloads_of(service).open_stream("task-1", range="bytes=0-9")
        assert (stream.status, await read_all(stream)) == (206, VIDEO[:10])
        await stream.aclose()
        await stream.aclose()
    assert service.ranges == ["bytes=0-9"]


async def test_closing_an_open_stream_closes_the_connection_of_an_unread_video(downloads_of):
    async with half_a_video(downloads_of) as downloads:
        stream = await downloads.open_stream("task-1")
        await stream.aclose()
        with pytest.raises(BodyError, match="closed"):
            await read_all(stream)


@pytest.mark.parametrize(
    ("header", "expected"),
    [("bytes */100000", "bytes */100000"), ("bytes */*", None), ("lines */7", None), (None, None)],
)
async def test_a_416_has_the_size_of_the_video_for_proxies(header, expected, downloads_of):
    answer = Says(status=416, headers={} if header is None else {"Content-Range": header})
    async with site(answer) as service:
        with pytest.raises(UnexpectedResponseError) as caught:
            await downloads_of(service).open_stream("task-1", range="bytes=100000-")
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert caught.value.content_range == copied.content_range == expected


@pytest.mark.parametrize(("answer", "kind"), [(page(416), UnexpectedResponseError), (page(409), NotReadyError)])
async def test_a_stream_that_cannot_be_opened_releases_its_connection(answer, kind, downloads_of):
    async with site(answer) as service:
        with pytest.raises(kind):
            await downloads_of(service).open_stream("task-1", range="bytes=0-9")

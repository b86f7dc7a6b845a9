"""Redirects are followed without the key, which is sent to the service's own origin only."""

import aiohttp
import pytest
from yarl import URL

from tests.media.conftest import Holding, Target, endpoints_of
from tests.media.sites import CONTENT, KEY, RangeHost, Says, box, in_turn, page, site, to, video
from tests.transports.raw_service import raw_service
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    AuthenticationError,
    DownloadError,
    GatewayError,
    LinkExpiredError,
    NotFoundError,
    NotReadyError,
    ServiceUnavailableError,
    TruncatedError,
)
from vidgen_async.media.download import Downloads
from vidgen_async.service.retries import Reads
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import make_headers

pytestmark = pytest.mark.slow

VIDEO = video()
SIGNED = "/v/final%20cut.mp4?exp=1767225600&sig=a%2Bb+c~d%2Fe%3D.f_g-h&x=%c3%a9&empty=&q='(*)!$,:@[]|"


def is_bare(seen) -> bool:
    """Nothing that tells who asks."""
    return set(seen.headers) <= {"Host", "Accept", "Accept-Encoding", "User-Agent", "Range", "If-Range"}


async def download_by(direct: DirectTransport, base: URL, target: Target) -> None:
    """Download the video of a task over this transport, and close that."""
    endpoints, clock = endpoints_of(base), VirtualClock()
    reads = Reads(Holding(direct, clock), clock, origin=endpoints.origin)
    await Downloads(reads, endpoints, clock).download("task-1", target.path)
    await direct.aclose()


@pytest.mark.rule("2.5 note link", "4.6 response 307", "4.6 note no-forward", side="sdk")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_another_origin_receives_the_signed_link_unchanged_and_no_key(status, saves):
    async with site(Says(body=VIDEO)) as cdn:
        answer = to(f"http://127.0.0.1:{cdn.raw.port}{SIGNED}", status, **{"Set-Cookie": "session=1; Path=/"})
        service = await saves(answer, VIDEO)

    assert cdn.targets == [SIGNED]
    assert is_bare(cdn.requests[0])
    assert cdn.requests[0].headers["Accept-Encoding"] == "identity"
    assert KEY.encode() not in cdn.raw.received[0]
    assert [seen.headers["Authorization"] for seen in service.requests] == [f"Bearer {KEY}"]


@pytest.mark.rule("4.6 note no-forward", side="sdk")
async def test_other_ports_and_hosts_are_other_origins(downloads_of, target):
    async with (
        site(Says(body=VIDEO)) as cdn,
        site(to(f"http://localhost:{cdn.raw.port}/v?sig=1")) as service,
    ):
        await downloads_of(service).download("task-1", target.path)
        # The same host and port, but for the name:
        service.script = in_turn(to(f"http://localhost:{service.raw.port}/again"), Says(body=VIDEO))
        await downloads_of(service).download("task-1", target.path)
    assert is_bare(cdn.requests[0])
    assert "Authorization" in service.requests[-2].headers
    assert is_bare(service.requests[-1])


async def test_from_http_to_https_is_another_origin(target, certificate):
    async def secure(connection):
        await connection.request()
        await connection.answer(Says(body=VIDEO).wire())

    async with raw_service(secure, tls=certificate.server()) as cdn, site(to(cdn.url("/v?sig=1"))) as service:
        await download_by(DirectTransport(ssl=certificate.client()), service.url("/openapi/v1"), target)
    assert target.path.read_bytes() == VIDEO
    assert b"uthorization" not in cdn.received[0]


@pytest.mark.rule("5 item 5", side="sdk")
@pytest.mark.parametrize(
    ("location", "sent", "with_key"),
    [
        ("/stream/task-1?part=%2B", "/stream/task-1?part=%2B", True),
        ("../task-2/raw", "/openapi/v1/videos/task-2/raw", True),
        ("?again=1", f"{CONTENT}?again=1", True),
        ("/v/a.mp4?exp=1&sig=%2B", "/v/a.mp4?exp=1&sig=%2B", False),
        ("/v/ä b.mp4?sig=1", "/v/%C3%A4%20b.mp4?sig=1", False),
    ],
)
async def test_paths_of_the_service_receive_the_key_and_its_signed_links_do_not(location, sent, with_key, saves):
    service = await saves(in_turn(to(location), Says(body=VIDEO)), VIDEO)
    assert service.targets == [CONTENT, sent]
    assert ("Authorization" in service.requests[1].headers) == with_key
    assert with_key or is_bare(service.requests[1])


@pytest.mark.rule("4.6 note no-forward", side="sdk")
async def test_a_redirect_back_to_the_service_receives_no_key(downloads_of, target):
    async with (
        site(page(500)) as service,
        site(to(service.url("/anything"))) as elsewhere,
    ):
        service.script = in_turn(to(elsewhere.url("/x")), Says(body=VIDEO))
        await downloads_of(service).download("task-1", target.path)
    assert is_bare(elsewhere.requests[0])
    assert service.targets == [CONTENT, "/anything"]
    assert is_bare(service.requests[1])


async def test_range_and_if_range_are_sent_to_the_target_of_a_redirect(saves):
    async with site(RangeHost(VIDEO, cuts=[40_000])) as cdn:
        await saves(to(cdn.url("/v?exp=1&sig=2")), VIDEO)
    assert cdn.ranges == [None, "bytes=35904-"]
    assert cdn.requests[1].headers["If-Range"] == '"v1"'
    assert all(is_bare(seen) for seen in cdn.requests)


async def test_more_than_five_redirects_are_refused(fails):
    _, service = await fails(lambda seen: to(f"{seen.target}x"), DownloadError, match="more than 5 redirects")
    assert len([path for path in service.targets if path.startswith(CONTENT)]) == 6


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (None, "without a Location"),
        ("", "without a Location"),
        ("ftp://cdn.example/v?sig=s3cr3tsig", "neither http"),
        ("file:///etc/passwd", "neither http"),
        ("data:video/mp4;base64,AAAA", "neither http"),
        ("javascript:alert(1)", "neither http"),
        ("https://user:pa55word@cdn.example/v", "user name"),
        ("http://[::1/v?sig=s3cr3tsig", "invalid URL"),
        ("http://cdn.example:99999/v", "invalid URL"),
        ("http:///v", "neither http"),
    ],
)
async def test_an_invalid_redirect_is_reported(location, words, clock, fails):
    headers = {} if location is None else {"Location": location}
    error, service = await fails(Says(status=307, headers=headers), DownloadError, match=words)
    assert "s3cr3tsig" not in str(error)
    assert "pa55word" not in str(error)
    assert (service.targets.count(CONTENT), clock.now()) == (1, 0)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://cdn.example/v?sig=1", "unencrypted"),
        ("http://service.example/v", "unencrypted"),
        ("https://cdn.example/v\r\nCookie: x", "control characters"),
    ],
)
async def test_redirects_from_https_to_http_and_with_control_characters_are_refused(location, words, target, clock):
    async def handle(request):
        return BufferedResponse(307, headers=make_headers({"Location": location}), url=request.url)

    transport = FakeTransport(handle)
    endpoints = endpoints_of(URL("https://service.example/openapi/v1"))
    downloads = Downloads(Reads(transport, clock, origin=endpoints.origin), endpoints, clock)
    with pytest.raises(DownloadError, match=words):
        await downloads.download("task-1", target.path)
    assert [request.op for request in transport.requests] == ["videos.content", "videos.get"]


async def test_cookies_and_headers_of_the_users_session_are_not_sent_to_another_origin(target):
    async with site(Says(body=VIDEO)) as cdn, site(to(cdn.url("/v?sig=1"), **{"Set-Cookie": "s=1"})) as service:
        jar = aiohttp.CookieJar(unsafe=True)
        jar.update_cookies({"private": "1"}, cdn.url("/"))
        headers = {"Authorization": "Bearer another", "X-Api-Key": "another"}
        async with aiohttp.ClientSession(headers=headers, cookie_jar=jar) as session:
            await download_by(DirectTransport(session), service.url("/openapi/v1"), target)
    assert is_bare(cdn.requests[0])
    assert service.requests[0].headers.getall("Authorization") == [f"Bearer {KEY}"]


async def test_the_content_and_its_redirect_are_requested_through_the_proxy(target):
    script = in_turn(to("http://cdn.example/v?exp=1&sig=%2B"), Says(body=VIDEO))
    async with site(script) as proxy:
        await download_by(DirectTransport(proxy=proxy.url("")), URL("http://service.example/openapi/v1"), target)
    assert proxy.targets == [f"http://service.example{CONTENT}", "http://cdn.example/v?exp=1&sig=%2B"]
    assert "Authorization" not in proxy.requests[1].headers


# -- links that are no longer good -----------------------------------------------------------------------------------


def task_json(video_url: object = None) -> Says:
    quoted = "null" if video_url is None else f'"{video_url}"'
    return page(200, f'{{"id": "task-1", "status": "completed", "video_url": {quoted}}}')


@pytest.mark.rule("4.5 note latest", "5 item 7", side="sdk")
@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_refused_link_is_renewed_once_by_querying_the_task_and_its_content(status, saves):
    def cdn_script(seen):
        return Says(body=VIDEO) if "sig=fresh" in seen.target else page(status)

    async with site(cdn_script) as cdn:
        old, fresh = cdn.url("/v?exp=1&sig=old"), cdn.url("/v?exp=2&sig=fresh")
        service = await saves(in_turn(to(old), task_json(fresh), to(fresh)), VIDEO)

    assert service.targets == [CONTENT, "/openapi/v1/videos/task-1", CONTENT]
    assert cdn.targets == ["/v?exp=1&sig=old", "/v?exp=2&sig=fresh"]
    assert all(is_bare(seen) for seen in cdn.requests)


async def test_the_tasks_own_video_url_is_the_last_resort(saves):
    def cdn_script(seen):
        return Says(body=VIDEO) if seen.target == "/v?exp=3&sig=%2Btask~" else page(403)

    async with site(cdn_script) as cdn:
        script = in_turn(to(cdn.url("/v?sig=a")), task_json(cdn.url("/v?exp=3&sig=%2Btask~")), to(cdn.url("/v?sig=b")))
        await saves(script, VIDEO)
    assert cdn.targets == ["/v?sig=a", "/v?sig=b", "/v?exp=3&sig=%2Btask~"]
    assert is_bare(cdn.requests[-1])


@pytest.mark.parametrize("task", [page(500), page(404), task_json(), page(200, "not JSON")])
async def test_a_failed_query_of_the_task_does_not_prevent_the_renewal_of_the_link(task, saves):
    async with site(lambda seen: Says(body=VIDEO) if "fresh" in seen.target else page(403)) as cdn:
        await saves(in_turn(to(cdn.url("/old?sig=1")), task, to(cdn.url("/fresh?sig=1"))), VIDEO)


@pytest.mark.rule("5 item 7", side="sdk")
async def test_a_key_that_was_revoked_meanwhile_is_not_an_expired_link(fails):
    async with site(page(403)) as cdn:
        error, _ = await fails(in_turn(to(cdn.url("/v?sig=1")), task_json(), page(401)), AuthenticationError)
    assert error.source == "service key"


async def test_an_unavailable_upstream_is_not_an_expired_link(clock, fails):
    async with site(page(502)) as cdn:
        _, service = await fails(to(cdn.url("/v?sig=1")), GatewayError)
    assert len(cdn.requests) == service.targets.count(CONTENT) > 2
    assert clock.now() > 60


# -- a link that works while the content endpoint does not -----------------------------------------------------------


def endpoint_that_fails(failure: Says, link: object):
    return lambda seen: failure if seen.target == CONTENT else task_json(link)


@pytest.mark.rule("2.5 note link", "3 state completed", side="sdk")
@pytest.mark.parametrize(
    "failure",
    [
        *(page(status) for status in (400, 403, 404, 405, 409, 410, 429, 500, 501, 502, 503, 504)),
        Says(status=404, body=b"<html>no route</html>", media="text/html"),
        page(200, '{"error": "no channel"}'),
        Says(body=b""),
        Says(status=204, media=None),
        Says(body=b"\x89PNG\r\n\x1a\n" + bytes(100)),
        Says(status=307, media=None),
        to("ftp://cdn.example/v"),
        to(CONTENT),
    ],
    ids=lambda says: f"{says.status} {says.media} {says.body[:9]!r} {says.headers.get('Location')}",
)
async def test_the_tasks_link_is_used_bare_and_once_if_the_content_endpoint_fails(failure, saves, clock):
    async with site(Says(body=VIDEO)) as cdn:
        link = f"http://127.0.0.1:{cdn.raw.port}{SIGNED}"
        service = await saves(endpoint_that_fails(failure, link), VIDEO)
    assert cdn.targets == [SIGNED]
    assert is_bare(cdn.requests[0])
    assert service.targets[-1] == "/openapi/v1/videos/task-1"
    assert clock.now() == 0


async def test_a_stream_uses_the_tasks_link_too_whatever_white_space_is_around_it(downloads_of):
    async with (
        site(RangeHost(VIDEO)) as cdn,
        site(endpoint_that_fails(page(409), f" {cdn.url('/v?exp=1&sig=2')}\\n")) as service,
        await downloads_of(service).open_stream("task-1", range="bytes=10-19") as video_stream,
    ):
        received = b"".join([chunk async for chunk in video_stream.chunks()])
    assert (video_stream.status, received) == (206, VIDEO[10:20])


@pytest.mark.parametrize(
    "task",
    [
        task_json(),
        task_json(CONTENT),
        page(404),
        page(500),
        page(200, "no JSON"),
        task_json("file:///etc/passwd"),
        task_json("http://127.0.0.1:1/v?exp=1&sig=2"),
    ],
    ids=["no link", "the endpoint itself", "404", "500", "no JSON", "no web address", "unreachable"],
)
async def test_the_error_of_the_content_endpoint_is_raised_if_there_is_no_usable_link(task, clock, fails):
    _, service = await fails(lambda seen: page(404) if seen.target == CONTENT else task, NotFoundError)
    assert service.targets == [CONTENT, "/openapi/v1/videos/task-1"]
    assert clock.now() == 0


async def test_a_refused_api_key_leads_to_no_other_request(fails):
    _, service = await fails(page(401), AuthenticationError)
    assert service.targets == [CONTENT]


@pytest.mark.rule("5 item 7", side="sdk")
async def test_a_link_that_fails_is_tried_once_while_the_content_endpoint_is_retried(fails):
    async with site(page(401)) as cdn:
        script = endpoint_that_fails(page(503), cdn.url("/v?exp=1&sig=s3cr3tsig"))
        _, service = await fails(script, ServiceUnavailableError)
    assert len(cdn.requests) == 1
    assert service.targets.count(CONTENT) > 2


@pytest.mark.rule("5 item 7", side="sdk")
@pytest.mark.parametrize(("path", "source"), [("/v?exp=1&sig=s3cr3tsig", "signed link"), ("/v/task-1", "upstream")])
@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_link_that_is_refused_again_is_expired_and_states_who_refused_it(status, path, source, fails, clock):
    async with site(page(status)) as cdn:
        link = cdn.url(path)
        expired, _ = await fails(lambda seen: to(link) if seen.target == CONTENT else task_json(link), LinkExpiredError)
        assert (len(cdn.requests), clock.now()) == (2, 0)
        not_ready, _ = await fails(endpoint_that_fails(page(409), link), NotReadyError)
    for error in (expired, not_ready.__cause__):
        assert isinstance(error, LinkExpiredError)
        assert (error.status, error.source) == (status, source)
        assert source in str(error)
        assert str(status) in str(error)
        assert "127.0.0.1" in str(error)
        assert "s3cr3tsig" not in str(error)


@pytest.mark.rule("2.5 note link", side="sdk")
@pytest.mark.parametrize("target_path", ["/v?", "/v/a.mp4?", "/?", "/v?#part", "/v?a?", "/v?exp=1&sig=x?"])
async def test_a_final_question_mark_of_a_link_is_sent(target_path, saves):
    sent = target_path.partition("#")[0]
    async with site(Says(body=VIDEO)) as cdn:
        link = cdn.raw.url("").origin()
        for script in (to(f"{link}{target_path}"), endpoint_that_fails(page(404), f"{link}{target_path}")):
            await saves(script, VIDEO)
    assert cdn.targets == [sent, sent]


async def behave_badly(connection, how: str) -> None:
    """The content endpoint fails below HTTP, or within the body."""
    if how == "closed":
        return
    if how == "no HTTP":
        await connection.answer(b"SSH-2.0-OpenSSH\r\n")
    elif how == "two lengths":
        await connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
    elif how == "always cut":
        await connection.answer(Says(body=VIDEO, cut=500).wire())
    elif how == "no index":
        await connection.answer(Says(body=box(b"ftyp", b"isom") + box(b"mdat", bytes(100)), framing="close").wire())
    elif how == "half":
        await connection.answer(Says(body=VIDEO[:50_000]).wire())
    elif how == "fragments":
        fragments = VIDEO[:84] + box(b"moof", b"") + box(b"mdat", b"x")
        await connection.answer(Says(body=fragments, framing="close").wire())
    elif how == "dead host":
        await connection.answer(to("http://127.0.0.1:1/v?exp=1&sig=dead").wire())


@pytest.mark.parametrize(
    "how", ["closed", "no HTTP", "two lengths", "always cut", "no index", "half", "fragments", "dead host"]
)
async def test_the_tasks_link_is_used_before_a_download_fails_for_any_other_reason(how, downloads_of, target):
    async with site(Says(body=VIDEO)) as cdn:
        link = cdn.url("/v?exp=1&sig=2")

        async def behave(connection):
            while True:
                request = await connection.request()
                if not request.startswith(f"GET {CONTENT} ".encode()):
                    await connection.answer(task_json(link).wire())
                    continue
                await behave_badly(connection, how)
                return

        async with raw_service(behave) as service:
            await downloads_of(str(service.url("/openapi/v1"))).download("task-1", target.path)
    assert target.path.read_bytes() == VIDEO
    assert len(cdn.requests) == 1
    assert is_bare(cdn.requests[0])


async def test_a_link_that_the_endpoint_redirects_to_is_not_tried_again_as_the_tasks_link(fails, clock):
    async with site(Says(body=VIDEO, cut=500)) as cdn:
        link = cdn.url("/v?exp=1&sig=2")
        _, service = await fails(lambda seen: to(link) if seen.target == CONTENT else task_json(link), TruncatedError)
    assert len(cdn.requests) == service.targets.count(CONTENT)
    assert clock.now() <= 120


async def test_a_link_that_breaks_off_in_its_body_is_resumed_while_the_endpoint_fails(saves):
    async with site(RangeHost(VIDEO, cuts=[20_000, 30_000, 10_000])) as cdn:
        await saves(endpoint_that_fails(page(500), cdn.url("/v?exp=1&sig=2")), VIDEO)
    assert len(cdn.requests) == 4

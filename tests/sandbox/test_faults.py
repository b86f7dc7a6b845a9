"""Each fault on the wire, and whether the create is handled."""

import asyncio
import json
import time

import aiohttp
import pytest
from attrs import define, evolve

from vidgen_async.sandbox import Fault, Sandbox

LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


@define
class Wire:
    """A socket connected to the service."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes

    async def post(self, body: bytes = b'{"model": "gen-2.0", "prompt": "x"}', *, length: int | None = None) -> None:
        self.writer.write(self.head + f"Content-Length: {length or len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def end(self) -> bytes | type[OSError]:
        """Return all bytes until the connection is closed; ConnectionResetError if it is reset."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return ConnectionResetError


@pytest.fixture
async def wire(service):
    host, port = service.base_url.removeprefix("http://").partition("/")[0].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = ("POST /openapi/v1/videos HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {service.api_key}")
    head = "\r\n".join((*lines, "Content-Type: application/json", ""))
    yield Wire(reader, writer, head.encode())
    writer.close()


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize(
    ("fault", "end"), [(Fault.close_after_body, b""), (Fault.reset_after_body, ConnectionResetError)]
)
async def test_the_connection_is_closed_or_reset_after_the_body(service, wire, fault, end, made):
    service.faults.add("videos.create", fault(made=made))

    await wire.post()

    assert await wire.end() == end
    (create,) = service.creates
    assert (create.body_arrived, create.status, create.task_id is not None) == (True, None, made)
    assert len(service.tasks) == made


@pytest.mark.parametrize(
    ("fault", "end"), [(Fault.close_before_body(), b""), (Fault.reset_before_body(), ConnectionResetError)]
)
async def test_the_connection_is_closed_or_reset_after_the_head(service, wire, fault, end):
    service.faults.add("videos.create", fault)

    await wire.post(b"", length=35)

    assert await wire.end() == end
    (create,) = service.creates
    assert (create.body_arrived, create.status, create.task_id, create.fault) == (False, None, None, fault.name)


async def test_a_create_with_an_incomplete_body_is_logged_without_it(service, wire):
    await wire.post(b"{", length=35)
    await asyncio.sleep(0.05)
    wire.writer.close()
    await wire.writer.wait_closed()
    await asyncio.sleep(0.05)

    assert [(create.body_arrived, create.status) for create in service.creates] == [(False, None)]
    assert service.tasks == {}


async def test_a_create_is_handled_even_if_the_caller_disconnects_before_the_answer(service, wire):
    await wire.post()
    wire.writer.transport.abort()
    for _ in range(100):
        if service.tasks:
            break
        await asyncio.sleep(0.01)

    (create,) = service.creates
    assert (create.body_arrived, create.task_id) == (True, next(iter(service.tasks)))


@pytest.mark.rule("4.4 note no-resend", side="sandbox")
async def test_a_stall_lasts_until_the_caller_disconnects_and_the_task_is_created(service, wire):
    service.faults.add("videos.create", Fault.stall())
    await wire.post()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wire.reader.read(1), 0.1)

    assert (len(service.tasks), service.creates[0].status) == (1, None)


async def test_a_stall_of_some_seconds_ends_with_the_real_answer(service, api):
    service.faults.add("videos.create", Fault.stall(90))
    call = asyncio.create_task(api.create())
    while not call.done():
        service.clock.advance(30)
        await asyncio.sleep(0.01)

    assert call.result().status == 202


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("after", [0, 5, 0.5])
async def test_an_answer_is_cut_off_after_bytes_or_a_share_of_its_length(service, wire, after, made):
    service.faults.add("videos.create", Fault.cut(after, made=made))

    await wire.post()

    head, _, body = (await wire.end()).partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert head.startswith(b"HTTP/1.1 202 Accepted\r\n")
    assert len(body) == (int(length * after) if isinstance(after, float) else after)
    assert len(service.tasks) == made


async def test_bytes_that_are_not_http_are_sent_instead_of_an_answer(service, wire):
    service.faults.add("videos.create", Fault.not_http(b"SSH-2.0-x\r\n"))

    await wire.post()

    assert await wire.end() == b"SSH-2.0-x\r\n"
    assert service.creates[0].status is None


async def test_an_answer_can_be_sent_slowly(service, api):
    service.faults.add("videos.create", Fault.drip(1000))
    began = time.monotonic()

    reply = await api.create()

    assert (reply.status, reply.json["id"]) == (202, next(iter(service.tasks)))
    assert time.monotonic() - began > len(reply.body) / 1000 * 0.5


async def test_a_slow_answer_ends_when_the_caller_disconnects(service, api):
    service.faults.add("videos.create", Fault.drip(5))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(api.create(), 0.3)

    assert service.creates[0].status == 202


@pytest.mark.rule("7 error 429", side="sandbox")
@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (None, "application/json; charset=utf-8", b'"SANDBOX_418"'),
        ({"error": "no"}, "application/json; charset=utf-8", b'{"error": "no"}'),
        ('{"a": 1}', "application/json; charset=utf-8", b'{"a": 1}'),
        ("plain", "text/plain; charset=utf-8", b"plain"),
        (b"\xff", "text/plain; charset=utf-8", b"\xff"),
    ],
)
async def test_any_status_can_be_answered_with_any_body(service, api, body, content_type, expected):
    service.faults.add("videos.create", Fault.status(418, body, headers={"Retry-After": "3"}))

    reply = await api.create()

    assert (reply.status, reply.headers["retry-after"], reply.headers["content-type"]) == (418, "3", content_type)
    assert expected in reply.body
    assert service.tasks == {}


@pytest.mark.rule("4.4 note no-resend", "7 error 503", "7 error 502 504", side="sandbox")
async def test_an_error_status_can_hide_a_task_that_was_created_and_charged(service, api):
    before = service.balance
    service.faults.add("videos.create", Fault.status(504, content_type="text/html", made=True))

    reply = await api.create()

    assert (reply.status, reply.headers["content-type"]) == (504, "text/html")
    assert (len(service.tasks), service.creates[0].status, service.balance) == (1, 504, before - 20)


@pytest.mark.rule("7 error 502 504", side="sandbox")
async def test_a_page_a_redirect_or_a_body_that_is_not_json_can_be_answered(service, api):
    for fault in (Fault.html(502), Fault.redirect("https://elsewhere.test/", 302), Fault.garble()):
        service.faults.add("videos.create", fault)

    page, redirect, garbled = [await api.create() for _ in range(3)]

    assert (page.status, page.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert page.body.startswith(b"<!doctype html>")
    assert (redirect.status, redirect.headers["location"]) == (302, "https://elsewhere.test/")
    assert (garbled.status, garbled.headers["content-type"]) == (202, "application/json; charset=utf-8")
    with pytest.raises(ValueError, match="decode"):
        json.loads(garbled.body)
    assert len(service.tasks) == 2, "by default a redirect makes none"


@pytest.mark.parametrize("made", [True, False])
async def test_a_success_can_have_no_id(service, api, made):
    service.faults.add("videos.create", Fault.without_id(made=made))

    reply = await api.create()

    assert (reply.status, reply.json.keys() & {"id", "task_id"}) == (202, set())
    assert len(service.tasks) == made


async def test_an_answer_can_be_edited(service, api):
    task_id = (await api.create()).json["id"]
    service.faults.add("videos.get", Fault.edit(lambda task: {**task, "status": "dreaming", "points": "20"}))

    edited, unchanged = [(await api.get(f"/videos/{task_id}")).json for _ in range(2)]

    assert (edited["status"], edited["points"], unchanged["status"]) == ("dreaming", "20", "queued")


async def test_an_upload_that_was_not_stored_can_be_answered_with_success(service, api):
    service.faults.add("files.create", Fault.cut(10, made=False))

    with pytest.raises(aiohttp.ClientPayloadError):
        await api.post("/files", {})


async def test_a_kept_alive_connection_is_closed_when_the_next_request_has_been_read(service, wire):
    service.faults.add("videos.create", Fault.drop_after())

    await wire.post()
    first = await wire.reader.readuntil(b"\r\n\r\n")
    await wire.post()
    rest = await wire.end()

    assert first.startswith(b"HTTP/1.1 202")
    assert b"HTTP" not in rest
    assert [(create.body_arrived, create.status) for create in service.creates] == [(True, 202), (True, None)]
    assert len(service.tasks) == 1


async def test_faults_are_applied_to_their_op_after_others_and_as_often_as_planned(service, api):
    service.faults.add("models.list", Fault.status(500), times=2, after=1)
    service.faults.add("*", Fault.status(503), times=None)

    models = [(await api.get("/models")).status for _ in range(4)]
    service.faults.clear()

    assert models == [503, 500, 500, 503]
    assert (await api.get("/account")).status == 200


@pytest.fixture
async def video(service, api) -> str:
    """The address of a completed, streamed video, which is small."""
    service.add_model(evolve(service.models["gen-2.0"], durations=(1,), resolutions=("180p",)))
    task_id = (await api.create()).json["id"]
    service.clock.advance(4)
    return f"/videos/{task_id}/content"


async def test_a_video_can_be_empty_or_have_another_media_type(service, api, video):
    service.faults.add("videos.content", Fault.rewrite(content_type="application/json"))
    service.faults.add("videos.content", Fault.rewrite(body=b"", status=206))

    typed, empty = [await api.get(video) for _ in range(2)]

    assert (typed.headers["content-type"], typed.body[4:8]) == ("application/json", b"ftyp")
    assert (empty.status, empty.body) == (206, b"")


async def test_a_video_can_have_a_wrong_content_length(service, api, video):
    size = len((await api.get(video)).body)
    service.faults.add("videos.content", Fault.rewrite(length=size + 1))
    service.faults.add("videos.content", Fault.rewrite(length=size - 1))

    with pytest.raises(aiohttp.ClientPayloadError):
        await api.get(video)
    shorter = await api.get(video)

    assert (shorter.status, len(shorter.body)) == (200, size - 1)


async def test_a_range_can_be_ignored_or_answered_with_other_bytes(service, api, video):
    whole = (await api.get(video)).body
    options = {"headers": {"Range": "bytes=100-199"}}
    for fault in (Fault.ignore_range(), Fault.wrong_range(0), Fault.rewrite(headers={"Content-Range": "bytes 0-9/10"})):
        service.faults.add("videos.content", fault)

    ignored, other, mismatched = [await api.get(video, **options) for _ in range(3)]

    assert (ignored.status, ignored.body) == (200, whole)
    assert (other.status, other.headers["content-range"]) == (206, f"bytes 0-{len(whole) - 1}/{len(whole)}")
    assert (mismatched.headers["content-range"], mismatched.body) == ("bytes 0-9/10", whole[100:200])


async def test_the_origin_of_signed_links_has_its_own_faults(service, api):
    service.faults.add("link", Fault.close_before_body(), times=None)

    with pytest.raises(LOST):
        await api.get(f"{service.links_url}/v/up-1.mp4", bare=True)


async def test_a_caller_that_waits_for_100_continue_gets_it(service, api):
    reply = await api.post("/videos", {"model": "gen-2.0", "prompt": "x"}, expect100=True)

    assert reply.status == 202


async def test_a_fault_that_never_answers_does_not_delay_closing(session):
    async with Sandbox(speed=0) as service:
        service.faults.add("models.list", Fault.stall(1e9))
        call = asyncio.create_task(session.get(f"{service.base_url}/models"))
        await asyncio.sleep(0.05)

    with pytest.raises(LOST):
        await call


async def test_an_unknown_operation_is_refused_with_a_list_of_the_operations(service):
    with pytest.raises(ValueError, match=r"video\.create.*videos\.create"):
        service.faults.add("video.create", Fault.stall())

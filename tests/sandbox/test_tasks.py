"""The states of a task, its video, and the links to it (2.5, section 3, 4.5, 4.6, 5.5)."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from attrs import evolve

from tests.sandbox.conftest import Caller
from vidgen_async.sandbox import Failure, Sandbox

FIELDS = {"id", "task_id", "status", "model", "points", "video_url", "provider"}
FIELDS |= {"failure_reason", "upstream_task_id", "created_at", "updated_at"}


async def complete_task(api, service, model: str = "gen-2.0", **changes) -> str:
    """Return the id of a completed task with a small video of one second, delivered as its model's videos are."""
    small = evolve(service.models[model], durations=(1,), resolutions=("180p",), min_reference_images=0)
    service.add_model(small)
    created = (await api.create(model=model, **changes)).json
    service.clock.advance(4)
    return created["id"]


@pytest.mark.rule("1 bullet 1", "3 state queued", "3 state running", "3 unshown transitions", side="sandbox")
async def test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock(service, api):
    task_id = (await api.create()).json["id"]
    statuses = []
    for seconds in (0, 0.9, 0.2, 2.8, 0.2):
        service.clock.advance(seconds)
        statuses.append((await api.get(f"/videos/{task_id}")).json["status"])

    assert statuses == ["queued", "queued", "running", "running", "completed"]


@pytest.mark.rule("2.5 field", "2.5 unshown provider", "4 endpoint GET /videos/{id}", side="sandbox")
@pytest.mark.rule("4.5 response 200", "4.6 response 409", "7 error 409", "9 bullet 4", side="sandbox")
async def test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds(service, api):
    task_id = (await api.create()).json["id"]
    queued = (await api.get(f"/videos/{task_id}")).json
    assert (await api.get(f"/videos/{task_id}/content")).status == 409
    service.clock.advance(10)
    completed = (await api.get(f"/videos/{task_id}")).json

    assert queued.keys() == completed.keys() == FIELDS
    assert queued["id"] == queued["task_id"] == task_id
    assert (queued["video_url"], queued["upstream_task_id"], queued["failure_reason"]) == (None, None, None)
    assert completed["updated_at"] - completed["created_at"] == 4
    assert isinstance(completed["created_at"], int)


@pytest.mark.rule("1 bullet 3", "2.5 field failure_reason", "3 state failed", "7 rule 1", "7 rule 2", side="sandbox")
async def test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger(service, api):
    before = service.balance
    task_id = (await api.create(prompt="A boat [fail: the reference was rejected]")).json["id"]
    assert service.balance == before - 20
    service.clock.advance(4)

    task = (await api.get(f"/videos/{task_id}")).json

    assert (task["status"], task["failure_reason"], task["video_url"]) == ("failed", "the reference was rejected", None)
    assert (service.ledger[-1].kind, service.ledger[-1].points, service.ledger[-1].task_id) == ("refund", 20, task_id)
    assert service.balance == before == (await api.get("/account")).json["credits"]
    assert (await api.get(f"/videos/{task_id}/content")).status == 409


async def test_a_callable_can_decide_how_tasks_end(session):
    async with Sandbox(outcome=lambda task: Failure(task.model), queued_for=0, running_for=0) as service:
        api = Caller(session, service.base_url, service.api_key)
        task_id = (await api.create()).json["id"]
        assert (await api.get(f"/videos/{task_id}")).json["failure_reason"] == "gen-2.0"


@pytest.mark.rule("1 bullet 6", "4.5 note other-ids", "4.6 path id", "4.6 response 404", "7 error 404", side="sandbox")
@pytest.mark.parametrize("path", ["/videos/{id}", "/videos/{id}/content"])
async def test_a_task_of_another_account_or_none_is_404(service, api, stranger, path):
    task_id = await complete_task(api, service)
    upstream_id = (await api.get(f"/videos/{task_id}")).json["upstream_task_id"]

    replies = [
        await stranger.get(path.format(id=task_id)),
        await api.get(path.format(id="task_none")),
        await api.get(path.format(id=upstream_id)),
    ]

    assert {(reply.status, reply.code) for reply in replies} == {(404, "NOT_FOUND")}


@pytest.mark.rule("4 endpoint GET /videos/{id}/content", "4.6 response 200", "4.6 response 206", side="sandbox")
async def test_a_streamed_video_is_sent_whole_or_in_ranges_from_its_video_url(service, api):
    task_id = await complete_task(api, service)
    url = (await api.get(f"/videos/{task_id}")).json["video_url"]

    whole = await api.get(url)
    size = len(whole.body)
    parts = {
        byte_range: await api.get(url, headers={"Range": byte_range})
        for byte_range in ("bytes=0-99", "bytes=100-", "bytes=-10")
    }
    beyond = await api.get(url, headers={"Range": f"bytes={size}-"})

    assert url == f"{service.base_url}/videos/{task_id}/content"
    assert (whole.status, whole.headers["content-type"], whole.headers["accept-ranges"]) == (200, "video/mp4", "bytes")
    assert [reply.status for reply in parts.values()] == [206] * 3
    assert parts["bytes=0-99"].body + parts["bytes=100-"].body == whole.body
    assert parts["bytes=-10"].body == whole.body[-10:]
    assert parts["bytes=100-"].headers["content-range"] == f"bytes 100-{size - 1}/{size}"
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")


async def test_an_invalid_range_or_one_of_another_video_gets_the_whole_video(service, api):
    url = f"/videos/{await complete_task(api, service)}/content"
    etag = (await api.get(url)).headers["etag"]

    invalid = [{"Range": "lines=1-2"}, {"Range": "bytes=-"}, {"Range": "bytes=0-9", "If-Range": '"other"'}]
    invalid += [{"Range": "bytes=5-1"}, {"Range": "bytes=99999999-1"}, {"Range": "bytes=1"}, {"Range": "bytes=a-b"}]
    replies = [await api.get(url, headers=headers) for headers in invalid]

    assert [reply.status for reply in replies] == [200] * len(invalid)
    for unsatisfiable in ("bytes=-0", "bytes=99999999-", "bytes=99999999-99999999"):
        beyond = await api.get(url, headers={"Range": unsatisfiable})
        assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(replies[0].body)}")
    assert (await api.get(url, headers={"Range": "bytes=0-9", "If-Range": etag})).status == 206


@pytest.mark.rule("4.6 header Range", "4.6 note streamed", side="sandbox")
async def test_one_model_is_streamed_without_ranges(service, api):
    task_id = await complete_task(api, service, "sd2_480p_real")

    reply = await api.get(f"/videos/{task_id}/content", headers={"Range": "bytes=0-9"})

    assert (reply.status, "accept-ranges" in reply.headers) == (200, False)
    assert reply.body[4:8] == b"ftyp"


@pytest.mark.rule("1 bullet 5", "4.6 response 307", "4.6 note no-forward", "5 item 5", "5 item 6", side="sandbox")
async def test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key(service, api):
    task_id = await complete_task(api, service, "vendorh3")

    redirect = await api.get(f"/videos/{task_id}/content")
    link = redirect.headers["location"]
    video = await api.get(link, bare=True)
    part = await api.get(link, bare=True, headers={"Range": "bytes=4-7"})

    assert redirect.status == 307
    assert link == (await api.get(f"/videos/{task_id}")).json["video_url"]
    assert link.startswith(service.links_url)
    assert not link.startswith(service.base_url.removesuffix("/openapi/v1"))
    assert parse_qs(urlsplit(link).query).keys() == {"exp", "sig"}
    assert (video.status, video.headers["content-type"], part.status, part.body) == (200, "video/mp4", 206, b"ftyp")
    assert (await api.get(f"/videos/{task_id}/content", bare=True)).status == 401


@pytest.mark.rule("2.5 note link", "3 state completed", "5 item 7", "7 error 401", side="sandbox")
async def test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401(service, api):
    task_id = await complete_task(api, service, "vendorh3")
    link = service.new_link(task_id)
    head, query = link.split("?")
    exp, sig = query.split("&")
    changed = [
        f"{head}?{exp}",
        f"{head}?{sig}",
        head,
        f"{link[:-4]}x%3D",
        f"{head}?{exp}0&{sig}",
        f"{head}?exp=x&{sig}",
    ]

    replies = [await api.get(url, bare=True) for url in (*changed, service.new_link(task_id, lifetime=-1))]
    reordered = await api.get(f"{head}?{sig}&{exp}", bare=True)

    assert {reply.status for reply in replies} == {401}
    assert reordered.status == 200


async def test_a_valid_link_to_nothing_is_404(service, api):
    task_id = await complete_task(api, service, "vendorh3")
    link = service.new_link(task_id)
    del service.tasks[task_id]

    assert (await api.get(link, bare=True)).status == 404


@pytest.mark.rule("5 item 6", side="sandbox")
async def test_a_link_supports_head(service, api):
    link = service.new_link(await complete_task(api, service, "vendorh3"))

    reply = await api.send("HEAD", link, bare=True)

    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "video/mp4", b"")


async def test_a_video_is_rendered_once_for_concurrent_requests(service, api):
    task_id = await complete_task(api, service)

    replies = await asyncio.gather(*(api.get(f"/videos/{task_id}/content") for _ in range(10)))
    again = await api.get(f"/videos/{task_id}/content")

    assert len({reply.body for reply in (*replies, again)}) == 1
    assert service.rendered == 1


async def test_closing_stops_a_rendering_whose_callers_disconnected(session):
    async with Sandbox(queued_for=0, running_for=0) as service:
        api = Caller(session, service.base_url, service.api_key)
        task_id = (await api.create(model="sd_2_5_once_720p")).json["id"]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(api.get(f"/videos/{task_id}/content"), 0.2)

    assert service.rendered == 0

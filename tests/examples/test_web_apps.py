"""The web apps of examples/ that share a page, each started as its documentation says and driven over HTTP."""

import asyncio
import signal
from importlib import import_module

import pytest

from tests.examples.conftest import EXAMPLES, LIMIT, SHARING
from vidgen_async import Client, JournalError, VidgenError
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(params=SHARING)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_an_order_is_made_once_and_its_progress_is_streamed(name, start, service):
    app = await start(name)
    answers = [await app.order("order-1") for _ in range(2)]

    assert [answer.status for answer in answers] == [201, 201]
    assert len(service.sandbox.creates) == 1
    async with app.events() as events:
        row = await events.until("queued")
        assert (row["order"], row["prompt"]) == ("order-1", "A paper boat")
        service.sandbox.clock.advance(1)
        await events.until("running")
        service.sandbox.clock.advance(3)
        assert (await events.until("completed"))["points"] == 20


async def test_events_continue_after_the_last_one_that_a_browser_received(name, start):
    app = await start(name)
    for order in ("order-1", "order-2"):
        async with app.events() as events:
            await app.order(order)
            await events.until("queued", order)
    await app.order("order-3")

    async with app.events(events.last_id) as missed:
        assert (await missed.next())["order"] == "order-3"
    async with app.events("of-another-run-7") as all_of_them:
        assert {(await all_of_them.next())["order"] for _ in range(3)} == {"order-1", "order-2", "order-3"}


async def test_the_parts_of_a_video_that_a_browser_asks_for_are_passed_on(name, start, service):
    app = await start(name)
    await app.order("order-1")
    assert (await app.get("/orders/order-1/video")).status == 409
    assert (await app.get("/orders/order-2/video")).status == 404
    service.sandbox.clock.advance(4)

    whole = await app.get("/orders/order-1/video")
    part = await app.get("/orders/order-1/video", Range="bytes=100-199")
    beyond = await app.get("/orders/order-1/video", Range="bytes=99999999-")
    reversed_ = await app.get("/orders/order-1/video", Range="bytes=5-1")

    body = await whole.read()
    assert (whole.status, whole.content_type, whole.content_length) == (200, "video/mp4", len(body))
    assert (part.status, await part.read()) == (206, body[100:200])
    assert part.headers["Content-Range"] == f"bytes 100-199/{len(body)}"
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, f"bytes */{len(body)}")
    assert (reversed_.status, await reversed_.read()) == (200, body)


async def test_errors_have_the_status_that_tells_the_page_what_to_do(name, start, service):
    app = await start(name)
    faults = service.sandbox.faults
    statuses = {}

    assert (await app.order("order-1")).status == 201
    statuses["another prompt"] = (await app.order("order-1", "Another boat")).status
    statuses["an empty prompt"] = (await app.order("order-2", "")).status
    statuses["no prompt"] = (await app.order("order-2", json={"text": "A boat"})).status
    statuses["no JSON"] = (await app.order("order-2", json=None, data=b"{")).status
    assert len(service.sandbox.creates) == 1
    for status in (400, 401, 402, 404):
        faults.add("videos.create", Fault.status(status))
        statuses[f"the service's {status}"] = (await app.order(f"order-{status}")).status
    faults.add("videos.create", Fault.status(429, headers={"Retry-After": "7"}))
    limited = await app.order("order-429")
    async with service.sandbox.refusing():
        statuses["not sent"] = (await app.order("order-3")).status
    statuses["sent again"] = (await app.order("order-3")).status

    assert statuses == {
        "another prompt": 409,
        "an empty prompt": 422,
        "no prompt": 422,
        "no JSON": 422,
        "the service's 400": 422,
        "the service's 401": 502,
        "the service's 402": 502,
        "the service's 404": 502,
        "not sent": 503,
        "sent again": 201,
    }
    assert (limited.status, limited.headers["Retry-After"]) == (503, "7")
    for answer in (limited, await app.get("/"), await app.get("/orders/unknown/video")):
        assert service.sandbox.api_key not in await answer.text()


async def test_what_concerns_the_account_of_the_shop_is_logged_and_not_shown(name, start, service):
    app = await start(name)
    service.sandbox.faults.add("videos.create", Fault.status(402))
    rejected = await app.order("order-1")
    async with app.events() as events:
        row = await events.until("rejected")

    assert rejected.status == 502
    assert "credits" not in await rejected.text() + str(row)
    await app.until_logged("order 'order-1' was rejected and nothing was charged: videos.create: 402")


async def test_an_order_that_the_journal_has_not_stored_is_answered_as_accepted(monkeypatch, service):
    class LostJournal(MemoryJournal):
        is_lost = False

        async def settle(self, *_):
            self.is_lost = True
            raise JournalError

        async def get(self, *arguments):
            if self.is_lost:
                raise JournalError
            return await super().get(*arguments)

    monkeypatch.syspath_prepend(EXAMPLES)
    answer_to, orders_of = import_module("http_answers").answer_to, import_module("video_orders").VideoOrders
    settings = {"journal": LostJournal(), "clock": VirtualClock()}
    async with Client(service.sandbox.api_key, base_url=service.sandbox.base_url, **settings) as client:
        with pytest.raises(VidgenError) as caught:
            await orders_of(client).create("order-1", "A paper boat")
    assert answer_to(caught.value)[0] == 201
    assert len(service.sandbox.creates) == 1


async def test_a_wait_that_failed_is_continued_for_the_next_browser(name, start, service):
    app = await start(name)
    service.sandbox.faults.add("videos.get", Fault.status(403), times=3)
    await app.order("order-1")
    async with app.events() as events:
        while (row := await events.next())["reason"] is None:
            pass
    assert "403" not in row["reason"]
    await app.until_logged("order order-1: videos.get: 403")
    service.sandbox.clock.advance(4)

    async with app.events() as events:
        assert (await events.until("completed"))["reason"] is None


async def test_an_uncertain_order_is_sent_once_and_follows_the_decision_of_an_operator(name, start, service, tmp_path):
    app = await start(name)
    service.sandbox.faults.add("videos.create", Fault.close_after_body())

    assert [(await app.order("order-1")).status for _ in range(2)] == [202, 202]
    async with app.events() as events:
        last_id = (await events.until("uncertain")) and events.last_id
    journal = f"sqlite:///{tmp_path}/orders.db"
    async with Client(service.sandbox.api_key, base_url=service.sandbox.base_url, journal=journal) as operator:
        await operator.orders.adopt("order-1", service.sandbox.creates[0].task_id)

    service.sandbox.clock.advance(4)
    async with app.events(last_id) as events:
        assert (await events.until("completed"))["order"] == "order-1"
    assert len(service.sandbox.creates) == 1


async def test_after_a_kill_the_app_continues_with_the_orders_of_the_journal(name, start, service):
    app = await start(name)
    await app.order("order-1")
    await app.order("order-2", "A boat [fail: too blue]")
    service.sandbox.clock.advance(1)
    async with app.events() as events:
        await events.until("running")
        last_id = events.last_id
    await app.stop(signal.SIGKILL)
    service.sandbox.clock.advance(3)

    await app.start()

    rows = {}
    async with app.events(last_id) as events:
        while {row["state"] for row in rows.values()} != {"completed", "failed"}:
            row = await events.next()
            rows[row["order"]] = row
    assert {order: row["reason"] for order, row in rows.items()} == {"order-1": None, "order-2": "too blue"}
    assert (await app.order("order-1")).status == 201
    assert len(service.sandbox.creates) == 2
    await app.stop(signal.SIGKILL)

    await app.start()  # the ends are known, and nothing is polled

    polls = len(service.sandbox.requests)
    async with app.events() as events:
        states = {(await events.next())["state"] for _ in range(2)}
    assert (states, len(service.sandbox.requests)) == ({"completed", "failed"}, polls)


async def test_a_browser_that_disconnects_during_an_order_changes_nothing(name, start, service):
    app = await start(name)
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    request = asyncio.ensure_future(app.order("order-1"))
    await service.until(lambda received: received.op == "videos.create")
    request.cancel()
    await asyncio.wait([request])

    async with app.events() as events:
        await events.until("sending")
        service.sandbox.clock.advance(1)
        await events.until("running")
    assert len(service.sandbox.creates) == 1


async def test_a_browser_that_stops_a_video_releases_its_connection(name, start, service):
    app = await start(name)
    await app.order("order-1")
    service.sandbox.clock.advance(4)
    service.sandbox.faults.add("videos.content", Fault.drip(50))

    async with app.session.get(f"{app.url}/orders/order-1/video") as response:
        await response.content.readany()
    request = await service.until(lambda received: received.op == "videos.content" and received.is_over)

    assert request.fault is not None
    assert response.content_length is not None
    assert response.content_length > 50 * LIMIT, "otherwise it may have been sent completely"


async def test_a_video_that_is_cut_short_ends_as_such(name, start, service):
    app = await start(name)
    await app.order("order-1")
    service.sandbox.clock.advance(4)
    service.sandbox.faults.add("videos.content", Fault.cut())

    with pytest.raises(Exception, match=r"(?i)payload"):
        await app.get("/orders/order-1/video")
    app.log.clear()  # that was logged with its traceback


async def test_an_app_that_is_stopped_ends_its_streams(name, start, service):
    app = await start(name)
    await app.order("order-1")
    async with app.events() as events:
        await events.until("queued")
        await app.stop()
    app.log.clear()  # uvicorn logs that it ended a stream


async def test_an_app_without_settings_does_not_start(name, start):
    with pytest.raises(pytest.fail.Exception, match=r"(?s)exit code [1-9].*VIDGEN_BASE_URL") as failed:
        await start(name, VIDGEN_BASE_URL="")
    assert "running on" not in str(failed.value).lower()

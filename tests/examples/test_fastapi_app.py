"""The web app in one file, with its page in a real browser."""

import signal
from importlib import import_module
from typing import Any

import pytest

from tests.browser import expect, reaches
from tests.examples.conftest import EXAMPLES
from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.sandbox import Fault
from vidgen_async.transports import BufferedResponse, FakeTransport, Request

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
EVENTS = "/events?order=order-1&order=order-2"


async def order(page: Any, prompt: str = "A paper boat") -> Any:
    """Order a video as a person does, and return its place on the page."""
    await page.get_by_label("Prompt").fill(prompt)
    await page.get_by_role("button", name="Order").click()
    return page.locator("main p").filter(has_text=prompt)


async def test_a_person_orders_once_follows_the_progress_and_plays_the_video(start, service, page):
    app = await start("fastapi")
    await page.goto(app.url)
    row = await order(page)

    await expect(row).to_have_text("A paper boat · queued")
    service.sandbox.clock.advance(1)
    await expect(row).to_have_text("A paper boat · running")
    service.sandbox.clock.advance(3)
    await expect(row).to_have_text("A paper boat · completed")
    video = row.locator("video")
    await video.evaluate("video => { video.muted = true; return video.play(); }")
    await reaches(video, 0.1)
    assert service.sandbox.api_key not in await page.content()
    assert len(service.sandbox.creates) == 1


async def test_a_tab_that_is_closed_in_the_middle_of_a_create_loses_nothing(start, service, page):
    app = await start("fastapi")
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    await page.goto(app.url)
    await order(page)
    await service.until(lambda received: received.op == "videos.create")
    await page.goto("about:blank")  # the page is gone, what the browser has stored is not

    await page.goto(app.url)

    row = page.locator("main p")
    await expect(row).to_have_text("A paper boat · sending")
    service.sandbox.clock.advance(1)
    await expect(row).not_to_have_text("A paper boat · sending")
    service.sandbox.clock.advance(4)
    await expect(row).to_have_text("A paper boat · completed")
    assert len(service.sandbox.creates) == 1


async def test_an_answer_that_the_browser_has_lost_is_requested_again_with_the_same_id(start, service, page):
    app = await start("fastapi")

    async def lose_answer(route: Any) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/orders/*", lose_answer, times=1)
    await page.goto(app.url)
    row = await order(page)
    await expect(row).to_have_text("A paper boat · queued")
    assert "isAnswered" not in await page.evaluate("localStorage.orders")
    await page.reload()
    await page.wait_for_function("localStorage.orders.includes('isAnswered')")
    await expect(row).to_have_text("A paper boat · queued")
    assert len(service.sandbox.creates) == 1


async def test_an_order_whose_response_is_lost_is_shown_as_uncertain_and_follows_the_operator(
    start, service, page, tmp_path
):
    app = await start("fastapi")
    service.sandbox.faults.add("videos.create", Fault.close_after_body())
    await page.goto(app.url)
    row = await order(page)
    await expect(row).to_have_text("A paper boat · uncertain", timeout=5000)  # not only at the next comment
    assert (await app.order(await row.get_attribute("id"))).status == 202

    journal = f"sqlite:///{tmp_path}/orders.db"
    async with Client(service.sandbox.api_key, base_url=service.sandbox.base_url, journal=journal) as operator:
        await operator.orders.adopt(await row.get_attribute("id"), service.sandbox.creates[0].task_id)
    service.sandbox.clock.advance(4)
    await page.reload()

    await expect(row).to_have_text("A paper boat · completed")
    assert len(service.sandbox.creates) == 1


async def test_after_a_kill_the_app_waits_for_the_tasks_of_the_journal(start, service):
    app = await start("fastapi")
    await app.order("order-1")
    await app.order("order-2", "A boat [fail: too blue]")
    await app.stop(signal.SIGKILL)
    service.sandbox.clock.advance(4)

    await app.start()

    rows: dict[str, dict[str, Any]] = {}
    async with app.events(path=EVENTS) as events:
        while {row["state"] for row in rows.values()} != {"completed", "failed"}:
            row = await events.next()
            rows[row["order"]] = row
    assert {order: row["reason"] for order, row in rows.items()} == {"order-1": None, "order-2": "too blue"}
    assert len(service.sandbox.creates) == 2


async def test_errors_have_the_status_that_tells_the_page_what_to_do(start, service):
    app = await start("fastapi")
    assert (await app.order("order-1")).status == 201
    assert (await app.order("order-1", "Another boat")).status == 409
    assert (await app.order("order-2", "")).status == 422
    for status, expected in ((400, 422), (401, 502), (402, 502)):
        service.sandbox.faults.add("videos.create", Fault.status(status))
        assert (await app.order(f"order-{status}")).status == expected
    service.sandbox.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "7"}))
    limited = await app.order("order-429")
    assert (limited.status, limited.headers["Retry-After"]) == (503, "7")
    async with service.sandbox.refusing():
        assert (await app.order("order-3")).status == 503
    async with app.events(path="/events?order=order-3") as events:
        assert await events.next() == {"order": "order-3", "state": "waiting to be sent", "reason": None}
    for order_id in ("order-1", "order-3"):
        assert (await app.get(f"/orders/{order_id}/video")).status == 404
    service.sandbox.clock.advance(4)
    assert (await app.get("/orders/order-1/video", Range="bytes=100-199")).status == 206


async def test_an_app_that_is_stopped_ends_its_streams(start):
    app = await start("fastapi")
    await app.order("order-1")
    async with app.events(path=EVENTS) as events:
        await events.until("queued")
        await app.stop()
    app.log.clear()  # uvicorn logs that it ended a stream


async def test_a_create_of_two_minutes_is_answered_sooner_and_awaited_when_the_app_is_stopped(monkeypatch):
    clock = VirtualClock()

    async def accept(request: Request) -> BufferedResponse:
        if request.op != "videos.create":
            return BufferedResponse(404, b"{}")
        await clock.sleep(119)
        return BufferedResponse(202, b'{"id": "task-1"}')

    def make_client(**options: Any) -> Client:
        transport = FakeTransport(accept)
        options |= {"journal": "memory:", "transport": transport, "clock": clock}
        return Client("key", base_url="https://service.test/openapi/v1", **options)

    monkeypatch.syspath_prepend(EXAMPLES)
    example = import_module("fastapi_app")
    monkeypatch.setattr(example, "Client", make_client)
    async with example.lifespan(example.app):
        shop = example.app.state.shop
        answer = await example.create("order-1", "A paper boat", shop)
        assert (answer.status_code, answer.headers["Retry-After"]) == (202, "10")

    assert shop.accepted.get_nowait() == "task-1"

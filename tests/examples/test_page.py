"""The page of the web apps in a real browser."""

import signal
from typing import Any

import pytest

from tests.browser import expect, reaches
from tests.examples.conftest import SHARING
from vidgen_async import Client
from vidgen_async.sandbox import Fault

#: One event loop and one browser for all tests, because they are slow to start.
pytestmark = [pytest.mark.needs_dev, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def order(page: Any, prompt: str = "A paper boat sails at dawn") -> Any:
    """Order a video as a person does, and return its place on the page."""
    await page.get_by_label("What should the video show?").fill(prompt)
    await page.get_by_role("button", name="Order").click()
    return page.get_by_role("article").filter(has_text=prompt)


def state(row: Any) -> Any:
    return row.locator(".state")


@pytest.mark.parametrize("name", SHARING)
async def test_a_person_orders_follows_the_progress_and_plays_any_part_of_the_video(name, start, service, page):
    app = await start(name)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.method} {request.url.removeprefix(app.url)}"))
    await page.goto(app.url)
    row = await order(page)

    await expect(state(row)).to_have_text("queued")
    await expect(row.get_by_role("progressbar")).to_be_visible()
    service.sandbox.clock.advance(1)
    await expect(state(row)).to_have_text("running")
    service.sandbox.clock.advance(3)
    await expect(state(row)).to_have_text("completed")
    await expect(row).to_contain_text("20 points")
    await expect(row.get_by_role("progressbar")).to_be_hidden()
    order_id = await row.get_attribute("id")
    assert [line for line in sent if "data:" not in line] == ["GET /", "GET /events", f"PUT /orders/{order_id}"]

    video = row.locator("video")
    await video.evaluate("video => { video.muted = true; return video.play(); }")
    await reaches(video, 0.1)
    await video.evaluate("video => { video.currentTime = 4; }")
    await reaches(video, 4.2)
    assert await video.evaluate("video => video.duration") == pytest.approx(5, abs=0.2)
    ranges = [one for one in service.sandbox.requests if one.op == "videos.content"]
    assert all(one.headers["Range"].startswith("bytes=") for one in ranges)
    assert ranges[0].status == 206
    assert service.sandbox.api_key not in await page.content()
    assert len(service.sandbox.creates) == 1


@pytest.mark.parametrize("name", SHARING)
async def test_the_page_continues_by_itself_when_the_app_was_killed_and_started_again(name, start, service, page):
    app = await start(name)
    await page.goto(app.url)
    row = await order(page)
    await expect(state(row)).to_have_text("queued")
    await app.stop(signal.SIGKILL)
    await expect(page.locator("#connection")).to_have_text("connecting …")
    service.sandbox.clock.advance(4)

    await app.start()

    await expect(page.locator("#connection")).to_have_text("live")
    await expect(state(row)).to_have_text("completed")
    await page.reload()
    await expect(state(row)).to_have_text("completed")
    await expect(row.locator("video")).to_be_visible()
    assert len(service.sandbox.creates) == 1


async def test_an_order_whose_answer_was_lost_is_sent_again_with_its_id(start, service, page):
    app = await start("aiohttp")
    await page.route("**/orders/*", lambda route: route.abort(), times=1)
    await page.goto(app.url)
    row = await order(page)
    await expect(state(row)).to_have_text("not sent")
    order_id = await row.get_attribute("id")
    assert service.sandbox.creates == []

    async def lose_answer(route: Any) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/orders/*", lose_answer, times=1)
    await row.get_by_role("button", name="Send again").click()
    await expect(state(row)).to_have_text("queued")
    assert order_id in await page.evaluate("localStorage.getItem('pending')")
    await page.reload()  # which repeats what had no answer
    await expect(state(row)).to_have_text("queued")
    await page.wait_for_function("localStorage.getItem('pending') === '{}'")
    assert len(service.sandbox.creates) == 1


async def test_an_uncertain_order_shows_what_an_operator_does_and_then_the_decision(start, service, page, tmp_path):
    app = await start("django")
    service.sandbox.faults.add("videos.create", Fault.close_after_body())
    await page.goto(app.url)
    row = await order(page)

    await expect(state(row)).to_have_text("uncertain")
    await expect(row).to_contain_text("it is not sent again")
    await row.get_by_text("For the operator").click()
    order_id = await row.get_attribute("id")
    await expect(row.get_by_text(f"vidgen orders show {order_id}")).to_be_visible()
    journal = f"sqlite:///{tmp_path}/orders.db"
    async with Client(service.sandbox.api_key, base_url=service.sandbox.base_url, journal=journal) as operator:
        await operator.orders.adopt(order_id, service.sandbox.creates[0].task_id)
    service.sandbox.clock.advance(4)
    await page.reload()

    await expect(state(row)).to_have_text("completed")
    assert len(service.sandbox.creates) == 1


async def test_an_order_that_the_service_refuses_shows_the_reason(start, service, page):
    app = await start("aiohttp")
    service.sandbox.faults.add("videos.create", Fault.status(402))
    await page.goto(app.url)
    row = await order(page, "<b>A boat</b>")

    await expect(state(row)).to_have_text("rejected")
    await expect(row).to_contain_text("The log of the shop has the reason.")
    service.sandbox.faults.add("videos.create", Fault.status(400, b'{"message": "too <b>long</b>"}'))
    refused = await order(page, "A long boat")
    await expect(refused.locator(".reason")).to_contain_text("too <b>long</b>")
    await row.get_by_role("button", name="Send again").click()
    await expect(state(row)).to_have_text("queued")
    service.sandbox.faults.clear()
    failed = await order(page, "A boat [fail: too <i>blue</i>]")
    await expect(state(failed)).to_have_text("queued")
    service.sandbox.clock.advance(4)
    await expect(failed.locator(".reason")).to_have_text("too <i>blue</i>")

"""A web application orders videos for its visitors, and their browsers go away at any moment."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from aiohttp import ClientSession, web
from attrs import define, field

from tests.proof.cancelling import (
    FIELDS,
    NAMESPACE,
    Moments,
    comes_true,
    open_files,
    posts_of,
    stored_order,
)
from vidgen_async import Client
from vidgen_async.journal import SqliteJournal
from vidgen_async.types.orders import OrderState

BROWSERS = 30


@define
class Shop:
    """``POST /orders/{id}`` orders a video under that id, and says its task id. The handler is cancelled when the
    browser has gone, as it is under many servers."""

    client: Client
    ended: Counter[str] = field(factory=Counter)
    """How the handlers ended."""
    moments: dict[str, Moments] = field(factory=dict)
    """What counts the moments of an order's first handler."""
    port: int = 0

    async def order(self, request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        call = self.client.videos.create(**FIELDS, order_id=order_id)
        moments = self.moments.pop(order_id, None)
        with self._noting():
            receipt = await (call if moments is None else moments.run(call))
        return web.Response(text=receipt.task_id)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            self.ended["cancelled"] += 1
            raise
        self.ended["answered"] += 1


@pytest.fixture
async def shop(service, tmp_path) -> AsyncIterator[Shop]:
    journal = SqliteJournal(tmp_path / "orders.db")
    async with Client(service.api_key, base_url=service.base_url, journal=journal, namespace=NAMESPACE) as client:
        shop = Shop(client)
        application = web.Application()
        application.router.add_post("/orders/{id}", shop.order)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        shop.port = runner.addresses[0][1]
        yield shop
        await runner.cleanup()


async def visit(shop: Shop, order_id: str, moment: int | None = None) -> str:
    """The response to a browser that asks for the order; it goes away at this moment of what the shop does for it."""
    async with ClientSession() as browser:
        url = f"http://127.0.0.1:{shop.port}/orders/{order_id}"
        request = asyncio.ensure_future(browser.post(url, raise_for_status=True))
        if moment is not None:
            shop.moments[order_id] = Moments(moment)
            shop.moments[order_id].happens = request.cancel
        try:
            async with await request as response:
                return await response.text()
        except asyncio.CancelledError:
            return ""


@pytest.mark.slow
async def test_browsers_that_disconnect_at_any_moment_cause_one_post_each_and_the_next_one_receives_the_task(
    shop, service, tmp_path
):
    seeded = random.Random(4)  # noqa: S311 - repeatable, not secret
    moments = {f"order-{n}": seeded.randrange(1, 40) for n in range(BROWSERS)}

    told = dict(zip(moments, await asyncio.gather(*(visit(shop, *item) for item in moments.items())), strict=True))
    await comes_true(lambda: shop.ended.total() == BROWSERS)
    assert shop.ended["cancelled"] > BROWSERS / 2

    again = {order_id: await visit(shop, order_id) for order_id in moments}
    for order_id in moments:
        (post,) = posts_of(service, order_id)
        assert again[order_id] == post.task_id
        assert told[order_id] in ("", post.task_id)
        order = await stored_order(tmp_path / "orders.db", service, order_id)
        assert (order.state, order.task_ids, len(order.attempts)) == (OrderState.ACCEPTED, (post.task_id,), 1)
    assert len(service.creates) == BROWSERS


async def test_the_next_browser_joins_the_order_of_the_one_that_disconnected(shop, service):
    await visit(shop, "order-0")  # from here on the journal and a connection for reads stay open
    files = open_files()
    for moment in range(1, 40, 4):
        order_id = f"order-{moment}"
        gone, stays = await asyncio.gather(visit(shop, order_id, moment), visit(shop, order_id))
        (post,) = posts_of(service, order_id)
        assert stays == post.task_id
        assert gone in ("", post.task_id)
    await comes_true(lambda: open_files() <= files)

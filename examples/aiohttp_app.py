"""A page that orders videos, under aiohttp.web.

PORT=8000 python aiohttp_app.py
"""

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from vidgen_async import VidgenError

from http_answers import EVENT_HEADERS, answer_to, prompt_of
from video_orders import VideoOrders, open_orders

ORDERS = web.AppKey("orders", VideoOrders)
PAGE = Path(__file__).with_name("page.html")
routes = web.RouteTableDef()


async def one_client(app: web.Application) -> AsyncIterator[None]:
    """One client for the lifetime of the app."""
    async with open_orders() as app[ORDERS]:
        yield


@web.middleware
async def show_errors(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
    """Answer with the status of an error."""
    try:
        return await handler(request)
    except VidgenError as error:
        if request.writer.output_size:
            raise  # too late for a status: aiohttp closes the connection
        status, body, headers = answer_to(error)
        return web.json_response(body, status=status, headers=headers)


@routes.get("/")
async def page(_: web.Request) -> web.FileResponse:
    """The page with the form and the orders."""
    return web.FileResponse(PAGE)


@routes.put("/orders/{order_id}")
async def create(request: web.Request) -> web.Response:
    """Order a video. The page makes the id, and may repeat the request."""
    orders, order_id = request.app[ORDERS], request.match_info["order_id"]
    row = await orders.create(order_id, prompt_of(await request.read()))
    return web.json_response(row, status=201)


@routes.get("/events", allow_head=False)
async def events(request: web.Request) -> web.StreamResponse:
    """All changes, as server-sent events."""
    last_event_id = request.headers.get("Last-Event-ID", "")
    changes = await request.app[ORDERS].events(last_event_id)
    response = web.StreamResponse(headers=EVENT_HEADERS)
    response.content_type = "text/event-stream"
    return await send(changes, response, request)


@routes.get("/orders/{order_id}/video", allow_head=False)
async def video(request: web.Request) -> web.StreamResponse:
    """The video, or the part of it that the browser asks for."""
    orders, order_id = request.app[ORDERS], request.match_info["order_id"]
    byte_range = request.headers.get("Range")
    async with await orders.open_video(order_id, byte_range) as stream:
        response = web.StreamResponse(
            status=stream.status, headers=stream.headers
        )
        return await send(stream.chunks(), response, request)


async def send(
    chunks: AsyncIterator[bytes],
    response: web.StreamResponse,
    request: web.Request,
) -> web.StreamResponse:
    """Send a stream to its end, or until the browser disconnects."""
    with suppress(ConnectionResetError):
        await response.prepare(request)
        async for chunk in chunks:
            await response.write(chunk)
    return response


def make_app() -> web.Application:
    """The app, which opens its client when it starts."""
    app = web.Application(middlewares=[show_errors])
    app.add_routes(routes)
    app.cleanup_ctx.append(one_client)
    return app


if __name__ == "__main__":
    web.run_app(
        make_app(),
        host="127.0.0.1",
        port=int(os.environ.get("PORT", "8000")),
        handler_cancellation=True,  # a browser that disconnects ends streams
        shutdown_timeout=3,  # streams of events have no end of their own
    )

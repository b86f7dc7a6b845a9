"""A page that orders videos, under FastAPI.

uvicorn --timeout-graceful-shutdown 3 fastapi_app:app
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypedDict

from fastapi import Body, Depends, FastAPI, Header, Request
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from vidgen_async import VidgenError

from http_answers import EVENT_HEADERS, answer_to
from video_orders import Row, VideoOrders, open_orders

PAGE = Path(__file__).with_name("page.html")


class State(TypedDict):
    """What the app has for its lifetime."""

    orders: VideoOrders


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """One client for the lifetime of the app."""
    async with open_orders() as orders:
        yield {"orders": orders}


def orders_of(request: Request) -> VideoOrders:
    """The orders, which are opened when the app starts."""
    orders: VideoOrders = request.state.orders
    return orders


Orders = Annotated[VideoOrders, Depends(orders_of)]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(VidgenError)
async def show_error(_: Request, error: VidgenError) -> JSONResponse:
    """Answer with the status of the error."""
    status, body, headers = answer_to(error)
    return JSONResponse(body, status, headers)


@app.get("/")
async def page() -> FileResponse:
    """The page with the form and the orders."""
    return FileResponse(PAGE)


@app.put("/orders/{order_id}", status_code=201)
async def create(
    order_id: str, prompt: Annotated[str, Body(embed=True)], orders: Orders
) -> Row:
    """Order a video. The page makes the id, and may repeat the request."""
    return await orders.create(order_id, prompt)


@app.get("/events")
async def events(
    orders: Orders, last_event_id: Annotated[str, Header()] = ""
) -> StreamingResponse:
    """All changes, as server-sent events."""
    return StreamingResponse(
        await orders.events(last_event_id),
        media_type="text/event-stream",
        headers=EVENT_HEADERS,
    )


@app.get("/orders/{order_id}/video")
async def video(
    order_id: str,
    orders: Orders,
    byte_range: Annotated[str | None, Header(alias="range")] = None,
) -> StreamingResponse:
    """The video, or the part of it that the browser asks for. The response
    closes it, also when the browser has disconnected."""
    video = await orders.open_video(order_id, byte_range)
    return StreamingResponse(video, video.status, video.headers)

"""A web app in one file, which orders videos, shows their progress, and plays
them: uvicorn --timeout-graceful-shutdown 3 fastapi_app:app
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from vidgen_async import (
    Client,
    InvalidRequestError,
    NotFoundError,
    NotReadyError,
    OrderConflictError,
    ReceiptNotStoredError,
    UncertainCreateError,
    VideoTask,
    VidgenError,
)
from vidgen_async.errors import RejectedBadRequestError, StillSendingError

ANSWER_WITHIN = 20  # seconds; browsers and proxies give up sooner than a create
GRACE = 130  # seconds; more than a create can take
logger = logging.getLogger(__name__)
INTERVAL = float(os.environ.get("POLL_INTERVAL", "60"))


class Shop:
    """The client of the app, and the tasks as they were polled last."""

    def __init__(self) -> None:
        self.client = Client(
            journal="sqlite:///orders.db",
            poll_interval=INTERVAL,
            on_update=self.show,
        )
        self.tasks: dict[str, VideoTask] = {}
        self.accepted = asyncio.Queue[str]()
        self.changed = asyncio.Event()

    def show(self, task: VideoTask) -> None:
        self.tasks[task.id] = task
        self.notify()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_for_all(self) -> None:
        async for outcome in self.client.videos.as_completed(
            self.running(), timeout=None
        ):
            if outcome.error:
                logger.error("%s: %s", outcome.task_id, outcome.error)

    async def running(self) -> AsyncIterator[str]:
        """The tasks of earlier runs of the app, and those accepted now."""
        async for task in self.client.orders.running():
            yield task.task_id
        while True:
            yield await self.accepted.get()

    async def row(self, order_id: str) -> dict[str, Any]:
        """What the page shows of an order."""
        order = await self.client.orders.find(order_id)
        if order is None:
            return {}
        ended = order.results[-1] if order.is_terminal else None
        task = order.receipt and self.tasks.get(order.receipt.task_id)
        if order.receipt and not order.is_terminal and not task:
            self.accepted.put_nowait(order.receipt.task_id)  # adopted
        known = ended or task
        is_queued = order.state == "queued"  # for a slot, or the next request
        state = "waiting to be sent" if is_queued else order.state
        return {
            "order": order_id,
            "state": str(known.status) if known else state,
            "reason": known.failure_reason if known else None,
        }

    async def changes(self, order_ids: list[str]) -> AsyncIterator[str]:
        """The orders and their changes, as server-sent events."""
        shown: dict[str, dict[str, Any]] = {}
        while True:
            changed = self.changed
            for order_id in order_ids:
                row = await self.row(order_id)
                if row != shown.get(order_id, {}):
                    shown[order_id] = row
                    yield f"data: {json.dumps(row)}\n\n"
            try:
                async with asyncio.timeout(15):
                    await changed.wait()
            except TimeoutError:  # an operator may have decided
                yield ": still connected\n\n"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.shop = shop = Shop()
    async with shop.client:
        waiting = asyncio.create_task(shop.wait_for_all())
        yield
        waiting.cancel()  # which stops no task
        await asyncio.wait([waiting])
        await shop.client.aclose(grace=GRACE)  # creates under way end first


def shop_of(request: Request) -> Shop:
    shop: Shop = request.app.state.shop
    return shop


OneShop = Annotated[Shop, Depends(shop_of)]
app = FastAPI(lifespan=lifespan)


def answer(
    status: int, state: str, wait: float = 0, **facts: object
) -> JSONResponse:
    headers = {"Retry-After": f"{wait:.0f}"} if wait else {}
    return JSONResponse({"state": state, **facts}, status, headers)


@app.exception_handler(VidgenError)
async def show_error(request: Request, error: VidgenError) -> JSONResponse:
    if isinstance(error, (InvalidRequestError, RejectedBadRequestError)):
        return answer(422, "refused", reason=error.summary)
    if isinstance(error, (NotFoundError, NotReadyError)):
        return answer(404, "no video")
    # Your key, credits and journal are for the log, not for browsers.
    logger.error("%s: %s", request.url.path, error)
    if error.may_retry:  # the page repeats its request
        return answer(503, "later", getattr(error, "retry_after", 0) or 10)
    return answer(502, "failed")


@app.put("/orders/{order_id}")
async def create(
    order_id: str, prompt: Annotated[str, Body(embed=True)], shop: OneShop
) -> JSONResponse:
    try:
        await shop.client.videos.create(
            model="gen-2.0",
            prompt=prompt,
            duration=5,
            order_id=order_id,
            on_receipt=lambda one: shop.accepted.put_nowait(one.task_id),
            wait_for_sender=ANSWER_WITHIN,
        )
    except StillSendingError:  # it continues; the page repeats its request
        return answer(202, "sending", 10)
    except UncertainCreateError:  # an operator decides
        return answer(202, "uncertain")
    except ReceiptNotStoredError:  # accepted; it is stored later
        return answer(201, "accepted")
    except OrderConflictError:  # another prompt needs another order id
        return answer(409, "refused", reason="this order has another prompt")
    finally:
        shop.notify()
    return answer(201, "accepted")


@app.get("/events")
async def events(
    order: Annotated[list[str], Query()], shop: OneShop
) -> StreamingResponse:
    return StreamingResponse(
        shop.changes(order),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@app.get("/orders/{order_id}/video")
async def video(
    order_id: str,
    shop: OneShop,
    byte_range: Annotated[str | None, Header(alias="range")] = None,
) -> StreamingResponse:
    order = await shop.client.orders.find(order_id)
    if order is None or order.receipt is None:
        raise NotFoundError(f"there is no video of order {order_id!r}")
    video = await shop.client.videos.open_stream(
        order.receipt, range=byte_range
    )
    return StreamingResponse(video, video.status, video.headers)


@app.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


PAGE = """<!doctype html>
<meta name="viewport" content="width=device-width">
<title>Order a video</title>
<form>
<input name="prompt" required aria-label="Prompt" placeholder="A paper boat">
<button>Order</button>
</form>
<main></main>
<script type="module">
// The orders of this browser: {prompt, isAnswered} by the order id.
const orders = JSON.parse(localStorage.orders ?? "{}");
const store = () => (localStorage.orders = JSON.stringify(orders));
let stream;

// Repeated with the same id until there is an answer, also by the next tab.
async function send(id) {
  const { prompt } = orders[id];
  show({ order: id, state: "sending" });
  const request = { method: "PUT", body: JSON.stringify({ prompt }),
    headers: { "Content-Type": "application/json" } };
  const response = await fetch(`orders/${id}`, request).catch(() => null);
  if (!response || response.headers.has("Retry-After")) {
    const wait = response?.headers.get("Retry-After") ?? 5;
    return setTimeout(send, 1000 * wait, id);
  }
  orders[id].isAnswered = true;
  store();
  if (!response.ok) show({ order: id, ...(await response.json()) });
}

function show({ order, state, reason }) {
  let row = document.getElementById(order);
  if (!row) {
    row = document.createElement("p");
    row.id = order;
    document.querySelector("main").prepend(row);
  }
  const shown = [orders[order].prompt, state, reason];
  row.textContent = shown.filter(Boolean).join(" · ");
  if (state === "completed") {
    const video = document.createElement("video");
    Object.assign(video, { src: `orders/${order}/video`, controls: true });
    row.append(document.createElement("br"), video);
  }
}

function follow() {
  stream?.close();
  const ids = Object.keys(orders);
  if (!ids.length) return;
  stream = new EventSource("events?" + ids.map(id => `order=${id}`).join("&"));
  stream.onmessage = event => show(JSON.parse(event.data));
}

document.querySelector("form").onsubmit = event => {
  event.preventDefault();
  const id = crypto.randomUUID();
  orders[id] = { prompt: event.target.prompt.value };
  store(); // before the first request
  event.target.reset();
  send(id);
  follow();
};
for (const id in orders) if (!orders[id].isAnswered) send(id);
follow();
</script>
"""

"""Orders of videos by a FastAPI app with several processes, without a queue.

uvicorn --workers 4 --timeout-graceful-shutdown 30 fastapi_workers:app
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypedDict

from fastapi import Body, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from vidgen_async import (
    Client,
    InvalidRequestError,
    OrderConflictError,
    ReceiptNotStoredError,
    UncertainCreateError,
    VidgenError,
)
from vidgen_async.errors import BadRequestError, StillSendingError

from video_job import GRACE, make_client

#: Seconds after which a request is answered, although its order is being sent.
ANSWER_WITHIN = 20
logger = logging.getLogger(__name__)


class State(TypedDict):
    """What a process has for its lifetime."""

    client: Client


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """One client in each process."""
    client = make_client()
    try:
        yield {"client": client}
    finally:
        await client.aclose(grace=GRACE)


def client_of(request: Request) -> Client:
    """The client of this process."""
    client: Client = request.state.client
    return client


OneClient = Annotated[Client, Depends(client_of)]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(VidgenError)
async def show_error(_: Request, error: VidgenError) -> JSONResponse:
    """Your key, credits and database are for the log, not for callers."""
    logger.error("%s", error)
    return answer(503, "later") if error.may_retry else answer(502, "failed")


@app.put("/orders/{order_id}")
async def create(
    order_id: str, prompt: Annotated[str, Body(embed=True)], client: OneClient
) -> JSONResponse:
    """Order a video. The caller makes the order id, and repeats the request
    with it for as long as the answer has a Retry-After."""
    try:
        receipt = await client.videos.create(
            model="gen-2.0",
            prompt=prompt,
            duration=5,
            order_id=order_id,
            wait_for_sender=ANSWER_WITHIN,
        )
    except StillSendingError:  # it continues, here or in another process
        return answer(202, "sending")
    except UncertainCreateError:  # an operator decides
        return answer(202, "uncertain")
    except ReceiptNotStoredError as error:  # accepted; it is stored later
        return answer(201, "accepted", task=error.task_id)
    except (InvalidRequestError, BadRequestError, OrderConflictError) as error:
        return answer(409, "refused", message=error.summary)
    return answer(201, "accepted", task=receipt.task_id)


@app.get("/orders/{order_id}")
async def read(order_id: str, client: OneClient) -> JSONResponse:
    """The state of an order, or of its task once it is accepted."""
    order = await client.orders.find(order_id)
    if order is None:
        return answer(404, "unknown")
    if order.receipt is None:
        return answer(200, order.state)
    task = await client.videos.get(order.receipt)
    return answer(200, str(task.status), task=task.id)


def answer(status: int, state: str, **facts: str) -> JSONResponse:
    """A response. If the caller is to ask again, it tells when."""
    headers = {"Retry-After": "10"} if state in ("sending", "later") else {}
    return JSONResponse({"state": state, **facts}, status, headers)

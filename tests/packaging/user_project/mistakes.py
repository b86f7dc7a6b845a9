"""What users get wrong. It is never run: a strict type checker must report each line that is marked, and no other."""

from pathlib import Path

from vidgen_async import (
    AuthenticationError,
    Client,
    Order,
    Outcome,
    Receipt,
    Timeouts,
    UncertainCreateError,
    VideoFields,
    VideoRequest,
    VideoTask,
)
from vidgen_async.errors import LostCreateError  # wrong: no such name
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import Request, Response, Transport, on_cassette

__all__ = ["LostCreateError"]


class Unclosable(Transport):
    async def send(self, request: Request) -> Response:
        raise NotImplementedError


def clients() -> None:
    Client(42)  # wrong: a key is a str
    Client("key", base="https://h/openapi/v1")  # wrong: no such option
    Client("key", transport=Unclosable())  # wrong: a transport has aclose()
    Client("key", journal=MemoryJournal)  # wrong: the class, not a journal
    on_cassette("boat.json", "replya")  # wrong: no such mode
    Client("key", timeouts=30)  # wrong: seconds, not Timeouts
    Timeouts(conect=5)  # wrong: no such limit
    Client("key", terminal_states={"expired": "faild"})  # wrong: completed or failed


def requests() -> None:
    VideoRequest(model="vendorh3")  # wrong: no prompt
    VideoRequest(model="vendorh3", prompt="…", ratio="16x9")  # wrong: no such ratio
    VideoRequest(model="vendorh3", prompt="…", duration="8")  # wrong: seconds are an int
    VideoRequest(model="vendorh3", prompt="…", image_ids=[7])  # wrong: ids are str
    fields: VideoFields = {"prompt": "…"}  # wrong: no model
    assert fields


async def creates(client: Client, request: VideoRequest) -> None:
    await client.videos.create(model="vendorh3", prompt="…", ratio="16x9")  # wrong: no such ratio
    await client.videos.create(model="vendorh3", prompt="…", aspect_ratio="2:1")  # wrong: no such ratio
    await client.videos.generate(model="vendorh3", prompt="…", ratio="16x9", to="a.mp4")  # wrong: no such ratio
    await client.videos.create(model="vendorh3", promt="…")  # wrong: no such field
    await client.videos.check(model="vendorh3", prompt="…", ratio="16x9")  # wrong: no such ratio
    await client.videos.create(model="vendorh3", prompt="…", duration="8")  # wrong: seconds are an int
    await client.videos.create(model="vendorh3", prompt="…", images=["a.png"])  # wrong: an upstream's field
    await client.videos.create(model="vendorh3", prompt="…", image_ids=[7])  # wrong: ids are str
    await client.videos.create({"model": "vendorh3", "prompt": "…"})  # wrong: a dict is no VideoRequest
    await client.videos.create(request=request)  # wrong: it is given by position
    await client.videos.create(request, order_id=1187)  # wrong: an order id is a str
    request.prompt = "another"  # wrong: values are frozen
    client.videos.create(request)  # wrong: not awaited
    receipt = client.videos.create(request)
    print(receipt.task_id)  # wrong: not awaited  # noqa: T201 - a use of the value


async def waits(client: Client, receipts: list[Receipt], task: VideoTask) -> None:
    await client.videos.wait(42)  # wrong: no task
    await client.videos.wait(receipts)  # wrong: one at a time
    await client.videos.wait(task, timeout="1h")  # wrong: seconds
    await client.videos.watch(task)  # wrong: an iterator
    for _ in client.videos.watch(task):  # wrong: an asynchronous one
        pass
    async for outcome in client.videos.as_completed(receipts):
        await client.videos.download(outcome, "boat.mp4")  # wrong: an outcome is unwrapped first
    cost: int = task.points  # wrong: it may be None
    assert cost
    task.states  # wrong: no such attribute  # noqa: B018 - the mistake
    client.videos.wait(task)  # wrong: not awaited


def states(task: VideoTask, outcome: Outcome, order: Order, error: AuthenticationError) -> list[bool]:
    return [
        task.status == "complete",  # wrong: completed
        task.status != "Completed",  # wrong: completed
        outcome.state == "fail",  # wrong: failed
        order.attempts[0].kind == "retry",  # wrong: create, resend or adopt
        order.decisions[0].what == "abandon",  # wrong: abandoned
        order.results[0].status == "complete",  # wrong: completed
        error.source == "api key",  # wrong: service key, signed link or upstream
    ]


async def hears(task: str) -> None:
    assert task


async def files(client: Client, task: VideoTask, outcome: Outcome) -> None:
    await client.files.upload(42)  # wrong: no image
    await client.files.upload(Path("boat.png").open())  # wrong: a text file  # noqa: ASYNC230, SIM115 - the mistake
    await client.videos.download(task)  # wrong: where to?
    await client.videos.generate(model="m", prompt="p", on_update=hears)  # wrong: it hears of a VideoTask
    async with client.videos.stream(task) as video:
        text: str = await anext(video.chunks())  # wrong: bytes
        assert text
    receipt: Receipt = outcome.unwrap()  # wrong: a VideoTask
    assert receipt


async def orders(client: Client) -> None:
    await client.orders.resend("order-1187")  # wrong: which attempt, and why?
    await client.orders.abandon("order-1187")  # wrong: why?
    await client.orders.list([3])  # wrong: states are named
    await client.orders.list(["uncertan"])  # wrong: no such state
    await client.orders.list("uncertan")  # wrong: no such state
    try:
        await client.orders.adopt("order-1187", "task-1")
    except UncertainCreateError as error:
        error.oder_id  # wrong: no such attribute  # noqa: B018 - the mistake

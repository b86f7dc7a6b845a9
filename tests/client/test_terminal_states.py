"""States that section 3 does not name: what they count as is the caller's to say."""

import json
from collections.abc import Callable

import pytest

from vidgen_async import Client, ConfigurationError, TaskFailedError, WaitTimeoutError
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Request

Answer = Callable[[Request], object]
ENDS = {"expired": "failed", "succeeded": "completed"}


def client_of(state: object, **options: object) -> Client:
    async def answer(request: Request) -> BufferedResponse:
        if request.method == "POST":
            return BufferedResponse(202, b'{"id": "t"}')
        return BufferedResponse(200, json.dumps({"id": request.url.name, "status": state}).encode())

    clock = VirtualClock()
    return Client("k", base_url="http://localhost/openapi/v1", transport=FakeTransport(answer), clock=clock, **options)


async def test_a_state_that_counts_as_failed_ends_every_wait_as_failed_and_goes_on_record():
    journal = MemoryJournal()
    seen = []
    async with client_of("expired", terminal_states=ENDS, journal=journal, on_update=seen.append) as client:
        receipt = await client.videos.create(model="m", prompt="p", order_id="order-1", validate=False)
        with pytest.raises(TaskFailedError, match="the service's state was 'expired'"):
            await client.videos.wait(receipt)
        (outcome,) = [outcome async for outcome in client.videos.as_completed([receipt])]
        (change,) = [change async for change in client.videos.watch("t")]
        task = await client.videos.get("t")
        await client.orders.aclose()
        order = await client.orders.get("order-1")

    assert [(one.status, one.extra["status"]) for one in (task, change, outcome.task, seen[0])] == [
        ("failed", "expired")
    ] * 4
    assert isinstance(outcome.error, TaskFailedError)
    assert [(result.task_id, result.status) for result in order.results] == [("t", "failed")]


async def test_a_state_that_counts_as_completed_ends_the_wait():
    async with client_of("succeeded", terminal_states=ENDS) as client:
        task = await client.videos.wait("t")

    assert (task.status, task.is_terminal, task.extra["status"]) == ("completed", True, "succeeded")


@pytest.mark.parametrize("state", ["cancelled", None, 7, "running"])
async def test_every_other_state_is_polled_on(state):
    async with client_of(state, terminal_states=ENDS) as client:
        with pytest.raises(WaitTimeoutError):
            await client.videos.wait("t", timeout=600.0)


@pytest.mark.parametrize(
    "given",
    [
        {"expired": "ended"},
        {"expired": None},
        {"expired": ["failed"]},
        {"running": "failed"},
        {"failed": "completed"},
        {"": "failed"},
        {None: "failed"},
        ["expired"],
        "expired",
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(given):
    with pytest.raises(ConfigurationError, match="terminal_states"):
        client_of("running", terminal_states=given)

"""Long prompts and answers, and very many orders, do not hold the event loop."""

import asyncio
import json
import threading
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from tests.loop_holds import Passes, until
from vidgen_async import Client
from vidgen_async.errors import InvalidRequestError, RejectedError, ServiceError, UncertainCreateError
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import make_headers
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef
from vidgen_async.types.resources import VideoTask

BASE_URL = "https://video.test/openapi/v1"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
#: Some 50 ms of CPU time on a slow machine; it was 0.6 s to 10 s.
MOST_SECONDS = 0.3
#: The same of a prompt, which is prepared in a thread: some 20 ms; 80 ms or more on the event loop.
MOST_SECONDS_OF_PROMPT = 0.06
#: A megabyte each.
PROMPTS = {
    "numbered": "".join(f"frame {number}: a boat sails at dawn, " for number in range(27_000)),
    "Chinese": "黎明时分一艘小船启航" * 35_000,
    "escapes and backslashes": "\\\\n%41 token=abc Bearer x key=" * 34_000,
}


def client_of(status: int, body: object) -> Client:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = make_headers(
        {f"X-RateLimit-{number}": "a boat sails at dawn" for number in range(20)}
        | {f"X-RateLimit-{number}": "the next boat sails at dawn, and so does the other" for number in range(20, 40)}
        | {"Server": "boat " * 20}
    )

    async def answer(request):
        return BufferedResponse(status, data, headers=headers, url=request.url)

    return Client("key-0123456789", base_url=BASE_URL, transport=FakeTransport(answer), retry_reads_for=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["numbered", "Chinese", pytest.param("escapes and backslashes", marks=pytest.mark.needs_dev)]
)
@pytest.mark.parametrize(
    ("status", "shape", "error"),
    [
        (400, lambda prompt: {"error": {"code": "NO", "message": f"what is: {prompt}"}}, RejectedError),
        (200, lambda prompt: {"echo": prompt}, UncertainCreateError),
    ],
)
async def test_a_prompt_of_a_megabyte_never_holds_the_event_loop(kind, status, shape, error):
    prompt = PROMPTS[kind]
    passes = Passes()
    async with client_of(status, shape(prompt)) as client, passes.measured():
        with pytest.raises(error) as caught:
            await client.videos.create(model="m", prompt=prompt, order_id="order", validate=False)
    assert passes.longest < MOST_SECONDS_OF_PROMPT
    assert "boat" not in str(caught.value)
    assert "小船" not in str(caught.value)
    assert "boat" not in str(caught.value.attempts[-1].evidence.cause)


@pytest.mark.parametrize(("status", "error"), [(400, RejectedError), (503, UncertainCreateError)])
async def test_the_outcome_of_a_create_with_a_long_prompt_is_stored_although_no_thread_can_be_started(
    monkeypatch, status, error
):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    prompt = "a boat sails at dawn, " * 2000
    async with client_of(status, {"error": {"message": prompt}}) as client:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(error) as caught:
            await client.videos.create(model="m", prompt=prompt, order_id="order", validate=False)
        assert caught.value.attempts[-1].evidence is not None
    assert "boat" not in str(caught.value)


@pytest.mark.slow
async def test_a_long_answer_never_holds_the_event_loop():
    details = [{"loc": ["body", number], "msg": "token=abc and 'prompt: x' " * 20} for number in range(6000)]
    passes = Passes()
    async with client_of(422, {"detail": details}) as client, passes.measured():
        with pytest.raises(ServiceError, match="token=…"):
            await client.account.get()
    assert passes.longest < MOST_SECONDS


async def journal_of(count: int) -> MemoryJournal:
    """Orders whose tasks were not seen to end."""
    journal = MemoryJournal()
    for number in range(count):
        ref = OrderRef(service="https://video.test", account="default", order_id=f"order-{number}")
        attempt = Attempt(n=1, sent_at=NOW, deadline_at=NOW)
        await journal.intend(
            Order(ref=ref, idempotency_key=f"key-{number}", body=b"{}", created_at=NOW, attempts=(attempt,))
        )
        evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=NOW, status=202, task_id=f"t-{number}", answered=True)
        await journal.settle(ref, 1, evidence)
    return journal


@pytest.mark.needs_dev
async def test_very_many_orders_are_listed_and_watched_in_turns():
    count = 3000
    journal = await journal_of(count)
    listing, watching, leaving = Passes(), Passes(), Passes()

    async def answer(request):
        return BufferedResponse(200, json.dumps({"id": request.url.name, "status": "running"}).encode())

    transport = FakeTransport(answer)
    async with Client("key-0123456789", base_url=BASE_URL, transport=transport, journal=journal) as client:
        async with listing.measured():
            orders = await client.orders.list()
        async with watching.measured(), aclosing(client.videos.rewatch()) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            await until(lambda: client.watcher.stats.tasks >= count)
            waiter.cancel()
            async with leaving.measured():
                await asyncio.wait({waiter})
        held = client.orders.results._held
        receipts = [order.receipt for order in orders]
        async with aclosing(client.videos.as_completed(receipts)) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            await until(lambda: client.watcher.stats.tasks >= count)
            waiter.cancel()
            await asyncio.wait({waiter})

    assert len(orders) == count
    assert listing.count >= count / 500
    assert watching.count >= count / 250
    # Of the watcher's tasks, and of the results that were held.
    assert leaving.count >= count / 250 + count / 500
    assert not held


async def test_the_outcome_of_an_id_that_is_none_is_its_error_and_the_other_tasks_are_polled():
    invalid = ["..", ".", " ", "", "\ud800", "x" * 501]
    async with client_of(200, {"id": "t-1", "status": "completed"}) as client:
        for poll in (client.videos.as_completed, client.watcher.as_completed):
            outcomes = {each.task_id: each async for each in poll([*invalid, "t-1", ".."], timeout=50)}
            assert outcomes.pop("t-1").unwrap().status == "completed"
            assert {task_id: type(each.error) for task_id, each in outcomes.items()} == dict.fromkeys(
                invalid, InvalidRequestError
            )
        assert client.watcher.stats.tasks == 0


async def test_one_task_is_one_and_not_its_letters():
    async with client_of(200, {"id": "t-1", "status": "completed"}) as client:
        for task in ("t-1", VideoTask(id="t-1", status="queued")):
            assert [each.task_id async for each in client.videos.as_completed(task)] == ["t-1"]

"""What the page of the web apps shows of an order in the journal, and what becomes of one when the app stops."""

import asyncio
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest

from tests.examples.conftest import EXAMPLES
from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport, Request
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = (AttemptOutcome.REJECTED, 400, "too blue")
UNPAID = (AttemptOutcome.REJECTED, 402, "no credits")
NOT_SENT = (AttemptOutcome.NOT_SENT, None, "the client was closed")
UNCERTAIN = (AttemptOutcome.UNCERTAIN, None, "the connection was closed")
IN_LOG = "The log of the shop has the reason."


def make_order(*attempts: tuple[AttemptOutcome, int | None, str]) -> Order:
    return Order(
        ref=OrderRef(service="https://service.test", account="shop", order_id="order-1"),
        idempotency_key="key",
        body=b'{"prompt": "A paper boat"}',
        created_at=NOW,
        attempts=tuple(
            Attempt(
                n=n,
                sent_at=NOW,
                deadline_at=NOW,
                evidence=Evidence(outcome=outcome, at=NOW, status=status, cause=cause),
            )
            for n, (outcome, status, cause) in enumerate(attempts, 1)
        ),
    )


@pytest.mark.parametrize(
    ("attempts", "state", "reason"),
    [
        ([], "not sent", None),
        ([NOT_SENT], "not sent", None),
        ([REFUSED], "rejected", "too blue"),
        ([UNPAID], "rejected", IN_LOG),
        ([REFUSED, NOT_SENT], "rejected", "too blue"),
        ([REFUSED, UNPAID], "rejected", IN_LOG),
        ([UNCERTAIN, REFUSED], "uncertain", None),
    ],
)
def test_the_reason_of_an_order_is_that_of_its_state_whatever_was_attempted_later(attempts, state, reason, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    row = import_module("video_orders").row_of(make_order(*attempts))

    assert (row["state"], row["reason"]) == (state, reason)


async def test_a_create_that_is_being_sent_when_the_app_stops_is_stored_as_accepted(monkeypatch):
    clock, journal, is_sent = VirtualClock(), MemoryJournal(), asyncio.Event()

    async def accept(request: Request) -> BufferedResponse:
        if request.op != "videos.create":
            return BufferedResponse(404, b"{}")
        is_sent.set()
        await clock.sleep(119)
        return BufferedResponse(202, b'{"id": "task-1"}')

    def make_client(**options: Any) -> Client:
        options |= {"transport": FakeTransport(accept), "clock": clock, "journal": journal}
        return Client("key", base_url="https://service.test/openapi/v1", **options)

    monkeypatch.syspath_prepend(EXAMPLES)
    example = import_module("video_orders")
    monkeypatch.setattr(example, "Client", make_client)
    async with example.open_orders() as orders:
        creating = asyncio.create_task(orders.create("order-1", "a boat"))
        await is_sent.wait()
    await asyncio.wait([creating])

    assert (await make_client().orders.get("order-1")).state == "accepted"

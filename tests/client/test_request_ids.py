"""The service's own id of a request, where an answer has one: support asks for it."""

import json
import logging

import pytest

from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Request, make_headers
from vidgen_async.types.resources import VideoTask


@pytest.mark.parametrize("header", ["X-Request-Id", "request-id", "x-amzn-requestid", "CF-Ray"])
async def test_receipts_tasks_and_logs_name_it(header: str, caplog: pytest.LogCaptureFixture) -> None:
    sent: list[str] = []

    async def answer(request: Request) -> BufferedResponse:
        sent.append(f"req-{len(sent)}")
        headers = make_headers({header: sent[-1]})
        if request.method == "POST":
            return BufferedResponse(202, b'{"id": "t"}', headers=headers)
        if len(sent) == 2:
            return BufferedResponse(500, b"{}", headers=headers)
        body = {"id": request.url.name, "status": "completed", "request_id": "of the body"}
        return BufferedResponse(200, json.dumps(body).encode(), headers=headers)

    journal = MemoryJournal()
    url = "http://localhost/openapi/v1"
    async with Client(
        "k", base_url=url, transport=FakeTransport(answer), clock=VirtualClock(), journal=journal
    ) as made:
        with caplog.at_level(logging.INFO, "vidgen_async"):
            receipt = await made.videos.create(model="m", prompt="p", order_id="order-1", validate=False)
            waited = await made.videos.wait(receipt)
        got = await made.videos.get("t")
        again = await made.videos.create(model="m", prompt="p", order_id="order-1", validate=False)

    assert receipt.request_id == again.request_id == "req-0"
    assert (waited.request_id, got.request_id) == ("req-2", "req-3")
    assert waited == got  # the request id is not a property of the task
    assert waited.extra == {"request_id": "of the body"}
    named = {record.event_name: record.request_id for record in caplog.records if hasattr(record, "request_id")}
    assert named == {"order.accepted": "req-0", "poll.failed": "req-1"}
    assert all(name in caplog.text for name in ("req-0", "req-1"))


async def test_without_one_nothing_changes() -> None:
    async def answer(request: Request) -> BufferedResponse:
        return BufferedResponse(200, b'{"id": "t", "status": "completed", "request_id": "of the body"}')

    url = "http://localhost/openapi/v1"
    async with Client("k", base_url=url, transport=FakeTransport(answer), clock=VirtualClock()) as made:
        task = await made.videos.get("t")

    assert task == VideoTask(id="t", status="completed", extra={"request_id": "of the body"})
    assert task.request_id is None

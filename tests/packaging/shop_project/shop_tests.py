"""The tests of the shop: test_shop_project.py runs them in an environment of their own."""

import io
import json

import aiohttp
import httpx
import pytest
import wrapt
from django.conf import settings
from django.http import JsonResponse
from kombu.serialization import dumps
from pydantic import TypeAdapter, ValidationError
from shop import fastapi_app, flask_app, log_to

from vidgen_async import Client, NotSentError, VideoTask
from vidgen_async.types import Serializable

VIDEO = {"model": "gen-2.0", "prompt": "A paper boat", "duration": 5}
task = VideoTask(id="task-1", status="completed", points=20, extra={"api_key": "k-9bb34ae375b1"})
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_fastapi_returns_values_and_streams_videos(vidgen_client, vidgen_sandbox):
    app = fastapi_app(vidgen_client)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as browser:
        receipt = (await browser.put("/orders/order-1")).json()
        task_id = receipt["task_id"]
        vidgen_sandbox.clock.advance(60)
        found = [(await browser.get(f"/{path}/{task_id}")).json() for path in ("tasks", "unannotated", "pages")]
        video = await browser.get(f"/videos/{task_id}")
        schemas = [
            (await browser.get("/openapi.json")).json()["paths"][path][method]["responses"]["200"]["content"]
            for path, method in (("/orders/{order_id}", "put"), ("/tasks/{task_id}", "get"))
        ]

    documents = [*found[:2], *found[2]["tasks"]]
    assert [document["status"] for document in documents] == ["completed"] * 3
    assert "idempotency_key" not in receipt
    receipt_schema, task_schema = (schema["application/json"]["schema"] for schema in schemas)
    assert (receipt_schema["required"], task_schema["required"]) == (list(receipt), list(documents[0]))
    assert (video.status_code, video.headers["Content-Type"], video.content[4:8]) == (200, "video/mp4", b"ftyp")


def test_pydantic_accepts_instances_only():
    adapter = TypeAdapter(VideoTask)
    assert adapter.validate_python(task) is task
    assert json.loads(adapter.dump_json(task)) == adapter.dump_python(task) == task.to_dict()
    with pytest.raises(ValidationError, match="should be an instance of VideoTask; JSON is not accepted"):
        adapter.validate_json(task.to_json())


def test_other_encoders_return_values():
    assert flask_app(task).test_client().get("/").json == {"task": task.to_dict()}
    settings.configure()
    answer = JsonResponse(task, safe=False, json_dumps_params={"default": Serializable.to_dict})
    assert json.loads(answer.content) == task.to_dict()
    *_, result = dumps({"result": task}, "json")  # as a result of Celery
    assert json.loads(result) == {"result": task.to_dict()}


async def test_structlog_shows_what_records_have_besides_their_messages(vidgen_client):
    stream = io.StringIO()
    handler = log_to(stream)
    receipt = await vidgen_client.videos.create(order_id="order-1", **VIDEO)
    handler.flush()

    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    (record,) = [record for record in records if record.get("event_name") == "order.accepted"]
    assert (record["order_id"], record["task_id"], record["attempt"]) == ("order-1", receipt.task_id, 1)


async def test_an_agent_sees_all_requests_and_creates_keep_their_proof(vidgen_sandbox, monkeypatch):
    requests = []

    def trace(wrapped, session, arguments, options):
        requests.append(arguments[0])
        return wrapped(*arguments, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", aiohttp.ClientSession._request)  # restores it
    wrapt.wrap_function_wrapper(aiohttp.ClientSession, "_request", trace)
    async with Client(vidgen_sandbox.api_key, base_url=vidgen_sandbox.base_url) as client:
        receipt = await client.videos.create(order_id="order-1", **VIDEO)
        found = await client.videos.get(receipt)
        async with vidgen_sandbox.refusing():
            with pytest.raises(NotSentError):
                await client.videos.create(order_id="order-2", **VIDEO)

    assert (found.id, requests[:3]) == (receipt.task_id, ["GET", "POST", "GET"])
    assert len(vidgen_sandbox.creates) == 1

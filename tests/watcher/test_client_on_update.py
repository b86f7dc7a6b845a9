"""``Client(on_update=…)``: called with every change of every watched task."""

import asyncio
import json

import pytest

from vidgen_async import Client
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport

from .conftest import settle, workers


@pytest.fixture
async def make_client(service, clock):
    made = []

    async def answer(request):
        task = await service.poll(request.url.name)
        return BufferedResponse(200, json.dumps({"id": task.id, "status": task.status}).encode())

    def make(**options):
        transport = FakeTransport(answer)
        made.append(
            Client("a-key", base_url="http://localhost/openapi/v1", transport=transport, clock=clock, **options)
        )
        return made[-1]

    yield make
    for client in made:
        await client.aclose()
    await settle()
    assert workers() == []


async def collect(tasks):
    async for _ in tasks:
        pass


async def test_on_update_is_called_once_for_each_change_of_a_task_whatever_calls_wait_for_it(make_client, service):
    updates = []
    client = make_client(on_update=lambda task: updates.append((task.id, task.status)))
    service.script("a", "queued", "queued", "running", "completed")
    service.script("b", "queued", "failed")
    service.script("c", "running", "completed")

    await asyncio.gather(
        *(client.videos.wait("a") for _ in range(5)),
        collect(client.videos.watch("b")),
        collect(client.videos.as_completed(["a", "c"])),
    )

    assert [status for task_id, status in updates if task_id == "a"] == ["queued", "running", "completed"]
    assert [status for task_id, status in updates if task_id == "b"] == ["queued", "failed"]
    assert [status for task_id, status in updates if task_id == "c"] == ["running", "completed"]


@pytest.mark.parametrize(("arguments", "grace"), [({}, 5.0), ({"grace": 30.0}, 30.0)])
async def test_closing_the_client_waits_for_on_update_no_longer_than_its_grace(
    arguments,
    grace,
    make_client,
    service,
    clock,
    caplog,
):
    async def stuck(task):
        await clock.sleep(1000.0)

    client = make_client(on_update=stuck)
    service.script("a", "completed")
    await client.videos.wait("a")
    began = clock.now()
    await client.aclose(**arguments)

    assert clock.now() == began + grace
    (record,) = [record for record in caplog.records if record.event_name == "hook.cancelled"]
    assert (record.levelname, record.hook, record.count, record.seconds) == ("WARNING", "on_update", 1, grace)

"""``Client(on_update=…)``: called with every change of every watched task."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Request
from vidgen_async.types.resources import VideoTask

from .conftest import FakeService, settle, workers

MakeClient = Callable[..., Client]
Updates = list[tuple[str, str | None]]


@pytest.fixture
async def make_client(service: FakeService, clock: VirtualClock) -> AsyncIterator[MakeClient]:
    made: list[Client] = []

    async def answer(request: Request) -> BufferedResponse:
        task = await service.poll(request.url.name)
        return BufferedResponse(200, json.dumps({"id": task.id, "status": task.status}).encode())

    def make(**options: Any) -> Client:
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


async def collect(tasks: AsyncIterator[Any]) -> None:
    async for _ in tasks:
        pass


async def test_on_update_is_called_with_every_change_of_every_task_whatever_call_waits_for_it(
    make_client: MakeClient, service: FakeService
) -> None:
    updates: Updates = []
    client = make_client(on_update=lambda task: updates.append((task.id, task.status)))
    service.script("a", "queued", "running", "completed")
    service.script("b", "queued", "failed")
    service.script("c", "running", "completed")

    await asyncio.gather(
        client.videos.wait("a"), collect(client.videos.watch("b")), collect(client.videos.as_completed(["c"]))
    )

    assert [status for task_id, status in updates if task_id == "a"] == ["queued", "running", "completed"]
    assert [status for task_id, status in updates if task_id == "b"] == ["queued", "failed"]
    assert [status for task_id, status in updates if task_id == "c"] == ["running", "completed"]


async def test_on_update_is_called_once_for_a_change_with_several_waiters(
    make_client: MakeClient, service: FakeService
) -> None:
    updates: Updates = []
    client = make_client(on_update=lambda task: updates.append((task.id, task.status)))
    service.script("a", "running", "completed")

    await asyncio.gather(*(client.videos.wait("a") for _ in range(5)), collect(client.videos.watch("a")))

    assert updates == [("a", "running"), ("a", "completed")]


async def test_on_update_is_not_called_for_an_unchanged_task(make_client: MakeClient, service: FakeService) -> None:
    updates: Updates = []
    client = make_client(on_update=lambda task: updates.append((task.id, task.status)))
    service.script("a", "queued", "queued", "running", "running", "running", "completed")

    await client.videos.wait("a")

    assert len(service.times("a")) == 6
    assert updates == [("a", "queued"), ("a", "running"), ("a", "completed")]


async def test_an_async_on_update_gets_the_changes_of_a_task_one_after_the_other(
    make_client: MakeClient, service: FakeService, clock: VirtualClock
) -> None:
    begun: Updates = []
    ended: Updates = []

    async def slow(task: VideoTask) -> None:
        begun.append((task.id, task.status))
        await clock.sleep(100.0 if task.status == "queued" else 1.0)
        ended.append((task.id, task.status))

    client = make_client(on_update=slow)
    service.script("a", "queued", "running", "completed")
    await client.videos.wait("a")
    assert begun[:2] == [("a", "queued"), ("a", "running")]  # at 60 s, when that of "queued" was not over
    await clock.sleep(60.0)

    assert begun == ended == [("a", "queued"), ("a", "running"), ("a", "completed")]


async def test_a_slow_on_update_delays_no_poll(
    make_client: MakeClient, service: FakeService, clock: VirtualClock
) -> None:
    async def slow(task: VideoTask) -> None:
        await clock.sleep(1000.0)

    client = make_client(on_update=slow, max_connections=1)
    for name in "abc":
        service.script(name, "queued", "running", "running", "completed")

    await collect(client.videos.as_completed(list("abc")))

    assert [service.times(name) for name in "abc"] == [[0.0, 60.0, 120.0, 180.0]] * 3
    assert client.watcher.stats.lateness_max == 0.0


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_an_exception_of_on_update_is_logged_with_the_task_and_polling_continues(
    is_async: bool, make_client: MakeClient, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(task: VideoTask) -> None:
        raise ValueError(task.status)

    async def broken_later(task: VideoTask) -> None:
        broken(task)

    client = make_client(on_update=broken_later if is_async else broken)
    service.script("a", "running", "completed")

    with caplog.at_level(logging.ERROR, "vidgen_async"):
        task = await client.videos.wait("a")
        await settle()

    assert task.status == "completed"
    logged = [(record.event_name, record.hook, record.task_id, type(record.exc_info[1])) for record in caplog.records]
    assert logged == [("hook.failed", "on_update", "a", ValueError)] * 2


async def test_closing_the_client_waits_for_on_update(
    make_client: MakeClient, service: FakeService, clock: VirtualClock
) -> None:
    written: Updates = []

    async def write(task: VideoTask) -> None:
        await clock.sleep(2.0)
        written.append((task.id, task.status))

    client = make_client(on_update=write)
    service.script("a", "completed")
    await client.videos.wait("a")
    await client.aclose()

    assert written == [("a", "completed")]


@pytest.mark.parametrize(("arguments", "grace"), [({}, 5.0), ({"grace": 30.0}, 30.0)])
async def test_closing_the_client_waits_for_on_update_no_longer_than_its_grace(
    arguments: dict[str, float],
    grace: float,
    make_client: MakeClient,
    service: FakeService,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stuck(task: VideoTask) -> None:
        await clock.sleep(1000.0)

    client = make_client(on_update=stuck)
    service.script("a", "completed")
    await client.videos.wait("a")
    began = clock.now()
    await client.aclose(**arguments)

    assert clock.now() == began + grace
    (record,) = [record for record in caplog.records if record.event_name == "hook.cancelled"]
    assert (record.levelname, record.hook, record.count, record.seconds) == ("WARNING", "on_update", 1, grace)

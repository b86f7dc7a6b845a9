"""Orders by a FastAPI app with several processes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.engines.processes import Worker, Workers, until
from tests.free_ports import find_port
from tests.full_journal import FullJournal
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


class Browser:
    """Sends requests to the app."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.waits: list[str | None] = []
        """The Retry-After of each answer."""

    async def order(self, order_id: str) -> tuple[int, dict[str, Any]]:
        """Order a video; the status of the answer, and its JSON."""
        url = f"{self._url}/orders/{order_id}"
        async with self._session.put(url, json={"prompt": "a boat"}) as response:
            return await self._read(response)

    async def read(self, order_id: str) -> tuple[int, dict[str, Any]]:
        """Read an order; the status of the answer, and its JSON."""
        async with self._session.get(f"{self._url}/orders/{order_id}") as response:
            return await self._read(response)

    async def _read(self, response: aiohttp.ClientResponse) -> tuple[int, dict[str, Any]]:
        self.waits.append(response.headers.get("Retry-After"))
        return response.status, await response.json()


@pytest.fixture
def port() -> int:
    return find_port()


@pytest.fixture
async def browser(port: int) -> AsyncIterator[Browser]:
    # Each request has a connection of its own, so that any process may answer it.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield Browser(session, f"http://127.0.0.1:{port}")


@pytest.fixture
def start(workers: Workers, port: int, browser: Browser) -> Callable[[], Any]:
    """Start the app with two processes, and wait until it accepts requests."""

    async def is_listening() -> bool:
        try:
            return bool(await browser.read("of-nobody"))
        except aiohttp.ClientConnectorError:
            return False

    async def start_app(**settings: str) -> Worker:
        options = ("--port", str(port), "--workers", "2", "--timeout-graceful-shutdown", "30")
        app = await workers.start("-m", "uvicorn", *options, "fastapi_workers:app", **settings)
        await until(is_listening)
        return app

    return start_app


def processes_of(app: Worker) -> list[int]:
    """The pids of the processes that answer requests."""
    children = Path(f"/proc/{app.pid}/task/{app.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_processes_killed_in_the_middle_of_a_create_leave_one_post_that_is_in_doubt(
    start, browser: Browser, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall())
    app = await start()
    lost = asyncio.ensure_future(browser.order("order-1"))
    await service.until_create()
    for pid in processes_of(app):
        os.kill(pid, signal.SIGKILL)  # uvicorn starts others
    await asyncio.wait([lost])  # aiohttp may repeat a PUT whose connection was lost

    statuses = {"uncertain": 202, "sending": 202}

    async def is_uncertain() -> bool:
        status, body = await browser.order("order-1")
        assert status == statuses[body["state"]]
        return body["state"] == "uncertain"

    await until(is_uncertain)
    assert await browser.read("order-1") == (200, {"state": "uncertain"})
    assert [order.order_id for order in await operator.orders.list(["uncertain"])] == ["order-1"]
    assert len(service.creates) == 1
    status, _ = await browser.order("order-2")
    assert (status, len(service.creates)) == (201, 2)


async def test_processes_killed_after_the_receipt_are_replaced_by_others_that_return_the_same(
    start, browser: Browser, service: Service
):
    app = await start()
    first = await browser.order("order-1")
    for pid in processes_of(app):
        os.kill(pid, signal.SIGKILL)
    task_id = service.creates[0].task_id

    assert first == (201, {"state": "accepted", "task": task_id})
    assert await browser.order("order-1") == first
    service.sandbox.clock.advance(4)
    assert await browser.read("order-1") == (200, {"state": "completed", "task": task_id})
    assert len(service.creates) == 1


async def test_an_app_that_is_stopped_during_a_create_answers_its_caller(
    start, browser: Browser, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    app = await start()
    order = asyncio.ensure_future(browser.order("order-1"))
    await service.until_create()
    app.send(signal.SIGTERM)
    await app.until_logged("Shutting down")
    service.sandbox.clock.advance(1)

    status, body = await order

    assert (status, body["task"]) == (201, service.creates[0].task_id)
    assert await app.wait() == 0
    assert (await operator.orders.get("order-1")).state == "accepted"


async def test_the_answer_tells_whether_to_repeat_the_request(start, browser: Browser, service: Service):
    faults = service.sandbox.faults
    app = await start()
    faults.add("videos.create", Fault.status(429, headers={"Retry-After": "1"}))
    answers = [await browser.order("order-1") for _ in range(2)]
    for status in (400, 402):
        faults.add("videos.create", Fault.status(status))
        answers.append(await browser.order(f"order-{status}"))
    faults.add("videos.get", Fault.status(401))
    answers.append(await browser.read("order-1"))
    faults.add("videos.create", Fault.close_after_body())
    answers.append(await browser.order("uncertain"))

    assert [(status, body["state"]) for status, body in answers] == [
        (503, "later"),
        (201, "accepted"),
        (409, "refused"),
        (502, "failed"),
        (502, "failed"),
        (202, "uncertain"),
    ]
    assert await browser.read("order-3") == (404, {"state": "unknown"})
    # What concerns the account is logged only.
    assert "credits" not in str(answers)
    assert "order 'order-402' was rejected" in app.log.read_text()
    assert browser.waits[-7:] == ["10", None, None, None, None, None, None]


async def test_the_answer_names_a_task_that_could_not_be_stored(load: Callable[[str], Any], service: Service):
    journal = FullJournal()
    client = Client(service.sandbox.api_key, base_url=service.sandbox.base_url, journal=journal)
    answering = asyncio.ensure_future(load("fastapi_workers").create("order-1", "a boat", client))
    await journal.is_settling.wait()
    await client.aclose(grace=0)
    answer = await answering

    body = {"state": "accepted", "task": service.creates[0].task_id}
    assert (answer.status_code, json.loads(answer.body)) == (201, body)

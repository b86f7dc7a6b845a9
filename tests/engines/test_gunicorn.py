"""The WSGI application of docs/how-to/without-an-event-loop.md, with its journal in PostgreSQL, under gunicorn."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from yarl import URL

from tests.docs.documentation import find_program
from tests.engines.outcomes import answer_stopped_worker
from tests.engines.processes import Worker, Workers
from tests.free_ports import find_port
from tests.stopped_sandbox import Service
from vidgen_async import Client
from vidgen_async.sandbox import Fault

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]


@pytest.fixture
def url() -> URL:
    return URL(f"http://127.0.0.1:{find_port()}")


@pytest.fixture(params=["", "--preload"], ids=["forked first", "loaded first"])
def start(request, workers: Workers, database: str, url: URL) -> Callable[[str], Awaitable[Worker]]:
    """Start two processes of four threads, with this deadline of a call in seconds."""

    async def start_server(timeout: str) -> Worker:
        program = find_program("def app(").text.replace('"sqlite:///orders.db"', repr(database))
        (workers.directory / "application.py").write_text(program.replace("timeout=10", f"timeout={timeout}"))
        options = ["--workers=2", "--threads=4", f"--bind={url.authority}", *filter(None, [request.param])]
        server = await workers.start("-m", "gunicorn", *options, "application:app")
        await server.until_logged("Listening at")
        return server

    return start_server


async def order(url: URL, order_id: str) -> tuple[int, str]:
    """Order a video by a connection of its own; the status of the answer, and its text."""
    async with aiohttp.request("PUT", url / "orders" / order_id) as response:
        return response.status, await response.text()


async def test_all_threads_of_all_processes_send_an_order_once(start, url: URL, service: Service):
    server = await start("30")
    answers = {*await asyncio.gather(*(order(url, "order-1") for _ in range(24)))}

    (create,) = service.creates
    assert answers == {(201, create.task_id)}
    server.send(signal.SIGTERM)
    assert await server.wait() == 0


async def test_a_create_that_its_view_did_not_wait_for_is_stored_before_its_process_ends(
    start, url: URL, service: Service, operator: Client
):
    service.sandbox.faults.add("videos.create", Fault.stall(1))
    server = await start("2")
    assert await order(url, "order-1") == (503, "later")
    await service.until_create()
    server.send(signal.SIGTERM)
    await server.until_logged("Worker exiting")
    await answer_stopped_worker(service, operator, server)
    assert len(service.creates) == 1

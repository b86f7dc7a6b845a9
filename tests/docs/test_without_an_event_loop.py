"""The programs of docs/how-to/without-an-event-loop.md, in threads; tests/engines has its views under gunicorn."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from tests.docs.documentation import run_program
from vidgen_async.sandbox import Fault, Sandbox


@pytest.fixture(autouse=True)
def environment(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)


@pytest.fixture
async def application() -> AsyncIterator[Any]:
    """The names of the application."""
    application = SimpleNamespace(**run_program("def app("))
    yield application
    await asyncio.to_thread(application.video_service.close)


def request(app: Any, path: str, method: str = "PUT") -> tuple[str, bytes]:
    """The status and the body of a response, which is valid for WSGI."""
    statuses: list[str] = []
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": ""}
    setup_testing_defaults(environ)

    def start_response(status: str, headers: list[tuple[str, str]]) -> Any:
        statuses.append(" ".join([status, *(value for name, value in headers if name in ("Allow", "Retry-After"))]))
        return lambda _: None

    body = validator(app)(environ, start_response)
    try:
        return statuses[0], b"".join(body)
    finally:
        body.close()


async def test_the_first_program_reads_the_balance(service: Sandbox) -> None:
    program = run_program("def read_balance(")
    assert await asyncio.to_thread(program["read_balance"]) == service.balance
    await asyncio.to_thread(program["video_service"].close)


async def test_threads_of_a_wsgi_application_share_one_client(application: Any, service: Sandbox) -> None:
    calls = [asyncio.to_thread(request, application.app, "/orders/order-1") for _ in range(8)]
    answers = set(await asyncio.gather(*calls))

    (task_id,) = (body.decode() for _, body in answers)
    assert answers == {("201 Created", task_id.encode())}
    assert len(service.creates) == 1
    service.faults.add("videos.create", Fault.status(402))
    refused = await asyncio.to_thread(request, application.app, "/orders/order-2")
    assert refused[0] == "409 Conflict"
    task = await asyncio.to_thread(request, application.app, f"/videos/{task_id}", "GET")
    assert task == ("200 OK", b"completed")


async def test_a_wsgi_application_orders_by_put_only_and_answers_each_outcome(
    application: Any, service: Sandbox
) -> None:
    async def send(method: str, path: str) -> tuple[str, bytes]:
        return await asyncio.to_thread(request, application.app, path, method)

    for method in ("GET", "HEAD", "POST"):
        assert (await send(method, "/orders/order-1"))[0] == "405 Method Not Allowed PUT"
    for path in ("/favicon.ico", "/", "/another/app/1"):
        assert await send("GET", path) == ("404 Not Found", b"unknown")
    assert await send("GET", "/videos/unknown") == ("404 Not Found", b"unknown")
    assert await send("PUT", "/orders/") == ("409 Conflict", b"refused")
    assert service.creates == []

    service.faults.add("videos.create", Fault.close_after_body())
    service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "0"}))
    service.faults.add("videos.create", Fault.status(404))
    assert await send("PUT", "/orders/order-1") == ("202 Accepted", b"uncertain")
    assert await send("PUT", "/orders/order-2") == ("503 Service Unavailable 10", b"later")
    assert await send("PUT", "/orders/order-3") == ("409 Conflict", b"refused")


async def test_a_thread_passes_a_video_on(application: Any, service: Sandbox) -> None:
    def read() -> bytes:
        call = application.video_service.call
        receipt = call(lambda client: client.videos.create(model="gen-2.0", prompt="a boat", duration=5))
        video = call(lambda client: client.videos.open_stream(receipt, range="bytes=0-99"))
        chunks = video.chunks(64)
        try:
            return b"".join(iter(lambda: call(lambda client: anext(chunks, b"")), b""))
        finally:
            call(lambda client: video.aclose())

    assert (await asyncio.to_thread(read))[4:8] == b"ftyp"

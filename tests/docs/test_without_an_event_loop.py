"""The programs of docs/how-to/without-an-event-loop.md, in threads, after a fork, and at exit."""

import asyncio
import atexit
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from tests.docs.documentation import ROOT, find_program
from vidgen_async import Client
from vidgen_async.sandbox import Fault, Sandbox


@pytest.fixture
def programs(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the modules of the page, for the sandbox in the environment."""
    (tmp_path / "blocking.py").write_text(find_program("class ClientThread").text)
    (tmp_path / "application.py").write_text(find_program("def app(").text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    return tmp_path


@pytest.fixture
def application(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application, in this process."""
    monkeypatch.syspath_prepend(programs)
    for name in ("blocking", "application"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import application  # noqa: PLC0415 - it is in the directory of the test

    yield application
    atexit.unregister(application.video_service.close)


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

    await asyncio.to_thread(application.video_service.close)
    await asyncio.to_thread(application.video_service.close)
    again = await asyncio.to_thread(request, application.app, "/orders/order-1")
    assert again == ("201 Created", task_id.encode())
    await asyncio.to_thread(application.video_service.close)


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
    await asyncio.to_thread(application.video_service.close)


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
            application.video_service.close()

    assert (await asyncio.to_thread(read))[4:8] == b"ftyp"


async def run(program: str, directory: Path) -> str:
    """What a program prints; it must end by itself, without a warning."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    return output.decode()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
async def test_processes_of_a_prefork_server_start_their_own_client(programs: Path, service: Sandbox) -> None:
    program = """
        import os, sys
        import application

        def work():
            for path in ("/orders/order-1", f"/orders/order-of-{os.getpid()}"):
                statuses = []
                environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": path}
                application.app(environ, lambda status, _: statuses.append(status))
                os.write(1, f"{statuses[0]}\\n".encode())

        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                work()
                sys.exit()
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        """
    assert (await run(program, programs)).splitlines() == ["201 Created"] * 6
    assert len(service.creates) == 4


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
async def test_a_client_that_was_started_before_the_fork_says_so(programs: Path) -> None:
    program = """
        import os, warnings
        from blocking import video_service

        video_service.call(lambda client: client.account.get())
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        child = os.fork()
        if child == 0:
            try:
                video_service.call(lambda client: client.account.get())
            except RuntimeError as error:
                os.write(1, str(error).encode())
            video_service.close()
            os._exit(0)
        os.waitpid(child, 0)
        video_service.call(lambda client: client.account.get())
        """
    assert await run(program, programs) == "the client was started before the fork"


@pytest.mark.slow
async def test_a_process_that_ends_waits_for_its_create(programs: Path, service: Sandbox) -> None:
    program = """
        import threading, time
        from blocking import video_service

        sent = threading.Event()

        async def create(client):
            sent.set()
            await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id="order-1")

        threading.Thread(target=video_service.call, args=(create,), daemon=True).start()
        sent.wait()
        """
    service.faults.add("videos.create", Fault.stall(0.3))
    await run(program, programs)

    async with Client(journal="sqlite:///orders.db") as client:
        order = await client.orders.get("order-1")
        assert order.receipt is not None
        assert order.receipt.task_id == service.creates[0].task_id

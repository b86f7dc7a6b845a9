"""The web apps of examples/, as processes of their own, against a sandbox in this one."""

import asyncio
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from attrs import define, evolve, field

from tests.browser import open_browser
from tests.stopped_sandbox import Service, stopped_sandbox
from vidgen_async.sandbox import Sandbox, media
from vidgen_async.sandbox.media import render

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
UVICORN = ("-m", "uvicorn", "--app-dir", str(EXAMPLES), "--timeout-graceful-shutdown", "3", "--lifespan", "on")
#: The arguments of Python that start each app. The port is that of the environment.
COMMANDS = {
    "fastapi": (*UVICORN, "fastapi_app:app"),
    "aiohttp": (str(EXAMPLES / "aiohttp_app.py"),),
    "django": (*UVICORN, "django_shop.asgi:application"),
}
#: The apps with the page and the modules that they share.
SHARING = ("aiohttp", "django")
#: Seconds for anything that happens in milliseconds.
LIMIT = 20
in_module = pytest_asyncio.fixture(loop_scope="module")


@define
class WebApp:
    """A web app that is running, or was killed and is started again on the same port, in the same directory."""

    name: str
    service: Sandbox
    directory: Path
    session: aiohttp.ClientSession
    port: int = 0
    process: asyncio.subprocess.Process | None = None
    log: deque[str] = field(factory=lambda: deque(maxlen=200))
    _reader: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, **more: str) -> None:
        settings = {
            "VIDGEN_API_KEY": self.service.api_key,
            "VIDGEN_BASE_URL": self.service.base_url,
            "POLL_INTERVAL": "0.05",
            "PORT": str(self.port),
            "UVICORN_PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            **more,
        }
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *COMMANDS[self.name],
            cwd=self.directory,
            env=os.environ | settings,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            async for line in self.process.stdout:
                self.log.append(line.decode())
                if found := re.search(rb"unning on http://127\.0\.0\.1:(\d+)", line):
                    self.port = int(found[1])
                    break
            else:
                log = "".join(self.log)
                self.log.clear()
                pytest.fail(f"exit code {await self.process.wait()}: {log}")
        self._reader = asyncio.create_task(self._read_log(self.process.stdout))

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code when the process has ended."""
        assert self.process is not None
        assert self._reader is not None
        self.process.send_signal(number)
        async with asyncio.timeout(LIMIT):
            code = await self.process.wait()
            await self._reader
        self.process = None
        return code

    async def until_logged(self, text: str) -> None:
        """Wait until the log contains this."""
        async with asyncio.timeout(LIMIT):
            while text not in "".join(self.log):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)

    async def order(self, order_id: str, prompt: str = "A paper boat", **options: Any) -> aiohttp.ClientResponse:
        """Send what the page sends."""
        if self.name == "django":
            options["headers"] = await self._csrf_headers()
        url = f"{self.url}/orders/{order_id}"
        response = await self.session.put(url, **{"json": {"prompt": prompt}} | options)
        await response.read()
        return response

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        response = await self.session.get(f"{self.url}{path}", headers=headers)
        await response.read()
        return response

    @asynccontextmanager
    async def events(self, last_event_id: str | None = None, path: str = "/events") -> AsyncIterator["Events"]:
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        async with self.session.get(f"{self.url}{path}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            yield Events(response.content)

    async def _csrf_headers(self) -> dict[str, str]:
        page = await self.get("/")
        token = page.cookies["csrftoken"].value if "csrftoken" in page.cookies else ""
        return {"X-CSRFToken": token, "Cookie": f"csrftoken={token}"}

    async def _read_log(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            self.log.append(line.decode())


@define
class Events:
    """Server-sent events that are being received."""

    _lines: aiohttp.StreamReader
    last_id: str = ""

    async def next(self) -> dict[str, Any]:
        """The data of the next event."""
        async with asyncio.timeout(LIMIT):
            async for line in self._lines:
                name, _, value = line.decode().strip().partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "data":
                    return json.loads(value)
        raise EOFError

    async def until(self, state: str, order_id: str = "order-1") -> dict[str, Any]:
        """The first event with this state of an order."""
        while True:
            row = await self.next()
            if (row["order"], row["state"]) == (order_id, state):
                return row


@in_module
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """Its videos have the requested duration, and few pixels."""
    monkeypatch.setattr(
        media,
        "find_renderer",
        lambda: lambda film, stopped: render(evolve(film, width=64, height=64), stopped),
    )
    async with stopped_sandbox() as service:
        yield service


@in_module
async def start(service: Service, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[WebApp]]]:
    """Starts a web app, which is killed after the test."""
    apps: list[WebApp] = []
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def start_app(name: str, **settings: str) -> WebApp:
            app = WebApp(name, service.sandbox, tmp_path, session)
            apps.append(app)
            await app.start(**settings)
            return app

        yield start_app
        for app in apps:
            if app.process is not None and app.process.returncode is None:
                await app.stop(signal.SIGKILL)
            log = "".join(app.log)
            assert "Traceback" not in log, log
            assert service.sandbox.api_key not in log


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Any]:
    async with open_browser() as context:
        yield context


@in_module
async def page(browser) -> AsyncIterator[Any]:
    """A page of its own, without errors and without requests to other hosts."""
    page = await browser.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    host = page.url.split("/")[2]
    await page.close()
    assert messages == []
    assert [url for url in requests if url.split("/")[2] != host and not url.startswith("data:")] == []

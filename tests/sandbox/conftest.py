"""A plain HTTP client for the sandbox, without the SDK."""

import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from attrs import define, evolve, frozen
from PIL import Image
from yarl import URL

from vidgen_async.sandbox import Sandbox


@frozen
class Reply:
    """An answer that was read completely."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


@define
class Caller:
    """Sends requests with the account's key, or without one (``bare``)."""

    session: aiohttp.ClientSession
    base_url: str
    key: str

    async def send(self, method: str, target: str, *, bare: bool = False, **options: Any) -> Reply:
        """``target`` is a path below the base URL, or a complete URL that is sent unchanged."""
        headers = options.pop("headers", {}) | ({} if bare else {"Authorization": f"Bearer {self.key}"})
        url = URL(target if target.startswith("http") else self.base_url + target, encoded=True)
        options = {"allow_redirects": False, **options}
        async with self.session.request(method, url, headers=headers, **options) as answer:
            named = {name.lower(): value for name, value in answer.headers.items()}
            return Reply(answer.status, named, await answer.read())

    async def get(self, target: str, **options: Any) -> Reply:
        return await self.send("GET", target, **options)

    async def post(self, target: str, body: object, **options: Any) -> Reply:
        return await self.send("POST", target, json=body, **options)

    async def create(self, key: str | None = None, **changes: Any) -> Reply:
        """Send a valid create with these fields changed; None removes a field."""
        body = {"model": "gen-2.0", "prompt": "A paper boat at dawn"} | changes
        headers = {"Idempotency-Key": key} if key is not None else {}
        sent = {name: value for name, value in body.items() if value is not None}
        return await self.post("/videos", sent, headers=headers)

    async def upload(self, content: bytes) -> Reply:
        return await self.post("/files", {"image_b64": base64.b64encode(content).decode()})


@pytest.fixture
async def service() -> AsyncIterator[Sandbox]:
    """A sandbox whose clock is stopped until the test advances it, and whose gen-2.0 makes short videos."""
    async with Sandbox(speed=0) as sandbox:
        sandbox.add_model(evolve(sandbox.models["gen-2.0"], durations=(1, 2, 5)))
        yield sandbox


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as client:
        yield client


@pytest.fixture
def api(service, session) -> Caller:
    return Caller(session, service.base_url, service.api_key)


@pytest.fixture
def stranger(service, session) -> Caller:
    """A caller with another account."""
    return Caller(session, service.base_url, service.add_account().api_key)


def picture(colour: str = "crimson", size: tuple[int, int] = (64, 48), kind: str = "PNG") -> bytes:
    """Return the bytes of a real image."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()

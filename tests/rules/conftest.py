"""The unchanged service of the description, a plain HTTP client, and the SDK's client, all on real sockets."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from attrs import evolve

from tests.sandbox.conftest import Caller
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox


@pytest.fixture
async def service() -> AsyncIterator[Sandbox]:
    """A sandbox with the catalog of the description, whose time passes only when the test advances it."""
    async with Sandbox(speed=0) as sandbox:
        yield sandbox


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as made:
        yield made


@pytest.fixture
def api(service, session) -> Caller:
    return Caller(session, service.base_url, service.api_key)


@pytest.fixture
async def client(service) -> AsyncIterator[Client]:
    async with Client(service.api_key, base_url=service.base_url, poll_interval=0.02) as made:
        yield made


def make_short(service: Sandbox, code: str) -> None:
    """Let the model make small videos of one second, with or without images: they are quick to render."""
    service.add_model(evolve(service.models[code], durations=(1,), resolutions=("180p",), min_reference_images=0))

"""The client against the sandbox, over real sockets."""

from collections.abc import AsyncIterator

import pytest

from vidgen_async import Client
from vidgen_async.sandbox import Sandbox


@pytest.fixture
async def service() -> AsyncIterator[Sandbox]:
    async with Sandbox(queued_for=0, running_for=0) as sandbox:
        yield sandbox


@pytest.fixture
async def client(service) -> AsyncIterator[Client]:
    async with Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as made:
        yield made

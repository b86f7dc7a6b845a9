"""The recipes of examples/queues/ as processes of their own, against a sandbox in this one."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen

from tests.client.conftest import small_videos
from tests.engines.processes import LIMIT, QUEUES, Workers, open_workers, running_redis
from tests.postgres import any_server, new_database
from vidgen_async import Client
from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox

__all__ = ["small_videos"]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Import these tests only where they are wanted: they need what the extra test-engines installs."""
    marks = config.option.markexpr
    return True if marks and ("not needs_engines" in marks or "needs_engines" not in marks) else None


@frozen
class Service:
    """A sandbox whose clock is stopped until the test advances it, and what it has received."""

    sandbox: Sandbox
    _received: asyncio.Event

    async def until(self, is_true: Callable[[ReceivedRequest], bool]) -> ReceivedRequest:
        """The first request of which this is true, as soon as it is."""
        async with asyncio.timeout(LIMIT):
            while True:
                self._received.clear()
                for request in self.sandbox.requests:
                    if is_true(request):
                        return request
                await self._received.wait()

    async def until_create(self) -> ReceivedRequest:
        """The first create, when its headers have arrived."""
        return await self.until(lambda request: request.op == "videos.create")

    @property
    def creates(self) -> Sequence[ReceivedCreate]:
        """The POSTs of all creates, whatever the answer."""
        return self.sandbox.creates


@pytest.fixture
async def service(small_videos: None) -> AsyncIterator[Service]:
    received = asyncio.Event()
    async with Sandbox(speed=0, on_request=lambda _: received.set()) as sandbox:
        yield Service(sandbox, received)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a server: that of the environment, or one that is started for these tests."""
    with any_server() as server:
        yield server


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The connection string of a new, empty database."""
    with new_database(postgres) as database:
        yield database


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    """The URL of a Redis server."""
    with running_redis() as url:
        yield url


@pytest.fixture
def environment(service: Service, database: str) -> dict[str, str]:
    """What every worker of the recipes needs; times are in seconds, and short."""
    return {
        "VIDGEN_API_KEY": service.sandbox.api_key,
        "VIDGEN_BASE_URL": service.sandbox.base_url,
        "DATABASE_URL": database,
        "POLL_INTERVAL": "0.2",
        "HEARTBEAT": "1",
        "RETRY_DELAY": "1",
    }


@pytest.fixture
async def workers(service: Service, environment: dict[str, str], tmp_path: Path) -> AsyncIterator[Workers]:
    """Starts workers in a directory of their own, and shows their logs if the test fails."""
    async with open_workers(tmp_path, environment) as started:
        yield started
    print(started.logs)  # noqa: T201 - pytest shows it if the test fails
    assert service.sandbox.api_key not in started.logs


@pytest.fixture
async def operator(service: Service, database: str) -> AsyncIterator[Client]:
    """A client on the same journal, which sends nothing by itself."""
    async with Client(service.sandbox.api_key, base_url=service.sandbox.base_url, journal=database) as client:
        yield client


@pytest.fixture
def load(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of examples/queues/, as the product does that queues jobs. It is imported anew for each test."""
    before = set(sys.modules)

    def load_module(name: str) -> ModuleType:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.syspath_prepend(QUEUES)
        return import_module(name)

    yield load_module
    for name in {path.stem for path in QUEUES.glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[name]

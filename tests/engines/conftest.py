"""The recipes of examples/queues/ as processes of their own, against a sandbox in this one."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.client.conftest import small_videos
from tests.engines.processes import QUEUES, Workers, open_workers, running_redis
from tests.postgres import any_server, new_database
from tests.stopped_sandbox import Service, stopped_sandbox
from vidgen_async import Client

__all__ = ["small_videos"]


@pytest.fixture
async def service(small_videos: None) -> AsyncIterator[Service]:
    async with stopped_sandbox() as service:
        yield service


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

"""A service that writes down what reaches it, and workers on one journal, all of them processes."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.client.conftest import small_videos
from tests.journal.conftest import postgres, tmp_path
from tests.postgres import PostgresServer, running_server
from tests.proof.lossy_network import LossyNetwork, lossy_network
from tests.proof.processes import Forker, Processes, connect

__all__ = ["postgres", "small_videos", "tmp_path"]


@pytest.fixture
def on_arrival() -> list[Callable[[], object]]:
    """Called when the head of a create has arrived: its attempt is in the journal, and its outcome is not."""
    return []


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    made = Forker()
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server that may be harmed, and that by itself would lose the commits of the last seconds when it crashes."""
    with running_server("synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB") as running:
        yield running


@pytest.fixture
async def network(server: PostgresServer) -> AsyncIterator[LossyNetwork]:
    """Between clients and that server."""
    async with lossy_network(server.directory) as lossy:
        yield lossy


@pytest.fixture
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of an empty journal: in a file, unless the test asks for another one (see ``journals``)."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path / 'orders.db'}"
    dsn = request.getfixturevalue("postgres")
    with connect(dsn) as database:
        database.execute("DROP SCHEMA IF EXISTS vidgen CASCADE")
    return dsn


@pytest.fixture
async def processes(forker: Forker, tmp_path: Path, journal: str) -> AsyncIterator[Processes]:
    """No service yet: what it is like is the test's affair."""
    async with Processes(forker, tmp_path, journal) as made:
        yield made


@pytest.fixture
async def on_service(processes: Processes) -> Processes:
    """With a service that does as each order's prompt says."""
    await processes.start_service()
    return processes

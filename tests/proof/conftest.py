"""A service that writes down what reaches it, and workers on one journal, all of them processes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.client.conftest import small_videos
from tests.journal.conftest import postgres, tmp_path
from tests.postgres import PostgresServer, running_server
from tests.proof.cancelling import count_moments
from tests.proof.lossy_network import LossyNetwork, lossy_network
from tests.proof.processes import Forker, Processes, connect
from vidgen_async.clock import VirtualClock
from vidgen_async.sandbox import Sandbox
from vidgen_async.sandbox.request_log import ReceivedRequest

__all__ = ["postgres", "small_videos", "tmp_path"]


@pytest.fixture
def on_arrival() -> list[Callable[[], object]]:
    """Called once when the head of a create has arrived: its attempt is in the journal, and its outcome is not."""
    return []


@pytest.fixture
async def service(small_videos: None, on_arrival: list[Callable[[], object]]) -> AsyncIterator[Sandbox]:
    """Its own time stands still unless it is advanced. The moments of calls in this event loop can be counted."""

    def arrived(request: ReceivedRequest) -> None:
        while request.op == "videos.create" and on_arrival:
            on_arrival.pop()()

    count_moments(asyncio.get_running_loop())
    async with Sandbox(queued_for=0, running_for=0, submission_limit=10**6, speed=0, on_request=arrived) as sandbox:
        yield sandbox


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def harm() -> Iterator[ExitStack]:
    """Repaired at the end, whatever comes."""
    with ExitStack() as stack:
        yield stack


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

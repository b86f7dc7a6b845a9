"""A service that writes down what reaches it, and workers on one journal, all of them processes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.conftest import small_videos
from tests.journal.conftest import tmp_path
from tests.proof.processes import Forker, Processes

__all__ = ["small_videos", "tmp_path"]


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    made = Forker()
    yield made
    made.close()


@pytest.fixture
async def processes(forker: Forker, tmp_path: Path) -> AsyncIterator[Processes]:
    """No service yet: what it is like is the test's affair."""
    async with Processes(forker, tmp_path) as made:
        yield made


@pytest.fixture
async def on_service(processes: Processes) -> Processes:
    """With a service that does as each order's prompt says."""
    await processes.start_service()
    return processes

"""Batches at the sandbox, over real sockets. Each run has a client of its own on one journal, as after a restart."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import small_videos
from tests.journal.conftest import tmp_path
from vidgen_async import Client, Pacing
from vidgen_async.batch import BatchOutcome
from vidgen_async.sandbox import Sandbox

__all__ = ["small_videos", "tmp_path"]

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


def make_rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"order_id": f"order-{n}", **FIELDS, **fields} for n in range(count)]


class Batches:
    """Runs batches on one journal and one directory."""

    def __init__(self, service: Sandbox, folder: Path) -> None:
        self.service = service
        self.to = folder / "videos"
        self.journal = f"sqlite:///{folder / 'orders.db'}"
        self.options: dict[str, Any] = {"pacing": Pacing(limit=100_000), "poll_interval": 0.05}

    def client(self, **options: Any) -> Client:
        settings = {"base_url": self.service.base_url, "journal": self.journal, **self.options, **options}
        return Client(self.service.api_key, **settings)

    async def run(self, rows: Any, **options: Any) -> dict[str, BatchOutcome]:
        """The outcomes of a run by order id."""
        async with self.client() as client, client.videos.batch(rows, to=self.to, **options) as batch:
            return {outcome.order_id: outcome async for outcome in batch}

    def posts(self) -> Counter[str]:
        """How often each order was sent."""
        return Counter(str(create.idempotency_key) for create in self.service.creates)

    def count(self, op: str) -> int:
        return sum(request.op == op for request in self.service.requests)

    def files(self) -> set[str]:
        return {path.relative_to(self.to).as_posix() for path in self.to.rglob("*") if path.is_file()}


def states(outcomes: dict[str, BatchOutcome]) -> dict[str, tuple[str, str]]:
    return {order_id: (outcome.state, outcome.reason) for order_id, outcome in outcomes.items()}


@pytest.fixture
async def service(small_videos: None) -> AsyncIterator[Sandbox]:
    async with Sandbox(queued_for=0, running_for=0, submission_limit=100_000, allow_unknown_fields=True) as sandbox:
        yield sandbox


@pytest.fixture
async def slow_batches(small_videos: None, tmp_path: Path) -> AsyncIterator[Batches]:
    """Batches at a service whose tasks run until its clock is advanced by 1,000 seconds."""
    async with Sandbox(queued_for=0, running_for=1000, submission_limit=100_000) as sandbox:
        yield Batches(sandbox, tmp_path)


@pytest.fixture
def batches(service: Sandbox, tmp_path: Path) -> Batches:
    return Batches(service, tmp_path)


@pytest.fixture
def write_manifest(tmp_path: Path) -> Callable[[str | bytes | Iterable[str]], Path]:
    def write(text: str | bytes, name: str = "jobs.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def picture() -> bytes:
    return (Path(__file__).resolve().parents[2] / "examples" / "boat.png").read_bytes()

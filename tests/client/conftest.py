"""The client against the sandbox, over real sockets."""

from collections.abc import AsyncIterator, Callable

import pytest
from attrs import evolve

from tests.journal.conftest import tmp_path
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox, media
from vidgen_async.sandbox.media import Film, render

__all__ = ["tmp_path"]


@pytest.fixture
def small_videos(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox renders a second of a few pixels, whatever was asked for."""

    def render_small(film: Film, stopped: Callable[[], bool]) -> bytes:
        return render(evolve(film, seconds=1, width=64, height=64), stopped)

    monkeypatch.setattr(media, "find_renderer", lambda: render_small)


@pytest.fixture
def full_size_videos(small_videos: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "find_renderer", lambda: render)


@pytest.fixture
async def service(small_videos: None) -> AsyncIterator[Sandbox]:
    async with Sandbox(queued_for=0, running_for=0) as sandbox:
        yield sandbox


@pytest.fixture
def restarted(service, tmp_path) -> Callable[..., Client]:
    """The client of another process on the same journal."""

    def make(**options: object) -> Client:
        journal = f"sqlite:///{tmp_path / 'orders.db'}"
        return Client(service.api_key, base_url=service.base_url, journal=journal, poll_interval=0.05, **options)

    return make


@pytest.fixture
async def client(service) -> AsyncIterator[Client]:
    async with Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as made:
        yield made

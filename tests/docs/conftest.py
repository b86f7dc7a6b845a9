"""The fixtures of the client's tests: the documentation is run against the same sandbox."""

import pytest

from tests.client.conftest import client, service
from vidgen_async.sandbox.media import render_cache
from vidgen_async.sandbox.media.renderer import render
from vidgen_async.sandbox.media.video_content import Film

__all__ = ["client", "service", "short_videos"]


@pytest.fixture(scope="session")
def short_video() -> bytes:
    return render(Film("a boat", 1, 320, 180), lambda: False)


@pytest.fixture
def short_videos(short_video: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every video of a sandbox is this one: rendering them takes most of the time, and most tests only pass them on."""
    monkeypatch.setattr(render_cache, "render", lambda film, stopped: short_video)

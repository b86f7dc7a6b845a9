"""Fixtures for all tests."""

from types import SimpleNamespace

import aiohttp
import aioresponses.core
import pytest


@pytest.fixture
def stream_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """aioresponses 0.7.9 does not hand aiohttp >= 3.14 the ``stream_writer`` that its responses ask for."""

    class Answer(aiohttp.ClientResponse):
        def __init__(self, *args, **facts):
            super().__init__(*args, **{"stream_writer": SimpleNamespace(output_size=0)} | facts)

    monkeypatch.setattr(aioresponses.core, "ClientResponse", Answer)

"""A fixture for users of aioresponses, which does not work with aiohttp 3.14 and later by itself."""

from __future__ import annotations

import inspect
from functools import partial
from types import SimpleNamespace

import pytest


@pytest.fixture
def vidgen_aioresponses_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make aioresponses (0.7.9 and earlier) work with aiohttp 3.14 and later in this test.

    A response of aiohttp 3.14 has a required argument ``stream_writer``, which aioresponses does not pass: every
    request that it answers ends with a TypeError. It is passed where a test file has
    ``pytestmark = pytest.mark.usefixtures("vidgen_aioresponses_fix")``. Does nothing with an earlier aiohttp, and where
    aioresponses is not installed.
    """
    try:
        from aioresponses import core  # noqa: PLC0415 - imported only for tests that use it
    except ModuleNotFoundError:
        return
    response = vars(core).get("ClientResponse")
    if response is not None and "stream_writer" in inspect.signature(response).parameters:
        # An argument that a later aioresponses passes itself takes precedence.
        monkeypatch.setattr(core, "ClientResponse", partial(response, stream_writer=SimpleNamespace(output_size=0)))

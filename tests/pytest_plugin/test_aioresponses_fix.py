"""The fixture for aioresponses: what it changes, and where it changes nothing."""

import inspect
import sys

import aiohttp
import pytest
from aioresponses import aioresponses, core

from vidgen_async.pytest_plugin import vidgen_aioresponses_fix

URL = "https://shop.test/stock"
#: The function of the fixture, without pytest.
fix = inspect.unwrap(vidgen_aioresponses_fix)


async def read() -> object:
    async with aiohttp.ClientSession() as session, session.get(URL) as page:
        return await page.json()


async def test_with_it_aioresponses_answers(monkeypatch):
    fix(monkeypatch)

    with aioresponses() as web:
        web.get(URL, payload={"boats": 3})
        assert await read() == {"boats": 3}


async def test_without_it_aioresponses_fails_where_aiohttp_requires_the_argument(monkeypatch):
    """When this fails, a later release of aioresponses works by itself: remove the fixture."""
    if "stream_writer" not in inspect.signature(aiohttp.ClientResponse).parameters:
        pytest.skip("an earlier aiohttp")

    with aioresponses() as web:
        web.get(URL, payload={"boats": 3})
        with pytest.raises(TypeError, match="stream_writer"):
            await read()


def test_it_changes_nothing_with_an_earlier_aiohttp(monkeypatch):
    class Earlier:
        """A response without the argument."""

    monkeypatch.setattr(core, "ClientResponse", Earlier)

    fix(monkeypatch)

    assert core.ClientResponse is Earlier


def test_an_argument_that_aioresponses_passes_itself_takes_precedence(monkeypatch):
    monkeypatch.setattr(core, "ClientResponse", lambda *, stream_writer: stream_writer)

    fix(monkeypatch)

    assert core.ClientResponse(stream_writer="its own") == "its own"


def test_it_changes_nothing_where_aioresponses_is_not_installed(monkeypatch):
    before = core.ClientResponse
    monkeypatch.setitem(sys.modules, "aioresponses", None)

    fix(monkeypatch)

    assert core.ClientResponse is before

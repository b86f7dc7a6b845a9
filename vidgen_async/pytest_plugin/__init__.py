"""The pytest plugin: cassettes and a sandbox for tests of code that uses the SDK, without a key and free of charge.

Pytest loads it by its entry point ``vidgen_async``, also in runs that do not use it and in releases of pytest that its
fixtures do not support. So this module and those that it imports use what every pytest has, and evaluate no annotation;
the rest is imported and registered when a test uses a fixture. ``pytest --fixtures`` and ``pytest --markers`` show what
it provides; annotate with :class:`VidgenCassette`, :class:`vidgen_async.Client` and
:class:`vidgen_async.sandbox.Sandbox`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from vidgen_async.pytest_plugin.event_loops import get_on_loop, register_fixtures
from vidgen_async.pytest_plugin.settings import (  # noqa: F401 - pytest calls its hook
    MARKER_HELP,
    ini_choice,
    mode_of,
    pytest_addoption,
    source_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from vidgen_async import Client
    from vidgen_async.cassette import Mode
    from vidgen_async.clock import Clock
    from vidgen_async.sandbox import Sandbox
    from vidgen_async.transports import RecordingTransport, ReplayTransport

__all__ = ["VidgenCassette", "vidgen_aioresponses_fix"]

#: The first release of pytest in which the fixtures work, and which is tested.
_OLDEST_PYTEST = (7, 4)


@dataclass(frozen=True, eq=False, kw_only=True)
class VidgenCassette:
    """The cassette of this test: the value of the fixture ``vidgen_cassette``.

    A client of your own uses it as ``Client(cassette.api_key, base_url=cassette.base_url,
    transport=cassette.transport)``, and closes it. In a replay it must not have a durable journal.
    """

    path: Path
    """Its file, which exists after recording if the test passes."""
    mode: Mode
    """Replay, record or append; ``auto`` is resolved to one of them."""
    transport: ReplayTransport | RecordingTransport
    """Replays or records. In a replay it has ``played``, ``unused`` and ``misses``, and uses no network."""
    base_url: str
    """The base URL of the recorded service."""
    api_key: str = field(repr=False)
    """The API key of the recorded service; in a replay, an arbitrary one."""
    clock: Clock
    """Virtual in a replay: an hour of polls takes milliseconds."""


@pytest.fixture
def vidgen_cassette(request: pytest.FixtureRequest) -> VidgenCassette:
    """The cassette of this test: transport, path, mode, base_url, api_key, clock.

    It is a file in ``cassettes`` beside the test file, named after the test. By default it is replayed: no network, no
    API key, no charge, and virtual time. When the test has passed, a request that was not on it (even if that error was
    caught) and interactions that were not replayed are errors. ``--vidgen-mode=record`` records it: from the service of
    VIDGEN_BASE_URL and VIDGEN_API_KEY, or with ``--vidgen-record-from=sandbox`` from a sandbox; it is published only if
    the test passes. The marker ``vidgen_cassette`` has further options.
    """
    __tracebackhide__ = True
    if getattr(pytest, "version_tuple", (6,)) < _OLDEST_PYTEST:
        needed = ".".join(map(str, _OLDEST_PYTEST))
        pytest.fail(f"{request.node.nodeid}: vidgen_cassette needs pytest {needed} or later", pytrace=False)
    from vidgen_async.pytest_plugin.session import start_session  # noqa: PLC0415 - only for tests that use it

    return start_session(request)


@pytest.fixture
def vidgen_client(request: pytest.FixtureRequest, vidgen_cassette: VidgenCassette) -> Client:
    """A vidgen_async.Client on the cassette of this test, for async tests of pytest-asyncio and anyio.

    Its journal is in memory. It polls a task every second if the recorded service is on this machine, else every
    minute; in a replay, this time is virtual. It is closed after the test.
    """
    __tracebackhide__ = True
    from vidgen_async.pytest_plugin.session import open_client  # noqa: PLC0415 - as above

    return open_client(request, vidgen_cassette)


@pytest.fixture
def vidgen_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """A running vidgen_async.sandbox.Sandbox of this test: base_url, api_key, faults, creates, clock and more.

    For async tests of pytest-asyncio and anyio; needs the extra ``sandbox``, and the extra ``video`` only if its videos
    must have the requested duration and size. ``--vidgen-record-from=sandbox`` records from it; a fixture of your own
    with this name can replace it.
    """
    __tracebackhide__ = True
    try:
        import vidgen_async.sandbox  # noqa: F401, PLC0415 - the extra may be missing, which is reported
    except ImportError as error:
        problem = f"{request.node.nodeid}: {error}"
    else:
        sandbox: Sandbox = get_on_loop(request, "sandbox")
        return sandbox
    pytest.fail(problem, pytrace=False)


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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER_HELP)
    for name in ("vidgen_mode", "vidgen_record_from"):
        ini_choice(config, name)  # an unknown value ends the run
    register_fixtures(config.pluginmanager)


def pytest_report_header(config: pytest.Config) -> str | None:
    try:
        mode = mode_of(config)
    except pytest.UsageError as error:
        return f"vidgen_async: {error}"
    return None if mode == "replay" else f"vidgen_async: mode {mode}, from the {source_of(config)}"

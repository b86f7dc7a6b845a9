"""The pytest plugin: cassettes and a sandbox for tests of code that uses the SDK, without a key and free of charge.

Pytest loads it by its entry point ``vidgen_async``; it imports little before a test uses one of its fixtures.
``pytest --fixtures`` and ``pytest --markers`` show what it provides; annotate with :class:`VidgenCassette`,
:class:`vidgen_async.Client` and :class:`vidgen_async.sandbox.Sandbox`.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from vidgen_async.pytest_plugin.aioresponses_fix import vidgen_aioresponses_fix
from vidgen_async.pytest_plugin.cassette_handle import VidgenCassette
from vidgen_async.pytest_plugin.event_loops import get_on_loop, register_fixtures
from vidgen_async.pytest_plugin.reports import Reporter, explain, summarize
from vidgen_async.pytest_plugin.settings import SETTINGS, Settings, add_settings

if TYPE_CHECKING:
    from vidgen_async import Client
    from vidgen_async.pytest_plugin.fixture_setup import Session
    from vidgen_async.sandbox import Sandbox

__all__ = ["VidgenCassette", "vidgen_aioresponses_fix"]

_SESSION: "pytest.StashKey[Session]" = pytest.StashKey()


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
    from vidgen_async.pytest_plugin.fixture_setup import open_session  # noqa: PLC0415 - imported only for tests that use it

    session = open_session(request)
    request.node.stash[_SESSION] = session
    return session.cassette


@pytest.fixture
def vidgen_client(request: pytest.FixtureRequest, vidgen_cassette: VidgenCassette) -> "Client":
    """A vidgen_async.Client on the cassette of this test, for async tests of pytest-asyncio and anyio.

    Its journal is in memory. It polls a task every second if the recorded service is on this machine, else every
    minute; in a replay, this time is virtual. It is closed after the test.
    """
    __tracebackhide__ = True
    from vidgen_async.pytest_plugin.fixture_setup import open_client  # noqa: PLC0415 - as above

    return open_client(request, vidgen_cassette)


@pytest.fixture
def vidgen_sandbox(request: pytest.FixtureRequest) -> "Sandbox":
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


def pytest_addoption(parser: pytest.Parser) -> None:
    add_settings(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SETTINGS] = Settings.of(config)
    config.pluginmanager.register(Reporter(config), f"{__name__}.reporter")
    register_fixtures(config.pluginmanager)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    __tracebackhide__ = True
    session = item.stash.get(_SESSION, None)
    if session is None:
        yield
        return
    try:
        yield
    except BaseException:
        session.has_passed = False
        raise
    finally:
        session.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = item.stash.get(_SESSION, None)
    if session is not None:
        error = call.excinfo and call.excinfo.value
        if report.when == "call":
            session.record_outcome(report.outcome, error)
        explain(report, session, error)
        if report.when == "teardown":
            summarize(report, session)
            del item.stash[_SESSION]
    return report

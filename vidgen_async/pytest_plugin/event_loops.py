"""Fixtures that run on the event loop of the test: that of pytest-asyncio, in both modes and with every loop scope, or
of anyio. Neither is imported by this module."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vidgen_async.sandbox import Sandbox

_PYTEST_ASYNCIO = "pytest_asyncio.plugin"
_LOOP_SCOPES = ("function", "class", "module", "package", "session")
_ANYIO = "anyio"


def register_fixtures(manager: pytest.PytestPluginManager) -> None:
    """Register the fixtures; call it when all plugins are registered."""
    holder = ModuleType(f"{__name__}.fixtures")
    for loop in (_ANYIO, *(_LOOP_SCOPES if _has_pytest_asyncio(manager) else ())):
        for function in _fixtures():
            name = _name(function.__name__, loop)
            if loop == _ANYIO:
                made = pytest.fixture(function, name=name)
            else:
                made = sys.modules[_PYTEST_ASYNCIO].fixture(function, name=name, loop_scope=loop)
            setattr(holder, name, made)
    manager.register(holder, holder.__name__)


def has_loop(request: pytest.FixtureRequest) -> bool:
    """Whether the test runs on an event loop."""
    return _loop_of(request) is not None


def get_on_loop(request: pytest.FixtureRequest, what: str) -> Any:
    """The ``sandbox`` on the test's loop, or the ``stack``: an AsyncExitStack that is closed on it, after everything
    that is set up from now on. The test fails if it has no loop."""
    loop = _loop_of(request)
    if loop is None:
        pytest.fail(
            f"{request.fixturename} needs an event loop, and {request.node.nodeid} has none: make it an async test of "
            "pytest-asyncio or anyio (which must be installed and enabled by a marker or by asyncio_mode = auto)",
            pytrace=False,
        )
    return request.getfixturevalue(_name(what, loop))


def _loop_of(request: pytest.FixtureRequest) -> str | None:
    marker = request.node.get_closest_marker("asyncio")
    if marker is not None and _has_pytest_asyncio(request.config.pluginmanager):
        # Older releases use the name "scope".
        return str(marker.kwargs.get("loop_scope") or marker.kwargs.get("scope") or _default_loop_scope(request.config))
    return _ANYIO if "anyio_backend" in request.fixturenames else None


def _default_loop_scope(config: pytest.Config) -> str:
    try:
        return config.getini("asyncio_default_test_loop_scope") or "function"
    except ValueError:  # pytest-asyncio before 0.26 has no such setting
        return "function"


def _has_pytest_asyncio(manager: pytest.PytestPluginManager) -> bool:
    module = sys.modules.get(_PYTEST_ASYNCIO)
    return module is not None and manager.is_registered(module)


def _name(what: str, loop: str) -> str:
    return f"_vidgen_{what}_on_{loop}"


def _fixtures() -> tuple[Callable[[], AsyncIterator[object]], ...]:
    """The functions of the fixtures: new ones, since each can become a fixture once."""

    async def stack() -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as exits:
            yield exits

    async def sandbox() -> "AsyncIterator[Sandbox]":
        from vidgen_async.sandbox import Sandbox  # noqa: PLC0415 - imported only for tests that use it

        async with Sandbox() as service:
            yield service

    return stack, sandbox

"""Fixtures that run on the event loop of the test: that of pytest-asyncio, in both modes and with every loop scope, or
of anyio. Neither is imported by this module."""

from __future__ import annotations

import inspect
import sys
from contextlib import AsyncExitStack, suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

_PYTEST_ASYNCIO = "pytest_asyncio.plugin"
_LOOP_SCOPES = ("function", "class", "module", "package", "session")
#: The fixture of pytest-asyncio 1.0 and later that is an asyncio.Runner; earlier releases need none here.
_RUNNER = "_{}_scoped_runner"
_ANYIO = "anyio"
#: A test of pytest-asyncio that has anyio's fixture: anyio would run its async fixtures, on a loop of its own.
_BOTH = "pytest_asyncio_with_anyio"


def register_fixtures(manager: pytest.PytestPluginManager) -> None:
    """Register the fixtures; call it when all plugins are registered."""
    holder = ModuleType(f"{__name__}.fixtures")
    for what, make in {"stack": AsyncExitStack, "sandbox": _make_sandbox}.items():
        for loop, fixture in _decorators(manager).items():
            name = _name(what, loop)
            function = _on_runner(make) if loop == _BOTH else _on_loop(make)
            setattr(holder, name, fixture(function, name=name))
    manager.register(holder, holder.__name__)


def get_on_loop(request: pytest.FixtureRequest, what: str) -> Any:
    """The ``sandbox`` on the test's loop, or the ``stack``, which is closed on it. The test fails if it has no loop."""
    loop = loop_of(request)
    if loop is None:
        pytest.fail(
            f"{request.fixturename} needs an event loop, and {request.node.nodeid} has none: make it an async test of "
            "pytest-asyncio or anyio (which must be installed and enabled by a marker or by asyncio_mode = auto)",
            pytrace=False,
        )
    if loop not in _decorators(request.config.pluginmanager):
        pytest.fail(f"{request.node.nodeid}: loop scope {loop!r} needs pytest-asyncio 0.24 or later", pytrace=False)
    return request.getfixturevalue(_name(what, loop))


def _decorators(manager: pytest.PytestPluginManager) -> dict[str, Callable[..., object]]:
    """What makes a fixture for each kind of loop; the installed release of pytest-asyncio may be any."""
    found: dict[str, Callable[..., object]] = {_ANYIO: pytest.fixture}
    make = getattr(sys.modules[_PYTEST_ASYNCIO], "fixture", None) if _has_pytest_asyncio(manager) else None
    if make is not None:
        found[_BOTH] = pytest.fixture
        if "loop_scope" in inspect.signature(make).parameters:
            found |= {scope: partial(make, loop_scope=scope) for scope in _LOOP_SCOPES}
        else:  # before 0.24
            found["function"] = make
    return found


def loop_of(request: pytest.FixtureRequest) -> str | None:
    """The kind of event loop on which the test runs, if it does."""
    has_anyio = "anyio_backend" in request.fixturenames
    scope = _loop_scope(request)
    if scope is None:
        return _ANYIO if has_anyio else None
    return _BOTH if has_anyio and _RUNNER.format(scope) in vars(sys.modules[_PYTEST_ASYNCIO]) else scope


def _loop_scope(request: pytest.FixtureRequest) -> str | None:
    """The scope of its loop if pytest-asyncio runs the test: in auto mode also one that is marked for anyio."""
    marker = request.node.get_closest_marker("asyncio")
    if marker is None or not _has_pytest_asyncio(request.config.pluginmanager):
        return None
    item_class = getattr(sys.modules[_PYTEST_ASYNCIO], "PytestAsyncioFunction", pytest.Function)
    if not isinstance(request.node, item_class):  # anyio has made an item of its own
        return None
    # Older releases use the name "scope".
    scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
    with suppress(ValueError):  # pytest-asyncio before 0.26 has no such setting
        scope = scope or request.config.getini("asyncio_default_test_loop_scope")
    return str(scope or "function")


def _has_pytest_asyncio(manager: pytest.PytestPluginManager) -> bool:
    module = sys.modules.get(_PYTEST_ASYNCIO)
    return module is not None and manager.is_registered(module)


def _name(what: str, loop: str) -> str:
    return f"_vidgen_{what}_on_{loop}"


def _make_sandbox() -> AbstractAsyncContextManager[object]:
    from vidgen_async.sandbox import Sandbox  # noqa: PLC0415 - imported only for tests that use it

    return Sandbox()


def _on_loop(make: Callable[[], AbstractAsyncContextManager[object]]) -> Callable[[], AsyncIterator[object]]:
    async def fixture() -> AsyncIterator[object]:
        async with make() as value:
            yield value

    return fixture


def _on_runner(make: Callable[[], AbstractAsyncContextManager[object]]) -> Callable[..., Iterator[object]]:
    def fixture(request: pytest.FixtureRequest) -> Iterator[object]:
        runner = request.getfixturevalue(_RUNNER.format(_loop_scope(request)))
        manager = make()
        yield runner.run(manager.__aenter__())
        runner.run(manager.__aexit__(None, None, None))

    return fixture

"""Fixtures for all tests, and the environment in which they run."""

import logging
import os
from pathlib import Path

import pytest

from tests.postgres import VARIABLE as POSTGRES

#: What the caller has set for the tests.
FOR_TESTS = ("VIDGEN_CHROMIUM", POSTGRES)
#: What the caller has set for terminals, and proxies, are not for tests.
NOT_FOR_TESTS = (
    *("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("HTTP_PROXY", "http_proxy", "WS_PROXY", "ws_proxy"),
)

#: Tests that import what only an extra installs, with their mark.
IMPORTING = {"engines": "needs_engines", "benchmarks/test_rows.py": "needs_dev"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import such tests only where they are wanted; there they fail if the extra is not installed."""
    mark = IMPORTING.get(collection_path.relative_to(Path(__file__).parent).as_posix())
    wanted = config.option.markexpr
    is_left_out = mark is not None and wanted and (mark not in wanted or f"not {mark}" in wanted)
    return True if is_left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Tests that start PostgreSQL are slow."""
    for item in items:
        parameters = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
        if not {"postgres", "server"}.isdisjoint(item.fixturenames) or "postgres" in parameters:
            item.add_marker(pytest.mark.slow)


def pytest_sessionstart() -> None:
    """No test depends on the caller's settings of vidgen, or on the caller's terminal."""
    for name in list(os.environ):
        if name in NOT_FOR_TESTS or (name.startswith("VIDGEN_") and name not in FOR_TESTS):
            del os.environ[name]
    os.environ["TERM"] = "xterm-256color"
    logging.getLogger("asyncio").addFilter(is_about_more_than_time)


def is_about_more_than_time(record: logging.LogRecord) -> bool:
    """In debug mode asyncio warns of every step that takes 0.1 s, which depends on how busy the machine is."""
    return record.msg != "Executing %s took %.3f seconds"

"""Fixtures for all tests, and the environment in which they run."""

import logging
import os

from tests.postgres import VARIABLE as POSTGRES

#: What the caller has set for the tests.
FOR_TESTS = ("VIDGEN_CHROMIUM", POSTGRES)
#: What the caller has set for terminals, and proxies, are not for tests.
NOT_FOR_TESTS = (
    *("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("HTTP_PROXY", "http_proxy", "WS_PROXY", "ws_proxy"),
)


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

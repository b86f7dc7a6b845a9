"""Which service a command talks to: the one of the environment, or a sandbox that lives as long as the command."""

import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from vidgen_async.cli.screens import Screen
from vidgen_async.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.configuration import checked_base_url, is_on_this_machine
from vidgen_async.errors import ConfigurationError
from vidgen_async.journal import MemoryJournal

if TYPE_CHECKING:
    from vidgen_async.sandbox import Sandbox

#: Seconds between two looks at a task of a service on this machine, and of the embedded sandbox.
LOCAL_INTERVAL = 1.0
SANDBOX_INTERVAL = 0.25
#: How long a task of the embedded sandbox is queued and running, in seconds.
SANDBOX_TIMES = (0.5, 1.0)


@frozen(kw_only=True)
class Settings:
    """How to reach the service. The key is never among them: it is read from VIDGEN_API_KEY alone."""

    base_url: str | None = None
    poll_interval: float | None = None
    is_sandbox: bool = False
    is_debug: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Those that a resuming command has to repeat."""
        base = () if self.base_url is None else ("--base-url", self.base_url)
        return base if self.poll_interval is None else (*base, "--poll-interval", f"{self.poll_interval:g}")


@asynccontextmanager
async def opened(settings: Settings, screen: Screen) -> AsyncIterator[Client]:
    """A client of the service; ConfigurationError says what is missing or wrong."""
    if not settings.is_sandbox:
        async with _client(settings, screen) as client:
            yield client
        return
    queued, running = SANDBOX_TIMES
    async with sandbox_class()(queued_for=queued, running_for=running) as service:
        screen.say("sandbox", "this is the sandbox, on this machine: no key is used and nothing is charged")
        interval = settings.poll_interval or SANDBOX_INTERVAL
        made = Client(
            service.api_key,
            base_url=service.base_url,
            journal=MemoryJournal(),
            poll_interval=interval,
            account="sandbox",
        )
        async with made as client:
            yield client


def sandbox_class() -> "type[Sandbox]":
    """The sandbox, which needs an extra; ConfigurationError names it."""
    try:
        from vidgen_async.sandbox import Sandbox  # noqa: PLC0415 - only those who use it need it
    except ImportError as error:
        missing = error.__cause__ or error
        if not isinstance(missing, ModuleNotFoundError):
            raise
        message = f'the sandbox needs {missing.name}, which is not installed: pip install "vidgen-async[sandbox]"'
        raise ConfigurationError(message) from error
    return Sandbox


def _client(settings: Settings, screen: Screen) -> Client:
    if os.environ.get("VIDGEN_API_KEY") is None:
        message = "no API key: set VIDGEN_API_KEY (it never goes onto the command line), or try it with --sandbox"
        raise ConfigurationError(message)
    if settings.base_url is None and not os.environ.get("VIDGEN_BASE_URL"):
        message = "no base URL: set VIDGEN_BASE_URL or give --base-url; it ends in /openapi/v1"
        raise ConfigurationError(message)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        base_url = checked_base_url(settings.base_url)
        usual = LOCAL_INTERVAL if is_on_this_machine(base_url) else RECOMMENDED_INTERVAL
        client = Client(base_url=base_url, poll_interval=settings.poll_interval or usual)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        screen.warn(text)
    return client

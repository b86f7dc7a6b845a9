"""Which service a command talks to: the one of the environment, or a sandbox that lives as long as the command."""

import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING

from attrs import frozen

from vidgen_async.cli.default_journal import default_journal, journal_file
from vidgen_async.cli.run_state import Journey
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.client import ONE_DAY, RECOMMENDED_INTERVAL, Client
from vidgen_async.client.settings import checked_base_url, is_on_this_machine
from vidgen_async.client.videos import OnUpdate
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import Journal, MemoryJournal, SqliteJournal, journal_from

if TYPE_CHECKING:
    from vidgen_async.sandbox import Sandbox

#: Seconds between two looks at a task of a service on this machine, and of the embedded sandbox.
LOCAL_INTERVAL = 1.0
SANDBOX_INTERVAL = 0.25
#: How long a task of the embedded sandbox is queued and running, in seconds.
SANDBOX_TIMES = (0.5, 1.0)

DEFAULT_ACCOUNT = "default"


class Access(Enum):
    """What a command does with the orders on record."""

    NONE = auto()
    EXISTING = auto()
    """It looks at those that there are, or decides about them."""
    NEW = auto()
    """It may add one."""


@frozen(kw_only=True)
class Settings:
    """How to reach the service and what to show. The key is never among them: it is read from VIDGEN_API_KEY alone."""

    base_url: str | None = None
    account: str = DEFAULT_ACCOUNT
    journal: str | None = None
    poll_interval: float | None = None
    timeout: float = ONE_DAY
    is_sandbox: bool = False
    is_debug: bool = False
    is_json: bool = False

    @property
    def connection(self) -> tuple[str, ...]:
        """The options that every later command about the same orders has to repeat."""
        return (
            *(() if self.base_url is None else ("--base-url", self.base_url)),
            *(() if self.account == DEFAULT_ACCOUNT else ("--account", self.account)),
            *(() if self.journal is None else ("--journal", self.journal)),
        )

    @property
    def options(self) -> tuple[str, ...]:
        """Those that a resuming command has to repeat."""
        interval = () if self.poll_interval is None else ("--poll-interval", f"{self.poll_interval:g}")
        return (*self.connection, *interval)


@asynccontextmanager
async def opened(
    settings: Settings, journey: Journey, screen: Screen, *, orders: Access, on_update: OnUpdate | None = None
) -> AsyncIterator[Client]:
    """A client of the service; ConfigurationError says what is missing or wrong.

    Only one that may add ``orders`` makes a journal that lasts: what does nothing with orders, or only looks at those
    on record, leaves nothing new on the disk.
    """
    if not settings.is_sandbox:
        _check_environment(settings)
        journal, place = (MemoryJournal(), "") if orders is Access.NONE else _journal(settings, orders)
        journey.is_lasting = journal.durable
        async with _client(settings, journal, screen, on_update) as client:
            if place:
                origin = checked_base_url(settings.base_url).origin()
                journey.where = f"in the journal {place} for account {settings.account!r} at {origin}"
            if journal.durable:
                await _check_usable(client)
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


def named_journal(text: str, orders: Access) -> tuple[Journal, str]:
    """The journal that ``text`` names, and its place in words; ConfigurationError where none may be made, and there is
    none."""
    journal = journal_from(text)
    if not isinstance(journal, SqliteJournal):
        return journal, text
    if orders is Access.EXISTING and not os.path.lexists(journal.path):
        message = f"there is no journal at {journal.path}"
        raise ConfigurationError(message)
    return journal, str(journal.path)


def _journal(settings: Settings, orders: Access) -> tuple[Journal, str]:
    given = settings.journal or os.environ.get("VIDGEN_JOURNAL")
    if given:
        return named_journal(given, orders)
    if orders is Access.EXISTING and not journal_file().exists():
        return MemoryJournal(), str(journal_file())
    return SqliteJournal(default_journal()), str(journal_file())


async def _check_usable(client: Client) -> None:
    """ConfigurationError for what is no journal, or cannot be one: that is a wrong name. What may pass (a disk that is
    full, another program that writes) stays a JournalError."""
    try:
        await client.orders.get("-")
    except JournalError as error:
        if error.may_pass:
            raise
        raise ConfigurationError(error.message) from error


def _check_environment(settings: Settings) -> None:
    if os.environ.get("VIDGEN_API_KEY") is None:
        message = "no API key: set VIDGEN_API_KEY (it never goes onto the command line), or try generate with --sandbox"
        raise ConfigurationError(message)
    if settings.base_url is None and not os.environ.get("VIDGEN_BASE_URL"):
        message = "no base URL: set VIDGEN_BASE_URL or give --base-url; it ends in /openapi/v1"
        raise ConfigurationError(message)


def _client(settings: Settings, journal: Journal, screen: Screen, on_update: OnUpdate | None) -> Client:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usual = LOCAL_INTERVAL if is_on_this_machine(checked_base_url(settings.base_url)) else RECOMMENDED_INTERVAL
        client = Client(
            base_url=settings.base_url,
            account=settings.account,
            journal=journal,
            poll_interval=settings.poll_interval or usual,
            on_update=on_update,
        )
    # The same text more than once is one warning.
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        screen.warn(text)
    return client

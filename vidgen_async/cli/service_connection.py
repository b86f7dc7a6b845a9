"""The service that a command connects to: that of the environment, or a sandbox for the duration of the command."""

import os
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from platformdirs import user_data_path
from yarl import URL

from vidgen_async import Client
from vidgen_async.cli.settings import Access, Settings
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import MemoryJournal, SqliteJournal, journal_from
from vidgen_async.transports import EnvironmentProxies, is_on_this_machine

if TYPE_CHECKING:
    from vidgen_async.journal import PostgresJournal
    from vidgen_async.sandbox import Sandbox
    from vidgen_async.types import OnUpdate

OwnJournal: TypeAlias = "MemoryJournal | SqliteJournal | PostgresJournal"

#: Polling interval in seconds: as the service recommends, for a service on this machine, and for the embedded sandbox.
RECOMMENDED_INTERVAL = 60.0
LOCAL_INTERVAL = 1.0
SANDBOX_INTERVAL = 0.25
#: Seconds for which a task of the embedded sandbox is queued, then running.
SANDBOX_TIMES = (0.5, 1.0)
#: The options for arguments of the client, which its messages begin with.
OPTIONS_OF_CLIENT = {"base_url": "--base-url", "proxy": "--proxy", "account": "--account"}


@asynccontextmanager
async def open_client(
    settings: Settings,
    access: Access,
    warn: Callable[[str], None],
    *,
    needs_key: bool = True,
    on_update: "OnUpdate | None" = None,
) -> AsyncIterator[tuple[Client, OwnJournal, str]]:
    """Open a client of the service, or of a sandbox, with its journal and the place of that for messages."""
    budget = settings.budget
    if settings.is_sandbox:
        queued, running = SANDBOX_TIMES
        journal: OwnJournal = MemoryJournal()
        interval = settings.poll_interval or SANDBOX_INTERVAL
        async with (
            sandbox_class()(queued_for=queued, running_for=running) as service,
            Client(
                service.api_key,
                base_url=service.base_url,
                journal=journal,
                poll_interval=interval,
                account="sandbox",
                budget=budget,
            ) as client,
        ):
            yield client, journal, ""
        return
    url = os.environ.get("VIDGEN_BASE_URL", "") if settings.base_url is None else settings.base_url
    if needs_key and os.environ.get("VIDGEN_API_KEY") is None:
        message = "no API key: set the variable VIDGEN_API_KEY, or try generate with --sandbox, which needs none"
        raise ConfigurationError(message)
    if not url.strip():
        why = "" if needs_key else ". The journal stores the orders of each service separately; nothing is sent to it"
        raise ConfigurationError(f"no base URL: set VIDGEN_BASE_URL or use --base-url; it ends in /openapi/v1{why}")
    is_of_tasks = access is Access.TASKS
    journal, place = await _open_for_tasks(settings, warn) if is_of_tasks else open_journal(settings.journal, access)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            client = Client(
                None if needs_key else _refuse_key,
                base_url=settings.base_url,
                proxy=settings.proxy,
                account=settings.account,
                journal=journal,
                poll_interval=settings.poll_interval or (LOCAL_INTERVAL if _is_local(url) else RECOMMENDED_INTERVAL),
                on_update=on_update,
                retry_reads_for=settings.read_retry,
                budget=budget,
            )
        except ConfigurationError as error:
            raise ConfigurationError(_name_option(error.message)) from error
    for text in dict.fromkeys(str(warning.message) for warning in caught if settings.shows_warnings):
        warn(_name_option(text))
    async with client:
        yield client, journal, place


def sandbox_class() -> "type[Sandbox]":
    """Import the sandbox; ConfigurationError names the extra that it needs."""
    try:
        from vidgen_async.sandbox import Sandbox  # noqa: PLC0415 - only those who use it need it
    except ImportError as error:
        if error.__cause__ is None:
            raise
        raise ConfigurationError(str(error)) from error
    return Sandbox


async def _open_for_tasks(settings: Settings, warn: Callable[[str], None]) -> tuple[OwnJournal, str]:
    """Return the journal of Access.TASKS. If it cannot be read, that is an error only if --journal names it."""
    named = settings.journal
    try:
        found = open_journal(named, Access.EXISTING if named else Access.LOOKUP)
        try:
            await found[0].check()
        except JournalError:
            await found[0].aclose()
            raise
    except (ConfigurationError, JournalError) as error:
        if named:
            raise
        warn(no_order_ids(error))
        return MemoryJournal(), ""
    return found


def no_order_ids(error: ConfigurationError | JournalError) -> str:
    """The warning of a command about tasks that continues without the journal."""
    return f"no order ids are looked up, only task ids: {error.summary}"


def open_journal(text: str | None, access: Access) -> tuple[OwnJournal, str]:
    """Return the journal of this name, or the default one, and its place; ConfigurationError if it must exist."""
    if access is Access.NONE:
        return MemoryJournal(), ""
    text = text or os.environ.get("VIDGEN_JOURNAL")
    if not text and access is Access.NEW:
        _make_directory(journal_file().parent)
    journal = cast("OwnJournal", journal_from(text) if text else SqliteJournal(journal_file()))
    if isinstance(journal, MemoryJournal):
        return journal, str(text)
    if access is not Access.NEW and isinstance(journal, SqliteJournal) and not os.path.lexists(journal.path):
        if text and access is Access.EXISTING:
            raise ConfigurationError(f"there is no journal at {journal.path}")
        return MemoryJournal(), journal.name
    return journal, journal.name


def journal_file() -> Path:
    """The default journal: the file ``orders.db`` in the user's data directory."""
    return user_data_path("vidgen", appauthor=False) / "orders.db"


def _make_directory(path: Path) -> None:
    """Create the directory of the default journal for this user alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {path} for the journal: {error.strerror or error}. Choose another with "
            "--journal sqlite:///FILE or VIDGEN_JOURNAL; memory: stores nothing"
        ) from error


def describe_settings(settings: Settings, base_url: URL) -> str:
    """Where the base URL was set, and the proxy if there is one."""
    source = "VIDGEN_BASE_URL" if settings.base_url is None else "--base-url"
    found = EnvironmentProxies.read().setting_for(base_url)
    proxy = "--proxy" if settings.proxy and not is_on_this_machine(base_url) else found and found[0]
    return f"The base URL was set by {source}" + (f", the proxy by {proxy}." if proxy else ".")


def _refuse_key() -> str:
    """The key of a command that only uses the journal, so that nothing can be sent without one."""
    raise ConfigurationError("this command sends nothing to the service")


def _is_local(url: str) -> bool:
    try:
        return is_on_this_machine(URL(url.strip()))
    except ValueError:  # which the client reports
        return False


def _name_option(message: str) -> str:
    """The message of a client, with an argument that it begins with as an option."""
    name, space, rest = message.partition(" ")
    return f"{OPTIONS_OF_CLIENT.get(name, name)}{space}{rest}"

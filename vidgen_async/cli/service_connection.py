"""The service that a command connects to: that of the environment, or a sandbox for the duration of the command."""

import os
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path
from yarl import URL

from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.settings import Access, Settings
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.client.settings import checked_base_url
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import Journal, MemoryJournal, SqliteJournal, journal_from
from vidgen_async.transports.direct.proxies import EnvironmentProxies, is_on_this_machine
from vidgen_async.types.orders import Order, OrderRef
from vidgen_async.watcher.hooks import OnUpdate

if TYPE_CHECKING:
    from vidgen_async.sandbox import Sandbox

#: Polling interval in seconds for a service on this machine, and for the embedded sandbox.
LOCAL_INTERVAL = 1.0
SANDBOX_INTERVAL = 0.25
#: Seconds for which a task of the embedded sandbox is queued, then running.
SANDBOX_TIMES = (0.5, 1.0)
#: Seconds for which a failing request that costs nothing is retried; at a terminal, where the user waits, for less.
USUAL_RETRY = 60.0
TERMINAL_RETRY = 5.0
#: The options for arguments of the client, which its messages begin with.
OPTIONS_OF_CLIENT = {"base_url": "--base-url", "proxy": "--proxy", "account": "--account"}


@asynccontextmanager
async def open_client(
    settings: Settings,
    run_state: RunState,
    screen: Screen,
    *,
    orders: Access,
    on_update: OnUpdate | None = None,
    needs_key: bool = True,
) -> AsyncIterator[tuple[Client, Journal]]:
    """Open a client of the service, and its journal. Only a command that may add ``orders`` creates a journal on the
    disk."""
    if not settings.is_sandbox:
        _check_environment(settings, needs_key=needs_key)
        journal, place = (MemoryJournal(), "") if orders is Access.NONE else open_journal(settings.journal, orders)
        run_state.is_durable = journal.durable
        async with _client(settings, journal, screen, on_update, needs_key=needs_key) as client:
            base_url = parse_base_url(settings.base_url)
            run_state.host, run_state.host_settings = str(base_url.host), _describe_settings(settings, base_url)
            if place:
                origin = base_url.origin()
                run_state.journal_place = f"in the journal {place} for account {settings.account!r} at {origin}"
            yield client, journal
        return
    queued, running = SANDBOX_TIMES
    async with sandbox_class()(queued_for=queued, running_for=running) as service:
        screen.print_fact("sandbox", "running a sandbox on this machine: no key is used and nothing is charged")
        interval = settings.poll_interval or SANDBOX_INTERVAL
        journal = MemoryJournal()
        made = Client(
            service.api_key,
            base_url=service.base_url,
            journal=journal,
            poll_interval=interval,
            account="sandbox",
        )
        async with made as client:
            yield client, journal


def parse_base_url(text: str | None) -> URL:
    """The base URL, by default that of VIDGEN_BASE_URL, without its warnings: the client gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checked_base_url(text)


def sandbox_class() -> "type[Sandbox]":
    """Import the sandbox; ConfigurationError names the extra that it needs."""
    try:
        from vidgen_async.sandbox import Sandbox  # noqa: PLC0415 - only those who use it need it
    except ImportError as error:
        missing = error.__cause__ or error
        if not isinstance(missing, ModuleNotFoundError):
            raise
        message = f'the sandbox needs {missing.name}, which is not installed: pip install "vidgen-async[sandbox]"'
        raise ConfigurationError(message) from error
    return Sandbox


def open_journal(text: str | None, orders: Access) -> tuple[Journal, str]:
    """Return the journal with this name, by default that of VIDGEN_JOURNAL or the user's own, and its place as text;
    ConfigurationError if a named one must exist and does not."""
    text = text or os.environ.get("VIDGEN_JOURNAL")
    if not text and orders is not Access.NEW and not journal_file().exists():
        return MemoryJournal(), str(journal_file())
    journal = journal_from(text) if text else SqliteJournal(default_journal())
    if isinstance(journal, MemoryJournal):
        return journal, str(text)
    if not isinstance(journal, SqliteJournal):
        from vidgen_async.journal import PostgresJournal  # noqa: PLC0415 - it needs psycopg, which an extra installs

        return journal, journal.name if isinstance(journal, PostgresJournal) else ""
    if orders is Access.LOOKUP and not os.path.lexists(journal.path):
        return MemoryJournal(), str(journal.path)
    if orders is Access.EXISTING and not os.path.lexists(journal.path):
        raise ConfigurationError(f"there is no journal at {journal.path}")
    return journal, str(journal.path)


async def find_orders(settings: Settings, ids: Iterable[str], screen: Screen) -> dict[str, Order]:
    """Return the orders in the journal that have one of these ids. A journal that cannot be read is an error only if
    --journal names it: tasks are read without one."""
    try:
        service = str(parse_base_url(settings.base_url).origin())
        journal, _ = open_journal(settings.journal, Access.EXISTING if settings.journal else Access.LOOKUP)
        try:
            now = datetime.now(UTC)
            refs = [OrderRef(service=service, account=settings.account, order_id=name) for name in ids]
            found = [await journal.get(ref, now) for ref in refs if ref.order_id.isprintable()]
        finally:
            await journal.aclose()
    except (ConfigurationError, JournalError) as error:
        if settings.journal:
            raise
        screen.warn(f"no order ids are looked up, only task ids: {error.summary}")
        return {}
    return {order.order_id: order for order in found if order is not None}


def journal_file() -> Path:
    """The default journal: the file ``orders.db`` in the user's data directory."""
    return user_data_path("vidgen", appauthor=False) / "orders.db"


def default_journal() -> Path:
    """:func:`journal_file`; its directory is created for this user alone, or ConfigurationError is raised."""
    file = journal_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {file.parent} for the journal: {error.strerror or error}. Choose another "
            "with --journal sqlite:///FILE or VIDGEN_JOURNAL; memory: stores nothing"
        ) from error
    return file


def _check_environment(settings: Settings, *, needs_key: bool) -> None:
    if needs_key and os.environ.get("VIDGEN_API_KEY") is None:
        message = "no API key: set the variable VIDGEN_API_KEY, or try generate with --sandbox, which needs none"
        raise ConfigurationError(message)
    if settings.base_url is None and not os.environ.get("VIDGEN_BASE_URL", "").strip():
        why = "" if needs_key else ". The journal stores the orders of each service separately; nothing is sent to it"
        raise ConfigurationError(f"no base URL: set VIDGEN_BASE_URL or use --base-url; it ends in /openapi/v1{why}")


def _refuse_key() -> str:
    """The key of a command that only uses the journal, so that nothing can be sent without one."""
    raise ConfigurationError("this command sends nothing to the service")


def _client(
    settings: Settings, journal: Journal, screen: Screen, on_update: OnUpdate | None, *, needs_key: bool
) -> Client:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _named_options():
            base_url = parse_base_url(settings.base_url)
        usual = LOCAL_INTERVAL if is_on_this_machine(base_url) else RECOMMENDED_INTERVAL
        with _named_options():
            client = Client(
                None if needs_key else _refuse_key,
                base_url=settings.base_url,
                proxy=settings.proxy,
                account=settings.account,
                journal=journal,
                poll_interval=settings.poll_interval or usual,
                on_update=on_update,
                retry_reads_for=_retry_for(settings),
            )
    for text in dict.fromkeys(str(warning.message) for warning in caught if settings.shows_warnings):
        screen.warn(_name_option(text))
    return client


def _retry_for(settings: Settings) -> float:
    usual = TERMINAL_RETRY if settings.is_impatient else USUAL_RETRY
    return usual if settings.retry_for is None else settings.retry_for


@contextmanager
def _named_options() -> Iterator[None]:
    """Let errors name the options of the command instead of the arguments of the client."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(_name_option(error.message)) from error


def _name_option(message: str) -> str:
    """The message of a client, with an argument that it begins with as an option."""
    name, space, rest = message.partition(" ")
    return f"{OPTIONS_OF_CLIENT.get(name, name)}{space}{rest}"


def _describe_settings(settings: Settings, base_url: URL) -> str:
    """Where the base URL was set, and the proxy if there is one."""
    source = "VIDGEN_BASE_URL" if settings.base_url is None else "--base-url"
    found = EnvironmentProxies.read().setting_for(base_url)
    proxy = "--proxy" if settings.proxy and not is_on_this_machine(base_url) else found and found[0]
    return f"The base URL was set by {source}" + (f", the proxy by {proxy}." if proxy else ".")

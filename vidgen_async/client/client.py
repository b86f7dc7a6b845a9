"""The client: its configuration, its resources, and its end."""

import os
import warnings
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import NoReturn, Self

from attrs import evolve
from yarl import URL

from vidgen_async.client.context import ClientContext
from vidgen_async.client.lifetime import Lifetime
from vidgen_async.client.resources import AccountInfo, Files, Models
from vidgen_async.client.settings import (
    checked_base_url,
    checked_key,
    checked_name,
    checked_states,
    make_transport,
)
from vidgen_async.client.videos import OnUpdate, Videos
from vidgen_async.clock import Clock, LoopClock
from vidgen_async.errors import ConfigurationError
from vidgen_async.journal import Journal, MemoryJournal, journal_from
from vidgen_async.orders import KEY_LIFETIME, Orders, Sender
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.confirmation import Confirmation
from vidgen_async.service.catalog import LiveCatalog
from vidgen_async.service.codec import read_account, read_poll, read_task
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports.base import Capabilities, Transport, capabilities_of
from vidgen_async.transports.direct.proxies import is_on_this_machine
from vidgen_async.types.http import Timeouts
from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import TerminalStatus, VideoTask
from vidgen_async.watcher import Watcher

#: Section 8: polling once per 60 seconds is recommended.
RECOMMENDED_INTERVAL = 60.0


class Client:
    """The service, for one API key on one event loop.

    Nothing is opened before the first call. Use it as ``async with Client() as client:`` or call :meth:`aclose`.

    Every call raises ClientStateError when the client is closed, in a forked child, or on another event loop. Transient
    read failures are retried for ``retry_reads_for`` seconds; after that, and for permanent failures, a read raises a
    ServiceError (the service answered: AuthenticationError, NotFoundError, RateLimitError …, section 7) or a
    TransportError (it did not). Cancelling a call stops that call; it never undoes anything at the service. Section
    numbers, here and in messages, are those of the service's own interface description.

    Args:
        api_key: Default: VIDGEN_API_KEY.
        base_url: Default: VIDGEN_BASE_URL. It ends in ``/openapi/v1``.
        transport: Carries the requests (default: the network). The client closes it.
        journal: Where orders are stored before they are sent: an object, ``"sqlite:///orders.db"``, or VIDGEN_JOURNAL;
            otherwise they are kept in memory, for this process only. The client closes it.
        clock: Used for all waiting. Default: the transport's own, else the event loop's.
        poll_interval: Seconds between two polls of a task (section 8 recommends 60). A poll waits for its answer for a
            quarter of that, but at least 10 and at most ``timeouts.read`` seconds: a service that does not answer must
            not delay the polls of all other tasks for longer.
        account: Your own name for the account that owns the orders.
        namespace: A random word of your deployment (or VIDGEN_NAMESPACE). The Idempotency-Key of an order is derived
            from it, the account and the order id, so that it is the same in every process and journal. Without it each
            journal has its own.
        max_connections: Maximum number of concurrent polls, and also of other concurrent reads.
        proxy: The URL of a proxy (default: VIDGEN_PROXY), http:// or https://. A base URL on this machine is always
            reached directly. Over plain http:// a proxy can read the key, and may repeat a create.
        trust_env: Use the proxies of ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, unless one is
            named.
        on_update: Called with every change that a watch sees, of any task, the terminal one included; it may be async.
            It never slows the polls, its errors are logged, and :meth:`aclose` waits for it.
        terminal_states: Maps states that section 3 does not name to ``"completed"`` or ``"failed"``, for example
            ``{"expired": "failed"}``. Such a task ends; the service's own word is in ``extra["status"]``. Without it a
            task in an unknown state is polled until the wait's ``timeout``.
        pacing: The service's submission limit.
        retry_reads_for: Seconds for which a failing read is retried.
        key_lifetime: Seconds for which the service is assumed to remember an Idempotency-Key, since the service
            description states no duration: an older order is resent only with ``accept_duplicate_risk=True``.

    Raises:
        ConfigurationError: Names the argument or variable that is wrong, and why.
    """

    _base_url: URL | None = None  # so that repr() works if __init__ failed

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | URL | None = None,
        transport: Transport | None = None,
        journal: Journal | str | None = None,
        clock: Clock | None = None,
        poll_interval: float = RECOMMENDED_INTERVAL,
        timeouts: Timeouts | None = None,
        account: str = "default",
        namespace: str | None = None,
        max_connections: int = 100,
        proxy: str | URL | None = None,
        trust_env: bool = True,
        on_update: OnUpdate | None = None,
        terminal_states: Mapping[str, TerminalStatus] | None = None,
        pacing: Pacing | None = None,
        retry_reads_for: float = 60.0,
        key_lifetime: float = KEY_LIFETIME,
    ) -> None:
        key = checked_key(api_key)
        endpoints = Endpoints(checked_base_url(base_url), key, timeouts or Timeouts())
        self._base_url = endpoints.base_url
        if transport is not None and proxy is not None:
            message = "proxy is a setting of the transport: give it to the DirectTransport"
            raise ConfigurationError(message)
        self._transport = transport or make_transport(
            endpoints.base_url, proxy=proxy, trust_env=trust_env, max_connections=max_connections
        )
        capabilities = capabilities_of(self._transport)
        self._journal = _journal(journal, capabilities)
        self._clock: Clock = clock or capabilities.clock or LoopClock()
        self._lifetime = Lifetime()
        reads = Reads(self._transport, self._clock, origin=endpoints.origin, known=(key,), retry_for=retry_reads_for)
        live_catalog = LiveCatalog(reads, endpoints, self._clock)
        word = namespace or os.environ.get("VIDGEN_NAMESPACE") or None
        read_balance = partial(reads.once, endpoints.get_account(), read_account)

        async def get_task_once(task_id: str) -> VideoTask:
            return await reads.once(endpoints.get_video(task_id), partial(read_task, task_id=task_id))

        # A cassette holds the requests of the caller, and nothing else.
        is_on_cassette = capabilities.is_replay or capabilities.is_recording
        balances = Balances(None if is_on_cassette else read_balance, self._journal, self._clock)
        sender = Sender(
            self._transport,
            endpoints,
            self._journal,
            self._clock,
            pacing=pacing or Pacing(),
            confirmation=Confirmation(journal=self._journal, clock=self._clock, get_task=get_task_once),
            namespace=None if word is None else checked_name("namespace", word),
            balances=balances,
            known=(key,),
        )
        self.orders: Orders = Orders(
            sender,
            self._journal,
            self._clock,
            service=endpoints.origin,
            account=checked_name("account", account),
            check_usable=self._lifetime.check,
            get_task=lambda task_id: reads.retry(endpoints.get_video(task_id), partial(read_task, task_id=task_id)),
            check=live_catalog.refuse_invalid,
            key_lifetime=_checked_lifetime(key_lifetime),
        )
        """The orders in the journal, and an operator's decisions about uncertain ones."""
        states = checked_states(terminal_states)
        interval = _checked_interval(poll_interval, endpoints.base_url)
        polls = evolve(endpoints, timeouts=_poll_timeouts(endpoints.timeouts, interval), is_for_polls=True)
        self._watcher = Watcher(
            lambda task_id, mark, *, is_task_needed: reads.once(
                polls.get_video(task_id),
                partial(read_poll, task_id=task_id, seen=mark, is_task_needed=is_task_needed, terminal_states=states),
            ),
            clock=self._clock,
            interval=interval,
            concurrency=max_connections,
            on_update=on_update,
            on_terminal=self.orders.results.record_end,
            is_origin_known=lambda: reads.has_answer or sender.has_answer,
        )
        context = ClientContext(
            lifetime=self._lifetime,
            endpoints=endpoints,
            reads=reads,
            clock=self._clock,
            watcher=self._watcher,
            balances=balances,
            live_catalog=live_catalog,
            terminal_states=states,
        )
        self.models: Models = Models(context)
        self.account: AccountInfo = AccountInfo(context)
        self.files: Files = Files(context)
        self.videos: Videos = Videos(context, self.orders)

    def __repr__(self) -> str:
        return f"Client(base_url={None if self._base_url is None else str(self._base_url)!r})"

    def __reduce__(self) -> NoReturn:
        message = "a Client cannot be pickled: it holds an event loop's connections; make one in each process"
        raise TypeError(message)

    @property
    def watcher(self) -> Watcher:
        """The scheduler of ``videos.wait``, ``watch`` and ``as_completed``. ``watcher.stats`` is cheap to read."""
        return self._watcher

    async def __aenter__(self) -> Self:
        self._lifetime.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Refuse further calls, wait up to ``grace`` seconds for creates under way, and as long again for calls of
        ``on_update``; then release everything. Calling it twice is fine.

        Waits end with ClientStateError, which stops no task. A create without an answer by then stays *sending* in the
        journal, and its caller gets an UncertainCreateError. A recording transport publishes its cassette now.

        Raises:
            CassetteError: The cassette could not be published.
        """
        self._lifetime.is_closed = True
        try:
            await self.orders.aclose(grace)
        finally:
            try:
                await self._watcher.aclose(grace=grace)
            finally:
                try:
                    await self._transport.aclose()
                finally:
                    await self._journal.aclose()


def _journal(given: Journal | str | None, capabilities: Capabilities) -> Journal:
    named = given
    if named is None and (not capabilities.is_replay or capabilities.goes_out):
        named = os.environ.get("VIDGEN_JOURNAL") or None
    if named is None:
        return MemoryJournal()
    journal = journal_from(named) if isinstance(named, str) else named
    if capabilities.is_replay and journal.durable:
        message = (
            "a replay must not write into a durable journal: its orders were never sent, and would count as sent; "
            "give no journal (and no VIDGEN_JOURNAL if creates may also be sent), or a MemoryJournal"
        )
        raise ConfigurationError(message)
    return journal


def _checked_lifetime(seconds: float) -> float:
    if not seconds >= 0:
        message = f"key_lifetime must be a number of seconds, 0 or more: {seconds!r}"
        raise ConfigurationError(message)
    return seconds


def _poll_timeouts(timeouts: Timeouts, interval: float) -> Timeouts:
    patience = max(interval / 4.0, 10.0)
    limits = {name: min(getattr(timeouts, name) or patience, patience) for name in ("read", "answer")}
    return evolve(timeouts, **limits)


def _checked_interval(seconds: float, base_url: URL) -> float:
    if not seconds > 0:
        message = f"poll_interval must be a number of seconds above 0: {seconds!r}"
        raise ConfigurationError(message)
    if seconds < RECOMMENDED_INTERVAL and not is_on_this_machine(base_url):
        warnings.warn(
            f"poll_interval is {seconds:g} s; the service recommends {RECOMMENDED_INTERVAL:g} s",
            UserWarning,
            stacklevel=3,
        )
    return seconds

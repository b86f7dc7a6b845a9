"""The client: its configuration, its resources, and its end."""

import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from yarl import URL

from vidgen_async.client.settings import (
    check_arguments,
    checked_app_info,
    checked_base_url,
    checked_budgets,
    checked_headers,
    checked_keys,
    checked_name,
    checked_retry_for,
    checked_states,
    checked_timeouts,
    is_finite,
    make_transport,
    user_agent,
)
from vidgen_async.clock import Clock, LoopClock
from vidgen_async.errors import ConfigurationError
from vidgen_async.events import follow_environment
from vidgen_async.transports.base import Transport, checked_transport
from vidgen_async.transports.direct.proxies import is_on_this_machine
from vidgen_async.types.budgets import Budget
from vidgen_async.types.http import KeyFunction, Timeouts, make_headers
from vidgen_async.types.limits import KEY_LIFETIME, Pacing
from vidgen_async.types.resources import TerminalStatus

if TYPE_CHECKING:
    from vidgen_async.client.views import View
    from vidgen_async.journal import Journal
    from vidgen_async.orders import Orders
    from vidgen_async.watcher import Watcher
    from vidgen_async.watcher.hooks import OnUpdate

# What a client is made of is imported when the first one is made: a program that imports the class may make none.

#: Section 8: polling once per 60 seconds is recommended.
RECOMMENDED_INTERVAL = 60.0


class Client:
    """The service, for one API key on one event loop.

    Use it as ``async with Client() as client:``, which checks the journal, or call :meth:`aclose`. Nothing else is
    opened before the first call.

    Every call raises ClientStateError when the client is closed, in a forked child, or on another event loop. Transient
    read failures are retried for ``retry_reads_for`` seconds; after that, and for permanent failures, a read raises a
    ServiceError (the service answered: AuthenticationError, NotFoundError, RateLimitError …, section 7) or a
    TransportError (it did not). Cancelling a call stops that call; it never undoes anything at the service. Section
    numbers, here and in messages, are those of the service's own interface description.

    Args:
        api_key: Default: VIDGEN_API_KEY. A function that returns the present key, which may be async and must not
            block, is called before the first request, and again when a key was refused: a read is then repeated once
            with the new key, a create never. It must return within the shortest of ``timeouts.connect``, ``read`` and
            ``answer``. If it does not, or raises, the request fails with KeyFunctionError; a poll is sent again later.
        base_url: Default: VIDGEN_BASE_URL. It ends in ``/openapi/v1``.
        transport: Carries the requests (default: the network). The client closes it.
        journal: Where orders are stored before they are sent: an object, ``"sqlite:///orders.db"``, or VIDGEN_JOURNAL;
            otherwise they are kept in memory, for this process only: the first create with an ``order_id`` warns that
            after a restart this id would create a second video. The client closes it. With a sandbox of the same
            process, orders in the journal of VIDGEN_JOURNAL are warned about.
        clock: Used for all waiting. Default: the transport's own, else the event loop's.
        poll_interval: Seconds between two polls of a task (section 8 recommends 60). A poll waits for its answer for a
            quarter of that, but at least 10 and at most ``timeouts.read`` seconds: a service that does not answer must
            not delay the polls of all other tasks for longer.
        account: Your own name for the account that owns the orders.
        namespace: A random word of your deployment (or VIDGEN_NAMESPACE). The Idempotency-Key of an order is derived
            from it, the account and the order id, so that it is the same in every process and journal. Without it each
            journal has its own.
        max_connections: Maximum number of concurrent polls, and also of other concurrent reads.
        proxy: The URL of a proxy (default: VIDGEN_PROXY), ``http://`` or ``https://``. A base URL on this machine is
            always reached directly. Over plain HTTP a proxy can read the key, and may repeat a create.
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
        default_headers: Sent with every request to the service itself, never to another origin, nor with its signed
            links. Their values are treated as secrets. Headers that the SDK sets are refused.
        app_info: The name and the version of your program, ``("shop", "2.1")``, for the User-Agent header.
        budget: The points that the creates of the account may cost, in all processes that share the journal (default:
            VIDGEN_BUDGET, such as ``500/24h``, with the price VIDGEN_PRICE).

    Raises:
        ConfigurationError: Names the argument or variable that is wrong, and why.
    """

    _base_url: URL | None = None  # so that repr() works if __init__ failed
    _is_view = False

    def __init__(
        self,
        api_key: str | KeyFunction | None = None,
        *,
        base_url: str | URL | None = None,
        transport: Transport | None = None,
        journal: "Journal | str | None" = None,
        clock: Clock | None = None,
        poll_interval: float = RECOMMENDED_INTERVAL,
        timeouts: Timeouts | None = None,
        account: str = "default",
        namespace: str | None = None,
        max_connections: int = 100,
        proxy: str | URL | None = None,
        trust_env: bool = True,
        on_update: "OnUpdate | None" = None,
        terminal_states: Mapping[str, TerminalStatus] | None = None,
        pacing: Pacing | None = None,
        retry_reads_for: float = 60.0,
        key_lifetime: float = KEY_LIFETIME,
        default_headers: Mapping[str, str] | None = None,
        app_info: tuple[str, str] | None = None,
        budget: Budget | None = None,
    ) -> None:
        from vidgen_async.client.views import Lifetime, Options, View  # noqa: PLC0415 - as above
        from vidgen_async.orders import Shared  # noqa: PLC0415
        from vidgen_async.transports.fake import FakeTransport  # noqa: PLC0415
        from vidgen_async.watcher import Watcher  # noqa: PLC0415

        follow_environment()
        check_arguments(pacing=pacing, clock=clock, journal=journal, on_update=on_update, trust_env=trust_env)
        keys = checked_keys(api_key)
        self._base_url = base = checked_base_url(base_url)
        options = Options(
            api_key=keys,
            headers=checked_headers(default_headers, "default_headers"),
            timeouts=checked_timeouts(timeouts, Timeouts()),
            poll_interval=_checked_interval(poll_interval, base),
            retry_for=checked_retry_for("retry_reads_for", retry_reads_for),
            account=checked_name("account", account),
            budgets=checked_budgets(budget),
        )
        program = checked_app_info(app_info)
        if transport is not None and proxy is not None:
            raise ConfigurationError("proxy is a setting of the transport: give it to the DirectTransport")
        transport = checked_transport(
            transport or make_transport(base, proxy=proxy, trust_env=trust_env, max_connections=max_connections)
        )
        namespace = namespace or os.environ.get("VIDGEN_NAMESPACE") or None
        self._lifetime = Lifetime()
        shared = Shared(
            transport=transport,
            journal=_journal(journal, transport, base),
            clock=clock or transport.clock or LoopClock(),
            base_url=base,
            check_usable=self._lifetime.check,
            user_agent=user_agent(transport.user_agent, program),
            pacing=pacing or Pacing(),
            namespace=None if namespace is None else checked_name("namespace", namespace),
            key_lifetime=_checked_lifetime(key_lifetime),
            terminal_states=checked_states(terminal_states),
            known_secrets=(keys,) if isinstance(keys, str) else (),
            has_unnamed_journal=journal is None
            and not os.environ.get("VIDGEN_JOURNAL")
            and not isinstance(transport, FakeTransport)
            and not (transport.is_replay or transport.is_recording)
            and not is_on_this_machine(base),
        )
        view = View(shared, options)
        self._watcher = Watcher(
            view.poll,
            clock=shared.clock,
            is_origin_known=shared.has_answered.is_set,
            interval=options.poll_interval,
            concurrency=max_connections,
            on_update=on_update,
            on_terminal=shared.results.record_end,
            find_accepted=view.orders.find_accepted,
        )
        self._use(view)

    def _use(self, view: "View") -> None:
        from vidgen_async.client.resources import AccountInfo, Files, Models  # noqa: PLC0415
        from vidgen_async.client.videos import Videos  # noqa: PLC0415

        self._view = view
        self.orders: Orders = view.orders
        """The orders in the journal, and an operator's decisions about uncertain ones."""
        self.models: Models = Models(view)
        self.account: AccountInfo = AccountInfo(view)
        self.files: Files = Files(view)
        self.videos: Videos = Videos(view, self._watcher)

    def with_options(
        self,
        *,
        api_key: str | KeyFunction | None = None,
        account: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        poll_interval: float | None = None,
        retry_for: float | None = None,
        budget: Budget | None = None,
    ) -> Self:
        """A view of this client with other options: for a call, or for a customer with an API key of their own.

        It shares everything else (connections, journal, scheduler, submission limit of the account, loop), costs a few
        kilobytes, and is registered nowhere, so it may be made for each request; one that is kept has the cache of its
        key's catalog. Its :meth:`aclose`, also at the end of ``async with``, does nothing: the client that it comes
        from waits for its orders, and closes it. A view of a view changes the options of that view.

        Args:
            api_key: Sends its requests, creates and polls. What is known of a task is never shared between keys.
            account: Needed with ``api_key``: the orders of each account have order ids and Idempotency-Keys of their
                own. Pass the client's own (``"default"``) for another key of the same account.
            headers: Added to ``default_headers``, of which they replace those with the same name.
            timeouts: For its requests.
            poll_interval: Seconds. Where several waits share the polls of a task, the shortest counts.
            retry_for: Seconds for which a failing read is retried.
            budget: Applies in addition to the one of the client.

        Raises:
            ConfigurationError: Names the argument that is wrong, and why.
        """
        from vidgen_async.client.views import Options, View  # noqa: PLC0415

        old = self._view.options
        if api_key is not None and account is None:
            raise ConfigurationError(
                "with_options(api_key=…) needs account=, your own name for the account of that key: two customers may "
                f"use the same order id. For another key of the same account pass account={old.account!r}"
            )
        keys = old.api_key if api_key is None else checked_keys(api_key)
        if keys == old.api_key:
            keys = old.api_key  # which has the key already if it is a function
        added = checked_headers(headers, "headers")
        kept = [(name, value) for name, value in old.headers.items() if name not in added]
        options = Options(
            api_key=keys,
            headers=make_headers([*kept, *added.items()]),
            timeouts=checked_timeouts(timeouts, old.timeouts),
            poll_interval=(
                old.poll_interval if poll_interval is None else _checked_interval(poll_interval, self.base_url)
            ),
            retry_for=old.retry_for if retry_for is None else checked_retry_for("retry_for", retry_for),
            account=old.account if account is None else checked_name("account", account),
            budgets=old.budgets if budget is None else (*old.budgets, *checked_budgets(budget)),
        )
        view: Self = object.__new__(type(self))
        vars(view).update(vars(self), _is_view=True)  # what a subclass has, too
        view._use(View(self._view.shared, options, self._view))
        return view

    def __repr__(self) -> str:
        return f"Client(base_url={None if self._base_url is None else str(self._base_url)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client cannot be pickled: it holds an event loop's connections; make one in each process")

    @property
    def watcher(self) -> "Watcher":
        """The scheduler of ``videos.wait``, ``watch`` and ``as_completed``. ``watcher.stats`` is cheap to read."""
        return self._watcher

    @property
    def base_url(self) -> URL:
        """The base URL of the service, without a slash at its end."""
        return self._view.shared.base_url

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`aclose` was called, of a view: of the client that it comes from."""
        return self._lifetime.is_closed

    if not TYPE_CHECKING:  # which reports it already

        def __enter__(self) -> NoReturn:
            raise TypeError('a Client is opened and closed by the event loop: write "async with" instead of "with"')

        def __exit__(self, *_: object) -> None:
            raise NotImplementedError  # a block that was not entered has no end

    async def __aenter__(self) -> Self:
        """Check the journal, where one is named, and with a budget its sums. Nothing else is written or opened.

        Raises:
            JournalError: It cannot be used: its directory does not exist, the server cannot be reached, …
        """
        self._lifetime.check()
        if not self._is_view:
            try:
                await self._view.shared.journal.check()
                await self.orders.prepare_budget()
            except BaseException:
                await self.aclose()  # a block that is not entered is not left
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Refuse further calls, wait up to ``grace`` seconds for creates under way, and as long again for calls of
        ``on_update``; then release everything. Calling it twice is fine.

        Waits end with ClientStateError, which stops no task. A create without an answer by then stays *sending* in the
        journal, and its caller gets an UncertainCreateError. A recording transport publishes its cassette now. Of a
        view (:meth:`with_options`) it does nothing.

        Raises:
            CassetteError: The cassette could not be published.
        """
        if self._is_view:
            return
        shared = self._view.shared
        self._lifetime.is_closed = True
        async with AsyncExitStack() as stack:
            stack.push_async_callback(shared.journal.aclose)
            stack.push_async_callback(shared.transport.aclose)
            stack.push_async_callback(self._watcher.aclose, grace=grace)
            await self.orders.aclose(grace)


def _journal(given: "Journal | str | None", transport: Transport, base_url: URL) -> "Journal":
    from vidgen_async.journal import MemoryJournal, journal_from  # noqa: PLC0415

    named = given
    if named is None and (not transport.is_replay or transport.goes_out):
        named = os.environ.get("VIDGEN_JOURNAL") or None
    if named is None:
        return MemoryJournal()
    journal = journal_from(named) if isinstance(named, str) else named
    if transport.is_replay and journal.durable:
        raise ConfigurationError(
            "a replay must not write into a durable journal: its orders were never sent, and would count as sent; "
            "give no journal (and no VIDGEN_JOURNAL if creates may also be sent), or a MemoryJournal"
        )
    if given is None and journal.durable and _is_sandbox_here(base_url):
        warnings.warn(
            "this client belongs to a sandbox of this process, and VIDGEN_JOURNAL is set: its orders are stored in the "
            f'journal {journal!r}. Make it with Client(journal="memory:"), or with a journal of its own',
            UserWarning,
            stacklevel=3,
        )
    return journal


def _is_sandbox_here(base_url: URL) -> bool:
    """Whether a sandbox of this process listens there. Neither package imports the other."""
    listener = sys.modules.get("vidgen_async.sandbox.listener")
    return listener is not None and is_on_this_machine(base_url) and base_url.port in listener.open_ports()


def _checked_lifetime(seconds: float) -> float:
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ConfigurationError(f"key_lifetime must be a number of seconds, 0 or more: {seconds!r:.80}")
    return seconds


def _checked_interval(seconds: float, base_url: URL) -> float:
    if not is_finite(seconds) or seconds <= 0:
        raise ConfigurationError(f"poll_interval must be a number of seconds above 0: {seconds!r}")
    if seconds < RECOMMENDED_INTERVAL and not is_on_this_machine(base_url):
        warnings.warn(
            f"poll_interval is {seconds:g} s; the service recommends {RECOMMENDED_INTERVAL:g} s",
            UserWarning,
            stacklevel=3,
        )
    return seconds

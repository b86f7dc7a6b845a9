"""What a client or a view of it (``with_options``) has of its own, and how it is made."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import cast

from attrs import evolve, field, frozen

from vidgen_async.client.settings import PollTimeouts
from vidgen_async.errors import ClientStateError, ConfigurationError
from vidgen_async.journal.base import SpendingJournal
from vidgen_async.orders import Orders, Sender, Shared
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.budgets import Budgets
from vidgen_async.service.api_keys import KeyRing
from vidgen_async.service.catalog import LiveCatalog
from vidgen_async.service.codec import read_account, read_poll, read_task
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.budgets import Budget
from vidgen_async.types.http import Headers, Timeouts
from vidgen_async.types.resources import TerminalStatus, VideoTask
from vidgen_async.watcher.listeners import Polling

#: How to use a client in code without an event loop.
_ADVICE = "use vidgen_async.blocking.ClientThread (docs/how-to/without-an-event-loop.md)"


class Lifetime:
    """Whether a client may be used: in one process, on the first event loop that uses it, until it is closed."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def check(self) -> None:
        """Raise ClientStateError, with advice, unless the client may be used here and now."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ClientStateError(f"there is no running event loop here; {_ADVICE}") from None
        if self.is_closed:
            raise ClientStateError("the client is closed; make a new one (or keep it open longer)")
        if os.getpid() != self._process:
            raise ClientStateError(
                "the client was made before this process was forked; make one in the child, after the fork"
            )
        if self._loop is not None and self._loop is not loop:
            raise ClientStateError(
                "the client is in use on another event loop; make one client for each loop (each asyncio.run is a new "
                f"loop). In code without an event loop, {_ADVICE}"
            )
        self._loop = loop


@frozen(kw_only=True)
class Options:
    """What ``with_options`` changes."""

    api_key: str | KeyRing = field(repr=False)
    headers: Headers = field(repr=False)
    timeouts: Timeouts
    poll_interval: float
    retry_for: float
    account: str
    budgets: tuple[Budget, ...] = ()
    """Those of the client, and of the views that it was made of."""


@frozen
class TaskPoll:
    """The poll of a task. Those with the same key and headers are equal."""

    sender: tuple[object, ...] = field(repr=False)
    reads: Reads = field(eq=False, repr=False)
    endpoints: Endpoints = field(eq=False)
    terminal_states: Mapping[str, TerminalStatus] = field(eq=False)

    def __call__(
        self, task_id: str, mark: int | None, *, is_task_needed: bool
    ) -> Awaitable[tuple[VideoTask | str | None, int | None]]:
        read = partial(
            read_poll,
            task_id=task_id,
            seen=mark,
            is_task_needed=is_task_needed,
            terminal_states=self.terminal_states,
        )
        return self.reads.once(self.endpoints.get_video(task_id), read)


class View:
    """One API key, account, and set of options, on what all views of a client share. A view uses the
    cached catalog and the balances of its ``parent`` if both have the same key and headers."""

    def __init__(self, shared: Shared, options: Options, parent: "View | None" = None) -> None:
        if options.budgets and not isinstance(shared.journal, SpendingJournal):
            raise ConfigurationError(
                f"the journal {type(shared.journal).__name__} cannot enforce a budget; it lacks operations of "
                "vidgen_async.journal.SpendingJournal"
            )
        self.shared = shared
        self.options = options
        self.clock = shared.clock
        self.check_usable = shared.check_usable
        self.endpoints = endpoints = Endpoints(
            shared.base_url,
            options.api_key,
            options.timeouts,
            user_headers=options.headers,
            user_agent=shared.user_agent,
        )
        self.reads = reads = Reads(
            shared.transport,
            shared.clock,
            origin=endpoints.origin,
            known=endpoints.secret_values,
            key_ring=endpoints.key_ring,
            retry_for=options.retry_for,
            on_answer=shared.has_answered.set,
        )
        timeouts = PollTimeouts.of(options.timeouts, options.poll_interval)
        polls = evolve(endpoints, timeouts=timeouts, is_for_polls=True)
        self.poll = TaskPoll((options.api_key, *options.headers.items()), reads, polls, shared.terminal_states)
        self.polling = Polling(self.poll, options.poll_interval)
        if parent is not None and self.poll == parent.poll:
            self.balances: Balances = parent.balances
            self.live_catalog: LiveCatalog = parent.live_catalog
        else:
            # A cassette holds the requests of the caller, and nothing else.
            is_on_cassette = shared.transport.is_replay or shared.transport.is_recording
            read_balance = None if is_on_cassette else partial(reads.once, endpoints.get_account(), read_account)
            self.balances = Balances(read_balance, shared.clock, shared.settlement)
            self.live_catalog = LiveCatalog(reads, endpoints, shared.clock)
        spending = cast("SpendingJournal", shared.journal)
        self.budgets = Budgets(options.budgets, spending, shared.results, self.live_catalog.find)
        self.orders = Orders(
            shared,
            Sender(shared, endpoints, self.balances, partial(_get_task, reads.once, endpoints), self.budgets),
            options.account,
            partial(_get_task, reads.retry, endpoints),
            self.live_catalog.refuse_invalid,
            self.budgets,
        )


def _get_task(send: Callable[..., Awaitable[VideoTask]], endpoints: Endpoints, task_id: str) -> Awaitable[VideoTask]:
    return send(endpoints.get_video(task_id), partial(read_task, task_id=task_id))

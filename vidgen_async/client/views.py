"""What a client and its views share, what each of them has of its own, and how the latter is made."""

from collections.abc import Awaitable, Mapping
from functools import partial

from attrs import evolve, field, frozen
from yarl import URL

from vidgen_async.client.context import ClientContext
from vidgen_async.client.settings import PollTimeouts
from vidgen_async.clock import Clock
from vidgen_async.journal import Journal
from vidgen_async.orders import Orders, Sender
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.confirmation import Confirmation
from vidgen_async.orders.orders import Lifetime
from vidgen_async.orders.results import Results
from vidgen_async.orders.sending import OrdersUnderWay
from vidgen_async.service.api_keys import KeyRing
from vidgen_async.service.catalog import LiveCatalog
from vidgen_async.service.codec import read_account, read_poll, read_task
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports.base import Transport
from vidgen_async.types.http import Headers, Timeouts
from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import TerminalStatus, VideoTask
from vidgen_async.watcher import Watcher
from vidgen_async.watcher.polling import Polling


@frozen(kw_only=True)
class ViewOptions:
    """What ``with_options`` changes."""

    api_key: str | KeyRing = field(repr=False)
    headers: Headers = field(repr=False)
    timeouts: Timeouts
    poll_interval: float
    retry_for: float
    account: str


@frozen(kw_only=True)
class Shared:
    """One of each per client, for all its views."""

    transport: Transport
    journal: Journal
    clock: Clock
    base_url: URL
    user_agent: str
    lifetime: Lifetime
    under_way: OrdersUnderWay
    results: Results
    pacing: Pacing
    key_lifetime: float
    terminal_states: Mapping[str, TerminalStatus]
    is_on_cassette: bool


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


def make_reads(shared: Shared, options: ViewOptions, first: Reads | None = None) -> tuple[Endpoints, Reads, TaskPoll]:
    """The endpoints with the view's key and headers, its reads, and its poll. ``first``: the reads of the client."""
    endpoints = Endpoints(
        shared.base_url, options.api_key, options.timeouts, user_headers=options.headers, user_agent=shared.user_agent
    )
    reads = Reads(
        shared.transport,
        shared.clock,
        origin=endpoints.origin,
        known=endpoints.secret_values,
        key_ring=endpoints.key_ring,
        retry_for=options.retry_for,
        first=first,
    )
    timeouts = PollTimeouts.of(options.timeouts, options.poll_interval)
    polls = evolve(endpoints, timeouts=timeouts, is_for_polls=True)
    poll = TaskPoll((options.api_key, *options.headers.items()), reads, polls, shared.terminal_states)
    return endpoints, reads, poll


def make_context(
    shared: Shared, endpoints: Endpoints, reads: Reads, polling: Polling, watcher: Watcher
) -> ClientContext:
    """What the resources of a client share."""
    read_balance = partial(reads.once, endpoints.get_account(), read_account)
    # A cassette holds the requests of the caller, and nothing else.
    balances = Balances(None if shared.is_on_cassette else read_balance, shared.clock, shared.under_way.settlement)
    return ClientContext(
        lifetime=shared.lifetime,
        endpoints=endpoints,
        reads=reads,
        clock=shared.clock,
        watcher=watcher,
        polling=polling,
        balances=balances,
        live_catalog=LiveCatalog(reads, endpoints, shared.clock),
        terminal_states=shared.terminal_states,
    )


def make_view_context(shared: Shared, options: ViewOptions, old: ClientContext, first: Reads) -> ClientContext:
    """The same for a view of the client with the context ``old``, whose cached catalog it has if its key is the same.
    ``first``: the reads of the client."""
    endpoints, reads, poll = make_reads(shared, options, first)
    polling = Polling(poll, options.poll_interval)
    if poll == old.polling.poll:
        return evolve(old, endpoints=endpoints, reads=reads, polling=polling)
    return make_context(shared, endpoints, reads, polling, old.watcher)


def make_orders(shared: Shared, options: ViewOptions, context: ClientContext) -> Orders:
    """The orders of the view's account, which are sent with its key."""
    reads, endpoints = context.reads, context.endpoints

    async def get_task_once(task_id: str) -> VideoTask:
        return await reads.once(endpoints.get_video(task_id), partial(read_task, task_id=task_id))

    async def get_task(task_id: str) -> VideoTask:
        return await reads.retry(endpoints.get_video(task_id), partial(read_task, task_id=task_id))

    sender = Sender(
        shared.transport,
        endpoints,
        shared.journal,
        shared.clock,
        pacing=shared.pacing,
        confirmation=Confirmation(journal=shared.journal, clock=shared.clock, get_task=get_task_once),
        balances=context.balances,
        known=endpoints.secret_values,
        under_way=shared.under_way,
    )
    return Orders(
        sender,
        shared.journal,
        shared.clock,
        service=endpoints.origin,
        account=options.account,
        check_usable=shared.lifetime.check,
        get_task=get_task,
        check=context.live_catalog.refuse_invalid,
        key_lifetime=shared.key_lifetime,
        results=shared.results,
    )

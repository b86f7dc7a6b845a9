"""The objects that the resources of one client share."""

from collections.abc import Mapping

from attrs import frozen

from vidgen_async.clock import Clock
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.orders import Lifetime
from vidgen_async.service.catalog import LiveCatalog
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.resources import TerminalStatus
from vidgen_async.watcher import Watcher
from vidgen_async.watcher.polling import Polling


@frozen(kw_only=True)
class ClientContext:
    """One of each per client."""

    lifetime: Lifetime
    endpoints: Endpoints
    reads: Reads
    clock: Clock
    watcher: Watcher
    polling: Polling
    balances: Balances
    live_catalog: LiveCatalog
    terminal_states: Mapping[str, TerminalStatus]
    """States that section 3 does not name, and the terminal ones that they count as."""

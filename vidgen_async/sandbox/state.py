"""What a sandbox holds and offers in Python, apart from its sockets."""

import heapq
import math
import secrets
from itertools import count
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import ge, lt

from vidgen_async.sandbox.accounts import DEFAULT_BALANCE, Account, Accounts, Failure, LedgerEntry, Outcome, SandboxTask
from vidgen_async.sandbox.assets import AssetStore
from vidgen_async.sandbox.catalog import SNAPSHOT, CatalogEntry
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.faults import FaultPlan
from vidgen_async.sandbox.http import LINK_PATH
from vidgen_async.sandbox.links import Addresses
from vidgen_async.sandbox.media import RenderCache
from vidgen_async.sandbox.request_log import LOGGED_REQUESTS, ReceivedCreate, ReceivedRequest


@frozen
class CreateOptions:
    """How creates are handled: the arguments of :class:`~vidgen_async.sandbox.Sandbox` of the same names."""

    queued_for: float = field(validator=[ge(0.0), lt(math.inf)])
    running_for: float = field(validator=[ge(0.0), lt(math.inf)])
    submission_limit: int
    allow_unknown_fields: bool
    outcome: Outcome


class SandboxState:
    """The accounts, catalog, tasks, uploads, faults, clock and received requests of a sandbox."""

    def __init__(self, clock: SandboxClock, assets: AssetStore, options: CreateOptions) -> None:
        self.clock = clock
        self.accounts = Accounts()
        self.models: dict[str, CatalogEntry] = {entry.code: entry for entry in SNAPSHOT}
        self.tasks: dict[str, SandboxTask] = {}
        self.faults = FaultPlan()
        #: The uploads of all accounts. Iterating returns those that were not deleted, also expired ones.
        self.assets = assets
        self.create_options = options
        #: A heap of the tasks whose failure will be refunded, each with the time of its end and its id.
        self.refunds: list[tuple[float, str, SandboxTask]] = []
        self.next_failures: list[Failure] = []
        self.render_cache = RenderCache()
        #: Every POST /videos whose head arrived, in order, whatever its outcome.
        self.creates: list[ReceivedCreate] = []
        #: The requests at both origins, in order; only the latest if there are more than 20,000.
        self.requests: list[ReceivedRequest] = []

    @property
    def base_url(self) -> str:
        """The URL of the six endpoints; ends in ``/openapi/v1``."""
        return self.addresses_for(None).base_url

    @property
    def links_url(self) -> str:
        """The second origin, to which signed links lead."""
        return self.addresses_for(None).links

    @property
    def console_url(self) -> str:
        """The URL of the web console; the control paths are below ``/sandbox/`` on the same origin."""
        return self.addresses_for(None).service + "/"

    def addresses_for(self, host: str | None) -> Addresses:
        """Return the two origins for the client of a request with this Host; None if there is no request."""
        return self.assets.addresses.for_host(host)

    @property
    def api_key(self) -> str:
        """The key of the first account."""
        return self._account.api_key

    @property
    def _account(self) -> Account:
        return next(iter(self.accounts.values()))

    @property
    def rendered(self) -> int:
        """How many videos were rendered, or read from the package where PyAV is not installed."""
        return self.render_cache.rendered

    @property
    def ledger(self) -> list[LedgerEntry]:
        """The credit ledger of the first account, with the refunds that are due."""
        return self.ledger_of(self._account.name)

    def ledger_of(self, name: str) -> list[LedgerEntry]:
        """Return the credit ledger of the account of this name, with the refunds that are due."""
        self.settle()
        return self.account(name).ledger

    def account(self, name: str) -> Account:
        """Return the account of this name; a LookupError lists the names that exist."""
        for account in self.accounts.values():
            if account.name == name:
                return account
        raise LookupError(f"there is no account {name!r}; there are: {', '.join(self.accounts.names)}")

    @property
    def balance(self) -> int:
        """The credits of the first account. Setting them adds an adjustment to the ledger."""
        self.settle()
        return self._account.balance

    @balance.setter
    def balance(self, credits_left: int) -> None:
        self.set_balance(self._account, credits_left)

    def set_balance(self, account: Account, credits_left: int) -> None:
        """Set the credits of an account, with an adjustment in its ledger."""
        self.settle()
        account.book(self.clock.now(), "adjustment", credits_left - account.balance)

    def settle(self) -> None:
        """Book the refunds that are due. Reading a ledger or a balance of the sandbox does this too."""
        now = self.clock.now()
        while self.refunds and self.refunds[0][0] <= now:
            at, _, task = heapq.heappop(self.refunds)
            task.account.book(at, "refund", task.points, task.id)

    def add_account(
        self, *, name: str | None = None, api_key: str | None = None, balance: int = DEFAULT_BALANCE
    ) -> Account:
        """Add an account with its own key and ledger. ValueError if the name or the key is invalid or in use."""
        api_key = f"sandbox-key-{secrets.token_hex(16)}" if api_key is None else api_key
        free = (f"account-{n}" for n in count(1) if f"account-{n}" not in self.accounts.names)
        account = Account(next(free) if name is None else name, api_key)
        self.accounts.put(account)
        account.book(self.clock.now(), "opening", balance)
        return account

    def add_task(self, task: SandboxTask) -> None:
        """Add a task with its Idempotency-Key and the refund to expect."""
        self.tasks[task.id] = task
        if task.idempotency_key is not None:
            task.account.keys[task.idempotency_key] = task.id
        if task.failure and task.failure.refund:
            heapq.heappush(self.refunds, (task.ends_at, task.id, task))

    def add_request(self, request: ReceivedRequest) -> None:
        if len(self.requests) >= 2 * LOGGED_REQUESTS:
            del self.requests[:LOGGED_REQUESTS]
        request.n = self.requests[-1].n + 1 if self.requests else 1
        self.requests.append(request)
        if request.op == "videos.create":
            key = request.headers.get("Idempotency-Key")
            request.create = ReceivedCreate(len(self.creates) + 1, key, request.headers, request.at)
            self.creates.append(request.create)

    def add_model(self, entry: CatalogEntry) -> None:
        """Add an entry to the catalog, or replace the entry with its code."""
        self.models[entry.code] = entry

    def change_model(self, code: str, **changes: Any) -> None:
        """Change fields of an entry, e.g. ``enabled=False`` or ``maintenance=True``."""
        self.models[code] = evolve(self.models[code], **changes)

    def fail_next_task(self, reason: str = "the sandbox failed this task on request", *, refund: bool = True) -> None:
        """Let the next task fail. Each call affects one more task."""
        self.next_failures.append(Failure(reason, refund))

    def delete_asset(self, asset_id: str) -> None:
        """Delete an uploaded image before it expires; KeyError if there is none with this id."""
        del self.assets.by_id[asset_id]

    def reset(self) -> None:
        """Remove all tasks, uploads, faults, planned failures and received requests, and reduce every ledger to its
        opening entry. The accounts with their keys, the catalog and the clock stay."""
        for each in (self.tasks, self.assets.by_id, self.refunds, self.next_failures, self.faults, self.creates):
            each.clear()
        self.requests.clear()
        for account in self.accounts.values():
            account.reset(self.clock.now())

    def new_link(self, task_id: str, *, lifetime: float | None = None, links_url: str | None = None) -> str:
        """Return a signed link to a task's video, by default at :attr:`links_url`. A negative ``lifetime`` makes an
        expired link."""
        path = LINK_PATH.format(link=f"{self.tasks[task_id].upstream_task_id}.mp4")
        return (links_url or self.links_url) + self.assets.signer.sign(path, self.clock.now(), lifetime)

    async def video(self, task_id: str) -> bytes:
        """Return the MP4 of a task in any state; it is rendered once. KeyError if there is no such task."""
        return await self.render_cache.video(self.tasks[task_id].film)

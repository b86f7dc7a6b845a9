"""What a sandbox holds, and what can be done with it from Python: everything except its sockets."""

from typing import Any

from attrs import evolve

from vidgen_async.sandbox.assets import AssetStore
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.faults import FaultPlan
from vidgen_async.sandbox.ledger import DEFAULT_BALANCE, Account, Accounts, LedgerEntry
from vidgen_async.sandbox.request_log import ReceivedCreate, ReceivedRequest, RequestLog
from vidgen_async.sandbox.routes import PREFIX
from vidgen_async.sandbox.tasks import DEFAULT_REASON, Failure, SandboxTask


class SandboxState:
    """The accounts, catalog, tasks, uploads, faults, clock and received requests of a sandbox."""

    def __init__(self, host: str, endpoints: Endpoints) -> None:
        self.host = host
        self.clock: SandboxClock = endpoints.clock
        self.accounts: Accounts = endpoints.accounts
        self.models: dict[str, CatalogEntry] = endpoints.desk.models
        self.tasks: dict[str, SandboxTask] = endpoints.desk.tasks
        self.faults: FaultPlan = FaultPlan()
        self.log: RequestLog = RequestLog()
        self._endpoints = endpoints

    @property
    def base_url(self) -> str:
        """Where the six endpoints are; ends in ``/openapi/v1``."""
        return self._endpoints.service_url + PREFIX.rstrip("/")

    @property
    def links_url(self) -> str:
        """The second origin, where signed links lead."""
        return self._endpoints.links_url

    @property
    def console_url(self) -> str:
        """Where a browser sees what the sandbox holds; the control paths are below ``/sandbox/`` on the same origin."""
        return self._endpoints.service_url + "/"

    @property
    def api_key(self) -> str:
        """The key of the first account."""
        return self._account.api_key

    @property
    def _account(self) -> Account:
        return next(iter(self.accounts.values()))

    @property
    def creates(self) -> list[ReceivedCreate]:
        """Every POST /videos whose head arrived, in order, whatever became of it."""
        return self.log.creates

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request on either origin, in order; of very many, the latest ones."""
        return self.log.requests

    @property
    def assets(self) -> AssetStore:
        """The uploads of all accounts; iterates over every one that was not deleted, expired ones too."""
        return self._endpoints.desk.assets

    @property
    def rendered(self) -> int:
        """How many videos were rendered."""
        return self._endpoints.projector.rendered

    @property
    def ledger(self) -> list[LedgerEntry]:
        """The credit ledger of the first account, with the refunds that are due by now."""
        return self.ledger_of(self._account.name)

    def ledger_of(self, name: str) -> list[LedgerEntry]:
        """The credit ledger of the account of this name, with the refunds that are due by now."""
        self.settle()
        return self.account(name).ledger

    def account(self, name: str) -> Account:
        """The account of this name; LookupError lists the names that there are."""
        return self.accounts.named(name)

    @property
    def balance(self) -> int:
        """The credits of the first account; setting it books an adjustment."""
        self.settle()
        return self._account.balance

    @balance.setter
    def balance(self, credits_left: int) -> None:
        self.set_balance(self._account, credits_left)

    def set_balance(self, account: Account, credits_left: int) -> None:
        """Book the adjustment that leaves an account with these credits."""
        self.settle()
        account.book(self.clock.now(), "adjustment", credits_left - account.balance)

    def settle(self) -> None:
        """Book the refunds that are due by now; every look at a ledger or a balance above does it."""
        self._endpoints.desk.refunds.settle(self.clock.now())

    def add_account(
        self, *, name: str | None = None, api_key: str | None = None, balance: int = DEFAULT_BALANCE
    ) -> Account:
        """Another user, with a key and a ledger of its own. ValueError for a name or a key that is taken already."""
        return self.accounts.open(name, api_key, balance, self.clock.now())

    def add_model(self, entry: CatalogEntry) -> None:
        """Put an entry into the catalog, or another in the place of the one with its code."""
        self.models[entry.code] = entry

    def change_model(self, code: str, **changes: Any) -> None:
        """Change fields of an entry, e.g. ``enabled=False`` or ``maintenance=True``."""
        self.models[code] = evolve(self.models[code], **changes)

    def fail_next_task(self, reason: str = DEFAULT_REASON, *, refund: bool = True) -> None:
        """Let the next task that is created end as failed; may be called several times for several tasks."""
        self._endpoints.desk.next_outcomes.append(Failure(reason, refund))

    def delete_asset(self, asset_id: str) -> None:
        """Delete an uploaded image before its retention is over; KeyError if there is none."""
        self._endpoints.desk.assets.delete(asset_id)

    def reset(self) -> None:
        """As if nothing had been asked of it yet: no tasks, uploads, faults, planned failures, received creates and
        requests; every ledger is its opening entry. The accounts with their keys, the catalog and the clock stay."""
        self._endpoints.desk.clear()
        self.faults.clear()
        self.log.clear()
        for account in self.accounts.values():
            account.start_over(self.clock.now())

    def new_link(self, task_id: str, *, lifetime: float | None = None) -> str:
        """A signed link to a task's video; with a ``lifetime`` of its own, e.g. a negative one for an expired link."""
        return self._endpoints.link(self.tasks[task_id], self.clock.now(), lifetime)

    async def video(self, task_id: str) -> bytes:
        """The MP4 of a task, whatever its state; it is rendered once. KeyError when there is no such task."""
        return (await self._endpoints.projector.video(self.tasks[task_id].film)).content

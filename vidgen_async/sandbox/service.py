"""The sandbox: the service of the description, for real and alone."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from attrs import evolve

from vidgen_async.sandbox.assets import RETENTION, AssetStore
from vidgen_async.sandbox.catalog import SNAPSHOT, CatalogEntry
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.creates import CreateDesk
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.faults import FaultPlan
from vidgen_async.sandbox.ledger import DEFAULT_BALANCE, Account, Accounts, LedgerEntry
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.media.render_cache import Projector
from vidgen_async.sandbox.request_handler import Exchanges
from vidgen_async.sandbox.request_log import OnRequest, OriginName, ReceivedCreate, ReceivedRequest
from vidgen_async.sandbox.routes import PREFIX
from vidgen_async.sandbox.signed_links import WEEK, LinkSigner
from vidgen_async.sandbox.store.persistence import Persistence
from vidgen_async.sandbox.store.state_file import StateError, StateFile
from vidgen_async.sandbox.tasks import DEFAULT_REASON, Failure, Outcome, Refunds, SandboxTask, outcome_by_prompt
from vidgen_async.sandbox.web.pages import own_pages


class Sandbox:
    """The whole service on one machine, on real sockets, without the SDK.

    ``async with Sandbox() as service:`` listens at ``service.base_url`` and takes ``service.api_key``; signed links
    live on a second origin, ``service.links_url``. Leaving it ends every handler where it is and leaves no
    socket, thread or worker behind. A sandbox is opened once.

    Times (``queued_for``, ``running_for``, ``link_lifetime``, ``retention``) are seconds of ``service.clock``, which
    runs ``speed`` times as fast as real time, or is ``clock`` if one is given. ``outcome`` decides how a new task will
    end; by default one whose prompt holds ``[fail: reason]`` fails, with a refund. A field that section 2.4 does not
    know is refused, unless ``allow_unknown_fields``.

    Bodies are taken up to 1 MiB, uploads up to 64 MiB and 50 megapixels.

    There is one account, with ``balance`` credits, and one more for each of ``accounts``, which gives their names and
    credits. ``on_request`` is called, in the event loop, with every request when it has arrived and again when it is
    over; it must not raise.

    ``state`` is a file, or a directory for it, that keeps accounts, ledgers, tasks, uploads, the catalog, the time and
    the secret of the links: a sandbox that is opened on it again goes on where the last one was, even if that was
    killed. What a request brought about is written before its answer goes out (503 if it cannot be); what was changed
    from Python is written with the next answer or on closing. Accounts on record keep their credits, and those given
    here are added to them. Ports, faults and received creates are not kept. Opening raises StateError for a file
    that is damaged, written by a newer version, something else, or in use by another sandbox.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        balance: int = DEFAULT_BALANCE,
        host: str = "127.0.0.1",
        port: int = 0,
        links_port: int = 0,
        clock: SandboxClock | None = None,
        speed: float = 1.0,
        queued_for: float = 1.0,
        running_for: float = 3.0,
        submission_limit: int = 100,
        link_lifetime: float = WEEK,
        retention: float = RETENTION,
        outcome: Outcome = outcome_by_prompt,
        allow_unknown_fields: bool = False,
        accounts: Mapping[str, int] | None = None,
        state: str | os.PathLike[str] | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self.host = host
        self.clock: SandboxClock = clock or SandboxClock(speed)
        self.faults: FaultPlan = FaultPlan()
        self.models: dict[str, CatalogEntry] = {entry.code: entry for entry in SNAPSHOT}
        self.tasks: dict[str, SandboxTask] = {}
        self.accounts: Accounts = Accounts()
        self._given_key = api_key
        self.add_account(api_key=api_key, balance=balance)
        for name, credits_of_it in (accounts or {}).items():
            self.add_account(name=name, balance=credits_of_it)
        signer = LinkSigner(link_lifetime)
        self._desk = CreateDesk(
            models=self.models,
            assets=AssetStore("", signer, retention),
            tasks=self.tasks,
            refunds=Refunds(),
            queued_for=queued_for,
            running_for=running_for,
            submission_limit=submission_limit,
            allow_unknown_fields=allow_unknown_fields,
            outcome=outcome,
        )
        self._endpoints = Endpoints(
            clock=self.clock,
            accounts=self.accounts,
            desk=self._desk,
            signer=signer,
            projector=Projector(),
        )
        self._persistence = None if state is None else Persistence(StateFile(Path(state)), self._endpoints)
        self._exchanges = Exchanges(
            clock=self.clock,
            endpoints=self._endpoints,
            faults=self.faults,
            pages=own_pages(self),
            keep=self._persistence.save if self._persistence else (lambda: None),
            on_request=on_request or (lambda _: None),
        )
        self._service = Origin(host, port, partial(self._answer, "service"))
        self._links = Origin(host, links_port, partial(self._answer, "links"))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._persistence is not None:
                self._persistence.open()
                stack.callback(self._persistence.close)
                if self._given_key not in (None, self.api_key):
                    message = f"the state {self._persistence.path} has another API key for {self._account.name!r}"
                    raise StateError(message)
            stack.push_async_callback(self._endpoints.projector.aclose)
            for origin in (self._links, self._service):
                await origin.open()
                stack.push_async_callback(origin.aclose)
            self._stack = stack.pop_all()
        self._endpoints.links_url = self.links_url
        self._endpoints.service_url = self._desk.assets.base = self._service.url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close at once; a second time does nothing."""
        await self._stack.aclose()

    @property
    def base_url(self) -> str:
        """Where the six endpoints are; ends in ``/openapi/v1``."""
        return self._service.url + PREFIX.rstrip("/")

    @property
    def links_url(self) -> str:
        """The second origin, where signed links lead."""
        return self._links.url

    @property
    def console_url(self) -> str:
        """Where a browser sees what the sandbox holds; the control paths are below ``/sandbox/`` on the same origin."""
        return self._service.url + "/"

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
        return self._exchanges.creates

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request on either origin, in order; of very many, the latest ones."""
        return self._exchanges.requests

    @property
    def assets(self) -> AssetStore:
        """The uploads of all accounts; iterates over every one that was not deleted, expired ones too."""
        return self._desk.assets

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
        self._desk.refunds.settle(self.clock.now())

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
        self._desk.next_outcomes.append(Failure(reason, refund))

    def delete_asset(self, asset_id: str) -> None:
        """Delete an uploaded image before its retention is over; KeyError if there is none."""
        self._desk.assets.delete(asset_id)

    def reset(self) -> None:
        """As if nothing had been asked of it yet: no tasks, uploads, faults, planned failures, received creates and
        requests; every ledger is its opening entry. The accounts with their keys, the catalog and the clock stay."""
        self._desk.clear()
        self.faults.clear()
        self._exchanges.forget()
        for account in self.accounts.values():
            account.start_over(self.clock.now())

    def new_link(self, task_id: str, *, lifetime: float | None = None) -> str:
        """A signed link to a task's video; with a ``lifetime`` of its own, e.g. a negative one for an expired link."""
        return self._endpoints.link(self.tasks[task_id], self.clock.now(), lifetime)

    async def video(self, task_id: str) -> bytes:
        """The MP4 of a task, whatever its state; it is rendered once. KeyError when there is no such task."""
        return (await self._endpoints.projector.video(self.tasks[task_id].film)).content

    async def refuse(self) -> None:
        """Close the service's port for real, and the connections to it: who connects is refused. The second origin
        goes on."""
        await self._service.refuse()

    async def accept(self) -> None:
        """Listen again, on the same port."""
        await self._service.accept()

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """:meth:`refuse` for the length of a block."""
        await self.refuse()
        try:
            yield
        finally:
            await self.accept()

    async def _answer(self, name: OriginName, request: web.BaseRequest) -> web.StreamResponse:
        origin = self._service if name == "service" else self._links
        return await self._exchanges.answer(origin, name, request)

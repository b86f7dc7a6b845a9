"""The sandbox: the service of the description, for real and alone."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from vidgen_async.sandbox.assets import RETENTION, AssetStore
from vidgen_async.sandbox.catalog import SNAPSHOT
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.creates import CreateDesk
from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.ledger import DEFAULT_BALANCE, Accounts
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.media.render_cache import Projector
from vidgen_async.sandbox.request_handler import Exchanges
from vidgen_async.sandbox.request_log import OnRequest, OriginName
from vidgen_async.sandbox.responses import Answer
from vidgen_async.sandbox.signed_links import WEEK, LinkSigner
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.store.persistence import Persistence
from vidgen_async.sandbox.store.state_file import StateError, StateFile
from vidgen_async.sandbox.tasks import Outcome, Refunds, outcome_by_prompt
from vidgen_async.sandbox.web.console import console_pages
from vidgen_async.sandbox.web.control import control_pages
from vidgen_async.sandbox.web.openapi import describe
from vidgen_async.sandbox.web.pages import Pages


class Sandbox(SandboxState):
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
        clock = clock or SandboxClock(speed)
        signer = LinkSigner(link_lifetime)
        desk = CreateDesk(
            models={entry.code: entry for entry in SNAPSHOT},
            assets=AssetStore("", signer, retention),
            tasks={},
            refunds=Refunds(),
            queued_for=queued_for,
            running_for=running_for,
            submission_limit=submission_limit,
            allow_unknown_fields=allow_unknown_fields,
            outcome=outcome,
        )
        endpoints = Endpoints(clock=clock, accounts=Accounts(), desk=desk, signer=signer, projector=Projector())
        super().__init__(host, endpoints)
        self._given_key = api_key
        self.add_account(api_key=api_key, balance=balance)
        for name, credits_of_it in (accounts or {}).items():
            self.add_account(name=name, balance=credits_of_it)
        self._persistence = None if state is None else Persistence(StateFile(Path(state)), endpoints)
        self._exchanges = Exchanges(
            clock=self.clock,
            endpoints=endpoints,
            faults=self.faults,
            pages=self._pages(),
            keep=self._persistence.save if self._persistence else (lambda: None),
            on_request=on_request or (lambda _: None),
            log=self.log,
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
        self._endpoints.links_url = self._links.url
        self._endpoints.service_url = self.assets.base = self._service.url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close at once; a second time does nothing."""
        await self._stack.aclose()

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

    def _pages(self) -> Pages:
        """Return the pages beside the paths of the service."""
        openapi = {"GET": lambda _: Answer.json(200, describe(self.base_url))}
        return Pages({**console_pages(self), "/openapi.json": openapi, **control_pages(self)}, self.host)

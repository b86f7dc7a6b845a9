"""The sandbox: the whole service of the description on local sockets."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

from vidgen_async.sandbox.accounts import DEFAULT_BALANCE, Outcome, outcome_by_prompt
from vidgen_async.sandbox.assets import RETENTION, AssetStore
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.links import WEEK, Addresses, LinkSigner, PublicAddresses, check_origin
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.request_handler import RequestDispatcher
from vidgen_async.sandbox.request_log import OnRequest
from vidgen_async.sandbox.state import CreateOptions, SandboxState
from vidgen_async.sandbox.state_file import StateError, StateFile
from vidgen_async.sandbox.web.control import control_pages
from vidgen_async.sandbox.web.pages import console_pages


class Sandbox(SandboxState):
    """The whole service on local sockets, without the SDK.

    ``async with Sandbox() as service:`` listens at ``service.base_url`` and accepts ``service.api_key``. Signed links
    are on a second origin, ``service.links_url``. Leaving the block cancels every handler and leaves no socket, thread
    or worker open. A sandbox can be opened once.

    Its videos have the requested duration and size if PyAV is installed (the extra ``video``). Without it they are
    placeholders of one second in the requested aspect ratio, and the first one logs a warning.

    Args:
        api_key: The key of the first account; a random one by default.
        balance: The credits of the first account.
        host: The address to listen on.
        port: The port of the service; 0 is a free port.
        links_port: The port of the signed links; 0 is a free port.
        public_url: The URL of the service for its clients, without a path, if it is behind a proxy. By default the
            links in an answer have the name and port in the Host of the request. ``X-Forwarded-*`` is ignored.
        public_links_url: The URL of the signed links, if its port or host differs. By default the links have the name
            of the service and ``links_port``.
        clock: The clock to use; by default a new one with ``speed``.
        speed: Seconds of the sandbox's time per second of real time; 0 stops the clock.
        queued_for: Seconds for which a task is queued. This and the next times are in the sandbox's time.
        running_for: Seconds for which a task then runs.
        submission_limit: Creates per account within 60 seconds; more are answered with 429.
        link_lifetime: Seconds for which a signed link is valid.
        retention: Seconds for which an upload can be used.
        outcome: Decides how a new task ends. By default a task fails, with a refund, if its prompt contains
            ``[fail: reason]``.
        allow_unknown_fields: Accept creates with fields that section 2.4 does not have.
        accounts: More accounts: their names and credits.
        state: A file, or a directory for it, that stores accounts, ledgers, tasks, uploads, the catalog, the time and
            the secret of the links: a sandbox that is opened with it continues where the last one ended, even if that
            was killed. Changes are stored before the answer of their request (503 if that fails), those from Python
            with the next request that is no GET or HEAD (above speed 1, with any), or on closing. Stored accounts keep
            their credits; those of the arguments are added. Ports, faults, planned failures, received requests and
            counted submissions are not stored.
        on_request: Called in the event loop with every request when it arrives, and again when it has been handled. It
            must not raise.

    Bodies may have 1 MiB, uploads 64 MiB and 50 megapixels.

    Raises:
        StateError: On opening: the state is damaged, has another format, belongs to another program, or is in use by
            another sandbox.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        balance: int = DEFAULT_BALANCE,
        host: str = "127.0.0.1",
        port: int = 0,
        links_port: int = 0,
        public_url: str | None = None,
        public_links_url: str | None = None,
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
        addresses = PublicAddresses(
            check_origin("public_url", public_url), check_origin("public_links_url", public_links_url)
        )
        super().__init__(
            clock or SandboxClock(speed),
            AssetStore(addresses, LinkSigner(link_lifetime), retention),
            CreateOptions(queued_for, running_for, submission_limit, allow_unknown_fields, outcome),
        )
        self._api_key_argument = api_key
        self.add_account(api_key=api_key, balance=balance)
        for name, credits_left in (accounts or {}).items():
            self.add_account(name=name, balance=credits_left)
        self._state_file = None if state is None else StateFile(Path(state), self)
        dispatcher = RequestDispatcher(
            sandbox=self,
            pages={**console_pages(self), **control_pages(self)},
            host=host,
            save=self._state_file.save if self._state_file else (lambda: None),
            on_request=on_request or (lambda _: None),
        )
        self._service = Origin("service", host, port, dispatcher.answer)
        self._links = Origin("links", host, links_port, dispatcher.answer)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._state_file is not None:
                stack.enter_context(self._state_file.open())
                if self._api_key_argument not in (None, self.api_key):
                    raise StateError(
                        f"the state {self._state_file.path} has another API key for the account {self._account.name!r}"
                    )
            stack.push_async_callback(self.render_cache.aclose)
            for origin in (self._links, self._service):
                await origin.open()
                stack.push_async_callback(origin.aclose)
            self._stack = stack.pop_all()
        self.assets.addresses.listening = Addresses(self._service.url, self._links.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the sandbox immediately. May be called twice."""
        await self._stack.aclose()

    async def refuse(self) -> None:
        """Close the service's port and the connections to it: new connections are refused. The origin of the signed
        links stays open."""
        await self._service.refuse()

    async def accept(self) -> None:
        """Listen again on the same port."""
        await self._service.accept()

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Refuse connections while the block runs, as :meth:`refuse` does."""
        await self.refuse()
        try:
            yield
        finally:
            await self.accept()

"""A service whose ledger is the oracle, and clients of it."""

import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from unittest.mock import AsyncMock

from attrs import Factory, define
from yarl import URL

from tests.proof.model import MISTAKEN
from vidgen_async.clock import Clock
from vidgen_async.errors import ConnectionLostError, NotFoundError
from vidgen_async.journal import Journal
from vidgen_async.orders import Orders, Sender, Shared
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.budgets import Budgets
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Request, Timeouts
from vidgen_async.types.resources import VideoTask


class Fate(StrEnum):
    """What becomes of a create whose bytes have left."""

    TAKEN = "taken"
    ANSWER_LOST = "taken, the answer lost"
    REQUEST_LOST = "lost"
    REFUSED = "refused"


@define
class Service:
    """Makes a task of each create that it takes, also of one whose key it has seen: the worst that it may do."""

    decide: Callable[[], Awaitable[Fate]]
    on_connect: Callable[[Request], Awaitable[None]] | None = None
    posts: list[tuple[str, bytes]] = Factory(list)
    """The Idempotency-Key and the body of each."""
    fates: list[Fate] = Factory(list)
    """In the order in which they were decided."""
    tasks: list[str] = Factory(list)

    def transport(self) -> FakeTransport:
        return FakeTransport(self._handle, on_connect=self.on_connect)

    async def _handle(self, request: Request) -> BufferedResponse:
        body = b"".join([piece async for piece in request.body.open()])
        self.posts.append((request.headers["Idempotency-Key"], body))
        fate = await self.decide()
        self.fates.append(fate)
        if fate in {Fate.TAKEN, Fate.ANSWER_LOST}:
            self.tasks.append(f"task-{len(self.tasks) + 1}")
        if fate is Fate.TAKEN:
            return BufferedResponse(202, json.dumps({"id": self.tasks[-1]}).encode())
        if fate is Fate.REFUSED:
            return BufferedResponse(402, b'{"error": {"code": "NO", "message": "no credits"}}')
        raise ConnectionLostError(fate, op=request.op)

    @property
    def unaccounted(self) -> int:
        """Posts without a refusal."""
        return len(self.posts) - self.fates.count(Fate.REFUSED)

    async def get_task(self, task_id: str) -> VideoTask:
        if task_id not in {*self.tasks, MISTAKEN}:
            raise NotFoundError
        return VideoTask(id=task_id, status="queued")

    def client(self, journal: Journal, clock: Clock) -> Orders:
        """The orders of one more client."""
        shared = Shared(
            transport=self.transport(),
            journal=journal,
            clock=clock,
            base_url=URL("https://h/openapi/v1"),
            check_usable=lambda: None,
            namespace="word",
        )
        endpoints = Endpoints(shared.base_url, "", Timeouts(create=120.0))
        balances, budgets = Balances(None, clock, shared.settlement), Budgets((), journal, shared.results, None)
        sender = Sender(shared, endpoints, balances, self.get_task, budgets)
        return Orders(shared, sender, "default", self.get_task, AsyncMock(), budgets)

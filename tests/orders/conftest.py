"""Orders on a fake service: what it received is the oracle, never what the SDK says of itself."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from unittest.mock import AsyncMock

import pytest
from attrs import Factory, define
from yarl import URL

from vidgen_async.clock import VirtualClock
from vidgen_async.errors import NotFoundError
from vidgen_async.journal import Journal, MemoryJournal
from vidgen_async.orders import Orders, Sender, Shared
from vidgen_async.orders.balances import Balances
from vidgen_async.orders.budgets import Budgets
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.transports import BufferedResponse, FakeTransport, Transport
from vidgen_async.types.http import Request, Timeouts, make_headers
from vidgen_async.types.limits import KEY_LIFETIME, Pacing
from vidgen_async.types.resources import VideoRequest, VideoTask

REQUEST = VideoRequest(model="vendorh3", prompt="a paper boat", duration=8)

Script = Callable[["Post"], Awaitable[BufferedResponse]]


@define
class Post:
    """One POST that the service received."""

    n: int
    key: str
    body: bytes
    at: float


def accepted(task_id: str = "task-1", **more: object) -> BufferedResponse:
    return BufferedResponse(202, json.dumps({"id": task_id, "status": "queued", **more}).encode())


def refused(status: int, **headers: str) -> BufferedResponse:
    named = make_headers({name.replace("_", "-"): value for name, value in headers.items()})
    return BufferedResponse(status, b'{"error": {"code": "NO", "message": "refused"}}', headers=named)


@define
class FakeService:
    """Answers creates by a script; the last entry of a list is repeated."""

    clock: VirtualClock
    script: list[Script] = Factory(list)
    posts: list[Post] = Factory(list)
    tasks: set[str] = Factory(set)
    found: dict[str, VideoTask] = Factory(dict)
    failures: dict[str, Exception] = Factory(dict)
    gets: list[tuple[str, float]] = Factory(list)
    """The tasks that were asked for, and when."""
    transport: FakeTransport = None  # type: ignore[assignment]

    def __attrs_post_init__(self) -> None:
        self.transport = FakeTransport(self._handle)

    async def _handle(self, request: Request) -> BufferedResponse:
        body = b"".join([piece async for piece in request.body.open()])
        post = Post(len(self.posts) + 1, request.headers["Idempotency-Key"], body, self.clock.now())
        self.posts.append(post)
        script = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await script(post)

    def answers(self, *responses: Callable[[], BufferedResponse], after: float = 0.0) -> None:
        """Answer with these, the last one again and again, ``after`` seconds after each create."""

        async def give(_: Post, make: Callable[[], BufferedResponse]) -> BufferedResponse:
            if after:
                await self.clock.sleep(after)
            return make()

        self.script[:] = [lambda post, make=make: give(post, make) for make in responses]

    def hangs(self) -> None:
        """Answer no create."""

        async def hang(_: Post) -> BufferedResponse:
            return await asyncio.get_running_loop().create_future()

        self.script[:] = [hang]

    async def get_task(self, task_id: str) -> VideoTask:
        self.gets.append((task_id, self.clock.now()))
        if task_id in self.failures:
            raise self.failures[task_id]
        if task_id in self.found:
            return self.found[task_id]
        if task_id not in self.tasks:
            raise NotFoundError("no such task", status=404, body=b'{"error": {"code": "NOT_FOUND"}}')
        return VideoTask(id=task_id, status="queued")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def service(clock) -> FakeService:
    fake = FakeService(clock)
    fake.answers(accepted)
    return fake


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def make_orders(service, journal, clock):
    """Another client's orders: on the same journal unless told otherwise."""

    def make(
        *,
        transport: Transport | None = None,
        on: Journal | None = None,
        pacing: Pacing | None = None,
        create_timeout: float | None = 120.0,
        check: Callable[[VideoRequest], Awaitable[object]] | None = None,
        key_lifetime: float = KEY_LIFETIME,
        get_task: Callable[[str], Awaitable[VideoTask]] | None = None,
    ) -> Orders:
        shared = Shared(
            transport=transport or service.transport,
            journal=journal if on is None else on,
            clock=clock,
            base_url=URL("https://h/openapi/v1"),
            check_usable=lambda: None,
            pacing=pacing or Pacing(),
            namespace="word",
            key_lifetime=key_lifetime,
            known_secrets=("key-never-shown",),
        )
        timeouts = Timeouts(connect=10, read=60, create=create_timeout)
        endpoints = Endpoints(shared.base_url, "key-never-shown", timeouts)
        get_task = get_task or service.get_task
        balances, budgets = Balances(None, clock, shared.settlement), Budgets((), journal, shared.results, None)
        sender = Sender(shared, endpoints, balances, get_task, budgets)
        return Orders(shared, sender, "default", get_task, check or AsyncMock(), budgets)

    return make


@pytest.fixture
def orders(make_orders) -> Orders:
    return make_orders()

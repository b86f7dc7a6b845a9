"""Services close connections that were idle for some time, 0.5 to 75 s: whatever that limit is, no poll is lost."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable
from itertools import cycle, product

import pytest

from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConnectionLostError
from vidgen_async.transports import BufferedResponse, Transport
from vidgen_async.types.http import Request

IDLE_LIMITS = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 55.0, 59.9, 60.0, 60.1, 75.0)
TASKS = tuple(f"t-{n}" for n in range(7))
POLLS = 12


class Connection:
    """One that the service closes when it was idle for ``limit`` seconds, which is noticed by who uses it again."""

    def __init__(self, limit: float, since: float) -> None:
        self.limit = limit
        self.since = since


class Pool(Transport):
    """A transport whose kept-alive connections have the idle limits, in turn."""

    def __init__(self, clock: VirtualClock, limits: tuple[float, ...], take: Callable[[deque], Connection]) -> None:
        self.clock = clock
        self.sends: list[str] = []
        self.answers: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.most_dead = 0
        self._take = take
        self._limits = cycle(limits)
        self._idle: deque[Connection] = deque()

    async def send(self, request: Request) -> BufferedResponse:
        task_id = request.url.name
        self.sends.append(task_id)
        is_reused = bool(self._idle) and not request.needs_new_connection
        connection = self._take(self._idle) if is_reused else Connection(next(self._limits), self.clock.now())
        if is_reused and self._is_closed(connection):
            self.losses[task_id] += 1
            self.most_dead = max(self.most_dead, 1 + sum(map(self._is_closed, self._idle)))
            raise ConnectionLostError("closed", op=request.op, is_reused=True)
        await self.clock.sleep(0.01)
        connection.since = self.clock.now()
        if not request.needs_new_connection:
            self._idle.append(connection)
        self.answers[task_id] += 1
        status = "completed" if self.answers[task_id] == POLLS else "running"
        return BufferedResponse(200, json.dumps({"id": task_id, "status": status}).encode())

    def _is_closed(self, connection: Connection) -> bool:
        return self.clock.now() - connection.since >= connection.limit

    async def aclose(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("take", [deque.popleft, deque.pop], ids=["the oldest first", "the latest first"])
@pytest.mark.parametrize(
    "interval", [60.0, *(pytest.param(seconds, marks=pytest.mark.needs_dev) for seconds in (5.0, 30.0))]
)
@pytest.mark.filterwarnings("ignore:poll_interval")
async def test_no_task_loses_a_poll_and_each_poll_counts_once(interval, take):
    losses: Counter[int] = Counter()
    most_dead = 0
    for count, limits in product((1, len(TASKS)), (*((limit,) for limit in IDLE_LIMITS), IDLE_LIMITS)):
        clock, tasks = VirtualClock(quiet_passes=5), TASKS[:count]
        pool = Pool(clock, limits, take)
        url = "https://service.example/openapi/v1"
        async with Client("key-1", base_url=url, transport=pool, clock=clock, poll_interval=interval) as client:
            assert {task.status async for task in _ends(client, clock, tasks)} == {"completed"}
            stats = client.watcher.stats
        assert pool.answers == dict.fromkeys(tasks, POLLS)
        assert (stats.polls, dict(stats.errors)) == (count * POLLS, {})
        assert len(pool.sends) == stats.polls + pool.losses.total()
        assert clock.now() < interval * POLLS, "the last poll was on time: none waited for another interval"
        losses[count] += pool.losses.total()
        most_dead = max(most_dead, pool.most_dead)
    assert min(losses.values()) > POLLS, "connections were closed"
    assert most_dead > 2, "connections that were closed lay beside one another"


async def _ends(client, clock, tasks):
    """The tasks as they end; they join in threes, one after the other, and meet one another's connections."""

    async def wait(number: int, task_id: str):
        await clock.sleep(0.4 * (number // 3))
        return await client.videos.wait(task_id)

    for waiting in asyncio.as_completed([wait(number, task_id) for number, task_id in enumerate(tasks)]):
        yield await waiting

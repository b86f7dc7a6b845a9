"""Workers on several hosts, whose clocks are wrong, share the rolling limit of the service and the pause after a 429.

The sandbox counts, in its own time, what it receives over a network with random delays.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.proof.processes import TOO_LONG, Processes, Worker, on_each_journal
from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox
from vidgen_async.types.limits import SLOT_MARGIN

#: The service's window, in seconds of its own time.
WINDOW = 60.0
#: By how many seconds the clocks of the hosts are ahead.
CLOCKS = (0.0, 1.5, 400.0, -400.0)
#: Seconds by which each part of a request or of an answer is delayed, at most.
LONGEST_DELAY = 0.05

pytestmark = pytest.mark.needs_engines


@asynccontextmanager
async def slow_network(port: int) -> AsyncIterator[str]:
    """Leads to a port of this machine; what is sent and what comes back is delayed by random times."""
    chance = random.Random(20)  # noqa: S311 - repeatable delays, not secrets

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(chance.uniform(0, LONGEST_DELAY))
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(pass_on(reader, service[1]), pass_on(service[0], writer))
        except ConnectionError:
            pass
        finally:
            service[1].close()
            writer.close()

    async with await asyncio.start_server(connect, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/openapi/v1"


async def start_hosts(processes: Processes, shapes: list[tuple[int, int]], **options: Any) -> list[Worker]:
    """A worker for each clock, ready to create so many videos on each of so many lanes. A file is on one host."""
    is_file = processes.journal.startswith("sqlite:")
    hosts = []
    for n, (ahead, (lanes, orders)) in enumerate(zip(CLOCKS, shapes, strict=True)):
        steps = [[["create", f"{n}-{lane}-{order}", f"host {n}"] for order in range(orders)] for lane in range(lanes)]
        clock = {"ahead": 0.0 if is_file else ahead, "on_host": True}
        hosts.append(await processes.start(*steps, together=True, **clock, **options))
    for host in hosts:
        assert await host.next() == {"ready": True}
        host.told.clear()
    return hosts


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@on_each_journal
async def test_four_hosts_use_the_whole_limit_fairly_and_never_exceed_it(processes, stack):
    limit, speed, windows = 40, 4, 3
    service = await stack.enter_async_context(Sandbox(speed=speed, submission_limit=limit, balance=10**9))
    base_url = await stack.enter_async_context(slow_network(URL(service.base_url).port))
    pacing = {"limit": limit, "window": WINDOW / speed}
    hosts = await start_hosts(processes, [(12, 30)] * 4, key=service.api_key, base_url=base_url, pacing=pacing)
    for host in hosts:
        host.go()
    creates: list[ReceivedCreate] = []
    async with asyncio.timeout(TOO_LONG):
        while len(creates) <= windows * limit:
            await asyncio.sleep(0.05)
            creates = [create for create in service.creates if create.status is not None]
    creates = creates[: windows * limit + 1]

    assert {create.status for create in creates} == {202}
    shares = Counter(create.body["prompt"] for create in creates)
    assert len(shares) == len(hosts)
    assert max(shares.values()) <= 2 * min(shares.values())
    # Each window begins a margin after the previous one. (In one of 60 seconds it is a six-hundredth.)
    shortest = windows * (pacing["window"] + SLOT_MARGIN.total_seconds())
    taken = (creates[-1].received_at - creates[0].received_at) / speed
    assert shortest / taken >= 0.95, shares


@on_each_journal
async def test_no_host_sends_before_the_retry_after_of_a_429_that_another_program_caused(processes, stack):
    limit, retry_after = 20, 2
    arrived_at: list[float] = []
    answered_at: list[float] = []

    def note(request: ReceivedRequest) -> None:
        (answered_at if request.is_over else arrived_at).append(time.monotonic())

    service = await stack.enter_async_context(Sandbox(speed=0, submission_limit=limit, on_request=note))
    options = {"key": service.api_key, "base_url": service.base_url, "pacing": {"limit": limit}}
    first, *others = await start_hosts(processes, [(1, 1), *[(2, 2)] * 3], **options)
    # A program without the journal uses the account.
    headers = {"Authorization": f"Bearer {service.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(limit):
            body = {"model": "gen-2.0", "prompt": "another program", "duration": 5}
            async with session.post(f"{service.base_url}/videos", json=body) as answer:
                assert answer.status == 202
    service.clock.advance(WINDOW - retry_after)
    first.go()
    assert [word["error"] for word in await first.ended()] == ["RejectedRateLimitError"]

    service.clock.advance(WINDOW)  # from now on the service would accept creates
    for host in others:
        host.go()
    assert [len([word["task"] for word in await host.ended()]) for host in others] == [4] * 3

    assert len(arrived_at) == len(service.creates) == limit + 1 + 3 * 4
    assert min(arrived_at[limit + 1 :]) >= answered_at[limit] + retry_after

"""Workers on several hosts, whose clocks are wrong, share the rolling limit of the service and the pause after a 429.

The sandbox counts, in its own time, what it receives over a network with random delays.
"""

import asyncio
import json
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from yarl import URL

from tests.journal.conftest import postgres
from tests.proof.processes import ROOT, TOO_LONG
from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox
from vidgen_async.types.limits import SLOT_MARGIN

__all__ = ["postgres"]

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


class Hosts:
    """Workers that share a journal, each on a host of its own. They end when the test ends."""

    def __init__(self, stack: AsyncExitStack, journal: str) -> None:
        self._stack = stack
        self._journal = journal
        self._clocks = CLOCKS if journal.startswith("postgresql:") else (0.0,) * len(CLOCKS)

    async def start(self, **options: Any) -> list[Process]:
        """One worker for each clock, ready to begin."""
        return await asyncio.gather(
            *(self._start({"name": f"host {n}", "ahead": ahead} | options) for n, ahead in enumerate(self._clocks))
        )

    async def _start(self, options: dict[str, Any]) -> Process:
        command = (sys.executable, "-W", "error", "-m", "tests.proof.host")
        host = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
        self._stack.push_async_callback(end, host)
        host.stdin.write(json.dumps({"journal": self._journal} | options).encode() + b"\n")
        async with asyncio.timeout(TOO_LONG):
            assert await host.stdout.readline() == b"ready\n"
        return host


async def end(host: Process) -> None:
    if host.returncode is None:
        host.kill()
    await host.communicate()


def begin(host: Process, *, lanes: int, orders: int) -> None:
    """Let a worker create so many videos on each of so many lanes."""
    host.stdin.write(json.dumps([lanes, orders]).encode() + b"\n")


async def output_of(host: Process) -> bytes:
    """What a worker writes until it has ended."""
    async with asyncio.timeout(TOO_LONG):
        output, _ = await host.communicate()
    return output


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(params=["sqlite", "postgres"])
def hosts(request: pytest.FixtureRequest, stack: AsyncExitStack, tmp_path: Path) -> Hosts:
    """No worker yet, and an empty journal for them."""
    if request.param == "sqlite":
        return Hosts(stack, str(tmp_path / "orders.db"))
    dsn = request.getfixturevalue("postgres")
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("DROP SCHEMA IF EXISTS vidgen CASCADE")
    return Hosts(stack, dsn)


async def test_four_hosts_use_the_whole_limit_fairly_and_never_exceed_it(hosts, stack):
    limit, speed, windows = 40, 4, 3
    service = await stack.enter_async_context(Sandbox(speed=speed, submission_limit=limit, balance=10**9))
    base_url = await stack.enter_async_context(slow_network(URL(service.base_url).port))
    pacing = {"limit": limit, "window": WINDOW / speed}
    started = await hosts.start(key=service.api_key, base_url=base_url, pacing=pacing)
    for host in started:
        begin(host, lanes=12, orders=1000)
    creates: list[ReceivedCreate] = []
    async with asyncio.timeout(TOO_LONG):
        while len(creates) <= windows * limit:
            await asyncio.sleep(0.05)
            creates = [create for create in service.creates if create.status is not None]
    creates = creates[: windows * limit + 1]

    assert {create.status for create in creates} == {202}
    shares = Counter(create.body["prompt"] for create in creates)
    assert len(shares) == len(started)
    assert max(shares.values()) <= 2 * min(shares.values())
    # Each window begins a margin after the previous one. (In one of 60 seconds it is a six-hundredth.)
    shortest = windows * (pacing["window"] + SLOT_MARGIN.total_seconds())
    taken = (creates[-1].received_at - creates[0].received_at) / speed
    assert shortest / taken >= 0.95, shares


async def test_no_host_sends_before_the_retry_after_of_a_429_that_another_program_caused(hosts, stack):
    limit, retry_after = 20, 2
    arrived_at: list[float] = []
    answered_at: list[float] = []

    def note(request: ReceivedRequest) -> None:
        (answered_at if request.is_over else arrived_at).append(time.monotonic())

    service = await stack.enter_async_context(Sandbox(speed=0, submission_limit=limit, on_request=note))
    first, *others = await hosts.start(key=service.api_key, base_url=service.base_url, pacing={"limit": limit})
    # A program without the journal uses the account.
    headers = {"Authorization": f"Bearer {service.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(limit):
            body = {"model": "gen-2.0", "prompt": "another program", "duration": 5}
            async with session.post(f"{service.base_url}/videos", json=body) as answer:
                assert answer.status == 202
    service.clock.advance(WINDOW - retry_after)
    begin(first, lanes=1, orders=1)
    assert await output_of(first) == b"429\n"

    service.clock.advance(WINDOW)  # from now on the service would accept creates
    for host in others:
        begin(host, lanes=2, orders=2)
    assert [await output_of(host) for host in others] == [b""] * 3

    assert len(arrived_at) == len(service.creates) == limit + 1 + 3 * 4
    assert min(arrived_at[limit + 1 :]) >= answered_at[limit] + retry_after

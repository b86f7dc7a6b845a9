"""Those who look at a task: ours, plain aiohttp as people write it, and the SDKs of other services.

All are taken as their users take them, with their default settings; each asks the load service at the paths of its own
service, and gets a task that runs on, of about the same size.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias

import aiohttp
from attrs import frozen

from vidgen_async import Client

KEY = "sk-4fb1c2a09d7e4fb1c2a09d7e4fb1c2a09d7e"

Get: TypeAlias = Callable[[str], Awaitable[object]]
Wait: TypeAlias = Callable[[str], Coroutine[Any, Any, object]]


@frozen
class Connected:
    """What a peer can do, once it has its connections."""

    get: Get
    """One look at one task."""
    wait: Wait
    """Until a task ends, with one look per interval."""
    gather: Callable[[Sequence[str]], Coroutine[Any, Any, None]] | None = None
    """Until all of these have ended, in one coroutine, where there is a way."""
    watched: Callable[[], int] | None = None
    """How many tasks are waited for now, where that is told."""


Connect: TypeAlias = Callable[[str, float], AbstractAsyncContextManager[Connected]]


@frozen
class Peer:
    """Somebody who is compared."""

    connect: Connect
    """Given the URL of the load service, and the seconds between two looks of a wait."""
    needs: tuple[str, ...] = ()
    """Packages that it cannot be without."""
    is_on_uvloop: bool = False
    share: float = 1.0
    """Of the looks that are measured with others: of what takes long fewer are enough."""

    @property
    def missing(self) -> list[str]:
        return [package for package in self.needs if find_spec(package) is None]


@asynccontextmanager
async def _ours(url: str, interval: float) -> AsyncIterator[Connected]:
    async with Client(KEY, base_url=f"{url}/openapi/v1", poll_interval=interval) as client:

        async def gather(task_ids: Sequence[str]) -> None:
            async with aclosing(client.videos.as_completed(task_ids)) as outcomes:
                async for outcome in outcomes:
                    outcome.unwrap()

        yield Connected(client.videos.get, client.videos.wait, gather, lambda: client.watcher.stats.tasks)


@asynccontextmanager
async def _aiohttp(url: str, interval: float) -> AsyncIterator[Connected]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:

        async def get(task_id: str) -> dict[str, object]:
            async with session.get(f"{url}/openapi/v1/videos/{task_id}") as response:
                response.raise_for_status()
                found: dict[str, object] = await response.json()
                return found

        async def wait(task_id: str) -> dict[str, object]:
            while True:
                task = await get(task_id)
                if task["status"] in {"completed", "failed"}:
                    return task
                await asyncio.sleep(interval)

        yield Connected(get, wait)


def _openai(*, is_aiohttp: bool) -> Connect:
    @asynccontextmanager
    async def connect(url: str, interval: float) -> AsyncIterator[Connected]:
        from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: PLC0415 - it is optional

        warnings.simplefilter("ignore", DeprecationWarning)  # its videos are to be shut down
        http_client = DefaultAioHttpClient() if is_aiohttp else None
        async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/openai/v1", http_client=http_client) as client:

            def wait(task_id: str) -> Coroutine[Any, Any, object]:
                return client.videos.poll(task_id, poll_interval_ms=round(interval * 1000))

            yield Connected(client.videos.retrieve, wait)

    return connect


@asynccontextmanager
async def _runwayml(url: str, _: float) -> AsyncIterator[Connected]:
    from runwayml import AsyncRunwayML  # noqa: PLC0415 - it is optional

    async with AsyncRunwayML(api_key=KEY, base_url=f"{url}/runway") as client:

        async def wait(task_id: str) -> object:
            """Its own interval is fixed: 6 seconds, more or less 1.5."""
            task = await client.tasks.retrieve(task_id)
            return await task.wait_for_task_output(timeout=None)

        yield Connected(client.tasks.retrieve, wait)


@asynccontextmanager
async def _replicate(url: str, interval: float) -> AsyncIterator[Connected]:
    from replicate.client import Client as Replicate  # noqa: PLC0415 - it is optional

    client = Replicate(api_token=KEY, base_url=f"{url}/replicate")
    client.poll_interval = interval

    async def wait(task_id: str) -> None:
        prediction = await client.predictions.async_get(task_id)
        await prediction.async_wait()

    try:
        yield Connected(client.predictions.async_get, wait)
    finally:
        await client._async_client.aclose()  # it has no public way


OURS, RAW = "vidgen_async", "aiohttp"
OURS_ON_UVLOOP, RAW_ON_UVLOOP = f"{OURS} + uvloop", f"{RAW} + uvloop"
OPENAI, OPENAI_ON_AIOHTTP = "openai (httpx)", "openai (aiohttp)"

_FEWER = 0.25

PEERS: Mapping[str, Peer] = {
    OURS: Peer(_ours),
    RAW: Peer(_aiohttp),
    OURS_ON_UVLOOP: Peer(_ours, ("uvloop",), is_on_uvloop=True),
    RAW_ON_UVLOOP: Peer(_aiohttp, ("uvloop",), is_on_uvloop=True),
    OPENAI: Peer(_openai(is_aiohttp=False), ("openai",), share=_FEWER),
    OPENAI_ON_AIOHTTP: Peer(_openai(is_aiohttp=True), ("openai",), share=_FEWER),
    "runwayml": Peer(_runwayml, ("runwayml",), share=_FEWER),
    "replicate": Peer(_replicate, ("replicate",), share=_FEWER),
}


def present(peers: Sequence[str] = ()) -> dict[str, Peer]:
    """Those whose packages are installed; if ``peers`` are named, those of them, ours and plain aiohttp."""
    asked = (OURS, RAW, *peers) if peers else PEERS
    return {name: peer for name, peer in PEERS.items() if name in asked and not peer.missing}


def left_out() -> list[str]:
    """A line for each of the others."""
    return [
        f"left out: {name} ({', '.join(peer.missing)} not installed)" for name, peer in PEERS.items() if peer.missing
    ]


def task_ids(count: int) -> list[str]:
    """So many, each a string of its own."""
    return [f"vt-{number:016x}" for number in range(count)]

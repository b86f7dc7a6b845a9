"""Waiting for many tasks: in one coroutine where the peer has a way, else in one for each."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from benchmarks.get_peers import Connected, Wait


@asynccontextmanager
async def waiting(connected: Connected, ids: Sequence[str], seconds: float) -> AsyncIterator[None]:
    """Wait for all of them, until the block is left. Coroutines begin one after the other, over so many seconds: all
    at once would want a connection each. They are tasks that run on: what ends sooner raises its error."""
    work = connected.gather(ids) if connected.gather else _each(connected.wait, ids, seconds)
    worker = asyncio.ensure_future(work)
    try:
        yield
        if worker.done():
            await worker
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


async def _each(wait: Wait, ids: Sequence[str], seconds: float) -> None:
    begun_at = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, task_id in enumerate(ids):
            if (early := begun_at + seconds * number / len(ids) - time.monotonic()) > 0.0:
                await asyncio.sleep(early)
            group.create_task(wait(task_id))

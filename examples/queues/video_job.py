"""One video as one job, whatever the queue.

Each worker beside this module makes one client for its lifetime. The workers
of all hosts share one PostgreSQL database, which stores the orders and counts
the submission limit: VIDGEN_JOURNAL, or without it DATABASE_URL, which is that
of the queue. The service is that of VIDGEN_BASE_URL and VIDGEN_API_KEY. The
settings below are environment variables, except ATTEMPTS and GRACE.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from vidgen_async import Client, Pacing, Timeouts

#: Seconds between two heartbeats of a worker. After three times as long
#: without one it counts as dead, and its jobs are run again.
HEARTBEAT = int(os.environ.get("HEARTBEAT", "10"))
#: Seconds before a job that may be retried is run again. They double each time.
RETRY_DELAY = int(os.environ.get("RETRY_DELAY", "10"))
#: How often a job is run at most.
ATTEMPTS = 20
#: Seconds that one create may take.
CREATE_LIMIT = float(os.environ.get("CREATE_LIMIT", "120"))
#: Seconds for which a worker that is stopped waits for creates under way.
GRACE = CREATE_LIMIT + 10


def make_client() -> Client:
    """Make the client of a worker, which calls ``aclose(grace=GRACE)``."""
    return Client(
        journal=os.environ.get("VIDGEN_JOURNAL") or os.environ["DATABASE_URL"],
        poll_interval=float(os.environ.get("POLL_INTERVAL", "60")),
        timeouts=Timeouts(create=CREATE_LIMIT),
        pacing=Pacing(
            limit=int(os.environ.get("SUBMISSION_LIMIT", "100")),
            window=float(os.environ.get("SUBMISSION_WINDOW", "60")),
        ),
    )


async def make_video(client: Client, order_id: str, prompt: str) -> str:
    """Order the video, wait for it, and save it; the name of the file.

    This may be run any number of times, also concurrently. The order id is the
    job's own name for the video, so there is one create, and one receipt.
    """
    path = f"{order_id}.mp4"
    await client.videos.generate(
        model="gen-2.0", prompt=prompt, duration=5, order_id=order_id, to=path
    )
    return path


@asynccontextmanager
async def heartbeats(
    send: Callable[[], Awaitable[object]],
) -> AsyncIterator[None]:
    """Send heartbeats while the block runs, for queues that need them."""

    async def repeat() -> None:
        while True:
            with suppress(Exception):  # the next one may succeed
                await send()
            await asyncio.sleep(HEARTBEAT)

    sending = asyncio.create_task(repeat())
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.wait([sending])

"""Videos as jobs of SAQ, in the database of the orders.

saq saq_worker.settings
"""

import os
from typing import Any

from saq import Queue
from saq.types import Context
from vidgen_async import Client, VidgenError

from video_job import (
    ATTEMPTS,
    GRACE,
    HEARTBEAT,
    RETRY_DELAY,
    heartbeats,
    make_client,
    make_video,
)

#: SAQ_URL may name a Redis server instead.
queue = Queue.from_url(os.environ.get("SAQ_URL", os.environ["DATABASE_URL"]))


class VideoContext(Context):
    """What SAQ passes to a job, with the client of the worker."""

    client: Client


async def order_video(order_id: str, prompt: str) -> bool:
    """Queue a job; False if there is one for this order that is not over."""
    queued = await queue.enqueue(
        "video",
        order_id=order_id,
        prompt=prompt,
        key=order_id,
        timeout=0,  # by default a job is cancelled after 10 seconds
        heartbeat=3 * HEARTBEAT,  # without it, no job of a dead worker is found
        retries=ATTEMPTS,
        retry_delay=RETRY_DELAY,
        retry_backoff=3600.0,
    )
    return queued is not None


async def video(context: VideoContext, *, order_id: str, prompt: str) -> str:
    """One job for one video."""
    job = context["job"]
    try:
        async with heartbeats(job.update):
            return await make_video(context["client"], order_id, prompt)
    except Exception as error:
        if not isinstance(error, VidgenError) or not error.may_retry:
            job.retries = job.attempts  # SAQ itself retries every error
        raise


async def startup(context: VideoContext) -> None:
    """Make the client of the worker."""
    context["client"] = make_client()


async def shutdown(context: VideoContext) -> None:
    """Wait for creates under way. The jobs are in the queue again."""
    await context["client"].aclose(grace=GRACE)


settings: dict[str, Any] = {
    "queue": queue,
    "functions": [video],
    "concurrency": 1000,  # videos that are waited for at a time
    "startup": startup,
    "shutdown": shutdown,
    "timers": {"sweep": HEARTBEAT},
}

"""Videos as workflows of DBOS, in the database of the orders.

EXECUTOR_ID=videos-0 python dbos_worker.py
"""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, DBOSClient
from vidgen_async import Client, VidgenError

from video_job import (
    ATTEMPTS,
    GRACE,
    RETRY_DELAY,
    make_client,
    make_video,
)

QUEUE = "videos"


def may_retry(error: BaseException) -> bool:
    """Whether DBOS may run the step again."""
    return isinstance(error, VidgenError) and error.may_retry


def define_workflow(client: Client) -> None:
    """One workflow for one video. Its id is the order id."""

    @DBOS.step(
        name="video",
        retries_allowed=True,
        interval_seconds=RETRY_DELAY,
        max_attempts=ATTEMPTS,
        should_retry=may_retry,
    )
    async def run_step(order_id: str, prompt: str) -> str:
        return await make_video(client, order_id, prompt)

    @DBOS.workflow(name="video")
    async def run(order_id: str, prompt: str) -> str:
        return await run_step(order_id, prompt)


async def order_video(dbos: DBOSClient, order_id: str, prompt: str) -> None:
    """Queue the workflow of an order, unless there is one."""
    await dbos.enqueue_async(
        {
            "queue_name": QUEUE,
            "workflow_name": "video",
            "workflow_id": order_id,
        },
        order_id,
        prompt,
    )


async def take_over(dbos: DBOSClient, executor_id: str) -> None:
    """Let the other workers continue the workflows of one that is gone."""
    pending = await dbos.list_workflows_async(
        status="PENDING", executor_id=executor_id
    )
    await dbos.resume_workflows_async(
        [one.workflow_id for one in pending], queue_name=QUEUE
    )


async def main() -> None:
    """Work until SIGTERM."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    client = make_client()
    define_workflow(client)
    DBOS(
        config={
            "name": "videos",
            "system_database_url": os.environ["DATABASE_URL"],
            "executor_id": os.environ["EXECUTOR_ID"],
            "application_version": "1",  # workflows are run by later releases
        }
    )
    try:
        DBOS.launch()  # in this loop, which is that of the client
        await DBOS.register_queue_async(QUEUE, worker_concurrency=1000)
        await stop.wait()
        await asyncio.to_thread(DBOS.destroy)  # no more workflows are started
        loop.set_default_executor(ThreadPoolExecutor())  # DBOS closed its own
    finally:
        await client.aclose(grace=GRACE)


if __name__ == "__main__":
    asyncio.run(main())

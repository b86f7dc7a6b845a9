"""Videos as workflows of Temporal.

python temporal_worker.py
"""

import asyncio
import signal
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client as Temporal
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

# The sandbox of workflows would import them anew for each workflow.
with workflow.unsafe.imports_passed_through():
    from vidgen_async import Client
    from vidgen_async.errors import FINAL_NAMES

    from video_job import (
        GRACE,
        HEARTBEAT,
        RETRY_DELAY,
        heartbeats,
        make_client,
        make_video,
    )

QUEUE = "videos"


class Activities:
    """The activities of a worker, which share its client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name="video")
    async def video(self, order_id: str, prompt: str) -> str:
        """Make the video, and send heartbeats meanwhile."""
        async with heartbeats(send_heartbeat):
            return await make_video(self._client, order_id, prompt)


async def send_heartbeat() -> None:
    """Show that the worker of this activity is alive."""
    activity.heartbeat()


@workflow.defn(name="video")
class VideoWorkflow:
    """One workflow for one video. Its id is the order id."""

    @workflow.run
    async def run(self, prompt: str) -> str:
        """Run the one activity until it succeeds or fails for good."""
        return await workflow.execute_activity_method(
            Activities.video,
            args=[workflow.info().workflow_id, prompt],
            heartbeat_timeout=timedelta(seconds=3 * HEARTBEAT),
            # One attempt may wait for its turn, and then for the video.
            start_to_close_timeout=timedelta(days=2),
            # A worker that is stopped costs an attempt, so none are counted.
            schedule_to_close_timeout=timedelta(days=7),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=RETRY_DELAY),
                maximum_interval=timedelta(hours=1),
                non_retryable_error_types=FINAL_NAMES,
            ),
        )


async def order_video(temporal: Temporal, order_id: str, prompt: str) -> None:
    """Start the workflow of an order, unless it is running."""
    await temporal.start_workflow(
        VideoWorkflow.run,
        prompt,
        id=order_id,
        task_queue=QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


async def main() -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = ClientConfig.load_client_connect_config()  # TEMPORAL_ADDRESS
    temporal = await Temporal.connect(**settings)
    client = make_client()
    try:
        async with Worker(
            temporal,
            task_queue=QUEUE,
            workflows=[VideoWorkflow],
            activities=[Activities(client).video],
            max_concurrent_activities=1000,  # videos that are waited for
            max_cached_workflows=0,  # none waits for a worker that is gone
        ):
            await stop.wait()
    finally:  # the activities were cancelled, and run on other workers
        await client.aclose(grace=GRACE)


if __name__ == "__main__":
    asyncio.run(main())

"""Videos as jobs of Procrastinate, in the database of the orders.

PYTHONPATH=. procrastinate --app=procrastinate_worker.app schema --apply
python procrastinate_worker.py
"""

import asyncio
import os

from procrastinate import (
    App,
    BaseRetryStrategy,
    JobContext,
    PsycopgConnector,
    RetryDecision,
)
from procrastinate.jobs import Job
from vidgen_async import VidgenError

from video_job import (
    ATTEMPTS,
    GRACE,
    HEARTBEAT,
    RETRY_DELAY,
    make_client,
    make_video,
)

STALLED_AFTER = 3 * HEARTBEAT

app = App(connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))


class RetryVideos(BaseRetryStrategy):
    """Runs a job again if its worker was stopped, or if its error permits."""

    def get_retry_decision(
        self, *, exception: BaseException, job: Job
    ) -> RetryDecision | None:
        """When the job is run again; None: it has failed."""
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision(retry_in={"seconds": 0})
        if not isinstance(exception, VidgenError) or not exception.may_retry:
            return None
        if job.attempts >= ATTEMPTS:
            return None
        delay = min(RETRY_DELAY * 2**job.attempts, 3600)
        return RetryDecision(retry_in={"seconds": delay})


@app.task(name="video", pass_context=True, retry=RetryVideos())
async def video(context: JobContext, order_id: str, prompt: str) -> None:
    """One job for one video."""
    client = context.additional_context["client"]
    await make_video(client, order_id, prompt)


@app.periodic(cron=f"* * * * * */{STALLED_AFTER}")
@app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs")
async def retry_stalled_jobs(timestamp: int) -> None:
    """Run the jobs of dead workers again."""
    stalled = await app.job_manager.get_stalled_jobs(
        task_name=video.name, seconds_since_heartbeat=STALLED_AFTER
    )
    for job in stalled:
        await app.job_manager.retry_job(job)


async def main() -> None:
    """Run jobs until SIGTERM."""
    client = make_client()
    try:
        async with app.open_async():
            await app.run_worker_async(
                concurrency=1000,  # videos that are waited for at a time
                additional_context={"client": client},
                update_heartbeat_interval=HEARTBEAT,
                stalled_worker_timeout=STALLED_AFTER,
                shutdown_graceful_timeout=0,  # jobs go back to the queue
            )
    finally:
        await client.aclose(grace=GRACE)


if __name__ == "__main__":
    asyncio.run(main())

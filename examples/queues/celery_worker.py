"""Videos as jobs of Celery, on Redis.

celery --app celery_worker worker
"""

import os
from functools import partial
from typing import Any

from celery import Celery, Task
from celery.signals import worker_init, worker_process_shutdown
from vidgen_async import Client, VidgenError
from vidgen_async.blocking import ClientThread

from video_job import GRACE, make_client

#: Seconds between two runs of a job: one run polls the task once.
POLL_INTERVAL = float(os.environ.get("POLL_INTERVAL", "60"))
#: Seconds after which a job that was not acknowledged is run by another worker:
#: longer than a create with its wait for the submission limit.
VISIBILITY_TIMEOUT = int(os.environ.get("VISIBILITY_TIMEOUT", "600"))

app = Celery("videos", broker=os.environ.get("REDIS_URL", "redis://localhost"))
app.conf.update(
    task_acks_late=True,  # after the job, so that no job is lost
    task_reject_on_worker_lost=True,  # also if its process was killed
    task_ignore_result=True,  # the journal has the orders
    worker_prefetch_multiplier=1,  # jobs wait in the queue, for any worker
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_TIMEOUT,
        # They are searched every 10 seconds, by default every 100.
        "unacked_restore_interval": min(VISIBILITY_TIMEOUT / 2, 10),
        "unacked_restore_throttle": 1,
    },
)


video_service = ClientThread(make_client, grace=GRACE)
worker_process_shutdown.connect(lambda **_: video_service.close(), weak=False)


@worker_init.connect
def check_settings(**_: Any) -> None:
    """Refuse to start without a setting: jobs would fail one by one."""
    try:
        make_client()  # which opens nothing before it is used
    except Exception as error:  # Celery logs other errors, and continues
        raise SystemExit(f"wrong settings: {error!r}") from error


def order_video(order_id: str, prompt: str) -> None:
    """Queue a job for an order."""
    video.apply_async((order_id, prompt), task_id=order_id)


@app.task(name="video", bind=True, max_retries=7 * 24 * 60)  # polls in a week
def video(job: Task, order_id: str, prompt: str) -> None:
    """One job for one video. It is run once a minute until it has ended, so
    that no process is blocked by a video."""
    try:
        is_saved = video_service.call(partial(try_video, order_id, prompt))
    except VidgenError as error:
        if not error.may_retry:
            raise
        raise job.retry(exc=error, countdown=POLL_INTERVAL) from None
    if not is_saved:
        raise job.retry(countdown=POLL_INTERVAL)


async def try_video(order_id: str, prompt: str, client: Client) -> bool:
    """Order the video, or continue with its order. Return whether it is
    saved; otherwise its task is not completed yet."""
    receipt = await client.videos.create(
        model="gen-2.0", prompt=prompt, duration=5, order_id=order_id
    )
    task = await client.videos.get(receipt)
    if not task.is_terminal:
        return False
    task = await client.videos.wait(receipt)  # which stores how it ended
    await client.videos.download(task, f"{order_id}.mp4")
    return True

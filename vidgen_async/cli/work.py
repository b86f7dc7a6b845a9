"""What the commands do: each a coroutine over a client, a journey and a screen."""

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from attrs import evolve, frozen

from vidgen_async.cli.choice import choose_model
from vidgen_async.cli.journey import Journey, Stage
from vidgen_async.cli.screens import Screen, seconds, size
from vidgen_async.client import Client
from vidgen_async.downloads import check_target
from vidgen_async.errors import DownloadError
from vidgen_async.resources import TaskLike, VideoRequest, VideoTask
from vidgen_async.validation import check_request
from vidgen_async.watcher import Outcome


@frozen(kw_only=True)
class Wanted:
    """A video as it was asked for on the command line. ``pictures`` are paths and URLs, in the order given."""

    prompt: str
    model: str | None = None
    duration: int | None = None
    ratio: str | None = None
    resolution: str | None = None
    pictures: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(picture for picture in self.pictures if is_url(picture))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(picture for picture in self.pictures if not is_url(picture))


@frozen(kw_only=True)
class Target:
    """Where the video goes. What stands there is replaced only where that was asked for."""

    path: Path
    may_replace: bool = False

    async def check(self) -> None:
        """DownloadError when no video could, or may, be saved there."""
        self.check_free()
        await check_target(self.path)

    def check_free(self) -> None:
        if not self.may_replace and self.path.is_file():
            message = f"the file {self.path} exists already; --force replaces it"
            raise DownloadError(message)


def is_url(picture: str) -> bool:
    """Whether it goes into image_urls; everything else is a file to upload."""
    return picture.lower().startswith(("http://", "https://"))


@frozen(kw_only=True)
class Errand:
    """One run of a command: what it works with."""

    client: Client
    journey: Journey
    screen: Screen
    timeout: float | None
    begun_at: float

    async def generate(self, wanted: Wanted, target: Target) -> None:
        """Upload, create, wait, download. The order id is on the screen before the create, the task id before the
        wait; nothing is sent before the target and the request were looked at."""
        await target.check()
        request = await self._request(wanted)
        check_request(request)
        request = await self._upload(request, wanted.files)
        await self.follow(await self._create(request), target)

    async def follow(self, task: TaskLike, target: Target | None) -> None:
        """Wait for the task, and save its video if there is a target."""
        done = await self._wait(task)
        points = "points not told" if done.points is None else f"{done.points} {self._points}"
        if target is None:
            self.screen.result(f"{done.id}: {done.status}, {points}")
            return
        length = await self._download(done, target)
        self.screen.result(f"saved {target.path}: {size(length)}, took {self._took()}, {points}")

    async def _request(self, wanted: Wanted) -> VideoRequest:
        model = wanted.model
        if model is None:
            self.journey.stage = Stage.CATALOG
            self.screen.busy("reading the catalog")
            catalog = await self.client.models.list()
            self.journey.stage = Stage.CHECK
            model = choose_model(
                catalog, wanted.duration, wanted.resolution, len(wanted.pictures), is_free=self.journey.is_sandbox
            )
        self.screen.say("model", model)
        return VideoRequest(
            model=model,
            prompt=wanted.prompt,
            duration=wanted.duration,
            ratio=wanted.ratio,
            resolution=wanted.resolution,
            image_urls=wanted.urls or None,
        )

    async def _upload(self, request: VideoRequest, files: tuple[str, ...]) -> VideoRequest:
        self.journey.stage = Stage.UPLOAD
        ids = []
        for n, file in enumerate(files, 1):
            count = f" ({n} of {len(files)})" if len(files) > 1 else ""
            self.screen.busy(f"uploading {file}{count}")
            ids.append((await self.client.files.upload(file)).image_id)
        return evolve(request, image_ids=ids or None)

    async def _create(self, request: VideoRequest) -> TaskLike:
        order_id = self.journey.order_id
        self.screen.say("order", str(order_id))
        self.screen.busy("sending the order")
        create = self.client.videos.create(request, order_id=order_id)
        creating = asyncio.get_running_loop().create_task(create, name="create")
        self.journey.begins_create(creating)
        # Shielded: who interrupts this still wants to know what became of the order.
        receipt = await asyncio.shield(creating)
        self.journey.learn()
        self.screen.say("task", receipt.task_id)
        return receipt

    async def _wait(self, task: TaskLike) -> VideoTask:
        self.journey.stage = Stage.WAIT
        self.screen.busy(f"waiting for the task, with a look every {self.client.watcher.stats.interval_now:g} s")
        async with aclosing(self.client.videos.watch(task, timeout=self.timeout)) as changes:
            async for seen in changes:
                self.journey.saw(seen)
                self.screen.state(seen.status or "no state told")
        return Outcome.of(seen).unwrap()

    async def _download(self, task: VideoTask, target: Target) -> int:
        self.journey.stage = Stage.DOWNLOAD
        target.check_free()
        self.screen.busy(f"downloading to {target.path}")
        path = await self.client.videos.download(task, target.path, on_progress=self.screen.received)
        return path.stat().st_size

    @property
    def _points(self) -> str:
        return "sandbox points (nothing is charged)" if self.journey.is_sandbox else "points charged"

    def _took(self) -> str:
        return seconds(time.monotonic() - self.begun_at)

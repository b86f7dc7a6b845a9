"""What the commands do with orders and tasks: each a coroutine over a client, a journey and a screen."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from vidgen_async.cli.model_choice import choose_model
from vidgen_async.cli.request_options import Wanted
from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.terminal.formatting import clean, moment, seconds, size
from vidgen_async.cli.terminal.json_documents import task_document
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.client import Client
from vidgen_async.errors import (
    AuthenticationError,
    DownloadError,
    OrderConflictError,
    OrderStateError,
    VidgenError,
)
from vidgen_async.media.download import check_target
from vidgen_async.orders import KEY_LIFETIME
from vidgen_async.orders.error_messages import check_age, check_attempt, wrong_state
from vidgen_async.service.catalog import RequestCheck
from vidgen_async.service.request_body import create_body, read_request
from vidgen_async.service.validation import refuse
from vidgen_async.types.orders import SENDABLE, Order, OrderState
from vidgen_async.types.resources import Receipt, TaskLike, VideoRequest, VideoTask
from vidgen_async.watcher import Outcome


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
        try:
            is_there = self.path.is_file()
        except OSError as error:  # above all a name that is too long
            message = f"no video can be saved as {self.path}: {error.strerror or error}"
            raise DownloadError(message) from error
        if is_there and not self.may_replace:
            message = f"the file {self.path} exists already; --force replaces it"
            raise DownloadError(message)


@frozen(kw_only=True)
class Errand:
    """One run of a command: what it works with."""

    client: Client
    journey: Journey
    screen: Screen
    timeout: float | None
    begun_at: float

    async def generate(self, wanted: Wanted, target: Target, *, validate: bool = True) -> None:
        """Upload, create, wait, download. The order id is on the screen before the create, the task id before the
        wait; nothing is sent before the target and the request were looked at."""
        await target.check()
        await self.follow(await self.create(wanted, validate=validate), target)

    async def resume(self, target: Target, *, validate: bool = True) -> None:
        """Do what is left of the journey's order, which is on record: nothing is uploaded or asked for anew."""
        await target.check()
        await self.follow(await self.resume_create(validate=validate), target)

    async def create(self, wanted: Wanted, *, validate: bool) -> Receipt:
        """Upload and create; the order id is on the screen before anything that it names is sent. Of an order that is
        on record already nothing is uploaded again."""
        order_id = str(self.journey.order_id)
        known = await self.client.orders.get(order_id)
        if known is not None and wanted.files:
            return await self._take_up(known, wanted, validate=validate)
        model = await self._model(wanted)
        if validate and (known is None or known.state in SENDABLE):
            self.journey.stage = Stage.CATALOG
            found = await self._checked(wanted, model)
            if not found.catalog_error:
                self.journey.stage = Stage.CHECK
            _refuse(found)
        uploaded = await self._upload(wanted.files)
        self.screen.say("order", order_id)
        if known is not None:
            self.journey.attempts, self.journey.is_abandoned = known.attempts, known.state is OrderState.ABANDONED
        create = self.client.videos.create(wanted.request(model, uploaded), order_id=order_id, validate=validate)
        return await self._receipt(create, _doing(known, "sending the order"))

    async def check(self, wanted: Wanted) -> RequestCheck:
        """What speaks against the request; nothing is uploaded or ordered."""
        model = await self._model(wanted)
        self.journey.stage = Stage.CATALOG
        return await self._checked(wanted, model)

    async def known(self, order_id: str) -> Order:
        """The order as it is on record; OrderStateError says where it was looked for."""
        order = await self.client.orders.get(order_id)
        if order is None:
            message = (
                f"there is no order {order_id!r} {self.journey.where}; whether the service has it, that does not tell"
            )
            raise OrderStateError(message, order_id=order_id)
        return order

    async def resume_create(self, *, validate: bool = True) -> Receipt:
        """The order's receipt; it is sent now if it is proven that the service has nothing of it."""
        self.journey.stage = Stage.RECORD
        order_id = str(self.journey.order_id)
        return await self._resume(await self.known(order_id), validate=validate)

    async def check_resendable(self, expect_attempt: int, *, may_be_old: bool) -> None:
        """OrderStateError when the order cannot be resent by somebody who knows of ``expect_attempt`` attempts; also,
        unless it ``may_be_old``, when the service may have forgotten its key."""
        order_id = str(self.journey.order_id)
        order = await self.known(order_id)
        try:
            if order.state is not OrderState.UNCERTAIN:
                raise wrong_state(order, "resent")
            check_attempt(order, expect_attempt)
            if not may_be_old:
                _check_age(order)
        except OrderStateError:
            self.journey.stands(order)
            self.journey.stage = Stage.CHECK
            raise

    async def resend(self, *, expect_attempt: int, reason: str, by: str) -> Receipt:
        """Send the order once more, as a person decided who knows its age."""
        order_id = str(self.journey.order_id)
        self.journey.stands(await self.known(order_id))
        return await self._receipt(
            self.client.orders.resend(
                order_id, expect_attempt=expect_attempt, reason=reason, by=by, accept_duplicate_risk=True
            ),
            "sending the order",
        )

    async def follow(self, task: TaskLike, target: Target | None) -> None:
        """Wait for the task, and save its video if there is a target."""
        done = await self._wait(task)
        if target is None:
            self.screen.show(f"{done.id}: {done.status}, {self.points(done)}", self._document(done))
        else:
            await self.save(done, target)

    async def save(self, task: VideoTask, target: Target) -> None:
        """Download the video of a completed task."""
        length = await self._download(task, target)
        took = seconds(time.monotonic() - self.begun_at)
        document = {**self._document(task), "path": str(target.path), "bytes": length}
        self.screen.show(f"saved {target.path}: {size(length)}, took {took}, {self.points(task)}", document)

    def points(self, task: VideoTask) -> str:
        """What the task costs, in words."""
        if task.points is None:
            return "points not told"
        if self.journey.is_sandbox:
            return f"{task.points} sandbox points (nothing is charged)"
        return f"the task cost {task.points} points"

    async def _model(self, wanted: Wanted) -> str:
        model = wanted.model
        if model is None:
            self.journey.stage = Stage.CATALOG
            self.screen.busy("reading the catalog")
            catalog = await self.client.models.list()
            self.journey.stage = Stage.CHECK
            model = choose_model(
                catalog, wanted.duration, wanted.resolution, wanted.picture_count, is_free=self.journey.is_sandbox
            )
        self.screen.say("model", model)
        return model

    async def _checked(self, wanted: Wanted, model: str) -> RequestCheck:
        """What speaks against the request and against the files to upload."""
        problems = await asyncio.to_thread(wanted.file_problems)
        found = await self.client.videos.check(_stand_in(wanted, model))
        return evolve(found, problems=(*problems, *found.problems))

    async def _take_up(self, order: Order, wanted: Wanted, *, validate: bool) -> Receipt:
        """Go on with an order on record for which files were named. A picture that is uploaded once more has another
        id: so the order's own ids stand for them, and the rest of the request must be as it is on record."""
        stored = read_request(order.body)
        uploaded = (stored.image_ids or ())[len(wanted.image_ids) :]
        request = wanted.request(wanted.model or stored.model, uploaded)
        if len(uploaded) != len(wanted.files) or create_body(request) != order.body:
            self.journey.stage = Stage.CREATE
            message = (
                f"order {order.order_id!r} is on record already, {order.state}, for a different request: nothing was "
                "uploaded or sent. A new video needs another --order-id"
            )
            raise OrderConflictError(message, order_id=order.order_id)
        sent = " and nothing was sent" if order.receipt is not None else ""
        self.screen.say(
            "note", f"order {order.order_id!r} is on record already; its pictures were not uploaded again{sent}"
        )
        return await self._resume(order, validate=validate)

    async def _resume(self, order: Order, *, validate: bool) -> Receipt:
        self.journey.stands(order)
        self.screen.say("order", order.order_id)
        doing = _doing(order, "going on with the order")
        return await self._receipt(self.client.orders.resume(order.order_id, validate=validate), doing)

    async def _upload(self, files: tuple[str, ...]) -> list[str]:
        self.journey.stage = Stage.UPLOAD
        ids = []
        for n, file in enumerate(files, 1):
            count = f" ({n} of {len(files)})" if len(files) > 1 else ""
            self.screen.busy(f"uploading {file}{count}")
            ids.append((await self.client.files.upload(file)).image_id)
        return ids

    async def _receipt(self, create: Coroutine[Any, Any, Receipt], doing: str) -> Receipt:
        self.screen.busy(doing)
        creating = asyncio.get_running_loop().create_task(create, name="create")
        self.journey.begins_create(creating)
        # Shielded: who interrupts this still wants to know what became of the order.
        try:
            receipt = await asyncio.shield(creating)
        except asyncio.CancelledError:
            with suppress(VidgenError):  # until when it counts as being sent
                order = await self.client.orders.get(str(self.journey.order_id))
                self.journey.attempts = () if order is None else order.attempts
            raise
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

    async def _download(self, task: TaskLike, target: Target) -> int:
        self.journey.stage = Stage.DOWNLOAD
        target.check_free()
        self.screen.busy(f"downloading to {target.path}")
        path = await self.client.videos.download(task, target.path, on_progress=self.screen.received)
        return path.stat().st_size

    def _document(self, task: VideoTask) -> dict[str, Any]:
        return {"order_id": self.journey.order_id, **task_document(task)}


def task_lines(task: VideoTask) -> list[tuple[str, object]]:
    """What is known of the task; the address whole, since without its signature it leads nowhere."""
    return [
        ("task", task.id),
        ("state", task.status),
        ("model", task.model),
        ("points", task.points),
        ("created", task.created_at and task.created_at.isoformat()),
        ("updated", task.updated_at and task.updated_at.isoformat()),
        ("failure", task.failure_reason and clean(task.failure_reason)),
        ("video", task.video_url),
    ]


def _doing(order: Order | None, otherwise: str) -> str:
    """What is being done about the order, where the record says more than that it is gone on with."""
    if order is None:
        return otherwise
    if order.receipt is not None:
        return f"order {order.order_id} was on record already: nothing is sent"
    if order.state is OrderState.SENDING and (until := order.sending_until) is not None:
        return f"the order was being sent; waiting for what became of it, until {moment(until)} at most"
    return otherwise if order.state in SENDABLE else "going on with the order"


def _check_age(order: Order) -> None:
    try:
        check_age(order, datetime.now(UTC), KEY_LIFETIME)
    except OrderStateError as error:
        message = f"{error.summary} --accept-duplicate-risk sends it all the same."
        raise OrderStateError(message, order_id=error.order_id, state=error.state) from error


def _stand_in(wanted: Wanted, model: str) -> VideoRequest:
    """The request as it will be, with names in the place of the ids of pictures that are not uploaded yet."""
    return wanted.request(model, [f"upload-{n}" for n in range(1, len(wanted.files) + 1)])


def _refuse(found: RequestCheck) -> None:
    if isinstance(found.catalog_error, AuthenticationError):
        raise found.catalog_error
    refuse(found.problems)

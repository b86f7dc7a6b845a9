"""What the commands do with orders and tasks."""

import asyncio
import os
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from vidgen_async.cli.request_options import RequestOptions, choose_model
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.service_connection import find_orders
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.terminal.exit_reports import NoTaskError
from vidgen_async.cli.terminal.file_copy import copy_to_stdout
from vidgen_async.cli.terminal.formatting import moment, seconds, show_value, size
from vidgen_async.cli.terminal.json_documents import task_document
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.client import Client
from vidgen_async.client.saving import file_name
from vidgen_async.errors import (
    AuthenticationError,
    BadRequestError,
    ConnectError,
    DownloadError,
    InvalidRequestError,
    NotFoundError,
    OrderStateError,
    ServiceError,
    TransportError,
    VidgenError,
)
from vidgen_async.journal import Journal
from vidgen_async.journal.sql.journal import SqlJournal
from vidgen_async.media.download import check_target
from vidgen_async.orders import KEY_LIFETIME
from vidgen_async.orders.error_messages import check_age, check_attempt, check_reason, uncertain, wrong_state
from vidgen_async.service.catalog import RequestCheck
from vidgen_async.service.endpoints import checked_task_id, read_request
from vidgen_async.service.validation import refuse
from vidgen_async.types.orders import SENDABLE, Order, OrderState
from vidgen_async.types.resources import CatalogModel, Receipt, TaskLike, VideoTask
from vidgen_async.watcher import Outcome, failure_text

#: An empty list names at most this many accounts that have orders.
MAX_ACCOUNTS = 3


@frozen(kw_only=True)
class Target:
    """Where the video is saved. An existing file is replaced only if ``may_replace``."""

    path: Path
    may_replace: bool = False
    is_folder: bool = False
    """The video gets the name of its task in the directory ``path``: see :meth:`of_task`."""

    @classmethod
    def named(cls, output: str, *, may_replace: bool) -> "Target":
        """The target of ``-o``: a directory if it exists, or if the name ends with a slash."""
        return cls(path=Path(output), may_replace=may_replace, is_folder=is_folder(output))

    def of_task(self, task_id: str) -> "Target":
        """The file for the video of this task."""
        return evolve(self, path=self.path / f"{file_name(task_id)}.mp4", is_folder=False) if self.is_folder else self

    @property
    def is_stdout(self) -> bool:
        """Whether the video is written to stdout."""
        return str(self.path) == "-"

    async def check(self) -> None:
        """Raise DownloadError if no video can or may be saved there."""
        if self.is_folder:
            await check_target(self.path / "video.mp4")
            return
        self.check_free()
        if not self.is_stdout:
            await check_target(self.path)

    def check_free(self) -> None:
        if self.is_stdout:
            if sys.stdout.isatty() and not self.may_replace:
                raise DownloadError(
                    "a video is not written to a terminal: redirect stdout, or name a file; --force writes it anyway"
                )
            return
        try:
            is_file = self.path.is_file()
        except OSError as error:  # usually a name that is too long
            raise DownloadError(f"cannot save the video as {self.path}: {error.strerror or error}") from error
        if is_file and not self.may_replace:
            raise DownloadError(f"the file {self.path} already exists; --force replaces it")


def is_folder(output: str) -> bool:
    """Whether ``-o`` names a directory: it exists, or the name ends with a slash."""
    try:
        return output != "-" and (output.endswith(("/", os.sep)) or Path(output).is_dir())
    except OSError:  # usually a name that is too long
        return False


def create_named_folder(output: str) -> None:
    """Create the directory that ``-o`` names with a slash at its end, but none above it; DownloadError if it cannot."""
    try:
        if output.endswith(("/", os.sep)):
            Path(output).mkdir(exist_ok=True)
    except OSError as error:
        raise DownloadError(f"cannot create the directory {output}: {error.strerror or error}") from error


@frozen
class CommandRun:
    """One run of a command, and the operations that commands share."""

    client: Client
    state: RunState
    screen: Screen
    timeout: float | None
    started_at: float
    is_impatient: bool = False
    """A service that cannot be reached ends a wait; otherwise it is polled until the timeout."""
    journal: Journal | None = None

    async def create(self, request_options: RequestOptions, *, validate: bool) -> Receipt:
        """Upload and create. The order id is shown before the order is sent. Nothing is uploaded again for a stored
        order."""
        order_id = str(self.state.order_id)
        known = await self.client.orders.find(order_id)
        model = await self.get_model(request_options, known)
        self.screen.print_fact("model", model)
        if validate and (known is None or known.state in SENDABLE):
            result = await self.check(request_options, model)
            if isinstance(result.catalog_error, AuthenticationError):
                raise result.catalog_error
            if result.catalog_error is None:
                self.state.stage = Stage.CHECK
            else:
                reason = result.catalog_error.summary
                self.screen.warn(f"could not fetch the catalog; the request is not validated against it: {reason}")
            refuse(result.problems)
            if result.model is not None:
                self._show_price(result.model)
        self.screen.print_fact("order", order_id)
        self.state.stage = Stage.CREATE
        if known is not None:
            self.state.attempts, self.state.is_abandoned = known.attempts, known.state is OrderState.ABANDONED
        elif request_options.files:
            self.state.stage = Stage.UPLOAD
            self.screen.start_step(f"uploading {', '.join(request_options.files)}")

        def show_stage(stage: str, _: float | None) -> None:
            if stage == "order":
                self.state.begin_create(creating)
                self.screen.start_step(_step_text(known, "sending the order"))

        create = self.client.videos.create(
            request_options.request(model),
            local_images=request_options.files,
            order_id=order_id,
            on_progress=show_stage,
            validate=validate,
        )
        creating = asyncio.get_running_loop().create_task(create, name="create")
        return await self._await_receipt(creating, known)

    async def check(self, request_options: RequestOptions, model: str) -> RequestCheck:
        """Check the request and its files; nothing is uploaded."""
        self.state.stage = Stage.CATALOG
        return await self.client.videos.check(request_options.request(model), local_images=request_options.files)

    def _show_price(self, model: CatalogModel) -> None:
        """Show the price that the catalog states, before anything is ordered. Its fields are not documented (2.1): all
        undocumented fields with a number are shown as received, and no total is computed."""
        texts = {name: show_value(value) for name, value in model.extra.items()}
        found = {name: text for name, text in texts.items() if any(char.isdigit() for char in text)}
        text = ", ".join(f"{name} {text}" for name, text in found.items())
        self.screen.print_fact("price", text or "the catalog states none", {name: model.extra[name] for name in found})

    async def get_order(self, order_id: str) -> Order:
        """Return the stored order; OrderStateError names the journal that does not have it."""
        order = await self.client.orders.find(order_id)
        if order is None:
            message = f"there is no order {order_id!r} {self.state.journal_place}; the service may still have it"
            raise OrderStateError(message, order_id=order_id)
        return order

    async def find_tasks(self, settings: Settings, names: Sequence[str]) -> dict[str, str | None]:
        """Return the ids of tasks, with those of their orders where these are named. A name is the id of either.

        Raises:
            InvalidRequestError: A name is no id, or is that of an order and of a task.
            NoTaskError, UncertainCreateError: The order has no task.
        """
        stage, self.state.stage = self.state.stage, Stage.JOURNAL
        orders = await find_orders(settings, names, self.screen)
        tasks: dict[str, str | None] = {}
        for name in names:
            order = orders.get(name)
            task_id = checked_task_id(name) if order is None else await self._task_of(order)
            tasks[task_id] = None if order is None else name
        self.state.stage = stage
        return tasks

    async def find_task(self, settings: Settings, name: str) -> str:
        """Return the id of the one task that this run is about, as :meth:`find_tasks` does."""
        ((task_id, self.state.order_id),) = (await self.find_tasks(settings, [name])).items()
        if self.state.order_id is not None:
            self.screen.print_fact("task", task_id)
        self.state.set_task(task_id)
        return task_id

    async def _task_of(self, order: Order) -> str:
        order_id, receipt = order.order_id, order.receipt
        if receipt is None:
            self.state.load_order(order)
            self.state.order_id, self.state.is_durable = order_id, True
            if order.state in (OrderState.UNCERTAIN, OrderState.ABANDONED):
                raise uncertain(order)
            message = wrong_state(order, "used in place of its task").message
            raise NoTaskError(message, order_id=order_id, state=order.state)
        if order_id != receipt.task_id and await self._is_task(order_id):
            message = (
                f"{order_id!r} is an order in the journal, with the task {receipt.task_id!r}, and also a task of the "
                f"service: use {receipt.task_id!r} for the task of the order; add --journal memory: for the other one"
            )
            raise InvalidRequestError(message, problems=[message])
        return receipt.task_id

    async def _is_task(self, task_id: str) -> bool:
        try:
            await self.client.videos.get(task_id)
        except (NotFoundError, BadRequestError, InvalidRequestError):
            return False
        return True

    async def describe_other_accounts(self, account: str) -> str:
        """For an empty list of this account: which others have orders in the journal, here or at another service, up to
        a few."""
        found = await self.journal.accounts(MAX_ACCOUNTS + 2) if isinstance(self.journal, SqlJournal) else []
        listed = (str(self.client.base_url.origin()), account)
        texts = [f"account {name!r} at {service}" for service, name in found if (service, name) != listed]
        more = ["others"] if len(texts) > MAX_ACCOUNTS else []
        return ", ".join([*texts[:MAX_ACCOUNTS], *more])

    async def resume_create(self, *, validate: bool = True) -> Receipt:
        """Return the order's receipt; the order is sent if it is proven that the service created nothing for it."""
        self.state.stage = Stage.JOURNAL
        order_id = str(self.state.order_id)
        return await self._resume(await self.get_order(order_id), validate=validate)

    async def check_resendable(self, *, expect_attempt: int, reason: str, accept_duplicate_risk: bool) -> None:
        """Raise what :meth:`resend` would raise before it sends anything. For a check before the user is asked."""
        check_reason("resend", reason)
        order = await self.get_order(str(self.state.order_id))
        self.state.load_order(order)
        self.state.stage = Stage.CHECK
        if order.state is not OrderState.UNCERTAIN:
            raise wrong_state(order, "resent")
        check_attempt(order, expect_attempt)
        if not accept_duplicate_risk:
            _check_age(order)

    async def resend(self, *, by: str, **decision: Any) -> Receipt:
        """Send the order once more, as an operator decided: ``decision`` are the arguments of
        :meth:`check_resendable`."""
        await self.check_resendable(**decision)
        resend = self.client.orders.resend(str(self.state.order_id), by=by, **decision)
        return await self._receipt(resend, "sending the order")

    async def check_reachable(self, task_id: str) -> None:
        """Raise ConnectError if the service cannot be reached, and the run is impatient."""
        if not self.is_impatient:
            return
        try:
            await self.client.videos.get(task_id)
        except (ServiceError, TransportError) as error:
            if isinstance(error, ConnectError):  # any other failure is reported by the wait
                raise

    async def wait_and_save(self, task: TaskLike, target: Target | None) -> None:
        """Wait for the task, and save its video if there is a target."""
        done = await self._wait(task)
        if target is None:
            self.screen.show(f"{done.id}: {done.status}, {self.points(done)}", self._document(done))
        else:
            await self.save(done, target.of_task(done.id))

    async def save(self, task: VideoTask, target: Target, *, accept_unverified: bool = False) -> None:
        """Download the video of a completed task."""
        length = await self._download(task, target, accept_unverified)
        took = seconds(time.monotonic() - self.started_at)
        document = {**self._document(task), "path": str(target.path), "bytes": length}
        facts = f"({size(length)}, {took}, {self.points(task)})"
        if target.is_stdout:
            self.screen.close()
            self.screen.print_fact("video", f"written to stdout {facts}", document)
        else:
            self.screen.show(f"saved {target.path} {facts}", document)

    def points(self, task: VideoTask) -> str:
        """The cost of the task as text."""
        if task.points is None:
            return "cost unknown"
        if self.state.is_sandbox:
            return f"{task.points} sandbox points, nothing is charged"
        return f"{task.points} points"

    async def get_model(self, request_options: RequestOptions, known: Order | None = None) -> str:
        """Return the model of the request; if none is given, that of the stored order, or the one that fits."""
        model = request_options.model
        if model is None and known is not None:
            model = read_request(known.body).model
        if model is None:
            self.state.stage = Stage.CATALOG
            self.screen.start_step("reading the catalog")
            catalog = await self.client.models.list()
            self.state.stage = Stage.CHECK
            model = choose_model(catalog, request_options, is_free=self.state.is_sandbox)
        return model

    async def _resume(self, order: Order, *, validate: bool) -> Receipt:
        self.state.load_order(order)
        if validate and order.state in SENDABLE:
            result = await self.client.videos.check(read_request(order.body))
            if result.model is not None and result.is_ok:  # otherwise the resumed create fails with the problems
                self._show_price(result.model)
        self.screen.print_fact("order", order.order_id)
        doing = _step_text(order, "resuming the order")
        return await self._receipt(self.client.orders.resume(order.order_id, validate=validate), doing, order)

    async def _receipt(self, create: Coroutine[Any, Any, Receipt], doing: str, known: Order | None = None) -> Receipt:
        self.screen.start_step(doing)
        creating = asyncio.get_running_loop().create_task(create, name="create")
        self.state.begin_create(creating)
        return await self._await_receipt(creating, known)

    async def _await_receipt(self, creating: "asyncio.Task[Receipt]", known: Order | None) -> Receipt:
        # Shielded: an interrupted run still reports the outcome of the order.
        try:
            receipt = await asyncio.shield(creating)
        except asyncio.CancelledError:
            if self.state.stage is Stage.UPLOAD:  # there is no order yet
                creating.cancel()
                await asyncio.wait({creating})
                raise
            with suppress(VidgenError):  # the report says until when it counts as being sent
                self.state.attempts = (await self.client.orders.get(str(self.state.order_id))).attempts
            raise
        self.state.settle_create()
        if known is not None and known.receipt is not None:
            self.screen.start_step(f"order {known.order_id} was already accepted; it is not sent again")
        self.screen.print_fact("task", receipt.task_id)
        return receipt

    async def _wait(self, task: TaskLike) -> VideoTask:
        self.state.stage = Stage.WAIT
        self.screen.start_step(f"waiting for the task, polling every {self.client.watcher.stats.interval_now:g} s")
        async with aclosing(self.client.videos.watch(task, timeout=self.timeout)) as changes:
            async for seen in changes:
                self.state.status = seen.status
                self.screen.show_state(seen.status or "no state")
        return Outcome.of(seen).unwrap()

    async def _download(self, task: TaskLike, target: Target, accept_unverified: bool) -> int:
        self.state.stage = Stage.DOWNLOAD
        target.check_free()
        self.screen.start_step(f"downloading to {'stdout' if target.is_stdout else target.path}")
        with ExitStack() as stack:
            path = target.path
            if target.is_stdout:  # which gets only a complete video
                path = Path(stack.enter_context(TemporaryDirectory(prefix="vidgen-")), "video.mp4")
            await self.client.videos.download(
                task, path, on_progress=self.screen.show_received, accept_unverified=accept_unverified
            )
            length = path.stat().st_size
            if target.is_stdout:
                await self._write_to_stdout(path, length)
        return length

    async def _write_to_stdout(self, path: Path, length: int) -> None:
        try:
            await copy_to_stdout(path)
        except OSError as error:
            why = "its reader closed it" if isinstance(error, BrokenPipeError) else error.strerror or error
            message = f"the video ({size(length)}) was not completely written to stdout: {why}"
            raise DownloadError(message, task_id=str(self.state.task_id or "")) from error

    def _document(self, task: VideoTask) -> dict[str, Any]:
        return {"order_id": self.state.order_id, **task_document(task)}


def task_lines(task: VideoTask) -> list[tuple[str, object]]:
    """What is known of the task. The video URL is complete: without its signature it is useless."""
    return [
        ("task", task.id),
        ("state", task.status),
        ("model", task.model),
        ("points", task.points),
        ("created", task.created_at and task.created_at.isoformat()),
        ("updated", task.updated_at and task.updated_at.isoformat()),
        ("failure", failure_text(task.failure_reason) if task.status == "failed" else task.failure_reason),
        ("video", task.video_url),
    ]


def _step_text(order: Order | None, otherwise: str) -> str:
    """The step that the state of the order leads to; ``otherwise`` for one that is sent."""
    if order is None:
        return otherwise
    if order.state is OrderState.SENDING and (until := order.sending_until) is not None:
        return f"an earlier run was sending the order; waiting for its outcome until {moment(until)} at the latest"
    return otherwise if order.state in SENDABLE else "resuming the order"


def _check_age(order: Order) -> None:
    try:
        check_age(order, datetime.now(UTC), KEY_LIFETIME)
    except OrderStateError as error:
        message = f"{error.summary} --accept-duplicate-risk resends it anyway."
        raise OrderStateError(message, order_id=error.order_id, state=error.state) from error

"""One run of a command: its client, and what the commands do with orders and tasks."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attrs import define, field
from rich.filesize import decimal

from vidgen_async import Client, Order, Outcome, Receipt, RequestCheck, VideoTask, errors
from vidgen_async.cli.process import drop_lost_output
from vidgen_async.cli.request_options import RequestOptions, choose_model, invalid
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.service_connection import OwnJournal, describe_settings, no_order_ids, open_client
from vidgen_async.cli.settings import Access
from vidgen_async.cli.targets import Target, copy_to_stdout
from vidgen_async.cli.terminal.formatting import moment, seconds, show_value
from vidgen_async.cli.terminal.order_views import model_of, task_document
from vidgen_async.cli.terminal.status_display import Screen, make_screen
from vidgen_async.journal import MemoryJournal, OrderState
from vidgen_async.types import CatalogModel, TaskLike

if TYPE_CHECKING:
    from vidgen_async.types import OnUpdate

#: An empty list names at most this many accounts that have orders.
MAX_ACCOUNTS = 3


@define(eq=False, kw_only=True)
class Run(RunState):
    """One run of a command, and the operations that commands share."""

    screen: Screen = field()
    exits: AsyncExitStack = field(factory=AsyncExitStack)
    """Closes the client when the command has ended."""
    started_at: float = field(factory=time.monotonic)
    client: Client = field(init=False)
    journal: OwnJournal = field(init=False)

    @screen.default
    def _make_screen(self) -> Screen:
        return make_screen(is_debug=self.settings.is_debug, is_json=self.settings.is_json)

    async def connect(
        self,
        access: Access = Access.NONE,
        *,
        needs_key: bool = True,
        only_prints: bool = False,
        on_update: "OnUpdate | None" = None,
    ) -> Client:
        """Open the client. A command that ``only_prints`` fails if stdout cannot be written."""
        if not only_prints:
            drop_lost_output()
        settings = self.settings
        opening = open_client(settings, access, self.screen.warn, needs_key=needs_key, on_update=on_update)
        self.client, self.journal, place = await self.exits.enter_async_context(opening)
        self.is_durable = self.journal.durable and access is not Access.TASKS
        if settings.is_sandbox:
            notice = "running a sandbox on this machine: no key is used and nothing is charged"
            self.screen.print_fact("sandbox", notice)
            return self.client
        url = self.client.base_url
        self.host, self.host_settings = str(url.host), describe_settings(settings, url)
        if place:
            self.journal_place = f"in the journal {place} for account {settings.account!r} at {url.origin()}"
        return self.client

    async def get_order(self, order_id: str) -> Order:
        """Return the stored order that this run is about; OrderStateError names the journal that does not have it."""
        self.stage, self.order_id = Stage.JOURNAL, order_id
        order = await self.client.orders.find(order_id)
        if order is None:
            message = f"there is no order {order_id!r} {self.journal_place}; the service may still have it"
            raise errors.OrderStateError(message, order_id=order_id)
        return order

    async def load_order(self, order_id: str) -> Order:
        """Return the stored order that this run is about; from now on a report includes what is known of it."""
        order = await self.get_order(order_id)
        self.note_order(order)
        return order

    async def find_tasks(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the ids of tasks with those of their orders; an error for an order without one, or a name of both."""
        stage, self.stage = self.stage, Stage.JOURNAL
        tasks: dict[str, str | None] = {}
        is_readable = True
        for name in names:
            order = None
            try:
                order = await self.client.orders.find(name) if is_readable else None
            except errors.InvalidRequestError:
                pass  # no order has such an id
            except errors.JournalError as error:
                if self.settings.journal:
                    raise
                is_readable = False
                self.screen.warn(no_order_ids(error))
            tasks[name if order is None else await self._task_of(order)] = None if order is None else name
        self.stage = stage
        return tasks

    async def find_task(self, name: str) -> str:
        """Return the id of the one task that this run is about, as :meth:`find_tasks` does."""
        ((task_id, self.order_id),) = (await self.find_tasks([name])).items()
        if self.order_id is not None:
            self.screen.print_fact("task", task_id)
        self.task_id = task_id
        return task_id

    async def _task_of(self, order: Order) -> str:
        order_id, receipt = order.order_id, order.receipt
        if receipt is None:
            self.note_order(order)
            self.order_id, self.is_durable, self.has_no_task = order_id, True, True
            if order.state in (OrderState.UNCERTAIN, OrderState.ABANDONED):
                message = f"it is unknown whether the service accepted order {order_id!r}, which is {order.state}"
                raise errors.UncertainCreateError(message, order_id=order_id)
            message = f"order {order_id!r} cannot be used in place of its task: it is {order.state}"
            raise errors.OrderStateError(message, order_id=order_id, state=order.state)
        if order_id == receipt.task_id:
            return order_id
        try:
            await self.client.videos.get(order_id)
        except (errors.NotFoundError, errors.BadRequestError, errors.InvalidRequestError):
            return receipt.task_id
        raise errors.InvalidRequestError(
            f"{order_id!r} is an order in the journal, with the task {receipt.task_id!r}, and also a task of the "
            f"service: use {receipt.task_id!r} for the task of the order; add --journal memory: for the other one"
        )

    async def create(self, request_options: RequestOptions, *, validate: bool) -> Receipt:
        """Upload and create; a stored order uploads nothing. The order id is shown before the order is sent."""
        order_id = str(self.order_id)
        known = await self.client.orders.find(order_id)
        model = await self.get_model(request_options, known)
        self.screen.print_fact("model", model)
        if validate and (known is None or known.state.is_sendable):
            self._accept(await self.check(request_options, model))
        self.screen.print_fact("order", order_id)
        self.stage = Stage.CREATE
        if known is not None:
            self.attempts, self.is_abandoned = known.attempts, known.state is OrderState.ABANDONED
        elif request_options.files:
            self.stage = Stage.UPLOAD
            self.screen.start_step(f"uploading {', '.join(request_options.files)}")

        def show_stage(stage: str, _: float | None) -> None:
            if stage == "order":
                self.begin_create(creating)
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

    async def get_model(self, request_options: RequestOptions, known: Order | None = None) -> str:
        """Return the model of the request; if none is given, that of the stored order, or the one that fits."""
        if request_options.model is not None:
            return request_options.model
        if known is not None:
            return model_of(known)
        self.stage = Stage.CATALOG
        self.screen.start_step("reading the catalog")
        catalog = await self.client.models.list()
        self.stage = Stage.CHECK
        return choose_model(catalog, request_options, is_free=self.settings.is_sandbox)

    async def check(self, request_options: RequestOptions, model: str) -> RequestCheck:
        """Check the request and its files; nothing is uploaded."""
        self.stage = Stage.CATALOG
        return await self.client.videos.check(request_options.request(model), local_images=request_options.files)

    def _accept(self, result: RequestCheck) -> None:
        """Raise an error if the request would fail, and show its price."""
        if isinstance(result.catalog_error, errors.AuthenticationError):
            raise result.catalog_error
        if result.catalog_error is None:
            self.stage = Stage.CHECK
        else:
            reason = result.catalog_error.summary
            self.screen.warn(f"could not fetch the catalog; the request is not validated against it: {reason}")
        if result.problems:
            raise invalid("the request was not sent", result.problems)
        self._show_price(result.model)

    def _show_price(self, model: CatalogModel | None) -> None:
        """Show all undocumented fields of the catalog entry that have a number, before anything is sent."""
        if model is None:
            return
        texts = {name: show_value(value) for name, value in model.extra.items()}
        found = {name: text for name, text in texts.items() if any(char.isdigit() for char in text)}
        text = ", ".join(f"{name} {text}" for name, text in found.items())
        self.screen.print_fact("price", text or "the catalog states none", {name: model.extra[name] for name in found})

    async def resume(self, order_id: str, *, validate: bool = True) -> Receipt:
        """Return the order's receipt; the order is sent if it is proven that the service created nothing for it."""
        order = await self.load_order(order_id)
        if validate and order.state.is_sendable:
            with suppress(errors.VidgenError):  # the resumed create fails with it
                self._show_price((await self.client.models.list()).find(model_of(order)))
        self.screen.print_fact("order", order.order_id)
        resume = self.client.orders.resume(order.order_id, validate=validate)
        return await self.send(resume, _step_text(order, "resuming the order"), order)

    async def send(self, create: Coroutine[Any, Any, Receipt], step: str, known: Order | None = None) -> Receipt:
        """Return the receipt of a stored order that is sent if need be."""
        self.screen.start_step(step)
        creating = asyncio.get_running_loop().create_task(create, name="create")
        self.begin_create(creating)
        return await self._await_receipt(creating, known)

    async def _await_receipt(self, creating: "asyncio.Task[Receipt]", known: Order | None) -> Receipt:
        # Shielded: an interrupted run still reports the outcome of the order.
        try:
            receipt = await asyncio.shield(creating)
        except asyncio.CancelledError:
            if self.stage is Stage.UPLOAD:  # there is no order yet
                creating.cancel()
                await asyncio.wait({creating})
                raise
            with suppress(errors.VidgenError):  # the report says until when it counts as being sent
                order = await self.client.orders.find(str(self.order_id))
                self.attempts = () if order is None else order.attempts
            raise
        self.settle_create()
        if known is not None and known.receipt is not None:
            self.screen.start_step(f"order {known.order_id} was already accepted; it is not sent again")
        self.screen.print_fact("task", receipt.task_id)
        return receipt

    async def describe_other_accounts(self) -> str:
        """For an empty list: which others have orders in the journal, here or at another service, up to a few."""
        journal = self.journal
        found = [] if isinstance(journal, MemoryJournal) else await journal.accounts(MAX_ACCOUNTS + 2)
        listed = (str(self.client.base_url.origin()), self.settings.account)
        texts = [f"account {name!r} at {service}" for service, name in found if (service, name) != listed]
        more = ["others"] if len(texts) > MAX_ACCOUNTS else []
        return ", ".join([*texts[:MAX_ACCOUNTS], *more])

    async def check_reachable(self, task_id: str) -> None:
        """Raise ConnectError if the service cannot be reached, and the run is impatient."""
        if not self.settings.is_impatient:
            return
        try:
            await self.client.videos.get(task_id)
        except (errors.ServiceError, errors.TransportError) as error:
            if isinstance(error, errors.ConnectError):  # any other failure is reported by the wait
                raise

    async def wait(self, task: TaskLike) -> VideoTask:
        """Wait for the task, and show its states; TaskFailedError if it failed."""
        self.stage = Stage.WAIT
        self.screen.start_step(f"waiting for the task, polling every {self.client.watcher.stats.interval_now:g} s")
        async with aclosing(self.client.videos.watch(task, timeout=self.settings.timeout)) as changes:
            async for seen in changes:
                self.status = seen.status
                self.screen.show_state(seen.status or "no state")
        return Outcome.of(seen).unwrap()

    async def save(self, task: VideoTask, target: Target, *, accept_unverified: bool = False) -> None:
        """Download the video of a completed task; TaskFailedError for one that failed."""
        if task.status == "failed":
            Outcome.of(task).unwrap()
        self.stage = Stage.DOWNLOAD
        self.screen.start_step(f"downloading to {'stdout' if target.is_stdout else target.path}")
        with ExitStack() as stack:
            path = target.path
            if target.is_stdout:  # which gets only a complete video
                path = Path(stack.enter_context(TemporaryDirectory(prefix="vidgen-")), "video.mp4")
            await self.client.videos.download(
                task,
                path,
                on_progress=self.screen.show_received,
                accept_unverified=accept_unverified,
                overwrite=target.may_replace,
            )
            length = path.stat().st_size
            if target.is_stdout:
                await self._write_to_stdout(path, length)
        document = {**self.document(task), "path": str(target.path), "bytes": length}
        facts = f"({decimal(length)}, {seconds(time.monotonic() - self.started_at)}, {self.points(task)})"
        if target.is_stdout:
            self.screen.close()
            self.screen.print_fact("video", f"written to stdout {facts}", document)
        else:
            self.screen.show(f"saved {target.path} {facts}", document)

    async def _write_to_stdout(self, path: Path, length: int) -> None:
        try:
            await copy_to_stdout(path)
        except OSError as error:
            why = "its reader closed it" if isinstance(error, BrokenPipeError) else error.strerror or error
            message = f"the video ({decimal(length)}) was not completely written to stdout: {why}"
            raise errors.DownloadError(message, task_id=str(self.task_id or "")) from error

    def points(self, task: VideoTask) -> str:
        """The cost of the task as text."""
        unit = "sandbox points, nothing is charged" if self.settings.is_sandbox else "points"
        return "cost unknown" if task.points is None else f"{task.points} {unit}"

    def document(self, task: VideoTask) -> dict[str, Any]:
        """The task as JSON, with its order."""
        return {"order_id": self.order_id, **task_document(task)}


def _step_text(order: Order | None, otherwise: str) -> str:
    """The step that the state of the order leads to; ``otherwise`` for one that is sent."""
    if order is None:
        return otherwise
    if order.state is OrderState.SENDING and (until := order.sending_until) is not None:
        return f"an earlier run was sending the order; waiting for its outcome until {moment(until)} at the latest"
    return otherwise if order.state.is_sendable else "resuming the order"

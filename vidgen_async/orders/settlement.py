"""What became of an attempt goes on record; what the journal does not take now is written when it does."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from vidgen_async.clock import Clock, within
from vidgen_async.errors import ReceiptNotStoredError, VidgenError
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.types.limits import backoff
from vidgen_async.types.orders import Attempt, Evidence, Order, OrderRef

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: For how many seconds a caller waits for an outcome to be written.
PATIENCE = 30.0
#: From then on it is tried in the background, with growing pauses of up to this many seconds.
LONGEST_PAUSE = 60.0


class Settling:
    """Writes outcomes. Nothing is forgotten while the client is open: an outcome that the journal refused is kept here,
    counts as known, and is offered to the journal again until it is taken."""

    def __init__(self, journal: Journal, clock: Clock, known: tuple[str, ...] = ()) -> None:
        self._journal = journal
        self._clock = clock
        self._known_secrets = known
        self._under_way: set[asyncio.Task[Any]] = set()
        self._unwritten: dict[tuple[OrderRef, int], Evidence] = {}
        self._writer: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()

    def own(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Settling that goes on although whoever waits for it is cancelled; :meth:`aclose` waits for its end."""
        worker = asyncio.get_running_loop().create_task(work, name="settling")
        self._under_way.add(worker)
        worker.add_done_callback(self._under_way.discard)
        return worker

    def why(self, error: Exception) -> str:
        """What a journal said, without secrets; one of one's own may say anything."""
        if isinstance(error, VidgenError):
            return error.summary.removesuffix(" Nothing was written.")
        return f"{type(error).__name__}: {hide_secrets(str(error), self._known_secrets)}"

    async def write(self, order: Order, attempt: Attempt, evidence: Evidence) -> Order:
        """The order with the evidence on record. When the journal fails for half a minute, ReceiptNotStoredError tells
        an accepted task's id; any other outcome is in the order that comes back."""
        ref, n = order.ref, attempt.n
        begun_at, tries = self._clock.now(), 0
        while True:
            try:
                settled = await self._journal.settle(ref, n, evidence)
            except Exception as error:  # whatever a journal raises: what is in hand must not be lost
                tries += 1
                self._report_unwritten(ref, evidence, error)
                if self._is_closing.is_set() or self._clock.now() - begun_at >= PATIENCE:
                    self._keep(ref, n, evidence)
                    if evidence.task_id is not None:
                        raise self._not_stored(ref, evidence.task_id, error) from error
                    return order.with_attempt(attempt).learned(n, evidence)
            else:
                await self._look_for_owner(ref, evidence)
                return settled
            with suppress(TimeoutError):
                await within(self._clock, backoff(tries, 1.0), self._is_closing.wait)

    def hurry(self) -> None:
        """The client is being closed: whoever waits for an outcome to be written is told of it after one more try."""
        self._is_closing.set()

    def known(self, order: Order) -> Order:
        """The order with what is not on record yet."""
        for (ref, n), evidence in self._unwritten.items():
            if ref == order.ref:
                order = order.learned(n, evidence)
        return order

    async def catch_up(self, ref: OrderRef) -> None:
        """Write what is not on record yet of this order: it must not be sent while the journal knows less than this
        client. Raises what the journal raises, ReceiptNotStoredError when it is a receipt."""
        for key, evidence in [item for item in self._unwritten.items() if item[0][0] == ref]:
            try:
                await self._write_late(key, evidence)
            except Exception as error:
                if evidence.task_id is not None:
                    raise self._not_stored(ref, evidence.task_id, error) from error
                raise

    async def aclose(self) -> None:
        """One more try for what is not on record; then it is given up, and its receipts are in the log."""
        self._is_closing.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.cancel()
        if ending := {*self._under_way, *([writer] if writer is not None else ())}:
            await asyncio.wait(ending)
        failure: Exception | None = None
        for key, evidence in list(self._unwritten.items()):
            try:
                if failure is None:
                    await self._write_late(key, evidence)
            except Exception as error:  # noqa: BLE001 - one that takes long to fail is not asked for each of many
                failure = error
            if failure is not None:
                self._report_unwritten(key[0], evidence, failure)

    def _keep(self, ref: OrderRef, n: int, evidence: Evidence) -> None:
        self._unwritten[ref, n] = evidence
        if not self._is_closing.is_set() and (self._writer is None or self._writer.done()):
            self._writer = asyncio.get_running_loop().create_task(self._write_all(), name="outcomes not on record yet")

    async def _write_all(self) -> None:
        tries = 0
        while self._unwritten:
            tries += 1
            await self._clock.sleep(backoff(tries, 1.0, first=2.0, longest=LONGEST_PAUSE))
            for key, evidence in list(self._unwritten.items()):
                try:
                    await self._write_late(key, evidence)
                except Exception:  # noqa: BLE001, S112 - it has been reported, and is tried for as long as the client is open
                    continue

    async def _write_late(self, key: tuple[OrderRef, int], evidence: Evidence) -> None:
        ref, n = key
        await self._journal.settle(ref, n, evidence)
        if self._unwritten.pop(key, None) is not None:
            message = "order %(order_id)r: its outcome (%(outcome)s, task %(task_id)s) is on record after all"
            fields = {"order_id": ref.order_id, "outcome": str(evidence.outcome), "task_id": evidence.task_id}
            report(logger, logging.WARNING, Event.ORDER_SETTLED_LATE, message, **fields)
            await self._look_for_owner(ref, evidence)

    async def _look_for_owner(self, ref: OrderRef, evidence: Evidence) -> None:
        """A task that is the receipt of another order too is reported: one of the two has none of its own."""
        if evidence.task_id is None:
            return
        try:
            owner = await self._journal.owner(ref, evidence.task_id)
        except Exception:  # noqa: BLE001 - a question besides
            return  # the receipt is on record, which is what counts
        if owner is not None:
            message = "order %(order_id)r: its task %(task_id)s is also the receipt of order %(other_order_id)r"
            fields = {"order_id": ref.order_id, "task_id": evidence.task_id, "other_order_id": owner.order_id}
            report(logger, logging.ERROR, Event.TASK_SHARED, message, **fields)

    def _report_unwritten(self, ref: OrderRef, evidence: Evidence, error: Exception) -> None:
        report(
            logger,
            logging.ERROR,
            Event.ORDER_UNSETTLED,
            "order %(order_id)r: its outcome (%(outcome)s, task %(task_id)s) could not be written: %(error)s",
            order_id=ref.order_id,
            outcome=str(evidence.outcome),
            task_id=evidence.task_id,
            error=self.why(error),
        )

    def _not_stored(self, ref: OrderRef, task_id: str, error: Exception) -> ReceiptNotStoredError:
        message = (
            f"order {ref.order_id!r}: the service accepted it as task {task_id!r}, but the journal could not be "
            f"written ({self.why(error)}). It is written as soon as the journal takes it, while this client is open."
        )
        return ReceiptNotStoredError(
            message,
            order_id=ref.order_id,
            task_id=task_id,
            advice="Keep the task id; if the client is closed before, record it with orders.adopt(…).",
        )

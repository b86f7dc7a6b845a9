"""The one owner of what is written to the journal in the background: outcomes of attempts that it does not accept now,
results of tasks, and balances. And what is logged about orders."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from vidgen_async.clock import Clock, backoff, wait_for_end, within
from vidgen_async.errors import JournalError, ReceiptNotStoredError, VidgenError
from vidgen_async.events import Event
from vidgen_async.journal.base import Journal
from vidgen_async.orders.error_messages import facts
from vidgen_async.redaction.messages import hide_secrets, showable
from vidgen_async.service.endpoints import model_of
from vidgen_async.types.orders import AttemptOutcome, Evidence, Order, OrderRef, TaskResult
from vidgen_async.user_code import UserCode, describe

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Key = tuple[OrderRef, int | str]
"""An attempt, by its number or its mark."""

#: For how many seconds a write is retried while its caller waits, counted from the end of the first failed attempt;
#: after that it is retried in the background.
RETRY_FOR = 30.0
#: Seconds before the first retry in the background, and the maximum number between two of them.
_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 60.0
#: Seconds that failing writes may take when the client is closed.
_MAX_FAILURE_TIME = 1.0
#: Time limit in seconds of readers of balances when the client is closed.
_CLOSING_TIMEOUT = 2.0
#: So many results are written in one commit.
BATCH = 500


class Settlement:
    """Nothing is lost while the client is open: evidence that the journal refused stays in memory, counts as known, and
    is written again until the journal accepts it. So are results; no caller waits for them."""

    def __init__(self, journal: Journal, clock: Clock, service: str, known: tuple[str, ...] = ()) -> None:
        self.journal = journal
        self._clock = clock
        self._service = service
        self._known_secrets = known
        self._workers: set[asyncio.Task[Any]] = set()
        self._readers: set[asyncio.Task[None]] = set()
        self._late_writer: asyncio.Task[None] | None = None
        self.unwritten: dict[_Key, Evidence] = {}
        """Evidence that the journal did not accept yet."""
        self._unsent: dict[tuple[OrderRef, str], Evidence] = {}
        """By mark: that nothing was sent of an attempt that the journal did not confirm, but may have stored."""
        self._results: dict[str, TaskResult] = {}
        """By task id: results that are not written yet."""
        self._has_warned = False
        """Whether their last write failed, and that was logged."""
        self._is_closing = asyncio.Event()
        self._is_closed = False

    async def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work to its end although the caller is cancelled; a ReceiptNotStoredError replaces that."""
        worker = asyncio.get_running_loop().create_task(work, name="settlement")
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)
        try:
            return await asyncio.shield(worker)
        finally:
            if not worker.done():  # the caller may be cancelled again, by a second aclose()
                with suppress(asyncio.CancelledError):
                    await wait_for_end({worker})
            if not worker.cancelled() and isinstance(error := worker.exception(), ReceiptNotStoredError):
                raise error

    def start_reader(self, work: Coroutine[Any, Any, None]) -> None:
        """Read a balance in the background. It is cancelled when the client is closed, if it takes long."""
        reader = asyncio.get_running_loop().create_task(work, name="balance")
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)

    def describe(self, error: BaseException) -> str:
        """The text of an error of a journal, without secrets: that of a user's own journal may contain anything."""
        if isinstance(error, VidgenError):
            return error.summary.removesuffix(" Nothing was written.")
        return f"{type(error).__name__}: {hide_secrets(str(error), self._known_secrets)}"

    def record_unsent(self, ref: OrderRef, mark: str) -> None:
        """Record that nothing was sent of an attempt that the journal did not confirm, but may have stored."""
        cause = "the journal did not confirm that the attempt was stored, so nothing was sent"
        evidence = Evidence(outcome=AttemptOutcome.NOT_SENT, at=self._clock.wall(), cause=cause)
        self._unsent[ref, mark] = evidence
        self._write_later((ref, mark), evidence)

    async def _settle_unsent(self, ref: OrderRef, mark: str, evidence: Evidence) -> Order | None:
        """Write that nothing was sent of the attempt, if the journal has it."""
        order = await self.journal.settle_mark(ref, mark, evidence)
        if order is not None and order.find(mark) is not None:
            self._unsent.pop((ref, mark), None)
        return order

    async def read(self, ref: OrderRef) -> Order | None:
        """Return the stored order, and log what this read has found to be uncertain."""
        now = self._clock.wall()
        with UserCode(passes=(Exception,)) as call:
            order = await self.journal.get(ref, now)
        if call.error is not None:
            raise JournalError(f"the journal could not be read: it raised {describe(call.error)}")
        for (of, mark), evidence in list(self._unsent.items()):
            if of == ref and order is not None and order.find(mark) is not None:
                order = await self._settle_unsent(ref, mark, evidence)
        if order is not None:
            report_found_uncertain(order, now)
        return order

    async def write(self, order: Order, n: int, evidence: Evidence) -> Order:
        """Write the evidence about attempt ``n``, and return the order with it. What is not written within RETRY_FOR
        seconds is written later; for a receipt a ReceiptNotStoredError is raised."""
        ref = order.ref
        failures, give_up_at = 0, math.inf
        while True:
            with UserCode() as call:  # a journal may raise anything; the evidence must not be lost
                settled = await self.journal.settle(ref, n, evidence)
            if (error := call.error) is None:
                return settled
            failures += 1
            give_up_at = min(give_up_at, self._clock.now() + RETRY_FOR)
            self._report_unwritten(ref, evidence, error, logging.ERROR if failures == 1 else logging.WARNING)
            if self._is_closing.is_set() or self._clock.now() >= give_up_at:
                self._write_later((ref, n), evidence)
                if evidence.task_id is not None:
                    raise self._not_stored_error(evidence.task_id, error, **facts(order))
                return order.with_evidence(n, evidence)
            with suppress(TimeoutError):
                await within(self._clock, backoff(failures, 1.0), self._is_closing.wait)

    def stop_waiting(self) -> None:
        """Make pending calls of :meth:`write` return after one more attempt: the client is closing."""
        self._is_closing.set()

    def add_unwritten(self, order: Order) -> Order:
        """The order with the evidence that is not written yet."""
        for (ref, n), evidence in self.unwritten.items():
            if ref == order.ref and isinstance(n, int):
                order = order.with_evidence(n, evidence)
        for (ref, mark), evidence in self._unsent.items():
            if ref == order.ref and (attempt := order.find(mark)) is not None:
                order = order.with_evidence(attempt.n, evidence)
        return order

    async def flush(self, ref: OrderRef) -> None:
        """Write what is not written yet of this order, or raise: the journal must not know less than this client."""
        for key, evidence in [item for item in self.unwritten.items() if item[0][0] == ref]:
            with UserCode() as call:
                await self._write_late(key, evidence)
            if call.error is not None:
                if evidence.task_id is not None:
                    raise self._not_stored_error(evidence.task_id, call.error, order_id=ref.order_id)
                raise call.error

    async def flush_results(self) -> None:
        """Write the results that are not written yet. Raises what the journal raises."""
        for batch in self._batches():
            await self._write_results(batch)

    def add_result(self, result: TaskResult) -> None:
        """Write how a task ended, soon."""
        if not self._is_closed:
            self._results[result.task_id] = result
            self._start_late_writer()

    async def aclose(self, grace: float) -> None:
        """Attempt once more to write everything, unless failures take long; log what could not be written. Nothing is
        written after that. Readers of balances have ``grace`` seconds, at most two."""
        self._is_closing.set()
        try:
            if self._workers:
                await asyncio.wait(self._workers)
            if self._late_writer is not None:
                self._late_writer.cancel()
                await asyncio.wait({self._late_writer})
            while (self.unwritten or self._results) and await self._write_each(stop_after=_MAX_FAILURE_TIME):
                pass  # then what was put meanwhile
        finally:
            self._is_closed = True
            if readers := set(self._readers):
                with suppress(TimeoutError):
                    await within(self._clock, min(grace, _CLOSING_TIMEOUT), lambda: asyncio.wait(readers))
                for reader in readers:
                    reader.cancel()
                await asyncio.wait(readers)

    def _write_later(self, key: _Key, evidence: Evidence) -> None:
        self.unwritten[key] = evidence
        self._start_late_writer()

    def _start_late_writer(self) -> None:
        if not self._is_closing.is_set() and (self._late_writer is None or self._late_writer.done()):
            self._late_writer = asyncio.get_running_loop().create_task(self._write_until_accepted(), name="late writer")

    async def _write_until_accepted(self) -> None:
        failures = 0
        if self.unwritten:  # which the journal has just refused
            await self._clock.sleep(_FIRST_PAUSE)
        while self.unwritten or self._results:
            failures = 0 if await self._write_each() else failures + 1
            if failures:
                await self._clock.sleep(backoff(failures, 1.0, longest=_LONGEST_PAUSE))

    async def _write_each(self, *, stop_after: float = math.inf) -> bool:
        """Attempt once to write everything, until failures took ``stop_after`` seconds; whether there were none."""
        writes: list[tuple[Callable[[], Awaitable[None]], Callable[[BaseException], None]]] = [
            (partial(self._write_late, key, evidence), partial(self._report_late, key[0], evidence))
            for key, evidence in self.unwritten.items()
        ]
        writes += [(partial(self._write_results, batch), self._report_results) for batch in self._batches()]
        error: BaseException | None = None
        for write, report_failure in writes:
            if stop_after > 0:
                started_at = self._clock.now()
                with UserCode() as call:  # a journal may raise anything; it is retried
                    await write()
                if call.error is None:
                    continue
                error = call.error
                stop_after -= self._clock.now() - started_at
            if error is not None:
                report_failure(error)
        return error is None

    async def _write_late(self, key: _Key, evidence: Evidence) -> None:
        """Write this evidence now. Raises whatever the journal raises; it stays unwritten then."""
        ref, n = key
        if isinstance(n, str):
            await self._settle_unsent(ref, n, evidence)
        else:
            await self.journal.settle(ref, n, evidence)
            outcome = str(evidence.outcome)
            Event.ORDER_WRITTEN_LATE.log(logger, order_id=ref.order_id, outcome=outcome, task_id=evidence.task_id)
        if self.unwritten.get(key) is evidence:
            del self.unwritten[key]

    def _batches(self) -> list[list[TaskResult]]:
        results = list(self._results.values())
        return [results[start : start + BATCH] for start in range(0, len(results), BATCH)]

    async def _write_results(self, results: Sequence[TaskResult]) -> None:
        await self.journal.record(self._service, results)
        self._has_warned = False
        for result in results:
            if self._results.get(result.task_id) is result:
                del self._results[result.task_id]

    def _report_late(self, ref: OrderRef, evidence: Evidence, error: BaseException) -> None:
        if self._is_closing.is_set():
            self._report_unwritten(ref, evidence, error)

    def _report_results(self, error: BaseException) -> None:
        level = logging.INFO if self._has_warned and not self._is_closing.is_set() else logging.WARNING
        self._has_warned = True
        Event.RESULTS_WRITE_FAILED.log(logger, level=level, count=len(self._results), error=self.describe(error))

    def _report_unwritten(
        self, ref: OrderRef, evidence: Evidence, error: BaseException, level: int = logging.ERROR
    ) -> None:
        fields: dict[str, Any] = {"task_id": evidence.task_id, "error": self.describe(error)}
        outcome = str(evidence.outcome)
        Event.ORDER_WRITE_FAILED.log(logger, level=level, order_id=ref.order_id, outcome=outcome, **fields)

    def _not_stored_error(self, task_id: str, error: BaseException, **order: Any) -> ReceiptNotStoredError:
        failure = ReceiptNotStoredError(
            f"order {order['order_id']!r}: the service accepted it as task {task_id!r}, but the journal could not be "
            f"written ({self.describe(error)}). The client retries the write while it is open.",
            task_id=task_id,
            **order,
            advice="Store the task id; if the client is closed before that, record it with orders.adopt(…).",
        )
        failure.__cause__ = showable(error, self._known_secrets)
        return failure


def report_outcome(order: Order, n: int, evidence: Evidence) -> None:
    """Log the outcome of an attempt."""
    Event[f"ORDER_{evidence.outcome.name}"].log(
        logger,
        order_id=order.order_id,
        attempt=n,
        outcome=str(evidence.outcome),
        status=evidence.status,
        task_id=evidence.task_id,
        request_id=evidence.request_id,
        cause=evidence.cause or None,
        model=order.model or model_of(order.body),
    )


def report_found_uncertain(order: Order, now: datetime) -> None:
    """Log the attempts that a read of the journal at ``now`` made uncertain: their sender may not exist any more."""
    for n, evidence in order.found_uncertain(now):
        report_outcome(order, n, evidence)

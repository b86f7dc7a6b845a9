"""Writes later what the journal does not accept now."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from vidgen_async.clock import Clock, backoff
from vidgen_async.user_code import UserCode

K = TypeVar("K")
V = TypeVar("V")

Items: TypeAlias = Sequence[tuple[K, V]]

#: Maximum number of seconds between two attempts.
LONGEST_PAUSE = 60.0
#: Seconds that failing writes may take when a writer is closed.
MAX_FAILURE_TIME = 1.0


class LateWriter(Generic[K, V]):
    """Writes values in the background, in batches, and retries until all are written or the writer is closed.

    Args:
        write: Writes one batch. Whatever it raises is reported, and the batch is retried.
        report_failure: Called with a log level, a batch that could not be written, and the error.
        batch_size: The largest number of items in one call of ``write``.
        first_pause: Seconds before the first attempt.
    """

    def __init__(
        self,
        clock: Clock,
        write: Callable[[Items[K, V]], Awaitable[None]],
        report_failure: Callable[[int, Items[K, V], BaseException], None],
        *,
        batch_size: int = 1,
        first_pause: float = 0.0,
    ) -> None:
        self._clock = clock
        self._write = write
        self._report_failure = report_failure
        self._batch_size = batch_size
        self._first_pause = first_pause
        self._worker: asyncio.Task[None] | None = None
        self._is_closed = False
        self.unwritten: dict[K, V] = {}

    def put(self, key: K, value: V) -> None:
        """Write the value soon. One that is put under the same key before that replaces it."""
        self.unwritten[key] = value
        if not self._is_closed and (self._worker is None or self._worker.done()):
            self._worker = asyncio.get_running_loop().create_task(self._write_all(), name="late writer")

    async def write(self, items: Items[K, V]) -> None:
        """Write these now. Raises whatever the journal raises; they stay unwritten then."""
        await self._write(items)
        for key, value in items:
            if self.unwritten.get(key) is value:
                del self.unwritten[key]

    async def aclose(self) -> None:
        """Attempt once more to write everything, unless failures take long; report what could not be written. Nothing
        is written after that."""
        self._is_closed = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.wait({worker})
        while self.unwritten and await self._write_each(logging.WARNING, stop_after=MAX_FAILURE_TIME):
            pass  # then what was put meanwhile

    async def _write_all(self) -> None:
        failures = 0
        if self._first_pause:
            await self._clock.sleep(self._first_pause)
        while self.unwritten:
            if await self._write_each(logging.INFO if failures else logging.WARNING):
                failures = 0
            else:
                failures += 1
                await self._clock.sleep(backoff(failures, 1.0, longest=LONGEST_PAUSE))

    async def _write_each(self, level: int, *, stop_after: float = math.inf) -> bool:
        """Attempt once to write each batch, until failures have taken ``stop_after`` seconds. Report those that were
        not written at this log level, and return whether there were none."""
        remaining, has_failed = dict(self.unwritten), False
        while batch := list(islice(remaining.items(), self._batch_size)):
            for key, _ in batch:
                del remaining[key]
            started_at = self._clock.now()
            with UserCode() as call:
                await self.write(batch)
            if call.error is not None:  # a journal may raise anything; it is retried
                has_failed = True
                stop_after -= self._clock.now() - started_at
                if stop_after <= 0:
                    batch += remaining.items()
                    remaining.clear()
                self._report_failure(level, batch, call.error)
        return not has_failed

"""What the journal does not accept now is written as soon as it does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from vidgen_async.clock import Clock, backoff

K = TypeVar("K")
V = TypeVar("V")

Items: TypeAlias = Sequence[tuple[K, V]]

#: Seconds between two tries, at most.
LONGEST_PAUSE = 60.0


class LateWriter(Generic[K, V]):
    """Writes values in the background, in batches, and retries until all are written or the writer is closed.

    Args:
        write: Writes one batch. Whatever it raises is reported, and the batch is retried.
        report_failure: Called with a log level, a batch that could not be written, and the error.
        batch_size: The largest number of items in one call of ``write``.
        first_pause: Seconds before the first try.
    """

    def __init__(
        self,
        clock: Clock,
        write: Callable[[Items[K, V]], Awaitable[None]],
        report_failure: Callable[[int, Items[K, V], Exception], None],
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
        """Try once more to write everything; report what could not be written. Nothing is written after that."""
        self._is_closed = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.wait({worker})
        try:
            while batch := self._batch(self.unwritten):
                await self.write(batch)
        except Exception as error:  # noqa: BLE001 - a journal may raise anything
            # One that takes long to fail is not tried for each batch.
            self._report_failure(logging.WARNING, list(self.unwritten.items()), error)

    async def _write_all(self) -> None:
        failures = 0
        if self._first_pause:
            await self._clock.sleep(self._first_pause)
        while self.unwritten:
            remaining = dict(self.unwritten)
            has_failed = False
            while batch := self._batch(remaining):
                for key, _ in batch:
                    del remaining[key]
                try:
                    await self.write(batch)
                except Exception as error:  # noqa: BLE001 - a journal may raise anything; it is retried
                    has_failed = True
                    self._report_failure(logging.INFO if failures else logging.WARNING, batch, error)
            failures = failures + 1 if has_failed else 0
            if has_failed:
                await self._clock.sleep(backoff(failures, 1.0, longest=LONGEST_PAUSE))

    def _batch(self, items: dict[K, V]) -> Items[K, V]:
        return list(islice(items.items(), self._batch_size))

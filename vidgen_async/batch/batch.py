"""A batch: the videos of many rows, with a run that can be repeated."""

import asyncio
import os
import tempfile
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vidgen_async.batch.checking import BatchRows, RowCheck, read_spool
from vidgen_async.batch.directory import lock_directory
from vidgen_async.batch.outcomes import BatchCheck, BatchOutcome
from vidgen_async.batch.page import make_poster
from vidgen_async.batch.report import Report
from vidgen_async.batch.rows import RowReader
from vidgen_async.batch.run import BatchOptions, Run
from vidgen_async.batch.uploads import CachedUploads
from vidgen_async.client.views import View
from vidgen_async.clock import run_in_thread
from vidgen_async.errors import InvalidRequestError

if TYPE_CHECKING:
    from vidgen_async.client.videos import Videos

#: The number of problems in the message of an error, which has all of them.
_MOST_NAMED = 20


class Batch:
    """The videos of many rows: ``async for outcome in batch`` yields a :class:`BatchOutcome` for each, as it is known.

    Made by :meth:`Videos.batch`, which states what it does. It is iterated once. ``async with`` closes it; without
    that, a loop that is left early, or whose body is cancelled, leaves the batch running until it is collected as
    garbage.
    """

    def __init__(
        self,
        rows: BatchRows,
        options: BatchOptions,
        report: str | os.PathLike[str] | None,
        videos: "Videos",
        view: View,
    ) -> None:
        self._rows = rows
        self._options = options
        self._videos = videos
        self._view = view
        self._uploads = CachedUploads(view.reads, view.endpoints, view.clock)
        self._report = None if report is None else Report(report)
        # A file without a name: the system removes it, whatever ends the process.
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._spool.close)
        self._check: BatchCheck | None = None
        self._run = Run(options, videos, view.orders, self._uploads, view.clock)
        self._outcomes = self._iterate()

    async def check(self) -> BatchCheck:
        """Check all rows, and send nothing but a request for the catalog; the loop does this first. The rows are read
        once, and stored in a temporary file: what changes in a manifest later has no effect.

        Raises:
            InvalidRequestError: The manifest cannot be read.
            AuthenticationError: The API key was refused.
            JournalError: The journal cannot be read.
        """
        if self._check is None:
            view = self._view
            base = Path(self._rows).parent if isinstance(self._rows, str | os.PathLike) else Path()
            catalog = await view.live_catalog.fetch()
            reader = RowReader(self._options.directory, base, self._uploads, catalog, view.endpoints, view.clock)
            self._spool.truncate(self._spool.seek(0))  # it may be the second attempt
            check = RowCheck(reader, view.orders, self._options, view.clock, self._spool)
            self._check = await check.run(self._rows)
        return self._check

    def stop(self) -> None:
        """End the loop soon: nothing is ordered any more, the creates that are being sent end, and tasks are not waited
        for. The rest of the rows is yielded too, as ``not_sent`` or ``running``."""
        self._run.stop()

    def __aiter__(self) -> AsyncIterator[BatchOutcome]:
        return self._outcomes

    async def aclose(self) -> None:
        """Stop it, wait for the creates that are being sent, and complete the report. It can be called several times;
        while another task is in the loop, call :meth:`stop` instead. If it is cancelled, the batch ends at once."""
        await self._outcomes.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _iterate(self) -> AsyncGenerator[BatchOutcome, None]:
        with ExitStack() as stack:
            stack.callback(self._spool.close)
            if problems := (await self.check()).problems:
                more = f"; and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
                message = f"nothing was sent: {'; '.join(problems[:_MOST_NAMED])}{more}"
                raise InvalidRequestError(message, problems=problems)
            stack.enter_context(lock_directory(self._options.directory))
            await self._videos.check_target(self._options.directory / "video.mp4")
            if self._report is not None:
                stack.enter_context(self._report)
            worker = asyncio.ensure_future(self._run.work(read_spool(self._spool, self._view.clock)))
            try:
                while (outcome := await self._run.outcomes.get()) is not None:
                    await self._add(outcome)
                    yield outcome
            finally:
                await self._end(worker)
            worker.result()

    async def _add(self, outcome: BatchOutcome | None) -> None:
        """Add it to the report; without its poster if this is cancelled."""
        if outcome is None or self._report is None:
            return
        poster = b""
        try:
            if self._report.has_posters and outcome.path is not None:
                poster = await run_in_thread(make_poster, outcome.path)
        finally:
            self._report.add(outcome, poster)

    async def _end(self, worker: asyncio.Task[None]) -> None:
        """Wait until the worker has ended; what nobody reads any more goes into the report."""
        self._run.stop()

        async def drain() -> None:
            while True:
                await self._add(await self._run.outcomes.get())

        drainer = asyncio.ensure_future(drain())
        try:
            await asyncio.wait([worker])
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            drainer.cancel()
            await asyncio.gather(drainer, return_exceptions=True)
            while not self._run.outcomes.empty():
                await self._add(self._run.outcomes.get_nowait())

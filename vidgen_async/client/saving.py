"""Saves the videos of many outcomes, with bounded concurrency."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, aclosing, suppress
from pathlib import Path

from attrs import evolve

from vidgen_async.errors import DownloadError, TargetExistsError, VidgenError
from vidgen_async.types.resources import VideoTask
from vidgen_async.user_code import UserCode, describe
from vidgen_async.watcher import Outcome


class NotSavedError(Exception):
    """Leaves the block in which an outcome is handled: it was not handled."""


class Saver:
    """Saves videos as new files.

    Args:
        download: Saves the video of a task at a path.
        to: A directory, or the function that returns the path for an outcome.
    """

    def __init__(
        self,
        download: Callable[[VideoTask, Path], Awaitable[Path]],
        to: str | os.PathLike[str] | Callable[[Outcome], str | os.PathLike[str]],
    ) -> None:
        self._download = download
        self._to = to
        self._targets: dict[str, str] = {}
        """The task of each absolute path."""

    async def save(self, outcome: Outcome) -> Outcome:
        """The outcome with the path of its video, or with the reason why it was not saved; a failed one unchanged."""
        if outcome.error is not None or outcome.task is None:
            return outcome
        try:
            target = self._target_of(outcome)
            self._claim(target, outcome.task_id)
            return evolve(outcome, path=await self._download(outcome.task, target))
        except VidgenError as error:
            return evolve(outcome, error=error)

    def _target_of(self, outcome: Outcome) -> Path:
        if not callable(self._to):
            return Path(self._to, f"{file_name(outcome.task_id)}.mp4")
        with UserCode(is_awaited=False, passes=(Exception,)) as call:
            return Path(self._to(outcome))
        message = (
            f"the video of task {outcome.task_id!r} was not saved: the function `to` raised {describe(call.error)}"
        )
        raise DownloadError(message, task_id=outcome.task_id)

    def _claim(self, target: Path, task_id: str) -> None:
        owner = self._targets.setdefault(os.path.abspath(target), task_id)  # noqa: PTH100 - links are not resolved
        if owner != task_id:
            message = f"the video of task {task_id!r} was not saved: {target} is the video of task {owner!r}"
            raise DownloadError(message, task_id=task_id)


async def save_each(
    outcomes: AsyncIterator[Outcome],
    save: Callable[[Outcome], Awaitable[Outcome]],
    handling: Callable[[Iterable[str]], AbstractContextManager[None]],
    concurrency: int,
) -> AsyncGenerator[Outcome, None]:
    """Yield what ``save`` returns for each outcome, as it is ready.

    An outcome is handled, in a block of ``handling``, until the caller asks for the next one. The block is left with an
    error if its video was not saved.

    Raises:
        Exception: What ``outcomes`` raised, after the other videos were saved.
    """
    turn = asyncio.Lock()
    ready: asyncio.Queue[tuple[Outcome, asyncio.Future[None]] | None] = asyncio.Queue()

    async def work() -> None:
        while True:
            with suppress(NotSavedError), ExitStack() as block:
                async with turn:
                    outcome = await anext(outcomes, None)
                    if outcome is None:
                        return
                    # In this turn: to ask for the next outcome means that this one was handled.
                    block.enter_context(handling([outcome.task_id]))
                saved = await save(outcome)
                is_taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                ready.put_nowait((saved, is_taken))
                await is_taken
                if saved.error is not outcome.error and not isinstance(saved.error, TargetExistsError):
                    raise NotSavedError

    workers = [asyncio.ensure_future(work()) for _ in range(concurrency)]
    for worker in workers:
        worker.add_done_callback(lambda _: ready.put_nowait(None))
    try:
        running = len(workers)
        while running:
            item = await ready.get()
            if item is None:
                running -= 1
                continue
            outcome, is_taken = item
            yield outcome
            is_taken.set_result(None)
        for worker in workers:
            await worker
    finally:
        try:
            # What the caller asked past was handled: its worker, which may not have run since, leaves its block now.
            await asyncio.sleep(0)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def iterate(outcomes: AsyncIterable[Outcome] | Iterable[Outcome]) -> AsyncGenerator[Outcome, None]:
    """All outcomes. A generator is closed with this one: the watch behind it ends."""
    each = aiter(outcomes) if isinstance(outcomes, AsyncIterable) else iter(outcomes)
    async with AsyncExitStack() as stack:
        if isinstance(outcomes, AsyncGenerator):
            await stack.enter_async_context(aclosing(outcomes))
        while (outcome := await _next(each)) is not None:
            yield outcome


async def _next(outcomes: AsyncIterator[Outcome] | Iterator[Outcome]) -> Outcome | None:
    with UserCode(passes=(Exception,)) as call:
        return await anext(outcomes, None) if isinstance(outcomes, AsyncIterator) else next(outcomes, None)
    # A bare CancelledError would seem to be the caller's cancellation, a GeneratorExit the end of its loop.
    raise VidgenError(f"the iterator of outcomes raised {describe(call.error)}") from call.error


def file_name(task_id: str) -> str:
    """The task id as a file name, which cannot leave the directory."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in task_id).lstrip(".") or "_"

"""Saves the videos of many outcomes, with bounded concurrency."""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, aclosing, suppress
from pathlib import Path

from attrs import Factory, evolve, frozen

from vidgen_async.errors import DownloadError, TargetExistsError, VidgenError
from vidgen_async.types.resources import Receipt, TaskLike, VideoTask, task_id_of
from vidgen_async.user_code import UserCode, describe
from vidgen_async.watcher import Outcome

#: Task ids that are names of files as they are, on every file system; not those that Windows reserves for devices.
_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))[a-z0-9_-][a-z0-9_.-]{0,99}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
#: Follows the last outcome.
_END = Outcome("")


class NotSavedError(Exception):
    """Leaves the block in which an outcome is handled: it was not handled."""


@frozen
class Saver:
    """Saves videos as new files."""

    _get: Callable[[str], Awaitable[VideoTask]]
    """Returns a task by its id."""
    _download: Callable[[VideoTask, Path], Awaitable[Path]]
    """Saves the video of a task at a path."""
    _to: str | os.PathLike[str] | Callable[[Outcome], str | os.PathLike[str]]
    """A directory, or the function that returns the path for an outcome."""
    _targets: dict[str, str] = Factory(dict)
    """The task of each absolute path."""

    async def save(self, outcome: Outcome) -> Outcome:
        """The outcome with the path of its video, or with the reason why it was not saved; a failed one unchanged. One
        without a task gets it first."""
        try:
            if outcome.task is None and outcome.error is None:
                now = Outcome.of(await self._get(outcome.task_id))
                outcome = evolve(outcome, task=now.task, error=now.error, state=now.state)
            if outcome.task is None or outcome.error is not None:
                return outcome
            return evolve(outcome, path=await self._download(outcome.task, self._claim_target(outcome)))
        except VidgenError as error:
            return evolve(outcome, error=error)

    def _claim_target(self, outcome: Outcome) -> Path:
        with UserCode(is_awaited=False, passes=(Exception,)) as call:
            target = Path(self._to(outcome)) if callable(self._to) else Path(self._to, file_name(outcome.task_id))
        problem = f"the function `to` raised {describe(call.error)}"
        if call.error is None:
            owner = self._targets.setdefault(os.path.abspath(target), outcome.task_id)  # noqa: PTH100 - links are not resolved
            if owner == outcome.task_id:
                return target
            problem = f"{target} is the video of task {owner!r}"
        message = f"the video of task {outcome.task_id!r} was not saved: {problem}"
        raise DownloadError(message, task_id=outcome.task_id)


async def save_each(
    outcomes: AsyncIterator[Outcome],
    save: Callable[[Outcome], Awaitable[Outcome]],
    handling: Callable[[Iterable[str]], AbstractContextManager[None]],
    concurrency: int,
) -> AsyncGenerator[Outcome, None]:
    """Yield what ``save`` returns for each outcome, as it is ready; then raise what ``outcomes`` raised.

    An outcome is handled, in a block of ``handling``, until the caller asks for the next one. The block is left with an
    error if its video was not saved.
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


async def iterate(
    outcomes: AsyncIterable[Outcome | TaskLike] | Iterable[Outcome | TaskLike],
) -> AsyncGenerator[Outcome, None]:
    """All outcomes, also of tasks that were not waited for. A generator is closed with this one: the watch behind it
    ends."""
    if isinstance(outcomes, TaskLike | Outcome):
        outcomes = [outcomes]
    each = aiter(outcomes) if isinstance(outcomes, AsyncIterable) else iter(outcomes)
    async with AsyncExitStack() as stack:
        if isinstance(outcomes, AsyncGenerator):
            await stack.enter_async_context(aclosing(outcomes))
        while (outcome := await _next(each)) is not _END:
            yield _outcome_of(outcome)


def _outcome_of(task: Outcome | TaskLike) -> Outcome:
    if isinstance(task, Outcome):
        return task
    if isinstance(task, VideoTask):
        return Outcome.of(task)
    return Outcome(task_id_of(task), order_id=task.order_id if isinstance(task, Receipt) else None)


async def _next(
    outcomes: AsyncIterator[Outcome | TaskLike] | Iterator[Outcome | TaskLike],
) -> Outcome | TaskLike:
    with UserCode(passes=(Exception,)) as call:
        return await anext(outcomes, _END) if isinstance(outcomes, AsyncIterator) else next(outcomes, _END)
    # A bare CancelledError would seem to be the caller's cancellation, a GeneratorExit the end of its loop.
    raise VidgenError(f"the iterator of outcomes raised {describe(call.error)}") from call.error


def file_name(task_id: str) -> str:
    """The task id and ``.mp4`` as a file name, which is valid on every file system and differs from those of all other
    ids, also where upper and lower case are the same. An id that is not such a name has its other characters replaced,
    and a digest appended."""
    if _PLAIN.fullmatch(task_id):
        return f"{task_id}.mp4"
    digest = hashlib.sha256(task_id.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{_OTHER.sub('_', task_id)[:50]}~{digest}.mp4"

"""The file of a download: it appears at its target only when it is complete."""

import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from attrs import define, field

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.clock import run_in_thread
from vidgen_async.errors import DownloadError, TargetExistsError

T = TypeVar("T")

_MAX_THREADS = 8


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads of their own: a slow disk must not hold up the DNS queries, which are made in those of the loop."""
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="vidgen-files")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of the threads


@define(eq=False, repr=False)
class PartialFile:
    """A temporary file beside the target; leaving the block removes it unless :meth:`commit` has moved it there."""

    _target: str | os.PathLike[str]
    _overwrite: bool = field(default=True, kw_only=True)
    _hold: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, kw_only=True)
    _file: AtomicFile = field(init=False)
    _is_open: bool = field(default=False, init=False)

    @property
    def length(self) -> int:
        return self._file.length if self._is_open else 0

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._open)
        except BaseException:
            await self._run(self._discard)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._run(self._discard)

    async def write(self, chunks: Iterable[bytes]) -> None:
        await self._run(self._write, chunks)

    async def truncate(self) -> None:
        if self.length:
            await self._run(self._file.truncate)

    async def inspect(self, look: Callable[[BinaryIO, int], T]) -> T:
        """Return ``look(file, length)``, called in a thread."""
        return await self._run(self._inspect, look)

    async def commit(self) -> None:
        """Replace the target atomically; the file is durable then. If it is cancelled, it is completed first."""
        await self._run(partial(self._file.commit, overwrite=self._overwrite))

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            with self._hold():
                return await run_in_thread(call, *arguments, executor=_threads())
        except FileExistsError as error:
            message = f"the video was not saved: the file {os.fspath(self._target)!r} already exists."
            advice = "To replace it, pass overwrite=True."
            raise TargetExistsError(message, received=self.length, advice=advice) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if isinstance(error, FileNotFoundError):
                reason = "its folder does not exist"
            message = f"the video cannot be saved as {os.fspath(self._target)!r}: {reason}"
            raise DownloadError(message, received=self.length) from error

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if "\0" in os.fsdecode(self._target):
            raise OSError("the path holds a null character")
        target = Path(os.path.realpath(os.fsdecode(self._target)))
        with suppress(FileNotFoundError):
            mode = target.stat().st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError("it is a directory")
            if not stat.S_ISREG(mode):
                raise OSError("it is not a regular file")
        if not self._overwrite and os.path.lexists(self._target):  # also a link that leads nowhere
            raise FileExistsError
        self._file = AtomicFile(target, keep_mode=True)
        self._is_open = True

    def _write(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self._file.write(chunk)

    def _inspect(self, look: Callable[[BinaryIO, int], T]) -> T:
        try:
            return look(self._file.file, self.length)
        finally:
            self._file.file.seek(self.length)

    def _discard(self) -> None:
        if self._is_open:
            self._file.discard()

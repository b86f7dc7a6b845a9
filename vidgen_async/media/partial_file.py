"""The file of a download: it appears at its target only when it is complete."""

import asyncio
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.errors import DownloadError

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """``call(*arguments)`` in a thread. Cancelled, it waits for the thread before it lets the cancel through, so that
    nothing is closed under a thread that still writes."""
    work = asyncio.get_running_loop().run_in_executor(None, partial(call, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    work.exception()  # looked at, so that it is not reported as lost
    raise cancelled


class PartFile:
    """``async with PartFile(target) as part``: a new file in the target's folder; leaving the block removes it unless
    :meth:`commit` has moved it to the target. All I/O is done in threads, under ``hold()``.

    A symbolic link at the target is followed: what it points to is replaced. What the system refuses is a
    DownloadError that names the target.
    """

    def __init__(
        self, target: str | os.PathLike[str], *, hold: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._given = target
        self._hold = hold
        self._file: AtomicFile | None = None

    @property
    def length(self) -> int:
        """Bytes written."""
        return 0 if self._file is None else self._file.length

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._open)
        except BaseException:
            await self._run(self._discard)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._run(self._discard)

    async def write(self, data: bytes | bytearray) -> None:
        await self._run(self._write, data)

    async def truncate(self) -> None:
        """Back to an empty file."""
        if self.length:
            await self._run(self._truncate)

    async def examine(self, look: Callable[[BinaryIO, int], T]) -> T:
        """``look(file, length)`` at what was written."""
        return await self._run(self._examine, look)

    async def commit(self) -> None:
        """Durable on disk, and at the target: whoever looks sees the old file or the whole new one. A cancel comes
        through when it is done."""
        await self._run(self._commit)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            with self._hold():
                return await in_thread(call, *arguments)
        except OSError as error:
            message = f"the video cannot be saved as {os.fspath(self._given)!r}: {_reason(error)}"
            raise DownloadError(message, received=self.length) from error

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if "\0" in os.fsdecode(self._given):
            message = "the path holds a null character"
            raise OSError(message)
        target = Path(os.path.realpath(os.fsdecode(self._given)))
        with suppress(FileNotFoundError):
            mode = target.stat().st_mode
            if stat.S_ISDIR(mode):
                message = "it is a directory"
                raise IsADirectoryError(message)
            if not stat.S_ISREG(mode):
                message = "it is not a regular file"
                raise OSError(message)
        self._file = AtomicFile(target)

    def _opened(self) -> AtomicFile:
        if self._file is None:
            message = "the file is not open"
            raise ValueError(message)
        return self._file

    def _write(self, data: bytes | bytearray) -> None:
        self._opened().write(data)

    def _truncate(self) -> None:
        self._opened().truncate()

    def _examine(self, look: Callable[[BinaryIO, int], T]) -> T:
        file = self._opened().file
        try:
            return look(file, self.length)
        finally:
            file.seek(self.length)

    def _commit(self) -> None:
        self._opened().commit()

    def _discard(self) -> None:
        if self._file is not None:
            self._file.discard()


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "its folder does not exist"
    return (error.strerror or str(error)).lower()

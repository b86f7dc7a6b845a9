"""The standard streams of the server."""

import asyncio
import io
import os
import select
import sys
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from typing import Any


class _Input(io.RawIOBase):
    """stdin, until it is closed or :meth:`stop` is called: the thread of a blocking read could not be stopped."""

    def __init__(self) -> None:
        self._stopped, self._stop = os.pipe()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        ready, _, _ = select.select([0, self._stopped], [], [])
        data = b"" if self._stopped in ready else os.read(0, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def stop(self) -> None:
        os.write(self._stop, b"-")


async def run_on_streams(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a server on the process's stdin and stdout, until stdin is closed or this is cancelled."""
    source, stdin = _Input(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BufferedReader(source))
    try:
        with redirect_stdout(sys.__stdout__):
            running = asyncio.get_running_loop().create_task(run(), name="server")
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                source.stop()
                await running
                raise
    finally:
        sys.stdin = stdin

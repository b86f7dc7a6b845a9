"""A file written to stdout, for ``-o -``."""

import asyncio
import os
import select
import sys
import threading
from pathlib import Path

#: Bytes that a writable pipe takes without waiting (PIPE_BUF), and the seconds after which a cancellation is noticed.
_COPIED_AT_ONCE = 4096
_MOMENT = 0.1


async def copy_to_stdout(path: Path) -> None:
    """Write the file to stdout; progress and messages are on stderr. Cancelling stops within a moment, also while the
    reader of a pipe does not read.

    Raises:
        OSError: Only a part was written; BrokenPipeError: the reader closed the pipe.
    """
    sys.stdout.flush()
    is_cancelled = threading.Event()
    try:
        await asyncio.to_thread(_copy, path, sys.stdout.fileno(), is_cancelled)
    finally:
        is_cancelled.set()


def _copy(path: Path, stdout: int, is_cancelled: threading.Event) -> None:
    with path.open("rb") as file:
        while piece := file.read(_COPIED_AT_ONCE):
            while piece and not is_cancelled.is_set():
                if _is_writable(stdout):
                    piece = piece[os.write(stdout, piece) :]


def _is_writable(descriptor: int) -> bool:
    """Whether a write returns at once; it waits for that for a moment."""
    if sys.platform == "win32":  # select() is for sockets only
        return True
    return bool(select.select([], [descriptor], [], _MOMENT)[1])

"""Where a video is saved: the file, the directory or stdout that ``-o`` names."""

import os
import select
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from vidgen_async.errors import DownloadError

if TYPE_CHECKING:
    from vidgen_async import Client


#: Bytes that a writable pipe takes without waiting (PIPE_BUF), and the seconds after which a cancellation is noticed.
_COPIED_AT_ONCE = 4096
_MOMENT = 0.1


@frozen(kw_only=True)
class Target:
    """Where the video is saved. An existing file is replaced only if ``may_replace``."""

    path: Path
    may_replace: bool = False
    is_folder: bool = False
    """The video gets the name of its task in the directory ``path``: see :meth:`of_task`."""

    @classmethod
    def named(cls, output: str, *, may_replace: bool) -> "Target":
        """The target of ``-o``: a directory if one exists, or if the name ends with a slash; then it is created."""
        try:
            is_new = output.endswith(("/", os.sep))
            is_folder = is_new or os.path.isdir(output)  # noqa: PTH112 - False for a name that is too long
            if is_new:
                Path(output).mkdir(exist_ok=True)
        except OSError as error:
            raise DownloadError(f"cannot create the directory {output}: {error.strerror or error}") from error
        return cls(path=Path(output), may_replace=may_replace, is_folder=is_folder)

    def of_task(self, client: "Client", task_id: str) -> "Target":
        """The file for the video of this task."""
        if not self.is_folder:
            return self
        return evolve(self, path=self.path / client.videos.file_name(task_id), is_folder=False)

    @property
    def is_stdout(self) -> bool:
        """Whether the video is written to stdout."""
        return str(self.path) == "-"

    async def check(self, client: "Client") -> None:
        """Raise DownloadError if no video can or may be saved there."""
        if self.is_stdout:
            if sys.stdout.isatty() and not self.may_replace:
                raise DownloadError(
                    "a video is not written to a terminal: redirect stdout, or name a file; --force writes it anyway"
                )
            return
        await client.videos.check_target(self.path / "video.mp4" if self.is_folder else self.path)
        if not (self.may_replace or self.is_folder) and os.path.lexists(self.path):  # noqa: ASYNC240 - it takes no time
            raise DownloadError(f"the file {self.path} already exists; --force replaces it")


async def copy_to_stdout(path: Path) -> None:
    """Write the file to stdout; OSError if only a part was written. Cancelling stops a pipe that is not read, too."""
    import asyncio  # noqa: PLC0415 - help needs no event loop

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
                # On Windows select() is for sockets only.
                if sys.platform == "win32" or select.select([], [stdout], [], _MOMENT)[1]:
                    piece = piece[os.write(stdout, piece) :]

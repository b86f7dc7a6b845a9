"""The directory of a batch, which no other batch uses meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vidgen_async.atomic_file import try_lock
from vidgen_async.batch.rows import problem_of_output
from vidgen_async.errors import DownloadError


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """A block in which the directory, which is created, is locked. The system releases the lock when the process has
    ended, whatever ended it. Some network file systems have no such locks.

    Raises:
        DownloadError: Another batch uses it, or it cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        message = f"no video can be saved in {str(directory)!r}: {(error.strerror or str(error)).lower()}"
        raise DownloadError(message) from error
    try:
        if not try_lock(descriptor):
            raise DownloadError(f"another batch is saving videos in {str(directory)!r}: wait for its end")
        yield
    finally:
        os.close(descriptor)


def prepare_target(directory: Path, output: str) -> Path:
    """Return the path of a video, whose directory is created. DownloadError if that is not possible."""
    problem = problem_of_output(directory, output)  # again: links may have changed
    target = directory / output
    try:
        if not problem:
            target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
    if problem:
        raise DownloadError(f"the video cannot be saved as {str(target)!r}: {problem}")
    return target

"""Replace a file atomically: a reader gets the old content or all of the new one."""

import errno
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Characters of the target's name in the temporary one: with four bytes each it still fits into 255 bytes.
_LONGEST_NAME = 50


class AtomicFile:
    """``with AtomicFile(target) as new``: a new file beside the target; leaving the block removes it, unless
    :meth:`commit` has moved it to the target. It is locked, so that the next one for the same target, or ``name``, can
    remove what a killed process left; without locks (Windows, some network file systems) that stays.
    """

    def __init__(
        self, target: Path, *, name: str = "", mode: int = 0o666, keep_mode: bool = False, is_durable: bool = True
    ) -> None:
        self.length = 0
        """Bytes written by :meth:`write`."""
        self._target = target
        self._is_durable = is_durable
        self._is_closed = False
        self.path, descriptor = _create_locked(target, name or target.name, mode)
        self.file: BinaryIO = os.fdopen(descriptor, "w+b", buffering=0)
        self._final_mode: int | None = None
        if keep_mode:
            with suppress(OSError):  # a new target, or a file system without permissions
                self._final_mode = stat.S_IMODE(target.stat().st_mode)
                self.path.chmod(self._final_mode | stat.S_IRUSR | stat.S_IWUSR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, data: bytes | bytearray) -> None:
        """Write all of the data."""
        view = memoryview(data)
        while view:
            written = self.file.write(view)
            self.length += written
            view = view[written:]

    def truncate(self) -> None:
        """Make it an empty file again."""
        self.file.seek(0)
        self.file.truncate()
        self.length = 0

    def commit(self, *, overwrite: bool = True) -> None:
        """Move the file to the target. OSError, also FileExistsError without ``overwrite``: the target is unchanged."""
        if self._final_mode is not None:
            self.path.chmod(self._final_mode)
        if self._is_durable:
            os.fsync(self.file.fileno())
        if fcntl is None:
            self.file.close()  # Windows does not move open files
        # Before the lock is released.
        if overwrite:
            self.path.replace(self._target)
        else:
            _move_to_new(self.path, self._target)
        self._is_closed = True
        self.file.close()
        if self._is_durable:
            with suppress(OSError):  # not supported by the system: a loss of power restores the old file
                directory = os.open(self._target.parent, os.O_RDONLY)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)

    def discard(self) -> None:
        """Remove it; it has no effect after :meth:`commit`, and can be called several times."""
        if self._is_closed:
            return
        self._is_closed = True
        if fcntl is None:
            self.file.close()
        try:
            self.path.unlink(missing_ok=True)  # before the lock is released
        finally:
            self.file.close()


def _create_locked(target: Path, name: str, mode: int) -> tuple[Path, int]:
    """Create and lock a temporary file beside the target. Return its path and descriptor."""
    for number in count():
        suffix = f"-{number}" if number else ""
        path = target.with_name(f".{name[:_LONGEST_NAME]}.vidgen{suffix}.part")
        while True:
            try:
                # O_EXCL never follows a link and never opens an existing file.
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            except FileExistsError:
                if _remove_abandoned(path):
                    continue
                break
            if try_lock(descriptor) and _is_file_at(path, descriptor):
                return path, descriptor
            os.close(descriptor)  # another process took it for an abandoned one
    raise AssertionError


def try_lock(descriptor: int) -> bool:
    """Lock a file or a directory. Return False if another process has locked it; True also where there are no locks."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_abandoned(path: Path) -> bool:
    """Remove the temporary file of a process that was killed. Return False if it is in use, or cannot be removed."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_file_at(path, descriptor):
            path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _move_to_new(path: Path, target: Path) -> None:
    """Move a file to a target that does not exist; FileExistsError if it does, also if it was created just now."""
    try:
        target.hardlink_to(path)  # unlike a rename it never replaces a file
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        path.replace(target)
    else:
        path.unlink()

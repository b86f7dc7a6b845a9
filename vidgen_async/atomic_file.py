"""Replace a file atomically: a reader gets the old content or all of the new one."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

#: Characters of the target's name in the temporary one: with four bytes each it still fits into 255 bytes.
_LONGEST_NAME = 50


class AtomicFile:
    """``with AtomicFile(target) as new``: a new file in the target's directory; leaving the block removes it unless
    :meth:`commit` has moved it to the target.

    Args:
        target: The file to replace. A symbolic link is replaced itself, not what it points to.
        mode: The permissions of the new file, before the umask.
        is_durable: :meth:`commit` returns when the content and the new name survive a loss of power.
    """

    def __init__(self, target: Path, *, mode: int = 0o666, is_durable: bool = True) -> None:
        self.path: Path = target.with_name(f".{target.name[:_LONGEST_NAME]}.{secrets.token_hex(6)}.part")
        self.length = 0
        """Bytes written by :meth:`write`."""
        self._target = target
        self._is_durable = is_durable
        # O_EXCL never follows a link and never opens an existing file.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        self.file: BinaryIO = os.fdopen(descriptor, "w+b", buffering=0)
        self._is_at_target = False

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

    def commit(self) -> None:
        """Replace the target with the file.

        Raises:
            OSError: The target is unchanged.
        """
        if self._is_durable:
            os.fsync(self.file.fileno())
        self.file.close()
        self.path.replace(self._target)
        self._is_at_target = True
        if self._is_durable:
            _sync_directory(self._target.parent)

    def discard(self) -> None:
        """Remove it; it has no effect after :meth:`commit`, and can be called several times."""
        self.file.close()
        if not self._is_at_target:
            self.path.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the new name durable. If the system does not support it, a loss of power restores the old file."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

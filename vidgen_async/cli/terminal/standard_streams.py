"""stdout and stderr for one run: what they cannot take changes what is shown, and never what a paid order comes to."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from vidgen_async.errors import VidgenError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(VidgenError):
    """What a command has to print cannot be written."""


class GuardedStream(io.TextIOBase):
    """Writes to ``stream``, whatever becomes of that: a terminal that is gone, a closed pipe, a full disk. A character
    that its encoding does not have is escaped.

    What fails is dropped, and ``error`` is the first failure. While ``is_strict``, BrokenPipeError (nobody reads it)
    or OutputError is raised instead.
    """

    def __init__(self, stream: TextIO, *, is_strict: bool = False) -> None:
        self._stream = stream
        self.is_strict = is_strict
        self.error: Exception | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only, as that of every other stream
        return self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override] # as above
        return "backslashreplace"

    @property
    def buffer(self) -> "_GuardedBuffer":
        return _GuardedBuffer(self, self._stream.buffer)

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.guard():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                self._stream.write(text.encode(self.encoding, self.errors).decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        with self.guard():
            self._stream.flush()

    def finish(self) -> None:
        """Leave nothing in the stream's buffer that would fail once more when the process ends: with a message, and an
        exit code of the interpreter's own."""
        self.is_strict = False
        try:
            self._stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                number = self._stream.fileno()
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)
                self._stream.flush()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A block that writes to the stream."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:  # a closed file is a ValueError
            self.error = self.error or error
            if not self.is_strict:
                return
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"the output cannot be written: {_reason(error)}") from error


class _GuardedBuffer(io.BufferedIOBase):
    """The bytes below a guarded stream."""

    def __init__(self, owner: GuardedStream, stream: BinaryIO) -> None:
        self._owner = owner
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        with self._owner.guard():
            self._stream.write(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        with self._owner.guard():
            self._stream.flush()


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard the standard streams of the process; a second time changes nothing.

    stdout is strict until :func:`drop_lost_output`: most commands have nothing to do but to print.
    """
    if isinstance(sys.stdout, GuardedStream):
        yield
        return
    _open_closed_descriptors()
    before = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - in the place of what is None: was closed
        guards = GuardedStream(sys.stdout or nowhere, is_strict=True), GuardedStream(sys.stderr or nowhere)
        sys.stdin = sys.stdin or io.StringIO()
        sys.stdout, sys.stderr = (cast("TextIO", guard) for guard in guards)
        try:
            yield
        finally:
            for guard in guards:
                guard.finish()
            sys.stdin, sys.stdout, sys.stderr = before


def drop_lost_output() -> None:
    """From now on the run has a result of its own, such as an order: it goes on where stdout cannot take a line."""
    if isinstance(sys.stdout, GuardedStream):
        sys.stdout.is_strict = False


def lost_output() -> str | None:
    """Why something that was meant for stdout is missing there; None where nothing is, or where nobody reads it."""
    error = sys.stdout.error if isinstance(sys.stdout, GuardedStream) else None
    return None if error is None or isinstance(error, BrokenPipeError) else _reason(error)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _open_closed_descriptors() -> None:
    """A standard descriptor that is closed would be given to the next file or socket, into which whatever writes to
    stderr by its number would then write."""
    with suppress(OSError):
        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(opened)

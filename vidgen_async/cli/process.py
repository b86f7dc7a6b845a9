"""The process of a run: its standard streams, where output that cannot be written never changes the outcome of a paid
order; and Ctrl-C before it handles signals."""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from vidgen_async.errors import VidgenError


class OutputError(VidgenError):
    """The output of a command cannot be written."""


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream goes to a terminal that can move the cursor."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


class GuardedStream(io.TextIOBase):
    """Drops output that cannot be written and notes the first ``error``; if ``is_strict``, raises it instead."""

    def __init__(self, stream: TextIO, *, is_strict: bool = False, is_closed: bool = False) -> None:
        self._stream = stream
        self._is_closed = is_closed
        self.is_strict = is_strict
        self.error: Exception | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only, as that of every other stream
        return self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override] # as above
        return "backslashreplace"

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        if self._is_closed:
            raise OSError(errno.EBADF, "it is closed")
        return self._stream.fileno()

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
        """Empty the buffer: at exit the interpreter would fail to flush it, with an exit code of its own."""
        self.is_strict = False
        try:
            self._stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                number = self._stream.fileno()
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, number)
                os.close(null)
                self._stream.flush()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Handle the errors of a block that writes to the stream."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:  # a closed file is a ValueError
            self.error = self.error or error
            if not self.is_strict:
                return
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"cannot write the output: {_reason(error)}") from error


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard the standard streams of the process. stdout is strict until :func:`drop_lost_output`."""
    if "_VIDGEN_COMPLETE" in os.environ:  # completion by click writes bytes
        yield
        return
    _open_closed_descriptors()
    before = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as null:  # noqa: PTH123 - replaces a stream that is None: a closed descriptor
        guards = (
            GuardedStream(sys.stdout or null, is_strict=True, is_closed=sys.stdout is None),
            GuardedStream(sys.stderr or null),
        )
        sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())
        sys.stdout, sys.stderr = (cast("TextIO", guard) for guard in guards)
        try:
            yield
        finally:
            for guard in guards:
                guard.finish()
            sys.stdin, sys.stdout, sys.stderr = before


def drop_lost_output() -> None:
    """Drop output that cannot be written: the run has a result of its own, such as an order."""
    if isinstance(sys.stdout, GuardedStream):
        sys.stdout.is_strict = False


def lost_output() -> str | None:
    """Why output to stdout was dropped; None if none was, or if the reader closed the pipe."""
    error = sys.stdout.error if isinstance(sys.stdout, GuardedStream) else None
    return None if error is None or isinstance(error, BrokenPipeError) else _reason(error)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _open_closed_descriptors() -> None:
    """Open closed standard descriptors: the next file would get their numbers, and what is written to them."""
    with suppress(OSError):
        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(opened)


@contextmanager
def exit_at_interrupts() -> Iterator[None]:
    """Exit at Ctrl-C until a run handles it: an import could turn KeyboardInterrupt into another exception."""

    def exit_now(*_: object) -> None:
        with suppress(OSError):
            os.write(2, b"error: interrupted\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, or handled by an application
        yield
        return
    signal.signal(signal.SIGINT, exit_now)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
